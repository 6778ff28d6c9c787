/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door to what bytes say: goes through the files of an open checkpoint, as deep as it
 * is asked to, and keeps what it notices.
 */
#include <stdlib.h>

#include "base/num.h"
#include "elements/data-scan.h"
#include "verify/verify-private.h"

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
	       fsdp_verify_begin_part(verify, ret_error) &&
	       fsdp_verify_find_copies(verify, ret_error) &&
	       fsdp_verify_begin_values(verify, ret_error);
}

static bool finish_data(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!look_at_listed(verify, ret_error) ||
		!fsdp_verify_beside(verify, ret_error) ||
		!fsdp_verify_read(verify, ret_error) ||
		!fsdp_verify_foreign(verify, look_at, ret_error))
		return false;
	fsdp_verify_judge_copies(verify);
	return fsdp_verify_judge_values(verify, ret_error);
}

/* Those of other parts are met too: what lists say of them is known here. */
static bool look_at_own(
	struct fsdp_verify *verify, uint32_t id, struct fsdp_error **ret_error)
{
	const struct fsdp_file_record *record =
		fsdp_model_file(&verify->checkpoint->model, id);
	if (wants_data(verify) && record->size != FSDP_UNKNOWN)
		(void)fsdp_verify_has_digest(verify, record->path);
	return (!fsdp_verify_takes_file(verify, id) || look_at(verify, id, ret_error)) &&
	       fsdp_verify_mark(verify, verify->place, ret_error);
}

static bool look_at_all(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!fsdp_verify_folder(verify, ret_error) ||
		(wants_data(verify) && !prepare_data(verify, ret_error)) ||
		!fsdp_verify_mark(verify, 0, ret_error))
		return false;
	for (uint32_t i = 0; i < verify->checkpoint->model.files.count; i++)
		if (!look_at_own(verify, i, ret_error))
			return false;
	return !wants_data(verify) || finish_data(verify, ret_error);
}

static bool look(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!fsdp_verify_sort(verify, ret_error) || !look_at_all(verify, ret_error) ||
		!fsdp_verify_mark(verify, UINT32_MAX, ret_error) ||
		!fsdp_verify_order(verify, ret_error))
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

/* What is needed only while it is made. */
static void end(struct fsdp_verify *verify)
{
	fsdp_locator_free(verify->locator);
	verify->locator = NULL;
	free(verify->window);
	verify->window = NULL;
	free(verify->hand);
	verify->hand = NULL;
	fsdp_arena_done(&verify->item);
	fsdp_arena_done(&verify->batch);
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
	end(verify);
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
