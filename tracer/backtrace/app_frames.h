#ifndef RBPROBE_APP_FRAMES_H
#define RBPROBE_APP_FRAMES_H

#include "proto/slice.h"

#include <stdbool.h>

/*
 * Whose a frame is, by its file's path: of a gem (".../gems/rack-2.2.6/lib/rack/builder.rb": "rack-2.2.6", "rack/builder.rb"), of
 * Ruby's own library ("ruby-3.1.0"), of the distribution's ("vendor_ruby"), or the application's.
 */
struct frame_origin {
	struct slice library; /* empty: the application's */
	struct slice file;    /* in the library; of the application's the whole path */
	const char *prefix;   /* in front of the library's name: "ruby-", or "" */
};

struct frame_origin frame_origin_of(struct slice path);

#endif
