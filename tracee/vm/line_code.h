#ifndef RBPROBE_LINE_CODE_H
#define RBPROBE_LINE_CODE_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * Which instructions belong to a line of a file, and which local variables it sees. code is a RubyVM::InstructionSequence
 * throughout. Runs no code of the application's. Job context, GVL held, under rb_protect.
 */

/* Paths of the file that the code is from, Strings: as it was loaded, and absolute, or Qnil. */
VALUE line_code_path(VALUE code);
VALUE line_code_absolute_path(VALUE code);

/* A look for a line in one InstructionSequence after the other. */
struct line_look {
	uint32_t line;
	uint32_t before, after; /* the nearest lines that have code, so far; 0: none */
	bool silent;            /* the code itself, but for its blocks, spans the line and has no line event at all */
	bool once; /* for found(): it is a class's or a file's, and a method that is written on the same line is not part of it */
	bool in_method; /* of line_code_look_new(): a method that is left out has the line */
	/*
	 * Called for the outermost code that has an event on the line: what is written in it and on the same line belongs to it.
	 * names: an Array of the local variables that are visible there, Symbols.
	 */
	void (*found)(struct line_look *look, VALUE code, VALUE names);
	void *argument;
};

/* Looks in the code and in all that is written within it. outer: Array of the variables around it, Symbols; or nil. */
void line_code_look(struct line_look *look, VALUE code, VALUE outer);
/* The same for code that runs once: not in the classes and methods that it defines, but in its blocks. */
void line_code_look_once(struct line_look *look, VALUE code);

/*
 * The same for code that was just compiled, and has not run yet. Of its methods it is told when they are defined, so they are
 * left out, unless `methods`; and so is a block that has one on the line. is_eval: it was not the whole of a file.
 */
void line_code_look_new(struct line_look *look, VALUE code, bool is_eval, bool methods);

/* The variables of the code itself, those of its blocks and of what is around it not among them: Array of Symbols. */
VALUE line_code_variables(VALUE code);

/* Whether both are the same instructions: up to 2.7 there are several objects for them. */
bool line_code_is_same(VALUE code, VALUE other);

#endif
