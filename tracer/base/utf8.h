#ifndef RBPROBE_UTF8_H
#define RBPROBE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * The length of the well-formed UTF-8 sequence at text (RFC 3629: no surrogates, nothing overlong), or 0; *code is its
 * character. There is at least one byte.
 */
size_t utf8_sequence(const char *text, size_t size, uint32_t *code);

#endif
