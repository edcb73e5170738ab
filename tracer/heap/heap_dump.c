/*
 * Taking a heap dump. See heap_dump.h.
 *
 * A dump is one to three requests in one session: what the process has (where it is to stand still, so that it can be said
 * for how long), that allocation sites are recorded (a request that is under way until the session ends), and the dump
 * itself. Its answer brings a pipe, out of which the dump comes; it is complete when the pipe has ended and the request is
 * done.
 */

#define _GNU_SOURCE
#include "tracer/heap/heap_dump.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/base/value.h"
#include "tracer/cli/request.h"
#include "tracer/heap/dump_progress.h"
#include "tracer/process/process_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE (1u << 20)
#define READS_A_TURN 16          /* before the session is looked at again */
#define LOOK_NS (300 * 1000)     /* in which the copy fills a part of the pipe only */
#define STALL_NS (20 * NS_PER_S) /* a copy that writes nothing for so long will not go on */
/*
 * What a dump may have for each byte of the process's memory: a slot of 40 bytes takes some 200, one of references 3 for
 * each, a string up to 6.
 */
#define SIZE_FACTOR 64u
#define SIZE_BASE (1ull << 30)
#define SLOTS_MAX 1000000000ull
#define NS_PER_OBJECT 1000 /* what dumping one takes, rather more than less */

enum phase {
	PHASE_ESTIMATE, /* asked what there is */
	PHASE_RECORDING,
	PHASE_DUMP,
};

struct heap_dump {
	const struct heap_dump_order *order;
	struct dump_file *file; /* NULL: discarded */
	struct request request;
	struct command command;
	enum phase phase;
	uint64_t recorded_ns; /* when recording is over; 0: it has not begun */

	int pipe; /* -1: not here yet, or at its end */
	bool piped;
	bool flowing; /* the last look at the pipe found something */
	bool done;    /* the target says that it is complete */
	char *bytes;
	uint64_t size;
	uint64_t size_max;
	uint64_t lines;
	uint64_t began_ns;
	uint64_t heard_ns; /* when there was last something in the pipe */
	uint64_t fork_ns, gc_ns;
	uint64_t live_slots;
	uint64_t own_objects; /* rbprobe's */
	struct dump_progress progress;

	int status; /* enum exit_status, of what failed here */
};

/* Nothing is kept, and the target is asked to stop. */
static void give_up(struct heap_dump *dump, int status)
{
	dump_progress_end(&dump->progress);
	if (dump->pipe >= 0)
		close(dump->pipe);
	dump->pipe = -1;
	dump_file_discard(dump->file);
	dump->file = NULL;
	if (dump->status == STATUS_DONE)
		dump->status = status;
	if (dump->request.command_id)
		request_cancel(&dump->request);
	dump->request.keep = false;
	if (!dump->request.command_id)
		request_detach(&dump->request);
}

/* --- Requests */

static void prepare(struct heap_dump *dump, enum phase phase)
{
	const struct heap_dump_order *order = dump->order;

	dump->phase = phase;
	dump->command = (struct command){.kind = COMMAND_HEAP_DUMP, .arguments = {.flags = order->flags}};
	if (phase == PHASE_ESTIMATE)
		dump->command = (struct command){.kind = COMMAND_MEMORY};
	if (phase == PHASE_RECORDING)
		dump->command.arguments.flags = HEAP_DUMP_ALLOCATIONS;
}

static void next_phase(struct heap_dump *dump)
{
	prepare(dump, dump->phase == PHASE_ESTIMATE && dump->order->allocations_ns ? PHASE_RECORDING : PHASE_DUMP);
	request_again(&dump->request, &dump->command);
}

