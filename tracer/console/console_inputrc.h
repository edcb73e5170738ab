#ifndef RBPROBE_CONSOLE_INPUTRC_H
#define RBPROBE_CONSOLE_INPUTRC_H

#include <stdbool.h>

/*
 * Before readline begins: its own file ($INPUTRC, ~/.inputrc) binds keys to any text, so whoever writes it types in the
 * console. Where that may be somebody else (sudo that keeps HOME), readline reads the system's file instead, and a message
 * says so unless `quiet`.
 */
void inputrc_choose(bool quiet);

#endif
