/* Profiles of files. See profile_show.h. */

#include "tracer/commands/profile_show.h"

#include "tracer/profile/profile_file.h"

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
