/* Memory samples for people and for programs. See memory_report.h. */

#define _GNU_SOURCE
#include "tracer/commands/memory_report.h"

#include "proto/clock.h"
#include "tracer/base/fold.h"
#include "tracer/base/json.h"
#include "tracer/base/value.h"

#include <inttypes.h>
#include <stdio.h>

#define LABEL_WIDTH 10
#define ROWS_MAX 100u
#define NAME_LEAST 6u /* columns */
#define NUMBER_WIDTH 13
#define COLUMN_WIDTH 40
#define BESIDE_LEAST 70u /* columns; with fewer, types and classes are one below the other */
/* Far more than a process that speaks the truth has, or was asked for. */
#define TYPES_MAX 64u
#define CLASSES_MAX 1000u

void memory_sample_take(struct memory_sample *sample, const struct target *target, const msgpack_object *answer)
{
	msgpack_packer packer;

	memset(sample, 0, sizeof(*sample));
	sample->wall_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	process_memory_read(&sample->process, target->pid);
	msgpack_sbuffer_init(&sample->packed);
	msgpack_packer_init(&packer, &sample->packed, msgpack_sbuffer_write);
	msgpack_pack_object(&packer, *answer);
	msgpack_unpacked_init(&sample->ruby);
	msgpack_unpack_next(&sample->ruby, sample->packed.data, sample->packed.size, NULL);
}

void memory_sample_free(struct memory_sample *sample)
{
	if (!sample->packed.data)
		return;
	msgpack_unpacked_destroy(&sample->ruby);
	msgpack_sbuffer_destroy(&sample->packed);
	memset(sample, 0, sizeof(*sample));
}

/* --- Numbers for people */

static void add_grouped(struct buffer *buffer, uint64_t number)
{
	char digits[32], grouped[48];
	int size = snprintf(digits, sizeof(digits), "%" PRIu64, number), to = 0;

	for (int i = 0; i < size; i++) {
		if (i > 0 && (size - i) % 3 == 0)
			grouped[to++] = ',';
		grouped[to++] = digits[i];
	}
	buffer_add(buffer, grouped, (size_t)to);
}

/* " (+12)" where there is a difference to show. */
static void add_difference(struct buffer *buffer, uint64_t now, const uint64_t *before, void (*add)(struct buffer *, uint64_t))
{
	if (!before || *before == now)
		return;
	buffer_add_text(buffer, now > *before ? " (+" : " (-");
	add(buffer, now > *before ? now - *before : *before - now);
	buffer_add_char(buffer, ')');
}

/* before: NULL where there is none to compare with. */
static void add_both(struct buffer *buffer, uint64_t now, const uint64_t *before, void (*add)(struct buffer *, uint64_t),
                     const char *words)
{
	add(buffer, now);
	add_difference(buffer, now, before, add);
	buffer_add_text(buffer, words);
}

/* --- The lines */

struct report {
	struct buffer *buffer;
	const struct memory_sample *sample;
	const struct memory_sample *before; /* NULL: none */
	unsigned width;                     /* 0: no limit */
};

static const msgpack_object *in(const struct memory_sample *sample, const char *map, const char *key)
{
	return sample ? value_get(value_get(&sample->ruby.data, map), key) : NULL;
}

static bool has_gc(const struct report *report, const char *key)
{
	return in(report->sample, "gc", key) != NULL;
}

static uint64_t gc(const struct report *report, const char *key)
{
	return value_uint(in(report->sample, "gc", key));
}

static void add_gc(const struct report *report, const char *key, void (*add)(struct buffer *, uint64_t), const char *words)
{
	uint64_t before = value_uint(in(report->before, "gc", key));

	add_both(report->buffer, gc(report, key), report->before ? &before : NULL, add, words);
}

static void add_label(const struct report *report, const char *label)
{
	buffer_add_format(report->buffer, "%-*s ", LABEL_WIDTH, label);
}

static void add_process(const struct report *report)
{
	const struct process_memory *now = &report->sample->process;
	const struct process_memory *before = report->before && report->before->process.known ? &report->before->process : NULL;
	struct buffer *buffer = report->buffer;

	add_label(report, "memory");
	if (!now->known) {
		buffer_add_text(buffer, "not known: /proc could not be read\n");
		return;
	}
	add_both(buffer, now->resident, before ? &before->resident : NULL, buffer_add_size, " resident");
	if (now->proportional) {
		buffer_add_text(buffer, ", ");
		add_both(buffer, now->proportional, before ? &before->proportional : NULL, buffer_add_size,
		         " proportional (PSS), ");
		add_both(buffer, now->private_dirty, before ? &before->private_dirty : NULL, buffer_add_size, " private dirty, ");
		add_both(buffer, now->swapped, before ? &before->swapped : NULL, buffer_add_size, " swapped");
	}
	buffer_add_char(buffer, '\n');
}

