/*
 * Finds the places that frame_direct.h reads. Contexts: event in a trial run (frame_direct_sample), job (frame_direct_analyse).
 *
 * As in frame_analyse.c: what explains every sample is accepted, by comparison with what the VM says when it is asked.
 */

#define _GNU_SOURCE 1 /* process_vm_readv */
#include "frame_direct.h"

#include "frame_sample.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct frame_direct frame_direct;

/* process_vm_readv does not fault, whatever the word is. */
static bool words_read(pid_t pid, uintptr_t address, uintptr_t *into, size_t words)
{
	struct iovec local = {.iov_base = into, .iov_len = words * sizeof(*into)};
	struct iovec remote = {.iov_base = (void *)address, .iov_len = words * sizeof(*into)};

	if (address < 4096 || address % sizeof(*into) != 0)
		return false;
	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)local.iov_len;
}

/* Internal objects that a frame's words lead to: words of the frame as pointers, and what stands there or shortly before. */
static void entries_find(struct sample *sample, int frame_word, pid_t pid)
{
	const uintptr_t *frame = sample->behind[frame_word];

	for (int word = 0; word < BEHIND_SPAN; word++) {
		uintptr_t before[ENTRY_OFFSETS + 1]; /* and there */

		if (!words_read(pid, frame[word] - ENTRY_OFFSETS * sizeof(*before), before, ENTRY_OFFSETS + 1))
			continue;
		for (int i = 0; i <= ENTRY_OFFSETS && sample->entry_count < SAMPLE_ENTRIES; i++) {
			struct sample_entry *entry = &sample->entries[sample->entry_count];

			if (!words_read(pid, before[i], entry->words, ENTRY_SPAN) ||
			    (entry->words[0] & RUBY_T_MASK) != RUBY_T_IMEMO)
				continue;
			entry->frame_word = frame_word;
			entry->word = word;
			entry->offset = i - ENTRY_OFFSETS;
			sample->entry_count++;
		}
	}
}

static bool holds_receiver(const uintptr_t *words, VALUE receiver)
{
	for (int word = 0; word < BEHIND_SPAN; word++)
		if (words[word] == receiver)
			return true;
	return false;
}

void frame_direct_sample(struct sample *sample, rb_trace_arg_t *trace_arg)
{
	VALUE callee = rb_tracearg_callee_id(trace_arg);
	VALUE receiver = rb_tracearg_self(trace_arg);
	pid_t pid = getpid();

	if (!RB_SYMBOL_P(callee))
		return;
	sample->called = rb_sym2id(callee);
	sample->owner = rb_tracearg_defined_class(trace_arg);
	for (int word = 0; word < TRACE_ARG_SPAN; word++) {
		if (!words_read(pid, sample->words[word], sample->behind[word], BEHIND_SPAN))
			memset(sample->behind[word], 0, sizeof(sample->behind[word]));
		/* A control frame has its receiver; the receiver has not itself. */
		else if (sample->words[word] != receiver && holds_receiver(sample->behind[word], receiver))
			entries_find(sample, word, pid);
	}
	sample->has_direct = true;
}

/* The next one of the samples that has what is needed here. */
static const struct sample *next_direct(const struct sample *samples, int count, const struct sample *after)
{
	const struct sample *sample = after ? after + 1 : samples;

	while (sample < samples + count && !sample->has_direct)
		sample++;
	return sample < samples + count ? sample : NULL;
}

static bool find_event_word(const struct sample *samples, int count, struct frame_direct *found)
{
	for (int word = 0; word < TRACE_ARG_SPAN; word++) {
		bool holds = true;

		for (int i = 0; i < count && holds; i++)
			holds = (rb_event_flag_t)samples[i].words[word] == samples[i].event;
		found->event_word = word;
		if (holds)
			return true;
	}
	return false;
}

static bool is_context(const struct sample *samples, int count, int word, int field)
{
	const struct sample *first = next_direct(samples, count, NULL);

	for (const struct sample *s = first; s; s = next_direct(samples, count, s))
		if (s->words[word] != first->words[word] || s->behind[word][field] != s->words[frame_layout.cfp_word])
			return false;
	return true;
}

/* The trial run is in one fiber. */
static bool find_context_word(const struct sample *samples, int count, struct frame_direct *found)
{
	int words = 0;

	for (int word = 0; word < TRACE_ARG_SPAN; word++) {
		for (int field = 0; field < BEHIND_SPAN; field++) {
			if (word == frame_layout.cfp_word || !is_context(samples, count, word, field))
				continue;
			found->context_word = word;
			words++;
			break;
		}
	}
	return words == 1;
}

static bool entry_is(const struct sample_entry *entry, const struct sample *sample, const struct frame_direct *layout)
{
	return entry->frame_word == frame_layout.cfp_word && entry->word == layout->environment_word &&
	       entry->offset == layout->entry_offset && (entry->words[0] & FRAME_ENTRY_MASK) == layout->entry_flags &&
	       entry->words[layout->called_word] == sample->called && entry->words[layout->owner_word] == sample->owner;
}

static bool entries_are(const struct sample *samples, int count, const struct frame_direct *layout)
{
	for (const struct sample *s = next_direct(samples, count, NULL); s; s = next_direct(samples, count, s)) {
		bool holds = false;

		for (int i = 0; i < s->entry_count && !holds; i++)
			holds = entry_is(&s->entries[i], s, layout);
		if (!holds)
			return false;
	}
	return true;
}

static bool find_entry_words(const struct sample *samples, int count, struct frame_direct *found)
{
	const struct sample *first = next_direct(samples, count, NULL);

	for (int i = 0; i < first->entry_count; i++) {
		const struct sample_entry *entry = &first->entries[i];

		found->environment_word = entry->word;
		found->entry_offset = entry->offset;
		found->entry_flags = entry->words[0] & FRAME_ENTRY_MASK;
		for (found->called_word = 1; found->called_word < ENTRY_SPAN; found->called_word++)
			for (found->owner_word = 1; found->owner_word < ENTRY_SPAN; found->owner_word++)
				if (entries_are(samples, count, found))
					return true;
	}
	return false;
}

/* What was called by another name than its own has been seen: else the one would be taken for the other. */
static bool names_differ(const struct sample *samples, int count)
{
	const struct sample *first = next_direct(samples, count, NULL);

	for (const struct sample *s = first; s; s = next_direct(samples, count, s))
		if (s->called != s->original)
			return true;
	return false;
}

void frame_direct_analyse(const struct sample *samples, int count)
{
	struct frame_direct found = {0};

	if (!next_direct(samples, count, NULL) || !names_differ(samples, count))
		return;
	found.known = find_event_word(samples, count, &found) && find_context_word(samples, count, &found) &&
	              find_entry_words(samples, count, &found);
	if (found.known)
		frame_direct = found;
}