/* Nobody has said yes yet: a person is asked, and where there is none, that is a no. */
static bool agree(const struct heap_dump *dump)
{
	double seconds = (double)dump->live_slots * NS_PER_OBJECT / 1e9;
	char answer[16] = "";

	if (dump->order->agreed)
		return true;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		message("without a fork process %d would stand still for about %.1f s (%llu objects); allow that with --yes",
		        (int)dump->request.attachment.target.pid, seconds, (unsigned long long)dump->live_slots);
		return false;
	}
	fprintf(stderr, "Process %d will stand still for about %.1f s (%llu objects). Go on? [y/N] ",
	        (int)dump->request.attachment.target.pid, seconds, (unsigned long long)dump->live_slots);
	fflush(stderr);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int on_pipe(struct heap_dump *dump, const msgpack_object *object, struct error *err)
{
	int descriptor = stream_take_descriptor(dump->request.stream);
	struct process_memory memory;
	struct stat status;

	if (descriptor < 0 || dump->piped)
		return error_set(err, -EPROTO, "process %d announced a pipe and sent none",
		                 (int)dump->request.attachment.target.pid);
	dump->piped = true;
	/* Anything else might have no end, or do something when it is read. */
	if (fstat(descriptor, &status) != 0 || !S_ISFIFO(status.st_mode)) {
		stream_drop_descriptor(descriptor);
		return error_set(err, -EPROTO, "process %d announced a pipe and sent something else",
		                 (int)dump->request.attachment.target.pid);
	}
	if (!dump->file) { /* given up meanwhile */
		close(descriptor);
		return 0;
	}
	dump->pipe = descriptor;
	dump->live_slots = value_uint(value_get(object, "live_slots"));
	dump->fork_ns = value_uint(value_get(object, "fork_ns"));
	dump->gc_ns = value_uint(value_get(object, "gc_ns"));
	dump->began_ns = dump->heard_ns = clock_now_ns();
	process_memory_read(&memory, dump->request.attachment.target.pid);
	dump->size_max = memory.known ? SIZE_BASE + SIZE_FACTOR * (memory.resident + memory.swapped) : UINT64_MAX;
	dump_progress_begin(&dump->progress, !dump->order->options->quiet && !dump->order->others, dump->live_slots);
	return 0;
}

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct heap_dump *dump = request->owner;

	switch (dump->phase) {
	case PHASE_ESTIMATE:
		dump->live_slots = value_uint(value_get(value_get(object, "gc"), "heap_live_slots"));
		return 0;
	case PHASE_RECORDING:
		dump->recorded_ns = clock_now_ns() + dump->order->allocations_ns;
		if (!dump->order->options->quiet)
			message("process %d records where it allocates objects, for %g s",
			        (int)dump->request.attachment.target.pid, (double)dump->order->allocations_ns / 1e9);
		return 0;
	case PHASE_DUMP:
		break;
	}
	if (value_uint(value_get(object, "descriptors")))
		return on_pipe(dump, object, err);
	dump->own_objects = value_uint(value_get(object, "own_objects"));
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	struct heap_dump *dump = request->owner;

	if (code) {
		dump_progress_end(&dump->progress);
		if (dump->status == STATUS_DONE)
			message("process %d: %.*s; nothing was kept", (int)dump->request.attachment.target.pid, (int)text.size,
			        text.bytes);
		give_up(dump, STATUS_FAILED);
	} else if (dump->phase == PHASE_ESTIMATE && dump->file) {
		if (!agree(dump))
			give_up(dump, STATUS_USAGE);
		else
			dump->recorded_ns = 0;
	} else if (dump->phase == PHASE_DUMP) {
		dump->done = true;
		dump->request.keep = false; /* what is in the pipe is in the pipe */
	}
}

static const struct request_handler handler = {.descriptors = true, .data = on_data, .done = on_done};

/* --- The pipe */

