/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door to what bytes say: goes through the files of an open checkpoint, as deep as it
 * is asked to, and keeps what it notices.
 */
#include <stdlib.h>

#include "base/num.h"
#include "verify-private.h"
#include "sweep/pass.h"

/* ---- files ---- */

static bool wants_data(const struct fsdp_verify *verify)
{
	return verify->options.level >= FSDP_VERIFY_DATA;
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
	file.has_digest = wants_data(verify) && fsdp_verify_has_digest(verify, file.path);
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
	return true;
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
	       fsdp_verify_find_copies(verify, ret_error) &&
	       fsdp_verify_begin_values(verify, ret_error);
}

static bool finish_data(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!look_at_listed(verify, ret_error) || !fsdp_verify_read(verify, ret_error))
		return false;
	fsdp_verify_judge_copies(verify);
	return fsdp_verify_judge_values(verify, ret_error);
}

static bool look_at_all(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!fsdp_verify_sort(verify, ret_error) ||
		!fsdp_verify_folder(verify, ret_error) ||
		(wants_data(verify) && !prepare_data(verify, ret_error)))
		return false;
	for (uint32_t i = 0; i < verify->checkpoint->model.files.count; i++)
		if (!look_at(verify, i, ret_error))
			return false;
	if (wants_data(verify) && !finish_data(verify, ret_error))
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
	fsdp_vec_init(&verify->digests, &verify->arena, sizeof(struct fsdp_digest));
	fsdp_vec_init(&verify->sources, &verify->arena, sizeof(const char *));
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
	verify->scope.level = verify->options.level;
	bool good = begin(verify, ret_error) && look_at_all(verify, ret_error);
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

const char *fsdp_verify_status_name(enum fsdp_verify_status status)
{
	static const char *const names[FSDP_VERIFY_STATUS_COUNT] = {
		[FSDP_VERIFY_EVALUATED] = "evaluated",
		[FSDP_VERIFY_NOT_APPLICABLE] = "not_applicable",
		[FSDP_VERIFY_NEEDS_DATA] = "needs_data",
		[FSDP_VERIFY_NEEDS_VALUES] = "needs_values",
		[FSDP_VERIFY_NO_CRC] = "no_crc",
		[FSDP_VERIFY_NO_DIGEST] = "no_digest",
		[FSDP_VERIFY_LIMIT] = "limit",
		[FSDP_VERIFY_UNREADABLE] = "unreadable",
	};
	return (size_t)status < FSDP_VERIFY_STATUS_COUNT ? names[status]
							 : names[FSDP_VERIFY_UNREADABLE];
}

/* Which level looks for a rule, and what it needs besides. */
enum need { NEEDS_NOTHING, NEEDS_CRC, NEEDS_DIGEST, NEEDS_MANIFEST, NEEDS_COPIES };

static const struct {
	const char *id;
	enum fsdp_verify_level level;
	enum need need;
} raised[] = {
	{ "FI1006", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI1027", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI1028", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI1029", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI2001", FSDP_VERIFY_DATA, NEEDS_CRC },
	{ "FI2002", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI2003", FSDP_VERIFY_DATA, NEEDS_NOTHING },
	{ "FI2004", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI2005", FSDP_VERIFY_DATA, NEEDS_DIGEST },
	{ "FI2007", FSDP_VERIFY_DATA, NEEDS_COPIES },
	{ "FI2008", FSDP_VERIFY_VALUES, NEEDS_NOTHING },
	{ "FI2009", FSDP_VERIFY_VALUES, NEEDS_NOTHING },
	{ "FI2010", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI3054", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI3063", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI4007", FSDP_VERIFY_DATA, NEEDS_COPIES },
	{ "FI4009", FSDP_VERIFY_HEADERS, NEEDS_NOTHING },
	{ "FI6008", FSDP_VERIFY_DATA, NEEDS_MANIFEST },
};

/* What it needs is there, or what to say instead. */
static enum fsdp_verify_status status_of(const struct fsdp_verify *verify, enum need need)
{
	bool manifest = verify->options.manifest_path != NULL;
	switch (need) {
	case NEEDS_NOTHING:
		break;
	case NEEDS_CRC:
		if ((verify->lacks & FSDP_WITHOUT_CRC) != 0)
			return FSDP_VERIFY_NO_CRC;
		break;
	case NEEDS_DIGEST:
		if (verify->sources.count == manifest)
			return FSDP_VERIFY_NO_DIGEST;
		break;
	case NEEDS_MANIFEST:
		if (!manifest)
			return FSDP_VERIFY_NOT_APPLICABLE;
		break;
	case NEEDS_COPIES:
		if (verify->copy_count == 0)
			return FSDP_VERIFY_NOT_APPLICABLE;
		break;
	}
	if ((verify->lacks & FSDP_UNREADABLE) != 0)
		return FSDP_VERIFY_UNREADABLE;
	if ((verify->lacks & FSDP_OVER_LIMIT) != 0)
		return FSDP_VERIFY_LIMIT;
	return FSDP_VERIFY_EVALUATED;
}

bool fsdp_verify_status(const struct fsdp_verify *verify, const char *rule,
	enum fsdp_verify_status *ret_status)
{
	for (size_t i = 0; i < FSDP_COUNT(raised); i++) {
		if (strcmp(raised[i].id, rule) != 0)
			continue;
		if (raised[i].level > verify->options.level)
			*ret_status = raised[i].level == FSDP_VERIFY_VALUES
					      ? FSDP_VERIFY_NEEDS_VALUES
					      : FSDP_VERIFY_NEEDS_DATA;
		else
			*ret_status = status_of(verify, raised[i].need);
		return true;
	}
	return false;
}
