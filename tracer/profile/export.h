#ifndef RBPROBE_EXPORT_H
#define RBPROBE_EXPORT_H

#include "tracer/profile/profile_view.h"

#include "tracer/base/buffer.h"

/* A format of somebody else's that a profile can be written in. One file each. */
struct export_format {
	const char *name;
	void (*write)(const struct profile_view *view, struct buffer *to);
};

extern const struct export_format export_collapsed; /* what flamegraph.pl reads */
extern const struct export_format export_speedscope;
extern const struct export_format export_callgrind;
extern const struct export_format export_svg;

/* All of them, for options and for people. */
#define EXPORT_FORMATS "collapsed|speedscope|callgrind|svg"
#define EXPORT_FORMATS_SAID "collapsed, speedscope, callgrind or svg"

/* All, up to a NULL. */
extern const struct export_format *const export_formats[];

#endif
