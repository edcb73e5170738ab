#ifndef RBPROBE_COLORS_H
#define RBPROBE_COLORS_H

#include "proto/slice.h"

/* What text on a terminal is coloured by; the escape sequences. NONE ends a colour. */
enum color { COLOR_NONE, COLOR_NAME, COLOR_LABEL, COLOR_VALUE, COLOR_TIME, COLOR_ERROR, COLOR_THREAD };

extern const struct slice colors[];

#endif
