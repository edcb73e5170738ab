#ifndef RBPROBE_REPORT_TUI_H
#define RBPROBE_REPORT_TUI_H

#include "tracer/profile/profile.h"
#include "tracer/recording/figures.h"

/*
 * `rbprobe report --tui`. profile: that the file has, by this weight; NULL: it has calls, in the figures by path. Returns a
 * status, after a line on stderr where it is not STATUS_DONE.
 */
int report_tui(const char *path, const struct profile *profile, enum profile_weight weight, const struct figures *figures,
               int signals);

#endif
