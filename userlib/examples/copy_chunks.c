/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Copies a buffer in chunks, so that a more urgent copy waits for at most one chunk:
 *
 *	cc copy_chunks.c $(pkg-config --cflags --libs gpurt) -o copy-chunks && ./copy-chunks 64 1
 *
 * copies 64 MiB in chunks of 1 MiB.  memcpy() stands for the copy to the GPU.  With CUDA, copy_part() is
 *
 *	cudaMemcpyAsync(job->to + at, job->from + at, length, cudaMemcpyHostToDevice, stream);
 *	return cudaStreamSynchronize(stream) ? -EIO : 0;
 *
 * which must wait for the copy, as here: when it returns, the bus is given back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpurt.h>

#define MIB ((size_t)1 << 20)

struct job {
	const char *from;
	char *to;
	unsigned int parts;
};

static int copy_part(void *context, size_t at, size_t length)
{
	struct job *job = context;

	memcpy(job->to + at, job->from + at, length);
	job->parts++;
	return 0;
}

/* A number of MiB from the command line; 0: the text is no such number. */
static size_t mib(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	return *end || value > 4096 ? 0 : value * MIB;
}

int main(int argc, char **argv)
{
	size_t size = argc == 3 ? mib(argv[1]) : 0, chunk = argc == 3 ? mib(argv[2]) : 0;
	char *from = malloc(size), *to = malloc(size);
	struct job job = { .from = from, .to = to };
	int err;

	if (!size || !chunk || !from || !to) {
		fprintf(stderr, "usage: copy-chunks MIB CHUNK_MIB (1 to 4096)\n");
		return 2;
	}
	memset(from, 0x5a, size);
	err = gpurt_copy_chunks(NULL, 0, size, chunk, copy_part, &job);
	if (err)
		fprintf(stderr, "copy-chunks: %s\n", strerror(-err));
	else
		printf("%u parts, %s\n", job.parts, memcmp(from, to, size) ? "wrong" : "right");
	free(from);
	free(to);
	return err ? 1 : 0;
}
