/* Dominators, paths and what is retained, beside plain definitions of them, on graphs of all kinds. */

#include "tracer/heap/heap_holders.h"
#include "tracer/heap/heap_paths.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#define NODES_MAX 40

/* --- Graphs. Object i has the address 8 * (i + 1). */

struct making {
	struct heap_summary summary;
	struct heap_classes classes;
	struct heap_holders holders;
};

static uint64_t address_of(uint32_t object)
{
	return 8 * ((uint64_t)object + 1);
}

static uint32_t add_line(struct making *making, const struct heap_line *line, const uint64_t *references, size_t count)
{
	struct heap_references list = {.items = (uint64_t *)references, .count = count};

	return heap_graph_add(&making->holders.graph, line, &list, heap_summary_add(&making->summary, line), false);
}

static void open_graph(struct making *making)
{
	*making = (struct making){0};
	heap_summary_open(&making->summary, &making->classes, 0, 10);
}

static uint32_t add_root(struct making *making, const char *name, const uint64_t *references, size_t count)
{
	struct heap_line line = {.type = SLICE("ROOT"), .root = {name, strlen(name)}};

	return add_line(making, &line, references, count);
}

static uint32_t add_object(struct making *making, uint32_t object, const char *type, const uint64_t *references, size_t count)
{
	struct heap_line line = {
		.type = {type, strlen(type)}, .has_address = true, .address = address_of(object), .memsize = object + 1};

	return add_line(making, &line, references, count);
}

static uint32_t add_code(struct making *making, uint32_t object, const uint64_t *references, size_t count)
{
	struct heap_line line = {.type = SLICE("IMEMO"),
	                         .imemo_type = SLICE("constcache"),
	                         .has_address = true,
	                         .address = address_of(object),
	                         .memsize = object + 1};

	return add_line(making, &line, references, count);
}

static void close_graph(struct making *making)
{
	heap_holders_free(&making->holders);
	heap_summary_close(&making->summary);
	heap_classes_free(&making->classes);
}

/* --- The definition: a dominates b where b is not reached without a. */

struct plain {
	uint32_t count;
	bool edge[NODES_MAX][NODES_MAX]; /* objects */
	bool root[NODES_MAX];
};

static void reach_without(const struct plain *plain, uint32_t without, bool *reached)
{
	bool more = true;

	memset(reached, 0, plain->count * sizeof(*reached));
	for (uint32_t i = 0; i < plain->count; i++)
		reached[i] = plain->root[i] && i != without;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < plain->count; i++)
			for (uint32_t j = 0; j < plain->count && reached[i]; j++)
				if (plain->edge[i][j] && j != without && !reached[j])
					reached[j] = more = true;
	}
}

static void random_plain(struct plain *plain, unsigned *seed)
{
	memset(plain, 0, sizeof(*plain));
	plain->count = 1 + (uint32_t)rand_r(seed) % NODES_MAX;
	for (uint32_t i = 0; i < plain->count; i++) {
		plain->root[i] = rand_r(seed) % (int)plain->count < 2;
		for (uint32_t edges = (uint32_t)rand_r(seed) % 4; edges > 0; edges--)
			plain->edge[i][(uint32_t)rand_r(seed) % plain->count] = true;
	}
}

/* In any order; nodes[] gets the node of each object. */
static void make_graph(struct making *making, const struct plain *plain, uint32_t *nodes, unsigned *seed)
{
	uint64_t references[2 * NODES_MAX];
	size_t count = 0;

	open_graph(making);
	for (uint32_t i = 0; i < plain->count; i++)
		if (plain->root[i])
			references[count++] = address_of(i);
	add_root(making, "vm", references, count);
	for (uint32_t at = 0, from = (uint32_t)rand_r(seed) % plain->count; at < plain->count; at++) {
		uint32_t i = (from + at) % plain->count;

		count = 0;
		for (uint32_t j = 0; j < plain->count; j++)
			if (plain->edge[i][j]) {
				references[count++] = address_of(j);
				if (rand_r(seed) % 8 == 0)
					references[count++] = address_of(j); /* twice */
			}
		nodes[i] = add_object(making, i, "OBJECT", references, count);
		assert_true(nodes[i] != HEAP_NODE_NONE);
	}
	heap_holders_find(&making->holders, &making->summary);
}

