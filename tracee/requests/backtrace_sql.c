/*
 * The statement that a thread waits for. See backtrace_sql.h. Context: job, GVL held.
 *
 * From the innermost frame on: while frames are of methods written in C, one may be a driver's; the first method written in Ruby
 * has to be one. From there outward, the first frame that has the statement ends the search. Frames of others end it as well:
 * what they have may be another statement.
 */

#include "tracee/requests/backtrace_sql.h"

#include "proto/limits.h"
#include "tracee/frame/frame_locals.h"
#include "tracee/frame/frame_receiver.h"
#include "tracee/vm/capture.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/string_slice.h"

#include <string.h>

#define SQL_SIZE 1024u
#define FRAMES_MAX 64 /* that are looked at */

static const char *const class_paths[SQL_CLASSES] = {
	"PG::Connection", "Mysql2::Client", "Mysql2::Statement", "SQLite3::Database", "SQLite3::Statement", "Trilogy",
};

enum { PG_CONNECTION, MYSQL_CLIENT, MYSQL_STATEMENT, SQLITE_DATABASE, SQLITE_STATEMENT, TRILOGY };

/* Methods written in C: which argument the statement is. Others have strings that are none: names, data. */
static const struct {
	int class;
	const char *method;
	int argument;
} statements[] = {
	{PG_CONNECTION, "exec", 0},
	{PG_CONNECTION, "query", 0},
	{PG_CONNECTION, "async_exec", 0},
	{PG_CONNECTION, "async_query", 0},
	{PG_CONNECTION, "sync_exec", 0},
	{PG_CONNECTION, "exec_params", 0},
	{PG_CONNECTION, "async_exec_params", 0},
	{PG_CONNECTION, "sync_exec_params", 0},
	{PG_CONNECTION, "send_query", 0},
	{PG_CONNECTION, "send_query_params", 0},
	{PG_CONNECTION, "prepare", 1},
	{PG_CONNECTION, "async_prepare", 1},
	{PG_CONNECTION, "sync_prepare", 1},
	{PG_CONNECTION, "send_prepare", 1},
	{MYSQL_CLIENT, "query", 0},
	{MYSQL_CLIENT, "_query", 0},
	{MYSQL_CLIENT, "prepare", 0},
	{SQLITE_STATEMENT, "initialize", 1},
	{SQLITE_STATEMENT, "prepare", 1},
	{TRILOGY, "query", 0},
	{TRILOGY, "_query", 0},
};

/* Modules and classes with methods around a driver's, whose variable `sql` is the statement, or which only call others. */
static const char *const around[] = {"ActiveRecord::ConnectionAdapters::", "ActiveRecord::Transactions", "Sequel::"};
static const char *const between[] = {"ActiveSupport::", "Monitor", "Concurrent::", "SQLite3::"};

void sql_drivers_find(struct sql_drivers *drivers)
{
	drivers->any = false;
	for (size_t i = 0; i < SQL_CLASSES; i++) {
		drivers->classes[i] = constant_module((struct slice){class_paths[i], strlen(class_paths[i])});
		drivers->any = drivers->any || !NIL_P(drivers->classes[i]);
	}
}

/* Which driver's class; -1: none. */
static int driver_of(const struct sql_drivers *drivers, VALUE owner)
{
	for (int i = 0; i < SQL_CLASSES; i++)
		if (owner == drivers->classes[i])
			return i;
	return -1;
}

static VALUE string_or_nil(VALUE value)
{
	return RB_TYPE_P(value, T_STRING) ? value : Qnil;
}

/* Of a method written in C. */
static VALUE statement_argument(int driver, ID called, uintptr_t frame)
{
	const char *name = rb_id2name(called);
	const VALUE *arguments;

	for (size_t i = 0; name && i < sizeof(statements) / sizeof(*statements); i++)
		if (statements[i].class == driver && strcmp(statements[i].method, name) == 0)
			return frame_arguments(frame, &arguments) > statements[i].argument
			               ? string_or_nil(arguments[statements[i].argument])
			               : Qnil;
	return Qnil;
}

/* Of code written in Ruby: also of a block, which may have a variable of its own. */
FRAME_READS_STACK static VALUE statement_variable(uintptr_t frame)
{
	unsigned place = frame_locals_place(frame, rb_intern("sql"));

	return place ? string_or_nil(frame_locals_read(frame, place)) : Qnil;
}

static bool begins_with_one_of(VALUE owner, const char *const *list, size_t count)
{
	VALUE name = rb_mod_name(owner);
	struct slice path = string_slice(name);
	bool begins = false;

	for (size_t i = 0; i < count && !begins; i++)
		begins = path.size >= strlen(list[i]) && memcmp(path.bytes, list[i], strlen(list[i])) == 0;
	RB_GC_GUARD(name);
	return begins;
}

VALUE sql_find(const struct sql_drivers *drivers, const struct frame_range *range)
{
	size_t size = layout_value(LAYOUT_FRAME_SIZE);
	uintptr_t frame = range->innermost;
	bool within = false;

	for (int i = 0; drivers->any && i < FRAMES_MAX && frame + 2 * size <= range->end; i++, frame += size) {
		bool is_ruby = frame_locals_code(frame) != 0;
		const VALUE *entry = frame_method_entry(frame, true);
		VALUE owner = entry ? entry[layout_value(LAYOUT_ENTRY_OWNER)] : Qnil, sql = Qnil;
		int driver = entry ? driver_of(drivers, owner) : -1;

		within = within || driver >= 0;
		if (is_ruby && !within)
			return Qnil;
		if (!within || !entry)
			continue;
		if (driver >= 0 && !is_ruby)
			sql = statement_argument(driver, entry[layout_value(LAYOUT_ENTRY_CALLED)], frame);
		else if (is_ruby && (driver >= 0 || begins_with_one_of(owner, around, sizeof(around) / sizeof(*around))))
			sql = statement_variable(frame);
		else if (is_ruby && !begins_with_one_of(owner, between, sizeof(between) / sizeof(*between)))
			return Qnil;
		if (!NIL_P(sql))
			return sql;
	}
	return Qnil;
}

void sql_add(struct msgpack_builder *answer, VALUE sql)
{
	static const struct trace_options options = {
		.value_size = SQL_SIZE, .value_depth = VALUE_DEPTH_DEFAULT, .value_length = VALUE_LENGTH_DEFAULT};
	char bytes[SQL_SIZE + 64];
	struct text text = {.bytes = bytes, .size = sizeof(bytes)};

	capture_string(&text, sql, &options);
	builder_text(answer, "sql", text.bytes, text.used);
}
