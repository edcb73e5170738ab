/* What control groups allow, by directories that look like theirs: version 1, version 2, and both. */

#define _GNU_SOURCE
#include "tracer/process/cgroup.h"
#include "tracer/process/container.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char top[64];

static int set_up(void **state)
{
	(void)state;
	strcpy(top, "/tmp/test-cgroup-XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", top);
	return system(command);
}

/* A file below top, and the directories on its way. */
static void given(const char *path, const char *text)
{
	char full[256];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", top, path);
	for (char *slash = full + strlen(top) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		mkdir(full, 0700);
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* mounts: with a %s where top stands. */
static struct cgroup_limits looked(const char *groups, const char *mount, uint64_t swap_free)
{
	struct cgroup_limits limits;
	char mounts[1024];
	char *at = strstr(mount, "TOP");

	assert_non_null(at);
	snprintf(mounts, sizeof(mounts), "22 1 8:1 / / rw - ext4 /dev/sda rw\n%.*s%s%s", (int)(at - mount), mount, top, at + 3);
	cgroup_look_at(groups, mounts, swap_free, &limits);
	return limits;
}

#define MEMORY_1 "35 31 0:32 / TOP/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
#define UNIFIED "41 31 0:38 / TOP/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"

static void version_1_memory(void **state)
{
	struct cgroup_limits limits;

	(void)state;
	given("/memory/docker/1f/memory.limit_in_bytes", "67108864\n");
	given("/memory/docker/1f/memory.usage_in_bytes", "66060288\n");
	given("/memory/docker/1f/memory.stat", "cache 9\ntotal_cache 3000\ntotal_shmem 1000\n");
	given("/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
	limits = looked("9:memory:/docker/1f\n0::/\n", MEMORY_1, 0);
	assert_int_equal(limits.memory_left, 1048576 + 2000);
	assert_int_equal(limits.memory_max, 67108864);
	assert_true(limits.threads_left == CGROUP_UNLIMITED);
	assert_false(limits.frozen);
	/* Without accounting of swap all that is free may be used. */
	assert_int_equal(looked("9:memory:/docker/1f\n", MEMORY_1, 5000).memory_left, 1048576 + 2000 + 5000);
	given("/memory/docker/1f/memory.memsw.limit_in_bytes", "67108864\n");
	given("/memory/docker/1f/memory.memsw.usage_in_bytes", "66060288\n");
	assert_int_equal(looked("9:memory:/docker/1f\n", MEMORY_1, 5000).memory_left, 1048576 + 2000);
}

static void version_2_memory_of_a_group_above(void **state)
{
	struct cgroup_limits limits;

	(void)state;
	given("/unified/pod/memory.max", "1000000\n");
	given("/unified/pod/memory.current", "999000\n");
	given("/unified/pod/memory.swap.max", "300\n");
	given("/unified/pod/memory.swap.current", "100\n");
	given("/unified/pod/memory.stat", "anon 1\nfile 5000\nshmem 4000\nslab_reclaimable 70\n");
	given("/unified/pod/app/memory.max", "max\n");
	given("/unified/pod/app/memory.current", "500000\n");
	limits = looked("0::/pod/app\n", UNIFIED, 10000);
	assert_int_equal(limits.memory_left, 1000 + 200 + 1000 + 70);
	assert_int_equal(limits.memory_max, 1000000);
}

static void the_fewest_threads(void **state)
{
	struct cgroup_limits limits;

	(void)state;
	given("/unified/pod/pids.max", "10\n");
	given("/unified/pod/pids.current", "9\n");
	given("/unified/pod/app/pids.max", "5\n");
	given("/unified/pod/app/pids.current", "3\n");
	limits = looked("0::/pod/app\n", UNIFIED, 0);
	assert_int_equal(limits.threads_left, 1);
	assert_int_equal(limits.threads_max, 10);
	given("/unified/pod/app/pids.current", "7\n"); /* a limit may be set below what is there */
	assert_int_equal(looked("0::/pod/app\n", UNIFIED, 0).threads_left, 0);
}

static void frozen_in_either_version(void **state)
{
	static const char both[] = "37 31 0:34 / TOP/freezer rw - cgroup cgroup rw,freezer\n";

	(void)state;
	given("/freezer/docker/1f/freezer.state", "THAWED\n");
	assert_false(looked("6:freezer:/docker/1f\n", both, 0).frozen);
	given("/freezer/docker/1f/freezer.state", "FROZEN\n");
	assert_true(looked("6:freezer:/docker/1f\n", both, 0).frozen);
	given("/unified/app/cgroup.events", "populated 1\nfrozen 0\n");
	assert_false(looked("6:freezer:/app\n0::/app\n", UNIFIED, 0).frozen);
	given("/unified/app/cgroup.events", "populated 1\nfrozen 1\n");
	assert_true(looked("6:freezer:/app\n0::/app\n", UNIFIED, 0).frozen);
}

/* In a container, its own group is mounted as if it were all. */
static void a_group_that_is_mounted_alone(void **state)
{
	static const char alone[] = "36 31 0:35 /docker/1f TOP/pids rw - cgroup cgroup rw,pids\n";

	(void)state;
	given("/pids/pids.max", "4\n");
	given("/pids/pids.current", "4\n");
	given("/pids/child/pids.max", "max\n");
	assert_int_equal(looked("8:pids:/docker/1f\n", alone, 0).threads_left, 0);
	assert_int_equal(looked("8:pids:/docker/1f/child\n", alone, 0).threads_left, 0);
	assert_true(looked("8:pids:/docker/1f0\n", alone, 0).threads_left == CGROUP_UNLIMITED);
	assert_true(looked("8:pids:/docker/2\n", alone, 0).threads_left == CGROUP_UNLIMITED);
}

static void what_cannot_be_seen_is_unlimited(void **state)
{
	(void)state;
	given("/unified/pids.max", "1\n");
	given("/unified/pids.current", "1\n");
	assert_true(looked("0::/../other\n", UNIFIED, 0).threads_left == CGROUP_UNLIMITED);
	assert_true(looked("", UNIFIED, 0).threads_left == CGROUP_UNLIMITED);
	assert_true(looked("broken\n:\n::\n0:", UNIFIED, 0).threads_left == CGROUP_UNLIMITED);
	assert_true(looked("0::/\n", "41 31 0:38 TOP\nx\n", 0).threads_left == CGROUP_UNLIMITED);
	assert_int_equal(looked("0::/\n", UNIFIED, 0).threads_left, 0);
}

static void kernels(void **state)
{
	(void)state;
	assert_true(container_kernel_is_known("Linux version 6.1.0-32-amd64 (debian-kernel@lists.debian.org)"));
	assert_false(container_kernel_is_known("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"));
	assert_false(container_kernel_is_known("Linux version 4.19.0-gvisor #1 SMP"));
}

#define IN_A_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_DIRECTORY(version_1_memory),
		IN_A_DIRECTORY(version_2_memory_of_a_group_above),
		IN_A_DIRECTORY(the_fewest_threads),
		IN_A_DIRECTORY(frozen_in_either_version),
		IN_A_DIRECTORY(a_group_that_is_mounted_alone),
		IN_A_DIRECTORY(what_cannot_be_seen_is_unlimited),
		cmocka_unit_test(kernels),
	};

	return cmocka_run_group_tests_name("cgroups", tests, NULL, NULL);
}
