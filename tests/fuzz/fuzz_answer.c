/* All that a process may send to who has asked it for something, up to what is shown of the answer. */

#define _GNU_SOURCE
#include "records.h"

/* What it does with records is nobody else's. */
#include "tracer/cli/request.c"

#include "tracer/backtrace/backtrace_report.h"
#include "tracer/base/value.h"
#include "tracer/commands/memory_report.h"
#include "tracer/commands/selftest_report.h"
#include "tracer/console/eval_text.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct shown {
	struct buffer text, json;
	struct report reports[2];
	struct memory_sample before;
	uint8_t mode;
};

static void show_evaluation(struct buffer *text, const msgpack_object *object)
{
	static const char code[] = "1\n  foo(\n\tbar";

	eval_text_result(text, object);
	eval_text_exception(text, object);
	eval_text_frames(text, object);
	eval_text_syntax_error(text, object, (struct slice){code, sizeof(code) - 1});
}

static void show_memory(struct shown *shown, const msgpack_object *object)
{
	static const struct target none = {.pid = 0};
	struct memory_sample sample;

	memory_sample_take(&sample, &none, object);
	memory_report_text(&shown->text, &none, &sample, shown->before.packed.size ? &shown->before : NULL,
	                   &(struct memory_rows){4, 10}, 80);
	memory_report_json(&shown->json, &none, &sample);
	memory_sample_free(&shown->before);
	shown->before = sample;
}

static void show_selftest(struct shown *shown, const msgpack_object *object)
{
	selftest_report_text(&shown->text, 1, object, true);
	selftest_report_failures(&shown->text, object);
	buffer_add_char(&shown->text, '\n');
	selftest_report_json(&shown->json, 1, object);
}

static int on_answer(struct request *request, const msgpack_object *object, struct error *nothing)
{
	struct shown *shown = request->owner;

	(void)nothing;
	switch (shown->mode % 4) {
	case 0:
		report_add(&shown->reports[0], object);
		report_add(&shown->reports[1], object);
		break;
	case 1:
		show_memory(shown, object);
		break;
	case 2:
		show_selftest(shown, object);
		break;
	default:
		show_evaluation(&shown->text, object);
		value_add_json(&shown->json, object);
		buffer_add_char(&shown->json, '\n');
	}
	return 0;
}

static int on_bytes(struct request *request, enum output_stream stream, struct slice bytes, struct error *nothing)
{
	struct shown *shown = request->owner;
	msgpack_object object = {.type = MSGPACK_OBJECT_STR, .via.str = {(uint32_t)bytes.size, bytes.bytes}};

	(void)nothing;
	(void)stream;
	value_add_json(&shown->json, &object);
	buffer_add_char(&shown->json, '\n');
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct request_handler consumer = {.data = on_answer, .output = on_bytes};
	static const struct options options = {.quiet = true};
	struct lies lies = {data, size};
	struct shown shown = {.mode = lies_byte(&lies)};
	struct report_style style = {.group = shown.mode & 0x80, .app = shown.mode & 0x20};
	struct request request = {
		.options = &options, .handler = &consumer, .owner = &shown, .command_id = FUZZ_REQUEST, .keep = true};
	struct error err;

	request.attachment.target.pid = request.attachment.target.own_pid = 1;
	request.attachment.state = ATTACHMENT_CONNECTED;
	request.attachment.command_id = FUZZ_REQUEST;
	shown.reports[0].pid = shown.reports[1].pid = 1;
	shown.reports[0].style = shown.reports[1].style = &style;
	shown.reports[1].json = true;
	request.stream = lies_stream(NULL, NULL, &stream_handler, &request);
	/* A second request in the same session, when the first is over. */
	if (lies_tell(&lies, request.stream, &err) == 0 && !request.command_id && !request.over)
		request.command_id = FUZZ_REQUEST;
	report_write(&shown.reports[0], shown.mode & 0x40 ? &shown.reports[0] : NULL, &style, &shown.text);
	report_write(&shown.reports[1], NULL, &style, &shown.json);
	must_be_harmless(&shown.text);
	must_be_json(&shown.json);
	lies_end(request.stream);
	outbox_free(&request.attachment.outbox);
	report_free(&shown.reports[0]);
	report_free(&shown.reports[1]);
	memory_sample_free(&shown.before);
	buffer_free(&shown.text);
	buffer_free(&shown.json);
	return 0;
}
