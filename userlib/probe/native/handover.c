// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emit.h"
#include "guard.h"
#include "handover.h"
#include "parts.h"

/* The same numbers on every architecture.  Older C libraries do not define them. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define NOBODY 65534
#define HANDOVER_LIMIT_S 18

union control_room {
	char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr aligned;
};

static int travels(const struct handover *handover)
{
	return !strcmp(handover->caller.how, "scm_rights");
}

int handover_send(int socket, const struct handover *handover)
{
	union control_room control = { .room = { 0 } };
	struct iovec bytes = { (void *)(uintptr_t)handover, sizeof(*handover) };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
	struct cmsghdr *header;

	if (travels(handover)) {
		message.msg_control = control.room;
		message.msg_controllen = sizeof(control.room);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &handover->tsg.fd, sizeof(int));
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(*handover) ? 0 : -1;
}

static const char *taken(struct handover *handover)
{
	int process = (int)syscall(SYS_pidfd_open, handover->pid, 0);
	int fd;

	if (process < 0)
		return strerror(errno);
	fd = (int)syscall(SYS_pidfd_getfd, process, handover->tsg.fd, 0);
	close(process);
	if (fd < 0)
		return strerror(errno);
	handover->tsg.fd = fd;
	return NULL;
}

const char *handover_receive(int socket, struct handover *handover)
{
	union control_room control = { .room = { 0 } };
	struct iovec bytes = { handover, sizeof(*handover) };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.room,
				  .msg_controllen = sizeof(control.room) };
	struct cmsghdr *header;

	if (recvmsg(socket, &message, MSG_WAITALL) != (ssize_t)sizeof(*handover))
		return "nothing came";
	if (!travels(handover))
		return taken(handover);
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS)
		return "no descriptor came";
	memcpy(&handover->tsg.fd, CMSG_DATA(header), sizeof(int));
	return NULL;
}

int drop_privileges(void)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		return -1;
	return 0;
}

void kill_child(pid_t child)
{
	kill(child, SIGTERM);
	sleep_ns(500000000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int caller_main(int fd)
{
	struct handover handover = { 0 };
	const char *why;

	guard_start(HANDOVER_LIMIT_S);
	why = handover_receive(fd, &handover);
	if (why) {
		ops_refused(&handover.caller, why);
		return 0;
	}
	guard_watch(&handover.tsg, 1);
	ops_measure(&handover.tsg, &handover.caller);
	return 0;
}
