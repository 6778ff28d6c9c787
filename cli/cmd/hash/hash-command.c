/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of files, of tensors, and of all tensors together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/hash/hash.h"
#include "part/shown-names.h"
#include "part/tensor-reading.h"
#include "part/value-text.h"
#include "render/escape.h"
#include "session/progress.h"
#include "session/session.h"

#define AT(member) offsetof(struct hash_options, member)
static const struct option_row OPTIONS[] = {
	{ "stored", 0, OPTION_FLAG, NULL, AT(stored),
		.help = "hash each file as stored, like sha256sum (default)" },
	{ "logical", 0, OPTION_FLAG, NULL, AT(logical),
		.help = "hash elements: equal for every sharding and format" },
	{ "names", 0, OPTION_FLAG, NULL, AT(names),
		.help = "hash names, dtypes and shapes; read headers only" },
	{ "check", 0, OPTION_TEXT, "FILE", AT(check),
		.help = "compare with the digests in this file" },
	{ NULL },
};

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether a file of the directory is the one being written or compared. */
static bool is_own(const struct hashing *hashing, struct fsdp_span path)
{
	const struct run *run = hashing->run;
	const char *base = fsdp_checkpoint_base(run->checkpoint);
	struct stat file, other;
	char full[4096];
	int size = snprintf(full, sizeof full, "%s/%.*s", base != NULL ? base : run->path,
		(int)path.size, (const char *)path.data);

	if (size < 0 || (size_t)size >= sizeof full || stat(full, &file) != 0)
		return false;
	return (fstat(STDOUT_FILENO, &other) == 0 && is_same(&file, &other)) ||
	       (hashing->options->check != NULL &&
		       stat(hashing->options->check, &other) == 0 &&
		       is_same(&file, &other));
}

static bool takes_file(void *context, struct fsdp_span path)
{
	struct hashing *hashing = context;
	bool taken =
		selection_takes_file(hashing->selection, path) && !is_own(hashing, path);

	if (taken && hashing->manifest != NULL)
		hash_see(hashing, path);
	return taken;
}

/* ---- digest of all tensors ---- */

/* There is none if a row has none. False: out of memory. */
static bool digest_all(struct hashing *hashing)
{
	struct fsdp_digester *digester = fsdp_digester_new();
	bool all = true;
	struct hash_row row;

	if (digester == NULL)
		return false;
	for (size_t i = 0; i < hashing->row_count; i++) {
		hash_row(hashing, i, &row);
		all &= row.known || hashing->kind == HASH_NAMES;
		digest_list_add(digester, &(struct digest_line){
						  .digits = row.digits,
						  .dtype = row.dtype,
						  .shape = row.shape,
						  .dims = row.dims,
						  .name = row.name,
					  });
	}
	fsdp_digester_end(digester, hashing->whole);
	/* Partial results have no total digest. */
	if (all && hashing->partial.parts == 0)
		hashing->digest = hex_text(hashing->whole, hashing->digits);
	return true;
}

static bool read_bytes(struct hashing *hashing, struct fsdp_error **ret_error)
{
	struct run *run = hashing->run;
	struct fsdp_recording_progress progress = { 0 };
	const struct fsdp_digests_options options = {
		.size = sizeof options,
		.tensors = hashing->tensors,
		.tensor_count = hashing->tensor_count,
		.takes_file = takes_file,
		.takes_context = hashing,
		.listed = hashing->manifest,
		.part = run->common->part_number,
		.parts = run->common->part_count,
		.jobs = jobs_wanted(run->common),
		.progress = reading_progress,
		.progress_context = &progress,
	};
	bool good;

	progress_begin(run->common, &progress);
	good = hashing->kind == HASH_STORED
		       ? fsdp_digests_of_files(
				 run->checkpoint, &options, &hashing->digests, ret_error)
		       : fsdp_digests_of_tensors(
				 run->checkpoint, &options, &hashing->digests, ret_error);
	run_interrupted(run, progress_end());
	return good;
}

