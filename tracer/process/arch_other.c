/* Any other processor. See arch.h. */

#if !defined(__x86_64__) && !defined(__aarch64__)

#include "tracer/process/arch.h"

const struct arch arch = {
	.refusal = "loading into a running process is not possible on this processor; start the program with the extension: "
		   "ruby -I \"$(rbprobe extension-dir)\" -rrbprobe ...",
};

#endif
