#ifndef RBPROBE_OTLP_POST_H
#define RBPROBE_OTLP_POST_H

#include "tracer/base/buffer.h"
#include "tracer/otlp/otlp_settings.h"

#include "proto/error.h"

#include <stdatomic.h>

/* One request of OTLP over HTTP. libcurl; of the sender's thread alone. */

struct otlp_post;

enum otlp_outcome {
	OTLP_TAKEN,
	OTLP_LATER,   /* it may work when it is tried again */
	OTLP_REFUSED, /* this one never will */
	OTLP_NEVER,   /* nothing ever will, here */
};

struct otlp_answer {
	enum otlp_outcome outcome;
	uint64_t wait_ns;  /* OTLP_LATER: so long the server wants to be left alone; 0: it did not say */
	uint64_t rejected; /* of the items, by a server that took the others */
	char why[300];     /* what is wrong; "": nothing */
};

/* 0, or negative with err. Before there are threads. */
int otlp_post_open(struct otlp_post **made, const struct otlp_settings *settings, struct error *err);
/* stop: not 0 ends it at once. */
void otlp_post_send(struct otlp_post *post, const struct buffer *request, uint64_t timeout_ns, atomic_bool *stop,
                    struct otlp_answer *answer);
void otlp_post_close(struct otlp_post *post);

#endif
