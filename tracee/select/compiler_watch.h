#ifndef RBPROBE_COMPILER_WATCH_H
#define RBPROBE_COMPILER_WATCH_H

#include <stdbool.h>

/*
 * Learning that the application switches a compiler on (RubyVM::YJIT.enable, from Ruby 3.3 on; Rails does so when it has started)
 * while methods are observed: some that are patched are not called any more then. Job context, GVL held; raises nothing.
 */

void compiler_watch_init(void);

/* From now on, if no compiler is at work yet. */
void compiler_watch_begin(void);
/* No more. Whether anything of it stays, since other Ractors run: then to be called again. */
bool compiler_watch_end(void);

/* Whether one of the methods that do it has been called since this was asked last. */
bool compiler_watch_take(void);

#endif
