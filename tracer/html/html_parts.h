#ifndef RBPROBE_HTML_PARTS_H
#define RBPROBE_HTML_PARTS_H

#include "tracer/html/html.h"
#include "tracer/recording/slowest.h"
#include "tracer/recording/words.h"

#include "proto/histogram.h"

/* What the files of this room share. Times of the wall clock are ns since `html->base_ns`. */

#define HTML_TEXTS_MAX (96ull << 20) /* bytes of names and the like; beyond it all are OTHER_WORD */
#define HTML_METHODS_MAX 100000u
#define HTML_NODES_MAX 200000u
#define HTML_LEVELS_MAX 256u
#define HTML_THREADS_MAX 10000u /* beyond it, the last one has the calls of others as well */
#define HTML_LANES_MAX 32u      /* of a thread */
#define HTML_MARKS_MAX 100000u
#define HTML_SPANS_MAX 1000000u
#define HTML_GAPS_MAX 10000u
#define HTML_SLOWEST 500u
#define HTML_VALUE_MAX 4096u /* bytes of a text */

#define OTHER_WORD 0u

/* --- The tree of calls: by the calls around them, and the thread */

struct html_node {
	uint32_t parent, name; /* of those below node 0, the name is a thread's number */
	uint32_t level;
	uint64_t calls, errors, total_ns, self_ns;
};

struct html_tree {
	struct html_node *nodes; /* 0: all */
	uint32_t count, room;
	uint32_t *places; /* an open hash of numbers of nodes; 0: free */
	uint32_t place_count;
	uint64_t folded; /* calls that are counted in no node, as there were too many, or too deep inside others */
};

void html_tree_open(struct html_tree *tree);
void html_tree_free(struct html_tree *tree);
/* The node of that name below another; it is made. UINT32_MAX: there is no room for it. */
uint32_t html_tree_node(struct html_tree *tree, uint32_t parent, uint32_t name);

/* --- Calls of the timeline */

enum html_ended { HTML_RETURNED, HTML_RAISED, HTML_OTHERWISE, HTML_OPEN };

struct html_call {
	int64_t start_ns;
	uint64_t duration_ns;
	uint32_t name;
	uint32_t lane : 29, ended : 3;
};

struct html_calls {
	struct html_call *items;
	size_t count, room, max;
	uint64_t left;         /* out, as there were too many; */
	uint64_t left_longest; /* the longest of them took so many ns */
	uint32_t floor;        /* calls of buckets (histogram.h) below it are left out */
};

void html_calls_add(struct html_calls *calls, const struct html_call *call);
/* By lane; in it by time, and those around others first. */
void html_calls_sort(struct html_calls *calls);
/* What the tree is where it is not known from the start which call is inside which: they are, by their times. */
struct lanes;
void html_calls_tree(const struct html_calls *calls, const struct lanes *lanes, struct html_tree *tree);

/* --- Threads, and the lanes that each has in the timeline: one for its own fiber, and one for each other that is alive */

struct html_thread {
	pid_t pid;
	uint32_t native_id;
	bool main;
	uint32_t name;        /* a text */
	uint32_t first, last; /* of its lanes; NO_LANE: it has none */
};

#define NO_LANE UINT32_MAX

struct html_lane {
	uint32_t thread, next; /* of the thread's */
	uint32_t number;       /* of the thread's: 0, 1, ... */
	const struct fiber *owner;
	int64_t busy_ns; /* its last call ended then */
};

struct lanes {
	struct html_thread *threads;
	uint32_t thread_count, thread_room;
	struct words keys; /* of threads, by their index: PID, native id and name */
	struct html_lane *items;
	uint32_t count, room;
	uint64_t crowded; /* calls of fibers that have none, as the thread has too many */
};

/* What a fiber's `prepared` has. */
struct fiber_place {
	uint32_t thread, lane;
};

struct fiber_place html_lanes_of(struct html *html, struct fiber *fiber, int64_t start_ns);
/* A thread that has no fiber, with an empty lane; its index. There is room for it. */
uint32_t html_lanes_thread(struct lanes *lanes, const struct html_thread *thread);
/* No fiber of that process is known any more; and: that one is not. */
void html_lanes_let_go(struct lanes *lanes, pid_t pid);
void html_lanes_forget(struct lanes *lanes, const struct fiber *fiber);

