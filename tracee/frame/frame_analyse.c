/*
 * Finds in the samples of frame_calibrate.c what frame_layout.h describes. Job context; touches nothing but the
 * samples, frame_layout and the rows of layout.h about events, frames and jumps.
 *
 * The rule everywhere: something is accepted when it explains every sample, and otherwise it does not exist.
 */

#include <errno.h>
#include <string.h>

#include "proto/error.h"
#include "tracee/frame/frame_sample.h"
#include "tracee/vm/layout.h"

#define FRAME_SIZE_MIN 40
#define FRAME_SIZE_MAX 160

static bool is_unwound(const struct sample *sample)
{
	return sample->truth == SAMPLE_RAISED || sample->truth == SAMPLE_THROWN;
}

/*
 * Frames that call each other directly are one frame size apart, and a method written in Ruby has the same cfp
 * at its call and at its end. (A C method's cfp says nothing yet: it may be its caller's.)
 */
static size_t frame_size_at(const struct sample *samples, int count, int word)
{
	size_t size = 0;

	for (int i = 0; i < count; i++) {
		const struct sample *sample = &samples[i];
		const struct sample *other;

		if (sample->c_method || sample->block_method)
			continue;
		if (sample->truth != SAMPLE_CALL) {
			if (sample->words[word] != samples[sample->call].words[word])
				return 0;
			continue;
		}
		if (sample->parent < 0 || sample->indirect)
			continue;
		other = &samples[sample->parent];
		if (other->c_method || other->block_method)
			continue;
		if (size == 0)
			size = other->words[word] - sample->words[word];
		if (other->words[word] - sample->words[word] != size)
			return 0;
	}
	return size >= FRAME_SIZE_MIN && size <= FRAME_SIZE_MAX && size % sizeof(VALUE) == 0 ? size : 0;
}

static bool find_frame_size(const struct sample *samples, int count)
{
	size_t found = 0;
	int found_word = 0;

	for (int word = 0; word < TRACE_ARG_SPAN; word++) {
		size_t size = frame_size_at(samples, count, word);

		if (size == 0)
			continue;
		if (found != 0)
			return false;
		found = size;
		found_word = word;
	}
	return found != 0 && layout_found(LAYOUT_EVENT_FRAME, (uintptr_t)found_word) && layout_found(LAYOUT_FRAME_SIZE, found);
}

/* Where each frame must be by its caller's position, and how far that is from what the event says. */
static bool find_biases(struct sample *samples, int count)
{
	const uintptr_t size = layout_value(LAYOUT_FRAME_SIZE);
	uintptr_t base = 0;

	for (int i = 0; i < count && base == 0; i++) {
		if (samples[i].truth == SAMPLE_CALL && samples[i].parent < 0 && !samples[i].c_method && !samples[i].block_method)
			base = samples[i].words[layout_value(LAYOUT_EVENT_FRAME)] + size;
	}

	for (int i = 0; i < count; i++) {
		struct sample *sample = &samples[i];
		uintptr_t cfp = sample->words[layout_value(LAYOUT_EVENT_FRAME)];

		if (sample->truth != SAMPLE_CALL)
			sample->frame = samples[sample->call].frame;
		else if (sample->indirect)
			sample->frame = sample->c_method ? cfp - size : cfp; /* checked by what it calls directly */
		else
			sample->frame = (sample->parent < 0 ? base : samples[sample->parent].frame) - size;

		if (sample->frame == cfp)
			sample->bias = 0;
		else if (sample->frame == cfp - size)
			sample->bias = -1;
		else
			return false;
	}
	return true;
}

static bool jump_is(const struct sample_find *find, size_t state_word, int state, size_t catch_word, uintptr_t catch_frame)
{
	return (int)find->jump[state_word] == state && find->jump[catch_word] == catch_frame;
}

static uintptr_t home_frame(const struct sample *samples, const struct sample *sample)
{
	return sample->home < 0 ? 0 : samples[sample->home].frame;
}

