#ifndef RBPROBE_TESTS_LIE_H
#define RBPROBE_TESTS_LIE_H

#include "proto/record.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What one client of liar.c is told, and what lies are made of. */

struct lie {
	int socket;
	int queue; /* looked at for the next client, where this one stays */
	uint32_t request;
	const char *argument;
	uint64_t random;
	msgpack_sbuffer records;
};

static inline struct slice text(const char *bytes)
{
	return (struct slice){bytes, strlen(bytes)};
}

uint64_t lie_random(struct lie *lie);

/* False: the client is gone. */
bool lie_send(int fd, const char *bytes, size_t size);
/* Sends what was added. */
bool lie_flush(struct lie *lie);

void lie_add_method(struct lie *lie, uint32_t ref);
void lie_add_fiber(struct lie *lie, uint32_t ref);
void lie_add_done(struct lie *lie);
void lie_add_data(struct lie *lie, const msgpack_sbuffer *packed);
/* END, and nothing after it. */
void lie_end(struct lie *lie);

/* --- The lies themselves, which `lies` in liar.c names. lies_events.c: */
void methods_for_ever(struct lie *lie);
void one_method_for_ever(struct lie *lie);
void harmful_fibers_for_ever(struct lie *lie);
void deep_for_ever(struct lie *lie);
void fibers_for_ever(struct lie *lie);
void odd_marks(struct lie *lie);
void mark_of_nothing(struct lie *lie);
void odd_measures(struct lie *lie);
void huge_frame(struct lie *lie);
void half_frame(struct lie *lie);
void notes_for_ever(struct lie *lie);
void unknown_kinds_for_ever(struct lie *lie);
void random_records(struct lie *lie);

/* lies_answers.c: */
void output_for_ever(struct lie *lie);
void data_for_ever(struct lie *lie);
void many_threads(struct lie *lie);
void many_types(struct lie *lie);
void zeroes(struct lie *lie);
void linger_in_close(struct lie *lie);
void endless_dump(struct lie *lie);
void copy_of(struct lie *lie);

/* lies_figures.c: */
void impossible_statistics(struct lie *lie);
void statistics_of_nothing(struct lie *lie);
void statistics_below_nothing(struct lie *lie);
void deep_statistics(struct lie *lie);
void statistics_for_ever(struct lie *lie);

/* lies_profiles.c: */
void wide_profile(struct lie *lie);
void sums_for_ever(struct lie *lie);
void names_for_ever(struct lie *lie);
void pairs_for_ever(struct lie *lie);
void impossible_profile(struct lie *lie);
void impossible_states(struct lie *lie);
void states_for_ever(struct lie *lie);

#endif
