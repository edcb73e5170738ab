/* The formats that profiles are exported to. See export.h. */

#include "tracer/profile/export.h"

#include <stddef.h>

const struct export_format *const export_formats[] = {&export_collapsed, &export_speedscope, &export_callgrind, &export_svg,
                                                      NULL};
