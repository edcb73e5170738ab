/* A process's own files, read by a child without privileges. See target_files.h. */

#define _GNU_SOURCE
#include "tracer/process/target_files.h"

#include "proto/clock.h"
#include "tracer/process/confined.h"
#include "tracer/process/elf_symbols.h"
#include "tracer/process/look_budget.h"
#include "tracer/process/target_maps.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_BUDGET_NS (2 * NS_PER_S)
#define PATH_BUDGET_NS (NS_PER_S / 2) /* a stopped signal of the process may wait for it */
#define LOOK_MEMORY (256u << 20)
#define KNOWN_MAX 64
#define MAX_ERRNO 4095
#define USER_BUDGET_NS (4 * NS_PER_S) /* of one user's files, however many processes have such */
#define ALL_BUDGET_NS (12 * NS_PER_S)
#define LOOK_FREE_NS (50 * NS_PER_MS) /* which a look takes on a busy machine */

static unsigned unread;

unsigned target_files_unread(void)
{
	return unread;
}

/* Where a user's files do not answer, each of their processes would cost a look's whole budget. */
static struct look_budget budget = {.user_ns = USER_BUDGET_NS, .all_ns = ALL_BUDGET_NS};

/* An answer of exactly that size: 0, or a negative errno. */
static int look(const struct target *target, void (*work)(const struct confined *, const void *), const void *argument,
                uint64_t budget_ns, void *answer, size_t size)
{
	uint64_t began_ns = clock_now_ns(), left_ns = look_budget_left(&budget, target->euid, began_ns), took_ns;
	struct confined_job job = {.target = target,
	                           .work = work,
	                           .argument = argument,
	                           .budget_ns = budget_ns < left_ns ? budget_ns : left_ns,
	                           .memory_max = LOOK_MEMORY,
	                           .answer_max = size};
	struct buffer said = {0};
	int status = left_ns ? confined_run(&job, &said) : -ETIMEDOUT;
	bool whole = said.size == size;

	if (status == -ETIMEDOUT)
		unread++;
	took_ns = clock_now_ns() - began_ns;
	if (took_ns > LOOK_FREE_NS)
		look_budget_spend(&budget, target->euid, took_ns - LOOK_FREE_NS);
	if (whole)
		memcpy(answer, said.bytes, size);
	buffer_free(&said);
	/* What has been said counts, whatever came of the child then. */
	return whole ? 0 : status < 0 ? status : -EIO;
}

/* --- Is it Ruby? */

static void say_whether_ruby(const struct confined *confined, const void *nothing)
{
	struct elf_symbol symbols[] = {{.name = "ruby_init"}, {.name = "ruby_run_node"}, {.name = "rb_eval_string"}};
	int fd = confined_open_program(confined);
	int answer = fd < 0 ? -errno : elf_symbols_find(fd, symbols, 3) == 3;

	(void)nothing;
	confined_answer(confined, &answer, sizeof(answer));
}

/*
 * `rbprobe ps` reads each program once for each user that runs it. The name is not proof against a process that maps another
 * file under it; so what one user's processes are taken for never depends on another user's.
 */
int target_program_is_ruby(const struct target *target)
{
	static struct {
		char name[sizeof(((struct target *)NULL)->program) + 16];
		int is_ruby;
	} known[KNOWN_MAX];
	static size_t count;
	char name[sizeof(known->name)];
	bool named = target->program[0] != '\0';
	int is_ruby = 0, status;

	snprintf(name, sizeof(name), "%u %s", (unsigned)target->euid, target->program);
	for (size_t i = 0; named && i < count; i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].is_ruby;
	status = look(target, say_whether_ruby, NULL, LOOK_BUDGET_NS, &is_ruby, sizeof(is_ruby));
	if (status < 0)
		return status;
	if (is_ruby > 1 || is_ruby < -MAX_ERRNO)
		is_ruby = 0; /* the answer may be the process's own word */
	if (named && is_ruby >= 0 && count < KNOWN_MAX) {
		memcpy(known[count].name, name, sizeof(name));
		known[count++].is_ruby = is_ruby;
	}
	return is_ruby;
}

/* --- Its version */

struct version {
	char text[32];
	int api[3];
	int api_is_known;
	char paths[1024]; /* of its own files, each with a zero after it; only where the symbols for debuggers are there */
};

static void say_version(const struct confined *confined, const void *libruby)
{
	const char *path = libruby;
	struct version version = {0};
	struct elf_symbol symbols[] = {
		{.name = "ruby_version", .bytes = version.text, .size = sizeof(version.text) - 1},
		{.name = "ruby_api_version", .bytes = version.api, .size = sizeof(version.api)},
		{.name = "ruby_initial_load_paths", .bytes = version.paths, .size = sizeof(version.paths) - 1},
	};
	int fd = path[0] ? confined_open(confined, path) : confined_open_program(confined);

	if (fd < 0)
		return;
	elf_symbols_find(fd, symbols, 3);
	version.api_is_known = symbols[1].found;
	confined_answer(confined, &version, sizeof(version));
}

void target_read_version(struct target *target)
{
	struct version version;

	if (look(target, say_version, target->libruby, LOOK_BUDGET_NS, &version, sizeof(version)) < 0)
		return;
	version.text[sizeof(version.text) - 1] = '\0';
	for (size_t i = 0; isgraph((unsigned char)version.text[i]); i++) {
		target->ruby_version[i] = version.text[i];
		target->ruby_version[i + 1] = '\0';
	}
	version.paths[sizeof(version.paths) - 1] = '\0';
	for (const char *path = version.paths; path < version.paths + sizeof(version.paths) && *path; path += strlen(path) + 1)
		target_abi_from_path(target, path);
	if (target->abi[0] == '\0' && version.api_is_known == 1)
		snprintf(target->abi, sizeof(target->abi), "%u.%u.%u", (unsigned)version.api[0] % 1000,
		         (unsigned)version.api[1] % 1000, (unsigned)version.api[2] % 1000);
}

/* --- The same file? */

struct file_identity {
	dev_t device;
	ino_t inode;
};

static void say_identity(const struct confined *confined, const void *path)
{
	struct file_identity identity;
	int fd = confined_open(confined, path);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) != 0)
		return;
	memset(&identity, 0, sizeof(identity));
	identity.device = status.st_dev;
	identity.inode = status.st_ino;
	confined_answer(confined, &identity, sizeof(identity));
}

/* Where it has our root directory, there is nothing to look for. */
static bool has_our_root(pid_t pid)
{
	static const char *const names[] = {"root", "ns/mnt"};

	for (size_t i = 0; i < 2; i++) {
		char path[64], ours[256], theirs[256];
		ssize_t our_size, size;

		snprintf(path, sizeof(path), "/proc/self/%s", names[i]);
		our_size = readlink(path, ours, sizeof(ours));
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
		size = readlink(path, theirs, sizeof(theirs));
		if (size <= 0 || size != our_size || size == sizeof(theirs) || memcmp(ours, theirs, (size_t)size) != 0)
			return false;
	}
	return true;
}

bool target_sees_file(const struct target *target, const char *path)
{
	struct file_identity identity;
	struct stat status;

	if (has_our_root(target->pid))
		return true;
	return stat(path, &status) == 0 && look(target, say_identity, path, PATH_BUDGET_NS, &identity, sizeof(identity)) == 0 &&
	       identity.device == status.st_dev && identity.inode == status.st_ino;
}