/* What could not be read leaves the answer partial. */
static void tell_errors(struct hashing *hashing)
{
	size_t told = 0;

	for (size_t i = 0; i < hashing->row_count; i++) {
		struct fsdp_digest digest = fsdp_digest(hashing->digests, i);
		struct hash_row row;

		if (digest.error == NULL)
			continue;
		hash_row(hashing, i, &row);
		/* The path of a file is in its error. */
		reading_failed(hashing->run,
			hashing->kind == HASH_STORED ? (struct text){ NULL, 0 }
						     : row.name,
			digest.error, &told);
	}
	reading_failed_end(hashing->run, told);
	if (told > 0)
		hashing->status = status_worse(hashing->status, STATUS_PARTIAL);
}

/* What parts must have been asked alike: also the list that they compare with. False: out of
 * memory. */
static bool name_part(struct hashing *hashing)
{
	struct fsdp_digester *digester = fsdp_digester_new();
	unsigned char list[FSDP_DIGEST_BYTES];
	char request[96], digits[HEX_ROOM];

	if (digester == NULL)
		return false;
	for (size_t i = 0;
		hashing->manifest != NULL && i < fsdp_manifest_count(hashing->manifest);
		i++) {
		struct fsdp_manifest_entry entry =
			fsdp_manifest_entry(hashing->manifest, i);
		fsdp_digester_add(digester, entry.sha256, sizeof entry.sha256);
		fsdp_digester_add(digester, entry.name.data, entry.name.size + 1);
	}
	fsdp_digester_end(digester, list);
	snprintf(request, sizeof request, "%s%s%s", hashing->word,
		hashing->manifest != NULL ? " check\n" : "",
		hashing->manifest != NULL ? hex_text(list, digits).data : "");
	return partial_init(&hashing->partial, hashing->run, request, hashing->selection,
		hashing->tensors, hashing->tensor_count);
}

/* False: out of memory, or *ret_error. */
static bool make_rows(struct hashing *hashing, struct fsdp_error **ret_error)
{
	const char *check = hashing->options->check;

	if (check != NULL) {
		if (!fsdp_manifest_open(check, &hashing->manifest, ret_error))
			return false;
		hashing->seen = calloc(fsdp_manifest_count(hashing->manifest) + 1,
			sizeof *hashing->seen);
		if (hashing->seen == NULL)
			return false;
	}
	if (hashing->kind != HASH_STORED &&
		!reading_choose(hashing->run, hashing->selection, &hashing->name,
			&hashing->tensors, &hashing->tensor_count))
		return false;
	hashing->selects = !selection_is_all(hashing->selection);
	if (!name_part(hashing))
		return false;
	hashing->row_count = hashing->tensor_count;
	if (hashing->kind == HASH_NAMES)
		return true;
	if (!read_bytes(hashing, ret_error))
		return false;
	hashing->row_count = fsdp_digest_count(hashing->digests);
	tell_errors(hashing);
	return true;
}

static void judge(struct hashing *hashing)
{
	const struct hash_check *check = &hashing->check;

	bool is_empty =
		hashing->selects && hashing->tensor_count == 0 && hashing->row_count == 0;

	if (is_empty && hashing->joined == NULL)
		print_no_match(hashing->run, NAMEABLE_TENSORS);
	if (is_empty && hashing->partial.parts == 0) {
		hashing->status = status_worse(hashing->status, STATUS_BAD);
		hashing->digest.data = NULL; /* of nothing */
	}
	if (check->mismatched_count > 0 || check->missing_count > 0)
		hashing->status = status_worse(hashing->status, STATUS_BAD);
	if (hashing->manifest != NULL &&
		fsdp_manifest_wrong_line(hashing->manifest) != 0) {
		run_failure(hashing->run, "damaged", NULL,
			"%s: line %" PRIu64 " is not a line of sha256sum",
			hashing->options->check,
			fsdp_manifest_wrong_line(hashing->manifest));
		hashing->status = status_worse(hashing->status, STATUS_PARTIAL);
	}
	if (hashing->selection != NULL)
		hashing->status = answer_selection_status(
			hashing->run, hashing->selection, hashing->status);
}

/* Of a part: JSON cannot hold a name that is not UTF-8, and merge digests names too. */
static bool is_writable(struct hashing *hashing)
{
	struct hash_row row;
	uint32_t character;

	for (size_t i = 0; hashing->partial.parts != 0 && i < hashing->row_count; i++) {
		hash_row(hashing, i, &row);
		for (size_t at = 0; at < row.name.size;) {
			at += character_decode(
				row.name.data + at, row.name.size - at, &character);
			if (character == CHARACTER_NONE)
				return false;
		}
	}
	return true;
}

