/* Lies about what was counted. */

#include "tests/security/liar/lie.h"

#include <stdlib.h>

static void pack_key(msgpack_packer *packer, const char *key)
{
	msgpack_pack_str(packer, strlen(key));
	msgpack_pack_str_body(packer, key, strlen(key));
}

static void pack_pair(msgpack_packer *packer, const char *key, uint64_t number)
{
	pack_key(packer, key);
	msgpack_pack_uint64(packer, number);
}

static void pack_text_of(msgpack_packer *packer, const char *words)
{
	msgpack_pack_str(packer, strlen(words));
	msgpack_pack_str_body(packer, words, strlen(words));
}

#define NO_PARENT (UINT64_MAX - 1)

/* Figures of one method, with every bucket that there is, and that many calls in each. */
static void pack_figures(msgpack_packer *packer, uint32_t method, uint64_t calls, uint32_t buckets, uint64_t parent)
{
	msgpack_pack_map(packer, parent == NO_PARENT ? 13 : 15);
	if (parent != NO_PARENT) {
		pack_pair(packer, "parent", parent);
		pack_pair(packer, "folded", UINT64_MAX);
	}
	pack_key(packer, "key");
	pack_text_of(packer, "\x1b[31m\x9b\n\xff");
	pack_pair(packer, "cpu_ns", UINT64_MAX);
	pack_pair(packer, "objects", UINT64_MAX);
	pack_pair(packer, "gc_ns", UINT64_MAX);
	pack_pair(packer, "unmeasured", UINT64_MAX);
	pack_pair(packer, "method", method);
	pack_pair(packer, "calls", UINT64_MAX);
	pack_pair(packer, "errors", UINT64_MAX);
	pack_pair(packer, "total", UINT64_MAX);
	pack_pair(packer, "self", UINT64_MAX);
	pack_pair(packer, "min", UINT64_MAX);
	pack_pair(packer, "max", 0);
	pack_key(packer, "histogram");
	msgpack_pack_array(packer, 2 * buckets);
	for (uint32_t i = 0; i < buckets; i++) {
		msgpack_pack_uint32(packer, i);
		msgpack_pack_uint64(packer, calls);
	}
}

/* A piece of what was counted, of so many methods. rate 0: not the last one. parent: in a tree, where it is no sound one. */
static void add_statistics(struct lie *lie, uint32_t methods, uint64_t calls, uint32_t buckets, uint64_t rate, uint64_t parent)
{
	msgpack_sbuffer packed;
	msgpack_packer packer;

	msgpack_sbuffer_init(&packed);
	msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
	msgpack_pack_map(&packer, rate ? 4 : 1);
	pack_key(&packer, "methods");
	msgpack_pack_array(&packer, methods);
	for (uint32_t i = 0; i < methods; i++)
		pack_figures(&packer, i, calls, buckets, parent == NO_PARENT || parent > methods ? parent : i);
	if (rate) {
		pack_pair(&packer, "rate", rate);
		pack_pair(&packer, "elapsed_ns", UINT64_MAX);
		pack_pair(&packer, "open", UINT64_MAX);
	}
	lie_add_data(lie, &packed);
	msgpack_sbuffer_destroy(&packed);
}

/* Numbers as large as can be, and buckets that nothing is in, or none have. */
void impossible_statistics(struct lie *lie)
{
	static const uint64_t calls[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX};
	uint64_t which = strtoull(lie->argument, NULL, 10);

	for (uint32_t ref = 0; ref < 4; ref++)
		lie_add_method(lie, ref);
	add_statistics(lie, 4, calls[which % 4], which < 4 ? 4 : 3000, which % 2 ? UINT64_MAX : 1, which < 8 ? NO_PARENT : 0);
	lie_end(lie);
}

void statistics_of_nothing(struct lie *lie)
{
	lie_add_method(lie, 0);
	add_statistics(lie, 2, 1, 1, 1, NO_PARENT);
	lie_flush(lie);
}

void statistics_below_nothing(struct lie *lie)
{
	lie_add_method(lie, 0);
	lie_add_method(lie, 1);
	add_statistics(lie, 2, 1, 1, 1, UINT64_MAX);
	lie_flush(lie);
}

/* A tree as deep as it is long. */
void deep_statistics(struct lie *lie)
{
	for (uint32_t ref = 0; ref < 80; ref++)
		lie_add_method(lie, ref);
	add_statistics(lie, 80, 1, 1, 1, 0);
	lie_end(lie);
}

/* Of a report that never ends; each piece is said to be a whole answer. */
void statistics_for_ever(struct lie *lie)
{
	for (uint32_t ref = 0; ref < 20; ref++)
		lie_add_method(lie, ref);
	do {
		add_statistics(lie, 20, 1, 1920, 0, NO_PARENT);
		lie_add_done(lie);
	} while (lie_flush(lie));
}
