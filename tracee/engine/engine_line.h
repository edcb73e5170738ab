#ifndef RBPROBE_ENGINE_LINE_H
#define RBPROBE_ENGINE_LINE_H

#include "proto/error.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Observing a line: a TracePoint of that line of the code that has it. It costs nothing elsewhere, and nothing once it is
 * disabled. Its events end in observe_line(). Job context, GVL held, under rb_protect, except where said.
 */

struct probe;

/* What arming has to know, as far as a job alone can find it out: arming itself may be in an event. */
void engine_line_prepare(void);
/*
 * Starts the events. code: the InstructionSequence that has the line. once: it is outside of methods, and what a method does that
 * is written on the same line is none of its events. 0, or negative and err. Job or event context.
 */
int engine_line_arm(struct probe *probe, VALUE code, uint32_t line, bool once, struct error *err);
/* The events of one probe are another's from now on: the code has become that of a method. */
void engine_line_hand_over(struct probe *from, struct probe *to);
/* A TracePoint was enabled for a method: on 2.7, lines of it would fall silent. */
void engine_line_method_armed(VALUE code);
/* Ends them; also for a probe that has no line. Events that have begun may still be under way in other threads. */
void engine_line_disarm(struct probe *probe);
/* Frees what arming made, when no event is under way any more. Calls no Ruby function. */
void engine_line_release(struct probe *probe);
/* The armed code; Qnil: none. */
VALUE engine_line_code(const struct probe *probe);
/* Whether it was armed `once`. */
bool engine_line_is_once(const struct probe *probe);

/* In GC. */
void engine_line_mark(const struct probe *probe);
void engine_line_mark_left_over(void);
/* As engine_target_sweep(). */
bool engine_line_sweep(void);
/* Events in other Ractors, which are not followed, as far as this Ruby shows them (before 4.0). */
uint64_t engine_line_foreign_events(const struct probe *probe);

#endif
