#ifndef RBPROBE_LOOK_BUDGET_H
#define RBPROBE_LOOK_BUDGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * How long one kind of look at processes may take: all processes of a user together, however many they are, and all users
 * together, since a user may have more numbers than one. A tenth of the time that passes comes back: who waits for processes may
 * look for days. A static one begins with its two limits and else zero.
 */

#define LOOK_USERS_MAX 64

struct look_budget {
	uint64_t user_ns, all_ns; /* the limits */
	uint64_t spent_ns;
	uint64_t now_ns; /* until when what came back was counted */
	size_t count;
	struct {
		uid_t user;
		uint64_t spent_ns;
	} users[LOOK_USERS_MAX];
};

/* What a look at a process of that user may take. 0: nothing is left. now_ns: clock_now_ns(). */
uint64_t look_budget_left(struct look_budget *budget, uid_t user, uint64_t now_ns);
void look_budget_spend(struct look_budget *budget, uid_t user, uint64_t ns);

#endif
