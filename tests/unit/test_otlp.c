/* --otlp: what the environment says, which bucket a call is in, and what a server's answer means. */

#include "tracer/otlp/otlp_answer.h"
#include "tracer/otlp/otlp_metrics.h"
#include "tracer/otlp/otlp_settings.h"
#include "unit.h"

#include "proto/clock.h"

#include <errno.h>
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

	assert_int_equal(otlp_settings_read(&settings, signal, url, variable, &err), 0);
	assert_string_equal(settings.url, wanted);
	otlp_settings_free(&settings);
}

static void expect_refusal(const char *url, const char *words)
{
	struct otlp_settings settings;
	struct error err;

	assert_int_equal(otlp_settings_read(&settings, OTLP_TRACES, url, variable, &err), -EINVAL);
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
	assert_int_equal(otlp_settings_read(&settings, OTLP_METRICS, NULL, variable, &err), 0);
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
	assert_int_equal(otlp_settings_read(&settings, OTLP_TRACES, "https://me:secret@host:1/a@b", variable, &err), 0);
	assert_string_equal(settings.url, "https://me:secret@host:1/a@b/v1/traces");
	assert_string_equal(settings.shown_url, "https://host:1/a@b/v1/traces");
	otlp_settings_free(&settings);
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

static struct otlp_answer answer_to(long status, const char *bytes, size_t size)
{
	struct otlp_answer answer = {0};
	struct buffer body = {0};

	buffer_add(&body, bytes, size);
	otlp_answer_read(&answer, status, &body);
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
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
