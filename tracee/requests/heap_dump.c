/*
 * The heap dump request. Context: job.
 *
 * The dump is made by a copy of the process (silent_fork.h), which writes it into a pipe whose other end the client gets: so the
 * application stands still for the fork alone, and does not see a byte of it.
 */

#define _GNU_SOURCE
#include "tracee/session/request.h"

#include "proto/clock.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/base/splice_thread.h"
#include "tracee/requests/heap_allocations.h"
#include "tracee/requests/heap_dump_copy.h"
#include "tracee/requests/silent_fork.h"
#include "tracee/session/bell.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/objspace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <ruby.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_SIZE (1 << 20)   /* as large as an unprivileged user may make it, unless the system's limit was lowered */
#define PIPE_LEAST (64 << 10) /* what it has without asking */

struct dump {
	struct request *request;
	struct silent_fork *copy;
	struct heap_dump_report *report; /* shared with the copy */
	bool cancelled;
};

/* How long the process stood still, for what, and how much there is. */
struct facts {
	uint64_t gc_ns;
	uint64_t fork_ns;
	uint64_t live_slots;
};

static void dump_free(struct dump *dump)
{
	munmap(dump->report, sizeof(*dump->report));
	free(dump);
}

/* The dump is complete. */
static void finish(struct request *request, uint64_t own)
{
	struct msgpack_builder answer;

	builder_init(&answer);
	builder_map(&answer, NULL);
	builder_uint(&answer, "own_objects", own);
	builder_end(&answer);
	request_answer(request, &answer);
	builder_free(&answer);
	request_finish(request, 0, "%s", "");
}

