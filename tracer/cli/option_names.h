#ifndef RBPROBE_OPTION_NAMES_H
#define RBPROBE_OPTION_NAMES_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Which options a parser and its children have. Names are found as getopt finds them: a long one may be abbreviated. The
 * texts of an option that was found are those of the parser's tables.
 */

enum { OPTION_USAGE = 0x20000, OPTION_NO_PAGER };

/* What every subcommand has: --help, -h, -?, --usage, --no-pager. */
extern const struct argp options_standard;

typedef void (*options_visit)(void *owner, const struct argp_option *option);
void options_each(const struct argp *argp, options_visit visit, void *owner);

/* How many options may be meant by the name, which has no dashes; if one: which. */
unsigned options_find(const struct argp *argp, const char *name, size_t size, struct argp_option *option);
/* Whether there is such a one; which. */
bool options_find_letter(const struct argp *argp, char letter, struct argp_option *option);
/* Whether the word is an option, the value of which is the word after it; which. */
bool options_takes_next(const struct argp *argp, const char *word, struct argp_option *option);

/* Returns 0, or STATUS_USAGE after a line on stderr about an option that does not exist, and what may be meant. */
int options_check_names(const struct argp *argp, const char *command, int argc, char *const *argv);

#endif