/* --- Methods, by their names */

struct html_method {
	uint32_t file; /* a text */
	int32_t line;
	uint64_t calls, errors, min_ns, max_ns;
	uint64_t *octaves[HISTOGRAM_OCTAVES]; /* NULL: no call in it */
};

struct html_mark {
	int64_t from_ns;
	uint64_t duration_ns;
	uint32_t lane, kind, text;
};

/* What a thread did (`record --timeline`). */
struct html_span {
	int64_t from_ns;
	uint64_t duration_ns;
	uint32_t of, doing; /* a number of span_threads; enum thread_doing */
};

/* Of which thread spans are: that is known in the end, as its calls may come later, or never. */
struct html_span_thread {
	pid_t pid;
	uint32_t native_id, name; /* a text */
	uint32_t thread;          /* its index, plus 1; 0: it has none */
};

struct html_gap {
	int64_t from_ns;
	uint64_t duration_ns, calls;
	pid_t pid;
};

struct html {
	struct words texts, names;   /* names are those of methods; the first of each is that of what has no room */
	struct html_method *methods; /* by name */
	uint32_t method_room;
	struct html_tree tree;
	bool late; /* calls were told as they ended: those inside a call before it */
	struct html_calls calls;
	struct lanes lanes;
	struct html_mark *marks;
	uint32_t mark_count, mark_room;
	struct html_gap *gaps;
	uint32_t gap_count, gap_room;
	struct html_span *spans;
	uint32_t span_count, span_room;
	struct words span_keys; /* PID and native id */
	struct html_span_thread *span_threads;
	uint32_t span_thread_room;
	struct slowest *slowest;
	struct buffer heads, sessions, notes; /* JSON, elements of arrays */
	bool has_base;
	int64_t base_ns, end_ns;
	uint64_t calls_seen, lines_seen, lost, left_out, counted, other_ractors, marks_left, marks_lost, gaps_left, open;
	uint64_t spans_left, states_lost;
	uint32_t states_rate_hz; /* 0: the VM told what threads do */
};

/* The number of a text, and of a method's name; OTHER_WORD where there is no room. */
uint32_t html_name(struct html *html, struct slice text);
uint32_t html_text(struct html *html, struct slice text);
/*
 * Since the first time that was asked for. A process, or a file, may say anything: what is further away than 73 years is
 * 73 years away, so that times can be subtracted from each other.
 */
int64_t html_time(struct html *html, const struct stream *stream, uint64_t time_ns);
int64_t html_end(int64_t start_ns, uint64_t duration_ns);
#define HTML_FAR_NS (INT64_C(1) << 61)
/* Text for people, as JSON: what a screen must not be shown is an escape that can be seen. At most HTML_VALUE_MAX bytes. */
void html_add_shown(struct buffer *to, struct slice text);
/* A call that is slow, as JSON. */
slowest_writer html_slow_call;

/* --- html_spans.c: what threads did */

struct thread_span;

void html_spans_add(struct html *html, const struct stream *stream, const struct thread_span *span);
/* In the end: threads that have no call get a lane, too. Before lanes are written. */
void html_spans_settle(struct html *html);
struct html_columns;
void html_spans_write(struct html *html, int64_t origin, struct html_columns *columns);

/* --- html_pack.c: columns of numbers, in one piece */

struct html_columns {
	struct buffer bytes;
	struct buffer names; /* JSON: [name, bytes], ... */
};

struct column {
	struct html_columns *columns;
	const char *name;
	size_t from;
};

struct column html_column(struct html_columns *columns, const char *name);
void html_column_add(const struct column *column, uint64_t number);
void html_column_end(const struct column *column);
void html_columns_tree(struct html_columns *columns, const char *prefix, const struct html_tree *tree);
/* The page around what is known; frees the columns. about: JSON, an object that is open. */
void html_page(struct html_columns *columns, struct buffer *about, struct buffer *to);

/* Made of page/ when rbprobe is built, each ends with a NULL: what comes before what is known, and after it. */
extern const char *const html_page_before[];
extern const char *const html_page_after[];

#endif
