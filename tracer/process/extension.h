#ifndef RBPROBE_EXTENSION_H
#define RBPROBE_EXTENSION_H

#include "proto/error.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Where the extensions are: a directory with rbprobe.rb, which picks the right one, and ABI/rbprobe.so for each Ruby, or
 * ABI-musl/rbprobe.so for one that runs with the C library musl.
 * In the build tree it lies beside the rbprobe binary, installed it is PREFIX/lib/rbprobe. Returns 0 or a negative code
 * with err.
 */
int extension_directory(char *path, size_t size, struct error *err);

/* What the ABI's directory has after the ABI in its name. mk/abi says the same. */
const char *extension_suffix(bool musl);

/* The commands by which that directory, or that of another installation, gets an extension for this Ruby. Returns text. */
const char *extension_remedy(const char *directory, const char *ruby, char *text, size_t size);

#endif
