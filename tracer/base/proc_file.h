#ifndef RBPROBE_PROC_FILE_H
#define RBPROBE_PROC_FILE_H

#include <stdint.h>
#include <sys/types.h>

/* Reads a whole file that fits. Returns its size, the text ending with a NUL that is not counted, or -errno. */
ssize_t text_file_read(const char *path, char *text, size_t size);
/* The same of a file of /proc/PID. */
ssize_t proc_file_read(pid_t pid, const char *name, char *text, size_t size);

/* A process's state letter and its start time, in ticks since boot. 0, or -errno. */
int proc_stat_read(pid_t pid, char *state, uint64_t *start_ticks);
/* Pages that those of its children have touched which have ended, and were waited for: it grows with each. 0: not known. */
uint64_t proc_children_faults(pid_t pid);

#endif
