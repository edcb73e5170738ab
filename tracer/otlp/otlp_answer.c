/* What a server's answer to OTLP means. See otlp_answer.h. The answer is anybody's. */

#include "tracer/otlp/otlp_answer.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

#ifdef HAVE_LIBPROTOBUF_C
#include <tracer/otlp/otlp.pb-c.h>

/* Taken, though perhaps not all of it. Another body than OTLP's says nothing. */
static void read_partial(struct otlp_answer *answer, const struct buffer *body)
{
	Otlp__Response *response = otlp__response__unpack(NULL, body->size, (const uint8_t *)body->bytes);
	const Otlp__PartialSuccess *partial = response ? response->partial_success : NULL;

	if (partial && partial->rejected > 0)
		answer->rejected = (uint64_t)partial->rejected;
	if (partial && partial->error_message.len)
		snprintf(answer->why, sizeof(answer->why), "%.*s", (int)partial->error_message.len,
		         (const char *)partial->error_message.data);
	if (response)
		otlp__response__free_unpacked(response, NULL);
}
#else
static void read_partial(struct otlp_answer *answer, const struct buffer *body)
{
	(void)answer;
	(void)body;
}
#endif

#ifdef HAVE_JANSSON
/* {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "..."}}; numbers are strings here, or not. */
static void read_partial_json(struct otlp_answer *answer, const struct buffer *body)
{
	json_t *response = body->size ? json_loadb(body->bytes, body->size, 0, NULL) : NULL;
	const json_t *partial = json_object_get(response, "partialSuccess"), *rejected;
	const char *message = json_string_value(json_object_get(partial, "errorMessage"));
	long long count;

	rejected = json_object_get(partial, "rejectedSpans");
	if (!rejected)
		rejected = json_object_get(partial, "rejectedDataPoints");
	count = json_is_string(rejected) ? strtoll(json_string_value(rejected), NULL, 10) : json_integer_value(rejected);
	if (count > 0)
		answer->rejected = (uint64_t)count;
	if (message)
		snprintf(answer->why, sizeof(answer->why), "%s", message);
	json_decref(response);
}
#else
static void read_partial_json(struct otlp_answer *answer, const struct buffer *body)
{
	(void)answer;
	(void)body;
}
#endif

static const struct {
	long status;
	enum otlp_outcome outcome;
	const char *hint;
} meanings[] = {
	{301, OTLP_NEVER, "Moved: it is at another URL"},
	{302, OTLP_NEVER, "Found: it is at another URL"},
	{307, OTLP_NEVER, "it is at another URL"},
	{308, OTLP_NEVER, "it is at another URL"},
	{401, OTLP_NEVER, "Unauthorized: give what it wants in OTEL_EXPORTER_OTLP_HEADERS"},
	{403, OTLP_NEVER, "Forbidden: it does not take what OTEL_EXPORTER_OTLP_HEADERS gives it"},
	{404, OTLP_NEVER, "Not Found: it takes no OTLP at this URL"},
	{405, OTLP_NEVER, "Method Not Allowed: it takes no OTLP at this URL"},
	{415, OTLP_NEVER, "Unsupported Media Type: it does not take OTLP written so: see --otlp-as"},
	{413, OTLP_REFUSED, "Content Too Large"},
	{400, OTLP_REFUSED, "Bad Request"},
	{408, OTLP_LATER, "Request Timeout"},
	{429, OTLP_LATER, "Too Many Requests"},
	{502, OTLP_LATER, "Bad Gateway"},
	{503, OTLP_LATER, "Service Unavailable"},
	{504, OTLP_LATER, "Gateway Timeout"},
};

void otlp_answer_read(struct otlp_answer *answer, long status, bool json, const struct buffer *body)
{
	if (status >= 200 && status < 300) {
		answer->outcome = OTLP_TAKEN;
		if (json)
			read_partial_json(answer, body);
		else
			read_partial(answer, body);
		return;
	}
	answer->outcome = OTLP_REFUSED;
	snprintf(answer->why, sizeof(answer->why), "it answers %ld", status);
	for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
		if (meanings[i].status == status) {
			answer->outcome = meanings[i].outcome;
			snprintf(answer->why, sizeof(answer->why), "it answers %ld %s", status, meanings[i].hint);
		}
}
