/* From samples to a profile's answers. See stacks.h. */

#include "tracer/native/stacks.h"

#include "proto/clock.h"
#include "proto/fields.h"
#include "proto/names.h"
#include "proto/profile_words.h"
#include "tracer/base/buffer.h"
#include "tracer/base/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define UNNAMED "(a method that Ruby does not tell)"
#define JIT_CODE "(JIT code)"

void stacks_init(struct stacks *stacks, const struct target *target)
{
	const char *file = strrchr(target->libruby, '/');

	*stacks = (struct stacks){.numbers = profile_new()};
	if (file)
		strncpy(stacks->vm, file + 1, sizeof(stacks->vm) - 1);
}

void stacks_free(struct stacks *stacks)
{
	profile_free(stacks->numbers);
}

void stacks_learn_own(struct stacks *stacks, const msgpack_object *functions)
{
	uint32_t count = value_count(functions);

	stacks->own_count = count < FRAMES_OWN_MAX ? count : FRAMES_OWN_MAX;
	for (uint32_t i = 0; i < stacks->own_count; i++)
		stacks->own[i] = value_uint(value_at(functions, i));
}

/* --- Native frames */

static bool in_vm(const struct stacks *stacks, const struct native_frame *frame)
{
	if (!frame->module)
		return false;
	if (stacks->vm[0])
		return strcmp(frame->module, stacks->vm) == 0;
	return strncmp(frame->module, "ruby", 4) == 0;
}

/* How the VM calls methods and blocks: Ruby's frames stand for these. A name may have an ending of the compiler's. */
static bool is_calling(const char *name)
{
	static const char *const beginnings[] = {
		"call_cfunc_",  "cfunc_",        "gccct_",        "invoke_",     "jit_exec",     "mjit_",
		"opt_",         "ractor_safe",   "rb_block_",     "rb_call",     "rb_catch",     "rb_check_fun",
		"rb_class_new", "rb_ec_",        "rb_ensure",     "rb_f_send",   "rb_funcall",   "rb_iseq_",
		"rb_iterate",   "rb_method_",    "rb_nogvl",      "rb_obj_call", "rb_proc_call", "rb_protect",
		"rb_rescue",    "rb_thread_ca",  "rb_threadptr",  "rb_vm_",      "rb_vrescue",   "rb_yield",
		"ruby_exec_",   "ruby_run_node", "send_internal", "thread_do_",  "thread_start", "vm_"};

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++)
		if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

static bool is_own(const struct stacks *stacks, uint64_t function)
{
	for (uint32_t i = 0; i < stacks->own_count; i++)
		if (function && stacks->own[i] == function)
			return true;
	return false;
}

/*
 * What the extension does in the middle of the application's work, such as marking its objects for the GC. The name of a copy in
 * memory, or of a file that was removed, has more to it.
 */
static bool is_of_extension(const struct native_frame *frame)
{
	return frame->module && strstr(frame->module, EXTENSION_FILE);
}

static struct merge_native native_of(const struct stacks *stacks, const struct native_frame *frame, bool innermost)
{
	struct merge_native native = {.start = frame->start, .size = frame->size, .in_vm = in_vm(stacks, frame)};

	native.named = frame->function && !native.in_vm;
	if (is_of_extension(frame))
		native.shown = is_own(stacks, frame->start); /* what it has called is left out */
	else if (native.in_vm)
		native.shown = frame->function && !is_calling(frame->function);
	else
		native.shown = frame->module || innermost;
	return native;
}

static void add_native_name(struct buffer *to, const struct native_frame *frame)
{
	if (!frame->module) {
		buffer_add_text(to, JIT_CODE);
		return;
	}
	if (frame->function)
		buffer_add_text(to, frame->function);
	else if (frame->start)
		buffer_add_format(to, "0x%" PRIx64, frame->offset - (frame->pc - frame->start));
	else
		buffer_add_text(to, "?");
	buffer_add_format(to, " (%s)", frame->module);
}

