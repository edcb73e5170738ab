/* What this rbprobe was built without. See library.h. */

#include "tracer/base/library.h"

#include <errno.h>

/* What Debian lacks for a static program, or has in other packages. */
#ifdef RBPROBE_STATIC
#define PACKAGE(otherwise, statically) statically
#else
#define PACKAGE(otherwise, statically) otherwise
#endif

static const struct {
	const char *name;
	const char *package; /* Debian's */
	const char *serves;
	bool is_there;
} libraries[LIBRARY_COUNT] = {
	[LIBRARY_SIMDJSON] = {"simdjson", PACKAGE("libsimdjson-dev, g++", "has no static one"), "heap report, heap leak",
#ifdef HAVE_SIMDJSON
                              true
#endif
        },
	[LIBRARY_JANSSON] = {"jansson", "libjansson-dev", "heap report, heap leak",
#ifdef HAVE_JANSSON
                             true
#endif
        },
	[LIBRARY_DW] = {"libdw", PACKAGE("libdw-dev", "libdw-dev, libbz2-dev, liblzma-dev"),
                        "native frames of backtraces, profile --native",
#ifdef HAVE_LIBDW
                        true
#endif
        },
	[LIBRARY_NCURSES] = {"ncursesw", "libncurses-dev", "top, report --tui",
#ifdef HAVE_NCURSESW
                             true
#endif
        },
	[LIBRARY_READLINE] = {"readline", "libreadline-dev", "editing, history and completion of the console",
#ifdef HAVE_READLINE
                              true
#endif
        },
	[LIBRARY_ZLIB] = {"zlib", "zlib1g-dev", "heap dumps packed by gzip, export --to pprof",
#ifdef HAVE_ZLIB
                          true
#endif
        },
	[LIBRARY_ZSTD] = {"libzstd", "libzstd-dev", "record, replay, heap dumps packed by zstd",
#ifdef HAVE_LIBZSTD
                          true
#endif
        },
	[LIBRARY_PROTOBUF] = {"libprotobuf-c", "libprotobuf-c-dev, protobuf-c-compiler",
                              "--otlp, export --to perfetto, pprof or otlp",
#ifdef HAVE_LIBPROTOBUF_C
                              true
#endif
        },
	[LIBRARY_CURL] = {"libcurl", PACKAGE("libcurl4-openssl-dev", "has no static one"), "--otlp",
#ifdef HAVE_LIBCURL
                          true
#endif
        },
};

bool library_is_there(enum library library)
{
	return libraries[library].is_there;
}

int library_require(enum library library, const char *what, struct error *err)
{
	if (libraries[library].is_there)
		return 0;
#ifdef RBPROBE_STATIC
	return error_set(err, -ENOTSUP, "%s needs %s, which this static rbprobe lacks; use one that is not static", what,
	                 libraries[library].name);
#else
	return error_set(err, -ENOTSUP,
	                 "%s needs %s, without which this rbprobe was built; on Debian install %s, and build it again", what,
	                 libraries[library].name, libraries[library].package);
#endif
}

void library_list(struct buffer *to)
{
#ifdef RBPROBE_STATIC
	buffer_add_text(to, "static");
	for (size_t i = 0, found = 0; i < LIBRARY_COUNT; i++)
		if (libraries[i].is_there)
			buffer_add_format(to, "%s %s", found++ ? "," : ", with", libraries[i].name);
	buffer_add_char(to, '\n');
#endif
	for (size_t i = 0; i < LIBRARY_COUNT; i++)
		if (!libraries[i].is_there)
			buffer_add_format(to, "built without %s (Debian: %s): no %s\n", libraries[i].name, libraries[i].package,
			                  libraries[i].serves);
}
