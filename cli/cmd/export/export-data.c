/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `export` says to machines: what was written where, and what was not.
 */
#include <string.h>

#include "cmd/export/export.h"
#include "part/value-text.h"
#include "session/session.h"

struct tensor {
	struct fsdp_export_tensor facts;
	struct fsdp_tensor source;
	struct text name, file, sha256;
	char digits[HEX_ROOM];
};

/* The caller's own name where there is one file. */
static struct text file_name(const struct exporting *exporting, uint32_t file)
{
	if (exporting->file != NULL || exporting->to_stdout)
		return text_of(exporting->file);
	return text_of_span(fsdp_export_file(exporting->plan, file).name);
}

static const void *each_tensor(struct subject of, size_t i, void *room)
{
	const struct exporting *exporting = of.context;
	struct tensor *tensor = room;

	if (i >= exporting->tensor_count)
		return NULL;
	tensor->facts = fsdp_export_tensor(exporting->plan, i);
	tensor->source = fsdp_tensor(exporting->run->checkpoint, tensor->facts.source);
	tensor->name = text_of_span(tensor->facts.name);
	tensor->file = file_name(exporting, tensor->facts.file);
	tensor->sha256 = hex_text(tensor->facts.sha256, tensor->digits);
	return tensor;
}

static struct value get_source(struct subject of)
{
	struct exporting *exporting = of.context;
	const struct tensor *tensor = of.object;

	return value_name(tensor_shown_name(
		exporting->run, &exporting->buffers.name, &tensor->source));
}

#define TENSOR struct tensor
static const struct record tensor_written_record =
	OBJECT_RECORD(TENSOR, "exported_tensor", "A tensor that was written.",
		{ "name", NAME_AT(TENSOR, name), .always = true,
			ABOUT("Name under which it was written.") },
		{ "source", GET(FIELD_NAME, get_source), .always = true,
			ABOUT("Name in the checkpoint.") },
		{ "dtype", ENUM_AT(TENSOR, facts.dtype, dtype_name), .always = true,
			ABOUT("Dtype as written.") },
		{ "shape", SHAPE_AT(TENSOR, facts.shape, facts.dims), .always = true,
			ABOUT("Shape.") },
		{ "bytes", BYTES_AT(TENSOR, facts.bytes), .always = true,
			ABOUT("Bytes as written.") },
		{ "file", NAME_AT(TENSOR, file),
			ABOUT("File that holds it, relative to the directory.") },
		{ "offset", COUNT_AT(TENSOR, facts.offset), .always = true,
			ABOUT("Byte in that file where it begins.") },
		{ "sha256", TEXT_AT(TENSOR, sha256),
			ABOUT("SHA-256 of its bytes, as they were read back.") });

/* Absent where a tensor has none. False: out of memory. */
bool digest_exported(struct exporting *exporting)
{
	struct fsdp_digester *digester = fsdp_digester_new();
	const struct subject of = { exporting, exporting };
	struct tensor tensor;
	bool all = true;

	if (digester == NULL)
		return false;
	for (size_t i = 0; each_tensor(of, i, &tensor) != NULL; i++) {
		all &= tensor.sha256.data != NULL;
		digest_list_add(digester, &(struct digest_line){
						  .digits = tensor.sha256,
						  .dtype = dtype_name(tensor.facts.dtype),
						  .shape = tensor.facts.shape,
						  .dims = tensor.facts.dims,
						  .name = tensor.name,
					  });
	}
	fsdp_digester_end(digester, exporting->sha256);
	if (all)
		exporting->digest = hex_text(exporting->sha256, exporting->digits);
	return true;
}

struct file {
	struct text path, sha256;
	uint64_t bytes;
	char digits[HEX_ROOM];
};

static const void *each_file(struct subject of, size_t i, void *room)
{
	const struct exporting *exporting = of.context;
	struct fsdp_export_file facts;
	struct file *file = room;

	if (i >= exporting->file_count)
		return NULL;
	facts = fsdp_export_file(exporting->plan, i);
	file->path = file_name(exporting, (uint32_t)i);
	file->bytes = facts.bytes;
	file->sha256 = hex_text(facts.sha256, file->digits);
	return file;
}

#define FILE_ROW struct file
static const struct record file_record = OBJECT_RECORD(FILE_ROW, "exported_file",
	"A file that was written.",
	{ "path", NAME_AT(FILE_ROW, path), ABOUT("Its name relative to the directory.") },
	{ "bytes", BYTES_AT(FILE_ROW, bytes), .always = true, ABOUT("Its size.") },
	{ "sha256", TEXT_AT(FILE_ROW, sha256),
		ABOUT("SHA-256 of the file, as it was read back.") });

