/* Recording allocations. See heap_allocations.h. */

#include "tracee/requests/heap_allocations.h"

#include "tracee/base/msgpack_builder.h"
#include "tracee/session/request.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/objspace.h"
#include "tracee/vm/own.h"

#include <errno.h>
#include <ruby.h>
#include <string.h>

/*
 * Ruby counts who records, and keeps one table for all: it is emptied when our last one stops, unless the application was
 * recording before us; then that goes on with what it had.
 */
static struct {
	unsigned requests; /* under way */
	bool others;       /* the application records, too */
	bool begun;        /* once at least */
} allocations;

/*
 * --- What Ruby makes when somebody records for the first time: two TracePoints and, from 3.1 on, an object for its table. It
 * keeps them for good.
 */

#define TRACERS_MAX 64u

struct tracers {
	VALUE items[TRACERS_MAX];
	size_t count;
};

static bool is_tracer(VALUE object)
{
	const char *type;

	if (RB_BUILTIN_TYPE(object) != RUBY_T_DATA || !RTYPEDDATA_P(object))
		return false;
	type = RTYPEDDATA_TYPE(object)->wrap_struct_name;
	return strcmp(type, "tracepoint") == 0 || strcmp(type, "ObjectTracing/allocation_info_tracer") == 0;
}

static int find_tracers(void *start, void *end, size_t stride, void *data)
{
	struct tracers *tracers = data;

	for (char *slot = start; slot < (char *)end; slot += stride) {
		if (compat_slot_is_free((VALUE)slot) || !is_tracer((VALUE)slot))
			continue;
		if (tracers->count == TRACERS_MAX)
			return 1;
		tracers->items[tracers->count++] = (VALUE)slot;
	}
	return 0;
}

static bool have(const struct tracers *tracers, VALUE object)
{
	for (size_t i = 0; i < tracers->count; i++)
		if (tracers->items[i] == object)
			return true;
	return false;
}

/*
 * Those that were not there before are rbprobe's. Where there are so many that not all were seen, they count as the
 * application's.
 */
static void own_new_tracers(const struct tracers *before)
{
	static VALUE made[3];
	struct tracers now = {.count = 0};
	size_t count = 0;

	compat_each_page(find_tracers, &now);
	if (now.count == TRACERS_MAX)
		return;
	for (size_t i = 0; i < now.count && count < sizeof(made) / sizeof(made[0]); i++)
		if (!have(before, now.items[i]))
			made[count++] = now.items[i];
	for (size_t i = 0; i < count; i++)
		own_register(&made[i]);
}

static int start(struct error *err)
{
	struct tracers before = {.count = 0};
	int status;

	if (!allocations.begun)
		compat_each_page(find_tracers, &before);
	status = objspace_trace_allocations(err);
	if (status == 0 && !allocations.begun)
		own_new_tracers(&before);
	allocations.begun = allocations.begun || status == 0;
	return status;
}

static void stop(void)
{
	allocations.requests--;
	objspace_stop_tracing(allocations.requests == 0 && !allocations.others);
}

int allocations_begin(struct request *request, const char *library, struct error *err)
{
	struct msgpack_builder answer;
	int status = objspace_load(library, err);

	if (status < 0)
		return status;
	if (allocations.requests == 0)
		allocations.others = objspace_is_tracing();
	status = start(err);
	if (status < 0)
		return status;
	allocations.requests++;
	builder_init(&answer);
	builder_map(&answer, NULL);
	builder_end(&answer);
	if (!request_answer(request, &answer)) {
		stop();
		status = error_set(err, -ENOMEM, "no memory to record allocations");
	}
	builder_free(&answer);
	return status;
}

void allocations_end(struct request *request)
{
	stop();
	request_finish(request, ECANCELED, "recording allocations has ended");
}
