/* What happens beside calls, as events of spans, or spans of their own. See sink_otlp.h. */

#ifdef HAVE_LIBPROTOBUF_C

#include "tracer/otlp/sink_otlp_parts.h"

#include <stdio.h>
#include <stdlib.h>

/* Of the innermost call, whose part is the end of fiber->kept. */
static void keep_event(struct fiber *fiber, const struct call *call, const ProtobufCMessage *event)
{
	struct kept kept = otlp_kept(fiber, call);
	size_t place = fiber->kept.size;
	uint32_t size = 0;

	if (kept.events == SPAN_EVENTS_MAX) {
		kept.dropped++;
	} else {
		kept.events++;
		buffer_add(&fiber->kept, (const char *)&size, sizeof(size));
		otlp_pack(&fiber->kept, event);
		size = (uint32_t)(fiber->kept.size - place - sizeof(size));
		memcpy(fiber->kept.bytes + place, &size, sizeof(size));
	}
	memcpy(fiber->kept.bytes + call->kept, &kept, sizeof(kept));
}

/* A span of its own, with the attributes that there are. */
static void add_lonely(struct otlp_sink *otlp, const struct stream *stream, const char *name, uint64_t from_ns, uint64_t to_ns,
                       const char *error)
{
	Otlp__Span span = OTLP__SPAN__INIT;
	Otlp__Span__Status status = OTLP__SPAN__STATUS__INIT;
	struct span_ids ids;

	otlp_random(otlp, ids.trace, sizeof(ids.trace));
	otlp_random(otlp, ids.span, sizeof(ids.span));
	span.trace_id = otlp_bytes(ids.trace, sizeof(ids.trace));
	span.span_id = otlp_bytes(ids.span, sizeof(ids.span));
	span.name = otlp_string(name);
	span.kind = SPAN_KIND_INTERNAL;
	span.start_time_unix_nano = from_ns;
	span.end_time_unix_nano = to_ns;
	span.attributes = otlp->event_attributes.list;
	span.n_attributes = otlp->event_attributes.count;
	if (error) {
		status.code = SPAN_STATUS_ERROR;
		status.message = otlp_string(error);
		span.status = &status;
	}
	otlp_add_span(otlp, stream, &span);
}

/* In the innermost call, or, outside of all, as a span of its own. Uses the attributes up. */
static void add_happening(struct otlp_sink *otlp, struct fiber *fiber, const char *name, uint64_t time_ns)
{
	Otlp__Span__Event event = OTLP__SPAN__EVENT__INIT;
	uint64_t ns = otlp_wall_ns(otlp, fiber->stream, time_ns);
	const struct call *call = otlp_around(fiber);

	if (call) {
		keep_event(fiber, call, otlp_fill_event(&event, &otlp->event_attributes, name, ns));
	} else {
		otlp_add_place(&otlp->event_attributes, fiber);
		add_lonely(otlp, fiber->stream, name, ns, ns, NULL);
	}
	otlp_attributes_clear(&otlp->event_attributes);
}

void otlp_on_mark(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;
	struct otlp_attributes *to = &otlp->event_attributes;
	const struct mark_form *form = method->mark;
	struct values values = event->values;
	struct slice value;

	for (uint32_t i = 0; i < MARK_VALUES_MAX && form->labels[i] && values_next(&values, &value); i++) {
		char number[24];

		if (!value.bytes)
			continue;
		snprintf(number, sizeof(number), "%.*s", (int)value.size, value.bytes);
		if (form->stack && i == form->stack)
			otlp_add_stack(to, fiber->stream, strtoull(number, NULL, 10));
		else if (method->mark_kind == MARK_RAISE && i < 2)
			otlp_add_text(to, i ? "exception.message" : "exception.type", value);
		else if (form->numbers & 1u << i && *number != '-')
			otlp_add_named_int(to, "rbprobe.", form->labels[i], (int64_t)strtoull(number, NULL, 10));
		else
			otlp_add_named(to, "rbprobe.", (struct slice){form->labels[i], strlen(form->labels[i])}, value);
	}
	add_happening(otlp, fiber, form->name, event->time_ns);
}

void otlp_on_line(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;
	struct values values = event->values;
	struct measures measures = measures_take_stack(&values, sink->style.flags);

	otlp_add_code(&otlp->event_attributes, line);
	otlp_add_values(&otlp->event_attributes, "rbprobe.args.", &line->labels, values);
	otlp_add_measures(&otlp->event_attributes, fiber->stream, &measures);
	add_happening(otlp, fiber, "line", event->time_ns);
}

void otlp_on_lost(struct sink *sink, struct stream *stream, const struct record_lost *lost)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;

	otlp_add_int(&otlp->event_attributes, "rbprobe.lost_calls", (int64_t)lost->calls);
	add_lonely(otlp, stream, "rbprobe: calls lost", otlp_wall_ns(otlp, stream, lost->from_ns),
	           otlp_wall_ns(otlp, stream, lost->to_ns), "calls of this time are not here");
	otlp_attributes_clear(&otlp->event_attributes);
}

#endif