static void add_slots(const struct report *report)
{
	struct buffer *buffer = report->buffer;
	uint64_t live = gc(report, "heap_live_slots"), all = live + gc(report, "heap_free_slots");

	add_label(report, "slots");
	add_gc(report, "heap_live_slots", add_grouped, " live, ");
	add_gc(report, "heap_free_slots", add_grouped, " free: ");
	buffer_add_format(buffer, "%.0f %% used; ", all ? 100.0 * (double)live / (double)all : 0.0);
	add_gc(report, "heap_allocated_pages", add_grouped, " pages\n");
	add_label(report, "allocated");
	add_gc(report, "total_allocated_objects", add_grouped, " objects since the start, ");
	add_gc(report, "total_freed_objects", add_grouped, " freed");
	if (has_gc(report, "old_objects")) {
		buffer_add_text(buffer, "; ");
		add_gc(report, "old_objects", add_grouped, " old");
	}
	buffer_add_char(buffer, '\n');
}

static void add_ms(struct buffer *buffer, uint64_t ns)
{
	buffer_add_format(buffer, "%.1f ms", (double)ns / 1e6);
}

/* GC.stat's time is in whole milliseconds; GC.total_time, where there is one, is exact. */
static uint64_t gc_time_ns(const struct memory_sample *sample)
{
	const msgpack_object *exact = value_get(&sample->ruby.data, "gc_total_time_ns");

	return exact ? value_uint(exact) : value_uint(in(sample, "gc", "time")) * NS_PER_MS;
}

static void add_collections(const struct report *report)
{
	struct buffer *buffer = report->buffer;

	add_label(report, "GC");
	add_gc(report, "count", add_grouped, " runs: ");
	add_gc(report, "minor_gc_count", add_grouped, " minor, ");
	add_gc(report, "major_gc_count", add_grouped, " major");
	if (has_gc(report, "time") || value_get(&report->sample->ruby.data, "gc_total_time_ns")) {
		uint64_t before = report->before ? gc_time_ns(report->before) : 0;

		buffer_add_text(buffer, "; they took ");
		add_both(buffer, gc_time_ns(report->sample), report->before ? &before : NULL, add_ms, "");
	}
	buffer_add_char(buffer, '\n');
	add_label(report, "malloc");
	add_gc(report, "malloc_increase_bytes", buffer_add_size, " of ");
	add_gc(report, "malloc_increase_bytes_limit", buffer_add_size, " until a GC; by old objects ");
	add_gc(report, "oldmalloc_increase_bytes", buffer_add_size, " of ");
	add_gc(report, "oldmalloc_increase_bytes_limit", buffer_add_size, " until a major one\n");
}

/* --- Tables */

static const msgpack_object_map *map_of(const msgpack_object *value)
{
	static const msgpack_object_map empty = {.size = 0};

	return value && value->type == MSGPACK_OBJECT_MAP ? &value->via.map : &empty;
}

struct heap_slots {
	uint64_t slots, live, pages;
	bool has_live;
};

static void add_heap(const struct report *report, const struct heap_slots *heap)
{
	add_grouped(report->buffer, heap->slots);
	if (heap->has_live) {
		buffer_add_text(report->buffer, ", live ");
		add_grouped(report->buffer, heap->live);
	}
	buffer_add_text(report->buffer, " in ");
	add_grouped(report->buffer, heap->pages);
	buffer_add_text(report->buffer, " pages\n");
}

/* So many sizes of slots have a line each, all others one together. */
static void add_heaps(const struct report *report, size_t sizes)
{
	const msgpack_object_map *heaps = map_of(value_get(&report->sample->ruby.data, "heaps"));
	struct heap_slots others = {0};

	for (uint32_t i = 0; i < heaps->size; i++) {
		const msgpack_object *heap = &heaps->ptr[i].val, *live = value_get(heap, "heap_live_slots");
		const struct heap_slots one = {.slots = value_uint(value_get(heap, "heap_eden_slots")),
		                               .live = value_uint(live),
		                               .pages = value_uint(value_get(heap, "heap_eden_pages")),
		                               .has_live = live != NULL};

		if (i >= sizes) {
			others = (struct heap_slots){others.slots + one.slots, others.live + one.live, others.pages + one.pages,
			                             one.has_live};
			continue;
		}
		buffer_add_format(report->buffer, "%-*s %6" PRIu64 " bytes: ", LABEL_WIDTH, i ? "" : "slots of",
		                  value_uint(value_get(heap, "slot_size")));
		add_heap(report, &one);
	}
	if (heaps->size <= sizes)
		return;
	buffer_add_format(report->buffer, "%-*s %6zu others: ", LABEL_WIDTH, "", heaps->size - sizes);
	add_heap(report, &others);
}

