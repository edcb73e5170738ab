/*
 * The versions request: which versions of libraries are loaded, by their constants (tracee/vm/constant.h). Runs no code of the
 * application's. Context: job.
 */

#define _GNU_SOURCE
#include "tracee/session/request.h"

#include "tracee/base/msgpack_builder.h"
#include "tracee/session/ruby_msgpack.h"
#include "tracee/vm/constant.h"
#include "tracee/vm/exception_drop.h"

#include <errno.h>
#include <ruby.h>
#include <string.h>

struct asked {
	struct msgpack_builder answer;
	struct slice paths; /* a line each */
};

static VALUE fill(VALUE argument)
{
	struct asked *asked = (struct asked *)argument;
	struct slice rest = asked->paths;

	builder_map(&asked->answer, NULL);
	builder_array(&asked->answer, "versions");
	while (rest.size) {
		const char *end = memchr(rest.bytes, '\n', rest.size);
		size_t size = end ? (size_t)(end - rest.bytes) : rest.size, used = end ? size + 1 : size;
		VALUE version = constant_version((struct slice){rest.bytes, size});

		if (NIL_P(version))
			builder_nil(&asked->answer, NULL);
		else
			ruby_msgpack_string(&asked->answer, NULL, version);
		rest = (struct slice){rest.bytes + used, rest.size - used};
	}
	builder_end(&asked->answer);
	builder_end(&asked->answer);
	return Qnil;
}

static void versions_begin(struct request *request, const struct command *command)
{
	struct asked asked = {.paths = command->arguments.text};
	int failed = 0;

	if (asked.paths.size > VERSIONS_TEXT_MAX) {
		request_finish(request, EINVAL, "more constants than %u bytes", VERSIONS_TEXT_MAX);
		return;
	}
	builder_init(&asked.answer);
	rb_protect(fill, (VALUE)&asked, &failed);
	if (failed) {
		exception_drop(Qnil);
		request_finish(request, EIO, "Ruby does not tell its constants");
	} else if (!request_answer(request, &asked.answer)) {
		request_finish(request, ENOMEM, "the process has no memory for an answer");
	} else {
		request_finish(request, 0, "%s", "");
	}
	builder_free(&asked.answer);
}

const struct request_kind request_versions = {.name = "versions", .begin = versions_begin};
