#ifndef RBPROBE_LEAVE_H
#define RBPROBE_LEAVE_H

/*
 * Ending the program from where nothing can be put in order any more: a second signal, no memory. What must be done even
 * then, such as giving back the terminal, is the one action that is registered.
 */

/* action: async-signal-safe; NULL: none any more. */
void leave_register(void (*action)(void));

/* words: what is written to standard error after the action; NULL: nothing. Async-signal-safe. */
_Noreturn void leave_at_once(int status, const char *words);

#endif