static uint32_t native_function(struct stacks *stacks, const struct native_frame *frame)
{
	struct buffer name = {0};
	uint32_t number;

	add_native_name(&name, frame);
	number = profile_function_number(stacks->numbers, (struct slice){name.bytes, name.size},
	                                 (struct slice){PROFILE_PATH_NATIVE, strlen(PROFILE_PATH_NATIVE)}, 0);
	buffer_free(&name);
	return number;
}

/* --- Ruby's */

/* A block is shown as its method, as rb_profile_frames() has it. One that define_method made has a method without code. */
static const struct frame_name *name_of(const struct frame_names *names, const struct control_frame *frame)
{
	const struct frame_name *entry = frame_names_find(names, frame->entry);

	if (frame->is_c || (entry && entry->path.size))
		return entry;
	return frame_names_find(names, frame->code);
}

static uint32_t ruby_function(struct stacks *stacks, const struct frame_names *names, const struct control_frame *frame,
                              bool *unnamed)
{
	const struct frame_name *name = name_of(names, frame);

	if (!name) {
		*unnamed = true;
		return profile_function_number(stacks->numbers, (struct slice){UNNAMED, strlen(UNNAMED)},
		                               (struct slice){PROFILE_PATH_STATE, strlen(PROFILE_PATH_STATE)}, 0);
	}
	return profile_function_number(stacks->numbers, name->label, name->path, name->line);
}

/* --- One sample */

/* Outermost first, in arrays of its own; what a block in C is has no frame of Ruby's. */
struct both {
	struct merge_native *natives;
	struct merge_control *controls;
	const struct control_frame **frames; /* of the controls */
	struct merge_stack stack;
};

/* Up to musl all may be there. Where more is missing, the two have another number of entries, and are not joined. */
static bool is_cut(const struct native_thread *native)
{
	const char *module = native->count > 1 ? native->frames[native->count - 1].module : NULL;

	return native->cut && !(module && native_module_is_musl(module, strlen(module)));
}

static struct both both_of(const struct stacks *stacks, const struct frame_names *names, const struct native_sample *sample,
                           const struct native_thread *native)
{
	struct both both = {.natives = memory_zeroed((native->count + 1) * sizeof(*both.natives)),
	                    .controls = memory_zeroed((sample->control.count + 1) * sizeof(*both.controls)),
	                    .frames = memory_zeroed((sample->control.count + 1) * sizeof(*both.frames))};
	uint32_t count = 0;

	for (size_t i = 0; i < native->count; i++)
		both.natives[i] = native_of(stacks, &native->frames[native->count - 1 - i], i == native->count - 1);
	for (uint32_t i = sample->control.count; i-- > 0;) {
		const struct control_frame *frame = &sample->control.frames[i];
		const struct frame_name *entry = frame_names_find(names, frame->entry);

		if (frame->is_c && !frame->entry.address)
			continue;
		both.frames[count] = frame;
		both.controls[count++] = (struct merge_control){
			.function = frame->is_c && entry ? entry->function : 0, .is_c = frame->is_c, .enters = frame->enters};
	}
	both.stack = (struct merge_stack){.natives = both.natives,
	                                  .native_count = (uint32_t)native->count,
	                                  .controls = both.controls,
	                                  .control_count = count,
	                                  .cut = is_cut(native) || sample->control.cut};
	return both;
}

static void both_free(struct both *both)
{
	free(both->natives);
	free(both->controls);
	free(both->frames);
}

static void learn(struct stacks *stacks, const struct frame_names *names, const struct native_sample *sample,
                  const struct native_thread *native)
{
	struct both both = both_of(stacks, names, sample, native);

	if (sample->control.known)
		merge_learn(&stacks->interpreter, &both.stack);
	both_free(&both);
}

static bool place(const struct stacks *stacks, const struct native_sample *sample, const struct merge_stack *both,
                  struct merge_frame *frames, uint32_t *count)
{
	struct merge_choice choice = merge_interpreter_find(&stacks->interpreter);

