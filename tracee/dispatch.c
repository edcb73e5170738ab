/* The job: commands in, sessions out. See dispatch.h. */

#include "tracee/dispatch.h"

#include "proto/clock.h"
#include "proto/command.h"
#include "tracee/base/job_cpu.h"
#include "tracee/base/job_due.h"
#include "tracee/engine/engine.h"
#include "tracee/engine/engine_line.h"
#include "tracee/engine/patch.h"
#include "tracee/entry.h"
#include "tracee/long_command.h"
#include "tracee/observe/marks.h"
#include "tracee/observe/overdue.h"
#include "tracee/requests/silent_fork.h"
#include "tracee/select/compile_anew.h"
#include "tracee/select/compiler_watch.h"
#include "tracee/select/selection.h"
#include "tracee/session/bell.h"
#include "tracee/session/debug.h"
#include "tracee/session/gc_hook.h"
#include "tracee/session/permissions.h"
#include "tracee/session/queue.h"
#include "tracee/session/request.h"
#include "tracee/session/session.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/evaluation.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/gc_stress.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/own_objects.h"
#include "tracee/vm/own_work.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/stack_room.h"
#include "tracee/vm/targeted.h"

#include <errno.h>
#include <pthread.h>
#include <ruby.h>
#include <string.h>
#include <time.h>

#define SWEEPS_SOON 50 /* in a second */
#define SWEEP_SOON_MS 20
#define SWEEP_LATER_MS 1000
#define MOMENT_MAX_MS 500
#define MOMENT_AGAIN_MS 10000
#define QUEUE_GRACE_SECONDS 2 /* how long a queue waits for the command that the bell announced */

/* 0, or negative and err. */
typedef int (*handler)(struct session *session, const struct command *command, uint64_t *count, struct error *err);

static int run_cancel(struct session *session, const struct command *command, uint64_t *count, struct error *err)
{
	(void)err;
	*count = request_cancel(session, (uint32_t)command->arguments.request_id);
	return 0;
}

static const handler handlers[COMMAND_COUNT] = {
	[COMMAND_CANCEL] = run_cancel,
};

/* Commands that are answered before they run, and report their end by themselves. */
#define REQUEST_ENTRY(number, name, kind) [COMMAND_##name] = &request_##kind,

static const struct request_kind *const requests[COMMAND_COUNT] = {REQUESTS(REQUEST_ENTRY)};

void dispatch_reply(struct session *session, uint32_t command_id, int status, const struct error *err, uint64_t count)
{
	struct record record = {.kind = RECORD_REPLY, .reply = {.command_id = command_id, .count = count}};

	session_tell_missing(session);
	record.reply.text = (struct slice){"", 0};
	if (status < 0) {
		size_t size = strlen(err->text);

		record.reply.code = (uint32_t)-status;
		record.reply.text = (struct slice){err->text, size};
	}
	session_send(session, &record);
}

static void run_in_session(struct session *session, const struct assembled_command *assembled, const struct command *command,
                           int decoded, struct error *err)
{
	const char *missing = interrupts_missing();
	uint64_t count = 0;
	int status = decoded;

	if (status == 0 && missing && command->kind != COMMAND_DETACH)
		status = error_set(err, -ENOTSUP, "%s", missing);
	if (status == 0 && command->kind == COMMAND_DETACH) {
		session_detach(session, END_DETACHED, "");
		return;
	}
	if (status == 0)
		status = permissions_check(permissions_needed(command, false), err);
	/* One that is refused, as there is one already, has no say in what that one needs. */
	if (status == 0 && command->kind == COMMAND_TRACE && !session->selection)
		session->needs = permissions_needed(command, true);
	if (status == 0 && requests[command->kind]) {
		struct request *request;

		status = request_open(&request, requests[command->kind], session, command, err);
		dispatch_reply(session, command->id, status, err, 0);
		if (status == 0)
			request_begin(request, command);
		return;
	}
	if (status == 0 && (command->kind == COMMAND_TRACE || command->kind == COMMAND_METHODS)) {
		status = long_command_begin(session, assembled, err);
		if (status < 0)
			dispatch_reply(session, command->id, status, err, 0);
		return;
	}
	if (status == 0 && !handlers[command->kind])
		status = error_set(err, -ENOSYS, "command %d cannot be used here", (int)command->kind);
	if (status == 0)
		status = handlers[command->kind](session, command, &count, err);
	dispatch_reply(session, command->id, status, err, count);
}

/* For debug lines. */
static const char *kind_name(int decoded, const struct command *command)
{
	if (decoded < 0)
		return "refused";
	if (requests[command->kind])
		return requests[command->kind]->name;
	switch (command->kind) {
	case COMMAND_TRACE:
		return "trace";
	case COMMAND_METHODS:
		return "methods";
	case COMMAND_CANCEL:
		return "cancel";
	case COMMAND_DETACH:
		return "detach";
	default:
		return "attach";
	}
}

