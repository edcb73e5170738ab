/* --otlp and the environment: where OpenTelemetry's data goes. See otlp_settings.h. */

#include "tracer/otlp/otlp_settings.h"

#include "proto/clock.h"
#include "tracer/base/buffer.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_DEFAULT "http://localhost:4318"
#define TIMEOUT_DEFAULT_MS 10000u
#define TIMEOUT_MAX_MS 3600000u

static const struct {
	const char *path, *word;
} signals[] = {[OTLP_TRACES] = {"/v1/traces", "TRACES"}, [OTLP_METRICS] = {"/v1/metrics", "METRICS"}};

static char *text_of(struct buffer *buffer)
{
	buffer_add_char(buffer, '\0');
	return buffer->bytes;
}

/* A variable is set where it is not empty: so the standard wants it. */
static const char *variable(otlp_environment *environment, const char *name)
{
	const char *value = environment(name);

	return value && *value ? value : NULL;
}

/* OTEL_EXPORTER_OTLP_TRACES_<name> comes before OTEL_EXPORTER_OTLP_<name>. */
static const char *own_variable(otlp_environment *environment, enum otlp_signal signal, const char *name)
{
	struct buffer buffer = {0};
	const char *value;

	buffer_add_format(&buffer, "OTEL_EXPORTER_OTLP_%s_%s", signals[signal].word, name);
	value = variable(environment, text_of(&buffer));
	buffer_free(&buffer);
	return value;
}

static const char *common_variable(otlp_environment *environment, const char *name)
{
	struct buffer buffer = {0};
	const char *value;

	buffer_add_format(&buffer, "OTEL_EXPORTER_OTLP_%s", name);
	value = variable(environment, text_of(&buffer));
	buffer_free(&buffer);
	return value;
}

static const char *either_variable(otlp_environment *environment, enum otlp_signal signal, const char *name)
{
	const char *value = own_variable(environment, signal, name);

	return value ? value : common_variable(environment, name);
}

static bool ends_in(const char *text, size_t size, const char *end)
{
	return size >= strlen(end) && memcmp(text + size - strlen(end), end, strlen(end)) == 0;
}

/* The path of the signal comes after that of the URL, which has it already where somebody copied the whole. */
static char *url_with_path(const char *url, enum otlp_signal signal)
{
	size_t size = strcspn(url, "?#"), whole = size;
	struct buffer buffer = {0};

	while (size && url[size - 1] == '/')
		size--;
	buffer_add(&buffer, url, size);
	if (!ends_in(url, size, signals[signal].path))
		buffer_add_text(&buffer, signals[signal].path);
	buffer_add_text(&buffer, url + whole);
	return text_of(&buffer);
}

static size_t scheme_size(const char *url)
{
	return strncasecmp(url, "http://", 7) == 0 ? 7 : strncasecmp(url, "https://", 8) == 0 ? 8 : 0;
}

static char *url_to_show(const char *url)
{
	size_t begin = scheme_size(url), end = begin + strcspn(url + begin, "/?#");
	struct buffer buffer = {0};
	size_t host = end;

	while (host > begin && url[host - 1] != '@')
		host--;
	buffer_add(&buffer, url, begin);
	buffer_add(&buffer, url + host, strcspn(url + host, "?#"));
	if (url[host + strcspn(url + host, "?#")])
		buffer_add_text(&buffer, "?...");
	return text_of(&buffer);
}

char *otlp_url_to_refuse(const char *text)
{
	const char *scheme = strstr(text, "://"), *host = strrchr(text, '@');
	size_t begin = scheme ? (size_t)(scheme + 3 - text) : 0;
	struct buffer buffer = {0};

	if (!host || host < text + begin)
		return url_to_show(text);
	buffer_add(&buffer, text, begin);
	buffer_add_text(&buffer, "...");
	buffer_add(&buffer, host, strcspn(host, "?#"));
	return text_of(&buffer);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static void add_decoded(struct buffer *to, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		bool coded = text[i] == '%' && i + 2 < size && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
		char c = coded ? (char)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2])) : text[i];

		/* A line of its own would be a header of its own. */
		buffer_add_char(to, iscntrl((unsigned char)c) ? ' ' : c);
		i += coded ? 2 : 0;
	}
}

static struct slice trimmed(const char *text, size_t size)
{
	while (size && isspace((unsigned char)*text))
		text++, size--;
	while (size && isspace((unsigned char)text[size - 1]))
		size--;
	return (struct slice){text, size};
}

/* "name=value,name=value", where values are coded as in URLs. */
static int add_headers(struct otlp_settings *settings, const char *list, struct error *err)
{
	while (*list) {
		size_t size = strcspn(list, ",");
		struct slice item = trimmed(list, size), name, value;
		const char *equals = item.size ? memchr(item.bytes, '=', item.size) : NULL;
		struct buffer header = {0};

		list += size + (list[size] == ',');
		if (!item.size)
			continue;
		if (!equals || equals == item.bytes)
			return error_set(err, -EINVAL, "OTEL_EXPORTER_OTLP_HEADERS takes NAME=VALUE, with commas between");
		name = trimmed(item.bytes, (size_t)(equals - item.bytes));
		value = trimmed(equals + 1, (size_t)(item.bytes + item.size - equals - 1));
		add_decoded(&header, name.bytes, name.size);
		buffer_add_text(&header, ": ");
		add_decoded(&header, value.bytes, value.size);
		settings->headers = memory_resize(settings->headers, (settings->header_count + 1) * sizeof(char *));
		settings->headers[settings->header_count++] = text_of(&header);
	}
	return 0;
}

