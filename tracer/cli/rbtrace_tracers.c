/* Lists of selectors: those of files, and those that come with rbprobe. See rbtrace_tracers.h. */

#define _GNU_SOURCE
#include "tracer/cli/rbtrace_tracers.h"

#include "tracer/cli/code.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name, *selectors;
} lists[] = {
	{"io", "IO#\nIO.select\nIO.copy_stream\nFile.\nBasicSocket#\nSocket#\nTCPSocket#\nTCPSocket.\nTCPServer#\n"
               "UNIXSocket#\nOpenSSL::SSL::SSLSocket#"},
	{"activerecord", "ActiveRecord::ConnectionAdapters::AbstractAdapter#log(sql)\n"
                         "ActiveRecord::ConnectionAdapters::*#execute(sql)\nActiveRecord::ConnectionAdapters::*#exec_query(sql)"},
	{"redis", "Redis::Client#call\nRedis::Client#call_pipeline\nRedisClient#call\nRedisClient#pipelined"},
	{"mongo", "Mongo::Server::Connection#dispatch\nMongo::Collection#"},
	{"eventmachine", "EventMachine.\nEventMachine::Connection#"},
	{"unicorn", "Unicorn::HttpServer#process_client\nUnicorn::HttpServer#murder_lazy_workers\nUnicorn::HttpParser#read"},
	{"testunit", "Test::Unit::TestCase#run\nMinitest::Test#run"},
};

static int read_list(const char *name, struct buffer *text, struct error *err)
{
	if (access(name, F_OK) == 0)
		return code_read(text, name, err);
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		if (strcmp(lists[i].name, name) == 0) {
			buffer_add_text(text, lists[i].selectors);
			return 0;
		}
	return error_set(err, -ENOENT,
	                 "there is no file %s, and no list of this name; there are io, activerecord, redis, mongo, eventmachine, "
	                 "unicorn and testunit",
	                 name);
}

int rbtrace_tracers(const char *name, struct word_list *selectors, struct buffer *text, struct error *err)
{
	int status = read_list(name, text, err);
	char *rest, *line;

	if (status < 0)
		return status;
	buffer_add_char(text, '\0');
	if (memchr(text->bytes, '\0', text->size) != text->bytes + text->size - 1)
		return error_set(err, -EINVAL, "%s is no text", name);
	rest = text->bytes;
	while ((line = strsep(&rest, "\r\n"))) {
		size_t size;

		line += strspn(line, " \t");
		size = strlen(line);
		while (size && strchr(" \t", line[size - 1]))
			line[--size] = '\0';
		if (*line && *line != '#')
			word_list_add(selectors, line);
	}
	return 0;
}
