/* --otlp: what the environment says, which bucket a call is in, and what a server's answer means. */

#include "tracer/otlp/otlp_answer.h"
#include "tracer/otlp/otlp_json.h"
#include "tracer/otlp/otlp_metrics.h"
#include "tracer/otlp/otlp_settings.h"
#include "unit.h"

#include "proto/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *variables[8][2];

static const char *variable(const char *name)
{
	for (size_t i = 0; i < 8 && variables[i][0]; i++)
		if (strcmp(variables[i][0], name) == 0)
			return variables[i][1];
	return NULL;
}

#define SET(...) memcpy(variables, (const char *const[8][2]){__VA_ARGS__}, sizeof(variables))

static void expect_url(enum otlp_signal signal, const char *url, const char *wanted)
{
	struct otlp_settings settings;
	struct error err;

	assert_int_equal(otlp_settings_read(&settings, signal, url, 0, variable, &err), 0);
	assert_string_equal(settings.url, wanted);
	otlp_settings_free(&settings);
}

static void expect_refusal(const char *url, const char *words)
{
	struct otlp_settings settings;
	struct error err;

	assert_int_equal(otlp_settings_read(&settings, OTLP_TRACES, url, 0, variable, &err), -EINVAL);
	assert_non_null(strstr(err.text, words));
	otlp_settings_free(&settings);
}

static void test_urls(void **state)
{
	(void)state;
	SET({NULL});
	expect_url(OTLP_TRACES, NULL, "http://localhost:4318/v1/traces");
	expect_url(OTLP_METRICS, NULL, "http://localhost:4318/v1/metrics");
	expect_url(OTLP_METRICS, "http://prometheus:9090/api/v1/otlp/", "http://prometheus:9090/api/v1/otlp/v1/metrics");
	expect_url(OTLP_TRACES, "https://tempo/v1/traces", "https://tempo/v1/traces");
	expect_url(OTLP_TRACES, "https://tempo/in?tenant=a/b", "https://tempo/in/v1/traces?tenant=a/b");
	expect_refusal("localhost:4318", "--otlp takes a URL");
	expect_refusal("http://", "--otlp takes a URL");
	expect_refusal("http://a b", "--otlp takes a URL");
	expect_refusal("ftp://host", "--otlp takes a URL");
}

