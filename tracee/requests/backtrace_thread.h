#ifndef RBPROBE_BACKTRACE_THREAD_H
#define RBPROBE_BACKTRACE_THREAD_H

#include "tracee/base/msgpack_builder.h"
#include "tracee/base/text.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * What the VM and the system tell of a thread or fiber besides its frames. Job context, GVL held, under rb_protect; application
 * code is not run.
 */

#define THREAD_TEXT_MAX 512

struct thread_facts {
	uint64_t id;        /* its object's address, as Thread#inspect shows it */
	uint32_t native_id; /* Linux thread id as the process itself sees it; 0: this Ruby does not tell */
	bool is_main;
	bool is_current; /* the job runs on it */
	bool has_ended;  /* as thread_has_ended() */
	char status[32]; /* "run", "sleep", "sleep_forever", "aborting", "dead": the last word of Thread#inspect */
	struct text name;
	char name_bytes[THREAD_TEXT_MAX + 1]; /* NUL-terminated; empty: it has none */
	struct text created_at;
	char created_at_bytes[THREAD_TEXT_MAX];
};

/* Since the threads were listed. Never the main one, which counts as dead while the process exits and still has frames to run. */
bool thread_has_ended(VALUE thread);
void thread_facts_get(struct thread_facts *facts, VALUE thread);
/* Adds them, and what else there is to say of the thread, to the map that is open. */
void thread_facts_add(struct msgpack_builder *answer, const struct thread_facts *facts, VALUE thread);
/* Threads of rbprobe's own are none of the application's. */
bool thread_is_ours(const struct thread_facts *facts);

struct fiber_facts {
	uint64_t id;
	char status[32]; /* "created", "resumed", "suspended", "resuming", "terminated": the last word of Fiber#inspect */
	struct text created_at;
	char created_at_bytes[THREAD_TEXT_MAX];
};

void fiber_facts_get(struct fiber_facts *facts, VALUE fiber);

#endif
