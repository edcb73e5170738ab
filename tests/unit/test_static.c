/* Whom a static rbprobe takes for which user; libc's answers are those of /etc/passwd as well. */

#define RBPROBE_STATIC
#define setpwent static_setpwent
#define getpwent static_getpwent
#define endpwent static_endpwent
#define getpwuid static_getpwuid
#define getpwnam static_getpwnam
#define dlopen static_dlopen
#define dlsym static_dlsym
#define dlclose static_dlclose
#define dlerror static_dlerror
#include "tracer/base/static.c"

#include "unit.h"

#include <stdbool.h>

static void users_by_number_and_by_name(void **state)
{
	(void)state;
	assert_string_equal(getpwuid(0)->pw_name, "root");
	assert_int_equal(getpwnam("root")->pw_uid, 0);
	assert_null(getpwuid(4294967294U));
	assert_null(getpwnam("nobody has this name"));
}

static void all_of_them(void **state)
{
	size_t count = 0;
	bool root = false;

	(void)state;
	for (struct passwd *user; (user = getpwent()); count++)
		root |= user->pw_uid == 0;
	endpwent();
	assert_true(count > 0 && root);
}

static void no_library_is_loaded(void **state)
{
	(void)state;
	assert_null(dlopen("libc.so.6", RTLD_NOW));
	assert_non_null(dlerror());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(users_by_number_and_by_name),
		cmocka_unit_test(all_of_them),
		cmocka_unit_test(no_library_is_loaded),
	};

	return cmocka_run_group_tests_name("static", tests, NULL, NULL);
}
