#ifndef RBPROBE_DEBUG_DOMAINS_H
#define RBPROBE_DEBUG_DOMAINS_H

/*
 * The domains of debug lines: X(NUMBER, NAME, name, what its lines report). RBPROBE_DEBUG takes the names, an ATTACH the bits
 * 1 << NUMBER, a DEBUG record the number. A new domain is a line at the end, with the next number, and a row in PROTOCOL.md and
 * in rbprobe(1).
 */
#define DEBUG_DOMAINS(X)                                                                                                         \
	X(0, ATTACH, attach, "the steps to a session: what the process is, socket, rings of its bell, greeting")                 \
	X(1, QUEUE, queue, "the command queue: which queues there are, what was written, taken, removed")                        \
	X(2, LOAD, load, "loading the extension: the thread, each stop and why it was refused, what was called, its result")     \
	X(3, SESSION, session, "sessions in the process: begin, detach and why, what is still waited for")                       \
	X(4, REQUEST, request, "commands in the process: which came, how each request ended")                                    \
	X(5, SELECT, select, "selectors in the process: how many methods each matched, methods that were added later")           \
	X(6, ENGINE, engine, "which engine was chosen for which method, and why not a cheaper one")                              \
	X(7, EVAL, eval, "evaluations in the process: start, cancelling, end of their threads")

#define DEBUG_DOMAIN_BIT(number, NAME, name, reports) DEBUG_##NAME = 1 << (number),
#define DEBUG_DOMAIN_NUMBER_MAX 31u

enum debug_domain { DEBUG_DOMAINS(DEBUG_DOMAIN_BIT) };

#endif
