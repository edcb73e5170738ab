#ifndef RBPROBE_CONFINED_H
#define RBPROBE_CONFINED_H

#include "tracer/base/buffer.h"
#include "tracer/process/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Looking at what a process chose: its files, its ELF and DWARF. The process may be hostile and the operator may be root, so
 * a child does it that has the process's user and groups, no capability, its root directory, few system calls, and bounds on
 * time and memory. It can answer by a pipe and do nothing else. Where the operator is not root all of that is the same,
 * except that nobody's user and root directory change.
 */

#define CONFINED_GROUPS_MAX 1024

/* What the child was given before it lost its privileges. Descriptors; -1: could not be had. */
struct confined {
	int root;          /* the process's root directory */
	int directory;     /* its current one */
	int program;       /* what it executes, as O_PATH; */
	int program_error; /* an errno, where it could not be had */
	int memory;        /* its memory, for reading */
	int maps;          /* its memory map, at the beginning */
	int own;           /* our own /proc/self/fd */
	int answer;
	size_t group_count;
	gid_t groups[CONFINED_GROUPS_MAX];
	char root_path[512]; /* where the root directory lies, as its memory map names files */
};

struct confined_job {
	const struct target *target;
	/* Runs in the child. What it says by confined_answer() counts, even where it is killed or crashes later. */
	void (*work)(const struct confined *confined, const void *argument);
	const void *argument;
	uint64_t budget_ns; /* for all of it */
	size_t memory_max;  /* bytes, more than what we use now */
	size_t answer_max;  /* bytes */
};

/*
 * Adds what the child said to answer, which nobody may trust: it is as good as the process's own word. 0: it ended by itself;
 * -ETIMEDOUT, -EMSGSIZE: it took or said too much; -EIO: it crashed; -EPERM: the process's user cannot be taken; -EMFILE; and
 * others.
 */
int confined_run(const struct confined_job *job, struct buffer *answer);

/* --- For the work in the child */

/* A regular file, for reading, under the name that the process's memory map has for it. -1: none, or it is something else. */
int confined_open(const struct confined *confined, const char *path);
/* The same by a name that is relative to its current directory, and leads to nothing outside of that. */
int confined_open_here(const struct confined *confined, const char *path);
/* The same for what the process executes; errno says why not. */
int confined_open_program(const struct confined *confined);
bool confined_read_memory(const struct confined *confined, uint64_t address, void *bytes, size_t size);
void confined_answer(const struct confined *confined, const void *bytes, size_t size);

/* --- For a child with other work than that, in this order */

/* No signal handler of ours, no descriptor but kept ones, which get new numbers. */
void confined_leave_ours(int *kept, int count);
/* Fills all but `answer`, while there are privileges. False: it is not that process any more. */
bool confined_take(struct confined *confined, const struct target *target);
/* It has the process's user and groups and no capability from then on; *inside: its root directory, too. False: it must exit. */
bool confined_become(const struct confined *confined, const struct target *target, bool *inside);

#endif
