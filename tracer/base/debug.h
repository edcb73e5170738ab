#ifndef RBPROBE_TRACER_DEBUG_H
#define RBPROBE_TRACER_DEBUG_H

#include "proto/debug_domains.h"
#include "proto/error.h"
#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Debug lines: "rbprobe: debug load: ..." on standard error, one per event, for the domains that RBPROBE_DEBUG names. They are
 * for people who debug rbprobe; their texts are no interface. Those of a process come by DEBUG records, and say so: "rbprobe:
 * debug engine: from process 12: ...".
 */

/* Domains that are wanted, which is what the macro looks at. */
extern uint32_t debug_wanted;

/* One line. Its arguments are evaluated only where the domain is wanted. */
#define debug(domain, ...) ((debug_wanted & (uint32_t)(domain)) ? debug_line((domain), __VA_ARGS__) : (void)0)
void debug_line(enum debug_domain domain, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of a process. number: the domain's; one that was not asked for is dropped. */
void debug_from_process(int pid, uint32_t number, struct slice text);

/*
 * The domains that a text names, as RBPROBE_DEBUG has it: "load,attach" or "all"; "" or NULL: none. 0, or -EINVAL and err, with
 * no domain set.
 */
int debug_parse(const char *text, uint32_t *domains, struct error *err);
/* All domains, one a line, on standard output. False where that cannot be written. */
bool debug_help(void);

/*
 * The lines of a child process that must not wait for whoever reads standard error: they go into memory that it shares with its
 * parent, which shows them when the child has ended, however that was.
 */
struct debug_lines {
	uint32_t used;
	uint32_t left_out; /* that found no room */
	char bytes[32 << 10];
};
void debug_divert(struct debug_lines *lines);
void debug_show(const struct debug_lines *lines);

#endif
