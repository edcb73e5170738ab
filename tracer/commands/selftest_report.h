#ifndef RBPROBE_SELFTEST_REPORT_H
#define RBPROBE_SELFTEST_REPORT_H

#include "tracer/base/buffer.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/* The answer to a self-test, and showing it. It comes from the target, and may be anything. */

/* How many facts there are, by what became of them. */
struct selftest_counts {
	uint32_t facts, ok, failed, not_applicable, not_tried;
};

struct selftest_counts selftest_count(const msgpack_object *answer);

/* One line for each fact. verbose: also on which Rubies it was seen. */
void selftest_report_text(struct buffer *buffer, int pid, const msgpack_object *answer, bool verbose);
/* One line. */
void selftest_report_json(struct buffer *buffer, int pid, const msgpack_object *answer);

/* What failed: "hook.flags, patch.calls". Nothing where nothing did. */
void selftest_report_failures(struct buffer *buffer, const msgpack_object *answer);

#endif
