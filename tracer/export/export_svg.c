/*
 * A flame graph as an SVG that needs nothing else: a box for each node, as wide as its weight, above that of its caller; the box
 * says that where the mouse rests on it. No scripts. Boxes narrower than half a pixel are left out.
 */

#include "tracer/export/export.h"
#include "tracer/export/losses.h"

#include <inttypes.h>
#include <stdlib.h>

#define WIDTH 1200.0
#define ROW 16.0
#define TOP 40.0
#define LEAST 0.5     /* pixels */
#define CHARACTER 6.6 /* pixels of one, about */

/* Text in XML, so many characters at most. */
static void add_escaped(struct buffer *to, const char *bytes, size_t size, size_t most)
{
	struct buffer shown = {0};
	size_t characters = 0;

	buffer_add_printable(&shown, bytes, size);
	for (size_t i = 0; i < shown.size; i++) {
		characters += ((unsigned char)shown.bytes[i] & 0xc0) != 0x80;
		if (characters > most)
			break;
		switch (shown.bytes[i]) {
		case '<':
			buffer_add_text(to, "&lt;");
			break;
		case '>':
			buffer_add_text(to, "&gt;");
			break;
		case '&':
			buffer_add_text(to, "&amp;");
			break;
		default:
			buffer_add_char(to, shown.bytes[i]);
		}
	}
	buffer_free(&shown);
}

/* The same for the same name. */
static unsigned hue_of(struct slice name)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < name.size; i++)
		hash = (hash ^ (unsigned char)name.bytes[i]) * 16777619u;
	return 5 + hash % 50;
}

static void add_box(const struct profile_view *view, uint32_t number, double x, double y, double width, struct buffer *to)
{
	const struct profile_view_node *node = &view->nodes[number];
	const struct profile_unit *unit = profile_unit(view->weight);
	struct buffer name = {0};

	if (number)
		profile_view_name(view, node, &name);
	else
		buffer_add_text(&name, "all");
	buffer_add_text(to, "<g><title>");
	add_escaped(to, name.bytes, name.size, SIZE_MAX);
	buffer_add_format(to, " (%.*f%s, %.2f %%)</title>", unit->shown > 1 ? 3 : 0, (double)node->total / unit->shown,
	                  unit->suffix, 100 * (double)node->total / (double)view->total);
	buffer_add_format(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" rx=\"2\" fill=\"hsl(%u,80%%,62%%)\"/>",
	                  x, y, width, ROW - 1, hue_of((struct slice){name.bytes, name.size}));
	if (width > 4 * CHARACTER) {
		buffer_add_format(to, "<text x=\"%.1f\" y=\"%.1f\">", x + 3, y + ROW - 4.5);
		add_escaped(to, name.bytes, name.size, (size_t)((width - 4) / CHARACTER));
		buffer_add_text(to, "</text>");
	}
	buffer_add_text(to, "</g>\n");
	buffer_free(&name);
}

static uint32_t shown_depth(const struct profile_view *view, double scale)
{
	uint32_t depth = 0;

	for (uint32_t i = 0; i < view->node_count; i++)
		if ((double)view->nodes[i].total * scale >= LEAST && view->nodes[i].depth > depth)
			depth = view->nodes[i].depth;
	return depth;
}

static struct export_left write_svg(const struct profile_view *view, struct output *output)
{
	struct buffer *to = &output->buffer;
	const struct profile_unit *unit = profile_unit(view->weight);
	double scale = view->total ? WIDTH / (double)view->total : 0;
	double *places = memory_zeroed(view->node_count * sizeof(*places));
	uint32_t depth = shown_depth(view, scale);
	struct buffer losses = {0};
	double height = TOP + ROW * (depth + 1) + 10;

	buffer_add_format(to,
	                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
	                  "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"monospace\" font-size=\"11\">\n"
	                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fffdf5\"/>\n"
	                  "<text x=\"8\" y=\"22\" font-size=\"15\">rbprobe: %s, %.*f%s of all threads",
	                  WIDTH, height, WIDTH, height, unit->name, unit->shown > 1 ? 1 : 0, (double)view->total / unit->shown,
	                  unit->suffix);
	if (losses_add(view->profile, &losses)) {
		buffer_add_text(to, "; ");
		buffer_add(to, losses.bytes, losses.size);
	}
	buffer_free(&losses);
	buffer_add_text(to, "</text>\n");
	/* Parents come before their children, and give these their places. */
	for (uint32_t i = 0; i < view->node_count && view->total; i++) {
		const struct profile_view_node *node = &view->nodes[i];
		double width = (double)node->total * scale, x = places[i];

		for (uint32_t child = node->first_child; child; child = view->nodes[child].next) {
			places[child] = x;
			x += (double)view->nodes[child].total * scale;
		}
		if (width >= LEAST)
			add_box(view, i, places[i], TOP + ROW * (depth - node->depth), width, to);
		output_commit(output);
	}
	buffer_add_text(to, "</svg>\n");
	free(places);
	return (struct export_left){0};
}

const struct export_format export_svg = {.name = "svg", .profile = write_svg};
