/*
 * Reading control groups. See cgroup.h.
 *
 * /proc/PID/cgroup names the group of each controller as our cgroup namespace has it, /proc/self/mountinfo the group that is
 * mounted where. A limit of any group above holds, too, so all that are mounted are asked.
 */

#include "tracer/process/cgroup.h"

#include "tracer/base/proc_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_MAX_HERE 1024
/* No controller of version 1 is called so. */
#define VERSION_2 "version 2"
/* Version 1 has no word for "no limit": its largest number of whole pages is one. */
#define VERSION_1_UNLIMITED (UINT64_C(1) << 62)

/* A group's directory. The groups above it end with the one that is mounted. */
struct group {
	bool version_1;
	size_t mounted; /* bytes of the mount point, which stay */
	char path[PATH_MAX_HERE];
};

static bool list_has(const char *list, size_t size, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list, *end = list + size; at + length <= end; at++)
		if (memcmp(at, word, length) == 0 && (at == list || at[-1] == ',') && (at + length == end || at[length] == ','))
			return true;
	return false;
}

/* The path in "4:memory:/docker/1f", and "0::/docker/1f" where no other line has the controller. False: none. */
static bool group_name(const char *groups, const char *controller, char *name, size_t size, bool *version_1)
{
	bool found = false;

	for (const char *line = groups; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *list = line + strcspn(line, ":\n"), *path;
		bool has;

		if (*list != ':')
			continue;
		list++;
		path = list + strcspn(list, ":\n");
		if (*path != ':')
			continue;
		has = list_has(list, (size_t)(path - list), controller);
		if (!has && (found || path != list))
			continue;
		path++;
		*version_1 = has;
		snprintf(name, size, "%.*s", (int)strcspn(path, "\n"), path);
		found = true;
		if (has)
			break;
	}
	return found;
}

/* One line of mountinfo, whose words end with a NUL each from here on. False: another file system. */
static bool mount_parse(char *line, bool version_1, const char *controller, char **root, char **point)
{
	char *rest = NULL, *word = strtok_r(line, " ", &rest), *options;

	for (int i = 0; word && i < 5; i++) {
		if (i == 3)
			*root = word;
		if (i == 4)
			*point = word;
		word = strtok_r(NULL, " ", &rest);
	}
	while (word && strcmp(word, "-") != 0)
		word = strtok_r(NULL, " ", &rest);
	word = word ? strtok_r(NULL, " ", &rest) : NULL;
	if (!word || !*point || strcmp(word, version_1 ? "cgroup" : "cgroup2") != 0 || !strtok_r(NULL, " ", &rest))
		return false;
	options = strtok_r(NULL, " ", &rest);
	return !version_1 || (options && list_has(options, strlen(options), controller));
}

static bool group_find(struct group *group, const char *groups, const char *mounts, const char *controller)
{
	char name[PATH_MAX_HERE / 2], line[PATH_MAX_HERE * 2], *root = NULL, *point = NULL;

	if (!group_name(groups, controller, name, sizeof(name), &group->version_1) || name[0] != '/' ||
	    strncmp(name, "/..", 3) == 0)
		return false;
	for (const char *at = mounts; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		size_t above;

		snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
		if (!mount_parse(line, group->version_1, controller, &root, &point))
			continue;
		above = strcmp(root, "/") == 0 ? 0 : strlen(root);
		if (strncmp(name, root, above) != 0 || (above && name[above] && name[above] != '/'))
			continue;
		group->mounted = strlen(point);
		snprintf(group->path, sizeof(group->path), "%s%s", point, strcmp(name, "/") == 0 ? "" : name + above);
		return true;
	}
	return false;
}

/* The group above. False: that one is not mounted. */
static bool group_rise(struct group *group)
{
	char *end = strrchr(group->path + group->mounted, '/');

	if (!end)
		return false;
	*end = '\0';
	return true;
}

static bool group_text(const struct group *group, const char *file, char *text, size_t size)
{
	char path[PATH_MAX_HERE + 64];

	snprintf(path, sizeof(path), "%s/%s", group->path, file);
	return text_file_read(path, text, size) > 0;
}

/* What has no such file, or says "max", is unlimited. */
static uint64_t group_number(const struct group *group, const char *file)
{
	char text[64];
	uint64_t number;

	if (!group_text(group, file, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return CGROUP_UNLIMITED;
	number = strtoull(text, NULL, 10);
	return number >= VERSION_1_UNLIMITED ? CGROUP_UNLIMITED : number;
}

/* The number after a name at the beginning of a line; 0: there is none. */
static uint64_t field(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, name, length) == 0 && line[length] == ' ')
			return strtoull(line + length, NULL, 10);
	return 0;
}

static uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

/* --- Controllers */

