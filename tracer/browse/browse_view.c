/* The lines of `rbprobe report --tui`. See browse_view.h. */

#include "tracer/browse/browse_view.h"

#include <inttypes.h>

#define INDENT_MAX 40u

static const char *const sorted_by[] = {
	[BROWSE_TOTAL] = "total", [BROWSE_SELF] = "self", [BROWSE_CALLS] = "calls", [BROWSE_NAME] = "name"};

void browse_view_title(const struct browse *browse, const char *about, struct buffer *to)
{
	buffer_add_text(to, about);
	buffer_add_format(to, ", by %s", sorted_by[browse->sort]);
}

void browse_view_heading(const struct browse *browse, struct buffer *to)
{
	buffer_add_text(to, "   total       %      self");
	if (browse->has_calls)
		buffer_add_text(to, "     calls errors");
	buffer_add_text(to, "  method");
}

static void add_bytes(struct buffer *to, double bytes)
{
	if (bytes < 1 << 20)
		buffer_add_format(to, "%5.1f KiB", bytes / 1024);
	else if (bytes < 1 << 30)
		buffer_add_format(to, "%5.1f MiB", bytes / (1 << 20));
	else
		buffer_add_format(to, "%5.1f GiB", bytes / (1 << 30));
}

static void add_time(struct buffer *to, double ns)
{
	if (ns < 1e6)
		buffer_add_format(to, "%6.1f us", ns / 1e3);
	else if (ns < 1e9)
		buffer_add_format(to, "%6.1f ms", ns / 1e6);
	else
		buffer_add_format(to, "%6.1f s ", ns / 1e9);
}

/* Nine columns. */
static void add_amount(const struct browse *browse, struct buffer *to, double amount)
{
	if (browse->unit == BROWSE_OBJECTS)
		buffer_add_format(to, "%9.0f", amount);
	else if (browse->unit == BROWSE_BYTES)
		add_bytes(to, amount);
	else
		add_time(to, amount);
}

void browse_view_row(const struct browse *browse, size_t number, struct buffer *to)
{
	const struct browse_node *node = &browse->nodes[browse->rows[browse->first + number]];
	uint32_t indent = node->level - 1;

	add_amount(browse, to, node->total);
	buffer_add_format(to, " %6.2f  ", browse->whole > 0 ? 100 * node->total / browse->whole : 0);
	add_amount(browse, to, node->self);
	if (browse->has_calls)
		buffer_add_format(to, " %9" PRIu64 " %6" PRIu64, node->calls, node->errors);
	buffer_add_text(to, "  ");
	buffer_add_spaces(to, 2 * (size_t)(indent < INDENT_MAX ? indent : INDENT_MAX));
	if (indent >= INDENT_MAX)
		buffer_add_format(to, "(%" PRIu32 ") ", indent);
	buffer_add_text(to, !node->first_child ? "  " : node->open ? "- " : "+ ");
	buffer_add_slice(to, node->name);
}

void browse_view_last(const struct browse *browse, struct buffer *to)
{
	if (browse->searching) {
		buffer_add_char(to, '/');
		buffer_add_printable(to, browse->pattern.bytes, browse->pattern.size);
	} else if (browse->said) {
		buffer_add_text(to, browse->said);
	} else {
		buffer_add_text(to, "Enter unfold  + - all below  h hottest  / search  n next  s sort  ? help  q quit");
	}
}
