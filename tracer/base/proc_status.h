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

/*
 * How a process has ended that its parent has not waited for yet, as waitpid() gives it. False: it runs, its parent was
 * faster, or we may not know.
 */
bool proc_wait_status(pid_t pid, int *wait_status);

/* The same of one that its parent has waited for, by a pidfd that was opened before. False: the kernel is older than 6.15. */
bool pidfd_wait_status(int pidfd, int *wait_status);

#endif
