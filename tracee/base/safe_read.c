/* Reading memory that may not be there. See safe_read.h. */

#define _GNU_SOURCE
#include "tracee/base/safe_read.h"

#include <sys/uio.h>
#include <unistd.h>

#define FIRST_PAGE 4096

static ssize_t read_from(uintptr_t from, void *to, size_t size)
{
	struct iovec local = {to, size};
	struct iovec remote = {(void *)from, size};

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

static bool may_be_words(uintptr_t from)
{
	return from % sizeof(uintptr_t) == 0 && from >= FIRST_PAGE;
}

bool safe_read(uintptr_t from, void *to, size_t size)
{
	return read_from(from, to, size) == (ssize_t)size;
}

bool safe_read_words(uintptr_t from, uintptr_t *words, size_t count)
{
	return may_be_words(from) && safe_read(from, words, count * sizeof(*words));
}

size_t safe_read_some(uintptr_t from, uintptr_t *words, size_t count)
{
	ssize_t size = may_be_words(from) ? read_from(from, words, count * sizeof(*words)) : -1;

	return size > 0 ? (size_t)size / sizeof(*words) : 0;
}
