#ifndef RBPROBE_EXPORT_H
#define RBPROBE_EXPORT_H

#include "tracer/base/buffer.h"
#include "tracer/base/library.h"
#include "tracer/base/output.h"
#include "tracer/profile/profile_view.h"
#include "tracer/stream/sink.h"

/* Stacks that a format has not written. */
struct export_left {
	uint64_t flood;    /* since the output would be one */
	uint64_t small;    /* since what they have is rounded to 0; */
	uint64_t small_ns; /* all of that */
};

/*
 * Formats of other programs. One file each, export_NAME.c, and a line in export.c. A format has one of the two, or both; or it is
 * the page for browsers, which tracer/html/ makes of either.
 */
struct export_format {
	const char *name;
	/* A profile; and recorded calls added up by stack (call_stacks.h), where it has no form for calls. */
	struct export_left (*profile)(const struct profile_view *view, struct output *output);
	/* Recorded calls as they come, of one process or several. */
	const struct sink_ops *calls;
	bool page;
	bool held;                 /* its sink is a struct held_sink */
	bool binary;               /* not for a terminal */
	bool needs[LIBRARY_COUNT]; /* refused where rbprobe was built without one of these libraries */
};

extern const struct export_format export_chrome;
extern const struct export_format export_perfetto;
extern const struct export_format export_pprof;
extern const struct export_format export_otlp;      /* its sink: sink_otlp_new() */
extern const struct export_format export_collapsed; /* what flamegraph.pl reads */
extern const struct export_format export_speedscope;
extern const struct export_format export_callgrind;
extern const struct export_format export_svg;

/* All of them, for options and for people. */
#define EXPORT_FORMATS "html|chrome|perfetto|otlp|pprof|collapsed|speedscope|callgrind|svg"
#define EXPORT_FORMATS_SAID "html, chrome, perfetto, otlp, pprof, collapsed, speedscope, callgrind or svg"

/* All, up to a NULL. */
extern const struct export_format *const export_formats[];

#endif
