/* Debug lines. See debug.h. */

#include "tracer/base/debug.h"

#include "tracer/base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct domain {
	uint32_t bit;
	const char *name;
	const char *reports;
};

#define DOMAIN_ENTRY(number, NAME, domain_name, sentence) {1u << (number), #domain_name, sentence},

static const struct domain domains[] = {DEBUG_DOMAINS(DOMAIN_ENTRY)};

#define DOMAINS (sizeof(domains) / sizeof(*domains))

uint32_t debug_wanted;

static struct debug_lines *diverted; /* of this process; NULL: lines go to standard error */

static const char *name_of(uint32_t bit)
{
	for (size_t i = 0; i < DOMAINS; i++)
		if (domains[i].bit == bit)
			return domains[i].name;
	return "?";
}

/* As "name: text", with its NUL, after those that are there. */
static void divert(const char *line)
{
	size_t size = strlen(line) + 1;

	if (size > sizeof(diverted->bytes) - diverted->used) {
		diverted->left_out++;
		return;
	}
	memcpy(diverted->bytes + diverted->used, line, size);
	diverted->used += (uint32_t)size;
}

void debug_line(enum debug_domain domain, const char *format, ...)
{
	char line[2000];
	va_list args;
	int size = snprintf(line, sizeof(line), "debug %s: ", name_of((uint32_t)domain));

	va_start(args, format);
	vsnprintf(line + size, sizeof(line) - (size_t)size, format, args);
	va_end(args);
	if (diverted)
		divert(line);
	else
		message("%s", line);
}

void debug_from_process(int pid, uint32_t number, struct slice text)
{
	uint32_t bit = number <= DEBUG_DOMAIN_NUMBER_MAX ? 1u << number : 0;

	if (debug_wanted & bit)
		message("debug %s: from process %d: %.*s", name_of(bit), pid, (int)text.size, text.bytes);
}

void debug_divert(struct debug_lines *lines)
{
	diverted = lines;
}

void debug_show(const struct debug_lines *lines)
{
	uint32_t used = lines->used < sizeof(lines->bytes) ? lines->used : (uint32_t)sizeof(lines->bytes);

	for (uint32_t at = 0; at < used;) {
		size_t size = strnlen(lines->bytes + at, used - at);

		message("%.*s", (int)size, lines->bytes + at);
		at += (uint32_t)size + 1;
	}
	if (lines->left_out)
		message("debug: %u more lines found no room", lines->left_out);
}

static const struct domain *domain_named(const char *name, size_t size)
{
	for (size_t i = 0; i < DOMAINS; i++)
		if (strlen(domains[i].name) == size && memcmp(domains[i].name, name, size) == 0)
			return &domains[i];
	return NULL;
}

static uint32_t all_domains(void)
{
	uint32_t all = 0;

	for (size_t i = 0; i < DOMAINS; i++)
		all |= domains[i].bit;
	return all;
}

int debug_parse(const char *text, uint32_t *wanted, struct error *err)
{
	uint32_t found = 0;

	*wanted = 0;
	for (const char *at = text ? text : ""; *at;) {
		size_t size = strcspn(at, ", ");
		const struct domain *domain = domain_named(at, size);

		if (domain)
			found |= domain->bit;
		else if (size == strlen("all") && memcmp(at, "all", size) == 0)
			found = all_domains();
		else if (size > 0)
			return error_set(err, -EINVAL,
			                 "RBPROBE_DEBUG: there is no domain \"%.*s\"; RBPROBE_DEBUG=help lists them",
			                 (int)(size < 64 ? size : 64), at);
		at += size;
		at += strspn(at, ", ");
	}
	*wanted = found;
	return 0;
}

bool debug_help(void)
{
	printf("RBPROBE_DEBUG=DOMAIN[,DOMAIN...] rbprobe ... writes lines for people who debug rbprobe to standard error. all: "
	       "every domain.\n\n");
	for (size_t i = 0; i < DOMAINS; i++)
		printf("  %-9s %s\n", domains[i].name, domains[i].reports);
	return fflush(stdout) == 0;
}
