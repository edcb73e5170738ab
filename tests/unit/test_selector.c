/* Selectors as people write them: what each means, and what is refused with the place of the mistake. */

#include "tracer/cli/selector.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

static void means(const char *text, const char *class_pattern, char separator, const char *method_pattern)
{
	struct selector_list list = {0};
	struct error err = {0};

	if (selector_parse(&list, text, &err) != 0)
		fail_msg("%s is refused: %s", text, err.text);
	assert_int_equal(list.count, 1);
	assert_slice(list.items[0].class_pattern, class_pattern);
	assert_int_equal(list.items[0].separator, separator);
	assert_slice(list.items[0].method_pattern, method_pattern);
	assert_int_equal(list.items[0].expression_count, 0);
	selector_list_free(&list);
}

static void a_method_of_a_class(void **state)
{
	(void)state;
	means("String#gsub", "String", '#', "gsub");
	means("Process.pid", "Process", '.', "pid");
	means("Billing::Invoice#total", "Billing::Invoice", '#', "total");
	means("sleep", "", 0, "sleep");
	means("Order#save!", "Order", '#', "save!");
	means("Order#paid?", "Order", '#', "paid?");
	means("Order#total=", "Order", '#', "total=");
	means("Order#12", "Order", '#', "12");
}

static void all_methods_of_a_class(void **state)
{
	(void)state;
	means("Kernel#", "Kernel", '#', "");
	means("Dir.", "Dir", '.', "");
}

static void operators(void **state)
{
	(void)state;
	means("String#+", "String", '#', "+");
	means("Array#[]", "Array", '#', "[]");
	means("Hash#[]=", "Hash", '#', "[]=");
	means("Integer#<=>", "Integer", '#', "<=>");
	means("Integer#-@", "Integer", '#', "-@");
	means("Object#!", "Object", '#', "!");
	means("String#=~", "String", '#', "=~");
	means("Integer#\\*", "Integer", '#', "\\*");
}

static void globs(void **state)
{
	(void)state;
	means("Billing::*#*charge*", "Billing::*", '#', "*charge*");
	means("*#save", "*", '#', "save");
	means("*.new", "*", '.', "new");
}

static void classes_without_a_name(void **state)
{
	(void)state;
	means("#<Class:0x00007f50>#save", "#<Class:0x00007f50>", '#', "save");
	means("#<Class:#<Object:0x1>>.open", "#<Class:#<Object:0x1>>", '.', "open");
	means("#<Module:0x1>::Order#", "#<Module:0x1>::Order", '#', "");
	means("#<refinement:String@Shop::Ext>#shout", "#<refinement:String@Shop::Ext>", '#', "shout");
	means("#<=>", "", '#', "<=>");
	means("#<<", "", '#', "<<");
}

static void names_in_quotes(void **state)
{
	(void)state;
	means("Order#\"two words\"", "Order", '#', "two words");
	means("Order.\"a(b, c)\"", "Order", '.', "a(b, c)");
	means("Order#\"a:12\"", "Order", '#', "a:12");
	means("Order#\"a\\\"b\\\\c\\x0a\"", "Order", '#', "a\"b\\c\n");
	means("Order#\"\\*\"", "Order", '#', "\\*");
	means("\"ARGF.class\"#gets", "ARGF.class", '#', "gets");
	means("\"Time::tm\".\"two words\"", "Time::tm", '.', "two words");
}

static void name_is(const char *class, const char *method, const char *expected)
{
	struct buffer name = {0};

	selector_add_name(&name, (struct slice){class, strlen(class)}, '#', (struct slice){method, strlen(method)});
	assert_slice(((struct slice){name.bytes, name.size}), expected);
	buffer_free(&name);
}

static void names_have_quotes_where_they_are_needed(void **state)
{
	(void)state;
	name_is("Order", "two words", "Order#\"two words\"");
	name_is("Order", "a:12", "Order#\"a:12\"");
	name_is("Order", "a(b", "Order#\"a(b\"");
	name_is("Order", "a#b", "Order#\"a#b\"");
	name_is("Order", "a\"b\\c\n", "Order#\"a\\\"b\\\\c\\x0a\"");
	name_is("Order", "", "Order#\"\"");
	name_is("ARGF.class", "gets", "\"ARGF.class\"#gets");
	name_is("Time::tm", "-", "\"Time::tm\"#-");
	name_is("#<Class:0x1>::Order", "save!", "#<Class:0x1>::Order#save!");
	name_is("Order", "[]=", "Order#[]=");
	name_is("Order", "+@", "Order#+@");
	name_is("Order", "x12", "Order#x12");
}

