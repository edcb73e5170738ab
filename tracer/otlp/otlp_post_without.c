/* Without libcurl there is no otlp_post.c: --otlp is refused before anything is to be sent. */

#ifndef HAVE_LIBCURL

#include "tracer/otlp/otlp_post.h"

#include <errno.h>

int otlp_post_open(struct otlp_post **made, const struct otlp_settings *settings, struct error *err)
{
	(void)made;
	(void)settings;
	return error_set(err, -ENOTSUP, "this rbprobe has no libcurl");
}

void otlp_post_send(struct otlp_post *post, const struct buffer *request, uint64_t timeout_ns, atomic_bool *stop,
                    struct otlp_answer *answer)
{
	(void)post;
	(void)request;
	(void)timeout_ns;
	(void)stop;
	*answer = (struct otlp_answer){.outcome = OTLP_NEVER};
}

void otlp_post_close(struct otlp_post *post)
{
	(void)post;
}

#endif
