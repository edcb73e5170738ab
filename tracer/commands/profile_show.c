/* Profiles of files. See profile_show.h. */

#include "tracer/commands/profile_show.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/profile/profile_file.h"

#include <errno.h>

int profile_take(struct profile **made, struct recording_reader *reader, struct error *err)
{
	struct recording_item item;
	int status = recording_next(reader, &item, err);

	if (status <= 0)
		return status;
	if (!item.head.rate_hz) {
		recording_put_back(reader, &item);
		return 0;
	}
	if (!made)
		return 1;
	*made = profile_new();
	(*made)->rate_hz = item.head.rate_hz;
	status = profile_read(*made, reader, err);
	profile_settle(*made);
	return status < 0 ? status : 1;
}

int profile_open(struct profile **made, const char *path, int signals)
{
	struct recording_reader *reader;
	struct error err;
	int status = recording_open(&reader, path, signals, &err);

	*made = NULL;
	if (status == 0) {
		status = profile_take(made, reader, &err);
		recording_close(reader);
	}
	if (status == 0)
		status = error_set(&err, -EINVAL,
		                   "%s has calls, and is no profile; `rbprobe report` and `rbprobe replay` show it", path);
	if (status < 0)
		message("%s", err.text);
	if (status < 0 && status != -ENODATA) {
		profile_free(*made);
		*made = NULL;
	}
	return *made ? STATUS_DONE : STATUS_FAILED;
}