/* Reads what is there. */
static void read_pipe(struct heap_dump *dump)
{
	dump->flowing = false;
	for (int i = 0; i < READS_A_TURN && dump->pipe >= 0; i++) {
		struct error err;
		ssize_t got;

		if (!poll_until(&(struct pollfd){.fd = dump->pipe, .events = POLLIN}, 1, 0))
			return;
		dump->flowing = true;
		got = read(dump->pipe, dump->bytes, READ_SIZE);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			close(dump->pipe);
			dump->pipe = -1;
			return;
		}
		dump->size += (uint64_t)got;
		if (dump->size > dump->size_max) {
			dump_progress_end(&dump->progress);
			message("process %d has sent more (%.1f GiB) than a dump of its memory can be; nothing was kept",
			        (int)dump->request.attachment.target.pid, (double)dump->size / (double)(1u << 30));
			give_up(dump, STATUS_FAILED);
			return;
		}
		dump->lines += dump_count_lines(dump->bytes, (size_t)got);
		if (dump_file_write(dump->file, dump->bytes, (size_t)got, &err) < 0) {
			dump_progress_end(&dump->progress);
			message("%s; nothing was kept",
			        err.code == -EPIPE ? "the reader closed the pipe before the dump was complete" : err.text);
			give_up(dump, STATUS_FAILED);
			return;
		}
		dump_progress_update(&dump->progress, dump->lines, dump->size);
		dump->heard_ns = clock_now_ns();
	}
}

static uint64_t stalls_ns(const struct heap_dump *dump)
{
	bool waits = dump->pipe >= 0 && !(dump->order->flags & HEAP_DUMP_IN_PROCESS);
	uint64_t slots = dump->live_slots < SLOTS_MAX ? dump->live_slots : SLOTS_MAX;

	/* Before the first object it looks at all of them once. */
	return waits ? dump->heard_ns + STALL_NS + slots * NS_PER_OBJECT : UINT64_MAX;
}

/*
 * The copy has the locks of all other threads as they were at the fork. libc's are seen to; those of an allocator without fork
 * handlers may be held for ever.
 */
static void give_up_stalled(struct heap_dump *dump)
{
	dump_progress_end(&dump->progress);
	message("the copy of process %d has written nothing for %llu s, and is ended: a lock may have been held when it was "
	        "forked, or "
	        "it is not allowed to run; try again, or with --no-fork; nothing was kept",
	        (int)dump->request.attachment.target.pid, (unsigned long long)(STALL_NS / NS_PER_S));
	give_up(dump, STATUS_FAILED);
}

/* --- The loop */

/* Between two requests of the session. */
static bool is_resting(const struct heap_dump *dump)
{
	return dump->request.keep && !dump->request.command_id && !dump->request.over;
}

static bool is_recording(const struct heap_dump *dump)
{
	return dump->phase == PHASE_RECORDING && dump->recorded_ns && !dump->request.over;
}

static void on_signal(struct heap_dump *dump)
{
	bool sent_by_process;

	if (!signals_take(&sent_by_process))
		return;
	if (dump->file && dump->status == STATUS_DONE) {
		dump_progress_end(&dump->progress);
		message("interrupted; nothing was kept");
	}
	give_up(dump, STATUS_FAILED);
}

/*
 * While the dump flows, the pipe is looked at from time to time, rather than that the copy wakes us up by its writing: the
 * kernel would take that for a sign that the copy is about to wait, and put us onto its processor, where the two then take
 * turns while another is idle.
 */
