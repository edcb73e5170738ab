#ifndef RBPROBE_SELECTOR_H
#define RBPROBE_SELECTOR_H

#include "proto/command.h"
#include "proto/error.h"
#include "tracer/base/buffer.h"

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
	char **copies;         /* of names that were written with a backslash */
	size_t copy_count;
};

/* Appends what text says. Returns 0, or with err naming the place -EINVAL, or -ENOENT: no class has such a name. */
int selector_parse(struct selector_list *list, const char *text, struct error *err);
/* Appends one, and takes its array of expressions, which is of malloc(). */
void selector_list_add(struct selector_list *list, const struct selector *selector, const char *text);
void selector_list_free(struct selector_list *list);

/* A method as a selector names it, in quotes where they are needed: Order#"two words", "ARGF.class"#gets. */
void selector_add_name(struct buffer *to, struct slice class, char separator, struct slice method);

#endif
