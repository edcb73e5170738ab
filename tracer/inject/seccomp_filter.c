/* Running seccomp filters. See seccomp_filter.h. Of BPF it knows what the kernel lets such filters consist of. */

#define _GNU_SOURCE
#include "tracer/inject/seccomp_filter.h"

#include "tracer/base/buffer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#define ACTION(value) ((value)&SECCOMP_RET_ACTION_FULL)

int seccomp_filters_read(struct seccomp_filters *filters, pid_t pid)
{
	memset(filters, 0, sizeof(*filters));
	for (size_t i = 0; i < SECCOMP_FILTERS_MAX; i++) {
		long length = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)i, NULL);

		if (length < 0)
			return errno == ENOENT && i > 0 ? 0 : -errno;
		filters->filters[i].code = memory_resize(NULL, (size_t)length * sizeof(*filters->filters[i].code));
		filters->filters[i].length = (size_t)length;
		filters->count = i + 1;
		if (ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)i, filters->filters[i].code) != length)
			return -EIO;
	}
	return -E2BIG;
}

void seccomp_filters_free(struct seccomp_filters *filters)
{
	for (size_t i = 0; i < filters->count; i++)
		free(filters->filters[i].code);
	memset(filters, 0, sizeof(*filters));
}

/* The state of a filter that runs. */
struct machine {
	uint32_t accumulator, index;
	uint32_t memory[BPF_MEMWORDS];
};

static uint32_t calculate(uint16_t operation, uint32_t a, uint32_t b)
{
	switch (operation) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b ? a / b : 0;
	case BPF_AND:
		return a & b;
	case BPF_OR:
		return a | b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	default: /* BPF_NEG */
		return 0 - a;
	}
}

static bool holds(uint16_t condition, uint32_t a, uint32_t b)
{
	switch (condition) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default: /* BPF_JSET */
		return (a & b) != 0;
	}
}

/* What a load instruction loads. False: nothing that seccomp knows. */
static bool load(const struct sock_filter *step, const struct machine *machine, const struct seccomp_data *call, uint32_t *value)
{
	switch (BPF_MODE(step->code)) {
	case BPF_ABS:
		if (step->k % 4 || step->k > sizeof(*call) - sizeof(*value))
			return false;
		memcpy(value, (const char *)call + step->k, sizeof(*value));
		return true;
	case BPF_IMM:
		*value = step->k;
		return true;
	case BPF_LEN:
		*value = sizeof(*call);
		return true;
	case BPF_MEM:
		if (step->k >= BPF_MEMWORDS)
			return false;
		*value = machine->memory[step->k];
		return true;
	default:
		return false;
	}
}

uint32_t seccomp_filter_run(const struct sock_filter *code, size_t length, const struct seccomp_data *call)
{
	struct machine machine = {0};

	/* Jumps go forward only, so this ends. */
	for (size_t at = 0; at < length; at++) {
		const struct sock_filter *step = &code[at];
		uint32_t operand = BPF_SRC(step->code) == BPF_X ? machine.index : step->k;

		switch (BPF_CLASS(step->code)) {
		case BPF_LD:
			if (!load(step, &machine, call, &machine.accumulator))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_LDX:
			if (!load(step, &machine, call, &machine.index))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_ST:
		case BPF_STX:
			if (step->k >= BPF_MEMWORDS)
				return SECCOMP_RET_KILL_PROCESS;
			machine.memory[step->k] = BPF_CLASS(step->code) == BPF_ST ? machine.accumulator : machine.index;
			break;
		case BPF_ALU:
			machine.accumulator = calculate(BPF_OP(step->code), machine.accumulator, operand);
			break;
		case BPF_JMP:
			at += BPF_OP(step->code) == BPF_JA                              ? step->k
			      : holds(BPF_OP(step->code), machine.accumulator, operand) ? step->jt
			                                                                : step->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(step->code) == BPF_A ? machine.accumulator : step->k;
		default:
			if (BPF_MISCOP(step->code) == BPF_TAX)
				machine.index = machine.accumulator;
			else
				machine.accumulator = machine.index;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static enum seccomp_verdict verdict(uint32_t action)
{
	switch (ACTION(action)) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return SECCOMP_ALLOWED;
	case SECCOMP_RET_ERRNO:
		return SECCOMP_REFUSED;
	default: /* a signal, or a supervisor's decision */
		return SECCOMP_DEADLY;
	}
}

enum seccomp_verdict seccomp_filters_judge(const struct seccomp_filters *filters, const struct seccomp_data *call)
{
	enum seccomp_verdict worst = SECCOMP_ALLOWED;

	for (size_t i = 0; i < filters->count; i++) {
		enum seccomp_verdict one =
			verdict(seccomp_filter_run(filters->filters[i].code, filters->filters[i].length, call));

		if (one > worst)
			worst = one;
	}
	return worst;
}
