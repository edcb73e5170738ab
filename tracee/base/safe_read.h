#ifndef RBPROBE_SAFE_READ_H
#define RBPROBE_SAFE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads memory of this process at addresses that may be none: process_vm_readv() fails where a load would fault. One system call
 * each. Any context, signal handlers included.
 */

/* Words of any object of the VM's: the smallest slot of its heap, the last of which ends where memory may end. */
#define SLOT_WORDS 5

/* True if all bytes were read. */
bool safe_read(uintptr_t from, void *to, size_t size);

/* The same for words, which no address stands for that is not aligned, or lies in the first page. */
bool safe_read_words(uintptr_t from, uintptr_t *words, size_t count);

/* Returns how many words were read: fewer than count where the rest lies on a page that cannot be read. */
size_t safe_read_some(uintptr_t from, uintptr_t *words, size_t count);

#endif
