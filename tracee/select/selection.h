#ifndef RBPROBE_SELECTION_H
#define RBPROBE_SELECTION_H

#include "proto/command.h"
#include "proto/error.h"

#include <ruby.h>

#include <stdbool.h>

/*
 * What a session observes: its selectors, and a probe for each method that one of them names. Job context, GVL held, except where
 * said.
 */

struct session;
struct session_part;

void selection_init(void);

/*
 * What a trace or methods command asks for, which may take several jobs. The command lives as long. NULL: no memory. It is freed
 * before or after its session's parts are released, but not later than its session.
 */
struct selection_work;
struct selection_work *selection_work_new(struct session *session, const struct command *command);
void selection_work_free(struct selection_work *work);

/*
 * Then one of: the session's selection is made, to arm what the command names; 0, or negative and err: then nothing is armed. Or:
 * a MATCH record is to be sent for each method that the selectors name.
 */
int selection_work_arm(struct selection_work *work, struct error *err);
void selection_work_list(struct selection_work *work);

/*
 * A part of the work, or with in_parts false all that is left. -EINPROGRESS: there is more, for another job. 0: it is done,
 * *count is the number of methods, and what matches nothing yet stays pending, of which the client is told by notes. Otherwise
 * negative and err: nothing is armed any more.
 */
int selection_work_go_on(struct selection_work *work, bool in_parts, uint64_t *count, struct error *err);

/* Whether some of what is over is armed still; and a part of disarming it. Job context. */
bool selection_is_disarming(void);
void selection_go_on_disarming(void);

/* A part of each session: see session.h. */
extern const struct session_part selection_part;

/* Whether any selector might mean methods of that name, a Symbol. Cheap. */
bool selection_may_mean(VALUE method);

/* A method was defined or redefined: arms it in every session whose selectors name it. Event context; raises nothing. */
void selection_method_added(VALUE owner, VALUE name);

/*
 * What module_changes.c is told by: a constant was assigned (its name, a Symbol, in a module); a class was made; a class or
 * module, or another object, has got the methods of a module. In a call of the application's; raises nothing but what others have
 * sent to the thread meanwhile.
 */
void selection_constant_added(VALUE scope, VALUE name);
void selection_class_made(VALUE superclass, VALUE class);
void selection_module_mixed(VALUE mixin, VALUE target);
void selection_object_extended(VALUE mixin, VALUE object);
/* The application does something with a module: before 3.2 nobody tells when it gets its name. */
void selection_module_seen(VALUE module);
/* Something of the kind has happened where nobody can look now. Any thread, any Ractor. */
void selection_modules_changed(void);

/* Whether a job should look for what selectors have not matched yet. Any thread; once true, the next job does. */
bool selection_look_is_due(void);
/* That look. Job context. */
void selection_look(void);

/* Lets methods go whose observation takes too much of the process, or tells their client. Job context. */
void selection_overhead_look(void);

/* A compiler has been switched on: tells each session which of its methods are not seen any more. Raises nothing. */
void selection_compiler_on(void);

/*
 * The VM has compiled code, an InstructionSequence, and will run it: arms the lines that it has. is_eval: it is not the whole of
 * a file. Event context; may raise.
 */
void selection_code_compiled(VALUE code, bool is_eval);

/* Whether any session waits for methods to be defined. */
bool selection_watches(void);
/* Whether any session runs Ruby code of its user's, or the application's `inspect`, at calls. */
bool selection_evaluates(void);
/* The same for lines. */
bool selection_watches_lines(void);

#endif