/* ---- skipped tensors ---- */

struct left {
	uint32_t source, value; /* one of them */
	const char *why;
	struct text same_as;
	uint64_t bytes;
};

static const void *each_left(struct subject of, size_t i, void *room)
{
	const struct exporting *exporting = of.context;
	struct fsdp_export_left facts;
	struct left *left = room;

	if (i >= exporting->left_count)
		return NULL;
	facts = fsdp_export_left(exporting->plan, i);
	left->source = facts.source;
	left->value = facts.value;
	left->why = fsdp_export_why_name(facts.why);
	left->bytes = UINT64_MAX;
	if (left->source != FSDP_NONE)
		left->bytes = fsdp_tensor(exporting->run->checkpoint, left->source).bytes;
	left->same_as = (struct text){ NULL, 0 };
	if (facts.same_as != SIZE_MAX)
		left->same_as = text_of_span(
			fsdp_export_tensor(exporting->plan, facts.same_as).name);
	return left;
}

static struct value get_left_name(struct subject of)
{
	struct exporting *exporting = of.context;
	struct run *run = exporting->run;
	const struct left *left = of.object;
	struct fsdp_tensor tensor;
	struct fsdp_value value;

	if (left->source == FSDP_NONE) {
		value = fsdp_value(run->checkpoint, left->value);
		return value_name(
			entry_shown_name(run, &exporting->buffers.name, &value));
	}
	tensor = fsdp_tensor(run->checkpoint, left->source);
	return value_name(tensor_shown_name(run, &exporting->buffers.name, &tensor));
}

#define LEFT struct left
static const struct record left_record = OBJECT_RECORD(LEFT, "left_out",
	"A tensor that was not written, or a value that holds some without a name.",
	{ "name", GET(FIELD_NAME, get_left_name), .always = true,
		ABOUT("Name in the checkpoint.") },
	{ "why", WORD_AT(LEFT, why), .always = true,
		WORDS("role", "selected", "tied", "unsupported", "incomplete",
			"unmapped"),
		ABOUT("Why it was skipped.") },
	{ "same_as", NAME_AT(LEFT, same_as),
		ABOUT("Of a tied one: name of what was written instead.") },
	{ "bytes", BYTES_AT(LEFT, bytes),
		ABOUT("Bytes of the tensor; absent of a value.") });

#define EXPORTING struct exporting
const struct record export_record = OBJECT_RECORD(EXPORTING, NULL, "What was written.",
	{ "written", BOOL_AT(EXPORTING, written), .always = true,
		ABOUT("Whether anything was; an incomplete checkpoint is not exported.") },
	{ "tensors",
		EACH_ITEM(EXPORTING, tensor_count, each_tensor, tensor_written_record),
		.always = true,
		ABOUT("Tensors that were written, in the order of the model.") },
	{ "files", EACH_OF(EXPORTING, file_count, each_file, file_record), .always = true,
		ABOUT("Files that were written; an index is the last one.") },
	{ "left_out", EACH_OF(EXPORTING, left_count, each_left, left_record),
		.always = true, ABOUT("Tensors that were not written.") },
	{ "bytes", BYTES_AT(EXPORTING, facts.tensor_bytes), .always = true,
		ABOUT("Bytes of all tensors that were written.") },
	{ "stripped", TEXT_AT(EXPORTING, facts.stripped),
		ABOUT("Segments that were removed from the front of names.") },
	{ "overflowed", COUNT_AT(EXPORTING, facts.overflowed), .always = true,
		ABOUT("Finite numbers that a cast made infinite.") },
	{ "copied", COUNT_AT(EXPORTING, copied), .always = true,
		ABOUT("Tensors that several ranks store: the first copy was written, and copies were not compared. `audit --data` compares them.") },
	{ "verified", BOOL_AT(EXPORTING, facts.verified), .always = true,
		ABOUT("Whether every byte was read back and compared with what was read from the checkpoint.") },
	{ "digest", TEXT_AT(EXPORTING, digest),
		ABOUT("SHA-256 of the list of `tensors`, one line per tensor (`SHA256 DTYPE SHAPE NAME`): equals `hash --logical` of the output, if its names were not changed. Absent with `--no-verify`, and on standard output.") });
