#ifndef RBPROBE_TMP_WORDS_H
#define RBPROBE_TMP_WORDS_H

#include <ruby.h>
#include <stddef.h>

/*
 * Memory that the GC frees if an exception leaves us before rb_free_tmp_buffer() does, and whose words the GC takes for objects.
 * rb_alloc_tmp_buffer() itself has another argument since 4.1, and marks only where that says so. GVL held; may raise, may run
 * the GC. *holder stays on the stack.
 */
static inline void *tmp_words_new(volatile VALUE *holder, size_t bytes)
{
	return rb_alloc_tmp_buffer2(holder, (long)((bytes + sizeof(VALUE) - 1) / sizeof(VALUE)), sizeof(VALUE));
}

#endif
