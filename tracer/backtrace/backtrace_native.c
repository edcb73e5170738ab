/* Native stacks for people and programs. See backtrace_native.h. */

#include "tracer/backtrace/backtrace_native.h"

#include "proto/clock.h"
#include "tracer/base/json.h"
#include "tracer/base/message.h"
#include "tracer/inject/loader.h"
#include "tracer/inject/remote.h"
#include "tracer/process/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HANDLER_TIMEOUT_NS (2 * NS_PER_S)

static void add_text(struct buffer *buffer, const char *text)
{
	buffer_add_printable(buffer, text, strlen(text));
}

static void add_place(struct buffer *buffer, const struct native_frame *frame)
{
	if (frame->function)
		add_text(buffer, frame->function);
	else
		buffer_add_format(buffer, "0x%llx", (unsigned long long)(frame->module ? frame->offset : frame->pc));
	buffer_add_text(buffer, " in ");
	add_text(buffer, frame->module ? frame->module : "code of no file (a JIT's)");
}

void native_heading_text(struct buffer *buffer, const struct native_thread *thread)
{
	buffer_add_format(buffer, "native thread %d \"", (int)thread->task.own_tid);
	add_text(buffer, thread->task.command);
	buffer_add_format(buffer, "\", %s, %.2f s CPU\n", thread->task.state == 'R' ? "running" : "sleeping",
	                  (double)thread->task.cpu_ns / 1e9);
}

void native_frames_text(struct buffer *buffer, const struct native_thread *thread)
{
	for (size_t i = 0; i < thread->count; i++) {
		if (thread->frames[i].after_gap)
			buffer_add_text(buffer, "   native: (frames that cannot be told)\n");
		buffer_add_text(buffer, "   native: ");
		add_place(buffer, &thread->frames[i]);
		buffer_add_char(buffer, '\n');
	}
	if (thread->cut)
		buffer_add_text(buffer, "   native: ...\n");
	if (thread->code != 0)
		buffer_add_format(buffer, "   native: %s\n",
		                  thread->code == -ETIMEDOUT ? "it could not be stopped for a look in time"
		                  : thread->code == -ESRCH   ? "it has ended"
		                                             : strerror(-thread->code));
}

/* --- JSON */

void native_thread_json(struct buffer *buffer, int pid, const struct native_thread *thread)
{
	json_open_object(buffer);
	json_member_int(buffer, "pid", pid);
	json_member_string(buffer, "type", "native");
	json_member_int(buffer, "native_id", thread->task.own_tid);
	json_member_string(buffer, "name", thread->task.command);
	json_member_text(buffer, "state", (struct slice){&thread->task.state, 1});
	json_member_uint(buffer, "cpu_ns", thread->task.cpu_ns);
	json_member_bool(buffer, "more", thread->cut);
	json_open_array(json_key(buffer, "frames"));
	for (size_t i = 0; i < thread->count; i++) {
		const struct native_frame *frame = &thread->frames[i];

		json_open_object(buffer);
		json_member_uint(buffer, "pc", frame->pc);
		json_member_uint(buffer, "offset", frame->offset);
		if (frame->after_gap)
			json_member_bool(buffer, "after_gap", true);
		if (frame->function)
			json_member_string(buffer, "function", frame->function);
		if (frame->module)
			json_member_string(buffer, "module", frame->module);
		json_close_object(buffer);
	}
	json_close_array(buffer);
	json_close_line(buffer);
}

/* --- A VM that is stuck */

struct stuck {
	const struct target *target;
	struct stuck_answer *answer; /* the handler's; NULL: none */
	struct loader_look *look;    /* NULL: none */
	struct remote remote;        /* its map */
	bool running;
	struct native_stacks stacks;        /* none: count 0 */
	const struct native_thread *holder; /* whose native frames say what it is inside of; NULL: not known */
};

static bool in_vm(const struct stuck *stuck, const struct native_frame *frame)
{
	const char *file = strrchr(stuck->target->libruby, '/');

	if (!frame->module)
		return true;
	if (file)
		return strcmp(frame->module, file + 1) == 0;
	return strncmp(frame->module, "ruby", 4) == 0;
}

/* A ring wakes threads that wait in the VM, and they may be seen running on their way back to sleep. */
static bool waits(const struct native_thread *thread)
{
	for (size_t i = 0; i < thread->count && i < 4; i++)
		if (thread->frames[i].function && strncmp(thread->frames[i].function, "pthread_cond_", 13) == 0)
			return true;
	return false;
}

/* The thread that has the GVL: the only one that runs. */
static const struct native_thread *holder_find(const struct stuck *stuck)
{
	const struct native_thread *found = NULL;

	for (size_t i = 0; i < stuck->stacks.count; i++) {
		const struct native_thread *thread = &stuck->stacks.threads[i];

		if (thread->code != 0 || waits(thread) || (thread->task.state != 'R' && stuck->stacks.count > 1))
			continue;
		if (found)
			return NULL;
		found = thread;
	}
	return found;
}

