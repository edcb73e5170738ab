/*
 * Who made a system call. See waiting_caller.h.
 *
 * libc's unwind tables tell which function of libc made it, and who called that. Where there are no tables (musl), or they do not
 * tell, return addresses on the stack do, by what was called there.
 */

#define _GNU_SOURCE
#include "tracee/session/waiting_caller.h"

#include "proto/call_code.h"
#include "tracee/base/safe_read.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS_MAX 32      /* of functions of libc one inside the other: fgets() has 10 in glibc 2.41 */
#define STEPS_IN_VM 6     /* from the wait to the function of the VM that others call */
#define STEPS_SURE 2      /* from a wait outwards that make it certain */
#define CALLER_WORDS 64   /* how far up the stack the caller is looked for where there are no unwind tables */
#define DOUBTFUL_WORDS 24 /* and how much further, where the first one found may not be the one */
#ifdef __GLIBC__
#define LIBC_HAS_TABLES true
#else
#define LIBC_HAS_TABLES false /* of its functions; some of what the compiler adds may have one */
#endif
#define SOCKET_LIBRARY "/socket.so"
#define ANY_LIBRARY ""

static struct {
	struct unwind_image vm, libc, threads; /* threads: libpthread, where that is a library of its own */
	struct unwind_image own;               /* this extension */
	bool interposed; /* another library's functions stand between libc's and their callers: a sanitizer's */
} known;

/*
 * Functions of the VM that wait for others. They call what they were given, which may end in a call of libc's without a trace on
 * the stack (a tail call): IO_REGIONS call functions of IO and its kin, REGIONS those of any extension. CONDITIONS are called by
 * extensions, too, whose wait is cancelled if its thread is interrupted (the lookup of a name, since 3.3). Where TIMED ones have
 * a timeout, and it is over, who called them looks at errno (since 3.2, for an IO with a timeout): an interrupt leaves EINTR.
 */
enum region {
	IO_REGIONS,
	REGIONS = IO_REGIONS + 2,
	CONDITIONS = REGIONS + 3,
	TIMED = CONDITIONS + 2,
	SYSTEM_CALL = TIMED + 3,
	REGION_COUNT
};

static const char *const region_names[REGION_COUNT] = {
	"rb_thread_io_blocking_region",
	"rb_thread_io_blocking_call",
	"rb_nogvl",
	"rb_thread_call_without_gvl",
	"rb_thread_call_without_gvl2",
	"rb_native_cond_wait",
	"rb_native_cond_timedwait",
	"rb_io_maybe_wait",
	"rb_io_maybe_wait_readable",
	"rb_io_maybe_wait_writable",
	"syscall", /* of libc */
};

static uintptr_t regions[REGION_COUNT];

void caller_init(void)
{
	const void *proper = dlsym(RTLD_DEFAULT, "gnu_get_libc_version"); /* nobody has one of these */

	unwind_image_find(&known.libc, dlsym(RTLD_DEFAULT, "poll"));
	unwind_image_find(&known.threads, dlsym(RTLD_DEFAULT, "pthread_cond_wait"));
	unwind_image_find(&known.own, regions);
	known.interposed = proper && !unwind_image_has(&known.libc, (uintptr_t)proper);
	for (size_t i = 0; i < REGION_COUNT; i++)
		regions[i] = (uintptr_t)dlsym(RTLD_DEFAULT, region_names[i]);
	unwind_image_find(&known.vm, dlsym(RTLD_DEFAULT, "rb_define_method"));
}

/* The place in the first function outside of libc, and the function of libc that it called. False: the tables do not tell. */
static bool leave_libc(struct unwind_place *place, uintptr_t *called)
{
	for (int i = 0; i < STEPS_MAX; i++) {
		const struct unwind_image *image = unwind_image_has(&known.libc, place->pc)      ? &known.libc
		                                   : unwind_image_has(&known.threads, place->pc) ? &known.threads
		                                                                                 : NULL;

		if (!image)
			return true;
		*called = unwind_function(image, place->pc - place->is_return);
		if (!unwind_step(image, place, safe_read))
			return false;
	}
	return true;
}

