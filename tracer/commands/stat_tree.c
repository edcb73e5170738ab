/* Rows that are paths of calls, as a tree. See stat_columns.h. */

#include "tracer/commands/stat_columns.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* A row in the tree; the last one is the root, which no row stands for. */
struct branch {
	size_t parent, first, next; /* NONE: there is none */
	size_t level;
	bool shown;
};

/* The row whose path is this one's without its end; NONE: it begins there, or the process has not told of that row. */
static size_t parent_of(const struct stat_table *table, const struct stat_row *row)
{
	struct slice path = row->key, name;
	const struct stat_row *parent;

	while (path.size && path.bytes[path.size - 1] != STAT_PATH_SEPARATOR)
		path.size--;
	if (!path.size)
		return NONE;
	name = (struct slice){path.bytes, --path.size};
	while (name.size && name.bytes[name.size - 1] != STAT_PATH_SEPARATOR)
		name.size--;
	name = (struct slice){path.bytes + name.size, path.size - name.size};
	parent = stat_table_find(table, name, path);
	return parent ? (size_t)(parent - table->rows) : NONE;
}

/* The branches of a table, siblings in the order of the ranked rows. */
static struct branch *grow(const struct stat_table *table, const struct stat_line *ranked)
{
	struct branch *branches = memory_zeroed((table->count + 1) * sizeof(*branches));

	for (size_t i = 0; i <= table->count; i++)
		branches[i].first = branches[i].next = NONE;
	for (size_t i = table->count; i > 0; i--) {
		size_t at = (size_t)(ranked[i - 1].row - table->rows), parent = parent_of(table, ranked[i - 1].row);

		branches[at].parent = parent == NONE ? table->count : parent;
		branches[at].next = branches[branches[at].parent].first;
		branches[branches[at].parent].first = at;
	}
	branches[table->count].shown = true;
	return branches;
}

/* The first so many rows that have calls, and all around them. */
static void choose(const struct stat_table *table, const struct stat_line *ranked, struct branch *branches, uint64_t top)
{
	for (size_t i = 0, chosen = 0; i < table->count && (!top || chosen < top); i++) {
		if (!ranked[i].row->calls && !ranked[i].row->folded)
			continue;
		chosen++;
		for (size_t at = (size_t)(ranked[i].row - table->rows); !branches[at].shown; at = branches[at].parent)
			branches[at].shown = true;
	}
}

struct stat_line *stat_tree_arrange(const struct stat_table *table, const struct stat_view *view, size_t *count)
{
	struct stat_line *ranked = stat_columns_rank(table, view, count);
	struct stat_line *lines = memory_zeroed((table->count + 1) * sizeof(*lines));
	struct branch *branches = grow(table, ranked);
	size_t root = table->count, at = branches[root].first;

	choose(table, ranked, branches, view->top);
	*count = 0;
	while (at != NONE) {
		struct branch *branch = &branches[at];

		branch->level = branch->parent == root ? 0 : branches[branch->parent].level + 1;
		if (branch->shown)
			lines[(*count)++] = (struct stat_line){&table->rows[at], branch->level};
		if (branch->shown && branch->first != NONE) {
			at = branch->first;
			continue;
		}
		while (at != root && branches[at].next == NONE)
			at = branches[at].parent;
		at = branches[at].next;
	}
	free(branches);
	free(ranked);
	return lines;
}