/*
 * Whether the next command may be taken at once. An evaluation's thread goes first, and may be over by now: what its client sends
 * then is a command of its own, whose bell has yet to ring. Taken before that, it would be the last one, and the bell would
 * find nobody, and make a queue for nothing.
 */
static bool run_command(const struct assembled_command *assembled)
{
	struct command command;
	struct session *session = session_find(assembled->nonce);
	msgpack_zone zone;
	struct error err;
	int decoded;

	if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
		return true;
	decoded = command_decode(&command, assembled->bytes, assembled->size, &zone, &err);
	debug(session, DEBUG_REQUEST, "command %u came: %s, %zu bytes%s%s", command.id, kind_name(decoded, &command),
	      assembled->size, decoded == 0 ? "" : ": ", decoded == 0 ? "" : err.text);
	/* Who has no session can be answered only where the command names a socket. */
	if (session)
		run_in_session(session, assembled, &command, decoded, &err);
	else if (decoded == 0 && command.kind == COMMAND_ATTACH)
		session_attach(assembled->nonce, &command, &err);
	msgpack_zone_destroy(&zone);
	return decoded < 0 || command.kind != COMMAND_EVAL;
}

static bool left_over; /* what could not be undone in the last job, TracePoints or code of YJIT's: the bell is rung for it */

static void sweep(void)
{
	bool was_left = left_over || patch_compiler_untold(), waited = targeted_mend_waits(), rewritten;

	left_over = engine_target_sweep();
	left_over = engine_line_sweep() || left_over;
	left_over = gc_hook_sweep() || left_over;
	left_over = (!selection_watches() && compiler_watch_end()) || left_over;
	left_over = (patch_compiler_untold() && !patch_compiler_starts_anew()) || left_over;
	if (left_over)
		return;
	rewritten = targeted_mend();
	/* When they could not be disabled, neither could the compiler be told. */
	if (was_left || rewritten)
		compile_anew();
	else if (!compile_anew_if_due() && !waited)
		return;
	if (!queue_exists())
		queue_ring_no_more();
}

/*
 * No other job may come: nobody is attached, perhaps, and there is no queue. What is in the way, as another Ractor, may be there
 * for good.
 */
static void ring_for_left_over(void)
{
	static unsigned tried;

	tried = left_over && (patch_compiler_untold() || !targeted_rest()) ? tried + 1 : 0;
	if (left_over || targeted_mend_waits())
		queue_ring_in(tried < SWEEPS_SOON ? SWEEP_SOON_MS : SWEEP_LATER_MS);
	/* A queue has its own rings, until it is gone. */
	else if (compile_anew_waits() && !queue_exists())
		queue_ring_in(compile_anew_in_ms());
}

/* For which a job is to come, also where nobody is attached. */
static bool work_waits(void)
{
	return left_over || targeted_mend_waits() || compile_anew_waits();
}

static void rest(void)
{
	if (!entry_stays() && !bell_rest())
		queue_expire_after(QUEUE_GRACE_SECONDS);
}

/*
 * The queue stays while somebody is attached, and for a moment while somebody may be about to. With it goes the bell, where the
 * extension was not asked to stay. A job that runs without a queue is that of a forked child.
 */
static void keep_or_remove_queue(unsigned sessions, bool had_sessions)
{
	if (sessions > 0) {
		queue_keep();
		return;
	}
	if (had_sessions)
		debug_all(DEBUG_QUEUE, "removing the queue, as no session is left");
	if (had_sessions || queue_expired())
		queue_remove();
	if (queue_exists())
		queue_expire_after(QUEUE_GRACE_SECONDS);
	else if (!work_waits())
		rest();
}

/*
 * Within a hook of the application's, and while Ruby parses a file, no event comes of the trials that tell how methods can be
 * observed; that matters where nothing has been tried yet. Deep in a recursion a command would fail. As a rule all are over
 * soon: commands wait that long. A process that is never found elsewhere answers without that, but for one wait in
 * MOMENT_AGAIN_MS, as what was so an hour ago may be over.
 */
static bool is_bad_moment(void)
{
	static uint64_t since_ns;
	uint64_t now_ns = clock_now_ns();
	bool deep = !stack_room_is_enough();

	if (!deep && (patch_tried() || !quiet_is_others())) {
		since_ns = 0;
		return false;
	}
	if (!since_ns || now_ns - since_ns > MOMENT_AGAIN_MS * NS_PER_MS) {
		since_ns = now_ns;
		debug_all(DEBUG_QUEUE, "%s: commands wait for another moment",
		          deep ? "deep in a recursion" : "in a hook, or while Ruby parses");
	}
	return now_ns - since_ns < MOMENT_MAX_MS * NS_PER_MS;
}