/* The words of a jump's object. */
struct jump_words {
	size_t state, catch, value;
};

static bool throw_words_fit(const struct sample *samples, int count, const struct jump_words *words)
{
	unsigned states = 0;

	for (int i = 0; i < count; i++) {
		const struct sample *sample = &samples[i];
		bool fits = false;

		if (sample->truth != SAMPLE_THROWN)
			continue;
		for (int k = 0; k < sample->find_count && !fits; k++)
			fits = jump_is(&sample->finds[k], words->state, sample->state, words->catch,
			               home_frame(samples, sample)) &&
			       sample->finds[k].jump[words->value] == sample->value;
		if (!fits)
			return false;
		states |= 1u << sample->state;
	}
	return states == (1u << TAG_STATE_RETURN | 1u << TAG_STATE_BREAK | 1u << TAG_STATE_THROW);
}

static bool find_throw_words(const struct sample *samples, int count)
{
	struct jump_words words;

	for (words.state = 1; words.state < JUMP_SPAN; words.state++) {
		for (words.catch = 1; words.catch < JUMP_SPAN; words.catch ++) {
			for (words.value = 1; words.value < JUMP_SPAN; words.value++) {
				if (!throw_words_fit(samples, count, &words))
					continue;
				return layout_found(LAYOUT_JUMP_STATE, words.state) &&
				       layout_found(LAYOUT_JUMP_CATCH, words.catch) &&
				       layout_found(LAYOUT_JUMP_VALUE, words.value);
			}
		}
	}
	return false;
}

/* Whether the word at this distance is what unwinds this sample's frame, as far as can be told. */
static bool unwinder_is_at(const struct sample *samples, const struct sample *sample, ptrdiff_t distance)
{
	for (int k = 0; k < sample->find_count; k++) {
		const struct sample_find *find = &sample->finds[k];

		if (find->distance != distance)
			continue;
		switch (sample->truth) {
		case SAMPLE_RAISED:
			return true;
		case SAMPLE_THROWN:
			return jump_is(find, layout_value(LAYOUT_JUMP_STATE), sample->state, layout_value(LAYOUT_JUMP_CATCH),
			               home_frame(samples, sample));
		case SAMPLE_OWN_JUMP:
			return jump_is(find, layout_value(LAYOUT_JUMP_STATE), TAG_STATE_BREAK, layout_value(LAYOUT_JUMP_CATCH),
			               sample->frame + layout_value(LAYOUT_FRAME_SIZE));
		default:
			return false;
		}
	}
	return false;
}

/*
 * A jump that ends here may come as any other through the exception handler, or (when the method was called
 * from C) from a place of its own that fires for nothing else.
 */
static bool own_jump_unwinds(const struct sample *samples, const struct sample *sample)
{
	for (int k = 0; k < sample->find_count; k++) {
		if (unwinder_is_at(samples, sample, sample->finds[k].distance))
			return true;
	}
	return false;
}

static bool same_site(const struct sample *a, const struct sample *b, int first, int levels)
{
	if (a->level_count < first + levels || b->level_count < first + levels)
		return false;
	for (int level = first; level < first + levels; level++) {
		if (a->levels[level].distance != b->levels[level].distance ||
		    a->levels[level].address != b->levels[level].address)
			return false;
	}
	return true;
}

static int common_levels(const struct sample *samples, int count)
{
	int common = samples[0].level_count;

	for (int i = 1; i < count; i++) {
		while (common > 0 && !same_site(&samples[0], &samples[i], 0, common))
			common--;
	}
	return common;
}

/* Whether the level that differs is at one distance everywhere: then the word there is always a call in progress. */
static bool same_distance(const struct sample *samples, int count, int level)
{
	for (int i = 0; i < count; i++) {
		if (samples[i].level_count <= level || samples[i].levels[level].distance != samples[0].levels[level].distance)
			return false;
	}
	return true;
}

