/* What a recording may be written to. See recording_fit.h. */

#include "tracer/recording/recording_fit.h"

#include "tracer/recording/recording_read.h"

#include <errno.h>
#include <sys/stat.h>

/* What comes after damaged or other bytes is never read. Blocks are passed over, and not unpacked. */
static int can_go_on(const char *path, struct error *err)
{
	struct recording_reader *reader;
	struct recording_item item;
	struct error why;
	int status = recording_open(&reader, path, -1, &why);

	if (status < 0)
		return error_set(err, status, "cannot append to it: %s", why.text);
	do {
		status = recording_next(reader, &item, &why);
		if (status > 0 && item.part == RECORDING_HEAD && item.head.rate_hz)
			status = error_set(&why, -EINVAL, "%s is a profile, and no recording of calls", path);
	} while (status > 0);
	recording_close(reader);
	return status == 0 ? 0 : error_set(err, status, "cannot append to it: %s; name another file", why.text);
}

int recording_fit(const struct output *output, const char *path, bool append, struct error *err)
{
	struct stat found;
	int status = output_lock(output, err);

	if (status < 0 || !append || fstat(output->fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0)
		return status;
	return can_go_on(path, err);
}
