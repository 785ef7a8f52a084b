// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The transport to the user-space host: packets on a Unix socket.  Several threads can have a call in progress.  One of
 * the waiting threads receives for all of them and gives each answer to the call with the same cookie.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <gpurt/uapi.h>

#include "inherit.h"
#include "transport.h"

#define MAX_ARGUMENT 768
/*
 * How long a thread polls for an answer that needs no waiting, before it sleeps: as long as the host takes for an
 * answer.  A thread that slept on another CPU than the host's takes as long again to wake, twice in each segment.
 */
#define POLL_NS 100000
/* Likewise for GPURT_SPINS, while the host carries out a decision. */
#define HOST_SPIN_NS 20000000

/* The most posts (calls without an answer) that the host may not have read yet. */
#define MOST_POSTS 16
/* The cookie of a call whose answer says that the host has read all earlier posts.  No thread waits for the answer. */
#define HAS_READ UINT32_MAX

/* If an interrupted call has no answer after this time, another signal ends the thread's wait for the host. */
#define HUNG_NS 100000000

struct pending {
	struct pending *next;
	uint32_t cookie;
	void *argument;
	uint32_t size;
	int result;
	bool answered;
};

struct connection {
	int fd;
	pthread_mutex_t lock;
	_Atomic uint32_t received;	/* packets; a futex that threads wait at while another one receives */
	bool receiving;			/* a thread receives for all */
	_Atomic bool agents;		/* agents may need this CPU to carry out a decision, so no thread spins */
	_Atomic unsigned int posts;	/* posts that the host may not have read */
	_Atomic unsigned int asked;	/* how many of the posts the host has read when it answers HAS_READ */
	atomic_bool asks;		/* the call HAS_READ is not answered yet */
	int broken;			/* -errno after the host is gone or has refused the connection, otherwise 0 */
	uint32_t cookie;
	struct pending *pending;
};

struct packet {
	struct gpurt_packet header;
	char argument[MAX_ARGUMENT];
};

static int socket_open(const char *path, void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct connection *c;
	int fd, err;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		err = errno == ECONNREFUSED || errno == ENOENT ? -ENODEV : -errno;
		close(fd);
		return err;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	c->fd = fd;
	gpurt_mutex_init(&c->lock, PTHREAD_MUTEX_NORMAL);
	*state = c;
	return 0;
}

