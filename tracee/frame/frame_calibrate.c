/*
 * Watches the scratch methods of frame_scratch.c with a TracePoint, and notes what their events look like from
 * inside the callback. frame_analyse.c makes the layout out of these samples.
 *
 * Job context, and the event context for the callback. All Ruby runs under rb_protect. What it leaves behind is an
 * anonymous module and a few objects for the GC. The distances of return addresses come from the compiler's unwinder
 * (libgcc; -static-libgcc keeps it from becoming a library that the target must have), at calibration only.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "proto/error.h"
#include "tracee/base/safe_read.h"
#include "tracee/frame/frame.h"
#include "tracee/frame/frame_direct.h"
#include "tracee/frame/frame_sample.h"
#include "tracee/frame/frame_scratch.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/foreign_hooks.h"
#include "tracee/vm/scratch.h"

#define READS_STACK __attribute__((no_sanitize("address")))

#define NESTING_MAX 16
#define DIRECT_SAMPLES 3 /* of the calls of a method, and of its returns */

struct calibration {
	enum frame_scope scope;
	struct frame_scratch scratch;

	int entry; /* CALL sample of the scenario's entry */
	int nesting;
	int open[NESTING_MAX]; /* CALL samples of the frames in progress */
	enum method open_method[NESTING_MAX];
	bool confused;
	uint8_t direct_samples[METHODS][2]; /* of calls and of returns, so far */

	int sample_count;
	struct sample *samples; /* SAMPLES_MAX of them */
};

/* A thread calibrates. Under the GVL. */
static bool busy;

/* ---- Taking samples, in the event context ---- */

struct walk {
	struct sample *sample;
	const char *anchor;
	const char *searched; /* up to here all return addresses have been found; NULL: the first is not looked for */
};

/*
 * In the callee's frame, which is below the address. On x86 and RISC-V it is the uppermost word, but for registers with arguments
 * that were saved; on aarch64 among the lowest, as variables are above it. On POWER it has its place in the caller's frame.
 */
READS_STACK static const char *return_address_find(uintptr_t address, const char *from, const char *below)
{
#if defined(__powerpc64__)
	const char *at = below + 2 * sizeof(address);

	(void)from;
	return frame_address_at(at) == address ? at : NULL;
#else
#if defined(__x86_64__) || defined(__riscv)
	for (const char *at = below - sizeof(address); at >= from; at -= sizeof(address))
#else
	for (const char *at = from; at < below; at += sizeof(address))
#endif
		if (frame_address_at(at) == address)
			return at;
	return NULL;
#endif
}

static _Unwind_Reason_Code walk_step(struct _Unwind_Context *context, void *data)
{
	struct walk *walk = data;
	struct sample *sample = walk->sample;
	const char *stack = (const char *)_Unwind_GetCFA(context);
	uintptr_t address = _Unwind_GetIP(context) & FRAME_ADDRESS_BITS;
	const char *at;

	if (stack < walk->anchor)
		return _URC_NO_REASON; /* the callback itself and what it called */
	if (sample->level_count == SAMPLE_LEVELS)
		return _URC_END_OF_STACK;
	if (walk->searched == NULL) {
		walk->searched = stack;
		return _URC_NO_REASON;
	}
	at = return_address_find(address, walk->searched, stack);
	if (at == NULL)
		return _URC_END_OF_STACK;
	sample->levels[sample->level_count++] =
		(struct sample_level){.distance = at - walk->anchor, .stack = stack - walk->anchor, .address = address};
	walk->searched = at + sizeof(address);
	return _URC_NO_REASON;
}

static void sample_chain(struct sample *sample, const char *anchor)
{
	struct walk walk = {.sample = sample, .anchor = anchor};

	/*
	 * The callback's own return address is just below the anchor on x86. Elsewhere it is somewhere in the callback's
	 * frame, at another distance for each callback. It is the same for all places in the VM, and not needed.
	 */
#if defined(__x86_64__)
	walk.searched = anchor - 2 * sizeof(uintptr_t);
#endif

	_Unwind_Backtrace(walk_step, &walk);
}

static bool jump_read(struct calibration *calibration, uintptr_t word, uintptr_t jump[JUMP_SPAN])
{
	if (word < 4096 || word % sizeof(VALUE) != 0 || !safe_read(word, jump, JUMP_SPAN * sizeof(*jump)))
		return false;
	if ((jump[0] & RUBY_T_MASK) != RUBY_T_IMEMO)
		return false;
	for (int i = 1; i < JUMP_SPAN; i++) {
		if (jump[i] == calibration->scratch.value)
			return true;
	}
	return false;
}

