/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_HF_SETTINGS_H
#define FSDP_FORMAT_HF_SETTINGS_H

#include "model/build.h"
#include "syntax/json-tree.h"

/* The token of a scalar; of a container one of the kind CUT. Its text is a copy. */
bool fsdp_hf_token(struct fsdp_model *model, const struct fsdp_json *json,
	struct fsdp_token *token, struct fsdp_error **ret_error);

/* Keeps a whole document as settings (fsdp_setting). One with more nodes than this
 * becomes a single node of the kind CUT. */
enum { FSDP_SETTINGS_MOST = 1 << 16 };
bool fsdp_hf_settings(struct fsdp_model *model, uint32_t file,
	const struct fsdp_json *root, struct fsdp_arena *scratch,
	struct fsdp_error **ret_error);

#endif
