/* The tree of a recording or a profile, on the whole terminal. See report_tui.h. */

#include "tracer/commands/report_tui.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/browse/browse.h"

#include <inttypes.h>
#include <string.h>

/* What is in it, and what is in no row. */
static void add_counts(const struct stat_table *table, uint64_t left, struct buffer *about)
{
	uint64_t no_row = stat_table_folded(table) + left;

	buffer_add_format(about, ": %" PRIu64 " calls", stat_table_calls(table));
	if (table->lost)
		buffer_add_format(about, ", %" PRIu64 " lost", table->lost);
	if (no_row)
		buffer_add_format(about, ", %" PRIu64 " in no row", no_row);
}

int report_tui(const char *path, const struct profile *profile, enum profile_weight weight, const struct figures *figures,
               int signals)
{
	static const char *const weighed[PROFILE_WEIGHTS] = {[PROFILE_WALL] = "wall time of samples",
	                                                     [PROFILE_CPU] = "CPU time",
	                                                     [PROFILE_BUSY] = "wall time without what was idle",
	                                                     [PROFILE_WAITED] = "time that was waited for the GVL",
	                                                     [PROFILE_HELD] = "time for which others waited",
	                                                     [PROFILE_BYTES] = "bytes of objects",
	                                                     [PROFILE_OBJECTS] = "objects"};
	struct browse browse = {0};
	struct buffer about = {0};
	struct error err;
	int status;

	buffer_add_printable(&about, path, strlen(path));
	if (profile) {
		browse_from_profile(&browse, profile, weight);
		buffer_add_format(&about, ": %s", weighed[weight]);
	} else {
		struct stat_table table = figures_table(figures);

		browse_from_table(&browse, &table);
		add_counts(&table, figures_left(figures), &about);
		stat_table_free(&table);
	}
	buffer_add_char(&about, '\0');
	status = browse_show(&browse, about.bytes, signals, &err);
	if (status < 0)
		message("%s", err.text);
	browse_free(&browse);
	buffer_free(&about);
	return status < 0 ? STATUS_FAILED : STATUS_DONE;
}
