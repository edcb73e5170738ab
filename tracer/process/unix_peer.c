/* Asks the kernel for the other end of a UNIX connection. See unix_peer.h. */

#define _GNU_SOURCE
#include "tracer/process/unix_peer.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_SIZE 1024
#define WAIT_S 1 /* the kernel answers at once */

struct found {
	uint32_t peer; /* inode; 0: none */
	char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	size_t name_size;
};

static bool ask(int netlink, uint64_t inode)
{
	struct {
		struct nlmsghdr header;
		struct unix_diag_req request;
	} message = {
		.header = {.nlmsg_len = sizeof(message), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
		.request = {.sdiag_family = AF_UNIX,
	                    .udiag_states = UINT32_MAX,
	                    .udiag_ino = (uint32_t)inode,
	                    .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER,
	                    .udiag_cookie = {UINT32_MAX, UINT32_MAX}},
	};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	return inode <= UINT32_MAX && sendto(netlink, &message, sizeof(message), 0, (const struct sockaddr *)&kernel,
	                                     sizeof(kernel)) == (ssize_t)sizeof(message);
}

static void note(struct found *found, const struct rtattr *attribute)
{
	size_t size = RTA_PAYLOAD(attribute);

	if (attribute->rta_type == UNIX_DIAG_PEER && size >= sizeof(found->peer)) {
		memcpy(&found->peer, RTA_DATA(attribute), sizeof(found->peer));
	} else if (attribute->rta_type == UNIX_DIAG_NAME) {
		found->name_size = size < sizeof(found->name) ? size : sizeof(found->name);
		memcpy(found->name, RTA_DATA(attribute), found->name_size);
	}
}

static bool look(int netlink, uint64_t inode, struct found *found)
{
	alignas(struct nlmsghdr) char answer[ANSWER_SIZE];
	const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)answer;
	struct rtattr *attribute;
	ssize_t size;
	long left;

	memset(found, 0, sizeof(*found));
	if (!ask(netlink, inode))
		return false;
	size = recv(netlink, answer, sizeof(answer), 0);
	if (size < (ssize_t)NLMSG_LENGTH(sizeof(struct unix_diag_msg)) || !NLMSG_OK(header, (size_t)size) ||
	    header->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	left = (long)header->nlmsg_len - (long)NLMSG_LENGTH(sizeof(struct unix_diag_msg));
	attribute = (struct rtattr *)(void *)(answer + NLMSG_SPACE(sizeof(struct unix_diag_msg)));
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		note(found, attribute);
	return true;
}

bool unix_peer_name(uint64_t inode, char *name, size_t size)
{
	const struct timeval wait = {.tv_sec = WAIT_S};
	int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	struct found own, other = {0};

	if (netlink < 0)
		return false;
	if (setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 || !look(netlink, inode, &own) || !own.peer ||
	    !look(netlink, own.peer, &other))
		other.name_size = 0;
	close(netlink);
	/* An abstract name begins with a NUL. */
	if (other.name_size && !other.name[0])
		other.name[0] = '@';
	if (!other.name_size || other.name_size >= size)
		return false;
	memcpy(name, other.name, other.name_size);
	name[other.name_size] = '\0';
	return true;
}
