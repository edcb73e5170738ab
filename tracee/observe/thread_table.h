#ifndef RBPROBE_THREAD_TABLE_H
#define RBPROBE_THREAD_TABLE_H

#include "tracee/vm/gvl_layout.h"

#include <ruby.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The threads that the sampler looks at (thread_sampler.h). Whoever has the GVL puts a thread in; the sampler alone takes it out
 * when it is dead. Its object lives as long as it is in the table, so that the sampler may read the VM's structure of it.
 */

#define THREAD_TABLE_MAX 1024u

struct sampled_thread {
	_Atomic bool used;
	VALUE thread;
	uintptr_t structure;          /* of the VM; what the thread is called on the wire */
	_Atomic uint32_t native_id;   /* 0: not known, or it has not begun */
	_Atomic uint8_t last;         /* enum state_event: what was told last; STATE_EVENTS: nothing */
	_Atomic uint32_t collections; /* garbage collections that it has begun and ended: odd while it is in one */

	/* The sampler's. */
	bool looked;               /* in this sample: */
	enum gvl_look look;        /* what it did, */
	uint32_t collections_seen; /* and collections */
	bool has_cpu;              /* what its clock was when it was found outside is */
	uint64_t cpu_ns;           /* here */
};

/* Learns of all threads, and of those that begin from now on. Job context; may raise. */
void thread_table_open(void);
/*
 * Puts those in that are not: before 3.1 a thread that C code made (rb_thread_create()) tells nobody that it begins
 * (thread_do_start() of thread.c of v3_0_0). Job context; may raise.
 */
void thread_table_list(void);
/* No more are put in, and no object is kept any more. The sampler is gone. Job context. */
void thread_table_close(void);
/* In a forked child: its only thread is put in by thread_table_open(). Async-signal-safe. */
void thread_table_fork_child(void);

/* So many places may be used: those before this one. Any thread. */
uint32_t thread_table_end(void);
struct sampled_thread *thread_table_at(uint32_t place);
/* NULL: it is not there. */
struct sampled_thread *thread_table_find(uintptr_t structure);
/* Threads that found no place. Any thread. */
uint64_t thread_table_left_out(void);

#endif
