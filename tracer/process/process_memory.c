/* A process's memory as the kernel counts it. See process_memory.h. */

#include "tracer/process/process_memory.h"

#include "tracer/base/proc_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read_rollup(struct process_memory *memory, FILE *file)
{
	const struct {
		const char *name;
		uint64_t *bytes;
	} fields[] = {
		{"Rss", &memory->resident},
		{"Pss", &memory->proportional},
		{"Private_Dirty", &memory->private_dirty},
		{"Swap", &memory->swapped},
	};
	char line[256];

	while (fgets(line, sizeof(line), file)) {
		char name[64];
		uint64_t kib;

		if (sscanf(line, "%63[^:]: %" SCNu64 " kB", name, &kib) != 2)
			continue;
		for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
			if (strcmp(fields[i].name, name) == 0) {
				*fields[i].bytes = kib * 1024;
				memory->known = true;
			}
	}
}

void process_memory_read(struct process_memory *memory, pid_t pid)
{
	char path[64], text[128];
	uint64_t pages;
	FILE *file;

	memset(memory, 0, sizeof(*memory));
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	file = fopen(path, "re");
	if (file) {
		read_rollup(memory, file);
		fclose(file);
	}
	if (memory->known)
		return;
	memory->known = proc_file_read(pid, "statm", text, sizeof(text)) > 0 && sscanf(text, "%*u %" SCNu64, &pages) == 1;
	if (memory->known)
		memory->resident = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
