/* Moments of a recording. See replay_when.h. */

#define _GNU_SOURCE
#include "tracer/commands/replay_when.h"

#include "proto/clock.h"
#include "tracer/base/message.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECONDS_MAX 1e9
#define DAY_SECONDS (24 * 60 * 60)

/* Seconds with digits after the point; all of the text. */
static bool seconds(const char *text, double max, uint64_t *ns)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || *end || *text < '0' || *text > '9' || !isfinite(number) || number >= max)
		return false;
	*ns = (uint64_t)llround(number * 1e9);
	return true;
}

static bool time_of_day(const char *text, uint64_t *ns)
{
	struct tm read = {0};
	const char *rest = strptime(text, "%H:%M", &read);
	uint64_t part_ns = 0;

	if (!rest || (*rest && (*rest != ':' || !seconds(rest + 1, 60, &part_ns))))
		return false;
	*ns = (uint64_t)(read.tm_hour * 60 + read.tm_min) * 60 * NS_PER_S + part_ns;
	return true;
}

int replay_when_parse(const char *option, const char *text, struct replay_when *when)
{
	struct tm date = {0};
	const char *rest = strptime(text, "%Y-%m-%d", &date);

	if (*text == '+') {
		when->kind = WHEN_AFTER;
		if (seconds(text + 1, SECONDS_MAX, &when->ns))
			return 0;
	} else if (rest) {
		when->kind = WHEN_CALENDAR;
		when->year = date.tm_year;
		when->month = date.tm_mon;
		when->day = date.tm_mday;
		if ((*rest == ' ' || *rest == 'T') && time_of_day(rest + 1, &when->ns))
			return 0;
	} else {
		when->kind = WHEN_OF_DAY;
		if (time_of_day(text, &when->ns))
			return 0;
	}
	message("%s takes a time, such as 14:05:30.5, \"2026-11-24 14:05\", or +2.5 (seconds after the recording began), not "
	        "\"%s\"",
	        option, text);
	return EINVAL;
}

static int order_of(const struct replay_when *one, const struct replay_when *other)
{
	const uint64_t a[] = {(uint64_t)one->year, (uint64_t)one->month, (uint64_t)one->day, one->ns};
	const uint64_t b[] = {(uint64_t)other->year, (uint64_t)other->month, (uint64_t)other->day, other->ns};

	for (size_t i = 0; i < sizeof(a) / sizeof(*a); i++)
		if (a[i] != b[i])
			return a[i] > b[i] ? 1 : -1;
	return 0;
}

bool replay_when_is_empty(const struct replay_when *from, const char *option, const struct replay_when *to)
{
	if (from->kind != to->kind || (from->kind != WHEN_AFTER && from->kind != WHEN_CALENDAR) || order_of(from, to) <= 0)
		return false;
	message("--from is after %s: no call begins between them", option);
	return true;
}

/* A day may have another hour than 24: it is given as it would be on a clock. */
static uint64_t of_day(struct tm day, uint64_t ns)
{
	time_t moment;

	day.tm_hour = (int)(ns / NS_PER_S / 3600);
	day.tm_min = (int)(ns / NS_PER_S / 60 % 60);
	day.tm_sec = (int)(ns / NS_PER_S % 60);
	day.tm_isdst = -1;
	moment = mktime(&day);
	return moment < 0 ? 0 : (uint64_t)moment * NS_PER_S + ns % NS_PER_S;
}

uint64_t replay_when_ns(const struct replay_when *when, uint64_t began_ns)
{
	struct tm day = {.tm_year = when->year, .tm_mon = when->month, .tm_mday = when->day};
	time_t began = (time_t)(began_ns / NS_PER_S);
	uint64_t moment_ns;

	switch (when->kind) {
	case WHEN_ANY:
		break;
	case WHEN_AFTER:
		return began_ns + when->ns;
	case WHEN_CALENDAR:
		return of_day(day, when->ns);
	case WHEN_OF_DAY:
		if (!localtime_r(&began, &day))
			break;
		moment_ns = of_day(day, when->ns);
		/* By more than half a day before: the next one is meant. */
		if (moment_ns + (uint64_t)(DAY_SECONDS / 2) * NS_PER_S >= began_ns)
			return moment_ns;
		day.tm_mday++;
		return of_day(day, when->ns);
	}
	return 0;
}
