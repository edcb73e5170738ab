/* Any text as a selector on the command line. */

#include "tracer/cli/selector.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct selector_list list = {0};
	struct error err;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, bytes, size);
	text[size] = '\0';
	if (selector_parse(&list, text, &err) == 0)
		for (uint32_t i = 0; i < list.count; i++)
			for (uint32_t e = 0; e < list.items[i].expression_count; e++) {
				const struct slice *expression = &list.items[i].expressions[e];

				/* It lies within the text. */
				if (expression->bytes < text || expression->bytes + expression->size > text + size)
					__builtin_trap();
			}
	selector_list_free(&list);
	free(text);
	return 0;
}
