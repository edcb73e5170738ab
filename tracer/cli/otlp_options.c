/* --otlp: where to send what is seen, instead of showing it. See options.h. */

#include "tracer/cli/options.h"

#include "tracer/base/message.h"
#include "tracer/base/otlp_as.h"

#include <errno.h>
#include <string.h>

enum long_option { OPTION_OTLP = 0xa00, OPTION_OTLP_AS };

static const struct {
	const char *word;
	enum otlp_as flag;
} manners[] = {
	{"protobuf", OTLP_AS_PROTOBUF}, {"json", OTLP_AS_JSON}, {"gzip", OTLP_AS_GZIP}, {"exponential", OTLP_AS_EXPONENTIAL}};

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

static bool add_manner(struct options *options, const char *word, size_t size)
{
	for (size_t i = 0; i < sizeof(manners) / sizeof(*manners); i++)
		if (strlen(manners[i].word) == size && memcmp(manners[i].word, word, size) == 0) {
			options->otlp_as |= manners[i].flag;
			return true;
		}
	return false;
}

static error_t parse_as(struct options *options, const char *list)
{
	size_t size;

	for (const char *word = list;; word += size + 1) {
		size = strcspn(word, ",");
		if (!add_manner(options, word, size)) {
			message("--otlp-as takes protobuf, json, gzip and exponential, with commas between, not \"%s\"", list);
			return EINVAL;
		}
		if (!word[size])
			break;
	}
	if (!(options->otlp_as & OTLP_AS_PROTOBUF) || !(options->otlp_as & OTLP_AS_JSON))
		return 0;
	message("--otlp-as takes protobuf or json, not both");
	return EINVAL;
}

static error_t parse_otlp(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	if (key == OPTION_OTLP_AS)
		return parse_as(options, argument);
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
	{"otlp-as", OPTION_OTLP_AS, "WORD[,WORD]", 0,
         "How --otlp writes: protobuf, unless OTEL_EXPORTER_OTLP_PROTOCOL says otherwise, or json; gzip packs it; exponential: "
         "histograms of base 2 (stat)",
         4},
	{0},
};

const struct argp options_otlp = {.options = otlp_list, .parser = parse_otlp};
