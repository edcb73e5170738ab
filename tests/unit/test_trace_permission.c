/* Why a process may not be traced, from the facts: each cause is named, with what to do about it. */

#include "tracer/process/trace_permission.h"
#include "unit.h"

#include <errno.h>

/* Nothing is in the way but that the kernel says no. */
static struct trace_facts facts(void)
{
	return (struct trace_facts){.pid = 4711,
	                            .code = -EPERM,
	                            .yama_scope = -1,
	                            .same_user_namespace = true,
	                            .own_euid = 1000,
	                            .target_euid = 1000};
}

static void judged(const struct trace_facts *of, int code, const char *part, const char *remedy)
{
	struct error err = {0};

	assert_int_equal(trace_permission_judge(of, &err), code);
	assert_error(&err, code, part);
	assert_error(&err, code, remedy);
}

static void it_has_ended(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.has_ended = true;
	of.tracer = 12; /* of whoever has the number now */
	judged(&of, -ESRCH, "process 4711 ended", "");
}

static void a_debugger_has_it(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.tracer = 12;
	strcpy(of.tracer_name, "gdb");
	judged(&of, -EBUSY, "traced by gdb (process 12)", "let that one go first");
}

static void yama_restricts_to_descendants(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.yama_scope = 1;
	judged(&of, -EPERM, "kernel.yama.ptrace_scope is 1", "sysctl kernel.yama.ptrace_scope=0");
	judged(&of, -EPERM, "kernel.yama.ptrace_scope is 1", "as root");
}

static void another_profile_confines_it(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.target_euid = of.own_euid = 0;
	strcpy(of.own_label, "docker-default (enforce)");
	judged(&of, -EPERM, "no CAP_SYS_PTRACE", "--cap-add SYS_PTRACE");
	strcpy(of.label, "docker-default (enforce)");
	judged(&of, -EPERM, "no CAP_SYS_PTRACE", "--cap-add SYS_PTRACE");
	strcpy(of.label, "unconfined");
	judged(&of, -EPERM, "rbprobe in \"docker-default (enforce)\" and the process in \"unconfined\"",
	       "docker run --security-opt");
	strcpy(of.own_label, "unconfined");
	strcpy(of.label, "docker-default (enforce)");
	judged(&of, -EPERM, "no CAP_SYS_PTRACE", "--cap-add SYS_PTRACE");
}

/* As SELinux labels a user's shell and a service of the same user. */
static void a_profile_is_not_to_blame(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	strcpy(of.own_label, "unconfined_u:unconfined_r:unconfined_t:s0");
	strcpy(of.label, "system_u:system_r:initrc_t:s0");
	judged(&of, -EPERM, "a security module", "run rbprobe in the same");
	of.closed = true;
	judged(&of, -EPERM, "is yours but may not be traced: it changed its user", "as root");
}

static void yama_restricts_to_the_capability(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.yama_scope = 2;
	judged(&of, -EPERM, "kernel.yama.ptrace_scope is 2", "as root");
	judged(&of, -EPERM, "kernel.yama.ptrace_scope is 2", "CAP_SYS_PTRACE");
}

static void yama_forbids_it_to_everybody(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.yama_scope = 3;
	of.have_capability = true;
	judged(&of, -EPERM, "kernel.yama.ptrace_scope is 3", "require \"rbprobe\"");
}

static void yama_is_not_to_blame(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.yama_scope = 1;
	of.target_euid = 0;
	judged(&of, -EPERM, "belongs to user root (0)", "as that user or as root");
}

static void no_new_privs_makes_sudo_useless(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.no_new_privs = true;
	judged(&of, -EPERM, "is yours but may not be traced", "not by sudo from this shell");
	of.yama_scope = 1;
	judged(&of, -EPERM, "kernel.yama.ptrace_scope is 1", "not by sudo from this shell");
	of.target_euid = 0;
	judged(&of, -EPERM, "belongs to user root", "not by sudo from this shell");
}

static void a_root_without_the_capability(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.own_euid = of.target_euid = 0;
	judged(&of, -EPERM, "no CAP_SYS_PTRACE", "--cap-add SYS_PTRACE");
	of.target_euid = 1000;
	of.yama_scope = 2;
	judged(&of, -EPERM, "no CAP_SYS_PTRACE", "--cap-add SYS_PTRACE");
}

static void the_capability_does_not_help(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.have_capability = true;
	judged(&of, -EPERM, "a security module", "outside of that confinement");
	of.same_user_namespace = false;
	judged(&of, -EPERM, "user namespace does not belong to us", "root of the host");
}

static void a_filter_forbids_ptrace_to_us(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.ptrace_forbidden = true;
	of.have_capability = true;
	judged(&of, -EPERM, "seccomp filter", "on the host");
}

static void something_else(void **state)
{
	struct trace_facts of = facts();

	(void)state;
	of.code = -EIO;
	judged(&of, -EIO, "process 4711 cannot be traced: Input/output error", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_ended),
		cmocka_unit_test(a_debugger_has_it),
		cmocka_unit_test(yama_restricts_to_descendants),
		cmocka_unit_test(another_profile_confines_it),
		cmocka_unit_test(a_profile_is_not_to_blame),
		cmocka_unit_test(yama_restricts_to_the_capability),
		cmocka_unit_test(yama_forbids_it_to_everybody),
		cmocka_unit_test(yama_is_not_to_blame),
		cmocka_unit_test(no_new_privs_makes_sudo_useless),
		cmocka_unit_test(a_root_without_the_capability),
		cmocka_unit_test(the_capability_does_not_help),
		cmocka_unit_test(a_filter_forbids_ptrace_to_us),
		cmocka_unit_test(something_else),
	};

	return cmocka_run_group_tests_name("trace permission", tests, NULL, NULL);
}
