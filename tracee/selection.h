#ifndef RBPROBE_SELECTION_H
#define RBPROBE_SELECTION_H

#include "engine.h"
#include "proto/command.h"
#include "proto/error.h"

#include <ruby.h>

#include <stdbool.h>

/* What a session observes: its selectors, and a probe for each method that one of them names. Job context, GVL held, except where said. */

struct session;
struct engine_target_site;
struct engine_patch_link;

/* One definition of an observed method, of one session. */
struct probe {
	/* What each event looks at, in one cache line. */
	_Alignas(64) struct session *session;
	ID callee_id;
	VALUE owner;                         /* the class or module that has the method */
	struct expression_list *expressions; /* NULL: none */
	VALUE only_kind_of;                  /* Array of classes: calls on other receivers are not shown; Qundef: all are */
	VALUE waiting;                       /* Array of what has to be seen to when a class has its name; Qfalse: nothing */
	uint32_t ref;                        /* the client's number for it */
	bool armed;
	bool told;                         /* the client knows it: its calls may be shown */
	struct engine_patch_link *patches; /* of engine patch */

	struct engine_target_site *sites; /* of engine target */
	const struct engine *engine;
	VALUE callee;         /* Symbol: the name it was selected by; an alias has its own */
	uint32_t selector;    /* index */
	struct probe *former; /* of the definition that this one replaced */
	struct probe *next;   /* in its bucket */
	struct probe *next_made;
	struct probe *next_alias;                                         /* of engine hook */
	enum { RETRY_NOT_KNOWN, RETRY_POSSIBLE, RETRY_IMPOSSIBLE } retry; /* retry.h */
};

void selection_init(void);

/*
 * Arms what a trace command asks for. On success the session has its selection and *count is the number of methods; what matches nothing yet stays
 * pending, and the client is told by notes. 0, or negative and err: then nothing is armed.
 */
int selection_arm(struct session *session, const struct command *command, uint64_t *count, struct error *err);

/* Sends a MATCH record for each method that the command's selectors name; arms nothing. */
int selection_list(struct session *session, const struct command *command, uint64_t *count, struct error *err);

/* Stops all events. */
void selection_disable(struct selection *selection);
/* Whether that was done: nothing may be armed any more. */
bool selection_is_over(const struct selection *selection);
/* Frees it; nobody may hold its session. */
void selection_free(struct selection *selection);

/* Whether any selector might mean methods of that name, a Symbol. Cheap. */
bool selection_may_mean(VALUE method);

/* A method was defined or redefined: arms it in every session whose selectors name it. Event context; raises nothing. */
void selection_method_added(VALUE owner, VALUE name);

/*
 * What watch_modules.c is told by: a constant was assigned (its name, a Symbol, in a module); a class was made; a class or module, or another object, has
 * got the methods of a module. In a call of the application's; raises nothing but what others have sent to the thread meanwhile.
 */
void selection_constant_added(VALUE scope, VALUE name);
void selection_class_made(VALUE superclass, VALUE class);
void selection_module_mixed(VALUE mixin, VALUE target);
void selection_object_extended(VALUE mixin, VALUE object);
/* The application does something with a module: before 3.2 nobody tells when it gets its name. */
void selection_module_seen(VALUE module);
/* Something of the kind has happened where nobody can look now. Any thread, any Ractor. */
void selection_modules_changed(void);

/* Looks for what selectors have not matched yet, if selection_look_is_due() has said so. Job context. */
void selection_look(void);

/* A compiler has been switched on: tells each session which of its methods are not seen any more. Raises nothing. */
void selection_compiler_on(void);

/* Starts the selection's global hook unless it is on. */
void selection_hook_start(struct selection *selection, bool whole);
/* The state of engine hook. */
struct engine_hook_state *selection_hook(struct selection *selection);

/*
 * The probe for a method, or NULL. Under the firehose one is made at the first sight of a method: slow path, allocates. Event
 * context. *jump is set to a state as aside_protect() returns it, or stays.
 */
struct probe *selection_hook_probe(struct selection *selection, VALUE owner, VALUE name, int *jump);

/* The probe for a method that has one, that of its latest definition, or NULL; also of no selection. Event context. */
struct probe *selection_probe(const struct selection *selection, VALUE owner, VALUE name);

/* Sees to what a probe waits for, if a class has its name by now. Event context; raises nothing. Returns what aside_protect() does. */
int selection_look_at_names(struct probe *probe);

/* Calls in other Ractors so far. */
uint64_t selection_foreign_calls(const struct selection *selection);

/*
 * Whether this thread is just arming: the methods that are defined on the way are our own, to find out about the VM or to hold expressions.
 */
bool selection_is_arming(void);
/* In a forked child there are no other threads that do. Async-signal-safe. */
void selection_fork_child(void);
/* rb_protect, during which it is: what is called on the way is not shown to any session. Job context. */
VALUE selection_protect_arming(VALUE (*run)(VALUE), VALUE argument, int *failed);

/* Whether any session waits for methods to be defined. */
bool selection_watches(void);

/* Whether both are of one method, whichever definitions. Event context. */
static inline bool probe_is_same_method(const struct probe *probe, const struct probe *other)
{
	return probe == other || (probe->owner == other->owner && probe->callee == other->callee);
}

#endif
