#ifndef RBPROBE_TRACEE_STUCK_H
#define RBPROBE_TRACEE_STUCK_H

/*
 * Answering where no job runs: C code holds the GVL and does not come back. Called by the bell's handler, which runs on the thread that was sent the signal. If
 * that thread has the GVL, and a client's question waits in the queue, its frames are sent to that client. Async-signal-safe; returns at once where nothing is
 * asked.
 */
void stuck_answer_if_asked(int queue_id);

#endif
