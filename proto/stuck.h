#ifndef RBPROBE_PROTO_STUCK_H
#define RBPROBE_PROTO_STUCK_H

#include "proto/error.h"
#include "proto/limits.h"
#include "proto/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is asked and answered where the target does not run its job: its signal handler takes the question out of the
 * queue, and answers at once over a socket. Both are of fixed size, so that a handler can deal with them. Native byte
 * order: both ends are on one machine. PROTOCOL.md, "When the target is stuck".
 */

#define STUCK_MESSAGE_TYPE 2L /* of System V messages; commands have CHUNK_TYPE */
#define STUCK_MAGIC "rbps"
#define STUCK_VERSION 2u

/* What msgsnd and msgrcv take. */
struct stuck_question {
	long type; /* STUCK_MESSAGE_TYPE */
	char magic[4];
	uint32_t version;
	uint8_t nonce[NONCE_SIZE];
	uint32_t client_pid;                   /* as the target sees it; 0 where it cannot see it */
	char socket_path[SOCKET_PATH_MAX + 1]; /* as the target sees it */
};

enum stuck_code {
	STUCK_FRAMES = 0,
	STUCK_IN_GC = 1,   /* the garbage collector runs: nothing can be read safely */
	STUCK_NO_GVL = 2,  /* a look only: this thread has not the GVL, or none of Ruby's runs on it */
	STUCK_REFUSED = 3, /* the application does not allow backtraces */
};

#define STUCK_FRAMES_MAX 128u
#define STUCK_TEXT_MAX 255u /* bytes of a path or label; of a longer path the end, of a longer label the beginning */
#define STUCK_BYTES_MAX 32768u

/* The answer, of which bytes_used bytes are sent after the header. */
struct stuck_answer {
	char magic[4];
	uint32_t version;
	uint8_t nonce[NONCE_SIZE]; /* of the question */
	uint32_t pid;              /* as the target sees itself */
	uint32_t native_id;        /* the thread that answers, as the target sees it */
	uint32_t code;             /* enum stuck_code */
	uint32_t frame_count;
	uint32_t more; /* 1: there are more frames than these */
	uint32_t bytes_used;
	uint8_t bytes[STUCK_BYTES_MAX]; /* frames, innermost first */
};

#define STUCK_HEADER_SIZE offsetof(struct stuck_answer, bytes)

/*
 * The same of a process that is stopped: rbprobe_stuck_look(), which the extension exports, is called in the stopped
 * thread and returns the address of this. It asks nobody and sends nothing.
 */
struct stuck_look {
	uint64_t stack; /* an address in the native stack of the thread that the frames are of; 0: not known */
	struct stuck_answer answer;
};

#define STUCK_THREADS_MAX 64u /* that are looked at */

struct stuck_frame {
	int32_t line; /* 0: none, as of a method written in C; negative in code of eval, perhaps */
	struct slice path, label;
};

/* Appends a frame; false: there is no room. Async-signal-safe. */
bool stuck_add(struct stuck_answer *answer, const struct stuck_frame *frame);

/* Checks an answer of size bytes. 0; -EPROTO with err. */
int stuck_check(const struct stuck_answer *answer, size_t size, const uint8_t nonce[NONCE_SIZE], struct error *err);

/* Reads the frame at *offset of a checked answer and moves *offset past it; false: no more. */
bool stuck_next(const struct stuck_answer *answer, size_t *offset, struct stuck_frame *frame);

#endif
