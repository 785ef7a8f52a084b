// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tracks which descriptors of this process belong to a GPU driver. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload.h"

/*
 * Descriptors from this number on are not tracked.  A process has such descriptors only if its limit was raised.  If
 * one of them is a driver's, the library says so.
 */
#define DESCRIPTORS 65536

enum { UNSEEN, OTHER, TRACKED };

static const struct family *const families[] = { &family_nvidia_rm, &family_nvgpu_tsg, &family_kfd_queue,
						    &family_amdgpu_userq };
static _Atomic(unsigned char) state[DESCRIPTORS];
static struct gpu_file *owner[DESCRIPTORS];
static struct gpu_file *files;
static uint64_t ids;

static bool watched(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS;
}

bool files_tracked(int fd)
{
	return watched(fd) && atomic_load(&state[fd]) == TRACKED;
}

void files_forget(int fd)
{
	unsigned char other = OTHER;

	if (watched(fd))
		atomic_compare_exchange_strong(&state[fd], &other, UNSEEN);
}

/* Sets the file of a descriptor.  Forgets its old file first, because its close may not have been seen. */
static void assign(int fd, struct gpu_file *file)
{
	files_closed(fd);
	if (file) {
		file->descriptors++;
		file->descriptor = fd;
		owner[fd] = file;
	}
	atomic_store(&state[fd], file ? TRACKED : OTHER);
}

/* The kind of node in the path's family, from 1, or 0. */
static int kind_of(const char *path, size_t *family)
{
	int kind = 0;

	for (*family = 0; path && *family < sizeof(families) / sizeof(families[0]); ++*family)
		if ((kind = families[*family]->node(path)))
			break;
	return kind;
}

bool files_driver(const char *path)
{
	size_t family;

	return path && !strncmp(path, "/dev/", 5) && kind_of(path, &family);
}

void files_opened(int fd, const char *path)
{
	struct gpu_file *file = NULL;
	size_t family;
	int kind = kind_of(path, &family);

	if (kind)
		file = watched(fd) ? calloc(1, sizeof(*file)) : NULL;
	if (kind && !file)
		preload_say("%s is open as descriptor %d, which is not watched: its work is not managed", path, fd);
	if (!watched(fd))
		return;
	if (file) {
		file->family = families[family];
		file->kind = kind;
		file->id = ++ids;
		file->next = files;
		files = file;
	}
	assign(fd, file);
}

/*
 * Called when a descriptor gets an ioctl that may be a driver's.  If the descriptor is new, for example received over a
 * socket, looks up which file it is.
 */
void files_seen(int fd)
{
	char link[32], path[256];
	struct stat info;
	ssize_t length;

	if (!watched(fd) || atomic_load(&state[fd]) != UNSEEN)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = fstat(fd, &info) || !S_ISCHR(info.st_mode) ? 0 : readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	files_opened(fd, path);
}

void files_duplicated(int fd, int copy)
{
	if (watched(copy))
		assign(copy, files_tracked(fd) ? owner[fd] : NULL);
}

static void release(struct gpu_file *file)
{
	struct gpu_file **link = &files;

	agent_remove_file(file);
	if (file->family->closed)
		file->family->closed(file);
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	free(file);
}

void files_closed(int fd)
{
	struct gpu_file *file;

	if (!watched(fd))
		return;
	file = owner[fd];
	owner[fd] = NULL;
	atomic_store(&state[fd], UNSEEN);
	if (file && !--file->descriptors)
		release(file);
}

struct gpu_file *files_get(int fd)
{
	return files_tracked(fd) ? owner[fd] : NULL;
}

/* Returns any open descriptor of the file. */
int files_descriptor(struct gpu_file *file)
{
	int fd;

	for (fd = 0; owner[file->descriptor] != file && fd < DESCRIPTORS; fd++)
		if (owner[fd] == file)
			file->descriptor = fd;
	return file->descriptor;
}

/* In a child: keeps the descriptors, which the child has inherited, and forgets the objects, which are the parent's. */
void files_forked(void)
{
	size_t i;

	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (families[i]->forked)
			families[i]->forked();
}
