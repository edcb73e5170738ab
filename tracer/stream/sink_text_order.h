#ifndef RBPROBE_SINK_TEXT_ORDER_H
#define RBPROBE_SINK_TEXT_ORDER_H

#include "tracer/stream/sink_text_parts.h"

#include "proto/clock.h"

/*
 * Whose lines come when, in the text format. In order of time each is shown when it is made. In order of threads
 * (style.by_thread) a fiber's outermost call is in one piece: the lines of one fiber, the live one, are shown as they come, and
 * those of others wait until its outermost call has ended; then those come that have ended, too. Nothing waits for longer than
 * ORDER_WAIT_NS, and no more than ORDER_SIZE_MAX: then what there is of a call is shown, and its later lines are headed by
 * "[thread ..., continued]".
 */

#define ORDER_WAIT_NS (1000 * NS_PER_MS)
#define ORDER_SIZE_MAX (4u << 20)

struct text_part;

struct text_order {
	struct fiber *live;             /* NULL: nobody; then nothing waits */
	struct text_part *first, *last; /* what waits, oldest first; one for each fiber */
	size_t size;                    /* bytes in it */
	/* Shows the line of this fiber that its owner holds back, if there is one. */
	void (*show_held)(struct sink *sink, struct fiber *fiber);
	struct text_part *spare; /* private */
	bool showing;
};

/* A fiber has an event whose line is held back: from now on it waits, if it has to. */
void order_note(struct sink *sink, struct text_order *order, struct fiber *fiber);
/* Where the fiber's next line goes; begins it with whose it is. */
struct buffer *order_line_begin(struct sink *sink, struct text_order *order, struct fiber *fiber);
/* The line, or lines, are whole. over: the fiber's outermost call has ended, or there is none. */
void order_line_end(struct sink *sink, struct text_order *order, struct fiber *fiber, bool over);
/* Nothing more comes of the fiber. */
void order_forget(struct sink *sink, struct text_order *order, struct fiber *fiber);
/* Shows all that waits. */
void order_show_all(struct sink *sink, struct text_order *order);
/* When something will have waited for too long (UINT64_MAX: never), and: shows what has by now. */
uint64_t order_wake_ns(const struct text_order *order);
void order_wake(struct sink *sink, struct text_order *order, uint64_t now_ns);
/* At the end. The fibers may be gone already. */
void order_free(struct text_order *order);

#endif
