#ifndef RBPROBE_IDLE_RUBY_H
#define RBPROBE_IDLE_RUBY_H

#include "proto/error.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * A Ruby of our own that does nothing, to look at. `command` is a Ruby and its options, or what starts one; code for it
 * is put after them. Returns its PID when it has begun; a negative code with err where it cannot be run, ends, or has
 * not begun in time. It dies with this process. Where nothing can be loaded into processes, it requires the extension.
 */
pid_t idle_ruby_start(char **command, uint64_t timeout_ns, struct error *err);
void idle_ruby_end(pid_t pid);

#endif
