/* Programs that nothing can be loaded into, told by what the kernel told them when they began. */

#define _GNU_SOURCE
#include "tracer/process/program_kind.h"
#include "unit.h"

#include <elf.h>
#include <stdint.h>
#include <unistd.h>

static void a_usual_program(void **state)
{
	const Elf64_auxv_t vector[] = {{AT_PHDR, {0x1000}}, {AT_BASE, {0x7f0000000000}}, {AT_NULL, {0}}};

	(void)state;
	assert_int_equal(program_kind_of_auxv(vector, sizeof(vector)), PROGRAM_OURS);
	assert_int_equal(program_kind(getpid()), PROGRAM_OURS);
}

static void a_32_bit_program(void **state)
{
	const uint32_t vector[] = {AT_SYSINFO_EHDR, 0xf7fc0000, AT_HWCAP, 0x178bfbff, AT_BASE, 0xf7fc2000, AT_NULL, 0};

	(void)state;
	assert_int_equal(program_kind_of_auxv(vector, sizeof(vector)), PROGRAM_OTHER_MACHINE);
}

static void a_static_program(void **state)
{
	const Elf64_auxv_t vector[] = {{AT_PHDR, {0x1000}}, {AT_BASE, {0}}, {AT_NULL, {0}}};

	(void)state;
	assert_int_equal(program_kind_of_auxv(vector, sizeof(vector)), PROGRAM_STATIC);
	assert_int_equal(program_kind_of_auxv(vector + 2, sizeof(*vector)), PROGRAM_STATIC);
}

static void what_cannot_be_read_is_not_judged(void **state)
{
	(void)state;
	assert_int_equal(program_kind_of_auxv("", 0), PROGRAM_OURS);
	assert_int_equal(program_kind_of_auxv("half a word", 11), PROGRAM_OURS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_usual_program),
		cmocka_unit_test(a_32_bit_program),
		cmocka_unit_test(a_static_program),
		cmocka_unit_test(what_cannot_be_read_is_not_judged),
	};

	return cmocka_run_group_tests_name("program kind", tests, NULL, NULL);
}
