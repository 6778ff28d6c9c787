/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the tensors and values that a finding affects, and their bytes.
 */
#include <string.h>

#include "analysis/affected.h"
#include "analysis/scratch.h"
#include "analysis/tally.h"
#include "base/finding.h"
#include "base/num.h"

/* A part of a tensor, or a value, in a file. */
struct fsdp_content {
	uint32_t id;
	uint32_t number; /* id of the tensor; values follow all tensors */
	bool is_piece;
	uint64_t begin, end;               /* in the file; FSDP_UNKNOWN: not known */
	struct fsdp_span records, storage; /* of a member: what its name ends with */
};

/* In all questions together. */
enum { WORK_MOST = 1 << 26 };

/* What of a file suffers. */
enum affected_part {
	PART_NONE,   /* nothing that follows from the place */
	PART_FILE,   /* all of it */
	PART_END,    /* what reaches beyond its end */
	PART_PLACE,  /* what is stored in the member, or in the range */
	PART_SHARDS, /* of any file: tensors that are stored in pieces */
	PART_TENSOR, /* only the tensor or value that the finding names; for safety rules a global */
};

static const struct {
	enum fsdp_rule_index rule;
	enum affected_part part;
} rows[] = {
	{ FSDP_RULE_MISSING_FILE, PART_FILE },
	{ FSDP_RULE_EMPTY_FILE, PART_FILE },
	{ FSDP_RULE_TRUNCATED_FILE, PART_END },
	{ FSDP_RULE_RANK_MISSING, PART_SHARDS },
	{ FSDP_RULE_RANK_IDENTITY, PART_FILE },
	{ FSDP_RULE_STORAGE_RANGE, PART_END },
	{ FSDP_RULE_ZIP_UNREADABLE, PART_FILE },
	{ FSDP_RULE_TORCH_RECORD, PART_PLACE },
	{ FSDP_RULE_STORAGE_SIZE, PART_PLACE },
	{ FSDP_RULE_SAFETENSORS_HEADER, PART_FILE },
	{ FSDP_RULE_CRC_MISMATCH, PART_PLACE },
	{ FSDP_RULE_INFLATE_ERROR, PART_PLACE },
	{ FSDP_RULE_DIGEST_MISMATCH, PART_FILE },
	{ FSDP_RULE_MANIFEST_MISMATCH, PART_FILE },
	{ FSDP_RULE_NOT_A_CHECKPOINT, PART_FILE },
};

static enum affected_part part_of(const struct fsdp_finding *finding)
{
	enum affected_part part = PART_TENSOR;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (fsdp_rule(rows[i].rule) == finding->rule)
			part = rows[i].part;
	/* Such as random states of other ranks. */
	if (part == PART_SHARDS && finding->severity == FSDP_NOTE)
		return PART_NONE;
	if (fsdp_rule(FSDP_RULE_ITEM_MISMATCH) == finding->rule &&
		finding->tensor.data == NULL)
		return PART_FILE;
	if (part == PART_TENSOR &&
		(finding->tensor.data == NULL ||
			strcmp(finding->rule->category, "safety") == 0))
		return PART_NONE;
	return part;
}

void fsdp_affected_init(struct fsdp_affected *affected,
	const struct fsdp_checkpoint *checkpoint, struct fsdp_arena *arena)
{
	*affected = (struct fsdp_affected){ .checkpoint = checkpoint, .arena = arena };
}

static uint64_t end_of(uint64_t begin, uint64_t length)
{
	uint64_t end;

	return begin == FSDP_UNKNOWN || length == FSDP_UNKNOWN ||
			       __builtin_add_overflow(begin, length, &end)
		       ? FSDP_UNKNOWN
		       : end;
}

/* Whether each of its elements is stored once: of others a lost piece loses nothing, or
 * how much is not known. */
static bool is_stored_once(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor)
{
	uint64_t stored = 0;

	for (uint32_t i = 0; i < tensor->piece_count; i++)
		fsdp_tally(&stored, fsdp_piece_numel(checkpoint, tensor->first_piece + i,
					    &(uint32_t){ 0 }));
	return stored <= tensor->numel;
}

/* Logical bytes of a piece, or FSDP_UNKNOWN. A tensor is checked on first use, while `seen` is 0. */
static uint64_t bytes_of(
	struct fsdp_affected *affected, const struct fsdp_content *content)
{
	const struct fsdp_checkpoint *checkpoint = affected->checkpoint;
	struct fsdp_tensor tensor;
	uint32_t rank;

