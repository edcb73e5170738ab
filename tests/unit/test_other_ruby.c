/* Rubies that are not CRuby, told by the names of their programs and their command lines. */

#define _GNU_SOURCE
#include "tracer/process/other_ruby.h"
#include "unit.h"

#include <string.h>
#include <unistd.h>

#define NAME_OF(program, words) other_ruby_of(program, words, sizeof(words) - 1)

static void jruby_by_its_jar_and_its_properties(void **state)
{
	(void)state;
	assert_string_equal(NAME_OF("/usr/bin/java", "java\0-jar\0/opt/jruby-complete-9.4.8.0.jar\0app.rb\0"), "JRuby");
	assert_string_equal(NAME_OF("java", "java\0-Djruby.home=/opt/jruby\0x\0"), "JRuby");
	assert_string_equal(NAME_OF("/jre/java", "java\0-cp\0/a.jar:/opt/jruby/lib/jruby.jar:/b.jar\0Main\0"), "JRuby");
	assert_string_equal(NAME_OF("/jre/java", "java\0org.jruby.Main\0-S\0puma\0"), "JRuby");
	/* JRuby 9.3.9 of Debian 12. */
	assert_string_equal(NAME_OF("/usr/lib/jvm/java-17-openjdk-amd64/bin/java",
	                            "java\0@/usr/share/jruby/bin/.jruby.module_opts\0-Xss2048k\0--module-path\0"
	                            "/usr/share/jruby/lib/jruby.jar\0-classpath\0"
	                            "/usr/share/jruby/lib/bcpkix.jar:/usr/share/jruby/lib/jansi1.jar:\0"
	                            "-Djruby.home=/usr/share/jruby\0-Djruby.script=jruby\0org.jruby.Main\0app.rb\0"),
	                    "JRuby");
}

static void truffleruby_by_its_program_or_its_classes(void **state)
{
	(void)state;
	assert_string_equal(NAME_OF("/opt/truffleruby/bin/truffleruby", "ruby\0app.rb\0"), "TruffleRuby");
	assert_string_equal(NAME_OF("/jre/bin/java", "ruby\0org.truffleruby.launcher.RubyLauncher\0"), "TruffleRuby");
}

static void no_other_program(void **state)
{
	(void)state;
	assert_null(NAME_OF("/usr/bin/java", "java\0-jar\0/opt/app.jar\0"));
	assert_null(NAME_OF("/usr/bin/java", "java\0-cp\0/home/jruby/app.jar\0Main\0"));
	assert_null(NAME_OF("/usr/bin/java", "java\0-cp\0/opt/jruby:/opt/app.jar\0Main\0"));
	assert_null(NAME_OF("/usr/bin/vi", "vi\0jruby.jar\0"));
	assert_null(NAME_OF("/usr/bin/java", "\0\0\0"));
	assert_null(other_ruby_of("java", "", 0));
}

static void each_has_a_remedy_of_its_own(void **state)
{
	const char *java = other_ruby_remedy("JRuby"), *native = other_ruby_remedy("TruffleRuby");

	(void)state;
	assert_non_null(strstr(java, "jcmd PID Thread.print"));
	assert_null(strstr(native, "jcmd"));
	assert_non_null(strstr(native, "--cpusampler"));
	/* Which is for Java VMs. */
	assert_non_null(strstr(native, "--jvm, the JDK's jstack"));
	assert_string_equal(other_ruby_remedy("Rubinius"), "");
}

static void a_process_that_is_none(void **state)
{
	struct target target;

	(void)state;
	assert_int_equal(target_describe(&target, getpid(), TARGET_BASIC, NULL), 0);
	assert_null(target.other_ruby);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jruby_by_its_jar_and_its_properties),
		cmocka_unit_test(truffleruby_by_its_program_or_its_classes),
		cmocka_unit_test(no_other_program),
		cmocka_unit_test(each_has_a_remedy_of_its_own),
		cmocka_unit_test(a_process_that_is_none),
	};

	return cmocka_run_group_tests_name("other Ruby", tests, NULL, NULL);
}
