/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of families, and the choice among them.
 */
#include "format/format.h"

static const struct fsdp_family *const families[] = {
	&fsdp_family_dcp,
	&fsdp_family_dcp_safetensors,
	&fsdp_family_deepspeed,
	&fsdp_family_deepspeed_parts,
	&fsdp_family_foreign,
	&fsdp_family_hugging_face,
	&fsdp_family_layout,
	&fsdp_family_megatron,
	&fsdp_family_pickle,
	&fsdp_family_plan,
	&fsdp_family_rank_set,
	&fsdp_family_safetensors,
	&fsdp_family_torch_legacy,
	&fsdp_family_torch_tar,
	&fsdp_family_torch_zip,
};

const struct fsdp_family *fsdp_registry_at(size_t index)
{
	return index < sizeof families / sizeof *families ? families[index] : NULL;
}

const struct fsdp_family *fsdp_registry_find(const char *name)
{
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (strcmp(families[i]->name, name) == 0)
			return families[i];
	return NULL;
}

const struct fsdp_family *fsdp_registry_choose(const struct fsdp_look *look)
{
	const struct fsdp_family *best = NULL;
	int highest = 0;
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		int bid = families[i]->bid(look);
		if (bid > highest) {
			highest = bid;
			best = families[i];
		}
	}
	return best;
}