READS_STACK static void sample_stack(struct calibration *calibration, struct sample *sample, const char *anchor)
{
	ptrdiff_t end = sample->level_count > 0 ? sample->levels[sample->level_count - 1].distance : 0;

	for (ptrdiff_t distance = 0; distance < end && sample->find_count < SAMPLE_FINDS; distance += sizeof(uintptr_t)) {
		struct sample_find *find = &sample->finds[sample->find_count];
		uintptr_t word = *(const uintptr_t *)(anchor + distance);

		if (word >= (uintptr_t)anchor && word <= (uintptr_t)anchor + end)
			continue;
		find->distance = distance;
		if (sample->truth == SAMPLE_RAISED ? word == sample->error : jump_read(calibration, word, find->jump))
			sample->find_count++;
	}
}

static void sample_truth(const struct calibration *calibration, struct sample *sample, enum method method)
{
	sample->home = -1;
	sample->error = Qundef;
	sample->value = calibration->scratch.value;
	sample->truth = SAMPLE_RETURNED;

	if (calibration->scratch.scenario->raises) {
		sample->truth = SAMPLE_RAISED;
		sample->error = calibration->scratch.error;
		return;
	}
	for (int i = 0; i < EXPECTATIONS; i++) {
		const struct expectation *expect = &calibration->scratch.scenario->expect[i];

		if (expect->method != method || expect->truth == SAMPLE_CALL)
			continue;
		sample->truth = expect->truth;
		sample->state = expect->state;
		if (expect->from_home)
			sample->home = calibration->entry;
		return;
	}
}

static bool sample_open(struct calibration *calibration, struct sample *sample, enum method method)
{
	if (calibration->nesting == NESTING_MAX)
		return false;
	sample->truth = SAMPLE_CALL;
	sample->parent = calibration->nesting > 0 ? calibration->open[calibration->nesting - 1] : -1;
	sample->call = calibration->sample_count;
	if (method == calibration->scratch.scenario->entry)
		calibration->entry = calibration->sample_count;
	calibration->open[calibration->nesting] = calibration->sample_count;
	calibration->open_method[calibration->nesting++] = method;
	return true;
}

static bool sample_close(struct calibration *calibration, struct sample *sample, enum method method)
{
	if (calibration->nesting == 0 || calibration->open_method[calibration->nesting - 1] != method)
		return false;
	sample->call = calibration->open[--calibration->nesting];
	sample->parent = -1;
	sample_truth(calibration, sample, method);
	return true;
}

static void sample_event(VALUE tracepoint, void *nothing)
{
	const char *anchor = FRAME_ANCHOR();
	struct calibration *calibration = scratch_watched(tracepoint);
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	rb_event_flag_t event = rb_tracearg_event_flag(trace_arg);
	enum method method;
	struct sample *sample;
	VALUE name;

	(void)nothing;
	if (calibration == NULL || calibration->scratch.scenario == NULL ||
	    rb_tracearg_self(trace_arg) != calibration->scratch.methods.object)
		return;
	name = rb_tracearg_method_id(trace_arg);
	for (method = 0; method < METHODS; method++) {
		if (name == ID2SYM(calibration->scratch.ids[method]))
			break;
	}
	if (method == METHODS)
		return;
	if (calibration->sample_count == SAMPLES_MAX) {
		calibration->confused = true;
		return;
	}

	sample = &calibration->samples[calibration->sample_count];
	memset(sample, 0, sizeof(*sample));
	sample->c_method = frame_scratch_methods[method].c_method;
	sample->indirect = frame_scratch_methods[method].indirect ||
	                   (method == BLOCK_METHOD && calibration->scratch.scenario->entry == BLOCK_CATCHER);
	sample->block_method = method == BLOCK_METHOD;
	memcpy(sample->words, (const void *)trace_arg, sizeof(sample->words));
	if (event & (RUBY_EVENT_CALL | RUBY_EVENT_C_CALL) ? !sample_open(calibration, sample, method)
	                                                  : !sample_close(calibration, sample, method)) {
		calibration->confused = true;
		return;
	}
	sample_chain(sample, anchor);
	sample->event = event;
	sample->trace_arg_distance = (const char *)trace_arg - anchor;
	sample->original = rb_sym2id(name);
	/*
	 * At a return the frame's stack is not empty: only what is found there as well does not depend on that. A few of each
	 * method will do: reading takes its time.
	 */
	if ((event == RUBY_EVENT_CALL ||
	     (event == RUBY_EVENT_RETURN && sample->truth == SAMPLE_RETURNED && !sample->block_method)) &&
	    calibration->direct_samples[method][event == RUBY_EVENT_RETURN]++ < DIRECT_SAMPLES)
		frame_direct_sample(sample, trace_arg);
	if (sample->truth != SAMPLE_CALL && sample->truth != SAMPLE_RETURNED)
		sample_stack(calibration, sample, anchor);
	calibration->sample_count++;
}

