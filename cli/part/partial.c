/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes the results of parts known to each other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/digest.h>
#include <fsdp/version.h>

#include "part/hex.h"
#include "part/partial.h"
#include "part/places.h"
#include "run/answer.h"
#include "run/collected.h"

static void add_text(struct fsdp_digester *digester, const char *text)
{
	fsdp_digester_add(digester, text, strlen(text) + 1);
}

static void add_number(struct fsdp_digester *digester, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, number);
	add_text(digester, text);
}

/* Sizes, and when they were last written. */
static void add_files(struct fsdp_digester *digester,
	const struct fsdp_checkpoint *checkpoint, const char *path)
{
	const char *base = fsdp_checkpoint_base(checkpoint);
	struct stat status;
	char full[4096];

	for (size_t i = 0; i < fsdp_file_count(checkpoint); i++) {
		struct fsdp_file file = fsdp_file(checkpoint, i);
		fsdp_digester_add(digester, file.path.data, file.path.size);
		add_number(digester, file.size);
		snprintf(full, sizeof full, "%s/%.*s", base != NULL ? base : path,
			(int)file.path.size, (const char *)file.path.data);
		if (stat(full, &status) != 0 && stat(path, &status) != 0)
			continue;
		add_number(digester, (uint64_t)status.st_mtim.tv_sec);
		add_number(digester, (uint64_t)status.st_mtim.tv_nsec);
	}
}

static void end_digest(struct fsdp_digester *digester, char ret_digest[17])
{
	unsigned char digest[FSDP_DIGEST_BYTES];
	char hex[HEX_ROOM];

	fsdp_digester_end(digester, digest);
	snprintf(ret_digest, 17, "%.16s", hex_text(digest, hex).data);
}

bool partial_init(struct part_facts *partial, struct run *run, const char *request,
	const struct selection *selection, const uint32_t *tensors, size_t count)
{
	const struct common_options *common = run->common;
	struct fsdp_digester *digester;

	*partial = (struct part_facts){ .part = common->part_number,
		.parts = common->part_count };
	if (common->part_count == 0)
		return true;
	digester = fsdp_digester_new();
	if (digester == NULL)
		return false;
	if (common->part_from != NULL)
		run_note(run, "part %" PRIu32 " of %" PRIu32 ", as %s says",
			common->part_number, common->part_count, common->part_from);
	add_text(digester, fsdp_version());
	add_text(digester, run->command->name);
	add_text(digester, request);
	add_number(digester, common->raw);
	add_number(digester, common->part_count);
	add_text(digester, run->path);
	add_number(digester, run->path_count);
	if (run->checkpoint != NULL)
		add_files(digester, run->checkpoint, run->path);
	partial->selects = selection != NULL && !selection_is_all(selection);
	add_number(digester, !partial->selects);
	for (size_t i = 0; i < count; i++)
		add_number(digester, tensors[i]);
	for (size_t i = 0; i < run->select->files.count; i++)
		add_text(digester, run->select->files.items[i]);
	end_digest(digester, partial->of);
	snprintf(partial->request, sizeof partial->request, "%.*s",
		(int)strcspn(request, "\n"), request);
	partial->errors_before = run->collected->failure_count;
	return true;
}

bool partial_files(
	const struct fsdp_checkpoint *checkpoint, const char *path, char ret_digest[17])
{
	struct fsdp_digester *digester;

	snprintf(ret_digest, 17, "none");
	if (checkpoint == NULL)
		return true;
	digester = fsdp_digester_new();
	if (digester == NULL)
		return false;
	add_files(digester, checkpoint, path);
	end_digest(digester, ret_digest);
	return true;
}

static struct value get_of(struct subject of)
{
	return value_word(((const struct part_facts *)of.object)->of);
}

static struct value get_request(struct subject of)
{
	return value_word(((const struct part_facts *)of.object)->request);
}

static struct value get_files(struct subject of)
{
	const struct part_facts *partial = of.object;

	return partial->files[0] != '\0' ? value_word(partial->files) : value_absent();
}

#define PARTIAL struct part_facts
const struct record partial_record = OBJECT_RECORD(PARTIAL, "partial",
	"Of one part of a run (`--part`): what `merge` joins parts by. The rows have a field `number`, their place in the whole.",
	{ "part", COUNT_AT(PARTIAL, part), .always = true,
		ABOUT("Which part, from 1 on.") },
	{ "parts", COUNT_AT(PARTIAL, parts), .always = true, ABOUT("Number of parts.") },
	{ "of", GET(FIELD_WORD, get_of), .always = true,
		ABOUT("Digest of what parts of one run have in common: version, command, request, path, files with their sizes and times.") },
	{ "request", GET(FIELD_WORD, get_request), .always = true,
		ABOUT("What the rows are.") },
	{ "files", GET(FIELD_WORD, get_files),
		ABOUT("Digest of names, sizes and times of the files, if `merge` has to open the checkpoint again; `none` if it cannot be opened.") },
	{ "selects", BOOL_AT(PARTIAL, selects), .always = true,
		ABOUT("Whether selectors were given.") },
	{ "errors_before", COUNT_AT(PARTIAL, errors_before), .always = true,
		ABOUT("Number of errors that are not a row's; they come first.") });