/* The samples that share a site. */
struct site_group {
	const struct sample *samples;
	int count;
	const struct sample *member;
	int first;
	int levels;
};

static const struct sample *group_next(const struct site_group *group, const struct sample *after)
{
	const struct sample *sample = after ? after + 1 : group->samples;

	for (; sample < group->samples + group->count; sample++) {
		if (same_site(sample, group->member, group->first, group->levels))
			return sample;
	}
	return NULL;
}

/* Whether all members were at one kind of place. */
static bool group_kind(const struct site_group *group, enum site_kind *kind)
{
	bool returned = false, unwound = false, call = false;

	for (const struct sample *s = group_next(group, NULL); s; s = group_next(group, s)) {
		if (s->bias != group->member->bias)
			return false;
		if (s->truth == SAMPLE_CALL)
			call = true;
		else if (is_unwound(s) || (s->truth == SAMPLE_OWN_JUMP && own_jump_unwinds(group->samples, s)))
			unwound = true;
		else
			returned = true;
	}
	if (unwound && (returned || call))
		return false;
	*kind = unwound ? SITE_UNWIND : returned ? SITE_RETURNED : SITE_CALL;
	return true;
}

/* The lowest stack word that holds what unwinds the frame in every member; -1: there is none. */
static ptrdiff_t group_unwinder(const struct site_group *group)
{
	const struct sample *seed = NULL;
	VALUE error = Qundef;
	int errors = 0, jumps = 0;
	ptrdiff_t lowest = -1, limit;

	for (const struct sample *s = group_next(group, NULL); s; s = group_next(group, s)) {
		if (s->truth != SAMPLE_RAISED) {
			jumps++;
			continue;
		}
		errors += s->error != error;
		error = s->error;
		seed = s;
	}
	if (errors < 2 || jumps < 1)
		return -1;

	/* A word further up is in the frame of a function that the site's addresses do not vouch for. */
	limit = seed->levels[group->first + group->levels - 1].stack;
	if (seed->level_count > group->first + group->levels)
		limit = seed->levels[group->first + group->levels].stack;

	for (int k = 0; k < seed->find_count; k++) {
		ptrdiff_t distance = seed->finds[k].distance;
		bool holds = distance < limit;

		for (const struct sample *s = group_next(group, NULL); s && holds; s = group_next(group, s))
			holds = unwinder_is_at(group->samples, s, distance);
		if (holds && (lowest < 0 || distance < lowest))
			lowest = distance;
	}
	return lowest;
}

/*
 * Where the trace argument is in every member, if that is in the frame of the function that the site's addresses vouch for; else
 * 0.
 */
static ptrdiff_t group_trace_arg(const struct site_group *group)
{
	const struct sample *member = group->member;
	int last = group->first + group->levels - 1;

	for (const struct sample *s = group_next(group, NULL); s; s = group_next(group, s)) {
		if (s->trace_arg_distance != member->trace_arg_distance || s->trace_arg_distance < s->levels[0].stack ||
		    s->level_count <= last + 1 || s->trace_arg_distance >= s->levels[last + 1].stack)
			return 0;
	}
	return member->trace_arg_distance;
}

static bool add_site(const struct site_group *group, enum site_kind kind)
{
	struct frame_site *site = &frame_layout.sites[frame_layout.site_count];

	if (frame_layout.site_count == SITES_MAX)
		return false;
	memset(site, 0, sizeof(*site));
	site->kind = kind;
	site->bias = group->member->bias;
	site->levels = group->levels;
	for (int level = 0; level < group->levels; level++) {
		site->at[level].distance = group->member->levels[group->first + level].distance;
		site->at[level].address = group->member->levels[group->first + level].address;
	}
	site->unwinder_distance = kind == SITE_UNWIND ? group_unwinder(group) : -1;
	if (kind == SITE_UNWIND && site->unwinder_distance < 0)
		return false;
	site->trace_arg_distance = group_trace_arg(group);
	frame_layout.site_count++;
	return true;
}

