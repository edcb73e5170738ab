#ifndef RBPROBE_SECCOMP_FILTER_H
#define RBPROBE_SECCOMP_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What a process's seccomp filters say to a system call, found out by running them here. A filter may kill the process
 * for a call that it did not expect, so that trying is no way.
 */

#define SECCOMP_FILTERS_MAX 32

struct seccomp_filters {
	size_t count;
	struct {
		struct sock_filter *code;
		size_t length;
	} filters[SECCOMP_FILTERS_MAX];
};

enum seccomp_verdict {
	SECCOMP_ALLOWED,
	SECCOMP_REFUSED, /* with an error code, which the caller sees */
	SECCOMP_DEADLY,  /* the process would be killed, or it is for somebody else to say */
};

/*
 * Reads the filters of a process that the caller has stopped by ptrace. 0; -EACCES (it takes CAP_SYS_ADMIN), -EINVAL
 * (the kernel was built without it) and others.
 */
int seccomp_filters_read(struct seccomp_filters *filters, pid_t pid);
void seccomp_filters_free(struct seccomp_filters *filters);

enum seccomp_verdict seccomp_filters_judge(const struct seccomp_filters *filters, const struct seccomp_data *call);

/* What one filter returns (SECCOMP_RET_...). A program that makes no sense kills. */
uint32_t seccomp_filter_run(const struct sock_filter *code, size_t length, const struct seccomp_data *call);

#endif
