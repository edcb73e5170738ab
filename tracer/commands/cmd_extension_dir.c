/* rbprobe extension-dir: where the extension for a Ruby is, for `ruby -I`. */

#define _GNU_SOURCE
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/process/extension.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct extension_dir {
	struct invocation invocation;
	const char *ruby;
};

static error_t parse_ruby(int key, char *argument, struct argp_state *state)
{
	struct extension_dir *wanted = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (wanted->ruby) {
		message("extension-dir takes one Ruby, not also \"%s\"", argument);
		return EINVAL;
	}
	wanted->ruby = argument;
	return 0;
}

static const struct argp options_ruby = {.parser = parse_ruby};

/* Asks a Ruby for its ABI, "3.1.0" or "3.1.0-musl", which names the directory. */
static int abi_ask(const char *ruby, char *abi, size_t size)
{
	/* As mk/abi does. */
	static char code[] = "print RbConfig::CONFIG['ruby_version'], RUBY_PLATFORM.include?('musl') ? '-musl' : ''";
	char *arguments[] = {(char *)ruby, "--disable=gems,rubyopt", "-rrbconfig", "-e", code, NULL};
	posix_spawn_file_actions_t actions;
	int pipes[2], status = -1;
	size_t filled = 0;
	ssize_t got;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) != 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
	status = posix_spawnp(&pid, ruby, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	if (status == 0) {
		while (filled < size - 1 && (got = read(pipes[0], abi + filled, size - 1 - filled)) > 0)
			filled += (size_t)got;
		waitpid(pid, &status, 0);
		status = status == 0 && filled > 0 ? 0 : EPROTO;
	}
	close(pipes[0]);
	abi[filled] = '\0';
	for (size_t i = 0; i < filled; i++)
		if (!isgraph((unsigned char)abi[i]) || abi[i] == '/')
			status = EPROTO;
	return -status;
}

static int extension_dir_run(void *self)
{
	struct extension_dir *wanted = self;
	const char *ruby = wanted->ruby ? wanted->ruby : "ruby";
	char directory[PATH_MAX], file[PATH_MAX + 80], abi[32], remedy[3 * PATH_MAX];
	struct error err;
	int status = abi_ask(ruby, abi, sizeof(abi));

	if (status < 0) {
		message("cannot ask %s for its version: %s", ruby, status == -EPROTO ? "it is no Ruby" : strerror(-status));
		return STATUS_FAILED;
	}
	if (extension_directory(directory, sizeof(directory), &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	snprintf(file, sizeof(file), "%s/%s/rbprobe.so", directory, abi);
	if (access(file, R_OK) != 0) {
		message("there is no extension for %s (%s) in %s; build it with: %s", ruby, abi, directory,
		        extension_remedy(directory, ruby, remedy, sizeof(remedy)));
		return STATUS_FAILED;
	}
	buffer_add_format(&wanted->invocation.output.buffer, "%s/%s\n", directory, abi);
	return STATUS_DONE;
}

const struct subcommand cmd_extension_dir = {
	.name = "extension-dir",
	.arguments = "[RUBY]",
	.summary = "where the extension for a Ruby is",
	.usage = "[RUBY]",
	.description = "Print the directory with the extension for a Ruby (an executable; default: ruby), so that\n"
		       "  ruby -I \"$(rbprobe extension-dir)\" -rrbprobe app.rb\n"
		       "starts a program that rbprobe can attach to.",
	.pids = PIDS_NONE,
	.options = (const struct argp *const[]){&options_ruby, NULL},
	.positional = &options_ruby,
	.words = WORDS_PROGRAM,
	.size = sizeof(struct extension_dir),
	.run = extension_dir_run,
};
