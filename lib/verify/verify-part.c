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

bool fsdp_verify_takes(struct fsdp_verify *verify, uint64_t bytes)
{
	verify->place++;
	return fsdp_share_takes(&verify->share, bytes);
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

static uint32_t file_of(const struct fsdp_verify *verify, const struct fsdp_copy *copy)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	return fsdp_model_extent(model, fsdp_model_piece(model, copy->piece)->extent)
		->file;
}

bool fsdp_verify_is_own(const struct fsdp_verify *verify, const struct fsdp_copy *copy)
{
	return verify->own == NULL || verify->own[file_of(verify, copy)];
}

/* The first copy of a group is what the others are compared with. */
static void want_first(struct fsdp_verify *verify, uint8_t *files)
{
	struct fsdp_copy *copies = verify->copies;
	qsort(copies, verify->copy_count, sizeof *copies, fsdp_verify_by_group);
	for (size_t i = 0, first = 0; i < verify->copy_count; i++) {
		if (copies[i].group != copies[first].group)
			first = i;
		if (i == first || fsdp_verify_is_own(verify, &copies[first]) ||
			!fsdp_verify_is_own(verify, &copies[i]))
			continue;
		copies[first].wanted = true;
		files[file_of(verify, &copies[first])] = 1;
	}
	qsort(copies, verify->copy_count, sizeof *copies, fsdp_verify_by_piece);
}

bool fsdp_verify_wants(const struct fsdp_verify *verify, uint32_t piece)
{
	const struct fsdp_copy *copy = fsdp_verify_copy(verify, piece);
	for (; copy != NULL && copy->piece == piece; copy++)
		if (copy->wanted)
			return true;
	return false;
}

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
	want_first(verify, files);
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

void fsdp_verify_keep_viewed(struct fsdp_verify_file *file)
{
	size_t kept = 0, last = SIZE_MAX;
	for (size_t i = 0; i < file->view_count; i++) {
		struct fsdp_pass_view *view = &file->views[i];
		if (view->segment != last) {
			last = view->segment;
			*(struct fsdp_segment *)fsdp_vec_at(&file->segments, kept++) = *(
				struct fsdp_segment *)fsdp_vec_at(&file->segments, last);
		}
		view->segment = kept - 1;
	}
	fsdp_vec_truncate(&file->segments, kept);
	file->pass.segment_count = kept;
}

/* ---- findings ---- */

bool fsdp_verify_mark(
	struct fsdp_verify *verify, uint32_t place, struct fsdp_error **ret_error)
{
	while (!verify->foreign && verify->places.count < verify->findings.list.count)
		if (!fsdp_vec_add(&verify->places, &place))
			return fsdp_arena_fail(&verify->arena, ret_error);
	return true;
}

struct finding_place {
	uint32_t place;
	size_t index;
};

static int by_place(const void *left, const void *right)
{
	const struct finding_place *a = left, *b = right;
	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

bool fsdp_verify_order(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_vec *list = &verify->findings.list;
	struct fsdp_vec sorted;
	if (list->count < 2)
		return true;
	struct finding_place *places = FSDP_TAKE(&verify->batch, places, list->count);
	fsdp_vec_init(&sorted, &verify->arena, sizeof(struct fsdp_finding));
	if (places == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	for (size_t i = 0; i < list->count; i++) {
		places[i].index = i;
		places[i].place = *(uint32_t *)fsdp_vec_at(&verify->places, i);
	}
	qsort(places, list->count, sizeof *places, by_place);
	for (size_t i = 0; i < list->count; i++)
		if (!fsdp_vec_add(&sorted, fsdp_vec_at(list, places[i].index)))
			return fsdp_arena_fail(&verify->arena, ret_error);
	*list = sorted;
	fsdp_arena_reset(&verify->batch);
	return true;
}
