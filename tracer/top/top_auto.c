/* The choice of methods where the user made none. See top_auto.h. */

#include "tracer/top/top_auto.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLING_NS (1 * NS_PER_S)
#define SAMPLE_NS (20 * NS_PER_MS)
#define PAUSE_NS (10 * NS_PER_S)
#define IDLE_PAUSE_NS (1 * NS_PER_S) /* where nothing was found that is worth counting */
#define FRAMES 60
#define CERTAIN 25 /* of the hottest: where one of them is not counted, it is time for a change */

static int on_data(struct request *request, const msgpack_object *map, struct error *err)
{
	struct top_auto *chooser = request->owner;

	(void)err;
	top_hot_add(&chooser->hot, request->attachment.target.pid, map);
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	if (code)
		error_set(&request->error, -(int)code, "%.*s", (int)text.size, text.bytes);
}

static const struct request_handler handler = {.data = on_data, .done = on_done};

void top_auto_init(struct top_auto *chooser, const struct options *options)
{
	*chooser = (struct top_auto){.options = options, .command = {.kind = COMMAND_BACKTRACE}};
	chooser->command.arguments.frames_max = FRAMES;
	chooser->command.arguments.timeout_ms = options_limit_ms(options);
}

static void forget_requests(struct top_auto *chooser)
{
	for (size_t i = 0; i < chooser->count; i++)
		request_close(&chooser->requests[i]);
	free(chooser->requests);
	free(chooser->pids);
	chooser->requests = NULL;
	chooser->pids = NULL;
	chooser->count = 0;
}

void top_auto_begin(struct top_auto *chooser, const pid_t *pids, size_t count, uint64_t now_ns)
{
	if (chooser->sampling || chooser->ready || now_ns < chooser->next_ns || !count)
		return;
	forget_requests(chooser);
	chooser->requests = memory_zeroed(count * sizeof(*chooser->requests));
	chooser->pids = memory_zeroed(count * sizeof(*pids));
	memcpy(chooser->pids, pids, count * sizeof(*pids));
	chooser->count = count;
	for (size_t i = 0; i < count; i++) {
		struct request *request = &chooser->requests[i];

		request_open(request, pids[i], &chooser->command, chooser->options, &handler, chooser);
		request->keep = true;
	}
	chooser->sampling = true;
	chooser->until_ns = 0; /* from the first answer on */
	chooser->next_ns = now_ns;
}

static bool is_resting(const struct request *request)
{
	return request->keep && !request->command_id && !request->over;
}

void top_auto_collect(const struct top_auto *chooser, struct top_poll *poll)
{
	for (size_t i = 0; i < chooser->count; i++)
		top_poll_add(poll, request_descriptor(&chooser->requests[i]), request_wake_ns(&chooser->requests[i]));
	if (chooser->next_ns < poll->wake_ns)
		poll->wake_ns = chooser->next_ns;
}

static bool has(char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* The samples are there. */
static void choose(struct top_auto *chooser, uint64_t now_ns)
{
	char *names[TOP_AUTO_METHODS];
	size_t unnamed, count = top_hot_take(&chooser->hot, names, TOP_AUTO_METHODS, &unnamed);
	bool change = false;

	for (size_t i = 0; i < count && i < CERTAIN; i++)
		change = change || !has(chooser->names, chooser->name_count, names[i]);
	for (size_t i = 0; i < (change ? chooser->name_count : count); i++)
		free(change ? chooser->names[i] : names[i]);
	if (change) {
		memcpy(chooser->names, names, count * sizeof(*names));
		chooser->name_count = count;
		chooser->unnamed = unnamed;
		chooser->ready = true;
	}
	top_hot_free(&chooser->hot);
	chooser->sampling = false;
	chooser->next_ns = now_ns + (chooser->name_count ? PAUSE_NS : IDLE_PAUSE_NS);
}

void top_auto_step(struct top_auto *chooser, struct top_poll *poll, uint64_t now_ns)
{
	bool any = false, due;

	for (size_t i = 0; i < chooser->count; i++) {
		request_step(&chooser->requests[i], top_poll_take(poll) != 0, now_ns);
		if (is_resting(&chooser->requests[i]) && !chooser->until_ns)
			chooser->until_ns = now_ns + SAMPLING_NS;
	}
	if (!chooser->sampling)
		return;
	due = now_ns >= chooser->next_ns;
	for (size_t i = 0; i < chooser->count; i++) {
		struct request *request = &chooser->requests[i];

		any = any || !request->over;
		if (!is_resting(request))
			continue;
		if (chooser->until_ns && now_ns >= chooser->until_ns)
			request_detach(request);
		else if (due)
			request_again(request, &chooser->command);
	}
	if (due)
		chooser->next_ns = now_ns + SAMPLE_NS;
	if (!any)
		choose(chooser, now_ns);
}

void top_auto_excuse(struct top_auto *chooser, uint64_t busy_ns)
{
	for (size_t i = 0; i < chooser->count; i++) {
		if (chooser->requests[i].over)
			continue;
		attachment_excuse(&chooser->requests[i].attachment, busy_ns);
		if (chooser->requests[i].deadline_ns != UINT64_MAX)
			chooser->requests[i].deadline_ns += busy_ns;
	}
}

const struct error *top_auto_failure(const struct top_auto *chooser, pid_t pid)
{
	for (size_t i = 0; i < chooser->count; i++) {
		const struct request *request = &chooser->requests[i];

		if (chooser->pids[i] == pid && request->over && request->status != STATUS_DONE)
			return &request->error;
	}
	return NULL;
}

void top_auto_describe(const struct top_auto *chooser, struct buffer *to)
{
	if (!chooser->name_count)
		buffer_add_text(to, chooser->sampling ? "looking for hot methods" : "no method is hot");
	else
		buffer_add_format(to, "the %zu hottest method%s", chooser->name_count, chooser->name_count == 1 ? "" : "s");
	if (chooser->unnamed)
		buffer_add_format(to, ", %zu more cannot be selected", chooser->unnamed);
}

void top_auto_free(struct top_auto *chooser)
{
	forget_requests(chooser);
	top_hot_free(&chooser->hot);
	for (size_t i = 0; i < chooser->name_count; i++)
		free(chooser->names[i]);
	*chooser = (struct top_auto){0};
}
