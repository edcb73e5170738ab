/* Forked children of traced processes. See trace_forks.h. */

#include "tracer/commands/trace_forks.h"

#include <stdlib.h>

void forks_take(struct forks *forks, struct trace_target *traced)
{
	struct meeting meeting;
	struct fork_place *place;

	if (traced->place || !meeting_take(&meeting, &traced->attachment))
		return;
	place = memory_zeroed(sizeof(*place));
	place->meeting = meeting;
	place->members = 1;
	traced->place = place;
	forks->places = memory_resize(forks->places, (forks->count + 1) * sizeof(struct fork_place *));
	forks->places[forks->count++] = place;
}

void forks_leave(struct trace_target *traced, uint64_t now_ns)
{
	if (traced->place && --traced->place->members == 0)
		traced->place->left_ns = now_ns;
	traced->place = NULL;
}

static bool is_over(const struct fork_place *place, uint64_t now_ns)
{
	return place->members == 0 && now_ns >= place->left_ns + FORKS_LINGER_NS;
}

static void place_free(struct fork_place *place)
{
	rendezvous_close(&place->meeting.rendezvous);
	free(place);
}

void forks_step(struct forks *forks, uint64_t now_ns,
                void (*join)(void *owner, struct fork_place *place, pid_t pid, int descriptor), void *owner)
{
	size_t kept = 0;

	for (size_t i = 0; i < forks->count; i++) {
		struct fork_place *place = forks->places[i];
		int descriptor;
		pid_t pid;

		while ((descriptor = meeting_accept(&place->meeting, &pid)) >= 0)
			join(owner, place, pid, descriptor);
		if (is_over(place, now_ns))
			place_free(place);
		else
			forks->places[kept++] = place;
	}
	forks->count = kept;
}

uint64_t forks_wake_ns(const struct forks *forks)
{
	uint64_t wake_ns = UINT64_MAX;

	for (size_t i = 0; i < forks->count; i++)
		if (forks->places[i]->members == 0 && forks->places[i]->left_ns + FORKS_LINGER_NS < wake_ns)
			wake_ns = forks->places[i]->left_ns + FORKS_LINGER_NS;
	return wake_ns;
}

void forks_free(struct forks *forks)
{
	for (size_t i = 0; i < forks->count; i++)
		place_free(forks->places[i]);
	free(forks->places);
	*forks = (struct forks){0};
}
