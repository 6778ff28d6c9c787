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
	fsdp_vec_init(&file.segments, &verify->batch, sizeof(struct fsdp_segment));
	bool good = fsdp_verify_ledger(verify, &file, ret_error);
	fsdp_arena_reset(&verify->batch);
	return good;
}

static bool look_at_all(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!fsdp_verify_sort(verify, ret_error))
		return false;
	for (uint32_t i = 0; i < verify->checkpoint->model.files.count; i++)
		if (!look_at(verify, i, ret_error))
			return false;
	if (!fsdp_verify_folder(verify, ret_error))
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
	return verify->scope;
}

const char *fsdp_verify_digest_source(const struct fsdp_verify *verify, size_t index)
{
	(void)verify;
	(void)index;
	return NULL;
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

/* Which level looks for a rule. */
static const struct {
	const char *id;
	enum fsdp_verify_level level;
} raised[] = {
	{ "FI1006", FSDP_VERIFY_HEADERS },
	{ "FI1027", FSDP_VERIFY_HEADERS },
	{ "FI1028", FSDP_VERIFY_HEADERS },
	{ "FI1029", FSDP_VERIFY_HEADERS },
	{ "FI2002", FSDP_VERIFY_HEADERS },
	{ "FI2010", FSDP_VERIFY_HEADERS },
	{ "FI3054", FSDP_VERIFY_HEADERS },
	{ "FI3063", FSDP_VERIFY_HEADERS },
	{ "FI4009", FSDP_VERIFY_HEADERS },
};

bool fsdp_verify_status(const struct fsdp_verify *verify, const char *rule,
	enum fsdp_verify_status *ret_status)
{
	for (size_t i = 0; i < FSDP_COUNT(raised); i++) {
		if (strcmp(raised[i].id, rule) != 0)
			continue;
		*ret_status = (verify->lacks & FSDP_UNREADABLE) != 0
				      ? FSDP_VERIFY_UNREADABLE
				      : FSDP_VERIFY_EVALUATED;
		return true;
	}
	return false;
}

/* ---- values ---- */

struct fsdp_verify_values fsdp_verify_values(
	const struct fsdp_verify *verify, uint32_t tensor)
{
	(void)verify;
	(void)tensor;
	return (struct fsdp_verify_values){ .bad_piece = FSDP_NONE,
		.bad_index = FSDP_UNKNOWN };
}