/* What the VM has called and not come back from, and the VM's own function that did, where it has a name. */
static void add_inside(struct buffer *buffer, const struct stuck *stuck)
{
	const struct native_frame *frames = stuck->holder->frames, *outside = NULL, *vm = NULL;

	for (size_t i = 0; i < stuck->holder->count; i++) {
		if (in_vm(stuck, &frames[i])) {
			/* Only what called: further out is the VM's loop. */
			if (frames[i].function && (!outside || vm == NULL))
				vm = &frames[i];
			if (outside || vm)
				break;
		} else if (frames[i].function || !outside) {
			outside = &frames[i];
		}
	}
	if (outside)
		add_place(buffer, outside);
	if (vm) {
		buffer_add_text(buffer, outside ? ", called by " : "");
		add_place(buffer, vm);
	}
	if (!outside && !vm)
		add_place(buffer, &frames[0]);
	else if (outside != &frames[0] && vm != &frames[0]) {
		buffer_add_text(buffer, " (at this moment: ");
		add_place(buffer, &frames[0]);
		buffer_add_char(buffer, ')');
	}
}

/* What is known of the thread that has the GVL, from whichever source. */
static const struct stuck_answer *first_answer(const struct stuck *stuck)
{
	return stuck->look ? &stuck->look->looks[0].answer : stuck->answer;
}

/* The native thread on whose stack that address is. NULL: not known. */
static const struct native_thread *thread_of_stack(const struct stuck *stuck, uint64_t address)
{
	const struct remote_mapping *stack = address ? remote_mapping_at(&stuck->remote, address) : NULL;
	const struct native_thread *found = NULL;
	uint64_t highest = 0;

	/* Stacks may lie side by side in one mapping: its own begins nearest below. */
	for (size_t i = 0; stack && i < stuck->stacks.count; i++) {
		uint64_t sp = task_stack_pointer(stuck->target->pid, stuck->stacks.threads[i].task.tid);

		if (sp > highest && sp <= address && remote_mapping_at(&stuck->remote, sp) == stack) {
			highest = sp;
			found = &stuck->stacks.threads[i];
		}
	}
	return found;
}

static void frames_text(struct buffer *buffer, const struct stuck_answer *answer)
{
	struct stuck_frame frame;
	size_t offset = 0;

	while (stuck_next(answer, &offset, &frame)) {
		buffer_add_text(buffer, "   ");
		buffer_add_printable(buffer, frame.path.bytes, frame.path.size);
		if (frame.line)
			buffer_add_format(buffer, ":%d", frame.line);
		buffer_add_text(buffer, frame.path.size ? " in " : "in ");
		buffer_add_printable(buffer, frame.label.bytes, frame.label.size);
		buffer_add_char(buffer, '\n');
	}
	if (answer->more)
		buffer_add_text(buffer, "   ...\n");
}

static void others_text(struct buffer *buffer, const struct stuck *stuck)
{
	for (unsigned i = 1; stuck->look && i < stuck->look->count; i++) {
		const struct native_thread *thread = thread_of_stack(stuck, stuck->look->looks[i].stack);

		if (thread) {
			buffer_add_format(buffer, "thread %d \"", (int)thread->task.own_tid);
			add_text(buffer, thread->task.command);
			buffer_add_text(buffer, "\", without the GVL\n");
		} else {
			buffer_add_text(buffer, "a thread without the GVL\n");
		}
		frames_text(buffer, &stuck->look->looks[i].answer);
	}
	if (stuck->look && stuck->look->cut)
		buffer_add_text(buffer, "(there may be more threads)\n");
}

static void write_text(struct buffer *buffer, const struct stuck *stuck, uint64_t waited_ns)
{
	int pid = (int)stuck->target->pid;
	const struct stuck_answer *answer = first_answer(stuck);
	char command[256];

	target_command_line(stuck->target, command, sizeof(command));
	buffer_add_format(buffer, "process %d, not answering: ", pid);
	add_text(buffer, command);
	buffer_add_format(buffer, "\nthe VM has not reached a safe point for %g s", (double)waited_ns / 1e9);
	if (stuck->holder) {
		buffer_add_text(buffer, "; it is inside ");
		add_inside(buffer, stuck);
	}
	buffer_add_char(buffer, '\n');
	if (answer) {
		buffer_add_format(buffer, "thread %u, %s\n", answer->native_id,
		                  stuck->running ? "which has the GVL" : "which may have the GVL");
		if (answer->code == STUCK_IN_GC)
			buffer_add_text(buffer, "   its Ruby frames cannot be read: it is collecting garbage\n");
		if (answer->code == STUCK_REFUSED)
			buffer_add_text(buffer,
			                "   its Ruby frames are not shown: the application does not allow it (Rbprobe.allow)\n");
		frames_text(buffer, answer);
	}
	others_text(buffer, stuck);
	for (size_t i = 0; i < stuck->stacks.count; i++) {
		const struct native_thread *thread = &stuck->stacks.threads[i];

		native_heading_text(buffer, thread);
		native_frames_text(buffer, thread);
	}
}

