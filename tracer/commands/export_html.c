/* A recording as a page. See export_html.h. */

#define _GNU_SOURCE
#include "tracer/commands/export_html.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/commands/replay_session.h"
#include "tracer/html/html.h"

#include <errno.h>
#include <string.h>

struct making {
	struct html *html;
	const struct options *options;
	bool unconfirmed; /* nobody has said for one of its sessions what was lost */
};

static struct sink *make_sink(void *owner, struct output *output)
{
	const struct making *making = owner;

	return html_sink(making->html, output, &making->options->style);
}

static void on_part(void *owner, const struct recording_item *item)
{
	struct making *making = owner;

	html_note_part(making->html, item);
	if (item->part == RECORDING_END &&
	    memmem(item->end.reason.bytes, item->end.reason.size, SUMMARY_UNCONFIRMED, strlen(SUMMARY_UNCONFIRMED)))
		making->unconfirmed = true;
}

int export_html(struct invocation *invocation, struct recording_reader *reader, const struct export_html *wanted)
{
	struct making making = {.html = html_new(wanted->calls_max), .options = &invocation->options};
	const struct sink_maker maker = {.make = make_sink, .owner = &making};
	struct replay_sessions sessions;
	struct error err;
	bool begun;
	int status;

	replay_open(&sessions, wanted->path, &invocation->options, &invocation->output);
	sessions.maker = &maker;
	sessions.part = on_part;
	sessions.part_owner = &making;
	sessions.from = wanted->from;
	sessions.to = wanted->to;
	status = replay_all(&sessions, reader, &err);
	if (status < 0)
		html_note(making.html, err.text);
	else if (sessions.run.stop_reason)
		html_note(making.html, "a signal came while this page was made: the recording has more");
	if (status == 0 && (making.unconfirmed || replay_breaks_off(&sessions)))
		html_note(making.html, "a recorder or a process was killed: calls may be missing that nobody counted");
	if (filter_wants_any(&sessions.wants))
		html_note(making.html, "calls were chosen by options of the export: the recording may have more");
	/* Of a damaged file there is what came before the damage. */
	begun = sessions.run.sink != NULL;
	replay_close(&sessions);
	if (status == 0 || begun)
		html_write(making.html, wanted->path, &invocation->output.buffer);
	html_free(making.html);
	if (status < 0)
		message("%s", err.text);
	return status < 0 && status != -ENODATA ? STATUS_FAILED : STATUS_DONE;
}