static bool answer(struct hashing *hashing, struct fsdp_error **ret_error)
{
	if (!make_rows(hashing, ret_error) || !digest_all(hashing) ||
		(hashing->manifest != NULL && !hash_compare(hashing)))
		return false;
	if (!is_writable(hashing))
		return refuse(hashing->run, "run hash without --part",
			"a name is not UTF-8, and a part cannot write it");
	judge(hashing);
	run_begin(hashing->run, hashing->status);
	if (hashing->status != STATUS_FAILED)
		hash_show(hashing);
	return !hashing->name.failed;
}

/* What is wrong with the request; NULL: nothing. */
static const char *objection(const struct run *run)
{
	const struct hash_options *options = run->options;
	const struct select_options *select = run->select;

	if (options->stored + options->logical + options->names > 1)
		return "--stored, --logical and --names exclude each other";
	if (run->common->part_count != 0 && options->names)
		return "--part cannot be used with --names";
	if (options->names && options->check != NULL)
		return "--names makes one digest: --check needs --stored or --logical";
	if (!options->logical && !options->names &&
		(select->globs.count > 0 || select->regexes.count > 0 ||
			select->dtypes.count > 0 || select->roles.count > 0 ||
			select->ranks != NULL || select->min_bytes != UINT64_MAX ||
			select->max_bytes != UINT64_MAX))
		return "of whole files only --file selects; others need --logical or --names";
	return NULL;
}

static void hashing_done(struct hashing *hashing)
{
	fsdp_digests_free(hashing->digests);
	fsdp_manifest_free(hashing->manifest);
	hash_check_done(&hashing->check);
	free(hashing->listed);
	free(hashing->seen);
	owned_free(&hashing->owned);
	name_buffer_done(&hashing->name);
	selection_free(hashing->selection);
	free(hashing->tensors);
}

static bool run_hash(struct run *run, struct fsdp_error **ret_error)
{
	const struct hash_options *options = run->options;
	const char *what = objection(run);
	struct hashing hashing = { .run = run,
		.options = options,
		.kind = options->logical ? HASH_LOGICAL
			: options->names ? HASH_NAMES
					 : HASH_STORED };
	bool good;

	hashing.word =
		(const char *const[]){ "stored", "logical", "names" }[hashing.kind];
	if (what != NULL)
		return refuse(run, "fsdp-inspect help hash", "%s", what);
	if (!answer_selection(run, &hashing.selection))
		return true;
	good = answer(&hashing, ret_error);
	hashing_done(&hashing);
	return good;
}

static bool join(
	struct run *run, const struct joined_parts *joined, struct fsdp_error **ret_error)
{
	const struct part_facts *facts = &joined->results->facts;
	bool stored = strncmp(facts->request, "stored", 6) == 0;
	struct hashing hashing = { .run = run,
		.kind = stored ? HASH_STORED : HASH_LOGICAL,
		.word = stored ? "stored" : "logical",
		.selects = facts->selects,
		.joined = joined,
		.row_count = joined->count,
		.status = joined->status };
	bool good = digest_all(&hashing);

	(void)ret_error;
	if (hashing.digest.data == NULL)
		hashing.status = status_worse(hashing.status, STATUS_PARTIAL);
	if (good && strstr(facts->request, " check") != NULL)
		good = hash_join_check(&hashing);
	if (good) {
		judge(&hashing);
		run_begin(run, hashing.status);
		hash_show(&hashing);
	}
	hashing_done(&hashing);
	return good;
}

const struct command command_hash = {
	.name = "hash",
	.group = GROUP_BYTES,
	.summary = "print digests of files and tensors",
	.synopsis =
		"[--stored | --logical | --names] [--check=FILE] [--part=K/N|auto] [SELECTORS] CHECKPOINT",
	.examples = { "hash release/ > release/SHA256SUMS",
		"hash --logical --role=param step-1000/",
		"hash --logical --check=release.sums step-1000/" },
	.exit_1 =
		"with --check: a digest differs, or a listed item is missing; or a selector matched nothing",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_columns, NULL },
	.answer = &hash_record,
	.shapes = SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_ONE,
	.shows_plan = true, /* it shows no module */
	.options_size = sizeof(struct hash_options),
	.join = join,
	.run = run_hash,
};