static bool line_has(const char *line, uintptr_t address)
{
	char *end;
	uintptr_t start = strtoull(line, &end, 16);

	return *end == '-' && address >= start && address < strtoull(end + 1, NULL, 16);
}

/* Whether that line is of a file's code, whose name ends so. */
static bool is_code(const char *line, const char *name)
{
	const char *access = strchr(line, ' '), *path = strchr(line, '/');
	size_t length = strlen(name), size = path ? strlen(path) : 0;

	return access && access[3] == 'x' && size > length && strcmp(path + size - length, name) == 0;
}

/* Whether an address is in the code of a library of that name, by the kernel's map: the loader's own takes its lock. */
static bool is_in_library(uintptr_t address, const char *name)
{
	static char text[8192]; /* one native thread looks */
	size_t filled = 0;
	bool found = false, over = false;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && !over) {
		ssize_t got = read(fd, text + filled, sizeof(text) - 1 - filled);
		char *line = text, *end;

		if (got <= 0)
			break;
		filled += (size_t)got;
		text[filled] = '\0';
		while (!over && (end = strchr(line, '\n'))) {
			*end = '\0';
			over = line_has(line, address);
			found = over && is_code(line, name);
			line = end + 1;
		}
		filled -= (size_t)(line - text);
		memmove(text, line, filled);
		if (filled >= sizeof(text) - 1)
			filled = 0; /* a path that long is not the one */
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static bool read_word(const void *unused, uint64_t address, uint64_t *word)
{
	(void)unused;
	return safe_read(address, word, sizeof(*word));
}

static const struct code_reader reader = {.word = read_word};

static bool is_one_of(uintptr_t function, const uintptr_t *functions, size_t count)
{
	for (size_t i = 0; function && i < count; i++)
		if (functions[i] == function)
			return true;
	return false;
}

static bool makes(const caller_functions functions, uintptr_t function)
{
	return is_one_of(function, functions, CALLER_FUNCTIONS_MAX);
}

/* Whether the functions of the VM from there outwards have called each other, as its tables and its code say. */
static bool is_surely_called(struct unwind_place place)
{
	for (int i = 0; i < STEPS_SURE; i++) {
		uintptr_t function = unwind_function(&known.vm, place.pc - 1);

		if (!function || !unwind_step(&known.vm, &place, safe_read) || !call_code_is_return(&reader, place.pc) ||
		    call_code_target(&reader, place.pc) != function)
			return false;
	}
	return true;
}

static struct unwind_place place_of(const uintptr_t *words, size_t i, uintptr_t sp)
{
	return (struct unwind_place){.pc = words[i], .sp = sp + (i + 1) * sizeof(*words), .is_return = true};
}

/*
 * Whether a call of one of the functions soon behind is surely under way: then what was found is left over in a frame of libc's.
 * Not where it calls what it was given: that may be the one by a tail call.
 */
static void look_further(const uintptr_t *words, size_t found, size_t count, uintptr_t sp, const caller_functions functions,
                         struct caller *caller)
{
	if (is_one_of(unwind_function(&known.vm, words[found] - 1), regions + IO_REGIONS, CONDITIONS - IO_REGIONS))
		return;
	for (size_t i = found + 1; i < count && i <= found + DOUBTFUL_WORDS; i++) {
		struct unwind_place place = place_of(words, i, sp);
		uintptr_t target;

		if (!unwind_image_has(&known.vm, words[i]) || !call_code_is_return(&reader, words[i]))
			continue;
		target = call_code_target(&reader, words[i]);
		if (!makes(functions, target) || !is_surely_called(place))
			continue;
		*caller = (struct caller){.called = target, .place = place};
		return;
	}
}

/*
 * As leave_libc(), without unwind tables. In the VM a return address behind a call of another function of libc is left over from
 * before. A tail call leaves nothing on the stack: instead of the function that made it there is its caller, which has called
 * something outside of libc, or by a pointer. That may be left over, too: then somebody else's return address comes soon behind.
 * Somebody else's code, perhaps: false.
 */
static bool find_by_returns(uintptr_t sp, const caller_functions functions, struct caller *caller)
{
	uintptr_t words[CALLER_WORDS];
	size_t count = safe_read_some(sp, words, CALLER_WORDS), found = count;

	for (size_t i = 0; i < count && (found == count || i <= found + DOUBTFUL_WORDS); i++) {
		bool in_vm = unwind_image_has(&known.vm, words[i]), other;
		uintptr_t target;

		/* A job that the thread has taken before may have left ours. */
		if (unwind_image_has(&known.libc, words[i]) || unwind_image_has(&known.own, words[i]) ||
		    !call_code_is_return(&reader, words[i]))
			continue;
		/* Data may look like code; and what a JIT has made is the VM's. */
		if (!in_vm && !is_in_library(words[i], ANY_LIBRARY))
			continue;
		target = call_code_target(&reader, words[i]);
		other = unwind_image_has(&known.libc, target) && !makes(functions, target);
		/* The system call of a syscall() has no frame. */
		if ((!in_vm && (other || found < count)) || (i == 0 && target && target == regions[SYSTEM_CALL]))
			return false;
		if (other || found < count)
			continue;
		found = i;
		caller->called = target;
		caller->place = place_of(words, i, sp);
		if (!in_vm || makes(functions, target))
			return true;
	}
	if (found < count)
		look_further(words, found, count, sp, functions, caller);
	return found < count;
}

/* Who called a function of the VM that waits there: by the tables, or else by what is called at the return address. */
static uintptr_t caller_of(uintptr_t function, struct unwind_place place)
{
	uintptr_t words[CALLER_WORDS];
	size_t count;

	if (unwind_step(&known.vm, &place, safe_read))
		return place.pc;
	count = CALL_CODE_KNOWN ? safe_read_some(place.sp, words, CALLER_WORDS) : 0;
	for (size_t i = 0; i < count; i++)
		if (call_code_is_return(&reader, words[i]) && call_code_target(&reader, words[i]) == function)
			return words[i];
	return 0;
}

static bool is_among(uintptr_t function, size_t from, size_t to)
{
	return is_one_of(function, regions + from, to - from);
}

/* Whether the VM waits there in one of CONDITIONS that somebody else has called, or in a TIMED one. */
static bool is_for_others(struct unwind_place place, bool has_timeout)
{
	for (int i = 0; i < STEPS_IN_VM && unwind_image_has(&known.vm, place.pc); i++) {
		uintptr_t function = unwind_function(&known.vm, place.pc - 1);

		if (is_among(function, CONDITIONS, TIMED))
			return !unwind_image_has(&known.vm, caller_of(function, place));
		if (has_timeout && is_among(function, TIMED, SYSTEM_CALL))
			return true;
		if (!unwind_step(&known.vm, &place, safe_read))
			break;
	}
	return false;
}

bool caller_is_vm(const struct caller *caller)
{
	return unwind_image_has(&known.vm, caller->place.pc);
}

bool caller_waits_for_itself(const struct caller *caller, bool has_timeout)
{
	uintptr_t pc = caller->place.pc, function = unwind_function(&known.vm, pc - 1);

	if (is_among(function, IO_REGIONS, REGIONS))
		return true;
	/* By a pointer, as in REGIONS: what was called is not what waits. A part of them may be a function of its own. */
	if (is_among(function, REGIONS, CONDITIONS) ||
	    (CALL_CODE_KNOWN && call_code_is_return(&reader, pc) && !call_code_target(&reader, pc)))
		return false;
	return !is_for_others(caller->place, has_timeout);
}

bool caller_is_socket_library(const struct caller *caller)
{
	return is_in_library(caller->place.pc, SOCKET_LIBRARY);
}

uintptr_t caller_vm_function(uintptr_t address)
{
	return unwind_function(&known.vm, address);
}

enum caller_found caller_find(uintptr_t pc, uintptr_t sp, const caller_functions functions, struct caller *caller)
{
	*caller = (struct caller){.place = {.pc = pc, .sp = sp}};
	if (LIBC_HAS_TABLES && known.libc.table && leave_libc(&caller->place, &caller->called))
		return known.interposed || makes(functions, caller->called) ? CALLER_KNOWN : CALLER_OTHER;
	if (!CALL_CODE_KNOWN || !known.libc.end || known.interposed)
		return CALLER_UNKNOWN;
	caller->called = 0;
	return find_by_returns(sp, functions, caller) ? CALLER_KNOWN : CALLER_OTHER;
}
