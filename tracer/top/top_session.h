#ifndef RBPROBE_TOP_SESSION_H
#define RBPROBE_TOP_SESSION_H

#include "tracer/attach/attach.h"
#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/stream/decode.h"
#include "tracer/stream/sink.h"
#include "tracer/stream/stat_table.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * One trace of one process, for `rbprobe top`: it counts, or gives its calls to a sink. As with requests nothing in here
 * waits, and nothing is said but the process's warnings (message.h): why a session is over is in its `why`.
 */

enum top_outcome {
	TOP_GOES_ON,
	TOP_ENDED,        /* as it was asked to, or by the process in order */
	TOP_NOT_ATTACHED, /* it could not be had at all */
	TOP_FAILED,
	TOP_GONE, /* the process was killed, or is another program now */
};

struct top_session {
	pid_t pid;
	enum top_outcome outcome;
	char why[512];         /* where the outcome is no success; printable */
	char ruby[32];         /* its version, printable; "": not known yet */
	bool armed;            /* the methods are */
	bool asked;            /* for its figures, which have not come yet */
	struct stat_table now; /* the newest whole figures */
	uint64_t answers;      /* how often these have come */

	/* private */
	struct attachment attachment;
	struct stream *stream;
	struct command command;
	struct selector_list selectors; /* of the command; its own where own_selectors is set */
	bool own_selectors;
	const struct options *options;
	struct sink *sink; /* the owner's, or quiet */
	struct sink *quiet;
	struct output unused; /* the quiet sink's, into which nothing is written */
	struct stat_table coming;
	bool has_end, stopping;
};

/*
 * Begins. command: a TRACE; its options count, its selectors are given beside it. sink: where calls go; NULL: there are
 * none, as they are counted. options: how to attach. For top_session_free() in any case; what is pointed to must stay.
 */
struct top_session *top_session_open(pid_t pid, const struct trace_options *trace, const struct selector_list *selectors,
                                     const struct options *options, struct sink *sink);
/* The same with a list that is made of these texts, of which the session keeps copies. */
struct top_session *top_session_open_texts(pid_t pid, const struct trace_options *trace, char *const *texts, size_t count,
                                           const struct options *options, struct sink *sink);

static inline bool top_session_is_over(const struct top_session *session)
{
	return session->outcome != TOP_GOES_ON;
}

/* What to poll for reading (-1: nothing), and when to step at the latest. */
int top_session_descriptor(const struct top_session *session);
uint64_t top_session_wake_ns(const struct top_session *session);
/* Does what is due. */
void top_session_step(struct top_session *session, short events, uint64_t now_ns);

/* Asks for its figures, unless it cannot answer now. */
void top_session_ask(struct top_session *session);
/* Lets go: at once where nothing is armed yet; else what is in flight, and the last figures, come first. */
void top_session_stop(struct top_session *session);
/* The client was busy, or stopped, for so long: that is not the target's time. */
void top_session_excuse(struct top_session *session, uint64_t busy_ns);
/* At any time; then the process lets go by itself. */
void top_session_free(struct top_session *session);

/* The method that a row of its figures is of; NULL: not known. */
const struct method *top_session_method(const struct top_session *session, struct slice name);

#endif
