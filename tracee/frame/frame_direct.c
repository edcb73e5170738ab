/*
 * Finds the places that frame_direct.h reads. Contexts: event in a trial run (frame_direct_sample), job (frame_direct_analyse).
 *
 * As in frame_analyse.c: what explains every sample is accepted, by comparison with what the VM says when it is asked.
 */

#include "tracee/frame/frame_direct.h"

#include "tracee/base/safe_read.h"
#include "tracee/frame/frame_sample.h"

#include <string.h>

/* Words of things that are looked at. */
struct places {
	int event_word, context_word; /* of the trace argument */
	int environment_word;         /* of a control frame: a pointer */
	int entry_offset;             /* from there: the method entry */
	VALUE entry_flags;            /* of a method entry, under FRAME_ENTRY_MASK */
	int called_word, owner_word;  /* of a method entry */
};

/* Internal objects that a frame's words lead to: words of the frame as pointers, and what stands there or shortly before. */
static void entries_find(struct sample *sample, int frame_word)
{
	const uintptr_t *frame = sample->behind[frame_word];

	for (int word = 0; word < BEHIND_SPAN; word++) {
		uintptr_t before[ENTRY_OFFSETS + 1]; /* and there */

		if (!safe_read_words(frame[word] - ENTRY_OFFSETS * sizeof(*before), before, ENTRY_OFFSETS + 1))
			continue;
		for (int i = 0; i <= ENTRY_OFFSETS && sample->entry_count < SAMPLE_ENTRIES; i++) {
			struct sample_entry *entry = &sample->entries[sample->entry_count];

			if (!safe_read_words(before[i], entry->words, ENTRY_SPAN) ||
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

	if (!RB_SYMBOL_P(callee))
		return;
	sample->called = rb_sym2id(callee);
	sample->owner = rb_tracearg_defined_class(trace_arg);
	for (int word = 0; word < TRACE_ARG_SPAN; word++) {
		if (!safe_read_words(sample->words[word], sample->behind[word], BEHIND_SPAN))
			memset(sample->behind[word], 0, sizeof(sample->behind[word]));
		/* A control frame has its receiver; the receiver has not itself. */
		else if (sample->words[word] != receiver && holds_receiver(sample->behind[word], receiver))
			entries_find(sample, word);
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

static bool find_event_word(const struct sample *samples, int count, struct places *found)
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
		if (s->words[word] != first->words[word] || s->behind[word][field] != s->words[layout_value(LAYOUT_EVENT_FRAME)])
			return false;
	return true;
}

/* The trial run is in one fiber. */
static bool find_context_word(const struct sample *samples, int count, struct places *found)
{
	int words = 0;

	for (int word = 0; word < TRACE_ARG_SPAN; word++) {
		for (int field = 0; field < BEHIND_SPAN; field++) {
			if (word == (int)layout_value(LAYOUT_EVENT_FRAME) || !is_context(samples, count, word, field))
				continue;
			found->context_word = word;
			words++;
			break;
		}
	}
	return words == 1;
}

static bool entry_is(const struct sample_entry *entry, const struct sample *sample, const struct places *layout)
{
	return entry->frame_word == (int)layout_value(LAYOUT_EVENT_FRAME) && entry->word == layout->environment_word &&
	       entry->offset == layout->entry_offset && (entry->words[0] & FRAME_ENTRY_MASK) == layout->entry_flags &&
	       entry->words[layout->called_word] == sample->called && entry->words[layout->owner_word] == sample->owner;
}

static bool entries_are(const struct sample *samples, int count, const struct places *layout)
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

static bool find_entry_words(const struct sample *samples, int count, struct places *found)
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

static void places_note(const struct places *found)
{
	layout_found(LAYOUT_EVENT_FLAG, (uintptr_t)found->event_word);
	layout_found(LAYOUT_EVENT_CONTEXT, (uintptr_t)found->context_word);
	layout_found(LAYOUT_FRAME_ENVIRONMENT, (uintptr_t)found->environment_word);
	layout_found(LAYOUT_ENVIRONMENT_ENTRY, (uintptr_t)-found->entry_offset);
	layout_found(LAYOUT_ENTRY_FLAGS, found->entry_flags);
	layout_found(LAYOUT_ENTRY_OWNER, (uintptr_t)found->owner_word);
	layout_found(LAYOUT_ENTRY_CALLED, (uintptr_t)found->called_word);
}

void frame_direct_analyse(const struct sample *samples, int count)
{
	struct places found = {0};

	if (next_direct(samples, count, NULL) && names_differ(samples, count) && find_event_word(samples, count, &found) &&
	    find_context_word(samples, count, &found) && find_entry_words(samples, count, &found))
		places_note(&found);
	for (enum layout_row row = LAYOUT_EVENT_FLAG; row <= LAYOUT_ENTRY_OWNER; row++)
		layout_not_found(row, "no words explained all samples");
}
