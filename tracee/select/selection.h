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
 * Arms what a trace command asks for. On success the session has its selection and *count is the number of methods; what matches
 * nothing yet stays pending, and the client is told by notes. 0, or negative and err: then nothing is armed.
 */
int selection_arm(struct session *session, const struct command *command, uint64_t *count, struct error *err);

/* Sends a MATCH record for each method that the command's selectors name; arms nothing. */
int selection_list(struct session *session, const struct command *command, uint64_t *count, struct error *err);

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

/* Whether any session waits for methods to be defined. */
bool selection_watches(void);

#endif
