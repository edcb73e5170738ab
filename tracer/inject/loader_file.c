/* Choosing and reading the extension's file. See loader_file.h. */

#define _GNU_SOURCE
#include "tracer/inject/loader_file.h"

#include "tracer/base/buffer.h"
#include "tracer/inject/loader.h"
#include "tracer/process/arch.h"
#include "tracer/process/extension.h"
#include "tracer/process/program_kind.h"
#include "tracer/process/target_files.h"
#include "tracer/process/trace_permission.h"

#include "proto/names.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What cannot be loaded into, whatever is built. */
static const struct {
	const char *words;
	const char *sentence; /* with a %d for the PID */
} refusals[] = {
	[PROGRAM_OTHER_MACHINE] = {"other machine", "process %d is a program for another processor than this rbprobe"},
	[PROGRAM_STATIC] = {"static",
                            "process %d is linked statically: it has no dynamic loader, and nothing can be loaded into it"},
	[PROGRAM_OURS] = {NULL, NULL},
};

int loader_file_possible(const struct target *target, struct error *err)
{
	const char *sentence = refusals[program_kind(target->pid)].sentence;

	return sentence ? error_set(err, -ENOEXEC, sentence, (int)target->pid) : 0;
}

/* The VM says its API version itself, but for a suffix. */
static bool abi_from_memory(const struct remote *remote, char *abi, size_t size)
{
	int api[3];
	uint64_t address;

	for (size_t i = 0; remote && i < remote->module_count; i++)
		if (remote_symbol(remote, &remote->modules[i], "ruby_api_version", &address) &&
		    remote_read(remote, address, api, sizeof(api))) {
			snprintf(abi, size, "%u.%u.%u", (unsigned)api[0] % 1000, (unsigned)api[1] % 1000,
			         (unsigned)api[2] % 1000);
			return true;
		}
	return false;
}

/* How its Ruby is called, for `make RUBY=...`. */
static void ruby_command(const struct target *target, char *command, size_t size)
{
	char path[64], link[PATH_MAX], *name;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)target->pid);
	length = readlink(path, link, sizeof(link) - 1);
	link[length > 0 ? length : 0] = '\0';
	name = strrchr(link, '/');
	snprintf(command, size, "%s", name && strncmp(name, "/ruby", 5) == 0 ? link : "/path/to/ruby");
}

static int file_path(const struct target *target, const struct remote *remote, char *path, size_t size, struct error *err)
{
	char directory[PATH_MAX - 80], abi[32], command[PATH_MAX], version[32], remedy[3 * PATH_MAX];
	int pid = (int)target->pid;
	struct target looked_at;
	bool looked = false;

	if (loader_file_possible(target, err) < 0)
		return -ENOEXEC;
	snprintf(abi, sizeof(abi), "%s", target->abi);
	/* One that has just started has no file of its own library yet, whose path names it. A list has looked before. */
	if (!abi[0] && remote) {
		looked = target_describe(&looked_at, target->pid, TARGET_VERSION, NULL) == 0;
		if (looked)
			snprintf(abi, sizeof(abi), "%s", looked_at.abi);
	}
	if (!abi[0] && !abi_from_memory(remote, abi, sizeof(abi)))
		return error_set(err, -ENOEXEC, "cannot find out the version of Ruby in process %d", pid);
	if (extension_directory(directory, sizeof(directory), err) < 0)
		return err ? err->code : -ENOENT;
	snprintf(path, size, "%s/%s%s/" EXTENSION_FILE, directory, abi, extension_suffix(target->musl_mapped));
	if (access(path, R_OK) == 0)
		return 0;
	ruby_command(target, command, sizeof(command));
	if (target->ruby_version[0])
		snprintf(version, sizeof(version), "%s", target->ruby_version);
	else if ((!looked && target_describe(&looked_at, target->pid, TARGET_VERSION, NULL) < 0) || !looked_at.ruby_version[0])
		snprintf(version, sizeof(version), "%s", abi);
	else
		snprintf(version, sizeof(version), "%s", looked_at.ruby_version);
	return error_set(err, -ENOENT, "process %d runs Ruby %s%s, for which no extension is built in %s; run: %s", pid, version,
	                 target->musl_mapped ? " with the C library musl" : "", directory,
	                 extension_remedy(directory, command, remedy, sizeof(remedy)));
}

/* Where the last segment ends. A process may be made to wait for a copy, and most of a file is for debuggers. */
static size_t mapped_size(const char *bytes, size_t size)
{
	Elf64_Ehdr header;
	size_t end = 0;

	if (size < sizeof(header))
		return size;
	memcpy(&header, bytes, sizeof(header));
	for (size_t i = 0; i < header.e_phnum && header.e_phentsize == sizeof(Elf64_Phdr); i++) {
		Elf64_Phdr segment;

		if (header.e_phoff + (i + 1) * sizeof(segment) > size)
			return size;
		memcpy(&segment, bytes + header.e_phoff + i * sizeof(segment), sizeof(segment));
		if (segment.p_offset + segment.p_filesz > end)
			end = segment.p_offset + segment.p_filesz;
	}
	return end > 0 && end < size ? end : size;
}

int loader_file_open(struct loader_file *file, const struct target *target, const struct remote *remote, struct error *err)
{
	struct stat status;
	int fd, code = file_path(target, remote, file->path, sizeof(file->path), err);

	if (code < 0)
		return code;
	fd = open(file->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) != 0) {
		code = -errno;
	} else {
		file->size = (size_t)status.st_size;
		file->bytes = memory_resize(NULL, file->size + 1);
		if (read(fd, file->bytes, file->size) != (ssize_t)file->size)
			code = -EIO;
		else
			file->size = mapped_size(file->bytes, file->size);
	}
	if (fd >= 0)
		close(fd);
	if (code < 0)
		return error_set(err, code, "cannot read %s: %s", file->path, strerror(-code));
	file->visible = target_sees_file(target, file->path);
	return 0;
}

const char *loader_obstacle(const struct target *target)
{
	const char *permission = trace_permission_obstacle(target);
	enum program_kind kind = program_kind(target->pid);
	struct error err;
	char path[PATH_MAX];

	if (arch.refusal)
		return "processor";
	if (permission)
		return permission;
	if (refusals[kind].words)
		return refusals[kind].words;
	if (file_path(target, NULL, path, sizeof(path), &err) == 0)
		return NULL;
	return target->musl_mapped ? "not built for musl" : "ABI not built";
}
