/*
 * Lines that Coverage counts once. See oneshot_lines.h.
 *
 * Code has a word with the events that rb_iseq_trace_set() has written its instructions for; new code gets those of
 * ruby_vm_event_enabled_global_flags (vm_core.h and iseq.c, 2.7 to 4.1-dev). The place is found with lambdas of our own that are
 * compiled while one event more is taken for enabled. Who rewrites the instructions for a global hook writes the word anew.
 */

#include "tracee/vm/oneshot_lines.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/code_around.h"
#include "tracee/vm/event_flags.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/layout.h"
#include "tracee/vm/method_definition.h"

#include <ruby/debug.h>
#include <ruby/st.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_RB_GET_COVERAGES

/* Exported for Ruby's own library `coverage`, in no header. A Hash, or false. */
VALUE rb_get_coverages(void);

struct looked_through {
	bool has_lines, counts_each;
};

/*
 * Of each file an Array, whose first element is the lines: of oneshot ones the numbers of those that have run; else one element
 * for each line, which is nil where there is no code.
 */
static int look_through(VALUE path, VALUE coverage, VALUE argument)
{
	struct looked_through *looked = (struct looked_through *)argument;
	VALUE lines;

	(void)path;
	if (!RB_TYPE_P(coverage, T_ARRAY) || RARRAY_LEN(coverage) == 0)
		return ST_CONTINUE;
	lines = RARRAY_AREF(coverage, 0);
	if (!RB_TYPE_P(lines, T_ARRAY))
		return ST_CONTINUE;
	looked->has_lines = true;
	for (long i = 0; i < RARRAY_LEN(lines) && !looked->counts_each; i++)
		looked->counts_each = NIL_P(RARRAY_AREF(lines, i));
	return looked->counts_each ? ST_STOP : ST_CONTINUE;
}

bool oneshot_lines_run(void)
{
	struct looked_through looked = {false, false};
	VALUE files = rb_get_coverages();

	if (RB_TYPE_P(files, T_HASH))
		rb_hash_foreach(files, look_through, (VALUE)&looked);
	return looked.has_lines && !looked.counts_each;
}

/* --- Finding the place */

#define WORD_BYTES (SLOT_WORDS * sizeof(uintptr_t))
/* The first word is the object's flags, the second leads to what stands for it. */
#define FIRST_BYTE (2 * sizeof(uintptr_t))
#define TRIALS 3

/* What code is written for while each of them is taken for enabled. Next to nothing has such a hook. */
static const rb_event_flag_t tried[TRIALS] = {0, RUBY_EVENT_END, RUBY_EVENT_END | RUBY_EVENT_B_RETURN};

static VALUE compile(VALUE unused)
{
	(void)unused;
	return method_definition_instructions(builtin_lambda("-> { }"));
}

static VALUE compile_for(rb_event_flag_t events)
{
	int failed = 0;
	VALUE code;

	event_flags_hold(events);
	code = rb_protect(compile, Qnil, &failed);
	event_flags_release();
	if (failed)
		rb_jump_tag(failed);
	return code;
}

static bool read_code(VALUE code, char bytes[WORD_BYTES])
{
	uintptr_t address = code_around_address(code);

	return address && safe_read(address, bytes, WORD_BYTES);
}

static rb_event_flag_t events_at(const char *bytes, size_t offset)
{
	rb_event_flag_t events;

	memcpy(&events, bytes + offset, sizeof(events));
	return events;
}

static void find(void)
{
	char bytes[TRIALS][WORD_BYTES];
	size_t found = 0, count = 0;

	for (int i = 0; i < TRIALS; i++) {
		VALUE code = compile_for(tried[i]);

		if (!read_code(code, bytes[i]))
			return;
		RB_GC_GUARD(code);
	}
	for (size_t offset = FIRST_BYTE; offset < WORD_BYTES; offset += sizeof(rb_event_flag_t)) {
		rb_event_flag_t before = events_at(bytes[0], offset);

		if (before & tried[2] || events_at(bytes[1], offset) != (before | tried[1]) ||
		    events_at(bytes[2], offset) != (before | tried[2]))
			continue;
		found = offset;
		count++;
	}
	if (count == 1)
		layout_found(LAYOUT_CODE_EVENTS, found);
}

bool oneshot_lines_find(void)
{
	static bool looked;

	if (!looked) {
		looked = true;
		event_flags_look();
		if (layout_is_known(LAYOUT_HOOK_FLAGS))
			find();
		layout_not_found(LAYOUT_CODE_EVENTS, "no word of lambdas told the events that they were compiled for");
	}
	return layout_is_known(LAYOUT_CODE_EVENTS);
}

bool oneshot_lines_ready(void)
{
	return RTEST(rb_get_coverages()) && oneshot_lines_find();
}

/* --- Marking code */

/* No instruction has this event: so the word is never what a global hook asks for, which would find nothing to rewrite. */
#define OURS RUBY_EVENT_THREAD_BEGIN
/* One of these is left at each instruction that a TracePoint of ours may watch. */
#define MARK (OURS | RUBY_EVENT_LINE | RUBY_EVENT_CALL | RUBY_EVENT_RETURN | RUBY_EVENT_B_CALL | RUBY_EVENT_B_RETURN)

