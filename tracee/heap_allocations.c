/* Recording allocations. See heap_allocations.h. */

#include "heap_allocations.h"

#include "answer.h"
#include "objspace.h"
#include "request.h"

#include <errno.h>

/*
 * Ruby counts who records, and keeps one table for all: it is emptied when our last one stops, unless the application was recording before us; then that
 * goes on with what it had.
 */
static struct {
	unsigned requests; /* under way */
	bool others;       /* the application records, too */
} allocations;

static void stop(void)
{
	allocations.requests--;
	objspace_stop_tracing(allocations.requests == 0 && !allocations.others);
}

int allocations_begin(struct request *request, const char *library, struct error *err)
{
	struct answer answer;
	int status = objspace_load(library, err);

	if (status < 0)
		return status;
	if (allocations.requests == 0)
		allocations.others = objspace_is_tracing();
	status = objspace_trace_allocations(err);
	if (status < 0)
		return status;
	allocations.requests++;
	answer_init(&answer);
	answer_map(&answer, NULL);
	answer_end(&answer);
	if (!request_answer(request, &answer)) {
		stop();
		status = error_set(err, -ENOMEM, "no memory to record allocations");
	}
	answer_free(&answer);
	return status;
}

void allocations_end(struct request *request)
{
	stop();
	request_finish(request, ECANCELED, "recording allocations has ended");
}