	if (!sample->control.known)
		choice = (struct merge_choice){0};
	return merge_frames(both, choice.usual, frames, count) || merge_frames(both, choice.other, frames, count);
}

static const struct native_frame *frame_of(const struct native_thread *native, const struct merge_frame *merged)
{
	return merged->is_native ? &native->frames[native->count - 1 - merged->number] : NULL;
}

static bool has_own(const struct stacks *stacks, const struct native_thread *native)
{
	for (size_t i = 0; i < native->count; i++)
		if (is_own(stacks, native->frames[i].start))
			return true;
	return false;
}

/* How many of the merged frames there are outside of rbprobe's work. */
static uint32_t frames_of_application(const struct stacks *stacks, const struct merge_frame *frames, uint32_t count,
                                      const struct native_thread *native)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct native_frame *frame = frame_of(native, &frames[i]);

		if (frame && is_own(stacks, frame->start))
			return i;
	}
	return count;
}

/* The number of its stack. */
static uint32_t node_of(struct stacks *stacks, const struct frame_names *names, const struct native_sample *sample,
                        const struct native_thread *native)
{
	struct both both = both_of(stacks, names, sample, native);
	struct merge_frame *frames = memory_zeroed((native->count + sample->control.count + 1) * sizeof(*frames));
	uint32_t count, node = 0;
	bool unnamed = false, placed;

	placed = place(stacks, sample, &both.stack, frames, &count);
	/* Where it is not known which frames are whose, none is shown. */
	if (has_own(stacks, native))
		count = placed ? frames_of_application(stacks, frames, count, native) : 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = frames[i].number;
		uint32_t function = frames[i].is_native ? native_function(stacks, &native->frames[native->count - 1 - number])
		                                        : ruby_function(stacks, names, both.frames[number], &unnamed);

		node = profile_node_number(stacks->numbers, node, function, 0, UINT32_MAX);
	}
	stacks->counts.cut += is_cut(native);
	stacks->counts.unplaced += !placed;
	stacks->counts.unnamed += unnamed;
	free(frames);
	both_free(&both);
	return node;
}

/* --- The answer */

static void key(msgpack_packer *packer, const char *text)
{
	pack_text(packer, text, strlen(text));
}

static void member(msgpack_packer *packer, const char *name, uint64_t number)
{
	key(packer, name);
	msgpack_pack_uint64(packer, number);
}

static void tell_threads(struct stacks *stacks, const struct sampled_thread *threads, uint32_t count, msgpack_packer *packer)
{
	key(packer, "threads");
	msgpack_pack_array(packer, count - stacks->threads_told);
	for (; stacks->threads_told < count; stacks->threads_told++) {
		const struct sampled_thread *thread = &threads[stacks->threads_told];

		msgpack_pack_map(packer, 5);
		member(packer, "thread", stacks->threads_told + 1);
		member(packer, "id", thread->id);
		member(packer, "native_id", thread->native_id);
		key(packer, "name");
		pack_text(packer, thread->name, strlen(thread->name));
		key(packer, "main");
		thread->main ? msgpack_pack_true(packer) : msgpack_pack_false(packer);
	}
}

static void tell_numbers(struct stacks *stacks, msgpack_packer *packer)
{
	const struct profile *numbers = stacks->numbers;
	uint32_t first = stacks->nodes_told ? stacks->nodes_told : 1;

	key(packer, "functions");
	msgpack_pack_array(packer, 3 * (size_t)(numbers->function_count - stacks->functions_told));
	for (; stacks->functions_told < numbers->function_count; stacks->functions_told++) {
		struct slice label = profile_label(numbers, stacks->functions_told),
			     path = profile_path(numbers, stacks->functions_told);

		pack_text(packer, label.bytes, label.size);
		pack_text(packer, path.bytes, path.size);
		msgpack_pack_int32(packer, numbers->functions[stacks->functions_told].line);
	}
	key(packer, "stacks");
	msgpack_pack_array(packer, 3 * (size_t)(numbers->node_count - first));
	for (uint32_t i = first; i < numbers->node_count; i++) {
		msgpack_pack_uint32(packer, numbers->nodes[i].parent);
		msgpack_pack_uint32(packer, numbers->nodes[i].function + 1);
		msgpack_pack_int32(packer, 0);
	}
	stacks->nodes_told = numbers->node_count;
}

