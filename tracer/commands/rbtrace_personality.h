#ifndef RBPROBE_RBTRACE_PERSONALITY_H
#define RBPROBE_RBTRACE_PERSONALITY_H

#include <stdbool.h>

/* rbprobe that was called rbtrace: it takes that program's command line and prints what that program prints. */

bool rbtrace_is_meant(const char *program);

/* Returns the exit status. */
int rbtrace_main(int argc, char **argv);

#endif
