#ifndef RBPROBE_ADDRESS_SPACE_H
#define RBPROBE_ADDRESS_SPACE_H

#include <stddef.h>

/*
 * How many bytes this process may still map: the limit of its address space (RLIMIT_AS, `ulimit -v`) less what it has mapped.
 * SIZE_MAX where there is no limit, or where /proc does not tell. What we take of it the application cannot have.
 * Job context; reads a file.
 */
size_t address_space_left(void);

#endif
