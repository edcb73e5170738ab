/*
 * The VM's list of global hooks. See foreign_hooks.h. Context: job.
 *
 * The list is the VM's (2.7) or the Ractor's (3.0 to 4.1-dev), to which the thread's structure points; a new hook goes in front. So the list is the one word in what
 * the thread points to that a new hook changes, and that leads to this hook's function; a second hook leads to the first. The hooks are for
 * RAISE, for which the VM rewrites no code; a hook's events are the second half of its first word.
 */

#define _GNU_SOURCE
#include "foreign_hooks.h"

#include "compat.h"

#include <ruby/debug.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define THREAD_WORDS 64
#define OWNER_WORDS 1024 /* of what a thread points to */
#define HOOK_WORDS 6

static struct {
	bool tried;
	uintptr_t *list; /* NULL: not known */
	size_t data_word, next_word;
} place;

static size_t read_words(uintptr_t from, uintptr_t *words, size_t count)
{
	struct iovec local = {words, count * sizeof(*words)};
	struct iovec remote = {(void *)from, count * sizeof(*words)};
	ssize_t got = -1;

	/* The whole, or what is on the first page. */
	if (from % sizeof(*words) == 0 && from >= 4096)
		got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	return got > 0 ? (size_t)got / sizeof(*words) : 0;
}

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
	if (read_words(address, hook, HOOK_WORDS) != HOOK_WORDS)
		return false;
	for (*data_word = 1; *data_word < HOOK_WORDS; (*data_word)++)
		if (hook[*data_word - 1] == (uintptr_t)function && hook[*data_word] == (uintptr_t)Qtrue &&
		    events_of(hook) == RUBY_EVENT_RAISE)
			return true;
	return false;
}

/* The words that the first hook has changed to lead to it. */
static uintptr_t *list_find(uintptr_t owner, const uintptr_t *before, size_t count)
{
	uintptr_t now[OWNER_WORDS], hook[HOOK_WORDS];

	if (read_words(owner, now, count) != count)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (now[i] != before[i] && is_hook(now[i], first_hook, hook, &place.data_word))
			return (uintptr_t *)owner + i;
	return NULL;
}

static void next_find(uintptr_t first)
{
	uintptr_t hook[HOOK_WORDS];
	size_t data_word;

	rb_add_event_hook(second_hook, RUBY_EVENT_RAISE, Qtrue);
	if (is_hook(*place.list, second_hook, hook, &data_word) && data_word == place.data_word)
		for (size_t i = 0; i < HOOK_WORDS && !place.next_word; i++)
			if (hook[i] == first)
				place.next_word = i;
	rb_remove_event_hook(second_hook);
}

struct owner {
	uintptr_t address;
	size_t count;
	uintptr_t words[OWNER_WORDS];
};

static void find(void)
{
	uintptr_t thread[THREAD_WORDS];
	struct owner *owners = malloc(THREAD_WORDS * sizeof(*owners));
	size_t count = read_words((uintptr_t)compat_data(rb_thread_current()), thread, THREAD_WORDS);

	place.tried = true;
	if (!owners)
		return;
	for (size_t i = 0; i < count; i++) {
		owners[i].address = thread[i];
		owners[i].count = read_words(thread[i], owners[i].words, OWNER_WORDS);
	}
	rb_add_event_hook(first_hook, RUBY_EVENT_RAISE, Qtrue);
	for (size_t i = 0; i < count && !place.list; i++)
		place.list = list_find(owners[i].address, owners[i].words, owners[i].count);
	if (place.list)
		next_find(*place.list);
	rb_remove_event_hook(first_hook);
	if (!place.next_word)
		place.list = NULL;
	free(owners);
}

bool foreign_hooks_known(void)
{
	if (!place.tried)
		find();
	return place.list != NULL;
}

bool foreign_hooks_on(rb_event_flag_t events)
{
	if (!foreign_hooks_known())
		return false;
	for (const uintptr_t *hook = (const uintptr_t *)*place.list; hook; hook = (const uintptr_t *)hook[place.next_word])
		if (events_of(hook) & events)
			return true;
	return false;
}

/* Behind the list's first hook stand its events, and how many threads are in it; on 2.7 that, and whether it is to be cleaned, the other way round. */
bool foreign_hooks_run(void)
{
	const uint32_t *list = (const uint32_t *)place.list;

	return list && (list[3] != 0 || list[4] != 0);
}