	if (!content->is_piece)
		return 0;
	tensor = fsdp_tensor(checkpoint, content->number);
	if (affected->seen[content->number] == 0)
		affected->once[content->number] = is_stored_once(checkpoint, &tensor);
	if (!fsdp_tensor_counts(&tensor))
		return 0;
	return affected->once[content->number]
		       ? fsdp_elements_bytes(tensor.dtype,
				 fsdp_piece_numel(checkpoint, content->id, &rank))
		       : FSDP_UNKNOWN;
}

static struct fsdp_content content_of(
	const struct fsdp_checkpoint *checkpoint, uint32_t id)
{
	uint32_t pieces = (uint32_t)fsdp_piece_count(checkpoint);

	if (id >= pieces) {
		struct fsdp_value value = fsdp_value(checkpoint, id - pieces);

		return (struct fsdp_content){
			.id = id,
			.number = (uint32_t)fsdp_tensor_count(checkpoint) + id - pieces,
			.begin = value.offset,
			.end = end_of(value.offset, value.length),
		};
	}
	struct fsdp_piece piece = fsdp_piece(checkpoint, id);

	return (struct fsdp_content){
		.id = id,
		.number = piece.tensor,
		.is_piece = true,
		.begin = piece.item_offset,
		.end = end_of(piece.item_offset, piece.item_length),
		.records = piece.records,
		.storage = piece.storage,
	};
}

/* Counts it in `ends`, or puts it where the file's next one goes. */
static void note(struct fsdp_affected *affected, uint32_t file, uint32_t id)
{
	if (file == FSDP_NONE)
		return;
	if (affected->ids == NULL)
		affected->ends[file]++;
	else
		affected->ids[affected->ends[file]++] = id;
}

/* Contents of a file: tensors in their order, then values. */
static void note_all(struct fsdp_affected *affected)
{
	const struct fsdp_checkpoint *checkpoint = affected->checkpoint;
	uint32_t pieces = (uint32_t)fsdp_piece_count(checkpoint);
	size_t tensors = fsdp_tensor_count(checkpoint);

	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		for (uint32_t k = 0; k < tensor.piece_count; k++) {
			uint32_t index = tensor.first_piece + k;

			note(affected, fsdp_piece(checkpoint, index).file, index);
		}
	}
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++)
		note(affected, fsdp_value(checkpoint, i).file, pieces + i);
}

/* Sorts by counting: `ends` holds first how many a file has, then where its first one
 * goes, and at last where its last one has gone. */
static bool list_contents(struct fsdp_affected *affected)
{
	const struct fsdp_checkpoint *checkpoint = affected->checkpoint;
	size_t tensors = fsdp_tensor_count(checkpoint);
	size_t files = fsdp_file_count(checkpoint);
	size_t names = tensors + fsdp_value_count(checkpoint);
	uint32_t *ids;

	affected->ends = FSDP_TAKE(affected->arena, affected->ends, files + 1);
	affected->seen = FSDP_TAKE(affected->arena, affected->seen, names + 1);
	affected->once = FSDP_TAKE(affected->arena, affected->once, tensors + 1);
	if (affected->ends == NULL || affected->seen == NULL || affected->once == NULL)
		return false;
	note_all(affected);
	for (size_t i = 0; i < files; i++) {
		size_t of_file = affected->ends[i];

		affected->ends[i] = affected->count;
		affected->count += of_file;
	}
	ids = FSDP_TAKE(affected->arena, ids, affected->count + 1);
	if (ids == NULL)
		return false;
	affected->ids = ids;
	note_all(affected);
	return true;
}

/* ---- a finding ---- */

/* Within the file: the member of a storage is called as its records begin, then its key. */
static bool is_in_member(const struct fsdp_content *content, struct fsdp_span member)
{
	return content->storage.data != NULL && content->records.data != NULL &&
	       content->records.size + content->storage.size == member.size &&
	       fsdp_span_begins(member, content->records) &&
	       fsdp_span_ends(member, content->storage);
}

