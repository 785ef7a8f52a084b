// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <errno.h>
#include <gpurt.h>
int gpurt_open(struct gpurt **h, const char *d) { (void)h; (void)d; return -ENODEV; }
void gpurt_close(struct gpurt *h) { (void)h; }
int gpurt_use_gpu(struct gpurt *h, unsigned int g) { (void)h; (void)g; return -ENODEV; }
int gpurt_query_host(struct gpurt *h, struct gpurt_query *q) { (void)h; (void)q; return -ENODEV; }
int gpurt_segment_begin(struct gpurt *h, unsigned int f, unsigned int p) { (void)h; (void)f; (void)p; return -ENODEV; }
int gpurt_segment_end(struct gpurt *h, unsigned int f) { (void)h; (void)f; return -ENODEV; }
int gpurt_segment_wait(struct gpurt *h, uint64_t t) { (void)h; (void)t; return -ENODEV; }
int gpurt_tsg_open(struct gpurt *h, uint32_t *t) { (void)h; (void)t; return -ENODEV; }
int gpurt_tsg_close(struct gpurt *h, uint32_t t) { (void)h; (void)t; return -ENODEV; }
int gpurt_submit_work(struct gpurt *h, uint32_t t, uint32_t e, unsigned int f, uint64_t d, uint64_t *w) { (void)h; (void)t; (void)e; (void)f; (void)d; (void)w; return -ENODEV; }
int gpurt_work_wait(struct gpurt *h, uint32_t t, uint64_t w, uint64_t ns, uint64_t *c) { (void)h; (void)t; (void)w; (void)ns; (void)c; return -ENODEV; }
