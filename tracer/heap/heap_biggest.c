/* The N largest of many, in memory for N. See heap_biggest.h. */

#include "tracer/heap/heap_biggest.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

static bool is_less(uint64_t memsize, uint64_t address, const struct heap_object *than)
{
	return memsize != than->memsize ? memsize < than->memsize : address > than->address;
}

static bool less(const struct heap_object *a, const struct heap_object *b)
{
	return is_less(a->memsize, a->address, b);
}

bool heap_biggest_wants(const struct heap_biggest *biggest, uint64_t memsize, uint64_t address)
{
	return biggest->count < biggest->limit ||
	       (!is_less(memsize, address, &biggest->items[0]) && memsize >= biggest->items[0].memsize);
}

static void swap(struct heap_object *a, struct heap_object *b)
{
	struct heap_object kept = *a;

	*a = *b;
	*b = kept;
}

void heap_biggest_add(struct heap_biggest *biggest, const struct heap_object *object)
{
	struct heap_object *items;
	uint32_t place;

	if (!biggest->items)
		biggest->items = memory_zeroed(biggest->limit * sizeof(*biggest->items));
	items = biggest->items;
	if (biggest->count < biggest->limit) {
		place = biggest->count++;
		items[place] = *object;
		for (; place > 0 && less(&items[place], &items[(place - 1) / 2]); place = (place - 1) / 2)
			swap(&items[place], &items[(place - 1) / 2]);
		return;
	}
	items[0] = *object;
	place = 0;
	for (;;) {
		uint32_t least = place;

		for (uint32_t child = 2 * place + 1; child <= 2 * place + 2 && child < biggest->count; child++)
			if (less(&items[child], &items[least]))
				least = child;
		if (least == place)
			return;
		swap(&items[place], &items[least]);
		place = least;
	}
}

static int compare(const void *a, const void *b)
{
	return less(a, b) ? 1 : less(b, a) ? -1 : 0;
}

void heap_biggest_sort(struct heap_biggest *biggest)
{
	if (biggest->count)
		qsort(biggest->items, biggest->count, sizeof(*biggest->items), compare);
}

void heap_biggest_free(struct heap_biggest *biggest)
{
	free(biggest->items);
	biggest->items = NULL;
	biggest->count = 0;
}
