#ifndef RBPROBE_PROC_STATUS_H
#define RBPROBE_PROC_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A number of /proc/PID/status by its field's name; base as strtoull takes it. `missing` where there is no such process or
 * field.
 */
unsigned long long proc_status_number(pid_t pid, const char *field, int base, unsigned long long missing);

/* Whether a field's words contain that one. Where there is no such process or field: no. */
bool proc_status_has(pid_t pid, const char *field, const char *word);
/* The same for the file's text. */
bool status_text_has(const char *text, const char *field, const char *word);

#endif
