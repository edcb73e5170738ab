#ifndef RBPROBE_MEANT_H
#define RBPROBE_MEANT_H

#include "tracer/stream/stream.h"

#include "proto/command.h"

/* Whether what is recorded is what somebody means. A recording knows names only: classes and methods as they are shown. */

/* Of a line: by the file's own name, order.rb or models/order.rb for /srv/models/order.rb. */
bool method_is_meant(const struct selector *selector, const struct method *method);

/* By its name, which may be a pattern, by its native id, or as "main". */
bool thread_is_meant(struct slice wanted, const struct fiber *fiber);

/* values: what came with the call's end. wanted: a pattern of the exception's own class; "": of any. */
bool exception_is_meant(struct slice wanted, enum ending ending, struct values values);

/* The same of a class's name. */
bool class_is_meant(struct slice wanted, struct slice class_name);

#endif