static void check_against(const struct making *making, const struct plain *plain, const uint32_t *nodes)
{
	const struct heap_holders *holders = &making->holders;
	bool reached[NODES_MAX], without[NODES_MAX][NODES_MAX];
	uint64_t live = 0;

	reach_without(plain, HEAP_NODE_NONE, reached);
	for (uint32_t a = 0; a < plain->count; a++)
		reach_without(plain, a, without[a]);
	for (uint32_t a = 0; a < plain->count; a++) {
		uint64_t retained = 0;

		assert_int_equal(heap_reach_has(&holders->reach, nodes[a]), reached[a]);
		assert_int_equal(holders->dominators.above[nodes[a]] != HEAP_NODE_NONE, reached[a]);
		if (!reached[a])
			continue;
		live += a + 1;
		for (uint32_t b = 0; b < plain->count; b++) {
			bool dominates = reached[b] && !without[a][b], is_above = false;

			retained += dominates ? b + 1 : 0;
			for (uint32_t at = nodes[b]; reached[b] && at != HEAP_NODE_NONE; at = holders->dominators.above[at])
				is_above = is_above || at == nodes[a];
			assert_int_equal(dominates, is_above);
		}
		assert_true(holders->dominators.retained[nodes[a]] == retained);
	}
	assert_true(holders->live.bytes == live);
	assert_true(holders->dominators.retained[0] == live);
	assert_int_equal(holders->live.objects + holders->garbage.objects, plain->count);
}

static void random_graphs(void **state)
{
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		uint32_t nodes[NODES_MAX];
		struct making making;
		struct plain plain;

		random_plain(&plain, &seed);
		make_graph(&making, &plain, nodes, &seed);
		check_against(&making, &plain, nodes);
		close_graph(&making);
	}
}

/* Distances by repeated relaxing. */
static void paths_are_shortest(void **state)
{
	unsigned seed = 77;

	(void)state;
	for (int round = 0; round < 300; round++) {
		uint32_t nodes[NODES_MAX], distance[NODES_MAX];
		struct making making;
		struct plain plain;

		random_plain(&plain, &seed);
		make_graph(&making, &plain, nodes, &seed);
		for (uint32_t i = 0; i < plain.count; i++)
			distance[i] = plain.root[i] ? 2 : 1000;
		for (uint32_t turn = 0; turn < plain.count; turn++)
			for (uint32_t i = 0; i < plain.count; i++)
				for (uint32_t j = 0; j < plain.count; j++)
					if (plain.edge[i][j] && distance[i] + 1 < distance[j])
						distance[j] = distance[i] + 1;
		for (uint32_t i = 0; i < plain.count; i++) {
			uint32_t length = 0;

			for (uint32_t at = nodes[i]; at && distance[i] < 1000; at = making.holders.reach.parents[at])
				length++;
			assert_int_equal(length, distance[i] < 1000 ? distance[i] : 0);
		}
		close_graph(&making);
	}
}

static void a_list_of_a_million(void **state)
{
	enum { COUNT = 1000000 };
	struct heap_paths paths;
	struct making making;
	uint64_t next = address_of(0);

	(void)state;
	open_graph(&making);
	add_root(&making, "vm", &next, 1);
	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t references[] = {address_of(i + 1), address_of(0)}; /* the last one's next is not in the dump */

		add_object(&making, i, "OBJECT", references, 2);
	}
	heap_holders_find(&making.holders, &making.summary);
	assert_int_equal(making.holders.graph.dangling, 1);
	assert_int_equal(making.holders.live.objects, COUNT);
	assert_int_equal(heap_paths_pick_address(&making.holders, address_of(COUNT - 1)), 1);
	heap_paths_find(&paths, &making.holders);
	assert_int_equal(paths.step_count, 2); /* the root, and a chain */
	assert_int_equal(paths.end_count, 1);
	assert_int_equal(paths.steps[paths.ends[0]].objects, COUNT);
	assert_true(paths.steps[paths.ends[0]].is_chain);
	assert_int_equal(paths.steps[paths.ends[0]].ends.objects, 1);
	assert_int_equal(paths.retained, COUNT);
	heap_paths_free(&paths);
	close_graph(&making);
}

