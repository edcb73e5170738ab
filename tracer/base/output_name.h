#ifndef RBPROBE_OUTPUT_NAME_H
#define RBPROBE_OUTPUT_NAME_H

#include <stdbool.h>
#include <sys/types.h>

/* Names of files that say of which process the content is: in -o FILE, %p stands for its PID and %% for a %. */

/* Whether no other character follows a %. */
bool output_name_is_valid(const char *name);
/* Whether there is a file for each process. */
bool output_name_has_pid(const char *name);
/* The file's name, for free(). */
char *output_name_of(const char *name, pid_t pid);

#endif
