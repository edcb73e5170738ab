#ifndef RBPROBE_STARTUP_H
#define RBPROBE_STARTUP_H

#include <stdint.h>

/*
 * What the extension says of itself in its own memory, under the symbol rbprobe_startup; the loader reads it without
 * asking. The layout is fixed.
 */
enum startup_state {
	STARTUP_NONE,   /* the library is mapped; nothing of it has run */
	STARTUP_ASKED,  /* the VM was asked to run Init at its next safe point */
	STARTUP_DONE,   /* the process can be attached to */
	STARTUP_FAILED, /* Init raised; text says what */
};

struct startup {
	uint32_t state; /* enum startup_state */
	char text[252];
};

#endif
