/* Another process's memory: what is mapped, what is in it, and what its libraries define. The process is a child that waits. */

#define _GNU_SOURCE
#include "child.h"
#include "tracer/inject/remote.h"
#include "unit.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static struct remote remote = REMOTE_CLOSED;
static pid_t child;

static char text[200] = "in the child as here";
static uint64_t number = 0x1122334455667788;

static int setup(void **state)
{
	struct error err = {0};

	(void)state;
	child = child_run(child_wait_for_ever, NULL);
	if (child <= 0)
		return -1;
	/* A test that needs it says why it is skipped. */
	if (remote_open(&remote, child, &err) < 0)
		remote = REMOTE_CLOSED;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	remote_close(&remote);
	child_end(child);
	return 0;
}

static void opened(void)
{
	if (remote.memory < 0)
		SKIP_UNLESS_TRACING();
	assert_true(remote.memory >= 0);
}

static uint64_t address_of(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static void bytes_are_read_all_or_none(void **state)
{
	uint64_t read = 0;
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	opened();
	assert_true(remote_read(&remote, address_of(&number), &read, sizeof(read)));
	assert_int_equal(read, number);
	/* Mapped here after the fork, and not there. */
	assert_false(remote_read(&remote, address_of(pages), &read, sizeof(read)));
	assert_false(remote_read(&remote, 0, &read, sizeof(read)));
	assert_false(remote_read(&remote, UINT64_MAX, &read, sizeof(read)));
	munmap(pages, 8192);
}

static void bytes_are_written_there_and_not_here(void **state)
{
	uint64_t other = 42, read = 0;

	(void)state;
	opened();
	assert_true(remote_write(&remote, address_of(&number), &other, sizeof(other)));
	assert_true(remote_read(&remote, address_of(&number), &read, sizeof(read)));
	assert_int_equal(read, 42);
	assert_int_equal(number, 0x1122334455667788);
	assert_false(remote_write(&remote, 0, &other, sizeof(other)));
}

static void a_text_is_read_to_its_end_or_cut(void **state)
{
	char read[64];

	(void)state;
	opened();
	assert_true(remote_read_text(&remote, address_of(text), read, sizeof(read)));
	assert_string_equal(read, "in the child as here");
	assert_true(remote_read_text(&remote, address_of(text), read, 7));
	assert_string_equal(read, "in the");
	assert_false(remote_read_text(&remote, 16, read, sizeof(read)));
	assert_string_equal(read, "");
}

static void mappings_are_in_order_and_found_by_address(void **state)
{
	const struct remote_mapping *code, *data, *stack;
	int local = 0;

	(void)state;
	opened();
	assert_true(remote.mapping_count > 5);
	for (size_t i = 1; i < remote.mapping_count; i++)
		assert_true(remote.mappings[i].start >= remote.mappings[i - 1].end);
	for (size_t i = 0; i < remote.mapping_count; i++) {
		assert_ptr_equal(remote_mapping_at(&remote, remote.mappings[i].start), &remote.mappings[i]);
		assert_ptr_equal(remote_mapping_at(&remote, remote.mappings[i].end - 1), &remote.mappings[i]);
	}
	code = remote_mapping_at(&remote, address_of((void *)(uintptr_t)child_end));
	assert_non_null(code);
	assert_true(code->executable && !code->writable);
	assert_non_null(strstr(code->path, "test_remote"));
	data = remote_mapping_at(&remote, address_of(&number));
	assert_non_null(data);
	assert_true(data->writable && !data->executable);
	stack = remote_mapping_at(&remote, address_of(&local));
	assert_non_null(stack);
	assert_string_equal(stack->path, "[stack]");
	assert_null(remote_mapping_at(&remote, 0));
	assert_null(remote_mapping_at(&remote, UINT64_MAX));
}

static void libraries_are_found_by_name_and_not_by_a_beginning(void **state)
{
	const struct remote_module *libc;

	(void)state;
	opened();
	libc = remote_module_named(&remote, "libc");
	assert_non_null(libc);
	assert_non_null(strstr(libc->path, "/libc"));
	assert_true(remote_module_has(libc, address_of(dlsym(RTLD_DEFAULT, "getppid"))));
	assert_false(remote_module_has(libc, libc->end));
	assert_false(remote_module_has(NULL, libc->start));
	assert_null(remote_module_named(&remote, "lib"));
	assert_null(remote_module_named(&remote, "libruby"));
	assert_non_null(remote_module_file(&remote, "test_remote"));
	assert_null(remote_module_file(&remote, "test_remot"));
}

static void symbols_are_where_they_are_here(void **state)
{
	static const char *const names[] = {"getppid", "dlopen", "mmap", "syscall", "__errno_location"};
	/* Not of whatever is in front of it: sanitizers have some of these functions themselves. */
	void *own = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	const struct remote_module *libc;
	uint64_t address;

	(void)state;
	opened();
	assert_non_null(own);
	libc = remote_module_named(&remote, "libc");
	assert_non_null(libc);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!remote_symbol(&remote, libc, names[i], &address)) {
			assert_string_equal(names[i], "dlopen"); /* which older glibcs have in libdl */
			continue;
		}
		assert_int_equal(address, address_of(dlsym(own, names[i])));
	}
	dlclose(own);
	assert_false(remote_symbol(&remote, libc, "no_such_function", &address));
	assert_false(remote_symbol(&remote, libc, "", &address));
	assert_false(remote_symbol(&remote, NULL, "getppid", &address));
}

