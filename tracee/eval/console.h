#ifndef RBPROBE_CONSOLE_H
#define RBPROBE_CONSOLE_H

#include <ruby.h>

#include <stdbool.h>

/*
 * What a session's console keeps between its lines: where it is (a stack of bindings: `cd` pushes, `cd ..` pops) and the object
 * that the next request is about. Made at the first use, gone with the session. GVL held; functions that make Ruby objects may
 * raise, so callers are under rb_protect.
 */

struct session;
struct session_part;

/*
 * The binding in which the session's lines run. Its local variables persist, beside those of the application's main program,
 * which it sees and may change; `cd` adds one with another self, in which all of them are still visible. A thread may go on using
 * it when the session is gone.
 */
VALUE console_binding(struct session *session);

/* The result of an EVAL_SUBJECT, which LIST, ENTER, SOURCE may be about; Qundef: there was none. */
void console_set_subject(struct session *session, VALUE subject);
VALUE console_subject(const struct session *session);

/*
 * How the prompt names an object, without calling anything of the application: `main`, `Order`, `#<Order:0x0000000000000a28>`,
 * `"tea"`.
 */
VALUE console_describe(VALUE object);

/* A part of each session: see session.h. */
extern const struct session_part console_part;

#endif