static void socket_close(void *state)
{
	struct connection *c = state;

	close(c->fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* The fork may have copied a held lock, so the lock is not destroyed. */
static void socket_abandon(void *state)
{
	struct connection *c = state;

	close(c->fd);
	free(c);
}

static int transmit_packet(int fd, const struct packet *p, size_t size, int flags)
{
	ssize_t sent;

	do
		sent = send(fd, p, sizeof(p->header) + size, MSG_NOSIGNAL | flags);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return 0;
	return errno == EPIPE || errno == ECONNRESET ? -ENODEV : -errno;
}

static int transmit(int fd, uint32_t code, uint32_t cookie, const void *argument, uint32_t size, int flags)
{
	struct packet p = { .header = {
		.type = GPURT_PACKET_IOCTL, .code = code, .cookie = cookie, .result = (int32_t)syscall(SYS_gettid),
	} };

	memcpy(p.argument, argument, size);
	return transmit_packet(fd, &p, size, flags);
}

/* Gives an answer to the call that waits for it.  If no call waits for it any more, drops it. */
static void deliver(struct connection *c, const struct packet *p, size_t length)
{
	struct pending *call;

	if (length < sizeof(p->header) || p->header.type != GPURT_PACKET_REPLY)
		return;
	if (!p->header.cookie && p->header.result)
		c->broken = p->header.result;
	if (p->header.cookie == HAS_READ) {
		c->posts = c->posts > c->asked ? c->posts - c->asked : 0;
		c->asks = false;
		return;
	}
	length -= sizeof(p->header);
	for (call = c->pending; call; call = call->next) {
		if (call->cookie != p->header.cookie)
			continue;
		memcpy(call->argument, p->argument, length < call->size ? length : call->size);
		call->result = p->header.result;
		call->answered = true;
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* recv() of a packet that comes soon: polls for @poll_ns before it sleeps. */
static ssize_t receive_packet(int fd, struct packet *p, uint64_t poll_ns)
{
	uint64_t until = poll_ns ? now_ns() + poll_ns : 0;
	bool soon = poll_ns;
	ssize_t got;

	while (soon) {
		got = recv(fd, p, sizeof(*p), MSG_DONTWAIT);
		if (got >= 0 || errno != EAGAIN)
			return got;
		soon = now_ns() < until;
	}
	return recv(fd, p, sizeof(*p), 0);
}

/* Receives one packet, with the lock dropped meanwhile.  Returns 0, or -errno of recv(). */
static int receive(struct connection *c, uint64_t poll_ns)
{
	struct packet p;
	ssize_t got;
	int err;

	c->receiving = true;
	pthread_mutex_unlock(&c->lock);
	got = receive_packet(c->fd, &p, poll_ns);
	err = got < 0 ? -errno : 0;
	pthread_mutex_lock(&c->lock);
	c->receiving = false;
	if (got > 0)
		deliver(c, &p, (size_t)got);
	else if (err == -ECONNRESET)
		err = 0;	/* earlier packets of the host can still be read, and then the end of the connection */
	else if (err != -EINTR)
		c->broken = -ENODEV;
	c->received++;
	syscall(SYS_futex, &c->received, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	return err;
}

/* Waits, with the lock dropped, until another thread has received a packet.  Returns 0, or -EINTR after a signal. */
static int doze(struct connection *c)
{
	uint32_t seen = c->received;
	int err;

	pthread_mutex_unlock(&c->lock);
	err = syscall(SYS_futex, &c->received, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0) < 0 ? -errno : 0;
	pthread_mutex_lock(&c->lock);
	return err == -EINTR ? err : 0;
}

/* A signal interrupts a call that waits.  The host answers -EINTR unless the awaited event has happened. */
static void interrupt(struct connection *c, uint32_t cookie)
{
	struct packet p = { .header = { .type = GPURT_PACKET_INTERRUPT, .cookie = cookie } };

	pthread_mutex_unlock(&c->lock);
	transmit_packet(c->fd, &p, 0, 0);
	pthread_mutex_lock(&c->lock);
}

static uint64_t poll_for(struct connection *c, enum gpurt_patience patience)
{
	if (patience == GPURT_WAITS)
		return 0;
	return patience == GPURT_SPINS && !c->agents ? HOST_SPIN_NS : POLL_NS;
}

static int await(struct connection *c, struct pending *call, enum gpurt_patience patience)
{
	uint64_t interrupted = 0;
	int err;

	while (!call->answered) {
		if (c->broken)
			return c->broken;
		err = c->receiving ? doze(c) : receive(c, poll_for(c, interrupted ? GPURT_IS_ANSWERED : patience));
		if (err != -EINTR || patience != GPURT_WAITS || call->answered)
			continue;
		if (!interrupted) {
			interrupt(c, call->cookie);
			interrupted = now_ns();
		} else if (now_ns() - interrupted > HUNG_NS) {
			return -EINTR;
		}
	}
	return call->result;
}

static int socket_call(void *state, uint32_t code, void *argument, enum gpurt_patience patience)
{
	struct connection *c = state;
	struct pending call = { .argument = argument }, **link;
	int err;

	memcpy(&call.size, argument, sizeof(call.size));
	if (call.size > MAX_ARGUMENT)
		return -E2BIG;
	pthread_mutex_lock(&c->lock);
	if (++c->cookie == HAS_READ)
		c->cookie = 1;		/* cookie 0 asks for no answer */
	call.cookie = c->cookie;
	call.next = c->pending;
	c->pending = &call;
	pthread_mutex_unlock(&c->lock);

	err = transmit(c->fd, code, call.cookie, argument, call.size, 0);

	pthread_mutex_lock(&c->lock);
	/* The host may have refused the connection before it closed it. */
	if (!err || err == -ENODEV)
		err = await(c, &call, err ? GPURT_IS_ANSWERED : patience);
	for (link = &c->pending; *link != &call; link = &(*link)->next)
		;
	*link = call.next;
	if (call.answered)
		c->posts = c->asked = 0;
	pthread_mutex_unlock(&c->lock);
	if (code == GPURT_IOC_QUERY && !err)
		c->agents = ((struct gpurt_query *)argument)->caps & GPURT_CAP_AGENTS;
	return err;
}

static bool socket_lost(void *state)
{
	struct connection *c = state;
	bool lost;

	pthread_mutex_lock(&c->lock);
	lost = c->broken;
	pthread_mutex_unlock(&c->lock);
	return lost;
}

/* Asks early, so that a thread seldom waits for the host to read its posts.  Another thread receives the answer. */
static void ask(struct connection *c)
{
	struct gpurt_query query = { .size = sizeof(query) };

	if (c->posts < MOST_POSTS / 2 || atomic_exchange(&c->asks, true))
		return;
	c->asked = c->posts;
	if (transmit(c->fd, GPURT_IOC_QUERY, HAS_READ, &query, sizeof(query), MSG_DONTWAIT))
		c->asks = false;
}

static int socket_post(void *state, uint32_t code, void *argument, bool patient)
{
	struct connection *c = state;
	uint32_t size;
	int err;

	memcpy(&size, argument, sizeof(size));
	if (size > MAX_ARGUMENT)
		return -E2BIG;
	if (!patient && c->posts >= MOST_POSTS)
		return -EAGAIN;
	err = transmit(c->fd, code, 0, argument, size, patient ? 0 : MSG_DONTWAIT);
	if (err || patient)
		return err;
	c->posts++;
	ask(c);
	return 0;
}

const struct gpurt_transport gpurt_transport_socket = {
	.open = socket_open,
	.close = socket_close,
	.abandon = socket_abandon,
	.call = socket_call,
	.lost = socket_lost,
	.post = socket_post,
};
