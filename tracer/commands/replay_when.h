#ifndef RBPROBE_REPLAY_WHEN_H
#define RBPROBE_REPLAY_WHEN_H

#include <stdbool.h>
#include <stdint.h>

/* A moment of a recording, as a user gives it. */

enum replay_when_kind {
	WHEN_ANY,      /* none was given */
	WHEN_AFTER,    /* so long after the recording began */
	WHEN_OF_DAY,   /* of the day when it began, or of the next one */
	WHEN_CALENDAR, /* of a day that was named */
};

struct replay_when {
	enum replay_when_kind kind;
	int year, month, day;
	uint64_t ns; /* after the beginning of that */
};

/* "+SEC", "HH:MM", "HH:MM:SS", "HH:MM:SS.5", or one of these after "YYYY-MM-DD ". 0, or EINVAL after a line on stderr. */
int replay_when_parse(const char *option, const char *text, struct replay_when *when);

/*
 * Whether there is nothing from the one to the other in any recording, which is said. Of two kinds, and of two times of day,
 * one of which may be of the next day, only the recording decides. option: of `to`.
 */
bool replay_when_is_empty(const struct replay_when *from, const char *option, const struct replay_when *to);

/* In ns since 1970, for a recording that began then; 0: any. Days and hours are those of this machine's time zone. */
uint64_t replay_when_ns(const struct replay_when *when, uint64_t began_ns);

#endif
