#ifndef RBPROBE_PLACE_H
#define RBPROBE_PLACE_H

#include "proto/error.h"

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Where a path leads, found step by step, so that no other user can lead us elsewhere by a link, and so that what was looked
 * at is what is used afterwards: through descriptors (O_PATH), never through the path again.
 *
 * A link is followed if it is ours or root's, or if only we or root can have put it into its directory.
 */
struct place {
	int directory;      /* that has the path's last name */
	const char *name;   /* that name, in the path, which is not copied */
	int found;          /* what the name leads to, after all links; -1: nothing is there */
	bool by_descriptor; /* a link in /proc led there, such as /dev/stdout: to a file that may have no name */
	bool guarded;       /* nobody but us and root can put another file there: all directories on the way are ours or root's */
};

/* Returns 0, or negative and err: a directory is missing, or -EPERM: a link is another user's. place_close() in any case. */
int place_find(struct place *place, const char *path, struct error *err);
/* Opens what was found, as open() does, without following the path again. A descriptor, or -1 and errno. */
int place_open_found(const struct place *place, int flags);
void place_close(struct place *place);

/* Ours or root's: nobody else decides what becomes of it. */
bool place_is_trusted(const struct stat *status);

#endif
