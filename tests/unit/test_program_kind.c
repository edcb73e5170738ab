/* Programs that nothing can be loaded into, told by their first bytes. */

#define _GNU_SOURCE
#include "tracer/arch.h"
#include "tracer/program_kind.h"
#include "unit.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct program {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
};

/* A dynamically linked program for this machine. */
static struct program usual(void)
{
	struct program program = {.header = {.e_machine = arch.elf_machine,
	                                     .e_phoff = offsetof(struct program, segments),
	                                     .e_phentsize = sizeof(Elf64_Phdr),
	                                     .e_phnum = 2},
	                          .segments = {{.p_type = PT_LOAD}, {.p_type = PT_INTERP}}};

	memcpy(program.header.e_ident, ELFMAG, SELFMAG);
	program.header.e_ident[EI_CLASS] = ELFCLASS64;
	return program;
}

static enum program_kind kind_of(const void *bytes, size_t size)
{
	char path[] = "/tmp/test-program-kind-XXXXXX";
	int fd = mkstemp(path);
	enum program_kind kind;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
	kind = program_kind_of_file(path);
	unlink(path);
	return kind;
}

static void a_usual_program(void **state)
{
	struct program program = usual();

	(void)state;
	assert_int_equal(kind_of(&program, sizeof(program)), PROGRAM_OURS);
	assert_int_equal(program_kind(getpid()), PROGRAM_OURS);
}

static void a_program_for_another_processor(void **state)
{
	struct program program = usual();

	(void)state;
	program.header.e_machine = EM_S390;
	assert_int_equal(kind_of(&program, sizeof(program)), PROGRAM_OTHER_MACHINE);
	program = usual();
	program.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(kind_of(&program, sizeof(program)), PROGRAM_OTHER_MACHINE);
}

static void a_static_program(void **state)
{
	struct program program = usual();

	(void)state;
	program.segments[1].p_type = PT_NOTE;
	assert_int_equal(kind_of(&program, sizeof(program)), PROGRAM_STATIC);
}

static void what_is_no_program_is_not_judged(void **state)
{
	(void)state;
	assert_int_equal(kind_of("#!/bin/sh\n", 10), PROGRAM_OURS);
	assert_int_equal(program_kind_of_file("/nonexistent"), PROGRAM_OURS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_usual_program),
		cmocka_unit_test(a_program_for_another_processor),
		cmocka_unit_test(a_static_program),
		cmocka_unit_test(what_is_no_program_is_not_judged),
	};

	return cmocka_run_group_tests_name("program kind", tests, NULL, NULL);
}