static void test_environment(void **state)
{
	struct otlp_settings settings;
	struct error err;

	(void)state;
	SET({"OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1/x"}, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://own/as-it-is"},
	    {"OTEL_EXPORTER_OTLP_TIMEOUT", "1500"}, {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta"},
	    {"OTEL_EXPORTER_OTLP_HEADERS", " api-key = secret%2C1,x=a=b%0d%0ay: 1, "});
	expect_url(OTLP_TRACES, NULL, "http://all:1/x/v1/traces");
	expect_url(OTLP_TRACES, "http://given", "http://given/v1/traces");
	assert_int_equal(otlp_settings_read(&settings, OTLP_METRICS, NULL, 0, variable, &err), 0);
	assert_string_equal(settings.url, "http://own/as-it-is");
	assert_true(settings.timeout_ns == 1500 * NS_PER_MS);
	assert_true(settings.delta);
	assert_int_equal(settings.header_count, 2);
	assert_string_equal(settings.headers[0], "api-key: secret,1");
	/* No value makes another header. */
	assert_string_equal(settings.headers[1], "x: a=b  y: 1");
	otlp_settings_free(&settings);
	SET({"OTEL_EXPORTER_OTLP_ENDPOINT", "host:4317"});
	expect_refusal(NULL, "OTEL_EXPORTER_OTLP_ENDPOINT takes a URL");
	SET({"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"});
	expect_refusal(NULL, "rbprobe sends http/protobuf");
	expect_url(OTLP_TRACES, "http://given", "http://given/v1/traces");
	SET({"OTEL_EXPORTER_OTLP_TIMEOUT", "-1"});
	expect_refusal(NULL, "OTEL_EXPORTER_OTLP_TIMEOUT takes milliseconds");
	SET({"OTEL_EXPORTER_OTLP_HEADERS", "a"});
	expect_refusal(NULL, "NAME=VALUE");
}

static void test_passwords_are_not_shown(void **state)
{
	struct otlp_settings settings;
	struct error err;

	(void)state;
	SET({NULL});
	assert_int_equal(otlp_settings_read(&settings, OTLP_TRACES, "https://me:secret@host:1/a@b", 0, variable, &err), 0);
	assert_string_equal(settings.url, "https://me:secret@host:1/a@b/v1/traces");
	assert_string_equal(settings.shown_url, "https://host:1/a@b/v1/traces");
	otlp_settings_free(&settings);
}

static void test_refused_urls_show_no_password(void **state)
{
	static const char *const urls[][2] = {
		{"http://me:secret@host name", "http://...@host name"},
		{"htp://me:sec/ret@host", "htp://...@host"},
		{"me:secret@host:4318", "...@host:4318"},
		{"http://me:se@cret@", "http://...@"},
		{"localhost:4318?key=secret", "localhost:4318?..."},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		char *shown = otlp_url_to_refuse(urls[i][0]);

		assert_string_equal(shown, urls[i][1]);
		free(shown);
	}
}

static unsigned as_of(unsigned as)
{
	struct otlp_settings settings;
	struct error err;

	assert_int_equal(otlp_settings_read(&settings, OTLP_METRICS, "http://a", as, variable, &err), 0);
	as = settings.as;
	otlp_settings_free(&settings);
	return as;
}

static void test_how_it_is_written(void **state)
{
	(void)state;
	SET({NULL});
	assert_int_equal(as_of(0), OTLP_AS_PROTOBUF);
	assert_int_equal(as_of(OTLP_AS_JSON | OTLP_AS_GZIP), OTLP_AS_JSON | OTLP_AS_GZIP);
	SET({"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, {"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip"});
	assert_int_equal(as_of(0), OTLP_AS_JSON | OTLP_AS_GZIP);
	assert_int_equal(as_of(OTLP_AS_PROTOBUF), OTLP_AS_PROTOBUF | OTLP_AS_GZIP);
}

static void test_buckets_of_base_2(void **state)
{
	struct stat_bucket buckets[] = {{0, 900, 950, 1}, {1, 1000, 1030, 2}, {2, 4.9e6, 5e6, 3}, {3, 6e10, 6.1e10, 4}};
	struct stat_row row = {.calls = 10, .buckets = buckets, .bucket_count = 4};
	struct otlp_exponential spread;

	(void)state;
	/* 26 powers of 2, in 160 buckets: 4 buckets a power. */
	assert_true(otlp_spread_exponential(&row, &spread));
	assert_int_equal(spread.scale, 2);
	for (size_t i = 0; i < 4; i++) {
		double middle_s = (buckets[i].least_ns + buckets[i].most_ns) / 2e9, base = pow(2, pow(2, -spread.scale));
		size_t place = 0;

		while (middle_s > pow(base, spread.offset + (double)place + 1))
			place++;
		assert_int_equal(spread.counts[place], buckets[i].count);
	}
	row.bucket_count = 2;
	row.calls = 3;
	assert_true(otlp_spread_exponential(&row, &spread));
	assert_int_equal(spread.scale, OTLP_SCALE_MAX);
	row.calls = 4;
	assert_false(otlp_spread_exponential(&row, &spread));
}

static void test_json(void **state)
{
	static const char packed[] = "\x0a\x10\x12\x0e\x12\x0c\x2a\x01"
				     "a\x39\x05\0\0\0\0\0\0";
	struct buffer request = {0}, json = {0};

	(void)state;
	buffer_add(&request, packed, sizeof(packed)); /* with its last zero: the number has eight bytes */
	otlp_json_add(&json, OTLP_TRACES, &request);
	buffer_add_char(&json, '\0');
	assert_string_equal(
		json.bytes,
		"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"name\":\"a\",\"startTimeUnixNano\":\"5\"}]}]}]}");
	/* Whatever is cut off, it is JSON. */
	for (size_t size = 0; size <= sizeof(packed); size++) {
		json.size = 0;
		request.size = size;
		otlp_json_add(&json, OTLP_METRICS, &request);
		assert_true(json.size >= 2 && json.bytes[json.size - 1] == '}');
	}
	buffer_free(&request);
	buffer_free(&json);
}

static void test_buckets(void **state)
{
	struct stat_bucket buckets[] = {{0, 900, 950, 1}, {1, 1000, 1030, 2}, {2, 4.9e6, 5e6, 3}, {3, 6e10, 6.1e10, 4}};
	struct stat_row row = {.calls = 10, .buckets = buckets, .bucket_count = 4};
	uint64_t counts[OTLP_BUCKETS], sum = 0;

	(void)state;
	assert_true(otlp_spread(&row, counts));
	assert_int_equal(counts[0], 1);  /* up to 1 us */
	assert_int_equal(counts[1], 2);  /* up to 2 us */
	assert_int_equal(counts[11], 3); /* up to 5 ms */
	assert_int_equal(counts[24], 4); /* more than 50 s */
	for (size_t i = 0; i < OTLP_BUCKETS; i++)
		sum += counts[i];
	assert_int_equal(sum, 10);
	/* Some times are not known: a histogram without them would be a lie. */
	row.calls = 11;
	assert_false(otlp_spread(&row, counts));
}

#ifdef HAVE_LIBPROTOBUF_C
/* Metrics as JSON; the caller's. */
static struct buffer sent(const struct stat_table *table, bool exponential, uint64_t *points)
{
	struct buffer resource = {0}, packed = {0}, json = {0};

	*points = otlp_metrics_pack(&packed, &(struct otlp_figures){.table = table, .resource = &resource}, 1,
	                            &(struct otlp_metrics){.exponential = exponential});
	otlp_json_add(&json, OTLP_METRICS, &packed);
	buffer_add_char(&json, '\0');
	buffer_free(&packed);
	return json;
}

/* A histogram of base 2 whose count is not the sum of its buckets is none; one with bounds may do without buckets. */
static void test_calls_in_no_bucket(void **state)
{
	struct stat_bucket bucket = {1, 1000, 1030, 2};
	struct stat_row rows[] = {
		{.name = {"A#whole", 7}, .timed = true, .calls = 2, .buckets = &bucket, .bucket_count = 1},
		{.name = {"B#part", 6}, .timed = true, .calls = 3, .unplaced = 1, .buckets = &bucket, .bucket_count = 1},
	};
	struct stat_table table = {.rows = rows, .count = 2};
	uint64_t with, points;
	struct buffer json = sent(&table, false, &with);
	const char *histogram;

	(void)state;
	assert_non_null(strstr(json.bytes, "\"count\":\"3\""));
	buffer_free(&json);
	json = sent(&table, true, &points);
	histogram = strstr(json.bytes, "\"exponentialHistogram\"");
	assert_non_null(histogram);
	assert_non_null(strstr(histogram, "A#whole"));
	assert_null(strstr(histogram, "B#part"));
	assert_non_null(strstr(json.bytes, "B#part"));
	assert_int_equal(points, with - 1);
	buffer_free(&json);
	table = (struct stat_table){.rows = rows + 1, .count = 1};
	json = sent(&table, true, &points);
	assert_null(strstr(json.bytes, "rbprobe.method.duration"));
	assert_non_null(strstr(json.bytes, "rbprobe.method.calls"));
	buffer_free(&json);
}
#endif

static struct otlp_answer answer_to(long status, const char *bytes, size_t size)
{
	struct otlp_answer answer = {0};
	struct buffer body = {0};

	buffer_add(&body, bytes, size);
	otlp_answer_read(&answer, status, false, &body);
	buffer_free(&body);
	return answer;
}

static void test_answers(void **state)
{
	struct otlp_answer answer = answer_to(200, "", 0);

	(void)state;
	assert_int_equal(answer.outcome, OTLP_TAKEN);
	assert_string_equal(answer.why, "");
	assert_int_equal(answer_to(202, "{}", 2).outcome, OTLP_TAKEN);
	assert_int_equal(answer_to(429, "", 0).outcome, OTLP_LATER);
	assert_int_equal(answer_to(503, "", 0).outcome, OTLP_LATER);
	assert_int_equal(answer_to(400, "", 0).outcome, OTLP_REFUSED);
	assert_int_equal(answer_to(500, "", 0).outcome, OTLP_REFUSED);
	answer = answer_to(401, "", 0);
	assert_int_equal(answer.outcome, OTLP_NEVER);
	assert_non_null(strstr(answer.why, "401 Unauthorized"));
	assert_int_equal(answer_to(404, "", 0).outcome, OTLP_NEVER);
#ifdef HAVE_LIBPROTOBUF_C
	answer = answer_to(200, "\x0a\x06\x08\x03\x12\x02no", 8);
	assert_int_equal(answer.outcome, OTLP_TAKEN);
	assert_int_equal(answer.rejected, 3);
	assert_string_equal(answer.why, "no");
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_passwords_are_not_shown),
		cmocka_unit_test(test_refused_urls_show_no_password),
		cmocka_unit_test(test_how_it_is_written),
		cmocka_unit_test(test_buckets_of_base_2),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_buckets),
#ifdef HAVE_LIBPROTOBUF_C
		cmocka_unit_test(test_calls_in_no_bucket),
#endif
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
