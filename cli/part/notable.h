/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOTABLE_H
#define NOTABLE_H

#include <fsdp/model.h>

#include "part/name-buffer.h"

/* What people look for among many values, most wanted first. */
enum notable {
	NOTABLE_PROGRESS, /* how far training was: step, epoch, tokens */
	NOTABLE_METHOD,   /* quantisation, the rank of LoRA */
	NOTABLE_PARALLEL, /* degrees of parallelism */
	NOTABLE_RATE,     /* of learning */
	NOTABLE_OTHER,
	NOTABLE_SETTING, /* the other settings of an optimizer */
	NOTABLE_OPAQUE,  /* None and byte strings, whatever their name */
	NOTABLE_COUNT,
};

/* By its name, however deeply nested, and the first of its tokens (NULL: not read).
 * Counters of an optimizer, a scheduler or a data loader are not how far the run was.
 * Linear in the length of the name. */
enum notable notable_value(struct text name, const struct fsdp_token *token);

#endif
