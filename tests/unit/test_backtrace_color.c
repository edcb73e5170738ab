/* Colours of backtraces: what of each line is coloured, and that nothing else changes. */

#include "tracer/backtrace/backtrace_color.h"
#include "unit.h"

static void becomes(const char *text, const char *expected)
{
	struct buffer buffer = {0};

	buffer_add_text(&buffer, "before\n");
	buffer_add_text(&buffer, text);
	backtrace_color(&buffer, strlen("before\n"));
	buffer_add_char(&buffer, '\0');
	assert_string_equal(buffer.bytes + strlen("before\n"), expected);
	buffer_free(&buffer);
}

static void threads_and_frames(void **state)
{
	(void)state;
	becomes("thread 12 \"a, b\", sleeping in Kernel#sleep, 0.1 s CPU\n"
	        "   user=42\n"
	        "   /srv/x in a.rb:3 in block in Order#save\n"
	        "      total=1 in=2\n"
	        "   ... 3 frames of rack-2.2\n"
	        "fiber 7 of a.rb:1, suspended\n",
	        "\033[1;35mthread 12 \"a, b\"\033[0m, sleeping in Kernel#sleep, 0.1 s CPU\n"
	        "   user=42\n"
	        "\033[2m   /srv/x in a.rb:3\033[0m in \033[1;36mblock in Order#save\033[0m\n"
	        "      total=1 in=2\n"
	        "\033[2m   ... 3 frames of rack-2.2\033[0m\n"
	        "\033[1;35mfiber 7 of a.rb:1\033[0m, suspended\n");
}

static void groups_deadlocks_and_what_is_gone(void **state)
{
	(void)state;
	becomes("process 1, ruby 3.1, 2 threads\n"
	        "deadlock: thread 1 waits\n"
	        "x300 sleeping\n"
	        "gone: thread 4, running\n"
	        "no newline",
	        "process 1, ruby 3.1, 2 threads\n"
	        "\033[1;31mdeadlock: thread 1 waits\033[0m\n"
	        "\033[1;35mx300\033[0m sleeping\n"
	        "\033[1;35mgone: thread 4\033[0m, running\n"
	        "no newline");
	becomes("", "");
	becomes("thread \"never closed\n", "\033[1;35mthread \"never closed\033[0m\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_and_frames),
		cmocka_unit_test(groups_deadlocks_and_what_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
