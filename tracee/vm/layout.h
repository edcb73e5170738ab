#ifndef RBPROBE_LAYOUT_H
#define RBPROBE_LAYOUT_H

#include "tracee/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where the VM keeps what no API of Ruby's tells: one table for all that was found in this process. The modules named here find
 * it, each by its own experiment, because each experiment needs something else: a hook, a locked Mutex, scratch methods. Whoever
 * needs a place takes it from here, and does without where it is not known.
 *
 * Written by jobs, under the GVL; read in any context that has it.
 *
 * ROW(NAME, unit, name, what is there). Units: WORD, BYTE, BIT: the number of one in the structure; BEFORE, so many words before
 * what a pointer points to; VALUE, what is there itself; ADDRESS.
 */
/* clang-format off */
#define LAYOUT_TABLE(ROW)                                                                                                        \
	/* thread_layout.c */                                                                                                    \
	ROW(THREAD_CONTEXT, WORD, "thread.context", "of a thread: the current fiber's execution context")                        \
	ROW(CONTEXT_THREAD, WORD, "context.thread", "of a context: its thread")                                                  \
	ROW(CONTEXT_HOOK, WORD, "context.hook", "of a context: what the hook that runs is about")                                \
	ROW(FIBER_CONTEXT, BYTE, "fiber.context", "of a fiber: its context")                                                     \
	ROW(MUTEX_OWNER, WORD, "mutex.owner", "of a Mutex: the thread or fiber that holds it")                                   \
	ROW(MUTEX_LOCKED, WORD, "mutex.locked", "of a Mutex: not 0 while it is locked")                                          \
	ROW(OBJECT_TYPE, WORD, "object.type", "of a typed object: its type")                                                     \
	/* gvl_layout.c, up to Ruby 3.1 */                                                                                       \
	ROW(GVL_OWNER, ADDRESS, "gvl.owner", "of which thread of the main Ractor has the GVL")                                  \
	ROW(THREAD_STATUS, BYTE, "thread.status", "of a thread: runnable, stopped or dead, in the first bits")                   \
	ROW(THREAD_WAKER, WORD, "thread.waker", "of a thread: the function that wakes it out of what it does without the GVL")   \
	ROW(THREAD_REGION, WORD, "thread.region", "of a thread: not 0 in C code that does without the GVL")                      \
	ROW(THREAD_QUEUED, WORD, "thread.queued", "of a thread: its place in the queue for the GVL")                             \
	ROW(THREAD_NATIVE, WORD, "thread.native", "of a thread: libc's structure of its native thread")                          \
	/* interrupts_queue.c */                                                                                                 \
	ROW(THREAD_INTERRUPTS, WORD, "thread.interrupts", "of a thread: the interrupts that wait for it")                        \
	/* interrupts_mask.c */                                                                                                  \
	ROW(CONTEXT_INTERRUPTS, WORD, "context.interrupts", "of a context: flags of interrupts, and which are not looked at")    \
	/* method_definition.c */                                                                                                \
	ROW(METHOD_ENTRY, WORD, "method.entry", "of a method object: the method entry")                                          \
	ROW(ENTRY_DEFINITION, WORD, "entry.definition", "of a method entry: the definition, which copies of a method share")     \
	ROW(DEFINITION_FUNCTION, WORD, "definition.function", "of a C method's definition: the function")                        \
	ROW(DEFINITION_ARITY, BYTE, "definition.arity", "of a C method's definition: how many arguments the function takes")     \
	ROW(DEFINITION_TYPE, VALUE, "definition.type", "of a C method's definition: its type, in the first bits")                \
	/* foreign_hooks.c, targeted.c, event_flags.c */                                                                         \
	ROW(HOOK_LIST, ADDRESS, "hook.list", "of the VM's list of global hooks")                                                 \
	ROW(HOOK_DATA, WORD, "hook.data", "of a hook: what its function is given")                                               \
	ROW(HOOK_NEXT, WORD, "hook.next", "of a hook: the next one")                                                             \
	ROW(DEFINITION_HOOKS, WORD, "definition.hooks", "of a define_method method's definition: its hooks, up to Ruby 3.1")     \
	ROW(HOOK_FLAGS, ADDRESS, "hook.flags", "of the events that a hook was ever on for")                                      \
	/* interrupts.c, by a throw; tracee/frame/frame_analyse.c, by scratch methods that it watches end */                     \
	ROW(JUMP_VALUE, WORD, "jump.value", "of what unwinds a frame: a throw's tag, what a break gives")                        \
	ROW(JUMP_STATE, WORD, "jump.state", "of what unwinds a frame: return, break or throw")                                   \
	ROW(JUMP_CATCH, WORD, "jump.catch", "of what unwinds a frame: the frame that it goes to")                                \
	/* tracee/frame, by the same scratch methods: frame_analyse.c */                                                         \
	ROW(EVENT_FRAME, WORD, "event.frame", "of an event: the control frame")                                                  \
	ROW(FRAME_SIZE, BYTE, "frame.size", "of a frame: where the next one begins")                                             \
	/* and frame_direct.c */                                                                                                 \
	ROW(EVENT_FLAG, WORD, "event.flag", "of an event: which it is")                                                          \
	ROW(EVENT_CONTEXT, WORD, "event.context", "of an event: the context")                                                    \
	ROW(FRAME_ENVIRONMENT, WORD, "frame.environment", "of a frame: its environment")                                         \
	ROW(ENVIRONMENT_ENTRY, BEFORE, "environment.entry", "of an environment: the method entry")                               \
	ROW(ENTRY_FLAGS, VALUE, "entry.flags", "of a method entry: its type of object")                                          \
	ROW(ENTRY_CALLED, WORD, "entry.called", "of a method entry: the name it is called by")                                   \
	ROW(ENTRY_OWNER, WORD, "entry.owner", "of a method entry: the method's owner")                                           \
	/* frame_locals.c */                                                                                                     \
	ROW(FRAME_CODE, WORD, "frame.code", "of a frame: its instructions")                                                      \
	ROW(CODE_BODY, WORD, "code.body", "of instructions: their body")                                                         \
	ROW(BODY_LOCALS, WORD, "body.locals", "of a body: the names of its local variables")                                     \
	ROW(BODY_LOCAL_COUNT, BYTE, "body.count", "of a body: how many local variables it has")                                  \
	ROW(ENVIRONMENT_LOCALS, BEFORE, "environment.locals", "of an environment: the last local variable")                      \
	/* frame_block_parameter.c */                                                                                            \
	ROW(CODE_FLAGS, VALUE, "code.flags", "of instructions: their type of object")                                            \
	ROW(BODY_BLOCK, BYTE, "body.block", "of a body: which local variable its block parameter is")                            \
	ROW(BODY_HAS_BLOCK, BIT, "body.flags", "of a body: the flag of those that have a block parameter")                       \
	/* frame_receiver.c */                                                                                                   \
	ROW(FRAME_RECEIVER, WORD, "frame.receiver", "of a frame: the receiver")                                                  \
	ROW(FRAME_STACK, WORD, "frame.stack", "of a frame: the VM stack; in calls of C, receiver and arguments")                 \
	/* code_around.c */                                                                                                      \
	ROW(BODY_PARENT, WORD, "body.parent", "of a body: the instructions that its code is written in")                         \
	ROW(BODY_SCOPE, WORD, "body.scope", "of a body: the instructions of the method, class or file around it")                \
	/* oneshot_lines.c */                                                                                                    \
	ROW(CODE_EVENTS, BYTE, "code.events", "of instructions: the events of global hooks that they are written for")           \
	/* tracee/engine/patch_facts.c: by an event whose frame tracee/frame has identified */                                   \
	ROW(CONTEXT_FRAME, WORD, "context.frame", "of a context: the innermost frame")                                           \
	ROW(CONTEXT_STACK, WORD, "context.stack", "of a context: where its VM stack begins; then, its size in words")
/* clang-format on */

enum layout_row {
#define LAYOUT_ROW(NAME, unit, name, what) LAYOUT_##NAME,
	LAYOUT_TABLE(LAYOUT_ROW)
#undef LAYOUT_ROW
		LAYOUT_ROWS
};

/* Private: read them by the functions below. */
extern uintptr_t layout_values[LAYOUT_ROWS];
extern bool layout_known[LAYOUT_ROWS];

static inline bool layout_is_known(enum layout_row row)
{
	return layout_known[row];
}

/* 0 where it is not known. */
static inline uintptr_t layout_value(enum layout_row row)
{
	return layout_values[row];
}

/* What was found. Two experiments that find the same row have to agree: false, and the row stays as it is, where they do not. */
bool layout_found(enum layout_row row, uintptr_t value);

/* Why a row is not known. Does nothing where it is. `why` is kept. */
void layout_not_found(enum layout_row row, const char *why);

/* A line of text for people: "thread.context: word 9 of a thread: ...", "...: not found: why", "...: not looked for". */
void layout_describe(enum layout_row row, struct text *text);

#endif
