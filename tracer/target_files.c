/* A process's own files, read by a child without privileges. See target_files.h. */

#define _GNU_SOURCE
#include "target_files.h"

#include "confined.h"
#include "elf_symbols.h"
#include "proto/clock.h"

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
#define USERS_MAX 64
#define USER_BUDGET_NS (4 * NS_PER_S) /* of one user's files, however many processes have such */
#define LOOK_FREE_NS (50 * NS_PER_MS) /* which a look takes on a busy machine */

static unsigned unread;

unsigned target_files_unread(void)
{
	return unread;
}

/* Where a user's files do not answer, each of his processes would cost a look's whole budget. */
static uint64_t *spent_on(uid_t user)
{
	static struct {
		uid_t user;
		uint64_t ns;
	} users[USERS_MAX];
	static size_t count;
	size_t i = 0;

	while (i < count && users[i].user != user)
		i++;
	/* The others share the last place. */
	if (i == USERS_MAX)
		i--;
	else if (i == count)
		users[count++].user = user;
	return &users[i].ns;
}

/* An answer of exactly that size. */
static bool look(const struct target *target, void (*work)(const struct confined *, const void *), const void *argument,
                 uint64_t budget_ns, void *answer, size_t size)
{
	uint64_t *spent_ns = spent_on(target->euid), left_ns = USER_BUDGET_NS - *spent_ns, began_ns = clock_now_ns(), took_ns;
	struct confined_job job = {.target = target,
	                           .work = work,
	                           .argument = argument,
	                           .budget_ns = budget_ns < left_ns ? budget_ns : left_ns,
	                           .memory_max = LOOK_MEMORY,
	                           .answer_max = size};
	struct buffer said = {0};
	bool whole;

	if (!left_ns || confined_run(&job, &said) == -ETIMEDOUT)
		unread++;
	took_ns = clock_now_ns() - began_ns;
	if (took_ns > LOOK_FREE_NS)
		*spent_ns += took_ns - LOOK_FREE_NS < left_ns ? took_ns - LOOK_FREE_NS : left_ns;
	whole = said.size == size;
	if (whole)
		memcpy(answer, said.bytes, size);
	buffer_free(&said);
	return whole;
}

/* --- Is it Ruby? */

static void say_whether_ruby(const struct confined *confined, const void *nothing)
{
	struct elf_symbol symbols[] = {{.name = "ruby_init"}, {.name = "ruby_run_node"}, {.name = "rb_eval_string"}};
	int fd = confined_open_program(confined);
	uint8_t is_ruby = fd >= 0 && elf_symbols_find(fd, symbols, 3) == 3;

	(void)nothing;
	confined_answer(confined, &is_ruby, sizeof(is_ruby));
}

/* Its name, and the device and inode of what it maps under that name: told by the kernel, without a look at the file. */
static bool program_name(const struct target *target, char *name, size_t size)
{
	char path[64], link[512], line[1024];
	FILE *maps;
	ssize_t length;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)target->pid);
	length = readlink(path, link, sizeof(link) - 1);
	if (length <= 0)
		return false;
	link[length] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)target->pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		char device[32], inode[32], *file = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (file && strcmp(file, link) == 0 && sscanf(line, "%*s %*s %*s %31s %31s", device, inode) == 2) {
			snprintf(name, size, "%u %s %s %s", (unsigned)target->euid, device, inode, link);
			found = true;
		}
	}
	if (maps)
		fclose(maps);
	return found;
}

/*
 * `rbprobe ps` reads each program once for each user that runs it. The name is not proof against a process that maps another
 * file under it; so what one user's processes are taken for never depends on another user's.
 */
bool target_program_is_ruby(const struct target *target)
{
	static struct {
		char name[640];
		bool is_ruby;
	} known[KNOWN_MAX];
	static size_t count;
	char name[640];
	bool named = program_name(target, name, sizeof(name));
	uint8_t is_ruby = 0;

	for (size_t i = 0; named && i < count; i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].is_ruby;
	if (!look(target, say_whether_ruby, NULL, LOOK_BUDGET_NS, &is_ruby, sizeof(is_ruby)))
		return false;
	if (named && count < KNOWN_MAX) {
		memcpy(known[count].name, name, sizeof(name));
		known[count++].is_ruby = is_ruby == 1;
	}
	return is_ruby == 1;
}

/* --- Its version */

struct version {
	char text[32];
	int api[3];
	int api_is_known;
};

static void say_version(const struct confined *confined, const void *libruby)
{
	const char *path = libruby;
	struct version version = {0};
	struct elf_symbol symbols[] = {
		{.name = "ruby_version", .bytes = version.text, .size = sizeof(version.text) - 1},
		{.name = "ruby_api_version", .bytes = version.api, .size = sizeof(version.api)},
	};
	int fd = path[0] ? confined_open(confined, path) : confined_open_program(confined);

	if (fd < 0)
		return;
	elf_symbols_find(fd, symbols, 2);
	version.api_is_known = symbols[1].found;
	confined_answer(confined, &version, sizeof(version));
}

void target_read_version(struct target *target)
{
	struct version version;

	if (!look(target, say_version, target->libruby, LOOK_BUDGET_NS, &version, sizeof(version)))
		return;
	version.text[sizeof(version.text) - 1] = '\0';
	for (size_t i = 0; isgraph((unsigned char)version.text[i]); i++) {
		target->ruby_version[i] = version.text[i];
		target->ruby_version[i + 1] = '\0';
	}
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
	return stat(path, &status) == 0 && look(target, say_identity, path, PATH_BUDGET_NS, &identity, sizeof(identity)) &&
	       identity.device == status.st_dev && identity.inode == status.st_ino;
}
