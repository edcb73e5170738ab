/*
 * The VM's list of global hooks. See foreign_hooks.h. Context: job.
 *
 * The list is the VM's (2.7) or the Ractor's (3.0 to 4.1-dev), to which the thread's structure points; a new hook goes in front.
 * So the list is the one word in what the thread points to that a new hook changes, and that leads to this hook's function; a
 * second hook leads to the first. The hooks are for RAISE, for which the VM rewrites no code; a hook's events are the second half
 * of its first word.
 */

#include "tracee/vm/foreign_hooks.h"

#include "tracee/base/safe_read.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/layout.h"

#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>

#define THREAD_WORDS 64
#define OWNER_WORDS 1024 /* of what a thread points to */
#define HOOK_WORDS 6

static bool tried;

static void first_hook(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	(void)event;
	(void)data;
	(void)self;
	(void)id;
	(void)class;
}

static void second_hook(rb_event_flag_t event, VALUE data, VALUE self, ID id, VALUE class)
{
	first_hook(event, data, self, id, class);
}

static rb_event_flag_t events_of(const uintptr_t *hook)
{
	return ((const rb_event_flag_t *)hook)[1];
}

/* Whether a hook is there that calls the function; then its words. */
static bool is_hook(uintptr_t address, rb_event_hook_func_t function, uintptr_t hook[HOOK_WORDS], size_t *data_word)
{
	memset(hook, 0, HOOK_WORDS * sizeof(*hook));
	if (safe_read_some(address, hook, HOOK_WORDS) != HOOK_WORDS)
		return false;
	for (*data_word = 1; *data_word < HOOK_WORDS; (*data_word)++)
		if (hook[*data_word - 1] == (uintptr_t)function && hook[*data_word] == (uintptr_t)Qtrue &&
		    events_of(hook) == RUBY_EVENT_RAISE)
			return true;
	return false;
}

/* The words that the first hook has changed to lead to it. */
static uintptr_t *list_find(uintptr_t owner, const uintptr_t *before, size_t count, size_t *data_word)
{
	uintptr_t now[OWNER_WORDS], hook[HOOK_WORDS];

	if (safe_read_some(owner, now, count) != count)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (now[i] != before[i] && is_hook(now[i], first_hook, hook, data_word))
			return (uintptr_t *)owner + i;
	return NULL;
}

/* In the second hook, the way to the first; 0: none. */
static size_t next_find(const uintptr_t *list, uintptr_t first, size_t first_data_word)
{
	uintptr_t hook[HOOK_WORDS];
	size_t data_word, next_word = 0;

	rb_add_event_hook(second_hook, RUBY_EVENT_RAISE, Qtrue);
	if (is_hook(*list, second_hook, hook, &data_word) && data_word == first_data_word)
		for (size_t i = 0; i < HOOK_WORDS && !next_word; i++)
			if (hook[i] == first)
				next_word = i;
	rb_remove_event_hook(second_hook);
	return next_word;
}

struct owner {
	uintptr_t address;
	size_t count;
	uintptr_t words[OWNER_WORDS];
};

static void find(void)
{
	uintptr_t thread[THREAD_WORDS], *list = NULL;
	struct owner *owners = malloc(THREAD_WORDS * sizeof(*owners));
	size_t count = safe_read_some((uintptr_t)compat_data(rb_thread_current()), thread, THREAD_WORDS), data_word,
	       next_word = 0;

	if (!owners)
		return;
	for (size_t i = 0; i < count; i++) {
		owners[i].address = thread[i];
		owners[i].count = safe_read_some(thread[i], owners[i].words, OWNER_WORDS);
	}
	rb_add_event_hook(first_hook, RUBY_EVENT_RAISE, Qtrue);
	for (size_t i = 0; i < count && !list; i++)
		list = list_find(owners[i].address, owners[i].words, owners[i].count, &data_word);
	if (list)
		next_word = next_find(list, *list, data_word);
	rb_remove_event_hook(first_hook);
	free(owners);
	if (next_word && layout_found(LAYOUT_HOOK_DATA, data_word)) {
		layout_found(LAYOUT_HOOK_NEXT, next_word);
		layout_found(LAYOUT_HOOK_LIST, (uintptr_t)list);
	}
}

bool foreign_hooks_known(void)
{
	if (!tried) {
		tried = true;
		find();
		for (enum layout_row row = LAYOUT_HOOK_LIST; row <= LAYOUT_HOOK_NEXT; row++)
			layout_not_found(row, "nothing that a thread points to led to a new hook");
	}
	return layout_is_known(LAYOUT_HOOK_LIST);
}

bool foreign_hooks_on(rb_event_flag_t events)
{
	if (!foreign_hooks_known())
		return false;
	for (const uintptr_t *hook = *(const uintptr_t **)layout_value(LAYOUT_HOOK_LIST); hook;
	     hook = (const uintptr_t *)hook[layout_value(LAYOUT_HOOK_NEXT)])
		if (events_of(hook) & events)
			return true;
	return false;
}

/*
 * Behind the list's first hook stand its events, and how many threads are in it; on 2.7 that, and whether it is to be cleaned,
 * the other way round.
 */
bool foreign_hooks_run(void)
{
	const uint32_t *list = (const uint32_t *)layout_value(LAYOUT_HOOK_LIST);

	return list && (list[3] != 0 || list[4] != 0);
}
