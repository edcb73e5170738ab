/* A call that has ended, as a span of OpenTelemetry. See sink_otlp.h. */

#ifdef HAVE_LIBPROTOBUF_C

#include "proto/wire.h"
#include "tracer/otlp/sink_otlp_parts.h"
#include "tracer/stream/callers.h"

/* --- Attributes */

void otlp_add_values(struct otlp_attributes *to, const char *before, const struct labels *labels, struct values values)
{
	struct slice value;

	for (uint32_t i = 0; values_next(&values, &value); i++)
		if (value.bytes && i < labels->count)
			otlp_add_named(to, before, labels->names[i], value);
}

void otlp_add_stack(struct otlp_attributes *to, const struct stream *stream, uint64_t number)
{
	struct buffer text = {0};

	for (const struct caller *caller = callers_get(stream, number); caller; caller = caller->parent) {
		buffer_add_slice(&text, caller->file);
		buffer_add_format(&text, ":%d:in ", (int)caller->line);
		buffer_add_slice(&text, caller->label);
		buffer_add_char(&text, '\n');
	}
	if (text.size)
		otlp_add_owned(to, "code.stacktrace", &text);
}

void otlp_add_measures(struct otlp_attributes *to, const struct stream *stream, const struct measures *measures)
{
	static const struct {
		uint32_t flag;
		const char *key;
	} kinds[] = {{TRACE_CPU, "rbprobe.cpu_ns"}, {TRACE_OBJECTS, "rbprobe.objects"}, {TRACE_GC, "rbprobe.gc_ns"}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (measures->flags & kinds[i].flag && measures->numbers[i] != EVENT_NOT_KNOWN)
			otlp_add_int(to, kinds[i].key, (int64_t)measures->numbers[i]);
	if (measures->flags & TRACE_STACK)
		otlp_add_stack(to, stream, measures_stack(measures));
}

void otlp_add_place(struct otlp_attributes *to, const struct fiber *fiber)
{
	otlp_add_int(to, "thread.id", (int64_t)(fiber->native_id ? fiber->native_id : fiber->thread_id));
	if (fiber->thread_name.size)
		otlp_add_text(to, "thread.name", fiber->thread_name);
	otlp_add_int(to, "rbprobe.fiber", fiber->ref);
}

void otlp_add_code(struct otlp_attributes *to, const struct method *method)
{
	if (!method->file.bytes)
		return;
	otlp_add_text(to, "code.file.path", method->file);
	if (method->line > 0)
		otlp_add_int(to, "code.line.number", method->line);
}

static void name_of(struct buffer *to, const struct method *method)
{
	buffer_add_slice(to, method->class_name);
	if (method->class_name.size)
		buffer_add_char(to, method->separator);
	buffer_add_slice(to, method->method_name);
}

/* --- Events */

ProtobufCMessage *otlp_fill_event(Otlp__Span__Event *event, struct otlp_attributes *attributes, const char *name,
                                  uint64_t time_ns)
{
	event->time_unix_nano = time_ns;
	event->name = otlp_string(name);
	event->attributes = attributes->list;
	event->n_attributes = attributes->count;
	return &event->base;
}

/* --- Spans */

/* A value of so many hexadecimal digits, in the quotes of a String, of an expression that ends in this word. Not all may be 0. */
static bool id_of(const struct labels *labels, struct values values, const char *word, uint8_t *id, size_t size)
{
	struct slice value;

	for (uint32_t i = 0; values_next(&values, &value) && i < labels->count; i++) {
		struct slice label = labels->names[i];
		size_t digits = 0;
		uint8_t any = 0;

		if (!value.bytes || value.size != 2 * size + 2 || label.size < strlen(word) ||
		    memcmp(label.bytes + label.size - strlen(word), word, strlen(word)) != 0)
			continue;
		while (digits < 2 * size) {
			char c = value.bytes[1 + digits];
			int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

			if (digit < 0)
				break;
			id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit);
			any |= (uint8_t)digit;
			digits++;
		}
		if (digits == 2 * size && any)
			return true;
	}
	return false;
}

static void put_big_endian(uint8_t *to, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < 8 * count; i++)
		to[i] = (uint8_t)(words[i / 8] >> (56 - 8 * (i % 8)));
}

/*
 * The application's own span: as the process has found it, or where expressions of the user's show it by the names that the
 * opentelemetry gem has.
 */
static bool find_linked(struct span_ids *ids, const struct method *method, struct values values, const uint64_t *found)
{
	if (!found)
		return id_of(&method->labels, values, "hex_trace_id", ids->trace, TRACE_ID_SIZE) &&
		       id_of(&method->labels, values, "hex_span_id", ids->span, SPAN_ID_SIZE);
	put_big_endian(ids->trace, found, 2);
	put_big_endian(ids->span, found + 2, 1);
	return true;
}

