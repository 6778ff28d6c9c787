/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integrity of the bytes of an open checkpoint: goes through its files, as deep as it is
 * asked to, and keeps the findings, in one order whatever part of the work this is.
 */
#include <stdlib.h>

#include "base/num.h"
#include "elements/data-scan.h"
#include "verify/verify-private.h"

/* ---- Order of files and of findings: the same in all parts of the work ---- */

bool fsdp_verify_takes(struct fsdp_verify *verify, uint64_t bytes)
{
	verify->place++;
	return fsdp_share_takes(&verify->share, bytes);
}

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

/* Puts findings in the order of their places. Which files were in hand together does not
 * show then. */
static bool verify_order(struct fsdp_verify *verify, struct fsdp_error **ret_error)
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

/* ---- One of several parts of the work: its files, and copies in files of other parts ---- */

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

/* What is this part's, when the lists of digests are known. */
static bool verify_begin_part(struct fsdp_verify *verify, struct fsdp_error **ret_error)
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
	/* Bytes of the model's files that are in the share. */
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_share share = verify->share;
	uint64_t total = 0;
	for (uint32_t i = 0; i < model->files.count; i++) {
		uint64_t size = size_of(fsdp_model_file(model, i));
		total += fsdp_share_takes(&share, size) ? size : 0;
	}
	verify->pass.total = total;
	return true;
}

/* Whether the next file of the model is. */
static bool verify_takes_file(struct fsdp_verify *verify, uint32_t id)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	bool takes = fsdp_verify_takes(verify, size_of(fsdp_model_file(model, id)));
	if (verify->own != NULL)
		verify->own[id] = takes;
	return takes;
}

/* ---- copies ---- */

/* Reads copies in files of other parts that this part's are compared with. `look_at`
 * takes a file in hand. What is wrong with these files, and what they add up to,
 * another part says. */
static bool verify_foreign(struct fsdp_verify *verify,
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

/* ---- The files of a checkpoint, one after another ---- */

/* ---- files ---- */

static bool wants_data(const struct fsdp_verify *verify)
{
	return verify->options.level >= FSDP_LEVEL_DATA;
}

static bool look_at(
	struct fsdp_verify *verify, uint32_t id, struct fsdp_error **ret_error)
{
	struct fsdp_verify_file file;
	struct fsdp_error *error = NULL;
	const struct fsdp_file_record *record =
		fsdp_model_file(&verify->checkpoint->model, id);
	if (record->size == FSDP_UNKNOWN)
		return true; /* absent: said already */
	if (!fsdp_verify_file(verify, id, &file, &error)) {
		if (error == NULL)
			return true;
		if (ret_error != NULL)
			*ret_error = error;
		return false;
	}
	verify->scope.files++;
	verify->scope.bytes += file.source.size;
	file.has_digest = wants_data(verify) && fsdp_verify_lists(verify, file.path);
	fsdp_vec_init(&file.segments, &verify->batch, sizeof(struct fsdp_segment));
	if (!fsdp_verify_begin_views(verify, &file, ret_error) ||
		!fsdp_verify_ledger(verify, &file, ret_error))
		return false;
	if (wants_data(verify))
		return fsdp_verify_take(verify, &file, ret_error);
	fsdp_arena_reset(&verify->batch);
	return true;
}

static bool look_at_listed(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_verify_file file;
	size_t state = 0;
	while (fsdp_verify_next_listed(verify, &state, &file)) {
		if (!fsdp_verify_takes(verify, file.source.size))
			continue;
		if (file.source.fd >= 0)
			(void)fstat(file.source.fd, &file.before);
		verify->scope.files++;
		verify->scope.bytes += file.source.size;
		fsdp_vec_init(
			&file.segments, &verify->batch, sizeof(struct fsdp_segment));
		if (!fsdp_verify_take(verify, &file, ret_error))
			return false;
	}
	fsdp_verify_judge_lists(verify);
	return fsdp_verify_mark(verify, ++verify->place, ret_error);
}

static uint64_t bytes_of(const struct fsdp_model *model)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < model->files.count; i++)
		if (fsdp_model_file(model, i)->size != FSDP_UNKNOWN)
			total += fsdp_model_file(model, i)->size;
	return total;
}

