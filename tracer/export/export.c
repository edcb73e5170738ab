/* The formats that recordings and profiles are exported to. See export.h. */

#include "tracer/export/export.h"

#include <stddef.h>

static const struct export_format export_html = {.name = "html", .page = true};

const struct export_format *const export_formats[] = {
	&export_html,      &export_chrome,     &export_perfetto,  &export_otlp, &export_pprof,
	&export_collapsed, &export_speedscope, &export_callgrind, &export_svg,  NULL,
};