/* Of code, which oneshot_lines_mark() pins. Under the GVL, but for oneshot_lines_mark_again(). */
struct mark {
	volatile rb_event_flag_t *word;
	rb_event_flag_t added; /* what of MARK was not in the word before */
	size_t count;          /* how often it is wanted */
};

static st_table *marks; /* by the address of the code */

static bool is_marked(const struct mark *mark)
{
	return *mark->word & OURS;
}

static void set(struct mark *mark)
{
	rb_event_flag_t word = *mark->word;

	if (word & OURS)
		return;
	mark->added = MARK & ~word;
	*mark->word = word | MARK;
}

static struct mark *mark_one(st_data_t address)
{
	st_data_t found;
	struct mark *mark;

	if (!marks)
		marks = st_init_numtable();
	if (st_lookup(marks, address, &found)) {
		mark = (struct mark *)found;
	} else {
		mark = calloc(1, sizeof(*mark));
		if (!mark)
			return NULL;
		mark->word = (volatile rb_event_flag_t *)(address + layout_value(LAYOUT_CODE_EVENTS));
		st_insert(marks, address, (st_data_t)mark);
	}
	mark->count++;
	set(mark);
	return mark;
}

static void release_one(struct mark *mark)
{
	st_data_t address = (st_data_t)mark->word - layout_value(LAYOUT_CODE_EVENTS);

	if (--mark->count)
		return;
	/* Without the mark the word is the VM's: it has written the code anew. */
	if (is_marked(mark))
		*mark->word &= ~mark->added;
	st_delete(marks, &address, NULL);
	free(mark);
}

/* Code, and all that is written in it; the code itself comes first. */
struct oneshot_kept {
	size_t count, room;
	struct mark **marks;
};

static void add(struct oneshot_kept *kept, uintptr_t address)
{
	struct mark *mark;

	if (kept->count == kept->room) {
		size_t room = kept->room ? 2 * kept->room : 1;
		struct mark **grown = realloc(kept->marks, room * sizeof(*grown));

		if (!grown)
			return;
		kept->marks = grown;
		kept->room = room;
	}
	mark = mark_one(address);
	if (mark)
		kept->marks[kept->count++] = mark;
}

static void add_all(struct oneshot_kept *kept, VALUE code);

static VALUE add_child(RB_BLOCK_CALL_FUNC_ARGLIST(child, kept))
{
	(void)argc;
	(void)argv;
	(void)blockarg;
	add_all((struct oneshot_kept *)kept, child);
	return Qnil;
}

static void add_all(struct oneshot_kept *kept, VALUE code)
{
	uintptr_t address = code_around_address(code);

	if (!address)
		return;
	add(kept, address);
	builtin_iterate(BUILTIN_ISEQ_EACH_CHILD, code, 0, NULL, add_child, (VALUE)kept);
	RB_GC_GUARD(code);
}

static VALUE begin(VALUE kept_and_code)
{
	const VALUE *both = (const VALUE *)kept_and_code;

	add_all((struct oneshot_kept *)both[0], both[1]);
	return Qnil;
}

struct oneshot_kept *oneshot_lines_keep(VALUE code)
{
	struct oneshot_kept *kept = oneshot_lines_ready() ? calloc(1, sizeof(*kept)) : NULL;
	VALUE both[] = {(VALUE)kept, code};
	int failed = 0;

	if (!kept)
		return NULL;
	rb_protect(begin, (VALUE)both, &failed);
	if (failed)
		exception_drop(Qnil);
	return kept;
}

void oneshot_lines_release(struct oneshot_kept **kept)
{
	if (!*kept)
		return;
	for (size_t i = 0; i < (*kept)->count; i++)
		release_one((*kept)->marks[i]);
	free((*kept)->marks);
	free(*kept);
	*kept = NULL;
}

/* Whoever has marked the first has marked what is written in it, too. */
void oneshot_lines_mark_again(const struct oneshot_kept *kept)
{
	if (!kept->count || is_marked(kept->marks[0]))
		return;
	for (size_t i = 0; i < kept->count; i++)
		set(kept->marks[i]);
}

static int mark_code(st_data_t address, st_data_t mark, st_data_t unused)
{
	(void)mark;
	(void)unused;
	rb_gc_mark(address);
	return ST_CONTINUE;
}

void oneshot_lines_mark(void)
{
	if (marks)
		st_foreach(marks, mark_code, 0);
}

#else

bool oneshot_lines_run(void)
{
	return false;
}

bool oneshot_lines_find(void)
{
	return false;
}

bool oneshot_lines_ready(void)
{
	return false;
}

struct oneshot_kept *oneshot_lines_keep(VALUE code)
{
	(void)code;
	return NULL;
}

void oneshot_lines_release(struct oneshot_kept **kept)
{
	(void)kept;
}

void oneshot_lines_mark_again(const struct oneshot_kept *kept)
{
	(void)kept;
}

void oneshot_lines_mark(void)
{
}

#endif
