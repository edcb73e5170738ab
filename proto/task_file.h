#ifndef RBPROBE_TASK_FILE_H
#define RBPROBE_TASK_FILE_H

#include <sys/types.h>

/*
 * Reads /proc/PID/task/TID/NAME, from the directory /proc/PID/task, in one piece; what is longer than size is cut. The text ends
 * with a NUL. Returns its size, or -1. Any context where a file may be opened.
 */
ssize_t task_file_read(int task_directory, const char *tid, const char *name, char *text, size_t size);
/* The same of a thread of this process. */
ssize_t task_file_read_own(pid_t tid, const char *name, char *text, size_t size);

#endif
