/* A field of /proc/PID/status. See proc_status.h. */

#define _GNU_SOURCE
#include "tracer/base/proc_status.h"

#include "tracer/base/proc_file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define TEXT_MAX 8192

/* What stands after "FIELD:", or NULL. */
static const char *value_of(const char *text, const char *field)
{
	char name[32];
	const char *at;

	snprintf(name, sizeof(name), "\n%s:", field);
	at = strstr(text, name);
	return at ? at + strlen(name) : NULL;
}

unsigned long long proc_status_number(pid_t pid, const char *field, int base, unsigned long long missing)
{
	char text[TEXT_MAX];
	const char *value = proc_file_read(pid, "status", text, sizeof(text)) > 0 ? value_of(text, field) : NULL;

	return value ? strtoull(value, NULL, base) : missing;
}

bool status_text_has(const char *text, const char *field, const char *word)
{
	const char *at = value_of(text, field);
	size_t length = strlen(word);

	while (at && *at && *at != '\n') {
		size_t size = strcspn(at, " \t\n");

		if (size == length && memcmp(at, word, length) == 0)
			return true;
		at += size;
		at += strspn(at, " \t");
	}
	return false;
}

bool proc_status_has(pid_t pid, const char *field, const char *word)
{
	char text[TEXT_MAX];

	return proc_file_read(pid, "status", text, sizeof(text)) > 0 && status_text_has(text, field, word);
}

/* Fields of /proc/PID/stat after the name, counted from 0. */
#define STAT_STATE 0
#define STAT_EXIT_CODE 49

bool proc_wait_status(pid_t pid, int *wait_status)
{
	char text[TEXT_MAX], *at;

	if (proc_file_read(pid, "stat", text, sizeof(text)) <= 0)
		return false;
	at = strrchr(text, ')');
	if (!at || strncmp(at, ") Z", 3) != 0)
		return false;
	at += 2;
	for (int field = STAT_STATE; field < STAT_EXIT_CODE && at; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	*wait_status = atoi(at);
	return true;
}

/* PIDFD_GET_INFO of linux/pidfd.h, which the headers here may not know yet. */
struct pidfd_answer {
	uint64_t mask;
	uint64_t cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};

_Static_assert(sizeof(struct pidfd_answer) == 64, "the first version of the kernel's struct");

#define PIDFD_ASK _IOWR(0xff, 11, struct pidfd_answer)
#define PIDFD_ASK_EXIT (1u << 3)

bool pidfd_wait_status(int pidfd, int *wait_status)
{
	struct pidfd_answer answer = {.mask = PIDFD_ASK_EXIT};

	if (pidfd < 0 || ioctl(pidfd, PIDFD_ASK, &answer) != 0 || !(answer.mask & PIDFD_ASK_EXIT))
		return false;
	*wait_status = answer.exit_code;
	return true;
}
