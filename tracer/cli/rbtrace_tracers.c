/* Lists of selectors by rbtrace's names. See rbtrace_tracers.h. */

#define _GNU_SOURCE
#include "tracer/cli/rbtrace_tracers.h"

#include "tracer/base/message.h"
#include "tracer/cli/tracer_find.h"
#include "tracer/cli/tracer_set.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * What rbtrace's lists of these names select, and what the libraries of today have in its place: of most, the methods that
 * rbtrace names went years ago.
 */
static const struct {
	const char *name, *text;
} lists[] = {
	{"io", "IO.select\nIO#\nTCPSocket#\nTCPServer#"},
	{"activerecord", "#:library ActiveRecord\n"
                         "ActiveRecord::ConnectionAdapters::*#execute(sql)\nActiveRecord::ConnectionAdapters::*#exec_query(sql)\n"
                         "ActiveRecord::ConnectionAdapters::*#internal_exec_query(sql)\n"
                         "ActiveRecord::ConnectionAdapters::AbstractAdapter#log(sql)"},
	{"redis", "#:library redis\nRedis::Client#process(commands)\n#:library redis-client\n"
                  "RedisClient::ConnectionMixin#call(command)\nRedisClient::ConnectionMixin#call_pipelined(commands)"},
	{"mongo", "#:library mongo\nMongo::DB#command(selector, opts)\nMongo::Server::Connection#dispatch\nMongo::Collection#"},
	{"eventmachine", "#:library EventMachine\nEventMachine.\nEventMachine::Connection#\npost_init(@signature)\n"
                         "connection_completed(@signature)\nreceive_data(@signature)\nunbind(@signature)"},
	{"unicorn", "#:library Unicorn\nUnicorn::HttpServer#process_client\nUnicorn::HttpServer#murder_lazy_workers\n"
                    "Unicorn::HttpParser#read\nUnicorn::App::OldRails#call(env['PATH_INFO'])"},
	{"testunit", "#:library test-unit\nTest::Unit::TestSuite#run(name, size)\nTest::Unit::TestCase#run\n"
                     "#:library minitest\nMinitest::Test#run"},
};

static int read_list(struct tracer_file *file, const char *name, const char *text, struct error *err)
{
	char *copy = strdup(text);
	int status;

	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	status = tracer_file_parse(file, name, copy, err);
	if (status < 0)
		tracer_file_free(file);
	return status;
}

int rbtrace_tracer_find(struct tracer_file *file, const char *name, struct error *err)
{
	char path[PATH_MAX];
	int status;

	if (*name && access(name, F_OK) == 0) {
		snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "./", name);
		return tracer_find(file, path, err);
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		if (strcmp(lists[i].name, name) == 0)
			return read_list(file, name, lists[i].text, err);
	status = tracer_find(file, name, err);
	if (status != -ENOENT)
		return status;
	return error_set(err, -ENOENT,
	                 "there is no file %.200s, and no list of this name; there are io, activerecord, redis, mongo, "
	                 "eventmachine, unicorn and testunit, and what `rbprobe tracers` lists",
	                 name);
}

/* --- Handed on by the personality */

enum long_option { OPTION_LIST = 0xb00, OPTION_LIST_ALWAYS };

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;
	struct tracer_file file;
	struct error err;
	uint32_t first;

	if (key != OPTION_LIST && key != OPTION_LIST_ALWAYS)
		return ARGP_ERR_UNKNOWN;
	first = options->selectors.count;
	if (rbtrace_tracer_find(&file, argument, &err) < 0) {
		message("rbtrace: --config: %s", err.text);
		return EINVAL;
	}
	if (tracers_add(options, &file, &err) < 0) {
		tracer_file_free(&file);
		message("rbtrace: --config: %s", err.text);
		return EINVAL;
	}
	for (uint32_t i = first; key == OPTION_LIST_ALWAYS && i < options->selectors.count; i++)
		options->selectors.items[i].flags |= SELECTOR_ALWAYS;
	return 0;
}

static const struct argp_option list[] = {
	{RBTRACE_LIST_OPTION, OPTION_LIST, "NAME", OPTION_HIDDEN, NULL, 2},
	{RBTRACE_LIST_ALWAYS_OPTION, OPTION_LIST_ALWAYS, "NAME", OPTION_HIDDEN, NULL, 2},
	{0},
};

const struct argp options_rbtrace_lists = {.options = list, .parser = parse};