static void frames_json(struct buffer *buffer, const struct stuck_answer *answer)
{
	struct stuck_frame frame;
	size_t offset = 0;

	json_member_bool(buffer, "more", answer->more);
	json_open_array(json_key(buffer, "frames"));
	while (stuck_next(answer, &offset, &frame)) {
		json_open_object(buffer);
		if (frame.path.size) {
			json_member_text(buffer, "path", frame.path);
			json_member_int(buffer, "line", frame.line);
		}
		json_member_text(buffer, "label", frame.label);
		json_close_object(buffer);
	}
	json_close_array(buffer);
}

static void others_json(struct buffer *buffer, const struct stuck *stuck)
{
	for (unsigned i = 1; stuck->look && i < stuck->look->count; i++) {
		const struct native_thread *thread = thread_of_stack(stuck, stuck->look->looks[i].stack);

		json_open_object(buffer);
		json_member_int(buffer, "pid", stuck->target->pid);
		json_member_string(buffer, "type", "stuck_thread");
		if (thread) {
			json_member_int(buffer, "native_id", thread->task.own_tid);
			json_member_string(buffer, "name", thread->task.command);
		}
		frames_json(buffer, &stuck->look->looks[i].answer);
		json_close_line(buffer);
	}
}

static void write_json(struct buffer *buffer, const struct stuck *stuck, uint64_t waited_ns)
{
	int pid = (int)stuck->target->pid;
	const struct stuck_answer *answer = first_answer(stuck);

	json_open_object(buffer);
	json_member_int(buffer, "pid", pid);
	json_member_string(buffer, "type", "stuck");
	json_member_uint(buffer, "waited_ns", waited_ns);
	if (stuck->holder) {
		struct buffer inside = {0};

		add_inside(&inside, stuck);
		json_member_text(buffer, "inside", (struct slice){inside.bytes, inside.size});
		buffer_free(&inside);
	}
	if (answer) {
		json_member_uint(buffer, "native_id", answer->native_id);
		json_member_bool(buffer, "running", stuck->running);
		json_member_bool(buffer, "in_gc", answer->code == STUCK_IN_GC);
		if (answer->code == STUCK_REFUSED)
			json_member_bool(buffer, "refused", true);
		frames_json(buffer, answer);
	}
	if (stuck->look)
		json_member_bool(buffer, "more_threads", stuck->look->cut);
	json_close_line(buffer);
	others_json(buffer, stuck);
	for (size_t i = 0; i < stuck->stacks.count; i++)
		native_thread_json(buffer, pid, &stuck->stacks.threads[i]);
}

/*
 * By stopping a thread: the one that has the GVL; where that is not known each that runs, or the main one where none does.
 */
static bool look(struct stuck *stuck, struct error *err)
{
	struct loader_look *look = memory_zeroed(sizeof(*look));
	bool any_running = false;
	int status = -EAGAIN;

	error_set(err, -EAGAIN, "no thread that could be looked at has the GVL");
	for (size_t i = 0; i < stuck->stacks.count; i++)
		any_running = any_running || stuck->stacks.threads[i].task.state == 'R';
	for (size_t i = 0; i < stuck->stacks.count && status < 0; i++) {
		const struct native_thread *thread = &stuck->stacks.threads[i];

		if (stuck->holder ? thread != stuck->holder
		    : any_running ? thread->task.state != 'R'
		                  : thread->task.tid != stuck->target->pid)
			continue;
		look->tid = thread->task.tid;
		look->others = stuck->holder != NULL;
		status = loader_look(stuck->target, look, err);
	}
	if (status < 0)
		free(look);
	else
		stuck->look = look;
	return status == 0;
}

/* If stopping it gives no frames, its signal handler may. */
static void ask_for_frames(struct stuck *stuck)
{
	struct error err, handler_err;

	if (look(stuck, &err))
		return;
	if (stuck_ask(stuck->target, stuck->holder ? stuck->holder->task.own_tid : 0, HANDLER_TIMEOUT_NS, &stuck->answer,
	              &handler_err) < 0)
		message("process %d: no Ruby frames: %s; and its signal handler %s", (int)stuck->target->pid, err.text,
		        handler_err.text);
}

bool stuck_write(struct buffer *buffer, const struct target *target, uint64_t waited_ns, bool json)
{
	struct stuck stuck = {.target = target, .remote = REMOTE_CLOSED};
	struct error err;
	bool any;

	if (native_stacks_take(&stuck.stacks, target, 0, NATIVE_BUDGET_NS, &err) < 0) {
		message("no native stacks: %s", err.text);
		native_stacks_free(&stuck.stacks);
	} else if (native_stacks_gap(&stuck.stacks)) {
		message("process %d: %s", (int)target->pid, native_stacks_gap(&stuck.stacks));
	}
	stuck.holder = holder_find(&stuck);
	stuck.running = stuck.holder != NULL;
	ask_for_frames(&stuck);
	if (stuck.look)
		remote_open(&stuck.remote, target->pid, NULL);
	any = stuck.look || stuck.answer || stuck.stacks.count;
	if (any) {
		(json ? write_json : write_text)(buffer, &stuck, waited_ns);
	}
	remote_close(&stuck.remote);
	free(stuck.look);
	free(stuck.answer);
	native_stacks_free(&stuck.stacks);
	return any;
}
