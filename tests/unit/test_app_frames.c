/* tracer/backtrace/app_frames.c: whose file a frame is of. */

#include "tracer/backtrace/app_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_origin(const char *path, const char *expected)
{
	struct frame_origin origin = frame_origin_of((struct slice){path, strlen(path)});
	char text[256];

	snprintf(text, sizeof(text), "%s%.*s:%.*s", origin.prefix, (int)origin.library.size, origin.library.bytes,
	         (int)origin.file.size, origin.file.bytes);
	assert_string_equal(text, expected);
}

static void files_of_gems(void **state)
{
	(void)state;
	assert_origin("/home/app/.rbenv/versions/3.1.2/lib/ruby/gems/3.1.0/gems/rack-2.2.6/lib/rack/builder.rb",
	              "rack-2.2.6:rack/builder.rb");
	assert_origin("/usr/share/rubygems-integration/all/gems/sinatra-3.0.5/lib/sinatra/base.rb",
	              "sinatra-3.0.5:sinatra/base.rb");
	assert_origin("/srv/shop/vendor/bundle/ruby/3.1.0/gems/pg-1.4.5-x86_64-linux/lib/pg.rb", "pg-1.4.5-x86_64-linux:pg.rb");
	assert_origin("/usr/lib/ruby/gems/3.1.0/gems/puma-5.6.5/bin/puma", "puma-5.6.5:bin/puma");
	assert_origin("/b/gems/devise-4.9.0/app/controllers/x.rb", "devise-4.9.0:app/controllers/x.rb");
}

static void files_of_ruby(void **state)
{
	(void)state;
	assert_origin("/usr/lib/ruby/3.1.0/monitor.rb", "ruby-3.1.0:monitor.rb");
	assert_origin("/usr/lib/ruby/vendor_ruby/puma/server.rb", "vendor_ruby:puma/server.rb");
	assert_origin("<internal:kernel>", "ruby:<internal:kernel>");
}

static void files_of_the_application(void **state)
{
	(void)state;
	assert_origin("/srv/shop/app/models/order.rb", ":/srv/shop/app/models/order.rb");
	assert_origin("/srv/shop/lib/ruby/tools.rb", ":/srv/shop/lib/ruby/tools.rb");
	assert_origin("/srv/gems/tools.rb", ":/srv/gems/tools.rb");
	assert_origin("/srv/gems/tools/x.rb", ":/srv/gems/tools/x.rb");
	assert_origin("/srv/gems/", ":/srv/gems/");
	assert_origin("config.ru", ":config.ru");
	assert_origin("", ":");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_of_gems),
		cmocka_unit_test(files_of_ruby),
		cmocka_unit_test(files_of_the_application),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
