/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include "args/parse.h"

/*
 * --part=K/N, --part=auto and --part=auto/N: which share of the work is this process's.
 * With auto the launcher that started it sets both: Slurm (arrays, srun) or torchrun; GNU
 * parallel sets K alone.
 */

/* Fills part_number, part_count and part_from of the options; nothing without --part. */
enum usage_result launcher_part(const struct command *command,
	struct common_options *common, struct usage *usage);

/* A file of -o, with %p replaced by K. NULL: out of memory. */
const char *launcher_name(
	const struct common_options *common, const char *typed, struct owned *owned);

#endif