static void lines_of_files(void **state)
{
	(void)state;
	means("order.rb:42", "order.rb", ':', "42");
	means("app/models/order.rb:42", "app/models/order.rb", ':', "42");
	means("./order.rb:7", "order.rb", ':', "7");
	means("/srv/my app/order.rb:7()", "/srv/my app/order.rb", ':', "7");
	means("Rakefile:1", "Rakefile", ':', "1");
	means("(eval at /srv/a.rb:3):2", "(eval at /srv/a.rb:3)", ':', "2");
	means("a:1:2", "a:1", ':', "2");
}

static void names_beyond_ascii(void **state)
{
	(void)state;
	means("Caf\xc3\xa9#\xc3\xa9t\xc3\xa9", "Caf\xc3\xa9", '#', "\xc3\xa9t\xc3\xa9");
}

static void has_expressions(const char *text, const char *const *expected, uint32_t count)
{
	struct selector_list list = {0};
	struct error err = {0};

	if (selector_parse(&list, text, &err) != 0)
		fail_msg("%s is refused: %s", text, err.text);
	assert_int_equal(list.items[0].expression_count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_slice(list.items[0].expressions[i], expected[i]);
	selector_list_free(&list);
}

#define EXPRESSIONS(text, ...)                                                                                                   \
	do {                                                                                                                     \
		static const char *const expected[] = {__VA_ARGS__};                                                             \
		has_expressions(text, expected, sizeof(expected) / sizeof(*expected));                                           \
	} while (0)

static void expressions_are_separated_by_commas(void **state)
{
	(void)state;
	EXPRESSIONS("Order#save(self)", "self");
	EXPRESSIONS("Order#save(self, @total, num, self.items.size, __source__)", "self", "@total", "num", "self.items.size",
	            "__source__");
	EXPRESSIONS("Order#save( self ,@total )", "self", "@total");
	EXPRESSIONS("app/order.rb:42(total, user.id)", "total", "user.id");
	EXPRESSIONS("Order#save(a ? b :1)", "a ? b :1");
}

static void commas_within_an_expression_belong_to_it(void **state)
{
	(void)state;
	EXPRESSIONS("A#b(f(1, 2), [3, 4], {a: 5, b: 6})", "f(1, 2)", "[3, 4]", "{a: 5, b: 6}");
	EXPRESSIONS("A#b(\"x, y\", 'a, )', c)", "\"x, y\"", "'a, )'", "c");
	EXPRESSIONS("A#b(\"a\\\", b\", c)", "\"a\\\", b\"", "c");
	EXPRESSIONS("A#b(\"#{f(1, \")\")}, x\", c)", "\"#{f(1, \")\")}, x\"", "c");
	EXPRESSIONS("A#b(list.map { |x, y| x }, ?,)", "list.map { |x, y| x }", "?,");
}

static void several_selectors_gather_in_one_list(void **state)
{
	struct selector_list list = {0};
	struct error err;

	(void)state;
	assert_int_equal(selector_parse(&list, "A#b", &err), 0);
	assert_int_equal(selector_parse(&list, "C.d(self)", &err), 0);
	assert_int_equal(list.count, 2);
	assert_slice(list.items[0].class_pattern, "A");
	assert_slice(list.items[1].method_pattern, "d");
	selector_list_free(&list);
}

static void mistakes_are_refused_with_their_place(void **state)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{"", "missing"},
		{"#", "--firehose"},
		{".", "--firehose"},
		{"Order::Item", "class alone"},
		{"order#save",
	         "\"order\" is no class: its name begins with a capital letter; write Order#save or Order.save, or save "
	         "alone for the methods of that name in all classes"},
		{"order_item.save(self)", "write OrderItem#save or OrderItem.save, or save alone"},
		{"Billing::order.save",
	         "\"order\" is no class: its name begins with a capital letter; write Billing::Order#save or "
	         "Billing::Order.save"},
		{"save#", "\"save\" is no class; write save alone for the methods of that name in all classes; `rbprobe methods "
	                  "-p PID save` "
	                  "lists them"},
		{"Billing::order#save", "\"order\" is no class"},
		{"Billing::Order::save", "\"save\" is no class; write Billing::Order#save or Billing::Order.save"},
		{"Order::save(self)", "\"save\" is no class; write Order#save or Order.save"},
		{"Order::Save", "class alone"},
		{"::save", "class alone"},
		{"Order:Item#save", "character 6"},
		{"Order::#save", "missing"},
		{"Order#sa ve", "white space"},
		{"Order#save(self", "character 11"},
		{"Order#save(self))", "character"},
		{"Order#save(self) x", "character"},
		{"Order#save(\"x)", "character 12"},
		{"Order#save(self,)", "character"},
		{"Order#save(,self)", "character"},
		{"Order#save([1)", "character"},
		{"Order#save#load", "method name"},
		{"12", "a number is no method's name"},
		{"12(self)", "a number is no method's name"},
		{"Order#\"\"", "name is empty"},
		{"Order#\"two words", "cannot be in a method name"},
		{"\"\"#save", "a class name is missing"},
		{"order.rb:0", "no file has such a line"},
		{"order.rb:1234567890", "no file has such a line"},
		{"./:1", "a file is missing"},
		{"order.rb:42(total", "never closed"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct selector_list list = {0};
		struct error err = {0};

		if (selector_parse(&list, cases[i].text, &err) == 0)
			fail_msg("%s is taken", cases[i].text);
		assert_error(&err, err.code == -ENOENT ? -ENOENT : -EINVAL, cases[i].part);
		selector_list_free(&list);
	}
}

