/* Finding the extensions that belong to this rbprobe. See extension.h. */

#define _GNU_SOURCE
#include "tracer/process/extension.h"

#include "tracer/process/container.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int extension_directory(char *path, size_t size, struct error *err)
{
	static const char *const places[] = {"tracee", "../lib/rbprobe"};
	char self[PATH_MAX], *slash;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int code = length < 0 ? -errno : 0, status;

	if (code < 0) {
		status = container_check_surroundings(err);
		if (status < 0)
			return status;
		return error_set(err, code, "cannot find out where rbprobe is installed: %s", strerror(-code));
	}
	self[length] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char candidate[PATH_MAX + 32], resolved[PATH_MAX], chooser[PATH_MAX + 32];

		snprintf(candidate, sizeof(candidate), "%s/%s", self, places[i]);
		if (!realpath(candidate, resolved))
			continue;
		snprintf(chooser, sizeof(chooser), "%s/rbprobe.rb", resolved);
		if (access(chooser, R_OK) != 0)
			continue;
		if (strlen(resolved) >= size)
			return error_set(err, -ENAMETOOLONG, "the path of the extension is too long");
		memcpy(path, resolved, strlen(resolved) + 1);
		return 0;
	}
	return error_set(err, -ENOENT,
	                 "there are no extensions in %s/tracee or %s/../lib/rbprobe; build one with: make RUBY=/path/to/ruby",
	                 self, self);
}

const char *extension_suffix(bool musl)
{
	return musl ? "-musl" : "";
}

const char *extension_remedy(const char *directory, const char *ruby, char *text, size_t size)
{
	char mark[PATH_MAX + 8];

	snprintf(mark, sizeof(mark), "%s/gem", directory);
	if (access(mark, F_OK) == 0)
		snprintf(text, size, "%s -S gem install rbprobe, and then %s -S rbprobe", ruby, ruby);
	else
		snprintf(text, size, "make RUBY=%s", ruby);
	return text;
}
