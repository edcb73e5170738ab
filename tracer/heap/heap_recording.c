/* Recording allocations for as long as wanted. See heap_recording.h. */

#include "tracer/heap/heap_recording.h"

#include "proto/clock.h"
#include "proto/wire.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"

#define END_NS (5 * NS_PER_S) /* a process that is stuck ends it when it goes on: the session is closed */

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct heap_recording *recording = request->owner;

	(void)object;
	(void)err;
	recording->begun = true;
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	struct heap_recording *recording = request->owner;

	if (!recording->begun)
		request_report(request, code, text);
}

static const struct request_handler handler = {.data = on_data, .done = on_done};

static void step(struct heap_recording *recording, int signals_descriptor, uint64_t until_ns)
{
	struct request *request = &recording->request;
	uint64_t wake_ns = request_wake_ns(request);
	struct pollfd polled[] = {
		{.fd = signals_descriptor, .events = POLLIN},
		{.fd = request_descriptor(request), .events = POLLIN},
	};
	bool sent_by_process;

	poll_until(polled, 2, wake_ns < until_ns ? wake_ns : until_ns);
	if (polled[0].revents && signals_take(&sent_by_process))
		request_cancel(request);
	request_step(request, polled[1].revents != 0, clock_now_ns());
}

int heap_recording_begin(struct heap_recording *recording, const struct options *options, int signals_descriptor)
{
	struct request *request = &recording->request;

	*recording =
		(struct heap_recording){.command = {.kind = COMMAND_HEAP_DUMP, .arguments = {.flags = HEAP_DUMP_ALLOCATIONS}}};
	request_open(request, options->pids.items[0], &recording->command, options, &handler, recording);
	while (!recording->begun && !request->over)
		step(recording, signals_descriptor, UINT64_MAX);
	if (recording->begun && !request->over)
		return STATUS_DONE;
	if (request->cancelled)
		message("interrupted; no dump was kept");
	else if (request->error.text[0])
		message("%s", request->error.text);
	return request->status == STATUS_DONE ? STATUS_FAILED : request->status;
}

bool heap_recording_goes_on(struct heap_recording *recording)
{
	if (!recording->request.over)
		step(recording, -1, 0);
	return !recording->request.over;
}

void heap_recording_end(struct heap_recording *recording)
{
	struct request *request = &recording->request;
	uint64_t until_ns = clock_now_ns() + END_NS;

	if (!request->handler)
		return;
	if (!request->over)
		request_cancel(request);
	while (!request->over && clock_now_ns() < until_ns)
		step(recording, -1, until_ns);
	request_close(request);
	*recording = (struct heap_recording){0};
}
