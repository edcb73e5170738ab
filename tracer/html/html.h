#ifndef RBPROBE_HTML_H
#define RBPROBE_HTML_H

#include "tracer/profile/profile.h"
#include "tracer/recording/recording_read.h"
#include "tracer/stream/sink.h"

#include "tracer/base/buffer.h"

/* A recording or a profile as one page for a browser, which needs no network. Its program and style are in page/. */

struct html;

/* How many calls the timeline has, if nothing else is said: the longest ones. Tree and table have all. */
#define HTML_CALLS_DEFAULT 1000000u
#define HTML_CALLS_MAX 50000000u

/* Ends the program without memory, as buffers do. calls_max: of the timeline, at least 1. */
struct html *html_new(uint32_t calls_max);
void html_free(struct html *html);

/* A sink that keeps what it gets for the page. sink_free() frees it, and not the page. */
struct sink *html_sink(struct html *html, struct output *output, const struct sink_style *style);
/* A part of the recording, before it is shown. */
void html_note_part(struct html *html, const struct recording_item *item);
/* For people: what else is to be said of what is not there, such as a file that was cut short. */
void html_note(struct html *html, const char *text);

/* The whole page. name: of the file that it is of. */
void html_write(struct html *html, const char *name, struct buffer *to);
void html_write_profile(const struct profile *profile, const char *name, const char *note, struct buffer *to);

#endif
