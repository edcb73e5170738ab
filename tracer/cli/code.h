#ifndef RBPROBE_CODE_H
#define RBPROBE_CODE_H

#include "tracer/base/buffer.h"

#include "proto/error.h"

/* Reads a whole file, "-" for standard input, as code to be sent. 0, or a negative code with err. The caller frees the buffer. */
int code_read(struct buffer *code, const char *path, struct error *err);

#endif
