/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How programs in tests reach the fake GPU: a Unix SOCK_SEQPACKET socket named by FAKE_GPU.  An open node is a
 * connection, so that dup, fork and SCM_RIGHTS keep it open.  The last close of a node is seen, as with a driver's
 * file.  Everything else is one request and one answer on a connection of its own, which names the file by its
 * socket's cookie.
 */
#ifndef FAKE_WIRE_H
#define FAKE_WIRE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FAKE_OPEN = 1, FAKE_IOCTL, FAKE_SUBMIT, FAKE_WAIT, FAKE_DONE };

struct fake_request {
	uint32_t type, size, nested;	/* bytes of argument, and of what it points to */
	uint32_t code;			/* of the ioctl */
	uint64_t cookie;
	uint32_t client, handle;	/* submit, wait, done: which TSG or queue of the file */
	uint64_t value;			/* ns of work, or the number of the work */
	unsigned char bytes[2048];
};

struct fake_answer {
	int32_t result, error;
	uint64_t value;
	unsigned char bytes[2048];
};

#define FAKE_HEAD(type) ((size_t)((char *)((type *)0)->bytes - (char *)0))

static inline uint64_t fake_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size);
	return cookie;
}

static inline int fake_connect(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path, getenv("FAKE_GPU") ? getenv("FAKE_GPU") : "", sizeof(address.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline int fake_exchange(int fd, struct fake_request *q, struct fake_answer *a)
{
	if (send(fd, q, FAKE_HEAD(struct fake_request) + q->size + q->nested, MSG_NOSIGNAL) < 0)
		return -1;
	return recv(fd, a, sizeof(*a), 0) < (ssize_t)FAKE_HEAD(struct fake_answer) ? -1 : 0;
}

static inline int fake_ask(struct fake_request *q, struct fake_answer *a)
{
	int fd = fake_connect(), err = fd < 0 ? -1 : fake_exchange(fd, q, a);

	if (fd >= 0)
		close(fd);
	return err;
}

#endif
