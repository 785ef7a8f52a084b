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

/* The attribute of that type among those in @size bytes; NULL: there is none. */
static inline struct nlattr *genl_find(void *attributes, size_t size, uint16_t type)
{
	char *at = attributes, *end = at + size;

	for (; at + NLA_HDRLEN <= end; at += NLA_ALIGN(((struct nlattr *)at)->nla_len))
		if ((((struct nlattr *)at)->nla_type & NLA_TYPE_MASK) == type)
			return (struct nlattr *)at;
	return NULL;
}

static inline struct nlattr *genl_inside(struct nlattr *a, uint16_t type)
{
	return a ? genl_find((char *)a + NLA_HDRLEN, a->nla_len - (size_t)NLA_HDRLEN, type) : NULL;
}

/* The number of family gpurt, and that of its group of events unless @group is NULL; or -errno. */
static inline int genl_family(int fd, int *group)
{
	char buffer[8192];
	struct nlmsghdr *h = (struct nlmsghdr *)buffer;
	struct nlattr *id, *groups;
	struct genl m;
	ssize_t size;
	size_t header = (size_t)((char *)NLMSG_DATA(h) - buffer) + GENL_HDRLEN;

	genl_start(&m, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	m.head.nlmsg_flags = NLM_F_REQUEST;
	genl_add(&m, CTRL_ATTR_FAMILY_NAME, GPURT_GENL_NAME, sizeof(GPURT_GENL_NAME));
	if (genl_send(fd, &m))
		return -errno;
	size = recv(fd, buffer, sizeof(buffer), 0);
	if (size < (ssize_t)header || h->nlmsg_type == NLMSG_ERROR)
		return -ENOENT;
	id = genl_find(buffer + header, (size_t)size - header, CTRL_ATTR_FAMILY_ID);
	groups = genl_find(buffer + header, (size_t)size - header, CTRL_ATTR_MCAST_GROUPS);
	groups = genl_inside(genl_inside(groups, 1), CTRL_ATTR_MCAST_GRP_ID);
	if (group && groups)
		*group = *(int *)((char *)groups + NLA_HDRLEN);
	return id ? *(uint16_t *)((char *)id + NLA_HDRLEN) : -ENOENT;
}

static inline int genl_open(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
}

#endif
