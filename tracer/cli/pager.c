/* Long text on a terminal. See pager.h. */

#define _GNU_SOURCE
#include "tracer/cli/pager.h"

#include "tracer/base/message.h"
#include "tracer/base/place.h"
#include "tracer/base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ESCAPE '\033'

/* Global because it is an option of every command, and of the program itself. */
static bool forbidden;

void pager_forbid(void)
{
	forbidden = true;
}

/* The command, or NULL. */
static const char *pager_command(void)
{
	const char *terminal = getenv("TERM"), *command = getenv("RBPROBE_PAGER");

	if (forbidden || !isatty(STDOUT_FILENO) || !terminal || strcmp(terminal, "dumb") == 0)
		return NULL;
	if (!command)
		command = getenv("PAGER");
	if (!command)
		return "less";
	return command[strspn(command, " \t")] && strcmp(command, "cat") != 0 ? command : NULL;
}

/* Rows that the text takes on a screen that wide. */
static size_t rows_of(const char *text, size_t size, size_t columns)
{
	size_t rows = 0, column = 0;
	bool escape = false;

	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (byte == ESCAPE || escape) {
			escape = byte == ESCAPE || !((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'));
		} else if (byte == '\n') {
			rows++;
			column = 0;
		} else if ((byte & 0xc0) != 0x80 && column++ == columns) {
			rows++;
			column = 1;
		}
	}
	return rows + (column > 0);
}

static bool is_longer_than_screen(const char *text, size_t size)
{
	struct winsize window;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 1 && window.ws_col > 0 &&
	       rows_of(text, size, window.ws_col) > (size_t)window.ws_row - 1;
}

/* less runs commands that a file in these names, and writes there: not in another user's (sudo). */
static void forget_if_strange(const char *variable)
{
	const char *home = getenv(variable);
	struct place place;
	struct stat status;

	if (!home)
		return;
	if (place_find(&place, home, NULL) < 0 || !place.guarded || place.found < 0 || fstat(place.found, &status) != 0 ||
	    !place_is_trusted(&status))
		unsetenv(variable);
	place_close(&place);
}

/* In the child. */
static void pager_run(const char *command, int fd)
{
	static const char *const homes[] = {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"};

	signals_restore();
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	for (size_t i = 0; i < sizeof(homes) / sizeof(*homes); i++)
		forget_if_strange(homes[i]);
	dup2(fd, STDIN_FILENO);
	setenv("LESS", "FRX", 0);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static bool write_all(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t written = write(fd, text, size);

		if (written < 0 && errno != EINTR)
			return false;
		text += written > 0 ? written : 0;
		size -= written > 0 ? (size_t)written : 0;
	}
	return true;
}

/* As the shell says it: it is not there, or nothing that runs. */
static bool could_not_run(int status)
{
	return WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127);
}

/* False: there is no such command. */
static bool page(const char *command, const char *text, size_t size)
{
	int ends[2], status = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	pid = fork();
	if (pid == 0)
		pager_run(command, ends[0]);
	close(ends[0]);
	if (pid > 0)
		write_all(ends[1], text, size); /* its reader may have seen enough before the end */
	close(ends[1]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && !could_not_run(status);
}

bool pager_show(const char *text, size_t size)
{
	static const int ignored[] = {SIGINT, SIGQUIT, SIGPIPE};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction before[sizeof(ignored) / sizeof(*ignored)];
	const char *command = pager_command();
	bool shown;

	if (!command || !is_longer_than_screen(text, size))
		return false;
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		sigaction(ignored[i], &ignore, &before[i]);
	shown = page(command, text, size);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		sigaction(ignored[i], &before[i], NULL);
	if (!shown)
		message("there is no pager \"%s\"; set RBPROBE_PAGER, or use --no-pager", command);
	return shown;
}

bool pager_print(const char *text, size_t size)
{
	if (pager_show(text, size) || write_all(STDOUT_FILENO, text, size))
		return true;
	if (errno != EPIPE)
		message("cannot write to standard output: %s", errno == EBADF ? "it is closed" : strerror(errno));
	return false;
}
