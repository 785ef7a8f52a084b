// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * GPURT_DOMAIN: the scheduling domain of nvgpu in which the process's time-slice groups execute.  `gpurt run` makes it.
 *
 * The driver takes a group into a domain as long as none of the group's channels is active.  The code is
 * nvgpu_tsg_bind_domain() in common/fifo/tsg.c, L4T r35 and r36.  So a group is put there as soon as the program has
 * it.  Outside its domain its work would take other tasks' turns.  So a process whose group cannot be put there ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "nvgpu.h"
#include "../handle.h"
#include "preload.h"

#define NODE "/dev/nvgpu/igpu0/nvsched-"
#define NAME_MAX_LEN 31	/* of a domain */
#define REFUSED 5	/* the exit code of what the driver refuses, as gpurt's */

struct bind_domain {
	int32_t domain, reserved;
	uint64_t more[3];
};

static const char *text(void)
{
	return getenv("GPURT_DOMAIN");
}

/* Says it even with GPURT_QUIET=1: else the program would end without a word. */
static _Noreturn void end(const char *what, const char *why)
{
	if (gpurt_has_stderr())
		fprintf(stderr, "gpurt: GPURT_DOMAIN=%.64s: %s: %s; the program ends, for its GPU work would be in no domain\n",
			text(), what, why);
	_exit(REFUSED);
}

void domain_join(int fd)
{
	struct bind_domain request = { 0 };
	const char *name = text();
	char path[sizeof(NODE) + NAME_MAX_LEN];

	if (!name)
		return;
	if (!*name || strlen(name) > NAME_MAX_LEN || strchr(name, '/'))
		end("the name of a domain", "1 to 31 characters without '/'");
	snprintf(path, sizeof(path), NODE "%s", name);
	request.domain = open(path, O_RDONLY | O_CLOEXEC);
	if (request.domain < 0)
		end(path, strerror(errno));
	if (real_ioctl(fd, _IOW('T', TSG_DOMAIN, struct bind_domain), &request) < 0)
		end("the driver does not put a time-slice group there", strerror(errno));
	close(request.domain);
}

bool domain_keeps(unsigned long request)
{
	if (!text() || _IOC_TYPE(request) != 'T' || _IOC_NR(request) != TSG_DOMAIN)
		return false;
	preload_say("GPURT_DOMAIN=%.64s: the program's own change of a domain is refused", text());
	return true;
}
