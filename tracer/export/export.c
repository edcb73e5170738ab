/* The formats that recordings and profiles are exported to. See export.h. */

#include "tracer/export/export.h"

#include <stddef.h>

const struct export_format *const export_formats[] = {
	&export_chrome,     &export_perfetto,  &export_otlp, &export_pprof, &export_collapsed,
	&export_speedscope, &export_callgrind, &export_svg,  NULL,
};
