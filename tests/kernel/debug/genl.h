/* SPDX-License-Identifier: GPL-2.0 */
/* Just enough generic netlink to say anything to gpurt's control plane, sense or nonsense. */
#ifndef GENL_H
#define GENL_H

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpurt.h>

struct genl {
	struct nlmsghdr head;
	struct genlmsghdr genl;
	char attributes[1024];
};

static inline void genl_start(struct genl *m, uint16_t family, uint8_t command, uint16_t flags)
{
	memset(m, 0, sizeof(*m));
	m->head.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	m->head.nlmsg_type = family;
	m->head.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	m->genl.cmd = command;
	m->genl.version = 1;
}

static inline void genl_add(struct genl *m, uint16_t type, const void *data, uint16_t size)
{
	struct nlattr *a = (struct nlattr *)((char *)m + NLMSG_ALIGN(m->head.nlmsg_len));

	if (NLMSG_ALIGN(m->head.nlmsg_len) + NLA_HDRLEN + size > sizeof(*m))
		return;
	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + size);
	memcpy((char *)a + NLA_HDRLEN, data, size);
	m->head.nlmsg_len = NLMSG_ALIGN(m->head.nlmsg_len) + (uint32_t)NLA_ALIGN(a->nla_len);
}

static inline void genl_add_u32(struct genl *m, uint16_t type, uint32_t value)
{
	genl_add(m, type, &value, sizeof(value));
}

static inline void genl_add_u64(struct genl *m, uint16_t type, uint64_t value)
{
	genl_add(m, type, &value, sizeof(value));
}

static inline int genl_send(int fd, const struct genl *m)
{
	return send(fd, m, m->head.nlmsg_len, 0) < 0 ? -errno : 0;
}

/* Reads up to the end of the answer; 0 or -errno, of the socket or as the kernel answered. */
static inline int genl_finish(int fd)
{
	char buffer[32768];

	for (;;) {
		ssize_t size = recv(fd, buffer, sizeof(buffer), 0);
		struct nlmsghdr *h = (struct nlmsghdr *)buffer;

		if (size < 0)
			return -errno;
		for (; NLMSG_OK(h, (size_t)size); h = NLMSG_NEXT(h, size))
			if (h->nlmsg_type == NLMSG_ERROR || h->nlmsg_type == NLMSG_DONE)
				return *(int *)NLMSG_DATA(h);
	}
}

static inline int genl_call(int fd, const struct genl *m)
{
	int err = genl_send(fd, m);

	return err ? err : genl_finish(fd);
}

/* The number of family gpurt; or -errno. */
static inline int genl_family(int fd)
{
	char buffer[8192];
	struct nlmsghdr *h = (struct nlmsghdr *)buffer;
	struct nlattr *a;
	struct genl m;
	ssize_t size;

	genl_start(&m, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	m.head.nlmsg_flags = NLM_F_REQUEST;
	genl_add(&m, CTRL_ATTR_FAMILY_NAME, GPURT_GENL_NAME, sizeof(GPURT_GENL_NAME));
	if (genl_send(fd, &m))
		return -errno;
	size = recv(fd, buffer, sizeof(buffer), 0);
	if (size < 0 || h->nlmsg_type == NLMSG_ERROR)
		return -ENOENT;
	a = (struct nlattr *)((char *)NLMSG_DATA(h) + GENL_HDRLEN);
	for (; (char *)a < buffer + size; a = (struct nlattr *)((char *)a + NLA_ALIGN(a->nla_len)))
		if (a->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(uint16_t *)((char *)a + NLA_HDRLEN);
	return -ENOENT;
}

static inline int genl_open(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
}

#endif
