#ifndef RBPROBE_OTLP_JSON_H
#define RBPROBE_OTLP_JSON_H

#include "tracer/base/buffer.h"
#include "tracer/otlp/otlp_settings.h"

/* OTLP's JSON (http/json), made of the packed messages of otlp.proto. Any thread: it has no state. */

/* Appends the object; what is no such message ends it early, as valid JSON. */
void otlp_json_add(struct buffer *to, enum otlp_signal signal, const struct buffer *packed);

#endif