/* What must be known before the first byte is read. */
static bool prepare_data(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_verify_options *options = &verify->options;
	unsigned jobs = options->jobs != 0 ? options->jobs : 1;
	verify->pass = (struct fsdp_pass_options){
		.jobs = (unsigned)fsdp_min(jobs, FSDP_PASS_THREADS),
		.total = bytes_of(&verify->checkpoint->model),
		.progress = options->progress,
		.context = options->progress_context,
	};
	verify->inflate_left =
		fsdp_limit(&verify->checkpoint->limits, FSDP_LIMIT_INFLATE_BYTES);
	verify->hand = calloc(FSDP_VERIFY_HAND, sizeof *verify->hand);
	if (verify->hand == NULL)
		return fsdp_fail_memory(ret_error);
	return fsdp_verify_read_digests(verify, ret_error) &&
	       verify_begin_part(verify, ret_error) &&
	       fsdp_verify_find_copies(verify, ret_error) &&
	       fsdp_verify_begin_values(verify, ret_error);
}

/* What will be read, if it is far away: the beginnings of all files, and then of each file all
 * bytes, or the two ends of its items. */
static void expect_reads(const struct fsdp_verify *verify)
{
	enum { HEAD = 64, ITEM_HEAD = 4096, ITEM_TAIL = 65557 };
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	const struct fsdp_model *model = &checkpoint->model;
	size_t at = 0;
	for (int pass = 0; pass < 2 && checkpoint->remote != NULL; pass++)
		for (uint32_t i = 0; i < model->files.count; i++) {
			struct fsdp_source source;
			if (fsdp_model_file(model, i)->size == FSDP_UNKNOWN ||
				!fsdp_checkpoint_source(checkpoint, i, &source, NULL))
				continue;
			fsdp_source_expect(&source, 0,
				pass != 0 && wants_data(verify)
					? source.size
					: fsdp_min(source.size, HEAD));
			for (; pass != 0 && at < verify->extent_count; at++) {
				const struct fsdp_extent *extent =
					fsdp_model_extent(model, verify->extents[at]);
				if (extent->file > i)
					break;
				if (extent->file < i || wants_data(verify) ||
					extent->kind != FSDP_EXTENT_ITEM)
					continue;
				uint64_t tail = fsdp_min(extent->length, ITEM_TAIL);
				fsdp_source_expect(&source, extent->offset,
					fsdp_min(extent->length, ITEM_HEAD));
				fsdp_source_expect(&source,
					extent->offset + extent->length - tail, tail);
			}
		}
}

static bool look_at_all(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	expect_reads(verify);
	if (!fsdp_verify_folder(verify, ret_error) ||
		(wants_data(verify) && !prepare_data(verify, ret_error)) ||
		!fsdp_verify_mark(verify, 0, ret_error))
		return false;
	for (uint32_t i = 0; i < verify->checkpoint->model.files.count; i++) {
		/* Those of other parts are met too: what lists say of them is known here.
		 */
		const struct fsdp_file_record *record =
			fsdp_model_file(&verify->checkpoint->model, i);
		if (wants_data(verify) && record->size != FSDP_UNKNOWN)
			(void)fsdp_verify_has_digest(verify, record->path);
		if ((verify_takes_file(verify, i) && !look_at(verify, i, ret_error)) ||
			!fsdp_verify_mark(verify, verify->place, ret_error))
			return false;
	}
	if (!wants_data(verify))
		return true;
	if (!look_at_listed(verify, ret_error) ||
		!fsdp_verify_beside(verify, ret_error) ||
		!fsdp_verify_read(verify, ret_error) ||
		!verify_foreign(verify, look_at, ret_error))
		return false;
	fsdp_verify_judge_copies(verify);
	return fsdp_verify_judge_values(verify, ret_error);
}

static bool look(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!fsdp_verify_sort(verify, ret_error) || !look_at_all(verify, ret_error) ||
		!fsdp_verify_mark(verify, UINT32_MAX, ret_error) ||
		!verify_order(verify, ret_error))
		return false;
	return !verify->findings.lost || fsdp_arena_fail(&verify->arena, ret_error);
}

