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
	"  order.rb:42   'models/order.rb:42(total, user.id)'\n"                                                                 \
	"                           a line: each time it is reached, before it runs\n"                                           \
	"  'Order#save(self, @total, num, items.size, __source__)'\n"                                                            \
	"                           values to show: self, instance variables,\n"                                                 \
	"                           arguments, any expression, the call site\n\n"

#define TRACE_HELP_TIMEOUT "How long attaching, and each expression, may take (default 5)"

#define TRACE_HELP_OUTPUT                                                                                                        \
	"Output:\n"                                                                                                              \
	"  Order#total(num=3) => 42 <0.000012>     result and seconds\n"                                                         \
	"  Order#save ! ArgumentError: no <0.0...> an exception left it\n"                                                       \
	"  Order#each ~ thrown <0.0...>            throw, break or return went by\n"                                             \
	"  Order#each ~ killed <0.0...>            its thread was killed\n"                                                      \
	"  ! raised ArgumentError: no at a.rb:12   --raise: an exception is raised\n"                                            \
	"  order.rb:42 total=12 user.id=3          a line was reached\n"                                                         \
	"  # gc minor (newobj) 0.0... s (mark 0.0..., sweep 0.0...), 40 -> 31 objects\n"                                         \
	"                                          --gc: a collection is over\n"                                                 \
	"  # gvl waited 0.012000 s                 --gvl: the thread has waited so long\n"                                       \
	"  ... 12 calls lost (0.001000 s) ...      calls were lost here\n"                                                       \
	"  [thread 12345 \"worker 1\", fiber 7]      whose the following lines are\n"                                            \
	"A call with traced calls inside has two lines: where it begins and ends.\n\n"

#define TRACE_HELP_CONDITIONS                                                                                                    \
	"Conditions:\n"                                                                                                          \
	"  --slow 100 --args        calls over 100 ms, and their arguments\n"                                                    \
	"  --slow 500 --tree        calls over 500 ms, and the traced calls inside them\n"                                       \
	"  --raised='Net::*'        calls that such an exception leaves\n"                                                       \
	"  --if 'result.nil?'       calls for which that is true: @ivars, arguments,\n"                                          \
	"                           result, error, elapsed (seconds)\n"                                                          \
	"  --within 'Api#show'      only what happens inside of Api#show\n"                                                      \
	"A call that does not meet them all is counted, and not sent. What is\n"                                                 \
	"known only when a call ends is shown then, with the values of its beginning;\n"                                         \
	"a call that is still running past --slow is shown at once.\n\n"

#define TRACE_HELP_STATUS                                                                                                        \
	"Exit status: 0 done; 1 the request failed in the process, or the output could not be written; 2 wrong usage; 3 could "  \
	"not "                                                                                                                   \
	"attach; 4 the process was killed meanwhile."

#endif
