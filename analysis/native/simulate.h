/* SPDX-License-Identifier: GPL-2.0 */
#ifndef GPURT_SIMULATE_H
#define GPURT_SIMULATE_H
#endif