/* ---- its life ---- */

static bool begin(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	verify->budget.ceiling =
		checkpoint->budget.ceiling -
		fsdp_min(checkpoint->budget.used, checkpoint->budget.ceiling);
	fsdp_arena_init(&verify->arena, &verify->budget);
	fsdp_arena_init_lean(&verify->batch, &verify->budget);
	fsdp_arena_init_lean(&verify->item, &verify->budget);
	fsdp_findings_init(&verify->findings, &verify->arena, &checkpoint->limits);
	fsdp_vec_init(
		&verify->digests, &verify->arena, sizeof(struct fsdp_listed_digest));
	fsdp_vec_init(&verify->sources, &verify->arena, sizeof(const char *));
	fsdp_vec_init(&verify->places, &verify->arena, sizeof(uint32_t));
	verify->window = malloc(FSDP_VERIFY_WINDOW);
	if (verify->window == NULL)
		return fsdp_fail_memory(ret_error);
	return fsdp_locator_new(checkpoint, &verify->locator, ret_error);
}

bool fsdp_verify_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_verify_options *options, struct fsdp_verify **ret_verify,
	struct fsdp_error **ret_error)
{
	if (checkpoint->model.counting != NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"only the counts of this checkpoint were read: open it without only_counts");
	struct fsdp_verify *verify = calloc(1, sizeof *verify);
	if (verify == NULL)
		return fsdp_fail_memory(ret_error);
	verify->checkpoint = checkpoint;
	if (options != NULL)
		memcpy(&verify->options, options,
			fsdp_min(options->size, sizeof verify->options));
	if (verify->options.level < FSDP_LEVEL_HEADERS)
		verify->options.level = FSDP_LEVEL_HEADERS;
	verify->scope.level = verify->options.level;
	bool good = begin(verify, ret_error) && look(verify, ret_error);
	/* What is needed only while it is made. */
	fsdp_locator_free(verify->locator);
	verify->locator = NULL;
	free(verify->window);
	verify->window = NULL;
	free(verify->hand);
	verify->hand = NULL;
	fsdp_arena_done(&verify->item);
	fsdp_arena_done(&verify->batch);
	if (!good) {
		fsdp_verify_free(verify);
		return false;
	}
	*ret_verify = verify;
	return true;
}

void fsdp_verify_free(struct fsdp_verify *verify)
{
	if (verify == NULL)
		return;
	fsdp_arena_done(&verify->arena);
	free(verify);
}

/* ---- what it says ---- */

size_t fsdp_verify_finding_count(const struct fsdp_verify *verify)
{
	return verify->findings.list.count;
}

const struct fsdp_finding *fsdp_verify_finding(
	const struct fsdp_verify *verify, size_t index)
{
	return fsdp_vec_at(&verify->findings.list, index);
}

size_t fsdp_verify_omitted_count(const struct fsdp_verify *verify)
{
	return fsdp_findings_omitted_count(&verify->findings);
}

struct fsdp_omitted fsdp_verify_omitted(const struct fsdp_verify *verify, size_t index)
{
	return fsdp_findings_omitted(&verify->findings, index);
}

struct fsdp_verify_scope fsdp_verify_scope(const struct fsdp_verify *verify)
{
	struct fsdp_verify_scope scope = verify->scope;
	scope.digest_source_count = (verify->crc_count != 0) + verify->sources.count;
	return scope;
}

const char *fsdp_verify_digest_source(const struct fsdp_verify *verify, size_t index)
{
	size_t first = verify->crc_count != 0;
	if (index < first)
		return "crc32";
	if (index - first >= verify->sources.count)
		return NULL;
	return *(const char **)fsdp_vec_at(&verify->sources, index - first);
}

/* Which level looks for a rule, and what it needs besides. */
enum verify_need {
	NEEDS_NOTHING,
	NEEDS_CRC,
	NEEDS_DIGEST,
	NEEDS_MANIFEST,
	NEEDS_COPIES,
	NEEDS_TIES
};