/* As the linker makes it with --hash-style=sysv: three symbols in two buckets, and two of them in one. */
static const char old_names[] = "\0one\0two\0three";
static Elf64_Sym old_symbols[4];
static uint32_t old_hash[2 + 2 + 4] = {2, 4};
static Elf64_Dyn old_dynamic[8];

static uint32_t sysv_hash(const char *name)
{
	uint64_t hash = 0, high;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		high = hash & 0xf0000000;
		hash ^= high >> 24;
		hash &= ~high;
	}
	return (uint32_t)hash;
}

static int old_tables_make(void **state)
{
	static const uint32_t names_at[] = {0, 1, 5, 9};
	uint32_t *buckets = old_hash + 2, *chains = old_hash + 4;

	for (uint32_t i = 1; i < 4; i++) {
		uint32_t *bucket = &buckets[sysv_hash(old_names + names_at[i]) % 2];

		old_symbols[i] = (Elf64_Sym){
			.st_name = names_at[i], .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x1000 * i, .st_size = 0x20};
		chains[i] = *bucket;
		*bucket = i;
	}
	old_symbols[3].st_shndx = SHN_UNDEF;
	old_dynamic[0] = (Elf64_Dyn){DT_HASH, {address_of(old_hash)}};
	old_dynamic[1] = (Elf64_Dyn){DT_SYMTAB, {address_of(old_symbols)}};
	old_dynamic[2] = (Elf64_Dyn){DT_STRTAB, {address_of(old_names)}};
	old_dynamic[3] = (Elf64_Dyn){DT_STRSZ, {sizeof(old_names)}};
	return setup(state);
}

static void symbols_of_an_old_table(void **state)
{
	const struct remote_module module = {.bias = 0x40, .dynamic = address_of(old_dynamic)};
	uint64_t address = 0, end = 0;

	(void)state;
	opened();
	assert_true(remote_symbol(&remote, &module, "one", &address));
	assert_int_equal(address, 0x1040);
	assert_true(remote_function(&remote, &module, "two", &address, &end));
	assert_int_equal(address, 0x2040);
	assert_int_equal(end, 0x2060);
	assert_false(remote_symbol(&remote, &module, "three", &address)); /* it needs it, and has it not */
	assert_false(remote_symbol(&remote, &module, "four", &address));
	assert_false(remote_function(&remote, NULL, "one", &address, &end));
}

/* A chain that goes round ends all the same, and so does one that leaves the table. */
static int old_tables_break(void **state)
{
	int code = old_tables_make(state);

	teardown(state);
	for (size_t i = 0; i < 4; i++)
		old_hash[4 + i] = i < 3 ? (uint32_t)i : UINT32_MAX;
	return code < 0 ? code : setup(state);
}

static void an_old_table_that_lies(void **state)
{
	uint64_t address = 0;

	(void)state;
	opened();
	assert_false(remote_symbol_in(&remote, 0, address_of(old_dynamic), "four", &address));
	assert_false(remote_symbol_in(&remote, 0, address_of(old_dynamic), "five", &address));
}

static ssize_t find_our_text(const uint8_t *bytes, size_t size)
{
	const uint8_t *found = memmem(bytes, size, "\x0f\x05\xc3", 3); /* syscall; ret */

	return found ? found - bytes : -1;
}

static ssize_t find_nothing(const uint8_t *bytes, size_t size)
{
	(void)bytes;
	(void)size;
	return -1;
}

static void code_is_found_by_its_bytes(void **state)
{
	const struct remote_module *libc;

	(void)state;
	opened();
	libc = remote_module_named(&remote, "libc");
#ifdef __x86_64__
	assert_memory_equal((const void *)(uintptr_t)remote_text_find(&remote, libc, find_our_text), "\x0f\x05\xc3", 3);
#else
	(void)find_our_text;
#endif
	assert_int_equal(remote_text_find(&remote, libc, find_nothing), 0);
	assert_int_equal(remote_text_find(&remote, NULL, find_nothing), 0);
}

static void who_is_gone_cannot_be_opened(void **state)
{
	pid_t gone = child_run(child_wait_for_ever, NULL);
	struct remote closed = REMOTE_CLOSED;
	struct error err = {0};

	(void)state;
	child_end(gone);
	assert_true(remote_open(&closed, gone, &err) < 0);
	assert_error(&err, -ENOENT, "cannot open the memory of process");
	assert_int_equal(closed.memory, -1);
	remote_close(&closed);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(bytes_are_read_all_or_none),
		TEST(bytes_are_written_there_and_not_here),
		TEST(a_text_is_read_to_its_end_or_cut),
		TEST(mappings_are_in_order_and_found_by_address),
		TEST(libraries_are_found_by_name_and_not_by_a_beginning),
		TEST(symbols_are_where_they_are_here),
		cmocka_unit_test_setup_teardown(symbols_of_an_old_table, old_tables_make, teardown),
		cmocka_unit_test_setup_teardown(an_old_table_that_lies, old_tables_break, teardown),
		TEST(code_is_found_by_its_bytes),
		TEST(who_is_gone_cannot_be_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
