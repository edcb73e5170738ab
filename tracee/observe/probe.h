#ifndef RBPROBE_PROBE_H
#define RBPROBE_PROBE_H

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/* Observed methods, and the table in which a session has them. Job context, GVL held, except where said. */

struct session;
struct engine;
struct engine_target_site;
struct engine_patch_link;
struct expression_list;
struct line_site;
struct tally;

/* What is done for an ordinary call of a probe: observe_quick.h. */
enum probe_way {
	WAY_LONG,    /* it has to be looked at; also of a probe that is not armed yet */
	WAY_COUNTED, /* counted as it begins */
	WAY_TIMED,   /* its time is counted as it ends */
	WAY_DECIDED, /* forgotten as it ends, where it took less time than is asked for */
};

/* One definition of an observed method, of one session. */
struct probe {
	/* What each event looks at, in one cache line. */
	_Alignas(64) struct session *session;
	ID callee_id;
	VALUE owner;          /* the class or module that has the method */
	struct tally *tally;  /* where calls are counted; its own */
	uint32_t ref;         /* the client's number for it */
	uint32_t calls;       /* that began; wraps around */
	uint8_t roles;        /* of its selectors: bits by enum selector_role */
	uint8_t way;          /* enum probe_way; observe_choose_way() */
	uint8_t outermost_of; /* the set of its selector, of whose calls only the outermost are shown; 0: all are */
	bool always;          /* its calls are shown whatever the session asks of their ends; where it decides when they end */
	bool armed;
	bool told;          /* the client knows it: its calls may be shown */
	bool counts_only;   /* its calls are counted when they begin, and not followed */
	bool only_counted;  /* the same, where others are streamed: following them would take too much of the process */
	bool let_go;        /* not observed any more, but events may still come: they could not be switched off at once */
	bool keeps_binding; /* its calls do: their frame is gone when this Ruby tells of their end, and variables are wanted */
	struct expression_list *expressions; /* NULL: none */
	VALUE waiting;                       /* Array of what has to be seen to when a class has its name; Qfalse: nothing */
	VALUE only_kind_of;                  /* Array of classes: calls on other receivers are not shown; Qundef: all are */

	struct engine_patch_link *patches; /* of engine patch */
	struct engine_target_site *sites;  /* of engine target */
	struct line_site *line;            /* of a probe of a line, see engine_line.h; NULL: it is of calls */
	const struct engine *engine;
	struct expression_list *ends;      /* what is shown when a call ends, variables among it; NULL: nothing */
	struct expression_list *condition; /* of the session, for this method; NULL: none */
	struct expression_list *key;       /* the same: by its value calls are counted apart */
	VALUE callee;                      /* Symbol: the name it was selected by; an alias has its own */
	uint32_t selector;                 /* index */
	uint32_t calls_before;             /* when somebody last looked at `calls` */
	uint64_t counted;                  /* calls since only_counted */
	uint64_t let_go_ns;                /* when that was */
	uint64_t met;                      /* its calls that met all conditions but those that count */
	struct probe *former;              /* of the definition that this one replaced */
	uint32_t definitions;              /* how many formers it has */
	struct probe *next;                /* in its bucket */
	struct probe *next_made;
	struct probe *next_alias;                                         /* of engine hook */
	enum { RETRY_NOT_KNOWN, RETRY_POSSIBLE, RETRY_IMPOSSIBLE } retry; /* retry.h */
};

/* Whether both are of one method, whichever definitions. Event context. */
static inline bool probe_is_same_method(const struct probe *probe, const struct probe *other)
{
	return probe == other || (probe->owner == other->owner && probe->callee == other->callee);
}

/*
 * A probe is of one definition of a method, and lives as long as its table: open calls refer to it. Where the method is defined
 * anew, the new definition gets a probe of its own, which stands before the former one in the table: calls of that may still be
 * under way, or come through a Method object.
 */
struct probe_table {
	struct probe **buckets; /* by owner and name */
	uint32_t bucket_count;  /* a power of two */
	uint32_t count;
	/*
	 * All of them, in the order in which they were made: who runs Ruby code on the way walks this list, as the buckets may be
	 * replaced meanwhile.
	 */
	struct probe *first_made, **last_made;
};

/* An empty one; false without memory. */
bool probe_table_init(struct probe_table *table);
/* Frees the table and the probes themselves, but nothing that they own. */
void probe_table_free(struct probe_table *table);

/* A probe that has owner, callee and its number alone, in the table; NULL without memory. */
struct probe *probe_table_add(struct probe_table *table, VALUE owner, VALUE callee);
/* The same for a line of the method, which probe_table_find() does not find. */
struct probe *probe_table_add_line(struct probe_table *table, VALUE owner, VALUE callee);
/* The probe for a method that has one, that of its latest definition, or NULL; also of no table. Event context. */
struct probe *probe_table_find(const struct probe_table *table, VALUE owner, VALUE callee);

#endif