static void copy_ended(void *argument, int status)
{
	struct dump *dump = argument;
	struct request *request = dump->request;

	if (dump->cancelled)
		request_finish(request, ECANCELED, "cancelled");
	else if (WIFSIGNALED(status))
		request_finish(request, EIO, "the copy of the process that wrote the dump was killed by signal %d (%s)%s",
		               WTERMSIG(status), strsignal(WTERMSIG(status)),
		               WTERMSIG(status) == SIGKILL ? "; short of memory?" : "");
	else if (dump->report->complete && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		finish(request, dump->report->own);
	else
		request_finish(request, EIO, "the copy of the process that wrote the dump failed: %s",
		               dump->report->error.code ? dump->report->error.text : "it ended early");
	dump_free(dump);
}

static void send_pipe(struct request *request, const struct facts *facts, int descriptor)
{
	struct msgpack_builder answer;

	builder_init(&answer);
	builder_map(&answer, NULL);
	builder_uint(&answer, "descriptors", 1);
	builder_uint(&answer, "live_slots", facts->live_slots);
	builder_uint(&answer, "gc_ns", facts->gc_ns);
	builder_uint(&answer, "fork_ns", facts->fork_ns);
	builder_end(&answer);
	request_answer_descriptor(request, &answer, descriptor);
	builder_free(&answer);
}

static int stop_at_once(void *start, void *end, size_t stride, void *data)
{
	(void)start;
	(void)end;
	(void)stride;
	(void)data;
	return 1;
}

/* A GC that is under way is brought to its end here: in the copy it would free objects, which is not its business. */
static void prepare_heap(uint32_t flags, struct facts *facts)
{
	uint64_t began_ns = clock_now_ns();

	if (flags & HEAP_DUMP_GC)
		rb_gc_start();
	compat_each_page(stop_at_once, NULL);
	facts->gc_ns = clock_now_ns() - began_ns;
	facts->live_slots = rb_gc_stat(ID2SYM(rb_intern("heap_live_slots")));
}

static struct dump *dump_new(struct request *request)
{
	struct dump *dump = calloc(1, sizeof(*dump));

	if (!dump)
		return NULL;
	dump->request = request;
	dump->report = mmap(NULL, sizeof(*dump->report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (dump->report == MAP_FAILED) {
		free(dump);
		return NULL;
	}
	return dump;
}

static int pipe_make(int ends[2], struct error *err)
{
	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_set(err, -errno, "no pipe for the dump: %s", strerror(errno));
	for (int size = PIPE_SIZE; size > PIPE_LEAST && fcntl(ends[1], F_SETPIPE_SZ, size) < 0;)
		size /= 2;
	return 0;
}

/* Everything that can be known to fail is looked at before the process is made to stand still. */
static int dump_by_copy(struct request *request, uint32_t flags, const char *library, struct error *err)
{
	struct heap_dump_order order = {.library = library};
	struct facts facts;
	struct dump *dump;
	int ends[2], status;

	if (!bell_in_job())
		return error_set(err, -EAGAIN, "the process is just starting under rbprobe exec; ask again when it runs");
	if (!compat_is_only_ractor())
		return error_set(err, -EBUSY,
		                 "the process has several Ractors, which cannot be stopped for a fork; --no-fork does without");
	order.threads = builtin_call0(BUILTIN_THREAD_LIST, rb_cThread);
	order.fiber_class = rb_const_get(rb_cObject, rb_intern("Fiber"));
	status = pipe_make(ends, err);
	if (status < 0)
		return status;
	dump = dump_new(request);
	if (!dump) {
		close(ends[0]);
		close(ends[1]);
		return error_set(err, -ENOMEM, "no memory for a dump");
	}
	order.report = dump->report;
	order.descriptor = ends[1];
	prepare_heap(flags, &facts);
	facts.fork_ns = clock_now_ns();
	status = silent_fork_start(&dump->copy, SILENT_FORK_SERVANT, heap_dump_in_copy, copy_ended, &order, dump, err);
	facts.fork_ns = clock_now_ns() - facts.fork_ns;
	close(ends[1]);
	if (status < 0) {
		close(ends[0]);
		dump_free(dump);
		return status;
	}
	request->state = dump;
	send_pipe(request, &facts, ends[0]);
	return 0;
}

/*
 * Between the dump and the client's pipe is a thread: the process waits for it alone, which does not wait for a client that
 * stands still.
 */
static int dump_in_process(struct request *request, uint32_t flags, const char *library, struct error *err)
{
	struct facts facts = {0};
	int inner[2] = {-1, -1}, outer[2] = {-1, -1}, status;
	struct splice_thread *splice;
	uint64_t own;

	status = objspace_load(library, err);
	if (status == 0)
		status = pipe_make(inner, err);
	if (status < 0)
		return status;
	status = pipe_make(outer, err);
	if (status < 0) {
		close(inner[0]);
		close(inner[1]);
		return status;
	}
	prepare_heap(flags, &facts);
	send_pipe(request, &facts, outer[0]);
	splice = splice_thread_start(inner[0], outer[1]);
	if (!splice) {
		close(inner[1]);
		return error_set(err, -EAGAIN, "no thread for the dump");
	}
	status = objspace_dump(inner[1], Qnil, &own, err);
	if (!splice_thread_end(splice) && status == 0)
		status = error_set(err, -EPIPE,
		                   "the client read nothing for 2 s; the dump was given up, so that the process goes on");
	if (status == 0)
		finish(request, own);
	return status;
}

static void heap_dump_begin(struct request *request, const struct command *command)
{
	uint32_t flags = command->arguments.flags;
	char library[PATH_MAX];
	struct error err;
	int status = objspace_find(library, sizeof(library), &err);

	if (status < 0)
		;
	else if (flags & HEAP_DUMP_ALLOCATIONS)
		status = allocations_begin(request, library, &err);
	else if (flags & HEAP_DUMP_IN_PROCESS)
		status = dump_in_process(request, flags, library, &err);
	else
		status = dump_by_copy(request, flags, library, &err);
	if (status < 0)
		request_finish(request, -err.code, "%s", err.text);
}

static void cancel(struct request *request, enum cancel_reason reason)
{
	struct dump *dump = request->state;

	if (reason == CANCEL_EXIT)
		return; /* the keeper ends the copy */
	if (!dump) {
		allocations_end(request);
		return;
	}
	dump->cancelled = true;
	silent_fork_kill(dump->copy);
	if (reason != CANCEL_DETACHED)
		return;
	silent_fork_forget(dump->copy);
	dump_free(dump);
	request_finish(request, ECANCELED, "%s", "");
}

const struct request_kind request_heap_dump = {.name = "heap dump", .begin = heap_dump_begin, .cancel = cancel};
