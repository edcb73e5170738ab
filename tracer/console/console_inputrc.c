/* Whose file readline obeys. See console_inputrc.h. */

#ifdef HAVE_READLINE

#define _GNU_SOURCE
#include "tracer/console/console_inputrc.h"

#include "tracer/base/message.h"
#include "tracer/base/place.h"

#include <errno.h>
#include <stdlib.h>

#include <readline/tilde.h>

#define SYSTEM_INPUTRC "/etc/inputrc" /* what readline reads where the user has none */

static bool only_we_write(int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0 || !place_is_trusted(&status))
		return false;
	/* Everybody may write to /dev/null, and nobody reads it there. */
	return S_ISCHR(status.st_mode) || (S_ISREG(status.st_mode) && !(status.st_mode & (S_IWGRP | S_IWOTH)));
}

void inputrc_choose(bool quiet)
{
	const char *named = getenv("INPUTRC");
	char *path = tilde_expand(named && *named ? named : "~/.inputrc");
	struct place place;
	int status = place_find(&place, path, NULL);
	bool is_there = place.found >= 0;

	/* Where there is none, somebody who may make one could do so just now. */
	if (status < 0 || !place.guarded || (is_there && !only_we_write(place.found))) {
		setenv("INPUTRC", SYSTEM_INPUTRC, 1);
		if (!quiet && (is_there || status == -EPERM))
			message("%s is not read: it, or a directory above it, is another user's or can be written to by others "
			        "(HOME, with sudo)",
			        path);
	}
	place_close(&place);
	free(path);
}

#endif
