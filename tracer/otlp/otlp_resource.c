/* Resources of OTLP. See otlp_resource.h. */

#ifdef HAVE_LIBPROTOBUF_C

#include "tracer/otlp/otlp_resource.h"

#include "proto/limits.h"
#include "tracer/otlp/otlp_attributes.h"
#include "tracer/process/target.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ENVIRONMENT_MAX (256u << 10)
#define WORD_RUBY "ruby"

/* The value of NAME=VALUE of what /proc/PID/environ holds. */
static struct slice variable_of(const struct buffer *environment, const char *name)
{
	size_t size = strlen(name), rest = environment->size;
	const char *at = environment->bytes;

	while (rest) {
		size_t length = strnlen(at, rest);

		if (length > size && memcmp(at, name, size) == 0 && at[size] == '=')
			return (struct slice){at + size + 1, length - size - 1};
		length += length < rest;
		at += length;
		rest -= length;
	}
	return (struct slice){"", 0};
}

static void read_environment(pid_t pid, struct buffer *to)
{
	char path[64];
	ssize_t size;
	int fd;

	if (!pid)
		return;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	while (to->size < ENVIRONMENT_MAX && (size = read(fd, buffer_reserve(to, 4096), 4096)) > 0)
		to->size += (size_t)size;
	close(fd);
}

void otlp_service_of(pid_t pid, struct buffer *service, struct buffer *attributes)
{
	static const char *const names[] = {"OTEL_SERVICE_NAME", "DD_SERVICE"};
	const char *own = getenv("OTEL_SERVICE_NAME"), *own_attributes = getenv("OTEL_RESOURCE_ATTRIBUTES");
	struct buffer environment = {0};

	read_environment(pid, &environment);
	if (own && *own)
		buffer_add_text(service, own);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !service->size; i++)
		buffer_add_slice(service, variable_of(&environment, names[i]));
	if (own_attributes && *own_attributes)
		buffer_add_text(attributes, own_attributes);
	else
		buffer_add_slice(attributes, variable_of(&environment, "OTEL_RESOURCE_ATTRIBUTES"));
	buffer_free(&environment);
}

static struct slice trimmed(const char *text, size_t size)
{
	while (size && *text == ' ')
		text++, size--;
	while (size && text[size - 1] == ' ')
		size--;
	return (struct slice){text, size};
}

static bool is(struct slice text, const char *word)
{
	return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

/* "name=value,name=value". Returns the service's name, if it is there. What rbprobe knows itself is not taken from there. */
static struct slice add_others(struct otlp_attributes *to, struct slice list)
{
	struct slice service = {"", 0};

	while (list.size) {
		const char *comma = memchr(list.bytes, ',', list.size);
		size_t size = comma ? (size_t)(comma - list.bytes) : list.size, step = size + (comma != NULL);
		const char *equals = memchr(list.bytes, '=', size);
		struct slice name, value;

		if (equals) {
			name = trimmed(list.bytes, (size_t)(equals - list.bytes));
			value = trimmed(equals + 1, size - (size_t)(equals + 1 - list.bytes));
			if (is(name, "service.name"))
				service = value;
			else if (name.size && !is(name, "process.pid") && !is(name, "host.name") &&
			         !is(name, "service.instance.id"))
				otlp_add_named(to, "", name, value);
		}
		list = (struct slice){list.bytes + step, list.size - step};
	}
	return service;
}

/* The program, where the process runs one that it was given by its name: "ruby /srv/shop/worker.rb 3" is worker.rb. */
static struct slice program_of(struct slice command)
{
	while (command.size) {
		const char *blank = memchr(command.bytes, ' ', command.size);
		size_t size = blank ? (size_t)(blank - command.bytes) : command.size, name = size;
		struct slice word;

		while (name && command.bytes[name - 1] != '/')
			name--;
		word = (struct slice){command.bytes + name, size - name};
		/* Titles begin so: "puma: cluster worker 0". */
		word.size -= word.size && word.bytes[word.size - 1] == ':';
		if (word.size && *command.bytes != '-' && !(word.size >= 4 && memcmp(word.bytes, WORD_RUBY, 4) == 0) &&
		    !is(word, "bundle") && !is(word, "exec") && !is(word, "env"))
			return word;
		/* What follows -e is no name. */
		if (*command.bytes == '-' && size == 2 && command.bytes[1] == 'e')
			break;
		size += blank != NULL;
		command = (struct slice){command.bytes + size, command.size - size};
	}
	return (struct slice){"unknown_service:" WORD_RUBY, strlen("unknown_service:" WORD_RUBY)};
}

void otlp_resource_pack(struct buffer *to, const struct otlp_process *process)
{
	struct otlp_attributes *attributes = memory_zeroed(sizeof(*attributes));
	Otlp__Resource resource = OTLP__RESOURCE__INIT;
	struct slice service = add_others(attributes, process->attributes), instance;
	const char *blank = process->command.size ? memchr(process->command.bytes, ' ', process->command.size) : NULL;
	struct buffer name = {0};

	if (process->service.size)
		service = process->service;
	otlp_add_text(attributes, "service.name", service.size ? service : program_of(process->command));
	buffer_add_slice(&name, process->host);
	if (process->pid)
		buffer_add_format(&name, ":%d", (int)process->pid);
	instance = (struct slice){name.bytes, name.size};
	otlp_add_text(attributes, "service.instance.id", instance);
	otlp_add_text(attributes, "host.name", process->host);
	if (process->pid)
		otlp_add_int(attributes, "process.pid", process->pid);
	otlp_add_string(attributes, "process.runtime.name", WORD_RUBY);
	if (process->ruby_version.size)
		otlp_add_text(attributes, "process.runtime.version", process->ruby_version);
	if (process->command.size) {
		struct slice first = process->command;

		first.size = blank ? (size_t)(blank - process->command.bytes) : first.size;
		otlp_add_text(attributes, "process.command", first);
		otlp_add_text(attributes, "process.command_line", process->command);
	}
	otlp_add_string(attributes, "telemetry.sdk.language", WORD_RUBY);
	resource.attributes = attributes->list;
	resource.n_attributes = attributes->count;
	otlp_pack(to, &resource.base);
	otlp_attributes_clear(attributes);
	free(attributes);
	buffer_free(&name);
}

void otlp_resource_live(struct buffer *to, pid_t pid, struct slice ruby_version)
{
	struct buffer service = {0}, attributes = {0};
	char host[HOST_NAME_MAX + 1] = "", command[NAME_SIZE_MAX] = "";
	struct target target;
	struct error err;

	gethostname(host, sizeof(host) - 1);
	if (pid && target_describe(&target, pid, TARGET_BASIC, &err) == 0)
		target_command_line(&target, command, sizeof(command));
	otlp_service_of(pid, &service, &attributes);
	otlp_resource_pack(to, &(struct otlp_process){.pid = pid,
	                                              .ruby_version = ruby_version,
	                                              .command = {command, strlen(command)},
	                                              .host = {host, strlen(host)},
	                                              .service = {service.bytes, service.size},
	                                              .attributes = {attributes.bytes, attributes.size}});
	buffer_free(&service);
	buffer_free(&attributes);
}

#endif
