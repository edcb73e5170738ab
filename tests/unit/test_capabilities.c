/* What a container's root lacks to attach to a process of another user. */

#include "unit.h"

#include "tracer/process/capabilities.h"

#include <errno.h>
#include <linux/capability.h>

#define ALL (~0ull)
#define BIT(number) (1ull << (number))

static void all_that_are_missing_are_named(void **state)
{
	static const struct {
		struct capability_facts facts;
		const char *said; /* NULL: nothing is missing */
	} cases[] = {
		{{.ours = ALL, .loads = true}, NULL},
		{{.ours = ALL & ~BIT(CAP_DAC_OVERRIDE), .loads = false}, NULL},
		{{.ours = ALL & ~BIT(CAP_CHOWN), .loads = true}, NULL},
		{{.ours = ALL & ~BIT(CAP_DAC_OVERRIDE), .loads = true},
	         "has no CAP_DAC_OVERRIDE; run rbprobe as that user, or add the capability (docker run --cap-add DAC_OVERRIDE), "
	         "or "
	         "run rbprobe on the host"},
		{{.ours = ALL & ~BIT(CAP_SYS_PTRACE) & ~BIT(CAP_IPC_OWNER), .loads = true},
	         "has no CAP_SYS_PTRACE and CAP_IPC_OWNER; run rbprobe as that user, or add them (docker run --cap-add "
	         "SYS_PTRACE "
	         "--cap-add IPC_OWNER), or run rbprobe on the host"},
		{{.ours = 0, .loads = true},
	         "has no CAP_SYS_PTRACE, CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_IPC_OWNER and CAP_DAC_OVERRIDE; run rbprobe as"},
		{{.ours = ALL & ~BIT(CAP_KILL), .loads = true, .closed = true},
	         "has no CAP_KILL; that user may not trace it either, since it changed its user; add the capability (docker"},
		{{.ours = ALL & ~BIT(CAP_KILL), .closed = true}, "has no CAP_KILL; run rbprobe as that user"},
		{{.ours = 0, .loads = false},
	         "has no CAP_SYS_PTRACE, CAP_SETUID, CAP_SETGID, CAP_KILL and CAP_IPC_OWNER; run rbprobe as"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct error err = {0};
		struct capability_facts facts = cases[i].facts;

		facts.pid = 12;
		facts.user = 1000;
		assert_int_equal(capabilities_judge(&facts, &err), cases[i].said != NULL);
		if (!cases[i].said)
			continue;
		assert_int_equal(err.code, -EPERM);
		assert_non_null(strstr(err.text, "process 12 belongs to user 1000, and this root (a container's, perhaps) "));
		assert_non_null(strstr(err.text, cases[i].said));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_are_missing_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
