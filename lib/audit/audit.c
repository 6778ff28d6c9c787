/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: which rules apply to a checkpoint, the run of the checks, the result of each
 * rule, and for each finding the tensors and values that it affects, with their bytes.
 */
#include <fsdp/model.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "audit/checking.h"
#include "aggregate/aggregate.h"
#include "base/error.h"
#include "base/finding.h"
#include "base/num.h"
#include "base/span.h"

/*
 * Tensors and values that are affected by a finding with a file, a member or a range but
 * without names. The ids of each file's contents are listed when a finding first needs
 * them; a finding reads only its own file. Memory: four bytes per piece and value, eight
 * per file, five per name. Names are kept in the arena, at most FSDP_AFFECTED_KEPT per
 * finding.
 */
struct fsdp_affected {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	uint32_t *ids; /* of pieces, then of values, by file; NULL: not listed yet */
	size_t count;
	size_t *ends;   /* by file: end of its ids */
	uint32_t *seen; /* by number of a name: the last question that had it */
	bool *once;     /* by tensor that was seen: no element is stored twice */
	uint32_t question;
	uint64_t work; /* contents that were looked at */
};

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
	bool is_joined; /* several files with one cause are one finding */
} rows[] = {
	{ FSDP_RULE_MISSING_FILE, PART_FILE, true },
	{ FSDP_RULE_EMPTY_FILE, PART_FILE, true },
	{ FSDP_RULE_TRUNCATED_FILE, PART_END, true },
	{ FSDP_RULE_ORPHAN_FILE, PART_NONE, true },
	{ FSDP_RULE_ITEM_MISMATCH, PART_TENSOR, true },
	{ FSDP_RULE_CHUNK_GAP, PART_TENSOR, true },
	{ FSDP_RULE_RANK_MISSING, PART_SHARDS, true },
	{ FSDP_RULE_MEGATRON_OBJECTS, PART_NONE },
	{ FSDP_RULE_RESUME_PART, PART_NONE, true },
	{ FSDP_RULE_RANK_IDENTITY, PART_FILE },
	{ FSDP_RULE_STORAGE_RANGE, PART_END },
	{ FSDP_RULE_ZIP_UNREADABLE, PART_FILE, true },
	{ FSDP_RULE_TORCH_RECORD, PART_PLACE },
	{ FSDP_RULE_STORAGE_SIZE, PART_PLACE },
	{ FSDP_RULE_SAFETENSORS_HEADER, PART_FILE },
	{ FSDP_RULE_CRC_MISMATCH, PART_PLACE },
	{ FSDP_RULE_INFLATE_ERROR, PART_PLACE },
	{ FSDP_RULE_DIGEST_MISMATCH, PART_FILE },
	{ FSDP_RULE_MANIFEST_MISMATCH, PART_FILE },
	{ FSDP_RULE_NOT_A_CHECKPOINT, PART_FILE, true },
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

/* Logical bytes of a piece, or FSDP_UNKNOWN. A tensor is checked on first use, while
 * `seen` is 0. */
static uint64_t bytes_of(
	struct fsdp_affected *affected, const struct fsdp_content *content)
{
	const struct fsdp_checkpoint *checkpoint = affected->checkpoint;
	uint32_t rank;
	if (!content->is_piece)
		return 0;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, content->number);
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
	FSDP_EACH(i, (uint32_t)tensors, tensor, fsdp_tensor(checkpoint, i))
		FSDP_EACH(k, tensor.piece_count, index, tensor.first_piece + k)
			note(affected, fsdp_piece(checkpoint, index).file, index);
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
	FSDP_EACH(i, files, of_file, affected->ends[i]) {
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

/* Within the file: the member of a storage is called as its records begin, then its key.
 */
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

static bool add_name(
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

/* Adds contents of the file, or of any file if it is FSDP_NONE, to the names. */
static bool gather(struct fsdp_affected *affected, struct fsdp_finding *finding,
	enum affected_part part, uint32_t file, uint64_t file_size,
	struct fsdp_span *names, uint64_t *bytes)
{
	size_t first = file == FSDP_NONE || file == 0 ? 0 : affected->ends[file - 1];
	size_t end = file == FSDP_NONE ? affected->count : affected->ends[file];
	affected->work += end - first;
	for (size_t i = first; i < end; i++) {
		struct fsdp_content content =
			content_of(affected->checkpoint, affected->ids[i]);
		if (!suffers(&content, finding, part, file_size))
			continue;
		fsdp_tally(bytes, bytes_of(affected, &content));
		if (affected->seen[content.number] == affected->question)
			continue;
		affected->seen[content.number] = affected->question;
		if (finding->affected_kept < FSDP_AFFECTED_KEPT &&
			!add_name(affected, content.number,
				&names[finding->affected_kept++]))
			return false;
		finding->affected_count++;
	}
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

/* Contents of the files of a finding and of those that joined it: next[i] is after i. */
static bool gather_files(struct fsdp_affected *affected, struct fsdp_finding *all,
	const size_t *next, size_t index, enum affected_part part)
{
	struct fsdp_finding *finding = &all[index];
	struct fsdp_span *names =
		FSDP_TAKE(affected->arena, names, FSDP_AFFECTED_KEPT + 1);
	uint64_t bytes = part == PART_SHARDS ? FSDP_UNKNOWN : 0;
	if (names == NULL || (affected->ids == NULL && !list_contents(affected)))
		return false;
	affected->question++;
	for (; index != SIZE_MAX; index = next[index]) {
		uint32_t file = FSDP_NONE;
		uint64_t size = 0;
		if (part != PART_SHARDS) {
			file = file_of(affected, &all[index], &size);
			affected->work += fsdp_file_count(affected->checkpoint);
			if (file == FSDP_NONE)
				continue;
		}
		finding->affected = names;
		if (!gather(affected, finding, part, file, size, names, &bytes))
			return false;
	}
	if (finding->affected_bytes == FSDP_UNKNOWN && bytes > 0)
		finding->affected_bytes = bytes;
	return true;
}

/* The tensors of a finding and of those that joined it. */
static bool gather_tensors(struct fsdp_affected *affected, struct fsdp_finding *all,
	const size_t *next, size_t index)
{
	struct fsdp_finding *finding = &all[index];
	struct fsdp_span *names =
		FSDP_TAKE(affected->arena, names, FSDP_AFFECTED_KEPT + 1);
	uint64_t bytes = 0;
	if (names == NULL)
		return false;
	finding->affected = names;
	finding->affected_kept = finding->affected_count = 0;
	for (; index != SIZE_MAX; index = next[index]) {
		fsdp_tally(&bytes, all[index].affected_bytes);
		if (finding->affected_kept < FSDP_AFFECTED_KEPT)
			names[finding->affected_kept++] = all[index].tensor;
		finding->affected_count++;
	}
	finding->affected_bytes = bytes;
	return true;
}

/* Fills `affected` and `affected_count` of the finding if it has none and they follow
 * from its place, and with them `affected_bytes` if none of it is stored twice. False:
 * out of memory. Beyond a bounded amount of work findings stay as they are. */
static bool fill_affected(struct fsdp_affected *affected, struct fsdp_finding *all,
	const size_t *next, size_t index)
{
	struct fsdp_finding *finding = &all[index];
	enum affected_part part = part_of(finding);
	if (part == PART_TENSOR && next[index] != SIZE_MAX)
		return gather_tensors(affected, all, next, index);
	if (part == PART_NONE || finding->affected_count > 0 ||
		affected->work > WORK_MOST)
		return true;
	if (part != PART_TENSOR) {
		if (!gather_files(affected, all, next, index, part))
			return false;
		if (finding->affected == NULL)
			return true;
	}
	if (finding->affected_count == 0 && finding->tensor.data != NULL) {
		finding->affected = &finding->tensor;
		finding->affected_count = finding->affected_kept = 1;
	}
	return true;
}

/* Whether they are of one cause in two files, or of gaps in two tensors. */
static bool joins(const struct fsdp_finding *finding, const struct fsdp_finding *before)
{
	bool is_joined = false, is_gap = finding->rule == fsdp_rule(FSDP_RULE_CHUNK_GAP);
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		is_joined |=
			fsdp_rule(rows[i].rule) == finding->rule && rows[i].is_joined;
	return is_joined && finding->severity == before->severity &&
	       (finding->rule == before->rule
			       ? part_of(finding) == part_of(before)
			       : before->rule == fsdp_rule(FSDP_RULE_RANK_MISSING)) &&
	       (part_of(finding) == PART_TENSOR) == is_gap &&
	       (is_gap || (finding->affected_count + before->affected_count == 0 &&
				  finding->file.size > 0 && before->file.size > 0)) &&
	       fsdp_span_equal(finding->file, before->file) == is_gap &&
	       fsdp_span_equal(finding->fix, before->fix) &&
	       fsdp_span_is_alike(finding->message, before->message);
}

/*
 * Finds the rules that do not apply to a checkpoint: zip rules to safetensors, plan rules
 * without a plan.
 */

/* Things that rules are about. */
enum rule_subject {
	DCP = 1 << 0,
	ZIP = 1 << 1,
	LEGACY = 1 << 2, /* torch.save before zip */
	TAR = 1 << 3,
	PICKLE = 1 << 4,
	SAFETENSORS = 1 << 5,
	INDEX = 1 << 6, /* of shards */
	RANKS = 1 << 7, /* files of several ranks */
	PLAN = 1 << 8,
	OPTIM = 1 << 9,
	DEEPSPEED = 1 << 10,
	MEGATRON = 1 << 11,
	TRAINER = 1 << 12, /* a step of Hugging Face's Trainer */
};

/* Families with rules that cannot apply. To any other family all rules may apply. */
static const struct {
	const char *family;
	unsigned subjects;
} families[] = {
	{ "dcp", DCP | ZIP | PICKLE | RANKS },
	{ "dcp-safetensors", SAFETENSORS | RANKS },
	{ "deepspeed-zero0", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-zero1", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-zero2", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-zero3", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "deepspeed-universal", DEEPSPEED | ZIP | PICKLE | RANKS },
	{ "fsdp-plan", PLAN },
	{ "hf-bin", ZIP | LEGACY | PICKLE },
	{ "hf-bin-sharded", ZIP | LEGACY | PICKLE | INDEX },
	{ "hf-safetensors", SAFETENSORS },
	{ "hf-safetensors-sharded", SAFETENSORS | INDEX },
	{ "lightning-ckpt", ZIP | PICKLE },
	{ "megatron-legacy", ZIP | LEGACY | PICKLE | RANKS | MEGATRON },
	{ "peft-adapter", SAFETENSORS },
	{ "pickle", PICKLE },
	{ "rank-set", ZIP | LEGACY | PICKLE | RANKS },
	{ "safetensors", SAFETENSORS },
	{ "torch-legacy", LEGACY | PICKLE },
	{ "torch-tar", TAR | PICKLE },
	{ "torch-zip", ZIP | PICKLE },
	{ "torchscript", ZIP | PICKLE },
};

/* Ranges of rules in the order of the table, both ends included. A rule in no row applies
 * to every checkpoint. */
static const struct {
	const char *first, *last;
	unsigned subjects; /* of any of these */
} subject_rows[] = {
	{ "FI1008", "FI1009", RANKS | DCP | DEEPSPEED | MEGATRON },
	{ "FI1020", "FI1029", DCP },
	{ "FI1031", "FI1033", RANKS },
	{ "FI1040", "FI1041", ZIP },
	{ "FI1042", "FI1045", PICKLE },
	{ "FI1047", "FI1047", LEGACY | TAR },
	{ "FI1050", "FI1052", SAFETENSORS },
	{ "FI1060", "FI1063", INDEX },
	{ "FI1070", "FI1071", DEEPSPEED },
	{ "FI1073", "FI1073", MEGATRON },
	{ "FI1080", "FI1082", PLAN },
	{ "FI2001", "FI2003", ZIP },
	{ "FI3001", "FI3019", PICKLE },
	{ "FI3040", "FI3042", ZIP },
	{ "FI3043", "FI3043", ZIP | TAR },
	{ "FI3044", "FI3054", ZIP },
	{ "FI3061", "FI3061", TAR },
	{ "FI3062", "FI3062", ZIP },
	{ "FI4009", "FI4009", ZIP },
	{ "FI4010", "FI4010", PICKLE | SAFETENSORS },
	{ "FI4012", "FI4012", SAFETENSORS },
	{ "FI5001", "FI5005", OPTIM },
	{ "FI5007", "FI5007", TRAINER },
	{ "FI5008", "FI5008", DEEPSPEED },
};

/* Whether files of other kinds were read. */
static bool has_pickles(const struct fsdp_checkpoint *checkpoint)
{
	for (uint32_t i = 0; i < fsdp_file_count(checkpoint); i++) {
		struct fsdp_span path = fsdp_file(checkpoint, i).path;
		struct fsdp_span end = fsdp_span_last(path, '.');
		if (end.size < path.size &&
			fsdp_span_is_any(end, "bin ckpt distcp pkl pt pth"))
			return true;
	}
	return false;
}

unsigned fsdp_subjects_of(const struct fsdp_checkpoint *checkpoint)
{
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	unsigned subjects = ~(unsigned)(PLAN | OPTIM);
	struct fsdp_plan_facts plan;
	for (size_t i = 0; family != NULL && i < FSDP_COUNT(families); i++)
		if (strcmp(families[i].family, family) == 0)
			subjects = families[i].subjects;
	if ((subjects & PICKLE) == 0 && has_pickles(checkpoint))
		subjects |= ZIP | LEGACY | PICKLE;
	if (fsdp_checkpoint_plan(checkpoint, &plan))
		subjects |= PLAN;
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++)
		if (fsdp_tensor(checkpoint, i).role == FSDP_ROLE_OPTIM)
			return subjects | OPTIM;
	return subjects;
}

bool fsdp_rule_applies(const struct fsdp_rule *rule, unsigned subjects)
{
	if (strcmp(rule->category, "recording") == 0)
		return false;
	for (size_t i = 0; i < sizeof subject_rows / sizeof *subject_rows; i++)
		if (strcmp(subject_rows[i].first, rule->id) <= 0 &&
			strcmp(rule->id, subject_rows[i].last) <= 0)
			return (subject_rows[i].subjects & subjects) != 0;
	return true;
}

/*
 * Runs the checks over an open checkpoint and records the result of each rule.
 */

/* Nothing refers to the order but that of the findings. */
static const struct fsdp_check *const checks[] = {
	&fsdp_check_boxes,
	&fsdp_check_wrapped,
	&fsdp_check_make_up,
	&fsdp_check_sparse,
	&fsdp_check_parameters,
	&fsdp_check_values,
	&fsdp_check_complete,
	&fsdp_check_unseen,
	&fsdp_check_ties,
	&fsdp_check_optim_groups,
	&fsdp_check_optimizer,
	&fsdp_check_unstated,
	&fsdp_check_folder_step,
	&fsdp_check_no_meta,
};
enum { CHECK_COUNT = sizeof checks / sizeof checks[0] };

struct fsdp_audit {
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	struct fsdp_arena arena;       /* of the findings */
	struct fsdp_findings findings; /* of its own checks */
	struct fsdp_finding *all;
	size_t count; /* of all */
	struct fsdp_rule_result results[FSDP_RULE_COUNT];
};

static struct fsdp_rule_result before_any_check(
	size_t index, unsigned subjects, const struct fsdp_audit_options *options)
{
	static const enum fsdp_rule_reason reasons[FSDP_LEVEL_COUNT] = {
		[FSDP_LEVEL_HEADERS] = FSDP_REASON_NEEDS_HEADERS,
		[FSDP_LEVEL_DATA] = FSDP_REASON_NEEDS_DATA,
		[FSDP_LEVEL_VALUES] = FSDP_REASON_NEEDS_VALUES,
	};
	const struct fsdp_rule *rule = fsdp_rule(index);
	struct fsdp_rule_result result = { .rule = rule };
	if (!fsdp_rule_applies(rule, subjects)) {
		result.status = FSDP_STATUS_NOT_APPLICABLE;
	} else if (rule->level > options->level && rule->level != FSDP_LEVEL_ANY) {
		result.status = FSDP_STATUS_NOT_EVALUATED;
		result.reason = reasons[rule->level];
	} else if (options->verify != NULL) {
		fsdp_verify_result(options->verify, index, &result);
	}
	return result;
}

static void count_findings(
	struct fsdp_audit *audit, const struct fsdp_rule *rule, uint64_t count)
{
	fsdp_tally(&audit->results[rule - fsdp_rule(0)].findings, count);
}

static void count_omitted(struct fsdp_audit *audit, struct fsdp_omitted omitted)
{
	count_findings(audit, omitted.rule, omitted.count);
}

/* "…; also __3_0.distcp and 2 more", or "…; 2 more tensors have gaps" */
static bool write_others(struct fsdp_audit *audit, const size_t *next, size_t index)
{
	enum { SHOWN = 8, NAME_MOST = 200, MORE = 96 };
	struct fsdp_finding *finding = &audit->all[index];
	size_t room = finding->message.size + SHOWN * (NAME_MOST + 8) + MORE, size, k = 0;
	char *text = (char *)fsdp_arena_take(&audit->arena, room, 1);

	if (text == NULL)
		return false;
	size = finding->message.size;
	memcpy(text, finding->message.data, size);
	while ((index = next[index]) != SIZE_MAX)
		if (k++ < SHOWN && part_of(finding) != PART_TENSOR)
			size += (size_t)snprintf(text + size, room - size, "%s%.*s",
				k == 1 ? "; also " : ", ",
				FSDP_TEXT_MOST(audit->all[index].file, NAME_MOST));
	if (part_of(finding) == PART_TENSOR)
		size += (size_t)snprintf(text + size, room - size, "; %zu more tensor%s",
			k, k == 1 ? " has a gap" : "s have gaps");
	else if (k > SHOWN)
		size += (size_t)snprintf(
			text + size, room - size, " and %zu more", k - SHOWN);
	finding->message = fsdp_span(text, size);
	return true;
}

/* All findings, with the names that suffer. */
static bool gather_findings(struct fsdp_audit *audit,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_verify *verify)
{
	size_t found = fsdp_finding_count(checkpoint), own = audit->findings.list.count;
	size_t bytes = verify != NULL ? fsdp_verify_finding_count(verify) : 0;
	struct fsdp_affected affected = { .checkpoint = checkpoint,
		.arena = &audit->arena };
	size_t *next = FSDP_TAKE(&audit->arena, next, found + bytes + own + 1);
	size_t last[FSDP_RULE_COUNT], kept = 0;
	bool *joined = FSDP_TAKE(&audit->arena, joined, found + bytes + own + 1);
	audit->all = FSDP_TAKE(&audit->arena, audit->all, found + bytes + own + 1);
	if (audit->all == NULL || next == NULL || joined == NULL)
		return false;
	for (size_t i = 0; i < found; i++)
		audit->all[audit->count++] = *fsdp_finding(checkpoint, i);
	for (size_t i = 0; i < bytes; i++)
		audit->all[audit->count++] = *fsdp_verify_finding(verify, i);
	for (size_t i = 0; i < own; i++)
		audit->all[audit->count++] = *(const struct fsdp_finding *)fsdp_vec_at(
			&audit->findings.list, i);
	memset(last, 0xff, sizeof last);
	for (size_t i = 0; i < audit->count; i++) {
		size_t rule = (size_t)(audit->all[i].rule - fsdp_rule(0));
		/* Random states of the ranks that lack their weights too. */
		size_t *before =
			&last[rule == FSDP_RULE_RESUME_PART ? FSDP_RULE_RANK_MISSING
							    : rule];
		next[i] = SIZE_MAX;
		joined[i] = *before != SIZE_MAX &&
			    joins(&audit->all[i], &audit->all[*before]);
		if (joined[i])
			next[*before] = i;
		*before = i;
	}
	for (size_t i = 0; i < audit->count; i++)
		if (!joined[i] &&
			(!fill_affected(&affected, audit->all, next, i) ||
				(next[i] != SIZE_MAX && !write_others(audit, next, i))))
			return false;
	for (size_t i = 0; i < audit->count; i++)
		if (!joined[i])
			audit->all[kept++] = audit->all[i];
	audit->count = kept;
	return true;
}

static void end_results(struct fsdp_audit *audit,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_verify *verify)
{
	for (size_t i = 0; i < audit->count; i++)
		count_findings(audit, audit->all[i].rule, 1);
	for (size_t i = 0; i < fsdp_omitted_count(checkpoint); i++)
		count_omitted(audit, fsdp_omitted(checkpoint, i));
	for (size_t i = 0; verify != NULL && i < fsdp_verify_omitted_count(verify); i++)
		count_omitted(audit, fsdp_verify_omitted(verify, i));
	for (size_t i = 0; i < fsdp_audit_omitted_count(audit); i++)
		count_omitted(audit, fsdp_audit_omitted(audit, i));
	for (size_t i = 0; i < FSDP_RULE_COUNT; i++)
		if (audit->results[i].findings > 0) {
			audit->results[i].status = FSDP_STATUS_FAILED;
			audit->results[i].reason = FSDP_REASON_NONE;
		}
}

/* Callers that were compiled before it was there do not set it. */
static const char *path_of(const struct fsdp_audit_options *options)
{
	return options->size >= offsetof(struct fsdp_audit_options, path) +
					sizeof options->path
		       ? options->path
		       : NULL;
}

static bool is_due(const struct fsdp_check *check, enum fsdp_level level)
{
	for (size_t i = 0; i < check->rule_count; i++)
		if (fsdp_rule(check->rules[i])->level <= level)
			return true;
	return false;
}

void fsdp_check_keep(
	struct fsdp_checking *checking, struct fsdp_kept *kept, struct fsdp_span name)
{
	size_t count = kept->count;
	struct fsdp_span *names = kept->names;
	if (count < FSDP_AFFECTED_KEPT) {
		/* They double from eight on. */
		if (count == 0 || (count >= 8 && (count & (count - 1)) == 0)) {
			names = FSDP_CHECK_TAKE(
				checking, names, count == 0 ? 8 : 2 * count);
			if (names != NULL && count > 0)
				memcpy(names, kept->names, count * sizeof *names);
		}
		name = fsdp_arena_copy(checking->arena, name);
		checking->no_memory |= name.data == NULL;
		if (checking->no_memory)
			return;
		names[count] = name;
		kept->names = names;
	}
	kept->count++;
}

void fsdp_check_report(struct fsdp_checking *checking, enum fsdp_rule_index rule,
	struct fsdp_span tensor, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fsdp_find_list(checking->findings, rule,
		FSDP_PLACE(.tensor = tensor, .affected = &tensor, .affected_count = 1),
		format, arguments);
	va_end(arguments);
}

static bool run_checks(struct fsdp_audit *audit, const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_audit_options *options, struct fsdp_error **ret_error)
{
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	bool good = true;
	for (size_t i = 0; i < CHECK_COUNT && good; i++) {
		struct fsdp_arena arena;
		struct fsdp_checking checking = {
			.checkpoint = checkpoint,
			.family = family != NULL ? family : "",
			.verify = options->verify,
			.level = options->level,
			.path = path_of(options),
			.findings = &audit->findings,
			.arena = &arena,
			.name = { .arena = &arena },
			.results = audit->results,
			.ret_error = ret_error,
		};
		if (!is_due(checks[i], options->level))
			continue;
		fsdp_arena_init(&arena, &audit->budget);
		checks[i]->run(&checking);
		good = !checking.failed;
		if (good && (checking.no_memory || checking.name.failed ||
				    audit->findings.lost))
			good = fsdp_arena_fail(&arena, ret_error);
		fsdp_arena_done(&arena);
	}
	return good;
}

bool fsdp_audit_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_audit_options *options, struct fsdp_audit **ret_audit,
	struct fsdp_error **ret_error)
{
	struct fsdp_audit *audit = calloc(1, sizeof *audit);
	unsigned subjects = fsdp_subjects_of(checkpoint);
	bool known, good;
	if (audit == NULL)
		return fsdp_fail_memory(ret_error);
	known = fsdp_limits_choose(
		&audit->limits, options->limits, options->limit_count, ret_error);
	audit->budget.ceiling = fsdp_limit(&audit->limits, FSDP_LIMIT_MEMORY);
	fsdp_arena_init(&audit->arena, &audit->budget);
	fsdp_findings_init(&audit->findings, &audit->arena, &audit->limits);
	for (size_t i = 0; i < FSDP_RULE_COUNT; i++)
		audit->results[i] = before_any_check(i, subjects, options);
	good = known && run_checks(audit, checkpoint, options, ret_error);
	if (good && !gather_findings(audit, checkpoint, options->verify))
		good = fsdp_arena_fail(&audit->arena, ret_error);
	if (!good) {
		fsdp_audit_free(audit);
		return false;
	}
	end_results(audit, checkpoint, options->verify);
	*ret_audit = audit;
	return true;
}

void fsdp_audit_free(struct fsdp_audit *audit)
{
	if (audit == NULL)
		return;
	fsdp_arena_done(&audit->arena);
	free(audit);
}

size_t fsdp_audit_finding_count(const struct fsdp_audit *audit)
{
	return audit->count;
}

const struct fsdp_finding *fsdp_audit_finding(
	const struct fsdp_audit *audit, size_t index)
{
	return index < audit->count ? &audit->all[index] : NULL;
}

size_t fsdp_audit_omitted_count(const struct fsdp_audit *audit)
{
	return fsdp_findings_omitted_count(&audit->findings);
}

struct fsdp_omitted fsdp_audit_omitted(const struct fsdp_audit *audit, size_t index)
{
	return fsdp_findings_omitted(&audit->findings, index);
}

struct fsdp_rule_result fsdp_audit_result(const struct fsdp_audit *audit, size_t rule)
{
	return rule < FSDP_RULE_COUNT ? audit->results[rule]
				      : (struct fsdp_rule_result){ 0 };
}
