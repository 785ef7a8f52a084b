// SPDX-License-Identifier: GPL-2.0
#include "simulate.h"
typedef int gpurt_simulate_empty;
