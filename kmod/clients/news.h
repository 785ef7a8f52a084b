/* SPDX-License-Identifier: GPL-2.0 */
/* Drivers' news of clients reach the scheduler. */
#ifndef GPURT_NEWS_H
#define GPURT_NEWS_H

struct gpurt_client;

void gpurt_client_hear(struct gpurt_client *client);
void gpurt_news_init(struct gpurt_client *client);
void gpurt_news_stop(struct gpurt_client *client);

#endif
