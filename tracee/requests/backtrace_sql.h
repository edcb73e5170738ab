#ifndef RBPROBE_BACKTRACE_SQL_H
#define RBPROBE_BACKTRACE_SQL_H

#include "tracee/base/msgpack_builder.h"
#include "tracee/frame/frame_context.h"

#include <ruby.h>

/*
 * The statement whose answer a thread waits for, in a driver of a database: pg, mysql2, sqlite3, trilogy. It is read from the
 * frames: the argument of the driver's method, or the variable `sql` of a method of the driver's, ActiveRecord's or Sequel's
 * around it. Nothing is called. Job context, GVL held.
 */

#define SQL_CLASSES 6

struct sql_drivers {
	VALUE classes[SQL_CLASSES]; /* Qnil: not loaded */
	bool any;
};

void sql_drivers_find(struct sql_drivers *drivers);

/* A String; Qnil: the innermost frames are not in a driver, or the statement is not known. */
VALUE sql_find(const struct sql_drivers *drivers, const struct frame_range *range);

/* As a key of the map that is open. */
void sql_add(struct msgpack_builder *answer, VALUE sql);

#endif
