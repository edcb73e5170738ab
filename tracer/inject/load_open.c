/*
 * Opening the extension in the process: by the path of its file, or, where the process does not see that, from a copy in a
 * file in memory. See load.h.
 */

#define _GNU_SOURCE
#include "tracer/inject/load.h"

#include "proto/clock.h"
#include "tracer/base/debug.h"

#include "proto/names.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define PAGE 4096u
#define REMOTE_TEXT_MAX (INJECT_SCRATCH_SIZE - 8)

/* memfd_create's, of newer kernels: programs may be mapped from it whatever vm.memfd_noexec says (unless that is 2). */
#define MEMFD_CLOSE_ON_EXEC 1u
#define MEMFD_EXECUTABLE 0x10u

static int open_in_process(struct load *load, const char *path, uint64_t *handle)
{
	uint64_t scratch = inject_scratch(&load->injection);

	if (strlen(path) >= REMOTE_TEXT_MAX || !remote_write(&load->remote, scratch, path, strlen(path) + 1))
		return error_set(load->err, -ENOSPC, "there is no room on the stack of process %d", (int)load->target->pid);
	/* NOW: what does not fit is found out here, and not in the middle of a handler. */
	return load_call(load, load->dlopen, scratch, RTLD_NOW | RTLD_LOCAL, handle);
}

static int why_not_opened(struct load *load, char *why, size_t size)
{
	uint64_t text = 0;
	int status = load_call(load, load->dlerror, 0, 0, &text);

	if (status < 0)
		return status;
	if (!text || !remote_read_text(&load->remote, text, why, size))
		snprintf(why, size, "dlopen failed without a reason");
	return 0;
}

/*
 * The process itself writes the file: by a descriptor that it names, and that may be of any file, we could be made to write
 * what only we may. 0; 1: it cannot, and `why`; or negative.
 */
static int fill(struct load *load, int64_t fd, char *why, size_t why_size)
{
	const struct loader_file *file = &load->file;
	uint64_t address = 0, done = 0;
	int64_t written = 1, ignored;
	int status = load_call_map(load, file->size, &address);

	if (status < 0)
		return status;
	if (!address || address % PAGE != 0 || !remote_write(&load->remote, address, file->bytes, file->size)) {
		snprintf(why, why_size, "it has no memory for a copy of the file");
		return 1;
	}
	while (status == 0 && done < file->size && written > 0) {
		status = load_call_system(load, SYS_write, (uint64_t)fd, address + done, file->size - done, 0, &written);
		if (status == 0 && written > 0)
			done += (uint64_t)written < file->size - done ? (uint64_t)written : file->size - done;
	}
	if (status < 0)
		return status;
	status = load_call_system(load, SYS_munmap, address, file->size, 0, 0, &ignored);
	if (status == 0 && done < file->size) {
		snprintf(why, why_size, "it could not write a copy of the file");
		return 1;
	}
	return status;
}

/* Why the last call failed in the process. */
static int errno_there(struct load *load)
{
	int code = 0;

	remote_read(&load->remote, load->errno_address, &code, sizeof(code));
	return code;
}

/* 0 and *handle; 1: this process may not have such files, and `why`; or negative. */
static int open_from_memory(struct load *load, uint64_t *handle, char *why, size_t why_size)
{
	uint64_t scratch = inject_scratch(&load->injection);
	char path[64];
	int64_t fd = -1, ignored;
	unsigned flags[] = {MEMFD_CLOSE_ON_EXEC | MEMFD_EXECUTABLE, MEMFD_CLOSE_ON_EXEC};
	int status = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags) && fd < 0; i++) {
		if (!remote_write(&load->remote, scratch, EXTENSION_FILE, sizeof(EXTENSION_FILE)))
			return error_set(load->err, -ENOSPC, "there is no room on the stack of process %d",
			                 (int)load->target->pid);
		status = load_call_system(load, SYS_memfd_create, scratch, flags[i], 0, 0, &fd);
		if (status < 0)
			return status;
	}
	if (fd < 0) {
		int code = errno_there(load);

		snprintf(why, why_size, "it cannot have a file in memory: %s%s", strerror(code),
		         code == EMFILE   ? " (its limit of descriptors is reached)"
		         : code == EPERM  ? " (a seccomp filter, perhaps)"
		         : code == ENOSYS ? " (an old kernel, or a seccomp filter)"
		                          : "");
		return 1;
	}
	status = fill(load, fd, why, why_size);
	if (status == 0) {
		/*
		 * dlopen knows libraries by their path, too, and this one may have had the same number before: slashes make
		 * it new.
		 */
		snprintf(path, sizeof(path), "/proc/self%.*s/fd/%d", 1 + (int)(clock_now_ns() % 15), "////////////////", (int)fd);
		status = open_in_process(load, path, handle);
	}
	if (status == 0 && !*handle)
		status = why_not_opened(load, why, why_size) < 0 ? -ESRCH : 1;
	if (!load->injection.gone)
		load_call_system(load, SYS_close, (uint64_t)fd, 0, 0, 0, &ignored);
	return status;
}

/* The file is there, and yet not for this process. */
static bool is_out_of_reach(const char *why)
{
	static const char musl[] = "Error loading shared library /";

	return strstr(why, "cannot open shared object file") || strstr(why, "Permission denied") ||
	       strstr(why, "failed to map") || strstr(why, "Operation not permitted") ||
	       strncmp(why, musl, sizeof(musl) - 1) == 0;
}

int load_open(struct load *load, uint64_t *handle)
{
	char why[512] = "";
	int status = 1;

	*handle = 0;
	if (load->file.visible) {
		status = open_in_process(load, load->file.path, handle);
		if (status == 0 && !*handle)
			status = why_not_opened(load, why, sizeof(why)) < 0 ? -ESRCH : 1;
		debug(DEBUG_LOAD, "process %d: dlopen of the file: handle 0x%llx%s%s", (int)load->target->pid,
		      (unsigned long long)*handle, why[0] ? ": " : "", why);
	}
	if (status == 1 && load->memory_file_forbidden && !why[0])
		snprintf(why, sizeof(why),
		         "it does not see that file, and a seccomp filter forbids it a file in memory; install rbprobe where it "
		         "sees it, under the same path");
	else if (status == 1 && !load->memory_file_forbidden && (!load->file.visible || is_out_of_reach(why))) {
		load->report->from_memory = true;
		status = open_from_memory(load, handle, why, sizeof(why));
		debug(DEBUG_LOAD, "process %d: dlopen from memory: handle 0x%llx%s%s", (int)load->target->pid,
		      (unsigned long long)*handle, status == 1 ? ": " : "", status == 1 ? why : "");
	}
	if (status == 1)
		return error_set(load->err, -ENOEXEC, "process %d could not load %s: %s%s", (int)load->target->pid,
		                 load->file.path, why,
		                 strstr(why, "GLIBC_") || strstr(why, "undefined symbol") || strstr(why, "symbol not found")
		                         ? "; it was built for another libc or Ruby: build it where this process's Ruby is"
		                         : "");
	return status;
}

/* dlopen's handle is the head of a struct link_map, which is public. */
bool load_symbol_of_handle(const struct load *load, uint64_t handle, const char *name, uint64_t *address)
{
	uint64_t head[3]; /* l_addr, l_name, l_ld */

	return remote_read(&load->remote, handle, head, sizeof(head)) &&
	       remote_symbol_in(&load->remote, head[0], head[2], name, address);
}
