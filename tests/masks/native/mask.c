// SPDX-License-Identifier: GPL-2.0
/*
 * userlib/preload/kfd_mask.c with a driver that prints the words of a mask.  Arguments: compute units, XCCs, shader arrays
 * of an engine, gfx_target_version.  RELEASE in the environment is that of Linux.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "kfd_mask.c"

int real_ioctl(int fd, unsigned long request, void *argument)
{
	const struct kfd_cu_mask *mask = argument;
	unsigned int i;

	(void)fd;
	(void)request;
	for (i = 0; i < mask->bits / 32; i++)
		printf("%u ", ((const uint32_t *)(uintptr_t)mask->address)[i]);
	return 0;
}

void preload_say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
}

int main(int argc, char **argv)
{
	struct kfd_chip gpu = { 0 };

	if (argc != 5)
		return 2;
	gpu.units = (unsigned int)atoi(argv[1]);
	gpu.xccs = (unsigned int)atoi(argv[2]);
	gpu.arrays = (unsigned int)atoi(argv[3]);
	gpu.gfx = (unsigned int)atoi(argv[4]);
	gpu.release = kfd_release_of(getenv("RELEASE"));
	kfd_confine(0, 1, &gpu);
	return 0;
}
