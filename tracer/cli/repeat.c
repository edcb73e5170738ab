/* A subcommand's request of one process, again and again within one session. See subcommand.h. */

#include "tracer/cli/subcommand.h"

#include "proto/clock.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"

struct repeat {
	struct invocation *invocation;
	struct request request;
	struct command command;
	uint64_t next_ns; /* when the next one is due */
};

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	struct invocation *invocation = request->owner;

	request_report(request, code, text);
	invocation->rounds++;
	if (code || output_is_over(&invocation->output) || invocation->rounds == invocation->count)
		request->keep = false; /* the request ends itself */
}

/* Between two of them. */
static bool is_resting(const struct request *request)
{
	return request->keep && !request->command_id && !request->over;
}

static void on_signal(struct request *request)
{
	bool sent_by_process;

	if (!signals_take(&sent_by_process))
		return;
	if (is_resting(request)) {
		request_detach(request);
		return;
	}
	/* It may be over before the process hears of that: no other one comes after it. */
	request->keep = false;
	request_cancel(request);
}

/* Waits for the target, a signal, or the time of the next one. */
static void turn(struct repeat *repeat, int signals_descriptor)
{
	struct request *request = &repeat->request;
	uint64_t now_ns, wake_ns = request_wake_ns(request), every_ns = repeat->invocation->every_ns;
	struct pollfd polled[] = {
		{.fd = signals_descriptor, .events = POLLIN},
		{.fd = request_descriptor(request), .events = POLLIN},
	};

	if (is_resting(request) && repeat->next_ns < wake_ns)
		wake_ns = repeat->next_ns;
	poll_until(polled, 2, wake_ns);
	if (polled[0].revents)
		on_signal(request);
	now_ns = clock_now_ns();
	request_step(request, polled[1].revents != 0, now_ns);
	if (is_resting(request) && now_ns >= repeat->next_ns) {
		/* Missed times are left out, not made up for. */
		repeat->next_ns += (1 + (now_ns - repeat->next_ns) / every_ns) * every_ns;
		request_again(request, &repeat->command);
	}
}

int invocation_repeat(struct invocation *invocation)
{
	struct request_handler handler = invocation->subcommand->handler;
	struct repeat repeat = {.invocation = invocation, .command = invocation_command(invocation)};
	struct request *request = &repeat.request;
	int signals = invocation_signals(invocation);

	handler.done = on_done;
	request_open(request, invocation->options.pids.items[0], &repeat.command, &invocation->options, &handler, invocation);
	request->keep = invocation->every_ns != 0;
	repeat.next_ns = clock_now_ns() + invocation->every_ns;
	while (!request->over)
		turn(&repeat, signals);
	if (request->error.text[0])
		message("%s", request->error.text);
	request_close(request);
	return request->status;
}
