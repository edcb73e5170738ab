/* Seccomp filters, run outside of the kernel: what they say to a call, and that whatever they are they end. */

#include "tracer/inject/seccomp_filter.h"
#include "unit.h"

#include <linux/audit.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define RUN(code, call) seccomp_filter_run(code, sizeof(code) / sizeof(*(code)), call)

static void by_the_number_of_the_call(void **state)
{
	static const struct sock_filter code[] = {
		NUMBER,
		UNLESS(SYS_memfd_create, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		UNLESS(SYS_msgget, 1),
		RETURN(SECCOMP_RET_ERRNO | 1),
		RETURN(SECCOMP_RET_ALLOW),
	};
	struct seccomp_data call = {.nr = SYS_memfd_create};

	(void)state;
	assert_int_equal(RUN(code, &call), SECCOMP_RET_KILL_PROCESS);
	call.nr = SYS_msgget;
	assert_int_equal(RUN(code, &call), SECCOMP_RET_ERRNO | 1);
	call.nr = SYS_read;
	assert_int_equal(RUN(code, &call), SECCOMP_RET_ALLOW);
}

static void by_an_argument(void **state)
{
	/* Lower half of the second argument, masked, counted and compared: as compilers of filters write it. */
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_IMM, 2),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 7, 0, 1),
		RETURN(SECCOMP_RET_TRAP),
		BPF_STMT(BPF_LDX | BPF_MEM, 3),
		BPF_STMT(BPF_MISC | BPF_TXA, 0),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x20, 0, 1),
		RETURN(SECCOMP_RET_LOG),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		RETURN(SECCOMP_RET_TRACE),
		RETURN(SECCOMP_RET_ALLOW),
	};
	struct seccomp_data call = {.args = {0, 0x50}};

	(void)state;
	assert_int_equal(RUN(code, &call), SECCOMP_RET_TRAP);
	call.args[1] = 0x20;
	assert_int_equal(RUN(code, &call), SECCOMP_RET_LOG);
	call.args[1] = 0x40;
	assert_int_equal(RUN(code, &call), SECCOMP_RET_ALLOW);
}

static void a_returned_accumulator(void **state)
{
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct seccomp_data call = {.arch = AUDIT_ARCH_X86_64};

	(void)state;
	assert_int_equal(RUN(code, &call), AUDIT_ARCH_X86_64);
}

static void what_makes_no_sense_kills(void **state)
{
	static const struct sock_filter beyond[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(struct seccomp_data)),
	                                            RETURN(SECCOMP_RET_ALLOW)};
	static const struct sock_filter unaligned[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), RETURN(SECCOMP_RET_ALLOW)};
	static const struct sock_filter endless[] = {BPF_JUMP(BPF_JMP | BPF_JA, 0xffffffff, 0, 0), RETURN(SECCOMP_RET_ALLOW)};
	static const struct sock_filter memory[] = {BPF_STMT(BPF_ST, BPF_MEMWORDS), RETURN(SECCOMP_RET_ALLOW)};
	static const struct sock_filter no_return[] = {NUMBER};
	struct seccomp_data call = {0};

	(void)state;
	assert_int_equal(RUN(beyond, &call), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(unaligned, &call), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(endless, &call), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(memory, &call), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(RUN(no_return, &call), SECCOMP_RET_KILL_PROCESS);
}

static void the_strictest_of_several_filters_counts(void **state)
{
	static struct sock_filter allow[] = {RETURN(SECCOMP_RET_ALLOW)}, refuse[] = {RETURN(SECCOMP_RET_ERRNO | 38)},
				  trap[] = {RETURN(SECCOMP_RET_TRAP)}, notify[] = {RETURN(SECCOMP_RET_USER_NOTIF)};
	struct seccomp_filters filters = {.count = 1, .filters = {{allow, 1}, {refuse, 1}, {trap, 1}}};
	struct seccomp_data call = {0};

	(void)state;
	assert_int_equal(seccomp_filters_judge(&filters, &call), SECCOMP_ALLOWED);
	filters.count = 2;
	assert_int_equal(seccomp_filters_judge(&filters, &call), SECCOMP_REFUSED);
	filters.count = 3;
	assert_int_equal(seccomp_filters_judge(&filters, &call), SECCOMP_DEADLY);
	filters.filters[2].code = notify;
	assert_int_equal(seccomp_filters_judge(&filters, &call), SECCOMP_DEADLY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_the_number_of_the_call),
		cmocka_unit_test(by_an_argument),
		cmocka_unit_test(a_returned_accumulator),
		cmocka_unit_test(what_makes_no_sense_kills),
		cmocka_unit_test(the_strictest_of_several_filters_counts),
	};

	return cmocka_run_group_tests_name("seccomp filter", tests, NULL, NULL);
}
