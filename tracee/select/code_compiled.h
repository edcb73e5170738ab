#ifndef RBPROBE_CODE_COMPILED_H
#define RBPROBE_CODE_COMPILED_H

/*
 * Learning of code that is compiled while somebody is attached, before it runs: by require, load, autoload, eval, and the program
 * itself. Job context, GVL held; raises nothing.
 */

/* In Init. */
void code_compiled_init(void);

/* From now on, if it was not so before. */
void code_compiled_begin(void);
/* No more; nothing of it stays. */
void code_compiled_end(void);

#endif