static bool site_covers(const struct frame_site *site, const struct sample *sample)
{
	for (int level = 0; level < site->levels; level++) {
		int i = 0;

		while (i < sample->level_count && sample->levels[i].distance != site->at[level].distance)
			i++;
		if (i == sample->level_count || sample->levels[i].address != site->at[level].address)
			return false;
	}
	return true;
}

/* The one that frame.c would take. */
static const struct frame_site *site_of(const struct sample *sample)
{
	for (int i = 0; i < frame_layout.site_count; i++) {
		if (site_covers(&frame_layout.sites[i], sample))
			return &frame_layout.sites[i];
	}
	return NULL;
}

/* With as few return addresses as tell this sample's place from those of another kind. */
static void find_site(const struct sample *samples, int count, int first, const struct sample *member)
{
	struct site_group group = {.samples = samples, .count = count, .member = member, .first = first};
	enum site_kind kind;

	for (group.levels = 1; group.levels <= SITE_LEVELS && first + group.levels <= member->level_count; group.levels++) {
		if (group_kind(&group, &kind)) {
			add_site(&group, kind);
			return;
		}
	}
}

static bool site_tells_truth(const struct frame_site *site, const struct sample *samples, const struct sample *sample)
{
	bool unwinder = site->kind == SITE_UNWIND && unwinder_is_at(samples, sample, site->unwinder_distance);

	if (site->bias != sample->bias)
		return false;
	switch (sample->truth) {
	case SAMPLE_CALL:
		return site->kind != SITE_UNWIND;
	case SAMPLE_RETURNED:
		return site->kind == SITE_RETURNED;
	case SAMPLE_OWN_JUMP:
		return site->kind == SITE_RETURNED || unwinder;
	default:
		return unwinder;
	}
}

/* 0, or how many samples' endings are not told, or -1 when one would be told wrong. */
static int verify_sites(const struct sample *samples, int count)
{
	int missing = 0;

	for (int i = 0; i < count; i++) {
		const struct frame_site *site = site_of(&samples[i]);

		if (site && !site_tells_truth(site, samples, &samples[i]))
			return -1;
		if (site == NULL && samples[i].truth != SAMPLE_CALL)
			missing++;
	}
	return missing;
}

int frame_analyse(enum frame_scope scope, struct sample *samples, int count, struct error *err)
{
	int known_sites = frame_layout.site_count;
	int first, missing;

	if (!find_frame_size(samples, count) || !find_biases(samples, count)) {
		layout_not_found(LAYOUT_EVENT_FRAME, "no word of events was the frame of all samples");
		layout_not_found(LAYOUT_FRAME_SIZE, "frames that call each other were not always as far apart");
		return error_set(err, -ENOTSUP, "this Ruby's control frames are laid out in a way that rbprobe does not know");
	}
	frame_layout.identity_known[scope] = true;

	if (!find_throw_words(samples, count)) {
		layout_not_found(LAYOUT_JUMP_STATE, "no words explained all jumps that were seen");
		layout_not_found(LAYOUT_JUMP_CATCH, "no words explained all jumps that were seen");
		return error_set(err, -ENOTSUP, "this Ruby's non-local exits are laid out in a way that rbprobe does not know");
	}

	first = common_levels(samples, count);
	if (!same_distance(samples, count, first))
		return error_set(err, -ENOTSUP, "this Ruby dispatches events in a way that rbprobe does not know");
	for (int i = 0; i < count; i++) {
		if (site_of(&samples[i]) == NULL)
			find_site(samples, count, first, &samples[i]);
	}
	missing = verify_sites(samples, count);
	if (missing < 0)
		frame_layout.site_count = known_sites;
	if (missing != 0)
		return error_set(err, -ENOTSUP, "not all ways in which a method ends can be told apart on this Ruby");
	frame_layout.endings_known[scope] = true;
	return 0;
}
