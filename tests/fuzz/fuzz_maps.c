/* A process's memory map and status, in which it has chosen all names. */

#define _GNU_SOURCE
/* What is looked at is not theirs alone to see. */
#include "tracer/inject/remote.c"
#include "tracer/process/target_describe.c"
#include "tracer/process/target_maps.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t read_through;

static void map(const uint8_t *data, size_t size)
{
	struct remote remote = REMOTE_CLOSED;

	remote.map_text = memory_resize(NULL, size + 1);
	memcpy(remote.map_text, data, size);
	remote.map_text[size] = '\0';
	map_parse(&remote);
	modules_find(&remote);
	for (size_t i = 0; i < remote.mapping_count; i++)
		read_through += strlen(remote.mappings[i].path) + (size_t)remote_mapping_at(&remote, remote.mappings[i].start);
	read_through += (size_t)remote_module_named(&remote, "libc") + (size_t)remote_module_file(&remote, "rbprobe.so");
	remote_close(&remote);
}

static void names(const uint8_t *data, size_t size)
{
	struct target target = {0};
	char *copy = memory_resize(NULL, size + 1);

	memcpy(copy, data, size);
	copy[size] = '\0';
	read_through += (size_t)status_field(copy, "Uid");
	for (char *line = copy, *next; line; line = next) {
		char *file = strchr(line, '/');

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (file && (!next || file < next))
			mapping_judge(&target, file);
	}
	read_through += strlen(target.libruby) + strlen(target.abi);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	map(data, size);
	names(data, size);
	return 0;
}
