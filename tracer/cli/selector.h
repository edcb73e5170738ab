#ifndef RBPROBE_SELECTOR_H
#define RBPROBE_SELECTOR_H

#include "proto/command.h"
#include "proto/error.h"

#include <stdbool.h>

/*
 * Selectors as people write them: `String#gsub`, `Process.pid`, `Kernel#`, `Billing::*#*charge*`, `Order#save(self, @total)`,
 * `order.rb:42(total)`.
 */
struct selector_list {
	struct selector *items; /* point into the texts, which must stay */
	const char **texts;     /* as they were written */
	uint32_t count;
	bool asks_process;     /* one whose class begins with a small letter is appended, too: the process knows what was meant */
	struct error misnamed; /* what to say of it where there is no process */
};

/* Appends what text says. Returns 0, or with err naming the place -EINVAL, or -ENOENT: no class has such a name. */
int selector_parse(struct selector_list *list, const char *text, struct error *err);
/* Appends one, and takes its array of expressions, which is of malloc(). */
void selector_list_add(struct selector_list *list, const struct selector *selector, const char *text);
void selector_list_free(struct selector_list *list);

/* Whether a method of that name is written with quotes: Order#"two words". */
bool selector_needs_quotes(struct slice method);

#endif
