/* Files that come into being whole. See dump_file.h. */

#define _GNU_SOURCE
#include "dump_file.h"

#include "buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/*
 * The kernel caches a file in blocks of the size it is written in. Those of up to 32 KiB (PAGE_ALLOC_COSTLY_ORDER) each
 * processor keeps at hand when they are freed; larger ones are memory that lay idle, which a virtual machine may have to ask
 * back from its host page by page: pieces of 1 MiB took three times as long.
 */
#define FILE_PIECE (32u << 10)
#define PACKED_SIZE (256u << 10)
#define OUR_DESCRIPTORS 256
#define GZIP_LEVEL 1 /* the process's copy waits for us: better soon than small */
#define GZIP_WINDOW (15 + 16)
#define ZSTD_LEVEL 3

struct dump_file {
	const char *path;
	struct buffer directory; /* NUL-terminated */
	struct buffer temporary; /* the name it has for now; empty: none */
	int fd;
	bool direct;  /* written to where it belongs at once */
	bool is_new;  /* replaces nothing */
	size_t piece; /* that is written at a time */
	enum dump_packing packing;
	z_stream gzip;
	ZSTD_CCtx *zstd;
	unsigned char *packed;
};

const char *dump_packing_suffix(enum dump_packing packing)
{
	static const char *const suffixes[] = {[DUMP_PLAIN] = "", [DUMP_GZIP] = ".gz", [DUMP_ZSTD] = ".zst"};

	return suffixes[packing];
}

static void set_directory(struct dump_file *file)
{
	const char *slash = strrchr(file->path, '/');

	if (!slash)
		buffer_add_text(&file->directory, ".");
	else
		buffer_add(&file->directory, file->path, slash == file->path ? 1 : (size_t)(slash - file->path));
	buffer_add_char(&file->directory, '\0');
}

/* "DIRECTORY/.NAME.XXXXXX" for mkostemp(). */
static void set_temporary(struct dump_file *file)
{
	const char *slash = strrchr(file->path, '/');

	file->temporary.size = 0;
	buffer_add_format(&file->temporary, "%s/.%.200s.XXXXXX", file->directory.bytes, slash ? slash + 1 : file->path);
	buffer_add_char(&file->temporary, '\0');
}

static int open_whole(struct dump_file *file, struct error *err)
{
	set_directory(file);
	/* Only its owner may read it: it holds whatever the process holds. */
	file->fd = open(file->directory.bytes, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (file->fd >= 0)
		return 0;
	if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL) {
		set_temporary(file);
		file->fd = mkostemp(file->temporary.bytes, O_CLOEXEC);
		if (file->fd >= 0)
			return 0;
		file->temporary.size = 0;
	}
	return error_set(err, -errno, "cannot write to %s: %s", file->path, strerror(errno));
}

/* Such as /dev/stdout and /dev/fd/63: whoever has made that has given it to us. */
static bool is_descriptor_of_ours(const struct stat *wanted, int but)
{
	struct stat status;

	for (int fd = 0; fd < OUR_DESCRIPTORS; fd++)
		if (fd != but && fstat(fd, &status) == 0 && status.st_dev == wanted->st_dev && status.st_ino == wanted->st_ino)
			return true;
	return false;
}

