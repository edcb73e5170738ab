#ifndef RBPROBE_UNIX_PEER_H
#define RBPROBE_UNIX_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The name of the socket at the other end of a UNIX connection, such as a server's "/run/postgresql/.s.PGSQL.5432", which a
 * client's own socket does not have. The kernel says it (sock_diag); in another network namespace than ours it is not known.
 */

/* inode: of the connection's socket. False: it has no other end, that has no name, or the kernel does not say. */
bool unix_peer_name(uint64_t inode, char *name, size_t size);

#endif