/* A stack refers to 2 directly, code as well, and a global by way of 0 and 1. */
static void the_path_that_lasts(void **state)
{
	uint64_t to_0 = address_of(0), to_1 = address_of(1), to_2 = address_of(2), to_3 = address_of(3);
	uint32_t global, node_0, node_1, node_2, node_3, code;
	const struct heap_reach *reach;
	struct making making;

	(void)state;
	open_graph(&making);
	add_root(&making, "thread 0x10", &to_2, 1);
	global = add_root(&making, "vm", (uint64_t[]){to_0, address_of(4)}, 2);
	node_0 = add_object(&making, 0, "HASH", &to_1, 1);
	node_1 = add_object(&making, 1, "ARRAY", &to_2, 1);
	node_2 = add_object(&making, 2, "OBJECT", NULL, 0);
	node_3 = add_object(&making, 3, "OBJECT", NULL, 0);
	code = add_code(&making, 4, (uint64_t[]){to_1, to_3}, 2);
	heap_holders_find(&making.holders, &making.summary);
	reach = &making.holders.reach;
	assert_int_equal(reach->parents[node_2], node_1);
	assert_int_equal(reach->parents[node_1], node_0);
	assert_int_equal(reach->parents[node_0], global);
	/* The cache holds what nothing else holds, and not what it has found elsewhere. */
	assert_int_equal(reach->parents[node_3], code);
	assert_int_equal(making.holders.dominators.above[node_3], code);
	assert_int_equal(making.holders.dominators.above[node_1], node_0);
	/* The stack holds it, too. */
	assert_int_equal(making.holders.dominators.above[node_2], 0);
	close_graph(&making);
}

/* YJIT's root and what is rbprobe's are nearer to 1 than a global, which has it by way of 0. */
static void the_path_without_bystanders(void **state)
{
	uint64_t to_1 = address_of(1), to_2 = address_of(2);
	struct heap_line own = {.type = SLICE("DATA"), .has_address = true, .address = address_of(4), .memsize = 40};
	struct heap_references references = {.items = (uint64_t[]){to_1, address_of(3)}, .count = 2};
	uint32_t compiler, node_0, node_1, node_2, node_3, node_own;
	const struct heap_reach *reach;
	struct making making;

	(void)state;
	open_graph(&making);
	compiler = add_root(&making, "YJIT", (uint64_t[]){to_1, to_2}, 2);
	add_root(&making, "vm", (uint64_t[]){address_of(0), address_of(4)}, 2);
	node_own = heap_graph_add(&making.holders.graph, &own, &references, heap_summary_add(&making.summary, &own), true);
	node_0 = add_object(&making, 0, "HASH", &to_1, 1);
	node_1 = add_object(&making, 1, "OBJECT", NULL, 0);
	node_2 = add_object(&making, 2, "OBJECT", NULL, 0);
	node_3 = add_object(&making, 3, "OBJECT", NULL, 0);
	heap_holders_find(&making.holders, &making.summary);
	reach = &making.holders.reach;
	assert_int_equal(reach->parents[node_1], node_0);
	assert_int_equal(making.holders.dominators.above[node_1], node_0);
	/* What nothing else holds. */
	assert_int_equal(reach->parents[node_2], compiler);
	assert_int_equal(reach->parents[node_3], node_own);
	close_graph(&making);
}

