/* Files that come into being whole. See dump_file.h. */

#define _GNU_SOURCE
#include "tracer/heap/dump_file.h"

#include "tracer/base/buffer.h"
#include "tracer/base/library.h"
#include "tracer/base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/major.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_LIBZSTD
#include <zstd.h>
#endif

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
	struct place place;
	struct buffer temporary; /* the name it has for now, in the place's directory; empty: none */
	int fd;
	bool direct;  /* written to where it belongs at once */
	bool is_new;  /* replaces nothing */
	size_t piece; /* that is written at a time */
	enum dump_packing packing;
#ifdef HAVE_ZLIB
	z_stream gzip;
#endif
#ifdef HAVE_LIBZSTD
	ZSTD_CCtx *zstd;
#endif
	unsigned char *packed;
};

const char *dump_packing_suffix(enum dump_packing packing)
{
	static const char *const suffixes[] = {[DUMP_PLAIN] = "", [DUMP_GZIP] = ".gz", [DUMP_ZSTD] = ".zst"};

	return suffixes[packing];
}

/* ".NAME.RANDOM": no other file of its directory. */
static int set_temporary(struct dump_file *file)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -errno;
	file->temporary.size = 0;
	buffer_add_format(&file->temporary, ".%.200s.%016" PRIx64, file->place.name, random);
	buffer_add_char(&file->temporary, '\0');
	return 0;
}

