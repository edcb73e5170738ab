#ifndef RBPROBE_SUBCOMMAND_H
#define RBPROBE_SUBCOMMAND_H

/* A subcommand is a file cmd_NAME.c with one of these, and a line in main.c's table. */
struct subcommand {
	const char *name;
	const char *alias;     /* another name, or NULL */
	const char *arguments; /* as the overview shows them */
	const char *summary;
	/* argv[0] is "rbprobe NAME". Returns an enum exit_status. */
	int (*run)(int argc, char **argv);
};

extern const struct subcommand cmd_backtrace;
extern const struct subcommand cmd_console;
extern const struct subcommand cmd_eval;
extern const struct subcommand cmd_exec;
extern const struct subcommand cmd_extension_dir;
extern const struct subcommand cmd_fork;
extern const struct subcommand cmd_heap;
extern const struct subcommand cmd_load;
extern const struct subcommand cmd_memory;
extern const struct subcommand cmd_methods;
extern const struct subcommand cmd_ps;
extern const struct subcommand cmd_selftest;
extern const struct subcommand cmd_trace;

#endif
