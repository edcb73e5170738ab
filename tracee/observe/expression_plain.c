/* Values that are shown without calling anything. See expression.h. Context: event, GVL held. */

#include "tracee/observe/expression_parts.h"

#include "tracee/base/value_texts.h"
#include "tracee/vm/capture.h"

#define PLAIN_VALUES_MAX 8u

/* All of them, before the first is rendered: what is done for one would be done again where the last is not plain. */
static bool find_values(struct expression_list *list, const struct seen_call *call, VALUE values[PLAIN_VALUES_MAX])
{
	if (list->count > PLAIN_VALUES_MAX)
		return false;
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->items[i].switched_off)
			return false;
		values[i] = expression_value_at_hand(&list->items[i], call);
		if (!expression_is_simple(values[i]))
			return false;
	}
	return true;
}

size_t expression_list_render_plain(struct expression_list *list, const struct seen_call *call,
                                    const struct trace_options *options, char *buffer, size_t size)
{
	VALUE values[PLAIN_VALUES_MAX];
	struct value_texts texts;

	if (options->flags & TRACE_INSPECT || !find_values(list, call, values))
		return 0;
	value_texts_begin(&texts, buffer, size);
	for (uint32_t i = 0; i < list->count; i++) {
		struct text text;

		if (!value_texts_open(&texts, &text))
			return 0;
		capture_value(&text, values[i], options);
		value_texts_close(&texts, &text);
	}
	return value_texts_end(&texts);
}
