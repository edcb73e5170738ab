#ifndef RBPROBE_NATIVE_ID_H
#define RBPROBE_NATIVE_ID_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * The number of a thread's native thread; 0: it has none now. False: this Ruby does not tell it. Before 3.1 it is known of the
 * current thread and of the main one alone. Job context; may raise.
 */
bool native_id_of(VALUE thread, uint32_t *native_id);

/* Asks the VM how it began: version.c puts "+MN" into RUBY_DESCRIPTION. Init, GVL held. */
void native_ids_learn(void);

/*
 * Whether threads may share native ones (RUBY_MN_THREADS, from 3.3 on), and so have another one from time to time. Any context,
 * after native_ids_learn().
 */
bool native_ids_are_shared(void);

#endif
