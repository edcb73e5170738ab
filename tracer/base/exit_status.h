#ifndef RBPROBE_EXIT_STATUS_H
#define RBPROBE_EXIT_STATUS_H

/* rbprobe's exit statuses; the man page lists the same. */
enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,       /* the request failed in the target, or the results could not be written */
	STATUS_USAGE = 2,        /* wrong usage */
	STATUS_NOT_ATTACHED = 3, /* could not attach; stderr says why and what to do */
	STATUS_TARGET_GONE = 4,  /* the target went away without a word */
};

#endif