static bool suffers(const struct fsdp_content *content,
	const struct fsdp_finding *finding, enum affected_part part, uint64_t file_size)
{
	switch (part) {
	case PART_FILE:
		return true;
	case PART_SHARDS:
		return content->is_piece;
	case PART_END:
		return content->end != FSDP_UNKNOWN && content->end > file_size;
	case PART_PLACE:
		if (finding->member.data != NULL &&
			is_in_member(content, finding->member))
			return true;
		return finding->offset != FSDP_UNKNOWN &&
		       content->begin != FSDP_UNKNOWN &&
		       content->begin <= finding->offset &&
		       finding->offset < content->end;
	case PART_NONE:
	case PART_TENSOR:
		break;
	}
	return false;
}

static bool take_name(
	struct fsdp_affected *affected, uint32_t number, struct fsdp_span *ret_text)
{
	const struct fsdp_checkpoint *checkpoint = affected->checkpoint;
	uint32_t tensors = (uint32_t)fsdp_tensor_count(checkpoint);
	uint32_t name = number < tensors ? fsdp_tensor(checkpoint, number).name
					 : fsdp_value(checkpoint, number - tensors).name;
	size_t size = fsdp_name_write(checkpoint, name, NULL, 0);
	char *text = fsdp_arena_take(affected->arena, size + 1, 1);

	if (text == NULL)
		return false;
	fsdp_name_write(checkpoint, name, text, size);
	*ret_text = fsdp_span(text, size);
	return true;
}

/* Contents of the file, or of any file if it is FSDP_NONE. */
static bool gather(struct fsdp_affected *affected, struct fsdp_finding *finding,
	enum affected_part part, uint32_t file, uint64_t file_size)
{
	struct fsdp_span *names =
		FSDP_TAKE(affected->arena, names, FSDP_AFFECTED_KEPT + 1);
	size_t first = file == FSDP_NONE || file == 0 ? 0 : affected->ends[file - 1];
	size_t end = file == FSDP_NONE ? affected->count : affected->ends[file];
	uint64_t bytes = part == PART_SHARDS ? FSDP_UNKNOWN : 0;
	size_t count = 0;

	if (names == NULL)
		return false;
	affected->question++;
	affected->work += end - first;
	for (size_t i = first; i < end; i++) {
		struct fsdp_content content =
			content_of(affected->checkpoint, affected->ids[i]);

		if (!suffers(&content, finding, part, file_size))
			continue;
		fsdp_tally(&bytes, bytes_of(affected, &content));
		if (affected->seen[content.number] == affected->question)
			continue;
		affected->seen[content.number] = affected->question;
		if (count < FSDP_AFFECTED_KEPT &&
			!take_name(affected, content.number, &names[count]))
			return false;
		count++;
	}
	if (finding->affected_bytes == FSDP_UNKNOWN && bytes > 0)
		finding->affected_bytes = bytes;
	finding->affected = names;
	finding->affected_count = count;
	finding->affected_kept = count < FSDP_AFFECTED_KEPT ? count : FSDP_AFFECTED_KEPT;
	return true;
}

/* FSDP_NONE: the finding is of no file that the checkpoint lists. */
static uint32_t file_of(const struct fsdp_affected *affected,
	const struct fsdp_finding *finding, uint64_t *ret_size)
{
	const struct fsdp_checkpoint *checkpoint = affected->checkpoint;

	for (uint32_t i = 0;
		finding->file.data != NULL && i < fsdp_file_count(checkpoint); i++) {
		struct fsdp_file file = fsdp_file(checkpoint, i);

		*ret_size = file.size;
		if (fsdp_span_equal(file.path, finding->file))
			return i;
	}
	return FSDP_NONE;
}

static void fill_tensor(struct fsdp_finding *finding)
{
	finding->affected = &finding->tensor;
	finding->affected_count = finding->affected_kept = 1;
}

bool fsdp_affected_fill(struct fsdp_affected *affected, struct fsdp_finding *finding)
{
	enum affected_part part = part_of(finding);
	uint64_t size = 0;
	uint32_t file = FSDP_NONE;

	if (part == PART_NONE || finding->affected_count > 0 ||
		affected->work > WORK_MOST)
		return true;
	if (part == PART_TENSOR) {
		fill_tensor(finding);
		return true;
	}
	if (affected->ids == NULL && !list_contents(affected))
		return false;
	if (part != PART_SHARDS) {
		file = file_of(affected, finding, &size);
		affected->work += fsdp_file_count(affected->checkpoint);
		if (file == FSDP_NONE)
			return true;
	}
	if (!gather(affected, finding, part, file, size))
		return false;
	if (finding->affected_count == 0 && finding->tensor.data != NULL)
		fill_tensor(finding);
	return true;
}
