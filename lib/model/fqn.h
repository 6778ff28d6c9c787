/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MODEL_NAME_H
#define FSDP_MODEL_NAME_H

#include <fsdp/model.h>

#include "base/arena.h"

/*
 * Names as PyTorch cleans them (clean_tensor_name in
 * torch/distributed/fsdp/_common_utils.py): every occurrence of
 * "_fsdp_wrapped_module." is removed, then every occurrence of
 * "_checkpoint_wrapped_module."; nothing else.
 */

/* Whether cleaning would change the name. */
bool fsdp_name_is_dirty(struct fsdp_span name);

/* Whether it may change a name that has this segment, and others below it. */
static inline bool fsdp_name_may_be_wrapped(struct fsdp_span segment)
{
	static const char end[] = "_wrapped_module";
	return segment.size >= sizeof end - 1 &&
	       memcmp(segment.data + segment.size - (sizeof end - 1), end,
		       sizeof end - 1) == 0;
}

/* Writes the clean name; `buffer` has room for name.size bytes. Returns its length. */
size_t fsdp_name_clean(struct fsdp_span name, char *buffer);

/* Segments that wrappers put into names, PyTorch's two first; NULL past the end. */
const char *fsdp_name_wrapper_segment(size_t index);

/* Number of the one, from 1 on, that a segment is without its dot; 0: none. */
size_t fsdp_name_find_wrapper(struct fsdp_span segment);

/* Kind of wrapper that a segment below a module stands for, or FSDP_WRAPPER_NONE. Only
 * PyTorch's own two prove it: "module" may be a user's name. */
enum fsdp_wrapper fsdp_name_wrapper_of(struct fsdp_span segment);

/* Whether the last segment of a name is what FSDP calls a unit's flat parameter:
 * "_flat_param", and before PyTorch 2.0 "flat_param". */
bool fsdp_name_is_flat_parameter(struct fsdp_span segment);

#endif
