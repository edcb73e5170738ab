/* Names of nodes. See heap_labels.h. */

#include "tracer/heap/heap_labels.h"

#include "tracer/heap/heap_ranking.h"

#include <stdlib.h>

void heap_labels_open(struct heap_labels *labels, const struct heap_graph *graph, const struct heap_summary *summary)
{
	size_t size = (size_t)summary->kind_index.count * sizeof(*labels->of_kind);

	*labels = (struct heap_labels){.graph = graph, .summary = summary, .of_kind = memory_resize(NULL, size + 1)};
	memset(labels->of_kind, 0xff, size);
}

static uint32_t intern(struct heap_labels *labels)
{
	return heap_names_add(&labels->texts, (struct slice){labels->scratch.bytes, labels->scratch.size});
}

uint32_t heap_label_of(struct heap_labels *labels, uint32_t number)
{
	const struct heap_node *node = &labels->graph->nodes[number];
	struct buffer *text = &labels->scratch;
	uint32_t kind = node->counted.kind;

	text->size = 0;
	buffer_reserve(text, 1);
	if (node->flags & HEAP_NODE_ROOT) {
		buffer_add_text(text, "root ");
		buffer_add_slice(text, labels->graph->root_names.texts[kind]);
		return intern(labels);
	}
	if (node->flags & HEAP_NODE_CLASS && kind != HEAP_TABLE_NONE) {
		heap_class_title(labels->summary->classes, node->address, text);
		return intern(labels);
	}
	if (kind == HEAP_TABLE_NONE) {
		buffer_add_text(text, number ? "(rbprobe's own)" : "(all roots)");
		return intern(labels);
	}
	if (labels->of_kind[kind] == HEAP_TABLE_NONE) {
		heap_label_kind(labels->summary, kind, text);
		labels->of_kind[kind] = intern(labels);
	}
	return labels->of_kind[kind];
}

void heap_labels_free(struct heap_labels *labels)
{
	heap_names_free(&labels->texts);
	free(labels->of_kind);
	buffer_free(&labels->scratch);
	*labels = (struct heap_labels){0};
}