/* A pipe, a device. What is opened is what was looked at. */
static int open_special(struct dump_file *file, struct error *err)
{
	int found = open(file->path, O_PATH | O_CLOEXEC), code;
	struct stat status;
	char self[64];

	file->direct = true;
	if (found < 0 || fstat(found, &status) != 0) {
		code = -errno;
	} else if (status.st_uid != geteuid() && status.st_uid != 0 && !is_descriptor_of_ours(&status, found)) {
		close(found);
		return error_set(err, -EPERM,
		                 "%s is a %s of another user (%u), who would get the dump; name another file with -o", file->path,
		                 S_ISFIFO(status.st_mode) ? "FIFO" : "device or socket", (unsigned)status.st_uid);
	} else {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
		file->fd = open(self, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		code = file->fd < 0 ? -errno : 0;
	}
	if (found >= 0)
		close(found);
	return code == 0 ? 0 : error_set(err, code, "cannot write to %s: %s", file->path, strerror(-code));
}

static int open_target(struct dump_file *file, struct error *err)
{
	struct stat status;

	if (strcmp(file->path, "-") == 0) {
		file->path = "standard output";
		file->direct = true;
		file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return file->fd >= 0 ? 0 : error_set(err, -errno, "standard output is closed");
	}
	if (!file->is_new && stat(file->path, &status) == 0 && !S_ISREG(status.st_mode))
		return open_special(file, err);
	return open_whole(file, err);
}

int dump_file_open(struct dump_file **made, const char *path, bool is_new, enum dump_packing packing, struct error *err)
{
	struct dump_file *file = memory_zeroed(sizeof(*file));
	struct stat opened;
	int status;

	file->path = path;
	file->is_new = is_new;
	file->packing = packing;
	file->fd = -1;
	status = open_target(file, err);
	file->piece = status == 0 && fstat(file->fd, &opened) == 0 && S_ISREG(opened.st_mode) ? FILE_PIECE : SIZE_MAX;
	if (status == 0 && packing != DUMP_PLAIN)
		file->packed = memory_resize(NULL, PACKED_SIZE);
	if (status == 0 && packing == DUMP_GZIP &&
	    deflateInit2(&file->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		status = error_set(err, -ENOMEM, "no memory for gzip");
	if (status == 0 && packing == DUMP_ZSTD) {
		file->zstd = ZSTD_createCCtx();
		if (!file->zstd)
			status = error_set(err, -ENOMEM, "no memory for zstd");
		ZSTD_CCtx_setParameter(file->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(file->zstd, ZSTD_c_checksumFlag, 1);
	}
	if (status < 0) {
		dump_file_discard(file);
		return status;
	}
	*made = file;
	return 0;
}

static int write_all(struct dump_file *file, const unsigned char *from, size_t left, struct error *err)
{
	while (left) {
		ssize_t written = write(file->fd, from, left < file->piece ? left : file->piece);

		if (written >= 0) {
			from += written;
			left -= (size_t)written;
		} else if (errno == EAGAIN) { /* somebody we share the pipe with made it so */
			poll(&(struct pollfd){.fd = file->fd, .events = POLLOUT}, 1, -1);
		} else if (errno != EINTR) {
			return error_set(err, -errno, "cannot write to %s: %s", file->path, strerror(errno));
		}
	}
	return 0;
}

static int write_gzip(struct dump_file *file, const void *bytes, size_t size, bool last, struct error *err)
{
	int status;

	file->gzip.next_in = (unsigned char *)bytes;
	file->gzip.avail_in = (unsigned)size;
	do {
		file->gzip.next_out = file->packed;
		file->gzip.avail_out = PACKED_SIZE;
		deflate(&file->gzip, last ? Z_FINISH : Z_NO_FLUSH);
		status = write_all(file, file->packed, PACKED_SIZE - file->gzip.avail_out, err);
	} while (status == 0 && file->gzip.avail_out == 0);
	return status;
}

static int write_zstd(struct dump_file *file, const void *bytes, size_t size, bool last, struct error *err)
{
	ZSTD_inBuffer in = {bytes, size, 0};
	size_t left;
	int status;

	do {
		ZSTD_outBuffer out = {file->packed, PACKED_SIZE, 0};

		left = ZSTD_compressStream2(file->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return error_set(err, -EIO, "zstd: %s", ZSTD_getErrorName(left));
		status = write_all(file, file->packed, out.pos, err);
	} while (status == 0 && (last ? left != 0 : in.pos < in.size));
	return status;
}

static int write_packed(struct dump_file *file, const void *bytes, size_t size, bool last, struct error *err)
{
	switch (file->packing) {
	case DUMP_GZIP:
		return write_gzip(file, bytes, size, last, err);
	case DUMP_ZSTD:
		return write_zstd(file, bytes, size, last, err);
	case DUMP_PLAIN:
		break;
	}
	return write_all(file, bytes, size, err);
}

int dump_file_write(struct dump_file *file, const void *bytes, size_t size, struct error *err)
{
	return write_packed(file, bytes, size, false, err);
}

/* A file without a name can be linked, but not over another one: that takes a name first. */
static int give_name(struct dump_file *file)
{
	char self[64];
	int taken;

	if (!file->temporary.size) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
		if (linkat(AT_FDCWD, self, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != EEXIST || file->is_new)
			return -errno;
		set_temporary(file);
		taken = mkostemp(file->temporary.bytes, O_CLOEXEC);
		if (taken < 0)
			return -errno;
		close(taken);
		/* Only the name was wanted. */
		unlink(file->temporary.bytes);
		if (linkat(AT_FDCWD, self, AT_FDCWD, file->temporary.bytes, AT_SYMLINK_FOLLOW) != 0)
			return -errno;
	}
	if (file->is_new ? link(file->temporary.bytes, file->path) != 0 : rename(file->temporary.bytes, file->path) != 0)
		return -errno;
	if (file->is_new)
		unlink(file->temporary.bytes);
	file->temporary.size = 0;
	return 0;
}

static void sync_directory(const struct dump_file *file)
{
	int fd = open(file->directory.bytes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

static int finish(struct dump_file *file, struct error *err)
{
	int status = write_packed(file, "", 0, true, err);

	if (status < 0 || file->direct)
		return status;
	if (fsync(file->fd) != 0)
		return error_set(err, -errno, "cannot write to %s: %s", file->path, strerror(errno));
	status = give_name(file);
	if (status < 0)
		return error_set(err, status, "cannot write to %s: %s", file->path, strerror(-status));
	sync_directory(file);
	return 0;
}

int dump_file_commit(struct dump_file *file, struct error *err)
{
	int status = finish(file, err);

	dump_file_discard(file); /* what has its name now has no other */
	return status;
}

void dump_file_discard(struct dump_file *file)
{
	if (!file)
		return;
	if (file->temporary.size)
		unlink(file->temporary.bytes);
	if (file->fd >= 0)
		close(file->fd);
	if (file->packing == DUMP_GZIP)
		deflateEnd(&file->gzip);
	ZSTD_freeCCtx(file->zstd);
	free(file->packed);
	buffer_free(&file->directory);
	buffer_free(&file->temporary);
	free(file);
}
