/* The option that names tracers. See options.h. */

#define _GNU_SOURCE
#include "tracer/base/buffer.h"
#include "tracer/base/message.h"
#include "tracer/cli/tracer_find.h"
#include "tracer/cli/tracer_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static error_t add(struct options *options, const char *name)
{
	struct tracer_file file;
	struct error err;

	if (tracer_find(&file, name, &err) < 0) {
		message("%s", err.text);
		return EINVAL;
	}
	if (tracers_add(options, &file, &err) == 0)
		return 0;
	tracer_file_free(&file);
	message("%s", err.text);
	return EINVAL;
}

/* "sql,http" are two, unless it is a file. */
static error_t parse(int key, char *argument, struct argp_state *state)
{
	size_t size;
	char *names, *rest, *name;
	error_t status = 0;

	if (key != 'c' || !argument)
		return ARGP_ERR_UNKNOWN;
	if (!strchr(argument, ',') || strchr(argument, '/') || access(argument, F_OK) == 0)
		return add(state->input, argument);
	size = strlen(argument) + 1;
	rest = names = memcpy(memory_resize(NULL, size), argument, size);
	while (!status && (name = strsep(&rest, ",")))
		status = add(state->input, name);
	free(names);
	return status;
}

static const struct argp_option list[] = {
	{"tracer", 'c', "NAME|FILE", 0,
         "The selectors of a tracer, such as sql, http or redis: `rbprobe tracers` lists them. May be repeated (or -c "
         "sql,http), and go with selectors",
         2},
	{0},
};

const struct argp options_tracers = {.options = list, .parser = parse};
