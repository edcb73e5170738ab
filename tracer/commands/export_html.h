#ifndef RBPROBE_EXPORT_HTML_H
#define RBPROBE_EXPORT_HTML_H

#include "tracer/cli/subcommand.h"
#include "tracer/commands/replay_when.h"
#include "tracer/recording/recording_read.h"

#include <stdint.h>

/* `rbprobe export --to html` of a recording. */

struct export_html {
	const char *path;
	uint32_t calls_max; /* of the timeline */
	struct replay_when from, to;
};

/* Into the invocation's output. Returns a status, after a line on stderr where it is not STATUS_DONE. */
int export_html(struct invocation *invocation, struct recording_reader *reader, const struct export_html *wanted);

#endif
