#ifndef RBPROBE_SUBCOMMANDS_H
#define RBPROBE_SUBCOMMANDS_H

#include "tracer/cli/subcommand.h"

/*
 * All subcommands, as `rbprobe --help` lists them: X(NAME) is the file cmd_NAME.c with a const struct subcommand
 * cmd_NAME. A new one is a line here.
 */
#define SUBCOMMANDS(X)                                                                                                           \
	X(ps)                                                                                                                    \
	X(trace)                                                                                                                 \
	X(stat)                                                                                                                  \
	X(top)                                                                                                                   \
	X(profile)                                                                                                               \
	X(record)                                                                                                                \
	X(replay)                                                                                                                \
	X(report)                                                                                                                \
	X(export)                                                                                                                \
	X(methods)                                                                                                               \
	X(tracers)                                                                                                               \
	X(eval)                                                                                                                  \
	X(console)                                                                                                               \
	X(backtrace)                                                                                                             \
	X(memory)                                                                                                                \
	X(exec)                                                                                                                  \
	X(load)                                                                                                                  \
	X(heap)                                                                                                                  \
	X(fork)                                                                                                                  \
	X(selftest)                                                                                                              \
	X(extension_dir)

#define SUBCOMMAND_DECLARE(name) extern const struct subcommand cmd_##name;
SUBCOMMANDS(SUBCOMMAND_DECLARE)

#endif
