#ifndef RBPROBE_OTLP_ANSWER_H
#define RBPROBE_OTLP_ANSWER_H

#include "tracer/otlp/otlp_post.h"

/* What a server's answer means: its status of HTTP, and its body, an OTLP response where the status is 2xx, perhaps in JSON. */
void otlp_answer_read(struct otlp_answer *answer, long status, bool json, const struct buffer *body);

#endif
