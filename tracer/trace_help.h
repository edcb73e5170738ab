#ifndef RBPROBE_TRACE_HELP_H
#define RBPROBE_TRACE_HELP_H

/* What --help of trace, exec and methods says below the options. */

#define TRACE_HELP_SELECTORS                                                                                                     \
	"Selectors:\n"                                                                                                           \
	"  sleep                    a method of that name, of any class\n"                                                       \
	"  String#gsub              an instance method\n"                                                                        \
	"  Process.pid              a singleton (class) method\n"                                                                \
	"  Kernel#   Dir.           all instance, all singleton methods\n"                                                       \
	"  'Billing::*#*charge*'    patterns\n"                                                                                  \
	"  'Order#save(self, @total, num, items.size, __source__)'\n"                                                            \
	"                           values to show: self, instance variables,\n"                                                 \
	"                           arguments, any expression, the call site\n\n"

#define TRACE_HELP_OUTPUT                                                                                                        \
	"Output:\n"                                                                                                              \
	"  Order#total(num=3) => 42 <0.000012>     result and seconds\n"                                                         \
	"  Order#save ! ArgumentError: no <0.0...> an exception left it\n"                                                       \
	"  Order#each ~ thrown <0.0...>            throw, break or return went by\n"                                             \
	"  Order#each ~ killed <0.0...>            its thread was killed\n"                                                      \
	"  ... 12 calls lost (0.001000 s) ...      calls were lost here\n"                                                       \
	"  [thread 12345 \"worker 1\", fiber 7]      whose the following lines are\n"                                            \
	"A call with traced calls inside has two lines: where it begins and ends.\n\n"

#define TRACE_HELP_STATUS                                                                                                        \
	"Exit status: 0 done; 1 the request failed in the process, or the output could not be written; 2 wrong usage; 3 could "  \
	"not "                                                                                                                   \
	"attach; 4 the process was killed meanwhile."

#endif