static void a_class_with_a_small_letter_is_a_question_for_the_process(void **state)
{
	struct selector_list list = {.asks_process = true};
	struct error err = {0};
	struct slice part;

	(void)state;
	assert_int_equal(selector_parse(&list, "Billing::order#save(self)", &err), 0);
	assert_int_equal(list.count, 1);
	assert_int_equal(list.items[0].expression_count, 1);
	assert_error(&list.misnamed, -ENOENT, "\"order\" is no class");
	part = selector_misnamed(&list.items[0]);
	assert_memory_equal(part.bytes, "order#", part.size + 1);
	assert_int_equal(selector_parse(&list, "save#", &err), 0);
	assert_error(&list.misnamed, -ENOENT, "\"order\" is no class");
	assert_int_equal(selector_parse(&list, "order#sa ve", &err), -EINVAL);
	assert_int_equal(selector_parse(&list, "Order::*#save", &err), 0);
	assert_int_equal(selector_misnamed(&list.items[2]).size, 0);
	assert_int_equal(selector_parse(&list, "#<Class:0x00007f50>#save", &err), 0);
	assert_int_equal(selector_misnamed(&list.items[3]).size, 0);
	assert_int_equal(selector_parse(&list, "order.rb:12", &err), 0);
	assert_int_equal(selector_misnamed(&list.items[4]).size, 0);
	list.asks_process = false;
	assert_int_equal(selector_parse(&list, "Time::tm#year", &err), -ENOENT);
	assert_int_equal(selector_parse(&list, "\"Time::tm\"#year", &err), 0);
	selector_list_free(&list);
}

static void what_is_too_long_is_refused(void **state)
{
	struct selector_list list = {0};
	struct error err = {0};
	char *text = malloc(2 * EXPRESSION_SIZE_MAX);

	(void)state;
	assert_non_null(text);
	memset(text, 'A', 2 * EXPRESSION_SIZE_MAX);
	memcpy(text + NAME_SIZE_MAX + 1, "#b", 3);
	assert_int_equal(selector_parse(&list, text, &err), -EINVAL);
	memcpy(text, "A#b(", 4);
	memset(text + 4, 'x', EXPRESSION_SIZE_MAX + 1);
	memcpy(text + 4 + EXPRESSION_SIZE_MAX + 1, ")", 2);
	assert_int_equal(selector_parse(&list, text, &err), -EINVAL);
	selector_list_free(&list);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_method_of_a_class),
		cmocka_unit_test(all_methods_of_a_class),
		cmocka_unit_test(operators),
		cmocka_unit_test(globs),
		cmocka_unit_test(classes_without_a_name),
		cmocka_unit_test(names_in_quotes),
		cmocka_unit_test(names_have_quotes_where_they_are_needed),
		cmocka_unit_test(lines_of_files),
		cmocka_unit_test(names_beyond_ascii),
		cmocka_unit_test(expressions_are_separated_by_commas),
		cmocka_unit_test(commas_within_an_expression_belong_to_it),
		cmocka_unit_test(several_selectors_gather_in_one_list),
		cmocka_unit_test(mistakes_are_refused_with_their_place),
		cmocka_unit_test(a_class_with_a_small_letter_is_a_question_for_the_process),
		cmocka_unit_test(what_is_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
