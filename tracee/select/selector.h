#ifndef RBPROBE_SELECTOR_H
#define RBPROBE_SELECTOR_H

#include "proto/command.h"
#include "tracee/engine/match.h"
#include "tracee/vm/heap_list.h"

#include <ruby.h>

#include <stdbool.h>

/*
 * From a selector to the live methods it names. Job context, GVL held, under rb_protect (allocates, raises). Runs no application
 * code and triggers no autoload.
 */

/*
 * A walk over them in pieces. Whoever keeps one marks it. What begins the struct is the caller's to set: found() is called for
 * each method, with the GC knowing all four values for that time. The rest is zero at first, and the walk's own.
 */
struct selector_walk {
	void (*found)(const struct match *match, void *argument);
	void *argument;

	const struct selector *selector; /* NULL: it has not begun */
	struct selector adapted;         /* what it means of `module` */
	bool exact;                      /* modules has what its constant is, */
	bool alone;                      /* or one module */
	struct heap_list list;           /* where modules are still looked for; */
	VALUE modules;                   /* Array; nil: they are */
	long next_module;
	bool singletons_turn; /* of the next module its singleton class is next */
	VALUE module;         /* whose names are gone through; nil: none */
	VALUE names;          /* Array of Symbols, or nil */
	long next_name;
	unsigned next_list;
	bool has_class; /* there is one with that name, though perhaps without such a method */
};

/* The selector lives as long as the walk. */
void selector_walk_begin(struct selector_walk *walk, const struct selector *selector);
/* Looks at the next method or module; false: there is none. */
bool selector_walk_next(struct selector_walk *walk);
/* In GC; also where it has not begun. */
void selector_walk_mark(const struct selector_walk *walk);

/* The whole walk, during which other threads may run. */
void selector_each_match(const struct selector *selector, void (*found)(const struct match *match, void *argument),
                         void *argument);

/*
 * Of selector_each_match() with an exact class what the addition of one method can have brought: the method itself, what the
 * class finds by its name now, or what wraps a method of the class. However many methods the class has, it costs the same.
 */
void selector_each_match_added(const struct selector *selector, VALUE owner, VALUE name,
                               void (*found)(const struct match *match, void *argument), void *argument);

/* Whether the method is named by a pattern, and not by its name. */
bool selector_is_method_pattern(const struct selector *selector);

/* Whether the class is named by a constant: "Billing::Order", no pattern. Such a selector finds what the class inherits, too. */
bool selector_is_exact(const struct selector *selector);
/*
 * As selector_each_match(), of this module and its singleton class alone. That an exact selector means it is taken for granted.
 */
void selector_each_match_in(const struct selector *selector, VALUE module,
                            void (*found)(const struct match *match, void *argument), void *argument);

/* Whether a method with this owner and name is one that the selector names, as far as names tell. */
bool selector_names(const struct selector *selector, VALUE owner, VALUE name);

/* Whether the selector is for methods of this name alone, and no pattern that it happens to match. */
bool selector_is_exactly(const struct selector *selector, VALUE name);

/* The same for the method's name alone. */
bool selector_names_method(const struct selector *selector, VALUE name);

/* Whether a module itself has a method of that name, public or not. */
bool selector_defines(VALUE module, VALUE name);

/* Whether calling the method on an instance of the module finds one, public or not, its own or inherited. */
bool selector_has_method(VALUE module, VALUE name);

/* The method that is named by its name, as a Symbol; nil where no such Symbol exists: then there is no such method either. */
VALUE selector_literal_name(const struct selector *selector);

/* Every class and module there is. Other threads may run meanwhile. */
VALUE selector_all_modules(void);

/* The selector as the user would write it, without expressions; cut to size with a NUL. */
void selector_write(const struct selector *selector, char *buffer, size_t size);

#endif
