/* The console's history file, which somebody else may have written. */

#define _GNU_SOURCE
#include "tracer/console/console_history.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/dev/shm/fuzz-history-XXXXXX", path[64];
static volatile size_t read_through;

static void remove_it(void)
{
	unlink(path);
	rmdir(directory);
}

static void take(const char *entry)
{
	read_through += strlen(entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct history history;
	int fd;

	if (!path[0]) {
		if (!mkdtemp(directory))
			abort();
		snprintf(path, sizeof(path), "%s/history", directory);
		atexit(remove_it);
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
	history = (struct history){.path = strdup(path)};
	history_open(&history, take);
	history_add(&history, "one more");
	history_close(&history);
	return 0;
}