static uint32_t thread_number(const struct sampled_thread *threads, uint32_t count, uint64_t id)
{
	/* The last one that has this id: an object's place may be used again. */
	while (count > 0 && threads[count - 1].id != id)
		count--;
	return count;
}

static void tell_summary(const struct stacks *stacks, const struct sampler_counts *sampled, msgpack_packer *packer)
{
	bool with_unseen = sampled->process_cpu_ns > 0;

	key(packer, "summary");
	msgpack_pack_map(packer, with_unseen ? 11 : 10);
	member(packer, "elapsed_ns", sampled->elapsed_ns);
	member(packer, "samples", sampled->ticks);
	member(packer, "late_ticks", sampled->late_ticks);
	member(packer, "late_ns", sampled->late_ns);
	member(packer, "no_room_ticks", sampled->no_room);
	member(packer, "own_cpu_ns", sampled->own_cpu_ns);
	if (with_unseen)
		member(packer, "unseen_cpu_ns", sampler_unseen_cpu_ns(sampled));
	key(packer, "rate_hz");
	msgpack_pack_double(packer, sampler_rate_hz(sampled));
	key(packer, "with_c");
	msgpack_pack_true(packer);
	key(packer, "with_cpu");
	msgpack_pack_true(packer);
	key(packer, "native");
	msgpack_pack_map(packer, 8);
	member(packer, "stops", sampled->stops);
	member(packer, "pause_median_ns", sampler_median_pause_ns(sampled));
	member(packer, "pause_longest_ns", sampled->longest_ns);
	member(packer, "stopped_ns", sampled->stopped_ns);
	member(packer, "not_stopped", sampled->not_stopped);
	member(packer, "cut", stacks->counts.cut);
	member(packer, "unplaced", stacks->counts.unplaced);
	member(packer, "unnamed", stacks->counts.unnamed);
}

void stacks_tell(struct stacks *stacks, const struct frame_names *names, const struct native_sample *samples, uint32_t count,
                 const struct native_stacks *natives, const struct sampled_thread *threads, uint32_t thread_count,
                 const struct sampler_counts *sampled, msgpack_sbuffer *packed)
{
	uint32_t *nodes = memory_zeroed((count + 1) * sizeof(*nodes));
	msgpack_packer packer;

	msgpack_packer_init(&packer, packed, msgpack_sbuffer_write);
	for (uint32_t i = 0; i < count; i++)
		learn(stacks, names, &samples[i], &natives->threads[i]);
	for (uint32_t i = 0; i < count; i++)
		nodes[i] = node_of(stacks, names, &samples[i], &natives->threads[i]);
	msgpack_pack_map(&packer, 6);
	tell_threads(stacks, threads, thread_count, &packer);
	tell_numbers(stacks, &packer);
	key(&packer, "sums");
	msgpack_pack_array(&packer, 5 * (size_t)count);
	for (uint32_t i = 0; i < count; i++) {
		msgpack_pack_uint32(&packer, thread_number(threads, thread_count, samples[i].thread));
		msgpack_pack_uint32(&packer, nodes[i]);
		msgpack_pack_uint64(&packer, samples[i].ticks);
		msgpack_pack_uint64(&packer, samples[i].wall_ns);
		msgpack_pack_uint64(&packer, samples[i].cpu_ns);
	}
	key(&packer, "idle");
	msgpack_pack_array(&packer, 3 * (size_t)count);
	for (uint32_t i = 0; i < count; i++) {
		msgpack_pack_uint32(&packer, thread_number(threads, thread_count, samples[i].thread));
		msgpack_pack_uint32(&packer, nodes[i]);
		msgpack_pack_uint64(&packer, samples[i].idle_ns);
	}
	tell_summary(stacks, sampled, &packer);
	free(nodes);
}