static int open_whole(struct dump_file *file, struct error *err)
{
	int directory = file->place.directory, code;

	/* Only its owner may read it: it holds whatever the process holds. */
	file->fd = openat(directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	code = file->fd < 0 ? -errno : 0;
	if (code == -EOPNOTSUPP || code == -EISDIR || code == -ENOENT || code == -EINVAL) {
		code = set_temporary(file);
		if (code == 0)
			file->fd = openat(directory, file->temporary.bytes, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			                  0600);
		if (code == 0 && file->fd < 0)
			code = -errno;
		if (code < 0)
			file->temporary.size = 0;
	}
	return code == 0 ? 0 : error_set(err, code, "cannot write to %s: %s", file->path, strerror(-code));
}

/* Of those that we got from who started us, the one that writes to this; -1: none. It is what /dev/stdout leads to. */
static int descriptor_of_ours(const struct stat *wanted)
{
	struct stat status;

	for (int fd = 0; fd < OUR_DESCRIPTORS; fd++) {
		int flags = fcntl(fd, F_GETFL);

		if (flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY && fstat(fd, &status) == 0 &&
		    status.st_dev == wanted->st_dev && status.st_ino == wanted->st_ino)
			return fd;
	}
	return -1;
}

/* Other devices do things when they are opened or written to. */
static bool is_harmless_device(dev_t device)
{
	unsigned class = major(device), number = minor(device);

	return (class == MEM_MAJOR && (number == 3 || number == 5 || number == 7)) || /* null, zero, full */
	       (class == TTYAUX_MAJOR && number == 0) ||                              /* tty */
	       (class >= UNIX98_PTY_SLAVE_MAJOR && class < UNIX98_PTY_SLAVE_MAJOR + UNIX98_PTY_MAJOR_COUNT);
}

/* Why a dump does not go into what is no regular file; 0 and *given where it was opened for us already, or -1. */
static int check_special(const struct dump_file *file, const struct stat *status, int *given, struct error *err)
{
	*given = -1;
	if (S_ISBLK(status->st_mode))
		return error_set(err, -EPERM, "%s is a block device, and a dump would destroy what is on it; name a file with -o",
		                 file->path);
	if (S_ISDIR(status->st_mode))
		return error_set(err, -EISDIR, "cannot write to %s: %s", file->path, strerror(EISDIR));
	*given = descriptor_of_ours(status);
	if (*given >= 0)
		return 0;
	if (!place_is_trusted(status))
		return error_set(err, -EPERM,
		                 "%s is a %s of another user (%u), who would get the dump; name another file with -o", file->path,
		                 S_ISFIFO(status->st_mode) ? "FIFO" : "device or socket", (unsigned)status->st_uid);
	if (S_ISFIFO(status->st_mode) || (S_ISCHR(status->st_mode) && is_harmless_device(status->st_rdev)))
		return 0;
	return error_set(err, -EINVAL,
	                 "%s is a %s; a dump goes to files, pipes, terminals and /dev/null; name another file with -o",
	                 file->path,
	                 S_ISCHR(status->st_mode)   ? "device"
	                 : S_ISREG(status->st_mode) ? "file that only another process has open"
	                                            : "socket");
}

/* A pipe, a device, or what /dev/stdout is. What is opened is what was looked at. */
static int open_special(struct dump_file *file, const struct stat *found, struct error *err)
{
	int given, status = check_special(file, found, &given, err);

	if (status < 0)
		return status;
	file->direct = true;
	file->fd =
		given >= 0 ? fcntl(given, F_DUPFD_CLOEXEC, 3) : place_open_found(&file->place, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return file->fd >= 0 ? 0 : error_set(err, -errno, "cannot write to %s: %s", file->path, strerror(errno));
}

static int open_target(struct dump_file *file, struct error *err)
{
	struct error why;
	struct stat found;
	int status;

	if (strcmp(file->path, "-") == 0) {
		file->path = "standard output";
		file->direct = true;
		file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return file->fd >= 0 ? 0 : error_set(err, -errno, "standard output is closed");
	}
	status = place_find(&file->place, file->path, &why);
	if (status < 0)
		return error_set(err, status, "cannot write to %s: %s", file->path, why.text);
	if (!*file->place.name)
		return error_set(err, -EISDIR, "cannot write to %s: %s", file->path, strerror(EISDIR));
	if (!file->is_new && file->place.found >= 0) {
		if (fstat(file->place.found, &found) != 0)
			return error_set(err, -errno, "cannot write to %s: %s", file->path, strerror(errno));
		if (!S_ISREG(found.st_mode) || file->place.by_descriptor)
			return open_special(file, &found, err);
	}
	return open_whole(file, err);
}

int dump_file_open(struct dump_file **made, const char *path, bool is_new, enum dump_packing packing, struct error *err)
{
	struct dump_file *file = memory_zeroed(sizeof(*file));
	struct stat opened;
	int status = 0;

	if (packing == DUMP_GZIP)
		status = library_require(LIBRARY_ZLIB, "a dump packed by gzip", err);
	if (packing == DUMP_ZSTD)
		status = library_require(LIBRARY_ZSTD, "a dump packed by zstd", err);
	if (status < 0) {
		free(file);
		return status;
	}
	file->path = path;
	file->is_new = is_new;
	file->packing = packing;
	file->fd = -1;
	file->place = (struct place){.directory = -1, .found = -1};
	status = open_target(file, err);
	file->piece = status == 0 && fstat(file->fd, &opened) == 0 && S_ISREG(opened.st_mode) ? FILE_PIECE : SIZE_MAX;
	if (status == 0 && packing != DUMP_PLAIN)
		file->packed = memory_resize(NULL, PACKED_SIZE);
#ifdef HAVE_ZLIB
	if (status == 0 && packing == DUMP_GZIP &&
	    deflateInit2(&file->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		status = error_set(err, -ENOMEM, "no memory for gzip");
#endif
#ifdef HAVE_LIBZSTD
	if (status == 0 && packing == DUMP_ZSTD) {
		file->zstd = ZSTD_createCCtx();
		if (!file->zstd)
			status = error_set(err, -ENOMEM, "no memory for zstd");
		ZSTD_CCtx_setParameter(file->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(file->zstd, ZSTD_c_checksumFlag, 1);
	}
#endif
	if (status < 0) {
		dump_file_discard(file);
		return status;
	}
	*made = file;
	return 0;
}

void dump_file_call(struct dump_file *file, const char *name)
{
	file->path = name;
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

#ifdef HAVE_ZLIB
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
#endif

#ifdef HAVE_LIBZSTD
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
#endif

static int write_packed(struct dump_file *file, const void *bytes, size_t size, bool last, struct error *err)
{
	(void)last;
#ifdef HAVE_ZLIB
	if (file->packing == DUMP_GZIP)
		return write_gzip(file, bytes, size, last, err);
#endif
#ifdef HAVE_LIBZSTD
	if (file->packing == DUMP_ZSTD)
		return write_zstd(file, bytes, size, last, err);
#endif
	return write_all(file, bytes, size, err);
}

int dump_file_write(struct dump_file *file, const void *bytes, size_t size, struct error *err)
{
	return write_packed(file, bytes, size, false, err);
}

/* A file without a name can be linked, but not over another one: that takes a name first. Links are replaced, not followed. */
static int give_name(struct dump_file *file)
{
	int directory = file->place.directory, status;
	const char *name = file->place.name;
	char self[64];

	if (!file->temporary.size) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
		if (linkat(AT_FDCWD, self, directory, name, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != EEXIST || file->is_new)
			return -errno;
		status = set_temporary(file);
		if (status == 0 && linkat(AT_FDCWD, self, directory, file->temporary.bytes, AT_SYMLINK_FOLLOW) != 0)
			status = -errno;
		if (status < 0) {
			file->temporary.size = 0;
			return status;
		}
	}
	if (file->is_new ? linkat(directory, file->temporary.bytes, directory, name, 0) != 0
	                 : renameat(directory, file->temporary.bytes, directory, name) != 0)
		return -errno;
	if (file->is_new)
		unlinkat(directory, file->temporary.bytes, 0);
	file->temporary.size = 0;
	return 0;
}

static void sync_directory(const struct dump_file *file)
{
	int fd = openat(file->place.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

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
		unlinkat(file->place.directory, file->temporary.bytes, 0);
	if (file->fd >= 0)
		close(file->fd);
#ifdef HAVE_ZLIB
	if (file->packing == DUMP_GZIP)
		deflateEnd(&file->gzip);
#endif
#ifdef HAVE_LIBZSTD
	ZSTD_freeCCtx(file->zstd);
#endif
	free(file->packed);
	place_close(&file->place);
	buffer_free(&file->temporary);
	free(file);
}
