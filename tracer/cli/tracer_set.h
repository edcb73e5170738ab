#ifndef RBPROBE_TRACER_SET_H
#define RBPROBE_TRACER_SET_H

#include "tracer/base/buffer.h"
#include "tracer/cli/options.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The tracers of a command (-c), whose selectors are among those of its options: .tracer is its number there, from 1.
 */

/* Takes the tracer's selectors and the tracer itself. 0, or -EINVAL and err: there are too many. */
int tracers_add(struct options *options, struct tracer_file *file, struct error *err);
void tracers_free(struct options *options);

/* For subcommands that show events beside calls: those that the tracers want. */
void tracers_want_events(struct options *options);
/*
 * For those that do not: what to say of tracers that want some. 0; or STATUS_USAGE after a line on stderr, where such a one has
 * nothing else.
 */
int tracers_refuse_events(const struct options *options, const char *subcommand);

/* For subcommands that show values: all but those for `stat --by`. */
void tracers_drop_keys(struct options *options);
/*
 * For those that show none: tracers' expressions are dropped. Of any selector the one of that name, if it has one, stays alone;
 * whether any has (name NULL: none).
 */
bool tracers_choose_key(struct options *options, const char *name);

/*
 * Of what --by names, where all selectors are of tracers: 0; or STATUS_USAGE after a line on stderr, where it is a single word
 * that none of their expressions has for its name.
 */
int tracers_check_key(const struct options *options, const char *name);

/* Whether the selector has only an expression of that name. */
bool selector_has_key(const struct selector *selector, const char *name);

/* Whether a tracer has selectors, and matches nothing. found: for each of the options' selectors; NULL: none has matched. */
bool tracer_is_unfit(const struct options *options, const bool *found, uint32_t number);
/* "neither ActiveRecord, pg, mysql2 nor sqlite3 is loaded" */
void tracer_describe_unfit(const struct options *options, uint32_t number, struct buffer *to);

#endif
