/* The table of what was found of the VM's structures. See layout.h. Context: job. */

#include "tracee/vm/layout.h"

enum unit { WORD, BYTE, BIT, VALUE, ADDRESS, BEFORE };

static const struct {
	enum unit unit;
	const char *name, *what;
} rows[LAYOUT_ROWS] = {
#define ROW(NAME, unit, name, what) [LAYOUT_##NAME] = {unit, name, what},
	LAYOUT_TABLE(ROW)
#undef ROW
};

uintptr_t layout_values[LAYOUT_ROWS];
bool layout_known[LAYOUT_ROWS];
static const char *reasons[LAYOUT_ROWS]; /* NULL: known, or not looked for */

bool layout_found(enum layout_row row, uintptr_t value)
{
	if (layout_known[row])
		return layout_values[row] == value;
	layout_values[row] = value;
	layout_known[row] = true;
	reasons[row] = NULL;
	return true;
}

void layout_not_found(enum layout_row row, const char *why)
{
	if (!layout_known[row])
		reasons[row] = why;
}

void layout_describe(enum layout_row row, struct text *text)
{
	static const char *const formats[] = {[WORD] = "word %lu ",   [BYTE] = "byte %lu ",         [BIT] = "bit %lu ",
	                                      [VALUE] = "value %lu ", [ADDRESS] = "address 0x%lx ", [BEFORE] = "word -%lu "};

	text_printf(text, "%s: ", rows[row].name);
	if (layout_known[row])
		text_printf(text, formats[rows[row].unit], (unsigned long)layout_values[row]);
	else
		text_printf(text, "%s%s, ", reasons[row] ? "not found: " : "not looked for", reasons[row] ? reasons[row] : "");
	text_append_cstr(text, rows[row].what);
}