static void wait_for_something(struct heap_dump *dump, int signals_descriptor)
{
	uint64_t now_ns = clock_now_ns(), wake_ns = request_wake_ns(&dump->request);
	bool look = dump->flowing && dump->pipe >= 0;
	struct pollfd polled[] = {
		{.fd = signals_descriptor, .events = POLLIN},
		{.fd = request_descriptor(&dump->request), .events = POLLIN},
		{.fd = look ? -1 : dump->pipe, .events = POLLIN},
	};

	if (is_recording(dump) && dump->recorded_ns < wake_ns)
		wake_ns = dump->recorded_ns;
	if (look && now_ns + LOOK_NS < wake_ns)
		wake_ns = now_ns + LOOK_NS;
	if (stalls_ns(dump) < wake_ns)
		wake_ns = stalls_ns(dump);
	if (is_resting(dump))
		wake_ns = now_ns;
	poll_until(polled, 3, wake_ns);
	if (polled[0].revents)
		on_signal(dump);
	if ((look || polled[2].revents) && dump->pipe >= 0)
		read_pipe(dump);
	if (clock_now_ns() >= stalls_ns(dump))
		give_up_stalled(dump);
	if (dump->request.over)
		return;
	request_step(&dump->request, polled[1].revents != 0, clock_now_ns());
	if (dump->request.over && dump->request.status != STATUS_DONE)
		give_up(dump, dump->request.status);
	else if (is_resting(dump) || (is_recording(dump) && dump->file && clock_now_ns() >= dump->recorded_ns))
		next_phase(dump);
}

static void add_pauses(const struct heap_dump *dump, struct buffer *line)
{
	if (dump->order->flags & HEAP_DUMP_IN_PROCESS) {
		buffer_add_text(line, ", in which the process stood still");
		return;
	}
	buffer_add_format(line, "; the process stood still for %.1f ms to fork", (double)dump->fork_ns / 1e6);
	if (dump->gc_ns > NS_PER_MS)
		buffer_add_format(line, " and %.1f ms %s", (double)dump->gc_ns / 1e6,
		                  dump->order->flags & HEAP_DUMP_GC ? "to collect garbage" : "to end a GC that was under way");
}

/* The dump is here: it gets its name. */
static void finish(struct heap_dump *dump)
{
	double seconds = (double)(clock_now_ns() - dump->began_ns) / 1e9;
	struct buffer line = {0};
	struct error err;
	int status;

	dump_progress_end(&dump->progress);
	status = dump_file_commit(dump->file, &err);
	dump->file = NULL;
	if (status < 0) {
		message("%s; nothing was kept", err.text);
		dump->status = STATUS_FAILED;
		return;
	}
	if (dump->order->options->quiet)
		return;
	dump_add_count(&line, dump->lines);
	buffer_add_text(&line, " lines");
	if (dump->own_objects) {
		buffer_add_text(&line, " (");
		dump_add_count(&line, dump->own_objects);
		buffer_add_text(&line, " of them rbprobe's own objects)");
	}
	buffer_add_text(&line, ", ");
	dump_add_size(&line, dump->size);
	buffer_add_format(&line, " in %.1f s", seconds);
	add_pauses(dump, &line);
	message("%s%s%.*s", dump->order->name ? dump->order->name : "", dump->order->name ? ": " : "", (int)line.size,
	        line.bytes);
	buffer_free(&line);
}

int heap_dump_take(const struct heap_dump_order *order)
{
	struct heap_dump dump = {.order = order, .file = order->file, .pipe = -1};
	int signals_descriptor = signals_install();

	dump.bytes = memory_resize(NULL, READ_SIZE);
	prepare(&dump, order->flags & HEAP_DUMP_IN_PROCESS ? PHASE_ESTIMATE
	               : order->allocations_ns             ? PHASE_RECORDING
	                                                   : PHASE_DUMP);
	request_open(&dump.request, order->options->pids.items[0], &dump.command, order->options, &handler, &dump);
	dump.request.keep = true;
	if (dump.request.over)
		give_up(&dump, dump.request.status);
	while (!dump.request.over || dump.pipe >= 0)
		wait_for_something(&dump, signals_descriptor);
	if (dump.request.error.text[0])
		message("%s", dump.request.error.text);
	if (dump.file && dump.done && dump.piped)
		finish(&dump);
	else if (dump.status == STATUS_DONE)
		give_up(&dump, STATUS_FAILED);
	request_close(&dump.request);
	free(dump.bytes);
	return dump.status;
}
