/*
 * Recognising Rubies that rbprobe cannot look into, so that people read why. A name is enough for that: what a process says of
 * itself decides about nothing else.
 */

#define _GNU_SOURCE
#include "tracer/process/other_ruby.h"

#include "tracer/base/proc_file.h"

#include <string.h>

static const char JRUBY[] = "JRuby", TRUFFLERUBY[] = "TruffleRuby";

/*
 * What helps instead. A native TruffleRuby is no Java VM for jstack. SIGQUIT, for which both print stacks, is not named: servers
 * end by it.
 */
static const struct {
	const char *name, *remedy;
} remedies[] = {
	{JRUBY, "The JDK's `jcmd PID Thread.print` or jstack shows where its threads are, and async-profiler profiles it"},
	{TRUFFLERUBY, "Started with --cpusampler it profiles itself; if it was started with --jvm, the JDK's jstack shows where "
                      "its threads are"},
};

/* What is in a word of the command line of a Java program that runs Ruby. */
static const struct {
	const char *mark;
	const char *suffix; /* somewhere after it, before the next path of a class path */
	const char *name;
} java_marks[] = {
	{"org.truffleruby.", "", TRUFFLERUBY},
	{"org.jruby.", "", JRUBY},
	{"-Djruby.", "", JRUBY},
	{"jruby", ".jar", JRUBY}, /* jruby.jar, jruby-core-9.4.8.0.jar, jruby-complete-9.4.8.0.jar */
};

/* Whether text has the mark, and after it the suffix, without a / or a : between them. */
static bool has_mark(const char *text, const char *mark, const char *suffix)
{
	while ((text = strstr(text, mark))) {
		const char *end, *found;

		text += strlen(mark);
		end = text + strcspn(text, "/:");
		found = strstr(text, suffix);
		if (found && found + strlen(suffix) <= end)
			return true;
	}
	return false;
}

const char *other_ruby_of(const char *program, const char *words, size_t size)
{
	const char *name = strrchr(program, '/');

	name = name ? name + 1 : program;
	if (strncmp(name, "truffleruby", strlen("truffleruby")) == 0)
		return TRUFFLERUBY;
	if (strcmp(name, "java") != 0)
		return NULL;
	for (size_t at = 0; at < size; at += strlen(words + at) + 1)
		for (size_t i = 0; i < sizeof(java_marks) / sizeof(*java_marks); i++)
			if (has_mark(words + at, java_marks[i].mark, java_marks[i].suffix))
				return java_marks[i].name;
	return NULL;
}

const char *other_ruby_remedy(const char *name)
{
	for (size_t i = 0; i < sizeof(remedies) / sizeof(*remedies); i++)
		if (strcmp(remedies[i].name, name) == 0)
			return remedies[i].remedy;
	return "";
}

const char *other_ruby(const struct target *target)
{
	/* Device, inode, and path. */
	const char *program = strchr(target->program, '/');
	char words[16384];
	ssize_t size;

	if (target->truffleruby_mapped)
		return TRUFFLERUBY;
	if (!program || (!strstr(program, "/java") && !strstr(program, "/truffleruby")))
		return NULL;
	size = proc_file_read(target->pid, "cmdline", words, sizeof(words));
	if (size < 0)
		words[size = 0] = '\0';
	return other_ruby_of(program, words, (size_t)size);
}