/* YJIT before Ruby 3.3: its root is an object that the VM's root has. */
static void the_path_without_an_older_compiler(void **state)
{
	uint64_t to_1 = address_of(1);
	struct heap_line yjit = {.type = SLICE("DATA"),
	                         .struct_name = SLICE("yjit_root"),
	                         .has_address = true,
	                         .address = address_of(2),
	                         .memsize = 40};
	struct making making;
	uint32_t node_0, node_1;

	(void)state;
	open_graph(&making);
	add_root(&making, "vm", (uint64_t[]){address_of(0), address_of(2)}, 2);
	add_line(&making, &yjit, &to_1, 1);
	node_0 = add_object(&making, 0, "HASH", &to_1, 1);
	node_1 = add_object(&making, 1, "OBJECT", NULL, 0);
	heap_holders_find(&making.holders, &making.summary);
	assert_int_equal(making.holders.reach.parents[node_1], node_0);
	assert_int_equal(making.holders.dominators.above[node_1], node_0);
	close_graph(&making);
}

static void what_is_no_graph(void **state)
{
	uint64_t to_itself = address_of(0);
	struct heap_line high = {.type = SLICE("OBJECT"), .has_address = true, .address = UINT64_MAX, .memsize = 7};
	struct making making;

	(void)state;
	open_graph(&making);
	add_root(&making, "vm", (uint64_t[]){to_itself, 0, UINT64_MAX, 1ull << 63, 12345}, 5);
	assert_true(add_object(&making, 0, "OBJECT", &to_itself, 1) != HEAP_NODE_NONE);
	/* Again, with a reference that must not count. */
	assert_int_equal(add_object(&making, 0, "OBJECT", (uint64_t[]){address_of(1)}, 1), HEAP_NODE_NONE);
	assert_true(add_object(&making, 1, "OBJECT", NULL, 0) != HEAP_NODE_NONE);
	assert_int_equal(add_line(&making, &high, NULL, 0), HEAP_NODE_NONE);
	assert_int_equal(add_root(&making, "rbprobe", (uint64_t[]){address_of(1)}, 1), HEAP_NODE_NONE);
	heap_holders_find(&making.holders, &making.summary);
	assert_int_equal(making.holders.graph.duplicates, 2);
	assert_int_equal(making.holders.graph.dangling, 4);
	assert_int_equal(making.holders.live.objects, 1);
	assert_int_equal(making.holders.garbage.objects, 1);
	close_graph(&making);
	/* Nothing at all. */
	open_graph(&making);
	heap_holders_find(&making.holders, &making.summary);
	assert_int_equal(making.holders.live.objects, 0);
	close_graph(&making);
}

static void addresses_in_pieces(void **state)
{
	static const char text[] = "[\"0x7f01\", \"0xABC\",\"12\", \"0x\", \"0xg\", \"0x11112222333344445\", \"0x2\"]";
	struct heap_references references = {0};

	(void)state;
	for (size_t piece = 1; piece < sizeof(text); piece++) {
		heap_references_clear(&references);
		for (size_t at = 0; at < sizeof(text) - 1; at += piece) {
			size_t left = sizeof(text) - 1 - at;

			heap_references_scan(&references, (struct slice){text + at, left < piece ? left : piece});
		}
		assert_int_equal(references.count, 3);
		assert_true(references.items[0] == 0x7f01 && references.items[1] == 0xabc && references.items[2] == 2);
	}
	heap_references_free(&references);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_graphs),
		cmocka_unit_test(paths_are_shortest),
		cmocka_unit_test(a_list_of_a_million),
		cmocka_unit_test(the_path_that_lasts),
		cmocka_unit_test(the_path_without_bystanders),
		cmocka_unit_test(the_path_without_an_older_compiler),
		cmocka_unit_test(what_is_no_graph),
		cmocka_unit_test(addresses_in_pieces),
	};

	return cmocka_run_group_tests_name("heap_holders", tests, NULL, NULL);
}
