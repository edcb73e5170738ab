/* The option that names tracers. See options.h. */

#include "tracer/base/message.h"
#include "tracer/cli/tracer_find.h"
#include "tracer/cli/tracer_set.h"

#include <errno.h>

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct tracer_file file;
	struct error err;

	if (key != 'c')
		return ARGP_ERR_UNKNOWN;
	if (tracer_find(&file, argument, &err) < 0) {
		message("%s", err.text);
		return EINVAL;
	}
	if (tracers_add(state->input, &file, &err) == 0)
		return 0;
	tracer_file_free(&file);
	message("%s", err.text);
	return EINVAL;
}

static const struct argp_option list[] = {
	{"tracer", 'c', "NAME|FILE", 0,
         "The selectors of a tracer, such as sql, http or redis: `rbprobe tracers` lists them. May be repeated, and go with "
         "selectors",
         2},
	{0},
};

const struct argp options_tracers = {.options = list, .parser = parse};
