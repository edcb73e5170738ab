/* --otlp: where to send what is seen, instead of showing it. See options.h. */

#include "tracer/cli/options.h"

#include <string.h>

enum long_option { OPTION_OTLP = 0xa00 };

/* "localhost:4318" and "10.0.0.1:4318" are no lines of a file, but a URL that is wrong. */
static bool is_meant_as_url(const char *word)
{
	return strstr(word, "://") || strncmp(word, "localhost:", 10) == 0 ||
	       (strspn(word, "0123456789.") && word[strspn(word, "0123456789.")] == ':');
}

/* The URL may also be the next word. */
static const char *next_word(struct argp_state *state)
{
	const char *word = state->next < state->argc ? state->argv[state->next] : NULL;

	if (!word || *word == '-' || !is_meant_as_url(word))
		return NULL;
	state->next++;
	return word;
}

static error_t parse_otlp(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	if (key != OPTION_OTLP)
		return ARGP_ERR_UNKNOWN;
	options->otlp = true;
	options->otlp_url = argument ? argument : next_word(state);
	return 0;
}

static const struct argp_option otlp_list[] = {
	{"otlp", OPTION_OTLP, "URL", OPTION_ARG_OPTIONAL,
         "Show nothing; send it to an OpenTelemetry collector, Jaeger, Tempo or Prometheus by OTLP over HTTP. Without a URL, to "
         "that of OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4318",
         4},
	{0},
};

const struct argp options_otlp = {.options = otlp_list, .parser = parse_otlp};
