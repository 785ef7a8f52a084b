// SPDX-License-Identifier: GPL-2.0
#include "decide/seam.h"

const struct gpurt_seam *gpurt_seam;
