/* Recording allocations. See heap_allocations.h. */

#include "heap_allocations.h"

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

int allocations_begin(struct request *request, const char *library, struct error *err)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;
	int status = objspace_load(library, err);

	if (status < 0)
		return status;
	if (allocations.requests == 0)
		allocations.others = objspace_is_tracing();
	status = objspace_trace_allocations(err);
	if (status < 0)
		return status;
	allocations.requests++;
	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, 0);
	request_data(request, &packed);
	msgpack_sbuffer_destroy(&packed);
	return 0;
}

void allocations_end(struct request *request)
{
	allocations.requests--;
	objspace_stop_tracing(allocations.requests == 0 && !allocations.others);
	request_finish(request, ECANCELED, "recording allocations has ended");
}