/* ---- The calibration, in the job context ---- */

static VALUE scenarios_run(VALUE argument)
{
	struct calibration *calibration = (struct calibration *)argument;

	return frame_scratch_run(&calibration->scratch, calibration->scope == FRAME_GLOBAL) ? Qtrue : Qfalse;
}

static VALUE trials_run(VALUE argument)
{
	struct calibration *calibration = (struct calibration *)argument;
	struct scratch_watch watch = {.events = RUBY_EVENT_CALL | RUBY_EVENT_RETURN,
	                              .event = sample_event,
	                              .run = scenarios_run,
	                              .argument = argument,
	                              .data = calibration};

	frame_scratch_build(&calibration->scratch);
	if (calibration->scope == FRAME_GLOBAL)
		watch.events |= RUBY_EVENT_C_CALL | RUBY_EVENT_C_RETURN;
	else
		frame_scratch_targets(&calibration->scratch, watch.targets);
	return scratch_watch(&watch);
}

static bool calibration_run(struct calibration *calibration)
{
	VALUE ran;
	int state = 0;

	ran = rb_protect(trials_run, (VALUE)calibration, &state);
	return state == 0 && RTEST(ran) && calibration->nesting == 0 && !calibration->confused;
}

static bool hooks_suppressed(const struct calibration *calibration)
{
	return calibration->scratch.scenarios_run > 0 && calibration->sample_count == 0;
}

/* What must not be seen outside: warnings about the scratch source, and $!. */
static int calibrate(struct calibration *calibration, struct error *err)
{
	VALUE *verbose = rb_ruby_verbose_ptr();
	VALUE saved_verbose = *verbose;
	VALUE saved_error = rb_errinfo();
	bool ran;
	int code;

	busy = true;
	*verbose = Qnil;
	ran = calibration_run(calibration);
	*verbose = saved_verbose;
	busy = false;
	exception_drop(RTEST(rb_obj_is_kind_of(saved_error, rb_eException)) ? saved_error : Qnil);

	if (hooks_suppressed(calibration))
		return error_set(err, -EAGAIN, "the application is inside a hook of its own, which suppresses all others");
	if (!ran)
		return error_set(err, -EAGAIN, "something interrupted the trial runs of methods");
	code = frame_analyse(calibration->scope, calibration->samples, calibration->sample_count, err);
	if (code == 0 && !frame_direct_is_known())
		frame_direct_analyse(calibration->samples, calibration->sample_count);
	return code;
}

/* Without unwind information for this very file, libgcc's unwinder would abort. */
struct unwind_bases {
	void *text, *data, *function;
};
const void *_Unwind_Find_FDE(void *address, struct unwind_bases *bases);

static bool unwinder_usable(void)
{
	struct unwind_bases bases;

	return _Unwind_Find_FDE((char *)(uintptr_t)sample_chain + 1, &bases) != NULL &&
	       _Unwind_Find_FDE((char *)(uintptr_t)sample_event + 1, &bases) != NULL;
}

/* A trial run may be cut short once, by a signal or a stack that is nearly full; not again and again. */
#define ATTEMPTS 3

static int attempts[FRAME_SCOPES];

bool frame_calibration_is_over(enum frame_scope scope)
{
	return frame_layout.endings_known[scope] || attempts[scope] == ATTEMPTS;
}

int frame_calibrate(enum frame_scope scope, struct error *err)
{
	/* On the stack, because its VALUEs are then seen by the GC, and not moved. */
	struct calibration calibration = {.scope = scope};
	int code;

	if (frame_layout.endings_known[scope])
		return 0;
	if (attempts[scope] == ATTEMPTS)
		return error_set(err, -ENOTSUP, "how methods end could not be found out on this Ruby");
	if (busy)
		return error_set(err, -EAGAIN, "another thread is just finding out how methods end on this Ruby");
	if (foreign_hooks_on(FOREIGN_HOOKS_TRIAL))
		return error_set(err, -EAGAIN, FOREIGN_HOOKS_WHY);

	calibration.samples = calloc(SAMPLES_MAX, sizeof(*calibration.samples));
	if (calibration.samples == NULL)
		return error_set(err, -ENOMEM, "no memory to find out how methods end on this Ruby");
	code = unwinder_usable() ? calibrate(&calibration, err)
	                         : error_set(err, -ENOTSUP, "rbprobe was built without unwind tables");
	if (code != -EAGAIN)
		attempts[scope] = ATTEMPTS;
	else if (!hooks_suppressed(&calibration))
		attempts[scope]++;
	free(calibration.samples);
	return code;
}

int frame_calibrate_on_demand(enum frame_scope scope)
{
	int before = attempts[scope], code = frame_calibrate(scope, NULL);

	if (code == -EAGAIN)
		attempts[scope] = before;
	return code;
}
