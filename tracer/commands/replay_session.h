#ifndef RBPROBE_REPLAY_SESSION_H
#define RBPROBE_REPLAY_SESSION_H

#include "tracer/base/buffer.h"
#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/commands/replay_when.h"
#include "tracer/commands/trace_target.h"
#include "tracer/recording/filter.h"
#include "tracer/recording/recording_read.h"

#include <stddef.h>

/* The sessions of a recording, shown as if they were live. */

struct replayed; /* one of them */

struct replay_sessions {
	struct run run; /* as a trace has it, without attaching */
	struct options *options;
	struct replayed **items; /* by number */
	size_t count;
	uint64_t memory, memory_max; /* bytes that those that are open take, and may take */
	uint32_t selector_count;
	char **selectors;               /* the recording's */
	const struct sink_maker *maker; /* set by the owner; NULL: a sink of --format */
	struct replay_when from, to;    /* set by the owner, after replay_open() */
	const struct filter_left *left; /* set by the owner: gets the calls that are not shown; NULL: nobody */
	struct filter_wants wants;      /* what is shown of it */
	bool *met;                      /* by selector of the options: something of it was recorded */
	bool files;                     /* one for each process */
	const char *path;               /* of the recording, which is none of these */
	struct pid_list written;        /* those that have their file: another session goes on in it */
	int status;                     /* negative: a file could not be written, which was said */
	char host[256];                 /* where the recording was made */
	/* A session begins, as whose sink `sink` will get its calls; set by the owner; NULL: nobody wants to know. */
	void (*begins)(const struct replay_sessions *sessions, struct sink *sink, const struct stream *stream,
	               const struct recording_session *session);
	void (*part)(void *owner, const struct recording_item *item); /* set by the owner: gets each part first; NULL: nobody */
	void *part_owner;
};

/* Whether the output goes into the recording itself, which is said. path: "-" is standard input. */
bool replay_overwrites(const struct output *output, const char *path);
/* path: of the recording. options: those of the recording take the place of what only it can know. */
void replay_open(struct replay_sessions *sessions, const char *path, struct options *options, struct output *output);
/*
 * Shows all that a recording has, or as much as is wanted. 0, or negative with err as recording_next(); also 0 after a signal,
 * which is the reason for the end then.
 */
int replay_all(struct replay_sessions *sessions, struct recording_reader *reader, struct error *err);
/* --- What it does for that. A recording begins, perhaps after another. */
void replay_head(struct replay_sessions *sessions, const struct recording_head *head);
/* 0, or negative with err. */
int replay_session(struct replay_sessions *sessions, const struct recording_session *session, struct error *err);
/* Records of it. */
int replay_records(struct replay_sessions *sessions, const struct recording_block *block, const struct buffer *records,
                   struct error *err);
void replay_end(struct replay_sessions *sessions, const struct recording_end *end);
/* --count: enough has been shown. */
bool replay_has_enough(const struct replay_sessions *sessions);
/* A session has no end, as when whoever recorded it was killed. After replay_all(). */
bool replay_breaks_off(const struct replay_sessions *sessions);
/* Sessions that have no end end here. Frees everything. Negative: a file could not be written, which was said. */
int replay_close(struct replay_sessions *sessions);

#endif
