/* The table of output formats. See sink.h. */

#include "tracer/stream/sink.h"

#include <stdlib.h>
#include <string.h>

static const struct sink_ops *const formats[] = {&sink_text, &sink_json, &sink_rbtrace};

const struct sink_ops *sink_find(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (strcmp(formats[i]->name, name) == 0)
			return formats[i];
	return NULL;
}

struct sink *sink_new(const struct sink_ops *ops, struct output *output, const struct sink_style *style)
{
	struct sink *sink = memory_zeroed(ops->size);

	sink->ops = ops;
	sink->output = output;
	sink->style = *style;
	if (ops->init)
		ops->init(sink);
	return sink;
}

void sink_free(struct sink *sink)
{
	if (sink && sink->ops->close)
		sink->ops->close(sink);
	free(sink);
}
