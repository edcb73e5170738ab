/* Naming capabilities that are missing. See capabilities.h. */

#include "tracer/process/capabilities.h"

#include "tracer/base/proc_status.h"
#include "tracer/process/trace_permission.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
	unsigned number;
	const char *name;
	bool to_load; /* and for nothing else */
} needed[] = {
	{CAP_SYS_PTRACE, "SYS_PTRACE", false}, {CAP_SETUID, "SETUID", false}, /* to make a socket as the process's user */
	{CAP_SETGID, "SETGID", false},         {CAP_KILL, "KILL", false},
	{CAP_IPC_OWNER, "IPC_OWNER", false},   {CAP_DAC_OVERRIDE, "DAC_OVERRIDE", true}, /* to open its memory */
};

static bool has(uint64_t ours, unsigned number)
{
	return ours >> number & 1;
}

static uint64_t effective(void)
{
	return proc_status_number(getpid(), "CapEff", 16, 0);
}

static bool is_concerned(const struct target *target)
{
	return geteuid() == 0 && target->euid != 0;
}

bool capabilities_judge(const struct capability_facts *facts, struct error *err)
{
	const uint64_t ours = facts->ours;
	const bool loads = facts->loads;
	char names[160] = "", options[160] = "";
	size_t count = 0, named = 0, size = 0, given = 0;

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		count += !has(ours, needed[i].number) && (loads || !needed[i].to_load);
	if (count == 0)
		return false;
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		if (has(ours, needed[i].number) || (needed[i].to_load && !loads))
			continue;
		size += (size_t)snprintf(names + size, sizeof(names) - size, "%sCAP_%s",
		                         named == 0           ? ""
		                         : named + 1 == count ? " and "
		                                              : ", ",
		                         needed[i].name);
		given += (size_t)snprintf(options + given, sizeof(options) - given, " --cap-add %s", needed[i].name);
		named++;
	}
	error_set(err, -EPERM,
	          "process %d belongs to user %u, and this root (a container's, perhaps) has no %s; %sadd %s (docker run%s), or "
	          "run "
	          "rbprobe on the host",
	          (int)facts->pid, (unsigned)facts->user, names,
	          facts->closed && loads ? "that user may not trace it either, since it changed its user; "
	                                 : "run rbprobe as that user, or ",
	          count == 1 ? "the capability" : "them", options);
	return true;
}

static bool judge(const struct target *target, uint64_t ours, struct error *err)
{
	const struct capability_facts facts = {
		.ours = ours,
		.loads = !target->extension_mapped,
		.closed = trace_permission_is_closed(target),
		.pid = target->pid,
		.user = target->euid,
	};

	return capabilities_judge(&facts, err);
}

int capabilities_explain(const struct target *target, int code, struct error *err)
{
	if ((code == -EPERM || code == -EACCES) && is_concerned(target))
		judge(target, effective(), err);
	return code;
}

int capabilities_check(const struct target *target, struct error *err)
{
	uint64_t ours = effective();

	if (!is_concerned(target) || has(ours, CAP_IPC_OWNER))
		return 0;
	judge(target, ours, err);
	return -EPERM;
}