static const struct {
	enum fsdp_rule_index rule;
	enum fsdp_level level;
	enum verify_need need;
} raised[] = {
	{ FSDP_RULE_OVERWRITTEN_IN_PLACE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_UNREFERENCED_BYTES, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_ITEM_MISMATCH, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_CRC_MISMATCH, FSDP_LEVEL_DATA, NEEDS_CRC },
	{ FSDP_RULE_CRC_NOT_RECORDED, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_INFLATE_ERROR, FSDP_LEVEL_DATA, NEEDS_NOTHING },
	{ FSDP_RULE_CHANGED_DURING_READ, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_DIGEST_MISMATCH, FSDP_LEVEL_DATA, NEEDS_DIGEST },
	{ FSDP_RULE_REPLICA_DIFFERS, FSDP_LEVEL_DATA, NEEDS_COPIES },
	{ FSDP_RULE_NON_FINITE, FSDP_LEVEL_VALUES, NEEDS_NOTHING },
	{ FSDP_RULE_IMPOSSIBLE_VALUE, FSDP_LEVEL_VALUES, NEEDS_NOTHING },
	{ FSDP_RULE_FILE_HOLE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_MEMBER_UNREFERENCED, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_NATIVE_CODE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_TIED_WEIGHTS, FSDP_LEVEL_DATA, NEEDS_TIES },
	{ FSDP_RULE_OFFSETS_NOT_COMPUTABLE, FSDP_LEVEL_HEADERS, NEEDS_NOTHING },
	{ FSDP_RULE_MANIFEST_MISMATCH, FSDP_LEVEL_DATA, NEEDS_MANIFEST },
};

/* What it needs is there, or what to say instead. */
static void judge_need(const struct fsdp_verify *verify, enum verify_need need,
	struct fsdp_rule_result *result)
{
	bool manifest = verify->options.manifest_path != NULL;
	enum fsdp_rule_reason reason = FSDP_REASON_NONE;
	if ((verify->lacks & FSDP_UNREADABLE) != 0)
		reason = FSDP_REASON_UNREADABLE;
	else if ((verify->lacks & FSDP_OVER_LIMIT) != 0)
		reason = FSDP_REASON_LIMIT;
	if (need == NEEDS_CRC && (verify->lacks & FSDP_WITHOUT_CRC) != 0)
		reason = FSDP_REASON_NO_CRC;
	if (need == NEEDS_DIGEST && verify->sources.count == manifest)
		reason = FSDP_REASON_NO_DIGEST;
	/* What the one does not cover, the other does. */
	bool covered = verify->scope.payload_without == 0 &&
		       (reason == FSDP_REASON_NO_CRC || reason == FSDP_REASON_NO_DIGEST);
	bool compares = need == NEEDS_COPIES || need == NEEDS_TIES;
	if ((need == NEEDS_COPIES && verify->unlike_copies) ||
		(need == NEEDS_TIES && verify->unlike_ties))
		reason = FSDP_REASON_UNLIKE;
	else if (covered || (need == NEEDS_MANIFEST && !manifest) ||
		 (compares && verify->copy_count == 0)) {
		result->status = FSDP_STATUS_NOT_APPLICABLE;
		return;
	}
	if (reason != FSDP_REASON_NONE)
		result->status = FSDP_STATUS_NOT_EVALUATED;
	result->reason = reason;
}

bool fsdp_verify_result(const struct fsdp_verify *verify, size_t rule,
	struct fsdp_rule_result *ret_result)
{
	for (size_t i = 0; i < FSDP_COUNT(raised); i++) {
		if (raised[i].rule != rule)
			continue;
		*ret_result = (struct fsdp_rule_result){ .rule = fsdp_rule(rule) };
		if (raised[i].level <= verify->options.level) {
			judge_need(verify, raised[i].need, ret_result);
			return true;
		}
		ret_result->status = FSDP_STATUS_NOT_EVALUATED;
		ret_result->reason = raised[i].level == FSDP_LEVEL_VALUES
					     ? FSDP_REASON_NEEDS_VALUES
					     : FSDP_REASON_NEEDS_DATA;
		return true;
	}
	return false;
}