static bool is_frozen(const struct group *group)
{
	char text[256];

	if (group->version_1)
		return group_text(group, "freezer.state", text, sizeof(text)) && strncmp(text, "FROZEN", 6) == 0;
	return group_text(group, "cgroup.events", text, sizeof(text)) && field(text, "frozen") == 1;
}

static void look_at_threads(const struct group *group, struct cgroup_limits *limits)
{
	uint64_t most = group_number(group, "pids.max"), now = group_number(group, "pids.current");

	if (most == CGROUP_UNLIMITED || now == CGROUP_UNLIMITED || less(most, now) >= limits->threads_left)
		return;
	limits->threads_left = less(most, now);
	limits->threads_max = most;
}

static uint64_t swap_left(const struct group *group, uint64_t memory_max, uint64_t memory_now, uint64_t swap_free)
{
	uint64_t most, now;

	if (!group->version_1) {
		most = group_number(group, "memory.swap.max");
		now = group_number(group, "memory.swap.current");
	} else {
		/* Its numbers are of memory and swap together. */
		most = group_number(group, "memory.memsw.limit_in_bytes");
		now = group_number(group, "memory.memsw.usage_in_bytes");
		most = most == CGROUP_UNLIMITED ? most : less(most, memory_max);
		now = now == CGROUP_UNLIMITED ? now : less(now, memory_now);
	}
	if (most == CGROUP_UNLIMITED || now == CGROUP_UNLIMITED)
		return swap_free;
	return less(most, now) < swap_free ? less(most, now) : swap_free;
}

static void look_at_memory(const struct group *group, uint64_t swap_free, struct cgroup_limits *limits)
{
	bool old = group->version_1;
	uint64_t most = group_number(group, old ? "memory.limit_in_bytes" : "memory.max");
	uint64_t now = group_number(group, old ? "memory.usage_in_bytes" : "memory.current"), left;
	char text[8192];

	if (most == CGROUP_UNLIMITED || now == CGROUP_UNLIMITED || !group_text(group, "memory.stat", text, sizeof(text)))
		return;
	left = less(most, now) + swap_left(group, most, now, swap_free);
	left += less(field(text, old ? "total_cache" : "file"), field(text, old ? "total_shmem" : "shmem"));
	left += field(text, "slab_reclaimable");
	if (left >= limits->memory_left)
		return;
	limits->memory_left = left;
	limits->memory_max = most;
}

/* --- All of them */

void cgroup_look_at(const char *groups, const char *mounts, uint64_t swap_free, struct cgroup_limits *limits)
{
	struct group group;

	*limits = (struct cgroup_limits){.threads_left = CGROUP_UNLIMITED, .memory_left = CGROUP_UNLIMITED};
	/* The kernel says of a group below a frozen one that it is. To version 2 this is no controller: it always has it. */
	limits->frozen = (group_find(&group, groups, mounts, "freezer") && is_frozen(&group)) ||
	                 (group_find(&group, groups, mounts, VERSION_2) && is_frozen(&group));
	if (group_find(&group, groups, mounts, "pids"))
		do
			look_at_threads(&group, limits);
		while (group_rise(&group));
	if (group_find(&group, groups, mounts, "memory"))
		do
			look_at_memory(&group, swap_free, limits);
		while (group_rise(&group));
}

/* What it sleeps in. A group that we cannot see shows itself that way; get_signal is where a compiler has put the trap. */
static bool sleeps_frozen(pid_t pid)
{
	static const char *const places[] = {"__refrigerator", "do_freezer_trap", "get_signal"};
	char name[64], state = 0;
	uint64_t start;

	if (proc_file_read(pid, "wchan", name, sizeof(name)) <= 0 || proc_stat_read(pid, &state, &start) < 0 || state == 'T' ||
	    state == 't')
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (strcmp(name, places[i]) == 0)
			return true;
	return false;
}

void cgroup_look(pid_t pid, struct cgroup_limits *limits)
{
	static char mounts[1u << 18];
	char groups[8192], own[8192], memory[4096] = "";
	const char *swap;

	if (proc_file_read(pid, "cgroup", groups, sizeof(groups)) <= 0)
		groups[0] = '\0';
	if (text_file_read("/proc/self/mountinfo", mounts, sizeof(mounts)) <= 0)
		mounts[0] = '\0';
	text_file_read("/proc/meminfo", memory, sizeof(memory));
	swap = strstr(memory, "\nSwapFree:");
	cgroup_look_at(groups, mounts, swap ? strtoull(swap + 10, NULL, 10) * 1024 : 0, limits);
	limits->frozen = limits->frozen || sleeps_frozen(pid);
	limits->shared = proc_file_read(getpid(), "cgroup", own, sizeof(own)) > 0 && strcmp(own, groups) == 0;
}
