#ifndef RBPROBE_HEAP_LABELS_H
#define RBPROBE_HEAP_LABELS_H

#include "tracer/heap/heap_graph.h"

/*
 * What nodes are called, each text once: "Session" for an instance, "class Session" for the class itself, "root vm". In
 * JSON's escapes, as the dump has them.
 */
struct heap_labels {
	const struct heap_graph *graph;
	const struct heap_summary *summary;
	struct heap_names texts;
	uint32_t *of_kind; /* by kind; HEAP_TABLE_NONE: not made yet */
	struct buffer scratch;
};

void heap_labels_open(struct heap_labels *labels, const struct heap_graph *graph, const struct heap_summary *summary);
/* The number of the node's label in texts. */
uint32_t heap_label_of(struct heap_labels *labels, uint32_t node);
void heap_labels_free(struct heap_labels *labels);

static inline struct slice heap_label_text(const struct heap_labels *labels, uint32_t label)
{
	return labels->texts.texts[label];
}

#endif