struct row {
	struct slice name;
	uint64_t count;
	uint64_t before;
	bool known_before;
};

struct rows {
	struct row items[ROWS_MAX];
	size_t count;
};

static void rows_add(struct rows *rows, struct row row)
{
	size_t at;

	if (rows->count == ROWS_MAX)
		return;
	for (at = rows->count++; at > 0 && rows->items[at - 1].count < row.count; at--)
		rows->items[at] = rows->items[at - 1];
	rows->items[at] = row;
}

static void collect_types(const struct report *report, struct rows *rows)
{
	const msgpack_object_map *types = map_of(in(report->sample, "objects", "types"));

	for (uint32_t i = 0; i < types->size && i < TYPES_MAX; i++) {
		struct row row = {.name = value_text(&types->ptr[i].key), .count = value_uint(&types->ptr[i].val)};
		char name[64];
		const msgpack_object *before;

		snprintf(name, sizeof(name), "%.*s", (int)row.name.size, row.name.bytes);
		before = value_get(in(report->before, "objects", "types"), name);
		row.before = value_uint(before);
		row.known_before = before != NULL;
		rows_add(rows, row);
	}
}

/* A class that was not among the most frequent ones before has no difference. */
static void collect_classes(const struct report *report, struct rows *rows)
{
	const msgpack_object *classes = in(report->sample, "objects", "classes");
	const msgpack_object *others = in(report->before, "objects", "classes");

	for (uint32_t i = 0; i < value_count(classes) && i < CLASSES_MAX; i++) {
		const msgpack_object *class = value_at(classes, i);
		struct row row = {.name = value_text(value_get(class, "name")), .count = value_uint(value_get(class, "count"))};

		for (uint32_t k = 0; k < value_count(others) && k < CLASSES_MAX; k++) {
			const msgpack_object *other = value_at(others, k);
			struct slice name = value_text(value_get(other, "name"));

			if (name.size == row.name.size && memcmp(name.bytes, row.name.bytes, name.size) == 0) {
				row.before = value_uint(value_get(other, "count"));
				row.known_before = true;
			}
		}
		rows_add(rows, row);
	}
}

/* Where there is not so much room, the name is cut, and no number. room 0: no limit. */
static void add_name(struct buffer *buffer, const struct row *row, unsigned room)
{
	struct buffer name = {0}, difference = {0};

	buffer_add_printable(&name, row->name.bytes, row->name.size);
	add_difference(&difference, row->count, row->known_before ? &row->before : NULL, add_grouped);
	if (room && room < difference.size + NAME_LEAST)
		room = (unsigned)difference.size + NAME_LEAST;
	if (room && fold_bytes(name.bytes, name.size, room - (unsigned)difference.size) < name.size) {
		name.size = fold_bytes(name.bytes, name.size, room - (unsigned)difference.size - 2);
		buffer_add_text(&name, "..");
	}
	buffer_add(buffer, name.bytes, name.size);
	buffer_add(buffer, difference.bytes, difference.size);
	buffer_free(&name);
	buffer_free(&difference);
}

static size_t add_cell(struct buffer *buffer, const struct rows *rows, size_t index, unsigned room)
{
	size_t start = buffer->size;

	if (index < rows->count) {
		const struct row *row = &rows->items[index];
		struct buffer number = {0};

		add_grouped(&number, row->count);
		buffer_add_format(buffer, "%*.*s", NUMBER_WIDTH, (int)number.size, number.bytes);
		buffer_add_char(buffer, ' ');
		add_name(buffer, row, room);
		buffer_free(&number);
	}
	return buffer->size - start;
}

