/* What a process's memory map shows. See target_maps.h. */

#define _GNU_SOURCE
#include "tracer/process/target_maps.h"

#include "proto/clock.h"
#include "proto/names.h"
#include "tracer/process/look_budget.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USER_BUDGET_NS (2 * NS_PER_S)
#define ALL_BUDGET_NS (6 * NS_PER_S)
#define WAIT_FREE_NS (50 * NS_PER_MS) /* for a processor, on a busy machine */

static struct look_budget budget = {.user_ns = USER_BUDGET_NS, .all_ns = ALL_BUDGET_NS};
static unsigned unread;
static uid_t unread_user;

unsigned target_maps_unread(uid_t *user)
{
	*user = unread_user;
	return unread;
}

/* What a version may have in it, with the suffixes that some builds have: the name is the process's choice, and is shown. */
#define ABI_CHARACTERS "0123456789.+-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

void target_abi_from_path(struct target *target, const char *path)
{
	const char *at = path;

	while (target->abi[0] == '\0' && (at = strstr(at, "/ruby/"))) {
		size_t length;

		at += strlen("/ruby/");
		length = strcspn(at, "/");
		if (isdigit((unsigned char)*at) && memchr(at, '.', length) && strspn(at, ABI_CHARACTERS) >= length &&
		    length < sizeof(target->abi)) {
			memcpy(target->abi, at, length);
			target->abi[length] = '\0';
		}
	}
}

static void mapping_judge(struct target *target, char *path)
{
	char *name = strrchr(path, '/'), *deleted;

	if (!name)
		return;
	name++;
	deleted = strstr(name, " (deleted)");
	if (deleted)
		*deleted = '\0';
	/* The loader's copy in memory has the file's name. */
	if (strncmp(name, "memfd:", 6) == 0)
		name += 6;
	if (strcmp(name, EXTENSION_FILE) == 0)
		target->extension_mapped = true;
	/* TruffleRuby's VM, by a name that begins like ours. */
	if (strncmp(name, "librubyvm.", 10) == 0 || strncmp(name, "libtruffleruby", 14) == 0)
		target->truffleruby_mapped = true;
	else if (strncmp(name, "libruby", 7) == 0 && strstr(name, ".so")) {
		target->is_ruby = true;
		snprintf(target->libruby, sizeof(target->libruby), "%s", path);
	}
	target_abi_from_path(target, path);
}

/* musl is one file, libc and dynamic loader: ld-musl-x86_64.so.1 (Alpine), or libc.so (Debian); glibc's has a number. */
static void libc_judge(struct target *target, const char *line, const char *path)
{
	const char *access = strchr(line, ' ');

	if (access && strncmp(access, " r-x", 4) == 0 &&
	    (strstr(path, "/ld-musl-") || strcmp(strrchr(path, '/'), "/libc.so") == 0))
		target->musl_mapped = true;
}

/* Device and inode of what a line maps under the name of the program. */
static void program_judge(struct target *target, const char *line, const char *file, const char *program)
{
	char device[32], inode[32];

	if (!target->program[0] && strcmp(file, program) == 0 && sscanf(line, "%*s %*s %*s %31s %31s", device, inode) == 2)
		snprintf(target->program, sizeof(target->program), "%s %s %s", device, inode, program);
}

/* The map has a line for each mapping; the path, if any, is its sixth column. False: there was no time for all of it. */
static bool lines_read(struct target *target, FILE *maps, uint64_t deadline_ns)
{
	char path[64], program[512], *line = NULL;
	size_t capacity = 0;
	ssize_t size;
	bool in_time;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)target->pid);
	size = readlink(path, program, sizeof(program) - 1);
	program[size > 0 ? size : 0] = '\0';
	while ((in_time = clock_now_ns() < deadline_ns) && getline(&line, &capacity, maps) > 0) {
		char *file = strchr(line, '/');

		target->has_memory = true;
		if (!file)
			continue;
		file[strcspn(file, "\n")] = '\0';
		program_judge(target, line, file, program);
		libc_judge(target, line, file);
		mapping_judge(target, file);
	}
	free(line);
	return in_time;
}

static void maps_read(struct target *target, uint64_t deadline_ns)
{
	char path[64];
	bool in_time;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)target->pid);
	maps = fopen(path, "re");
	if (!maps)
		return;
	setvbuf(maps, NULL, _IOFBF, 65536);
	in_time = lines_read(target, maps, deadline_ns);
	target->readable = in_time && !ferror(maps);
	if (!in_time) {
		target->is_ruby = target->truffleruby_mapped = target->extension_mapped = false;
		if (unread++ == 0)
			unread_user = target->euid;
	}
	fclose(maps);
}

void target_maps_read(struct target *target, enum target_detail detail)
{
	uint64_t began_ns = clock_now_ns(), cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;

	if (detail != TARGET_VERSION) {
		maps_read(target, UINT64_MAX);
		return;
	}
	maps_read(target, began_ns + look_budget_left(&budget, target->euid, began_ns));
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	took_ns = clock_now_ns() - began_ns;
	took_ns = took_ns > WAIT_FREE_NS ? took_ns - WAIT_FREE_NS : 0;
	look_budget_spend(&budget, target->euid, took_ns > cpu_ns ? took_ns : cpu_ns);
}