static void add_exception(struct otlp_attributes *to, struct values texts)
{
	if (!texts.count)
		return;
	otlp_add_text(to, "exception.type", values_get(texts, 0));
	otlp_add_text(to, "exception.message", values_get(texts, 1));
}

/* What came with the end, but for an exception. Returns that, where it is one. measures: what was measured. */
static struct values add_outcome(struct otlp_sink *otlp, const struct fiber *fiber, const struct method *method,
                                 const struct ended *ended, struct measures *measures)
{
	struct otlp_attributes *to = &otlp->attributes;
	struct values texts = ended->outcome, locals, none = {0};
	bool has_locals;

	*measures = measures_take(&texts, otlp->sink.style.flags);
	has_locals = values_take_array(&texts, &locals);
	otlp_add_measures(to, fiber->stream, measures);
	if (has_locals)
		otlp_add_values(to, "rbprobe.locals.", &method->locals, locals);
	if (ended->ending == ENDING_RAISED)
		return texts;
	if (texts.count)
		otlp_add_text(to, "rbprobe.result", values_get(texts, 0));
	return none;
}

void otlp_call(struct otlp_sink *otlp, const struct fiber *fiber, const struct method *method, const struct ended *ended)
{
	Otlp__Span span = OTLP__SPAN__INIT;
	Otlp__Span__Status status = OTLP__SPAN__STATUS__INIT;
	Otlp__Span__Event event = OTLP__SPAN__EVENT__INIT;
	ProtobufCBinaryData events[SPAN_EVENTS_MAX + 1];
	Otlp__Span__Link link = OTLP__SPAN__LINK__INIT, *links[] = {&link};
	struct span_ids linked = {0};
	struct otlp_attributes *to = &otlp->attributes;
	struct buffer name = {0}, exception = {0};
	const char *at = ended->events;
	struct values raised;
	struct measures measures;

	name_of(&name, method);
	otlp_add_text(to, "code.function.name", (struct slice){name.bytes, name.size});
	otlp_add_code(to, method);
	otlp_add_place(to, fiber);
	otlp_add_values(to, "rbprobe.args.", &method->labels, ended->values);
	if (ended->retries)
		otlp_add_int(to, "rbprobe.retries", ended->retries);
	if (ended->open)
		otlp_add_string(to, "rbprobe.ended", "open");
	else if (ended->ending != ENDING_RETURNED)
		otlp_add_string(to, "rbprobe.ended", ending_name(ended->ending));
	raised = add_outcome(otlp, fiber, method, ended, &measures);
	for (uint32_t i = 0; i < ended->event_count; i++) {
		uint32_t size;

		memcpy(&size, at, sizeof(size));
		events[span.n_events++] = otlp_bytes(at + sizeof(size), size);
		at += sizeof(size) + size;
	}
	if (!ended->open && ended->ending == ENDING_RAISED) {
		add_exception(&otlp->event_attributes, raised);
		otlp_pack(&exception, otlp_fill_event(&event, &otlp->event_attributes, "exception", ended->end_ns));
		events[span.n_events++] = otlp_bytes(exception.bytes, exception.size);
		status.code = SPAN_STATUS_ERROR;
		status.message = otlp_text(to, values_get(raised, 1));
		span.status = &status;
	}
	span.trace_id = otlp_bytes(ended->ids->trace, TRACE_ID_SIZE);
	span.span_id = otlp_bytes(ended->ids->span, SPAN_ID_SIZE);
	if (ended->parent)
		span.parent_span_id = otlp_bytes(ended->parent->span, SPAN_ID_SIZE);
	span.name = otlp_text(to, (struct slice){name.bytes, name.size});
	span.kind = SPAN_KIND_INTERNAL;
	span.start_time_unix_nano = ended->start_ns;
	span.end_time_unix_nano = ended->end_ns;
	span.events = events;
	span.dropped_events_count = ended->dropped;
	span.attributes = to->list;
	span.n_attributes = to->count;
	span.dropped_attributes_count = to->dropped;
	if (find_linked(&linked, method, ended->values, measures_span(&measures))) {
		link.trace_id = otlp_bytes(linked.trace, TRACE_ID_SIZE);
		link.span_id = otlp_bytes(linked.span, SPAN_ID_SIZE);
		span.links = links;
		span.n_links = 1;
	}
	otlp_add_span(otlp, fiber->stream, &span);
	otlp_attributes_clear(to);
	otlp_attributes_clear(&otlp->event_attributes);
	buffer_free(&name);
	buffer_free(&exception);
}

#endif
