/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of the metadata by name, and findings about them.
 */
#include "format/dcp/metadata-reading.h"

bool fsdp_dcp_damaged(struct fsdp_dcp_parse *parse, const char *what)
{
	return fsdp_fail_rule(parse->error, FSDP_ERROR_DAMAGED, "FI1020", FSDP_UNKNOWN,
		"this is not the metadata of a distributed checkpoint: %s", what);
}

struct fsdp_dcp_item *fsdp_dcp_find_item(struct fsdp_dcp *dcp, uint32_t name)
{
	uint32_t item = fsdp_table_get(&dcp->item_of, name);
	return item != FSDP_NONE ? fsdp_vec_at(&dcp->items, item) : NULL;
}

bool fsdp_dcp_is_same_item(
	const struct fsdp_dcp *dcp, const struct fsdp_dcp_item *item, bool is_object)
{
	return item != NULL &&
	       (!is_object || !item->is_object || item->file == dcp->file_number);
}

void fsdp_dcp_say(struct fsdp_dcp *dcp, enum fsdp_rule_index rule,
	struct fsdp_span tensor, const char *what)
{
	fsdp_find(&dcp->model->findings, rule,
		FSDP_PLACE(.file = dcp->file, .tensor = tensor), "%s", what);
}
