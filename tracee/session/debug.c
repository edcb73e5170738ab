/* Debug lines to clients. See debug.h. Context: job, GVL held. */

#include "tracee/session/debug.h"

#include <stdio.h>
#include <string.h>

static void send_line(struct session *session, enum debug_domain domain, const char *text)
{
	struct record record = {.kind = RECORD_DEBUG, .debug = {.text = {text, strlen(text)}}};

	while (!((uint32_t)domain >> record.debug.domain & 1))
		record.debug.domain++;
	session_send(session, &record);
}

void debug_send(struct session *session, enum debug_domain domain, const char *format, ...)
{
	char text[1000];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	send_line(session, domain, text);
}

static void send_to_list(struct session *list, enum debug_domain domain, const char *text)
{
	for (struct session *session = list; session; session = session->next)
		if (session->debug & (uint32_t)domain)
			send_line(session, domain, text);
}

void debug_all(enum debug_domain domain, const char *format, ...)
{
	char text[1000];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	send_to_list(session_first(), domain, text);
	send_to_list(session_finished(), domain, text);
}
