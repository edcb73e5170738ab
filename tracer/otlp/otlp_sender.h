#ifndef RBPROBE_OTLP_SENDER_H
#define RBPROBE_OTLP_SENDER_H

#include "tracer/base/buffer.h"
#include "tracer/otlp/otlp_settings.h"

#include "proto/error.h"

#include <stdbool.h>

/*
 * Sends requests in a thread of its own, one after the other, and again where the server wants that: who gives them never waits.
 * What waits takes OTLP_QUEUE_MAX bytes at most; more is dropped, and counted. A request consists of items: spans, or points.
 */

#define OTLP_QUEUE_MAX (32u << 20)

struct otlp_sender;

struct otlp_counts {
	uint64_t sent;
	uint64_t dropped; /* items for which there was no room */
	uint64_t unsent;  /* that could not be sent until the end */
	uint64_t refused; /* requests that the server did not take, or items of those that it did: items */
	char why[300];    /* what was wrong last; "": nothing ever was */
};

/* settings: outlive it. 0, or negative with err. */
int otlp_sender_open(struct otlp_sender **made, const struct otlp_settings *settings, struct error *err);
/*
 * Takes the bytes of a request away. wait: for room, as long as a request may take, or until `stop` can be read (-1: nothing is
 * asked). False where there was none: it is dropped.
 */
bool otlp_sender_give(struct otlp_sender *sender, struct buffer *request, uint64_t items, bool wait, int stop);
/*
 * Whether there is something new to be said since the last time, into err: code 0, it will be tried again; else nothing will ever
 * be taken, and there is no use in going on.
 */
bool otlp_sender_ask(struct otlp_sender *sender, struct error *err);
/*
 * Waits until all is sent; at most the settings' timeout, or until `stop` can be read (-1: nothing is asked). Meanwhile it calls
 * `look` again and again, which may ask what is new.
 */
void otlp_sender_finish(struct otlp_sender *sender, int stop, void (*look)(void *owner), void *owner, struct otlp_counts *counts);
/* After that. */
void otlp_sender_close(struct otlp_sender *sender);

#endif
