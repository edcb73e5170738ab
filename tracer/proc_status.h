#ifndef RBPROBE_PROC_STATUS_H
#define RBPROBE_PROC_STATUS_H

#include <sys/types.h>

/* A number of /proc/PID/status by its field's name; base as strtoull takes it. `missing` where there is no such process or field. */
unsigned long long proc_status_number(pid_t pid, const char *field, int base, unsigned long long missing);

#endif
