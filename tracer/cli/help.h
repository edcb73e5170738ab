#ifndef RBPROBE_HELP_H
#define RBPROBE_HELP_H

#include <argp.h>
#include <stdbool.h>

/* What --help (brief: --usage) prints, on a terminal through a pager; then the program ends. */
_Noreturn void help_show(const struct argp_state *state, bool brief);

#endif