static VALUE job(VALUE unused)
{
	struct error err;
	bool later;
	bool had_sessions;
	unsigned sessions;

	(void)unused;
	session_fork_clean();
	session_fork_introduce();
	evaluation_cancel_overdue();
	overdue_look();
	request_cancel_overdue();
	silent_forks_finish();
	had_sessions = session_first() != NULL;
	if (permissions_take_change())
		session_withdraw();
	later = is_bad_moment();
	if (later) {
		selection_go_on_disarming();
	} else {
		queue_drain(run_command, &err);
		long_commands_go_on();
	}
	if (compiler_watch_take())
		selection_compiler_on();
	selection_look();
	selection_overhead_look();
	marks_flush();
	sessions = session_reap();
	evaluation_hear_threads(selection_evaluates());
	sweep();
	keep_or_remove_queue(sessions, had_sessions);
	/* After that, which sets the timer as well. */
	ring_for_left_over();
	if (later && queue_exists())
		queue_ring_soon();
	if (long_commands_are_left())
		queue_ring_in(GVL_PAUSE_MS);
	session_finish();
	return Qnil;
}

/* What the job itself raises is not for the application; what is left for interrupts_deferred() to raise, is. */
static VALUE job_protected(VALUE unused)
{
	int failed = 0;

	(void)unused;
	gc_stress_off();
	rb_protect(job, Qnil, &failed);
	gc_stress_back();
	if (failed)
		exception_drop(Qnil);
	return Qnil;
}

/*
 * Most jobs: bells that rang more than once. They are over before they could be told from none: what is under way on this thread
 * is not held up, and nothing that is sent to it meets our code.
 */
static bool nothing_to_do(void)
{
	return !session_first() && !session_fork_left() && !queue_exists() && !work_waits();
}

#define AGAIN_NS (5 * NS_PER_MS) /* so long after its beginning a job is followed by another one at once */

static bool running, again;
static pthread_t runner; /* the thread that does, while running */

void dispatch_fork_child(void)
{
	compile_anew_fork_child();
	if (running && !pthread_equal(runner, pthread_self())) {
		running = again = false;
		job_note_began(0);
	}
}

void dispatch_job(void)
{
	struct fiber_state *own;
	struct own_work work;
	struct quiet quiet;
	uint64_t began_ns, cpu_ns;
	bool missing, began = true;

	if (!running && nothing_to_do()) {
		queue_keep();
		rest();
		return;
	}
	/* A command may let other threads run, and the bell may ring meanwhile. */
	if (running) {
		again = true;
		return;
	}
	/* Each try raises, with a backtrace of thousands. */
	if (stack_room_is_known_to_lack()) {
		queue_ring_soon();
		return;
	}
	/* From here on: each call of a Ruby method below may let other threads run, and one of them may have a job. */
	running = true;
	runner = pthread_self();
	own_work_begin(&work, (uintptr_t)dispatch_job);
	/* What is called from here on is no call of the application's, whatever is traced, by us or by itself. */
	quiet = quiet_begin();
	own = fiber_suppress_begin();
	own_objects_begin(own);
	/*
	 * The VM is about to deliver them, and would do so to the end of the job, which drops them: behind it the thread is its
	 * own, or no more.
	 */
	missing = interrupts_missing() != NULL;
	if (!missing && interrupts_go_first()) {
		own_objects_end(own);
		fiber_suppress_end(own);
		quiet_end(quiet);
		own_work_end(&work);
		running = false;
		queue_ring_soon();
		return;
	}
	began_ns = clock_now_ns();
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	job_note_began(began_ns);
	do {
		again = false;
		/*
		 * Where interrupts cannot be held back, the job refuses all commands, and runs no Ruby code that one could meet.
		 */
		if (missing)
			job_protected(Qnil);
		else
			began = interrupts_job(job_protected, Qnil);
	} while (began && again && clock_now_ns() - began_ns < AGAIN_NS);
	job_note_began(0);
	job_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	/* It failed first of all, or the job found too little room: what that took is to be a small part of the thread's time. */
	if (!began || stack_room_lacked_since(began_ns))
		stack_room_note_lack(began_ns);
	/* A thread for which each job takes long, and which is asked for another one meanwhile, must come to its own work. */
	if (again || !began)
		queue_ring_soon();
	own_objects_end(own);
	fiber_suppress_end(own);
	quiet_end(quiet);
	own_work_end(&work);
	running = false;
}

static bool armed(void)
{
	struct session *session = session_first();

	return session && session->selection && !long_command_of(session);
}

void dispatch_wait_for_client(unsigned timeout_ms)
{
	bool attached = false;

	queue_create();
	/* A client that comes and goes again was refused what it asked for. */
	for (unsigned waited_ms = 0; waited_ms < timeout_ms && !armed() && !(attached && !session_first()); waited_ms++) {
		struct timespec pause = {.tv_nsec = 1000000};

		nanosleep(&pause, NULL);
		dispatch_job();
		attached = attached || session_first();
	}
	if (!armed())
		queue_remove();
}
