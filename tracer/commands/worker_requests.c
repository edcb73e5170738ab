/* A request that workers join. See worker_requests.h. */

#include "tracer/commands/worker_requests.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/choose_processes.h"
#include "tracer/cli/request.h"

#include <stdlib.h>

#define JOINERS_MAX 256u

struct joining {
	struct invocation *invocation;
	const struct pid_list *parents;
	struct pid_list pids; /* all that were ever asked */
	struct command command;
	uint64_t end_ns;
	size_t most;
};

static void ask(struct joining *joining, struct request *request, pid_t pid, const struct command *command)
{
	request_open(request, pid, command, &joining->invocation->options, &joining->invocation->subcommand->handler,
	             joining->invocation);
}

static size_t look(void *owner, struct request *requests, size_t count)
{
	struct joining *joining = owner;
	struct command rest = joining->command;
	uint64_t now_ns = clock_now_ns();

	if (now_ns + NS_PER_MS > joining->end_ns)
		return count;
	rest.arguments.timeout_ms = (uint32_t)((joining->end_ns - now_ns) / NS_PER_MS);
	for (size_t i = 0; i < joining->parents->count; i++)
		choose_joining_children(joining->parents->items[i], &joining->pids);
	for (; count < joining->pids.count && count < joining->most; count++) {
		message("worker %d joined", (int)joining->pids.items[count]);
		ask(joining, &requests[count], joining->pids.items[count], &rest);
	}
	return count;
}

/* Those that were there and those that came: the first that failed, unless it ended and another has answered. */
static int status_of(const struct request *requests, size_t count)
{
	int status = STATUS_DONE;
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		any = any || requests[i].status == STATUS_DONE;
		if (requests[i].status != STATUS_DONE && (status == STATUS_DONE || status == STATUS_TARGET_GONE))
			status = requests[i].status;
	}
	return status == STATUS_TARGET_GONE && any ? STATUS_DONE : status;
}

int worker_requests_run(struct invocation *invocation, const struct pid_list *parents)
{
	const struct pid_list *first = &invocation->options.pids;
	struct joining joining = {.invocation = invocation,
	                          .parents = parents,
	                          .command = invocation_command(invocation),
	                          .most = first->count + JOINERS_MAX};
	const struct request_joiners joiners = {.look = look, .owner = &joining, .most = joining.most};
	struct request *requests = memory_zeroed(joining.most * sizeof(*requests));
	int signals = invocation_signals(invocation), status;

	joining.end_ns = clock_now_ns() + joining.command.arguments.timeout_ms * NS_PER_MS;
	for (size_t i = 0; i < first->count; i++) {
		pid_list_add(&joining.pids, first->items[i]);
		ask(&joining, &requests[i], first->items[i], &joining.command);
	}
	request_run(requests, first->count, &joiners, signals, &invocation->interrupted);
	status = status_of(requests, joining.pids.count < joining.most ? joining.pids.count : joining.most);
	for (size_t i = 0; i < joining.most; i++)
		request_close(&requests[i]);
	free(requests);
	free(joining.pids.items);
	return status;
}
