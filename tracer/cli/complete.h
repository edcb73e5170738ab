#ifndef RBPROBE_COMPLETE_H
#define RBPROBE_COMPLETE_H

#include "tracer/base/buffer.h"
#include "tracer/cli/subcommand.h"

/*
 * What a shell completes, for the scripts in completion/. Words are those after "rbprobe" up to the cursor; the last is
 * the one that is to be completed, and may be empty. A line for each word that it may become: the word, a tab, what it
 * means. ":files" and ":programs" are lines that ask the shell for these. What ends with #, . or : goes on in the same
 * word.
 */
void complete(struct buffer *answer, const struct subcommand *const *subcommands, size_t subcommand_count,
              const char *const *words, size_t count);

#endif
