/* Where a method is defined. See top_source.h. */

#include "tracer/top/top_source.h"

#include "proto/clock.h"
#include "tracer/process/confined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUDGET_NS (NS_PER_S / 2)
#define MEMORY (16u << 20)
#define LINES_ABOVE 5u
#define LINES_BELOW 200u
#define FILE_SIZE_MAX (8u << 20) /* what is further down is not looked for */
#define ANSWER_MAX (256u << 10)

struct wish {
	char path[4200];
	uint32_t first, last; /* lines */
};

struct head {
	int64_t changed_at; /* of the file; seconds since 1970 */
};

static uint32_t lines_in(const char *bytes, size_t size)
{
	uint32_t count = 0;

	for (size_t i = 0; i < size; i++)
		count += bytes[i] == '\n';
	return count;
}

/* In the child. */
static void read_lines(const struct confined *confined, const void *argument)
{
	const struct wish *wish = argument;
	int fd = wish->path[0] == '/' ? confined_open(confined, wish->path) : confined_open_here(confined, wish->path);
	struct head head = {0};
	struct stat status;
	char bytes[16384];
	uint32_t line = 1;
	size_t seen = 0;
	ssize_t got;

	if (fd < 0 || fstat(fd, &status) != 0)
		return;
	head.changed_at = status.st_mtime;
	confined_answer(confined, &head, sizeof(head));
	while (line <= wish->last && seen < FILE_SIZE_MAX && (got = read(fd, bytes, sizeof(bytes))) > 0) {
		const char *from = bytes, *end = bytes + got;

		while (from < end && line < wish->first) {
			const char *next = memchr(from, '\n', (size_t)(end - from));

			line += next != NULL;
			from = next ? next + 1 : end;
		}
		if (from < end)
			confined_answer(confined, from, (size_t)(end - from));
		line += lines_in(from, (size_t)(end - from));
		seen += (size_t)got;
	}
}

static void add_text(struct top_pane *pane, const char *text)
{
	top_pane_add(pane, (struct slice){text, strlen(text)});
}

/* Tabs are blanks on the screen. */
static void add_source(struct buffer *to, const char *bytes, size_t size)
{
	for (size_t from = 0; from < size;) {
		const char *tab = memchr(bytes + from, '\t', size - from);
		size_t length = tab ? (size_t)(tab - bytes) - from : size - from;

		buffer_add_printable(to, bytes + from, length);
		if (tab)
			buffer_add_spaces(to, 8 - (to->size - 8) % 8);
		from += length + (tab != NULL);
	}
}

static void add_lines(struct top_pane *pane, const struct wish *wish, uint32_t wanted, const char *bytes, size_t size)
{
	struct buffer line = {0};

	for (uint32_t number = wish->first; size && number <= wish->last; number++) {
		const char *end = memchr(bytes, '\n', size);
		size_t length = end ? (size_t)(end - bytes) : size;

		line.size = 0;
		buffer_add_format(&line, "%6u  ", number);
		add_source(&line, bytes, length);
		buffer_add_char(&line, '\n');
		top_pane_add(pane, (struct slice){line.bytes, line.size});
		if (number == wanted)
			pane->marked = pane->count;
		length += end != NULL;
		bytes += length;
		size -= length;
	}
	buffer_free(&line);
}

static void show_file(struct top_pane *pane, pid_t pid, const struct method *method)
{
	uint32_t line = method->line > 0 ? (uint32_t)method->line : 0;
	struct wish wish = {.first = line > LINES_ABOVE ? line - LINES_ABOVE : 1, .last = line + LINES_BELOW};
	struct target target;
	struct error err;
	struct confined_job job = {.target = &target,
	                           .work = read_lines,
	                           .argument = &wish,
	                           .budget_ns = BUDGET_NS,
	                           .memory_max = MEMORY,
	                           .answer_max = ANSWER_MAX};
	struct buffer answer = {0};
	struct head head;

	if (method->file.size >= sizeof(wish.path) || target_describe(&target, pid, TARGET_BASIC, &err) < 0) {
		add_text(pane, "the process is gone\n");
		return;
	}
	memcpy(wish.path, method->file.bytes, method->file.size);
	confined_run(&job, &answer);
	if (answer.size <= sizeof(head)) {
		add_text(pane, answer.size < sizeof(head) ? "this file cannot be read, or it is none (eval)\n"
		                                          : "the file is shorter\n");
		buffer_free(&answer);
		return;
	}
	memcpy(&head, answer.bytes, sizeof(head));
	if (head.changed_at > target_start_time(&target))
		add_text(pane, "The file was changed after the process has started: this may not be what runs.\n");
	add_lines(pane, &wish, line, answer.bytes + sizeof(head), answer.size - sizeof(head));
	buffer_free(&answer);
}

void top_source_show(struct top_pane *pane, pid_t pid, const struct method *method, struct slice name)
{
	buffer_add_slice(&pane->title, name);
	if (!method) {
		add_text(pane, "it is not known where this method is: its process is gone\n");
		return;
	}
	if (!method->file.bytes) {
		add_text(pane, "this method is not written in Ruby\n");
		return;
	}
	buffer_add_text(&pane->title, "  ");
	buffer_add_printable(&pane->title, method->file.bytes, method->file.size);
	buffer_add_format(&pane->title, ":%d", method->line);
	show_file(pane, pid, method);
}
