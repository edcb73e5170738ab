#ifndef RBPROBE_ENTRY_H
#define RBPROBE_ENTRY_H

#include <stdbool.h>

/*
 * Starting the extension in a process that has not required it. `rbprobe load` calls the two exported functions in the stopped
 * main thread; a plain require runs none of this but entry_begin() and entry_done().
 */

/* Init: false where all has been initialised already, by the loader or by an earlier require. GVL held. */
bool entry_begin(void);
void entry_done(void);

/* During Init: whether a client has loaded the extension, and not the application required it. */
bool entry_by_loader(void);

/* Whether the extension was asked to stay ready (by a require, or rbprobe load), and not only loaded for a session. */
bool entry_stays(void);

/*
 * Exported. Called in the stopped main thread, with or without the GVL: asks the VM to run Init where it has not, and takes
 * SIGURG again where it has been given back. make_queue: and opens the queue, as somebody wants to attach; else the extension is
 * to stay ready. 0, or -errno.
 */
int rbprobe_start(int make_queue);

/* Exported. The bell, where SIGURG is the application's. Async-signal-safe. */
int rbprobe_ring(void);

#endif
