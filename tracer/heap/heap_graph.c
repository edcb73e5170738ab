/* From lines to nodes and edges. See heap_graph.h. */

#include "tracer/heap/heap_graph.h"

#include "tracer/base/buffer.h"
#include "tracer/base/value.h"

#include <stdlib.h>

#define CAPACITY_FIRST 4096u
#define MEMSIZE_MAX ((1ull << 54) - 1)
/* No process has objects there: the keys of roots. */
#define ROOT_KEY (1ull << 63)

/* The node of this key, made if there is none; HEAP_NODE_NONE: there are too many. */
static uint32_t node_of(struct heap_graph *graph, uint64_t key)
{
	uint32_t number;
	bool is_new;

	if (graph->count == HEAP_NODES_MAX) {
		graph->too_large = true;
		return HEAP_NODE_NONE;
	}
	number = heap_index_add(&graph->by_address, key, &is_new);
	if (!is_new)
		return number;
	if (number == graph->capacity) {
		graph->capacity = graph->capacity ? graph->capacity + graph->capacity / 2 : CAPACITY_FIRST;
		graph->nodes = memory_resize(graph->nodes, graph->capacity * sizeof(*graph->nodes));
	}
	graph->nodes[number] = (struct heap_node){.address = key, .counted = {HEAP_TABLE_NONE, HEAP_TABLE_NONE}};
	graph->count++;
	return number;
}

static void add_edge(struct heap_graph *graph, uint32_t to)
{
	if (to == HEAP_NODE_NONE || graph->edge_count == HEAP_EDGES_MAX) {
		graph->too_large = true;
		return;
	}
	if (graph->edge_count == graph->edge_capacity) {
		graph->edge_capacity = graph->edge_capacity ? graph->edge_capacity + graph->edge_capacity / 2 : CAPACITY_FIRST;
		graph->edges = memory_resize(graph->edges, graph->edge_capacity * sizeof(*graph->edges));
	}
	graph->edges[graph->edge_count++] = to;
}

static void add_reference(struct heap_graph *graph, uint64_t address)
{
	if (address && address < ROOT_KEY)
		add_edge(graph, node_of(graph, address));
	else
		graph->dangling++;
}

static bool text_is_one_of(struct slice text, const char *const *expected)
{
	for (; *expected; expected++)
		if (slice_is(text, *expected))
			return true;
	return false;
}

static unsigned flags_of(const struct heap_line *line)
{
	static const char *const stacks[] = {"VM/thread", "thread", "fiber", "continuation", NULL};
	static const char *const code[] = {"iseq", "callcache", "callinfo", "constcache", "inlinecache", NULL};
	static const char *const compilers[] = {"YJIT", "ZJIT", NULL};
	static const char yjit[] = "yjit_root"; /* an object, before Ruby 3.3 */
	static const char thread_root[] = "thread ";

	if (heap_line_is(line, "ROOT")) {
		bool is_stack = slice_is(line->root, "machine_context") ||
		                (line->root.size > strlen(thread_root) &&
		                 memcmp(line->root.bytes, thread_root, strlen(thread_root)) == 0);

		return HEAP_NODE_DEFINED | HEAP_NODE_ROOT | (is_stack ? HEAP_NODE_STACK : 0) |
		       (text_is_one_of(line->root, compilers) ? HEAP_NODE_CODE : 0);
	}
	if (heap_line_is(line, "CLASS") || heap_line_is(line, "MODULE"))
		return HEAP_NODE_DEFINED | HEAP_NODE_CLASS;
	if (heap_line_is(line, "DATA") && text_is_one_of(line->struct_name, stacks))
		return HEAP_NODE_DEFINED | HEAP_NODE_STACK;
	if (heap_line_is(line, "DATA") && slice_is(line->struct_name, yjit))
		return HEAP_NODE_DEFINED | HEAP_NODE_CODE;
	if (heap_line_is(line, "IMEMO") && text_is_one_of(line->imemo_type, code))
		return HEAP_NODE_DEFINED | HEAP_NODE_CODE;
	return HEAP_NODE_DEFINED;
}

static uint32_t root_node(struct heap_graph *graph)
{
	uint32_t number = node_of(graph, ROOT_KEY | graph->root_count);

	if (number == HEAP_NODE_NONE)
		return number;
	graph->roots = heap_entries(graph->roots, &graph->root_capacity, graph->root_count, sizeof(*graph->roots));
	graph->roots[graph->root_count++] = number;
	return number;
}

uint32_t heap_graph_add(struct heap_graph *graph, const struct heap_line *line, const struct heap_references *references,
                        struct heap_pair counted, bool own)
{
	bool is_root = heap_line_is(line, "ROOT");
	uint32_t number, first;
	struct heap_node *node;

	if (!graph->count)
		node_of(graph, 0);
	/* What rbprobe has is told to readers by a root that the VM does not have. */
	if (heap_line_is_root(line, HEAP_ROOT_OWN) || (!is_root && !heap_line_is_object(line)) || graph->too_large)
		return HEAP_NODE_NONE;
	if (!is_root && (!line->address || line->address >= ROOT_KEY)) {
		graph->duplicates++;
		return HEAP_NODE_NONE;
	}
	number = is_root ? root_node(graph) : node_of(graph, line->address);
	if (number == HEAP_NODE_NONE)
		return number;
	if (graph->nodes[number].flags & HEAP_NODE_DEFINED) {
		graph->duplicates++;
		return HEAP_NODE_NONE;
	}
	if (is_root)
		counted.kind = heap_names_add(&graph->root_names, line->root);
	first = (uint32_t)graph->edge_count;
	for (size_t i = 0; i < references->count; i++)
		add_reference(graph, references->items[i]);
	/* Ruby leaves it out of the references. What stands there in the VM's own objects is none. */
	if (line->class_address && !heap_line_is(line, "IMEMO"))
		add_reference(graph, line->class_address);
	node = &graph->nodes[number];
	node->first = first;
	node->degree = (uint32_t)(graph->edge_count - first);
	node->memsize = line->memsize < MEMSIZE_MAX && !own ? line->memsize : 0;
	node->flags = (flags_of(line) | (own ? HEAP_NODE_OWN : 0)) & 0x3ff;
	node->counted = counted;
	return number;
}

static void drop_dangling(struct heap_graph *graph)
{
	for (uint32_t i = 0; i < graph->count; i++) {
		struct heap_node *node = &graph->nodes[i];
		uint32_t kept = 0;

		for (uint32_t j = 0; j < node->degree; j++) {
			uint32_t to = graph->edges[node->first + j];

			if (graph->nodes[to].flags & HEAP_NODE_DEFINED)
				graph->edges[node->first + kept++] = to;
		}
		graph->dangling += node->degree - kept;
		node->degree = kept;
	}
}

void heap_graph_finish(struct heap_graph *graph)
{
	struct heap_node *above;

	if (!graph->count)
		node_of(graph, 0);
	heap_index_free(&graph->by_address);
	above = &graph->nodes[0];
	above->flags = HEAP_NODE_DEFINED;
	above->first = (uint32_t)graph->edge_count;
	for (uint32_t i = 0; i < graph->root_count && !graph->too_large; i++)
		add_edge(graph, graph->roots[i]);
	above->degree = (uint32_t)(graph->edge_count - above->first);
	if (!graph->too_large)
		drop_dangling(graph);
}

void heap_graph_free(struct heap_graph *graph)
{
	heap_index_free(&graph->by_address);
	heap_names_free(&graph->root_names);
	free(graph->nodes);
	free(graph->edges);
	free(graph->roots);
	*graph = (struct heap_graph){0};
}
