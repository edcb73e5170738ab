/* What stands in front of where calls return to: in this program's own code, and in bytes that are none. */

#define _GNU_SOURCE
#include "proto/call_code.h"
#include "unit.h"

#include <dlfcn.h>
#include <search.h>
#include <sys/uio.h>
#include <unistd.h>

#define STACK_WORDS 256

/* By the kernel: it may be anything, and a sanitizer need not know. */
static bool read_word(const void *nowhere, uint64_t address, uint64_t *word)
{
	struct iovec to = {word, sizeof(*word)},
		     from = {(void *)(uintptr_t)address, sizeof(*word)}; // NOLINT(performance-no-int-to-ptr)

	return address != (uint64_t)(uintptr_t)nowhere &&
	       process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof(*word);
}

static const struct code_reader reader = {.word = read_word};

static void skip_unless_known(void)
{
	if (CALL_CODE_KNOWN)
		return;
	print_message("skipped: the code of this processor is not known\n");
	skip();
}

static __attribute__((noinline)) uint64_t returns_to(void)
{
	return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static void of_its_own_function(void **state)
{
	uint64_t address = returns_to();

	(void)state;
	skip_unless_known();
	assert_true(call_code_is_return(&reader, address));
	assert_int_equal(call_code_target(&reader, address), (uintptr_t)returns_to);
}

static void by_a_pointer(void **state)
{
	uint64_t (*volatile function)(void) = returns_to;
	uint64_t address = function();

	(void)state;
	skip_unless_known();
	assert_true(call_code_is_return(&reader, address));
	assert_int_equal(call_code_target(&reader, address), 0);
}

static uintptr_t sought;
static bool found;

static __attribute__((noinline, no_sanitize_address)) int look_up_the_stack(const void *one, const void *other)
{
	const uint64_t *words = (const uint64_t *)__builtin_frame_address(0);

	for (size_t i = 0; i < STACK_WORDS && !found; i++)
		if (call_code_is_return(&reader, words[i]) && call_code_target(&reader, words[i]) == sought)
			found = true;
	return *(const char *)one - *(const char *)other;
}

static void of_another_library(void **state)
{
	const char items[] = "ba";
	size_t count = 2;

	(void)state;
	skip_unless_known();
	sought = (uintptr_t)dlsym(RTLD_DEFAULT, "lfind");
	assert_true(sought);
	assert_null(lfind("c", items, &count, 1, look_up_the_stack));
	assert_true(found);
}

static void anything_else(void **state)
{
	static const uint8_t zeros[32];
	uint64_t address = (uint64_t)(uintptr_t)(zeros + 16);
	const struct code_reader blind = {.word = read_word, .owner = zeros + 8};

	(void)state;
	skip_unless_known();
	assert_false(call_code_is_return(&reader, address));
	assert_false(call_code_is_return(&blind, address));
	assert_int_equal(call_code_target(&reader, address), 0);
	assert_false(call_code_is_return(&reader, 1));
	assert_int_equal(call_code_target(&reader, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_its_own_function),
		cmocka_unit_test(by_a_pointer),
		cmocka_unit_test(of_another_library),
		cmocka_unit_test(anything_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