const struct record partial_row_record = RECORD_OF(RECORD_OBJECT, struct partial_row,
	{ "number", ID_AT(struct partial_row, number), PART_ALONE,
		ABOUT("Of a part: place of the row in the whole.") },
	{ "code", TEXT_AT(struct partial_row, code), PART_ALONE,
		ABOUT("Of a part: code of the error, if it could not be read.") },
	{ "error", TEXT_AT(struct partial_row, error), PART_ALONE,
		ABOUT("Of a part: why it could not be read.") },
	{ "hint", TEXT_AT(struct partial_row, hint), PART_ALONE,
		ABOUT("Of a part: what to try next.") });

bool partial_row_init(struct partial_row *row, const struct run *run,
	const struct part_facts *partial, size_t number, const struct fsdp_error *error)
{
	char *message;

	*row = (struct partial_row){ .number = UINT32_MAX };
	if (partial->parts == 0)
		return true;
	row->number = (uint32_t)number;
	if (error == NULL)
		return true;
	message = place_error_text(run, error);
	if (message == NULL)
		return false;
	row->code = text_of(fsdp_error_code_name(fsdp_error_code(error)));
	row->error = collected_text(run->collected, message);
	row->hint = text_of(fsdp_error_hint(error));
	free(message);
	return row->error.data != NULL;
}

/* ---- rows of results ---- */

const char *joined_code(struct fsdp_document_value row)
{
	struct text told = text_of_span(joined_text(row, "code"));

	if (joined_text(row, "error").data == NULL)
		return NULL;
	for (int code = 0; code < FSDP_ERROR_CODE_COUNT; code++) {
		const char *name = fsdp_error_code_name((enum fsdp_error_code)code);
		if (text_is(told, text_of(name)))
			return name;
	}
	return NULL;
}

struct fsdp_span joined_text(struct fsdp_document_value row, const char *key)
{
	struct fsdp_document_value value = fsdp_document_get(row, key);

	return value.kind == FSDP_DOCUMENT_TEXT ? value.text : (struct fsdp_span){ 0 };
}

uint64_t joined_count(struct fsdp_document_value row, const char *key)
{
	struct fsdp_document_value value = fsdp_document_get(row, key);

	return value.kind == FSDP_DOCUMENT_INTEGER && value.integer >= 0
		       ? (uint64_t)value.integer
		       : 0;
}

uint32_t joined_shape(struct fsdp_document_value row, int64_t lengths[FSDP_DIMS_MAX])
{
	struct fsdp_document_value shape = fsdp_document_get(row, "shape");
	uint32_t dims = 0;

	for (; dims < shape.count && dims < FSDP_DIMS_MAX; dims++)
		lengths[dims] = fsdp_document_item(shape, dims).integer;
	return dims;
}

double joined_number(struct fsdp_document_value row, const char *key)
{
	struct fsdp_document_value value = fsdp_document_get(row, key);

	return value.kind == FSDP_DOCUMENT_REAL ? value.real : (double)value.integer;
}

/* ---- what stands beside ---- */

static struct text kept_text(
	struct collected *collected, struct fsdp_document_value from, const char *key)
{
	return collected_text(collected, (const char *)joined_text(from, key).data);
}

static const char *kept_word(
	struct collected *collected, struct fsdp_document_value from, const char *key)
{
	return kept_text(collected, from, key).data;
}

static uint64_t count_or_none(struct fsdp_document_value from, const char *key)
{
	return fsdp_document_get(from, key).kind == FSDP_DOCUMENT_INTEGER
		       ? joined_count(from, key)
		       : UINT64_MAX;
}

void joined_failure(struct collected *collected, struct fsdp_document_value from)
{
	const char *code = kept_word(collected, from, "code");
	struct failure *failure =
		code != NULL ? collected_failure(collected, code) : NULL;

	if (failure == NULL)
		return;
	failure->rule = kept_word(collected, from, "rule");
	failure->input = (uint32_t)count_or_none(from, "input");
	failure->path = kept_text(collected, from, "path");
	failure->member = kept_text(collected, from, "member");
	failure->offset = count_or_none(from, "offset");
	failure->limit = kept_word(collected, from, "limit");
	failure->kind = kept_word(collected, from, "kind");
	failure->message = kept_text(collected, from, "message");
	failure->hint = kept_text(collected, from, "hint");
}
