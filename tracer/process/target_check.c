/* Whether a process can be attached to, and if not, why. See target.h. */

#include "proto/bell.h"
#include "tracer/process/container.h"
#include "tracer/process/other_ruby.h"
#include "tracer/process/target.h"
#include "tracer/process/target_copy.h"
#include "tracer/process/trace_permission.h"

#include <errno.h>
#include <string.h>

#define LOAD_REMEDY                                                                                                              \
	"load it with: rbprobe load -p PID, or start it with: ruby -I \"$(rbprobe extension-dir)\" -rrbprobe ..., or add "       \
	"require \"rbprobe\" to the program"

int target_check(const struct target *target, struct error *err)
{
	int pid = (int)target->pid;

	if (target->group_pid != target->pid)
		return error_set(err, -ESRCH, "%d is a thread of process %d; give that PID: -p %d", pid, (int)target->group_pid,
		                 (int)target->group_pid);
	if (target->state == 'Z' || target->state == 'X')
		return error_set(err, -ESRCH, "process %d has ended already and waits for its parent to notice", pid);
	if (!target->readable)
		return trace_permission_explain(target, -EPERM, err);
	if (target->other_ruby)
		return error_set(err, -EINVAL,
		                 "process %d runs %s, which rbprobe cannot look into: it attaches to CRuby alone. %s", pid,
		                 target->other_ruby, other_ruby_remedy(target->other_ruby));
	if (!target->is_ruby && container_is_sandbox(target->pid))
		return error_set(
			err, -ENOSYS,
			"process %d is a gVisor sandbox (runsc), whose processes nothing outside of it can look into; run "
			"the container with another runtime, such as runc or crun",
			pid);
	if (target->program_error == -EPERM || target->program_error == -EACCES)
		return trace_permission_explain(target, -EPERM, err);
	if (target->program_error)
		return error_set(err, target->program_error, "cannot look at the program of process %d: %s; is it Ruby?", pid,
		                 strerror(-target->program_error));
	if (!target->is_ruby)
		return error_set(
			err, -EINVAL,
			"process %d is not a Ruby process: no libruby is loaded in it; `rbprobe ps` lists those that are", pid);
	if (copy_role_of(target->pid) != COPY_NONE)
		return error_set(
			err, -EBUSY,
			"process %d is a copy that rbprobe has made of another one: it runs nothing and cannot answer; a "
			"debugger can look at it",
			pid);
	if (target->state == 'T')
		return error_set(err, -EBUSY, "process %d is stopped and cannot answer; let it go on first, with: kill -CONT %d",
		                 pid, pid);
	return 0;
}

int target_check_loaded(const struct target *target, struct error *err)
{
	int pid = (int)target->pid;

	if (!target->extension_mapped)
		return error_set(err, -ENOEXEC, "process %d has not loaded the rbprobe extension; " LOAD_REMEDY, pid);
	if (target->state == 't')
		return error_set(err, -EBUSY, "process %d is stopped and cannot answer; let it go on first, with: kill -CONT %d",
		                 pid, pid);
	if (target->sigurg != SIGURG_CAUGHT)
		return error_set(
			err, -EBUSY,
			"process %d has loaded rbprobe, but the application has taken SIGURG from it (it is %s now); remove "
			"its trap(\"URG\"), or require \"rbprobe\" after it",
			pid, target->sigurg == SIGURG_IGNORED ? "ignored" : "not handled");
	return 0;
}

const char *target_attachable(const struct target *target)
{
	if (!target->readable)
		return "other user's";
	if (!target->extension_mapped)
		return "not loaded";
	if (target->state == 'T' || target->state == 't')
		return "stopped";
	if (target->sigurg != SIGURG_CAUGHT && bell_thread(target->pid) == 0)
		return "SIGURG taken";
	return "yes";
}