static void add_columns(const struct report *report, const struct rows *types, const struct rows *classes, size_t top)
{
	bool limited = report->width > 0 && report->width < 4 * COLUMN_WIDTH;
	unsigned first = limited ? COLUMN_WIDTH - NUMBER_WIDTH - 2 : 0;
	unsigned second = limited ? report->width - COLUMN_WIDTH - NUMBER_WIDTH - 1 : 0;
	struct buffer *buffer = report->buffer;

	buffer_add_format(buffer, "\n%*s %-*s%*s %s\n", NUMBER_WIDTH, "objects", COLUMN_WIDTH - NUMBER_WIDTH - 1, "of type",
	                  NUMBER_WIDTH, "objects", "of class");
	for (size_t i = 0; i < top && (i < types->count || i < classes->count); i++) {
		size_t used = add_cell(buffer, types, i, first);

		if (i < classes->count)
			buffer_add_spaces(buffer, used < COLUMN_WIDTH ? COLUMN_WIDTH - used : 1);
		add_cell(buffer, classes, i, second);
		buffer_add_char(buffer, '\n');
	}
}

/* One below the other, where there is no room for both. */
static void add_column(const struct report *report, const struct rows *rows, const char *title, size_t top)
{
	unsigned room = report->width > NUMBER_WIDTH + 1 + NAME_LEAST ? report->width - NUMBER_WIDTH - 1 : NAME_LEAST;

	buffer_add_format(report->buffer, "\n%*s %s\n", NUMBER_WIDTH, "objects", title);
	for (size_t i = 0; i < top && i < rows->count; i++) {
		add_cell(report->buffer, rows, i, room);
		buffer_add_char(report->buffer, '\n');
	}
}

static void add_objects(const struct report *report, size_t top)
{
	const msgpack_object *objects = value_get(&report->sample->ruby.data, "objects");
	struct buffer *buffer = report->buffer;
	struct rows types = {0}, classes = {0};
	uint64_t all = gc(report, "heap_live_slots") + gc(report, "heap_free_slots");

	if (!objects)
		return;
	collect_types(report, &types);
	collect_classes(report, &classes);
	if (report->width > 0 && report->width < BESIDE_LEAST) {
		add_column(report, &types, "of type", top);
		add_column(report, &classes, "of class", top);
	} else {
		add_columns(report, &types, &classes, top);
	}
	buffer_add_format(buffer, "(%" PRIu64 " classes in all; ", value_uint(value_get(objects, "class_count")));
	if (value_uint(value_get(objects, "own")))
		buffer_add_format(buffer, "%" PRIu64 " objects of rbprobe's are left out; ",
		                  value_uint(value_get(objects, "own")));
	buffer_add_text(buffer, "counting stopped the process for ");
	add_ms(buffer, value_uint(value_get(objects, "pause_ns")));
	if (value_bool(value_get(objects, "cut")))
		buffer_add_format(buffer,
		                  " and was broken off there: these are about %.0f %% of the heap; --pause MS allows more",
		                  all ? 100.0 * (double)value_uint(value_get(objects, "slots")) / (double)all : 0.0);
	buffer_add_text(buffer, ")\n");
}

static void add_time(struct buffer *buffer, int64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / (int64_t)NS_PER_S);
	char text[64];
	struct tm local;

	localtime_r(&seconds, &local);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
	buffer_add_text(buffer, text);
}

void memory_report_text(struct buffer *buffer, const struct target *target, const struct memory_sample *sample,
                        const struct memory_sample *before, const struct memory_rows *rows, unsigned width)
{
	struct report report = {buffer, sample, before, width};
	size_t start = buffer->size;
	char command[80];

	target_command_line(target, command, sizeof(command));
	add_time(buffer, sample->wall_ns);
	buffer_add_format(buffer, "  process %d  ", (int)target->pid);
	buffer_add_printable(buffer, command, strlen(command));
	buffer_add_char(buffer, '\n');
	add_process(&report);
	add_slots(&report);
	add_heaps(&report, rows->sizes);
	add_collections(&report);
	add_objects(&report, rows->classes);
	buffer_fold(buffer, start, width, LABEL_WIDTH + 1);
}

void memory_report_json(struct buffer *buffer, const struct target *target, const struct memory_sample *sample)
{
	const struct process_memory *memory = &sample->process;

	json_open_object(buffer);
	json_member_string(buffer, "type", "memory");
	json_member_int(buffer, "pid", target->pid);
	json_member_int(buffer, "time_ns", sample->wall_ns);
	if (memory->known)
		json_member_uint(buffer, "resident", memory->resident);
	if (memory->proportional) {
		json_member_uint(buffer, "proportional", memory->proportional);
		json_member_uint(buffer, "private_dirty", memory->private_dirty);
		json_member_uint(buffer, "swapped", memory->swapped);
	}
	value_add_json(json_key(buffer, "ruby"), &sample->ruby.data);
	json_close_line(buffer);
}
