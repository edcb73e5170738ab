/*
 * Values of Time. See capture_parts.h.
 *
 * A Time computes its year, day and offset when it is first asked for one of them, and keeps them. Where its time zone is an
 * object, as TZInfo's are, that calls the object's methods; where it is the process's zone, that is ENV["TZ"] of the moment. So
 * what a Time has not computed yet is computed of a copy; if a zone is an object, the moment is shown in UTC.
 *
 * No function of the C API tells which it is. On 2.7 to 4.0 a Time's data begin as below, which is tried once in a process.
 */

#include "tracee/vm/capture_parts.h"

#include "tracee/vm/builtin_methods.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

struct time_start {
	uint64_t moment;
	VALUE year, subsecond, offset, zone; /* year: no Integer before it is computed */
};

/* The days since 1970 as a date of the Gregorian calendar: years are counted from March on, so that leap days are last. */
static void add_date(struct text *text, int64_t days)
{
	int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
	int64_t day = shifted - era * 146097;
	int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	int64_t day_of_year = day - (365 * year + year / 4 - year / 100), month = (5 * day_of_year + 2) / 153;

	year += era * 400 + (month >= 10);
	text_printf(text, "%04" PRId64 "-%02d-%02d", year, (int)(month < 10 ? month + 3 : month - 9),
	            (int)(day_of_year - (153 * month + 2) / 5 + 1));
}

static void add_fraction(struct text *text, long nanoseconds)
{
	char digits[16];
	int size = snprintf(digits, sizeof(digits), ".%09ld", nanoseconds);

	if (nanoseconds <= 0)
		return;
	while (digits[size - 1] == '0')
		size--;
	text_append(text, digits, (size_t)size);
}

static const struct time_start *time_start(VALUE time)
{
	return rb_check_typeddata(time, RTYPEDDATA_TYPE(time));
}

static bool has_computed(VALUE time)
{
	return RB_INTEGER_TYPE_P(time_start(time)->year);
}

/* Of 1970, an hour east and in the process's time zone, before and after they have computed. */
static bool time_start_is_known(void)
{
	static enum { UNKNOWN, YES, NO } known; /* under the GVL */
	const struct timespec zero = {0};
	VALUE east, local, offset;
	bool any_before;

	if (known != UNKNOWN)
		return known == YES;
	east = rb_time_timespec_new(&zero, 3600);
	local = rb_time_timespec_new(&zero, INT_MAX);
	any_before = has_computed(east) || has_computed(local) || !NIL_P(time_start(local)->zone);
	offset = rb_time_utc_offset(local);
	known = !any_before && rb_time_utc_offset(east) == time_start(east)->offset &&
	                        time_start(east)->offset == INT2FIX(3600) && time_start(east)->year == INT2FIX(1970) &&
	                        NIL_P(time_start(east)->zone) && time_start(local)->offset == offset && has_computed(local) &&
	                        RB_TYPE_P(time_start(local)->zone, T_STRING)
	                ? YES
	                : NO;
	RB_GC_GUARD(east);
	RB_GC_GUARD(local);
	return known == YES;
}

/* The seconds east of UTC; nil: not to be had without the application's code. */
static VALUE offset_of(VALUE time)
{
	VALUE zone, copy;

	if (!time_start_is_known() || !builtin_is_found(BUILTIN_TIME_INITIALIZE_COPY))
		return Qnil;
	if (has_computed(time))
		return rb_time_utc_offset(time);
	zone = time_start(time)->zone;
	if (!RB_SPECIAL_CONST_P(zone) && !RB_TYPE_P(zone, T_STRING))
		return Qnil;
	copy = rb_obj_alloc(rb_obj_class(time));
	builtin_call1(BUILTIN_TIME_INITIALIZE_COPY, copy, time);
	return rb_time_utc_offset(copy);
}

static void add_offset(struct text *text, long east)
{
	long away = east < 0 ? -east : east;

	text_printf(text, " %c%02ld%02ld", east < 0 ? '-' : '+', away / 3600, away / 60 % 60);
	if (away % 60)
		text_printf(text, "%02ld", away % 60);
}

VALUE capture_show_time(VALUE argument)
{
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;
	struct text *text = attempt->render->text;
	struct timespec time = rb_time_timespec(attempt->value);
	VALUE offset = offset_of(attempt->value);
	long east = RB_FIXNUM_P(offset) ? FIX2LONG(offset) : 0;
	int64_t local = time.tv_sec + east, days = local / 86400, seconds = local % 86400;
	bool is_utc = !RB_FIXNUM_P(offset);

	if (seconds < 0) {
		seconds += 86400;
		days--;
	}
	if (east == 0 && builtin_is_found(BUILTIN_TIME_UTC_P))
		is_utc = is_utc || RTEST(builtin_call0(BUILTIN_TIME_UTC_P, attempt->value));
	add_date(text, days);
	text_printf(text, " %02d:%02d:%02d", (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
	add_fraction(text, time.tv_nsec);
	if (is_utc)
		text_append_cstr(text, " UTC");
	else
		add_offset(text, east);
	return Qnil;
}