static int read_timeout(struct otlp_settings *settings, otlp_environment *environment, struct error *err)
{
	const char *text = either_variable(environment, settings->signal, "TIMEOUT");
	char *end;
	unsigned long ms = TIMEOUT_DEFAULT_MS;

	if (text) {
		ms = strtoul(text, &end, 10);
		if (!isdigit((unsigned char)*text) || *end || !ms || ms > TIMEOUT_MAX_MS)
			return error_set(err, -EINVAL, "OTEL_EXPORTER_OTLP_TIMEOUT takes milliseconds, not \"%s\"", text);
	}
	settings->timeout_ns = ms * NS_PER_MS;
	return 0;
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(text, *words) == 0)
			return true;
	return false;
}

/* A word that the standard does not have is an error: what it asks for would not be done. */
static int read_word(struct otlp_settings *settings, const char *name, const char *const *words, const char **word,
                     otlp_environment *environment, struct error *err)
{
	*word = either_variable(environment, settings->signal, name);
	if (!*word || is_one_of(*word, words))
		return 0;
	return error_set(err, -EINVAL, "OTEL_EXPORTER_OTLP_%s is \"%s\"; rbprobe knows %s and %s", name, *word, words[0],
	                 words[1]);
}

/* What --otlp-as does not say, the environment does. */
static int read_as(struct otlp_settings *settings, unsigned as, otlp_environment *environment, struct error *err)
{
	static const char *const protocols[] = {"http/protobuf", "http/json", "grpc", NULL};
	static const char *const compressions[] = {"gzip", "none", NULL};
	const char *word, *histograms = own_variable(environment, OTLP_METRICS, "DEFAULT_HISTOGRAM_AGGREGATION");
	int status;

	settings->as = as;
	if (!(as & (OTLP_AS_PROTOBUF | OTLP_AS_JSON))) {
		status = read_word(settings, "PROTOCOL", protocols, &word, environment, err);
		if (status < 0)
			return status;
		settings->as |= word && strcmp(word, "http/json") == 0 ? OTLP_AS_JSON : OTLP_AS_PROTOBUF;
	}
	if (!(as & OTLP_AS_GZIP)) {
		status = read_word(settings, "COMPRESSION", compressions, &word, environment, err);
		if (status < 0)
			return status;
		settings->as |= word && strcmp(word, "gzip") == 0 ? OTLP_AS_GZIP : 0;
	}
	if (histograms && strcasecmp(histograms, "base2_exponential_bucket_histogram") == 0)
		settings->as |= OTLP_AS_EXPONENTIAL;
	return 0;
}

/* What the metrics say: all since the beginning, unless their owner wants it otherwise. */
static void read_temporality(struct otlp_settings *settings, otlp_environment *environment)
{
	const char *text = own_variable(environment, OTLP_METRICS, "TEMPORALITY_PREFERENCE");

	settings->delta = text && (strcasecmp(text, "delta") == 0 || strcasecmp(text, "lowmemory") == 0);
}

static int find_url(struct otlp_settings *settings, const char *url, otlp_environment *environment, struct error *err)
{
	const char *from = "--otlp", *own = NULL, *protocol = either_variable(environment, settings->signal, "PROTOCOL");
	char *refused;
	size_t scheme;

	if (!url && protocol && strcmp(protocol, "grpc") == 0)
		return error_set(err, -EINVAL,
		                 "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and rbprobe sends http/protobuf or http/json: name the "
		                 "collector's port "
		                 "for HTTP, as in --otlp " URL_DEFAULT);
	if (!url) {
		from = "OTEL_EXPORTER_OTLP_ENDPOINT";
		own = own_variable(environment, settings->signal, "ENDPOINT");
		url = own ? own : common_variable(environment, "ENDPOINT");
	}
	if (!url)
		url = URL_DEFAULT;
	scheme = scheme_size(url);
	if (!scheme || !url[scheme] || strchr("/?#:", url[scheme]) || url[strcspn(url, " \t\r\n")]) {
		refused = otlp_url_to_refuse(url);
		error_set(err, -EINVAL, "%s takes a URL such as " URL_DEFAULT ", not \"%s\"", from, refused);
		free(refused);
		return -EINVAL;
	}
	settings->url = own ? strdup(own) : url_with_path(url, settings->signal);
	settings->shown_url = url_to_show(settings->url);
	return 0;
}

static char *copy_of(const char *text)
{
	return text ? strdup(text) : NULL;
}

int otlp_settings_read(struct otlp_settings *settings, enum otlp_signal signal, const char *url, unsigned as,
                       otlp_environment *environment, struct error *err)
{
	const char *headers;
	int status;

	*settings = (struct otlp_settings){.signal = signal};
	status = find_url(settings, url, environment, err);
	if (status == 0)
		status = read_timeout(settings, environment, err);
	if (status == 0)
		status = read_as(settings, as, environment, err);
	if (status < 0)
		return status;
	read_temporality(settings, environment);
	headers = either_variable(environment, signal, "HEADERS");
	settings->certificate = copy_of(either_variable(environment, signal, "CERTIFICATE"));
	settings->client_certificate = copy_of(either_variable(environment, signal, "CLIENT_CERTIFICATE"));
	settings->client_key = copy_of(either_variable(environment, signal, "CLIENT_KEY"));
	return headers ? add_headers(settings, headers, err) : 0;
}

void otlp_settings_free(struct otlp_settings *settings)
{
	for (size_t i = 0; i < settings->header_count; i++)
		free(settings->headers[i]);
	free(settings->headers);
	free(settings->url);
	free(settings->shown_url);
	free(settings->certificate);
	free(settings->client_certificate);
	free(settings->client_key);
	*settings = (struct otlp_settings){0};
}
