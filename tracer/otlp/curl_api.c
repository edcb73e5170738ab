/* libcurl, loaded when it is needed. See curl_api.h. */

#ifdef HAVE_LIBCURL

#include "tracer/otlp/curl_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Of every libcurl since 7.16, of 2006. */
#define FILE_NAME "libcurl.so.4"

#define FUNCTION(name)                                                                                                           \
	{                                                                                                                        \
		"curl_" #name, offsetof(struct curl_api, name)                                                                   \
	}

static const struct {
	const char *name;
	size_t at; /* of a struct curl_api */
} functions[] = {
	FUNCTION(easy_cleanup),   FUNCTION(easy_getinfo),  FUNCTION(easy_init),   FUNCTION(easy_perform),
	FUNCTION(easy_setopt),    FUNCTION(easy_strerror), FUNCTION(global_init), FUNCTION(slist_append),
	FUNCTION(slist_free_all), FUNCTION(url),           FUNCTION(url_cleanup), FUNCTION(url_set),
};

static struct curl_api api;

static bool find_all(void *library)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *found = dlsym(library, functions[i].name);

		if (!found)
			return false;
		memcpy((char *)&api + functions[i].at, &found, sizeof(found));
	}
	return true;
}

const struct curl_api *curl_api_load(struct error *err)
{
	static bool ready;
	void *library;

	if (ready)
		return &api;
	library = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
	if (!library || !find_all(library)) {
		error_set(err, -ENOTSUP, "--otlp needs libcurl, which cannot be loaded: %s; on Debian install libcurl4",
		          dlerror());
		return NULL;
	}
	api.global_init(CURL_GLOBAL_DEFAULT);
	ready = true;
	return &api;
}

#endif
