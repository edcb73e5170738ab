#ifndef RBPROBE_EXTENSION_H
#define RBPROBE_EXTENSION_H

#include "proto/error.h"

#include <stddef.h>

/*
 * Where the extensions are: a directory with rbprobe.rb, which picks the right one, and ABI/rbprobe.so for each Ruby.
 * In the build tree it lies beside the rbprobe binary, installed it is PREFIX/lib/rbprobe. Returns 0 or a negative code
 * with err.
 */
int extension_directory(char *path, size_t size, struct error *err);

#endif
