/* rbprobe memory: where a process's memory is, in one screen, once or again and again. */

#include "tracer/base/term.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/memory_report.h"

#include <unistd.h>

#define TOP_DEFAULT 15
#define TOP_MAX 100 /* the target sends no more */
#define PAUSE_DEFAULT_MS 500
#define PAUSE_MAX_MS 60000

struct memory {
	struct invocation invocation;
	uint64_t top;
	uint64_t pause_ms;
	bool no_objects;
	bool screen;
	struct memory_sample last;
};

enum long_option {
	OPTION_TOP = 0x200,
	OPTION_PAUSE,
	OPTION_NO_OBJECTS,
};

static error_t parse_memory(int key, char *argument, struct argp_state *state)
{
	struct memory *memory = state->input;

	switch (key) {
	case OPTION_TOP:
		return options_whole_number("--top", argument, 1, TOP_MAX, &memory->top);
	case OPTION_PAUSE:
		return options_whole_number("--pause", argument, 1, PAUSE_MAX_MS, &memory->pause_ms);
	case OPTION_NO_OBJECTS:
		memory->no_objects = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option memory_list[] = {
	{"top", OPTION_TOP, "N", 0, "How many types and classes are shown (default 15, at most 100)", 3},
	{"no-objects", OPTION_NO_OBJECTS, NULL, 0, "Do not count objects: that pauses the process", 3},
	{"pause", OPTION_PAUSE, "MS", 0, "How long counting may pause the process (default 500); then it is broken off", 3},
	{0},
};

static const struct argp options_memory = {.options = memory_list, .parser = parse_memory};

#define SIZES_MAX 64u

static size_t count_lines(const struct buffer *text, size_t from)
{
	size_t lines = 0;

	for (size_t i = from; i < text->size; i++)
		lines += text->bytes[i] == '\n';
	return lines;
}

/* On a screen of its own with as many rows as there is room for: fewer of objects first, then of sizes of slots. */
static void add_text(const struct memory *memory, const struct target *target, const struct memory_sample *sample,
                     const struct memory_sample *last)
{
	const struct output *output = &memory->invocation.output;
	struct buffer *to = (struct buffer *)&output->buffer;
	unsigned height = memory->screen ? term_height(output->fd) : 0;
	struct memory_rows rows = {SIZES_MAX, memory->top};
	size_t from = to->size;

	for (;;) {
		memory_report_text(to, target, sample, last, &rows, term_width(output->fd));
		if (!height || count_lines(to, from) < height || (rows.classes <= 1 && rows.sizes <= 1))
			break;
		to->size = from;
		*(rows.classes > 1 ? &rows.classes : &rows.sizes) -= 1;
	}
}

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct memory *memory = request->owner;
	struct buffer *to = &memory->invocation.output.buffer;
	const struct target *target = &request->attachment.target;
	bool first = memory->invocation.rounds == 0;
	struct memory_sample sample;

	(void)err;
	memory_sample_take(&sample, target, object);
	if (memory->screen)
		buffer_add_text(to, "\033[H\033[2J");
	else if ((!first || (memory->invocation.several && !memory->invocation.first)) && !memory->invocation.json)
		buffer_add_char(to, '\n');
	if (memory->invocation.json)
		memory_report_json(to, target, &sample);
	else
		add_text(memory, target, &sample, first ? NULL : &memory->last);
	output_flush(&memory->invocation.output);
	memory_sample_free(&memory->last);
	memory->last = sample;
	return 0;
}

static void memory_init(void *self)
{
	struct memory *memory = self;

	memory->top = TOP_DEFAULT;
	memory->pause_ms = PAUSE_DEFAULT_MS;
}

/* On a terminal, each sample of a single process takes the place of the one before. */
static int memory_check(void *self)
{
	struct memory *memory = self;
	const struct options *options = &memory->invocation.options;

	memory->screen = memory->invocation.every_ns && !memory->invocation.json && isatty(STDOUT_FILENO) && !options->children &&
	                 options->pids.count == 1;
	return 0;
}

static void memory_fill(const void *self, struct command *command)
{
	const struct memory *memory = self;

	command->arguments.flags = memory->no_objects ? 0 : MEMORY_OBJECTS;
	command->arguments.pause_max_ms = memory->pause_ms;
}

static void memory_free(void *self)
{
	memory_sample_free(&((struct memory *)self)->last);
}

const struct subcommand cmd_memory = {
	.name = "memory",
	.arguments = "-p PID",
	.summary = "where the process's memory is",
	.usage = "-p PID",
	.description = "Show where the memory of a running Ruby process is.",
	.pids = PIDS_EACH,
	.format = "A screen for people, or one JSON object a line",
	.every = "Again and again, with what has changed since the last time",
	.options = (const struct argp *const[]){&options_memory, NULL},
	.size = sizeof(struct memory),
	.init = memory_init,
	.check = memory_check,
	.kind = COMMAND_MEMORY,
	.fill = memory_fill,
	.handler = {.data = on_data},
	.free = memory_free,
};
