/* The ABI of a Ruby, by paths of its own files. */

#include "tracer/process/target_maps.h"
#include "unit.h"

#include <string.h>

static void check(const char *path, const char *abi)
{
	struct target target = {0};

	target_abi_from_path(&target, path);
	assert_string_equal(target.abi, abi);
}

static void the_directory_of_a_library_names_the_abi(void **state)
{
	(void)state;
	check("/usr/lib/ruby/3.1.0/x86_64-linux/enc/encdb.so", "3.1.0");
	check("/opt/ruby/lib/ruby/4.1.0+4/x86_64-linux/monitor.so", "4.1.0+4");
	check("/opt/ruby/lib/ruby/4.1.0+4", "4.1.0+4");
}

static void others_name_none(void **state)
{
	(void)state;
	check("/usr/lib/ruby/site_ruby/4.1.0+4", "");
	check("/usr/lib/ruby/4/x", "");
	check("/usr/lib/ruby/4.1.0;reboot/x", "");
	check("/usr/lib/ruby", "");
	check("", "");
}

static void what_is_known_stays(void **state)
{
	struct target target = {.abi = "3.1.0"};

	(void)state;
	target_abi_from_path(&target, "/opt/ruby/lib/ruby/4.1.0+4/x");
	assert_string_equal(target.abi, "3.1.0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_directory_of_a_library_names_the_abi),
		cmocka_unit_test(others_name_none),
		cmocka_unit_test(what_is_known_stays),
	};

	return cmocka_run_group_tests_name("target maps", tests, NULL, NULL);
}
