/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several parts of the work: which files it reads, which copies in files of other
 * parts it needs, and the order of findings, so that those of all parts add up
 * to those of a whole.
 */
#include <stdlib.h>

#include "verify/verify-private.h"

/* ---- files ---- */

/* Adds the bytes of files beside those of the model that are read too. */
static bool add_beside(struct fsdp_verify *verify, uint64_t *total)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	const struct fsdp_span *known = fsdp_verify_list_known(verify);
	for (size_t i = 0; known != NULL && folder != NULL && i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && entry.size != FSDP_UNKNOWN &&
			(fsdp_checkpoint_loads_beside(entry.name) ||
				fsdp_verify_lists(verify, entry.name)) &&
			!fsdp_verify_knows(verify, known, entry.name))
			*total += entry.size;
	}
	return known != NULL;
}

static uint64_t size_of(const struct fsdp_file_record *file)
{
	return file->size != FSDP_UNKNOWN ? file->size : 0;
}

/* Bytes of the model's files that are in the share. */
static uint64_t share_bytes(const struct fsdp_verify *verify)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_share share = verify->share;
	uint64_t total = 0;
	for (uint32_t i = 0; i < model->files.count; i++) {
		uint64_t size = size_of(fsdp_model_file(model, i));
		total += fsdp_share_takes(&share, size) ? size : 0;
	}
	return total;
}

bool fsdp_verify_begin_part(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	size_t count = verify->checkpoint->model.files.count;
	verify->share = (struct fsdp_share){
		.part = verify->options.part,
		.parts = verify->options.parts,
		.total = verify->pass.total,
	};
	if (verify->options.parts == 0)
		return true;
	verify->own = FSDP_TAKE(&verify->arena, verify->own, count + 1);
	if (verify->own == NULL || !add_beside(verify, &verify->share.total))
		return fsdp_arena_fail(&verify->arena, ret_error);
	verify->pass.total = share_bytes(verify);
	return true;
}

bool fsdp_verify_takes_file(struct fsdp_verify *verify, uint32_t id)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	bool takes = fsdp_verify_takes(verify, size_of(fsdp_model_file(model, id)));
	if (verify->own != NULL)
		verify->own[id] = takes;
	return takes;
}

/* ---- copies ---- */

/* What is wrong with these files, and what they add up to, another part says. */
bool fsdp_verify_foreign(struct fsdp_verify *verify,
	bool (*look_at)(struct fsdp_verify *, uint32_t, struct fsdp_error **),
	struct fsdp_error **ret_error)
{
	struct fsdp_findings findings = verify->findings;
	struct fsdp_verify_scope scope = verify->scope;
	uint64_t crc_count = verify->crc_count, left = verify->inflate_left;
	size_t count = verify->checkpoint->model.files.count;
	unsigned lacks = verify->lacks;
	bool good = true;
	if (verify->own == NULL || verify->copy_count == 0)
		return true;
	uint8_t *files = FSDP_TAKE(&verify->arena, files, count);
	if (files == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	fsdp_verify_want_first(verify, files);
	fsdp_findings_init(
		&verify->findings, &verify->arena, &verify->checkpoint->limits);
	verify->foreign = true;
	verify->pass.progress = NULL;
	for (uint32_t i = 0; good && i < count; i++)
		good = !files[i] || look_at(verify, i, ret_error);
	good = good && fsdp_verify_read(verify, ret_error);
	verify->foreign = false;
	findings.lost |= verify->findings.lost;
	verify->findings = findings;
	verify->scope = scope;
	verify->crc_count = crc_count;
	verify->inflate_left = left;
	verify->lacks = lacks;
	return good;
}

/* ---- findings ---- */
