/* The terminal as a screen. See top_screen.h. */

#ifdef HAVE_NCURSESW

#define _GNU_SOURCE
#define _XOPEN_SOURCE_EXTENDED 1
#include "tracer/top/top_screen.h"

#include "proto/clock.h"
#include "tracer/base/leave.h"
#include "tracer/base/message.h"
#include "tracer/top/top_terminal.h"

#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define MESSAGES_MAX 16
#define MESSAGE_SIZE 400
#define MESSAGE_SHOWN_NS (8 * NS_PER_S)

/* Global because signal handlers, and messages from anywhere, have no argument for it. */
static struct {
	SCREEN *screen;
	bool on;
	struct termios before;
	char leaving[128]; /* what the terminal is written at the end */
	size_t leaving_size;
	char messages[MESSAGES_MAX][MESSAGE_SIZE]; /* the newest last */
	size_t count, dropped;
	uint64_t said_ns;
} screen;

/* --- Leaving */

static void add_leaving(const char *capability)
{
	const char *text = tigetstr(capability);
	size_t size;

	if (!text || text == (const char *)-1) /* NOLINT: that is how terminfo says it */
		return;
	size = strlen(text);
	if (screen.leaving_size + size > sizeof(screen.leaving))
		return;
	memcpy(screen.leaving + screen.leaving_size, text, size);
	screen.leaving_size += size;
}

/* In a signal handler, perhaps: nothing of ncurses'. */
static void leave_now(void)
{
	if (!screen.on)
		return;
	screen.on = false;
	if (write(STDOUT_FILENO, screen.leaving, screen.leaving_size) < 0)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

static void on_crash(int number)
{
	leave_now();
	raise(number); /* SA_RESETHAND: this time for good */
}

static void catch_crashes(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGQUIT};
	struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND};

	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++) {
		struct sigaction now;

		/* A sanitizer's stays. */
		if (sigaction(crashes[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			sigaction(crashes[i], &action, NULL);
	}
}

/* --- Messages */

static void keep_message(const char *text, size_t size)
{
	char *to;

	if (size >= MESSAGE_SIZE)
		size = MESSAGE_SIZE - 1;
	if (screen.count && strlen(screen.messages[screen.count - 1]) == size &&
	    memcmp(screen.messages[screen.count - 1], text, size) == 0) {
		screen.said_ns = clock_now_ns();
		return;
	}
	if (screen.count == MESSAGES_MAX) {
		memmove(screen.messages[0], screen.messages[1], sizeof(screen.messages) - sizeof(*screen.messages));
		screen.count--;
		screen.dropped++;
	}
	to = screen.messages[screen.count++];
	memcpy(to, text, size);
	to[size] = '\0';
	screen.said_ns = clock_now_ns();
}

struct slice top_screen_message(uint64_t now_ns)
{
	const char *text = screen.count && now_ns - screen.said_ns < MESSAGE_SHOWN_NS ? screen.messages[screen.count - 1] : "";

	return (struct slice){text, strlen(text)};
}

void top_screen_tell(void)
{
	if (screen.dropped)
		message("%zu earlier messages are not shown", screen.dropped);
	for (size_t i = 0; i < screen.count; i++)
		message("%s", screen.messages[i]);
	screen.count = screen.dropped = 0;
}

/* --- Beginning and ending */

/* ncurses reads descriptions of terminals from the home directory. sudo may have kept one of somebody else's. */
static void forget_others_home(void)
{
	const char *home = getenv("HOME");
	struct stat status;

	if (home && stat(home, &status) == 0 && (status.st_uid == geteuid() || geteuid() != 0))
		return;
	unsetenv("HOME");
	unsetenv("TERMINFO");
	unsetenv("TERMINFO_DIRS");
}

int top_screen_begin(const char *no_terminal, const char *instead, struct error *err)
{
	static const char *const capabilities[] = {"sgr0", "cnorm", "rmkx", "rmcup"};

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &screen.before) != 0)
		return error_set(err, -ENOTTY, "%s", no_terminal);
	setlocale(LC_CTYPE, "");
	forget_others_home();
	screen.screen = top_terminal_is_screen() ? newterm(NULL, stdout, stdin) : NULL;
	if (!screen.screen)
		return error_set(err, -ENOTTY, "the terminal \"%.40s\" (TERM) is not known, or has no screen; %s",
		                 getenv("TERM") ? getenv("TERM") : "", instead);
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(*capabilities); i++)
		add_leaving(capabilities[i]);
	screen.on = true;
	leave_register(leave_now);
	catch_crashes();
	message_divert(keep_message);
	set_escdelay(50);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	return 0;
}

void top_screen_end(void)
{
	if (!screen.screen)
		return;
	endwin();
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
	screen.on = false;
	leave_register(NULL);
	message_divert(NULL);
	delscreen(screen.screen);
	screen.screen = NULL;
}

int top_screen_key(void)
{
	int key = getch();

	return key == ERR ? -1 : key;
}

/* --- Drawing */

void top_screen_size(size_t *rows, size_t *columns)
{
	*rows = (size_t)getmaxy(stdscr);
	*columns = (size_t)getmaxx(stdscr);
}

void top_screen_clear(void)
{
	erase();
}

/* How many of the bytes fit into so many columns; *used: those that they take. */
static size_t fitting(struct slice text, size_t columns, size_t *used)
{
	size_t at = 0;

	*used = 0;
	while (at < text.size) {
		wchar_t character;
		size_t size = mbrtowc(&character, text.bytes + at, text.size - at, &(mbstate_t){0});
		int width = 1;

		if (size == 0 || size > text.size) /* not of this locale */
			size = 1;
		else
			width = wcwidth(character);
		if (width < 0)
			width = 1;
		if (*used + (size_t)width > columns)
			break;
		*used += (size_t)width;
		at += size;
	}
	return at;
}

void top_screen_line(size_t row, struct slice text, enum top_style style)
{
	static const attr_t attributes[] = {
		[TOP_PLAIN] = A_NORMAL, [TOP_BOLD] = A_BOLD, [TOP_REVERSE] = A_REVERSE, [TOP_DIM] = A_DIM};
	size_t rows, columns, used, size;

	top_screen_size(&rows, &columns);
	if (row >= rows)
		return;
	size = fitting(text, columns, &used);
	attrset((int)attributes[style]);
	mvaddnstr((int)row, 0, text.bytes, (int)size);
	for (; style == TOP_REVERSE && used < columns; used++)
		addch(' ');
	attrset(A_NORMAL);
}

void top_screen_show(void)
{
	refresh();
}

#endif
