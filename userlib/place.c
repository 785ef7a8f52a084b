// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Where a host may be, and why it cannot be opened. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gpurt.h>

#include "place.h"

#define NAME_SIZE 64

const char *gpurt_named_place(const char *device)
{
	if (!device)
		device = getenv("GPURT_DEVICE");
	return device && *device ? device : NULL;
}

bool gpurt_usual_place(unsigned int index, char place[GPURT_PLACE_SIZE])
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int length = -1;

	if (index == 0)
		length = snprintf(place, GPURT_PLACE_SIZE, "%s", GPURT_DEFAULT_DEVICE);
	else if (index == 1)
		length = snprintf(place, GPURT_PLACE_SIZE, "%s", GPURT_DEFAULT_SOCKET);
	else if (index == 2 && runtime)		/* the socket of an unprivileged user's emulator */
		length = snprintf(place, GPURT_PLACE_SIZE, "%s/gpurt/host.sock", runtime);
	return length >= 0 && length < GPURT_PLACE_SIZE;
}

/* The place where gpurt_open() was refused: the first that exists, or that an unreadable folder may hide. */
static const char *refused_place(const char *device, char buffer[GPURT_PLACE_SIZE])
{
	const char *named = gpurt_named_place(device);
	struct stat info;
	unsigned int i;

	if (named)
		return named;
	for (i = 0; gpurt_usual_place(i, buffer); i++)
		if (!stat(buffer, &info) || errno == EACCES)
			return buffer;
	return NULL;
}

static void user_name(uid_t uid, char name[NAME_SIZE])
{
	char buffer[1024];
	struct passwd entry, *found = NULL;

	if (!getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) && found)
		snprintf(name, NAME_SIZE, "%s", entry.pw_name);
	else
		snprintf(name, NAME_SIZE, "%u", (unsigned int)uid);
}

static void group_name(gid_t gid, char name[NAME_SIZE])
{
	char buffer[1024];
	struct group entry, *found = NULL;

	if (!getgrgid_r(gid, &entry, buffer, sizeof(buffer), &found) && found)
		snprintf(name, NAME_SIZE, "%s", entry.gr_name);
	else
		snprintf(name, NAME_SIZE, "%u", (unsigned int)gid);
}

/* Explains why this process may not open an existing host: which users may, and how to change that. */
static void explain_refusal(const char *place, char *text, size_t size)
{
	char user[NAME_SIZE], group[NAME_SIZE];
	struct stat info;
	const char *way;
	bool shared;

	if (stat(place, &info) < 0) {
		snprintf(text, size, "%s: this user may not enter its folder; 'chmod a+x' on the folder permits it", place);
		return;
	}
	user_name(info.st_uid, user);
	group_name(info.st_gid, group);
	shared = info.st_mode & S_IWGRP;
	way = S_ISCHR(info.st_mode) ? "change the device's udev rule" :
				      "start the host with --allow GROUP, or --allow everybody";
	snprintf(text, size, "%s is there, but only user %s%s%s may open it (mode %04o); %s%s", place, user,
		 shared ? " and group " : "", shared ? group : "", (unsigned int)info.st_mode & 07777,
		 shared && info.st_gid ? "join that group, or " : "", way);
}

void gpurt_explain(const char *device, int err, char *text, size_t size)
{
	char buffer[GPURT_PLACE_SIZE];
	const char *place = refused_place(device, buffer);

	if (err == -EACCES && place)
		explain_refusal(place, text, size);
	else if (err == -ENXIO && getenv("GPURT_GPU"))
		snprintf(text, size, "the host has no GPU %s (GPURT_GPU); see gpurt status", getenv("GPURT_GPU"));
	else if (err == -EINVAL && getenv("GPURT_GROUP"))
		snprintf(text, size, "GPURT_GROUP is not a name of 1 to %d printable characters, or GPURT_GPU no number",
			 GPURT_NAME_LEN - 1);
	else if (err == -EINVAL && getenv("GPURT_GPU"))
		snprintf(text, size, "GPURT_GPU is not the number of a GPU, 0 to %d", GPURT_MAX_GPUS - 1);
	else if (err == -EOPNOTSUPP && getenv("GPURT_GROUP"))
		snprintf(text, size, "GPURT_GROUP names a group, and this host has none");
	else if (err == -EDQUOT && getenv("GPURT_GROUP"))
		snprintf(text, size, "the host permits %d groups of a user, %d members of a group, one budget for all of them, "
			 "and so many connections as --user-limit says", GPURT_MAX_USER_GROUPS, GPURT_MAX_MEMBERS);
	else if (err == -EDQUOT)
		snprintf(text, size, "the host permits this user no more connections; end programs, or start it with a "
			 "higher --user-limit connections");
	else if (err == -ESRCH)
		snprintf(text, size, "the host cannot see this process; both need the same /proc and PID namespace");
	else if (err == -EMFILE || err == -ENFILE)
		snprintf(text, size, "the host cannot look at this process: it has no free descriptor");
	else
		snprintf(text, size, "no host%s%s (%s); start 'gpurt serve' (for a GPU), 'gpurt emulate' (without one), "
			 "load gpurt.ko (for a patched driver), or set GPURT_DEVICE",
			 place ? " at " : "", place ? place : "", strerror(-err));
}
