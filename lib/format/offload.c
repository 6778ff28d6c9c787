/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders to which Accelerate moves weights that do not fit into memory: a file of raw
 * elements for each tensor.
 *
 *	index.json  {"<tensor>": {"dtype": "float32", "shape": [2, 3]}, …}
 *	<tensor>.dat  its elements in C order; those of bfloat16 as integers of 16 bits,
 *	              and of no dimension one element
 *
 * An entry may name a safetensors file instead ("safetensors_file"), which lies elsewhere
 * and is not opened.
 *
 * Origin: accelerate/utils/offload.py (1.15).
 */
#include "base/num.h"
#include "base/table.h"
#include "format/format.h"
#include "model/dtype.h"
#include "syntax/json-scan.h"

#define INDEX "index.json"

struct offload {
	struct fsdp_reading *reading;
	const struct fsdp_folder *folder;
	struct fsdp_source_rest rest;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	struct fsdp_table seen; /* by name */
	size_t elsewhere;       /* entries of other files */
	/* Of the entry that is read: */
	struct fsdp_span name;
	uint32_t dtype;
	int64_t shape[FSDP_DIMS_MAX];
	size_t dims;
	bool has_dtype, has_shape, is_elsewhere, is_bad;
};

static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	if (look->folder == NULL ||
		!fsdp_folder_has(look->folder, INDEX, FSDP_ENTRY_FILE))
		return FSDP_SIGN_NONE;
	for (size_t i = 0; i < look->folder->count; i++)
		if (fsdp_span_ends(
			    fsdp_folder_entry(look->folder, i).name, FSDP_SPAN(".dat")))
			return FSDP_SIGN_SURE;
	return FSDP_SIGN_NONE;
}

/* ---- the index ---- */

static bool next(struct offload *offload, struct fsdp_error **ret_error)
{
	return fsdp_json_scan_next(&offload->scan, &offload->token, ret_error);
}

static bool skip(struct offload *offload, struct fsdp_error **ret_error)
{
	return fsdp_json_scan_skip(&offload->scan, &offload->token, ret_error);
}

static bool read_shape(struct offload *offload, struct fsdp_error **ret_error)
{
	if (!next(offload, ret_error))
		return false;
	if (offload->token.kind != FSDP_SCAN_ARRAY) {
		offload->is_bad = true;
		return skip(offload, ret_error);
	}
	offload->has_shape = true;
	for (;;) {
		int64_t size;
		if (!next(offload, ret_error))
			return false;
		if (offload->token.kind == FSDP_SCAN_ARRAY_END)
			return true;
		if (offload->token.kind != FSDP_SCAN_NUMBER ||
			!fsdp_decimal_integer(offload->token.span, &size) || size < 0 ||
			offload->dims == FSDP_DIMS_MAX) {
			offload->is_bad = true;
			if (!skip(offload, ret_error))
				return false;
			continue;
		}
		offload->shape[offload->dims++] = size;
	}
}

static bool read_dtype(struct offload *offload, struct fsdp_error **ret_error)
{
	struct fsdp_span text;
	if (!next(offload, ret_error))
		return false;
	if (offload->token.kind != FSDP_SCAN_TEXT) {
		offload->is_bad = true;
		return skip(offload, ret_error);
	}
	text = fsdp_json_text_copy(&offload->token, offload->reading->scratch);
	if (text.data == NULL)
		return fsdp_arena_fail(offload->reading->scratch, ret_error);
	offload->dtype = fsdp_dtype_find(text);
	offload->has_dtype = offload->dtype != FSDP_DTYPE_UNKNOWN;
	return true;
}

/* {"dtype": …, "shape": […]} */
static bool read_entry(struct offload *offload, struct fsdp_error **ret_error)
{
	if (!next(offload, ret_error))
		return false;
	if (offload->token.kind != FSDP_SCAN_OBJECT) {
		offload->is_bad = true;
		return skip(offload, ret_error);
	}
	for (;;) {
		if (!next(offload, ret_error))
			return false;
		if (offload->token.kind == FSDP_SCAN_OBJECT_END)
			return true;
		bool dtype = fsdp_json_text_is(&offload->token, FSDP_SPAN("dtype"));
		bool shape = fsdp_json_text_is(&offload->token, FSDP_SPAN("shape"));
		offload->is_elsewhere |=
			fsdp_json_text_is(&offload->token, FSDP_SPAN("safetensors_file"));
		if (!(dtype ? read_dtype : shape ? read_shape : skip)(offload, ret_error))
			return false;
	}
}

/* ---- tensors ---- */

static void say(struct offload *offload, enum fsdp_rule_index rule, struct fsdp_span file,
	const char *what)
{
	fsdp_find(&offload->reading->model->findings, rule,
		FSDP_PLACE(.file = file, .tensor = offload->name), "%s", what);
}

/* Bytes of the whole; false: no shape of a tensor. */
static bool count_bytes(const struct offload *offload, uint64_t *ret_bytes)
{
	uint64_t numel = 1;
	for (size_t i = 0; i < offload->dims; i++)
		if (!fsdp_mul(numel, (uint64_t)offload->shape[i], &numel))
			return false;
	return numel <= INT64_MAX && fsdp_dtype_bytes(offload->dtype, numel, ret_bytes);
}

/* The file of a tensor in the folder; *ret_entry.size is UNKNOWN if it is not there. */
static bool find_file(struct offload *offload, struct fsdp_span *ret_name,
	struct fsdp_entry *ret_entry, struct fsdp_error **ret_error)
{
	static const char suffix[] = ".dat";
	size_t size = offload->name.size + sizeof suffix;
	char *text = fsdp_arena_take(offload->reading->model->arena, size, 1);
	if (text == NULL)
		return fsdp_arena_fail(offload->reading->model->arena, ret_error);
	memcpy(text, offload->name.data, offload->name.size);
	memcpy(text + offload->name.size, suffix, sizeof suffix);
	*ret_name = fsdp_span(text, size - 1);
	if (!fsdp_folder_find(offload->folder, *ret_name, ret_entry) ||
		ret_entry->kind != FSDP_ENTRY_FILE)
		ret_entry->size = FSDP_UNKNOWN;
	return true;
}

static void judge_size(
	struct offload *offload, struct fsdp_span file, uint64_t size, uint64_t bytes)
{
	if (size == FSDP_UNKNOWN)
		say(offload, FSDP_RULE_MISSING_FILE, file,
			"the index has this tensor, whose file is not there");
	else if (size < bytes)
		say(offload, FSDP_RULE_TRUNCATED_FILE, file,
			"the file is shorter than its shape and type need");
	else if (size > bytes)
		say(offload, FSDP_RULE_METADATA_INCONSISTENT, file,
			"the file is longer than its shape and type need");
}

static bool add_tensor(struct offload *offload, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = offload->reading->model;
	struct fsdp_entry entry;
	struct fsdp_span file;
	uint64_t bytes;
	if (offload->is_elsewhere) {
		offload->elsewhere++;
		return true;
	}
	if (offload->is_bad || !offload->has_shape || !offload->has_dtype ||
		!count_bytes(offload, &bytes)) {
		say(offload, FSDP_RULE_METADATA_INCONSISTENT, FSDP_SPAN(INDEX),
			"the entry has no shape and type of a tensor");
		return true;
	}
	uint32_t name, raw_name;
	if (!fsdp_build_names(
		    model, 0, offload->name, false, &name, &raw_name, ret_error))
		return false;
	if (fsdp_table_get(&offload->seen, raw_name) != FSDP_NONE) {
		say(offload, FSDP_RULE_METADATA_INCONSISTENT, FSDP_SPAN(INDEX),
			"the tensor comes twice; the first entry was read, Python takes the last");
		return true;
	}
	if (!fsdp_table_set(&offload->seen, raw_name, 0))
		return fsdp_arena_fail(offload->reading->scratch, ret_error);
	if (!find_file(offload, &file, &entry, ret_error))
		return false;
	struct fsdp_plain_tensor plain = {
		.name = name,
		.raw_name = raw_name,
		.extra = FSDP_NONE,
		.shape = fsdp_build_ints(model, offload->shape, offload->dims, ret_error),
		.flags = FSDP_TENSOR_ROLE_INFERRED,
		.dims = (uint8_t)offload->dims,
		.dtype = (uint8_t)offload->dtype,
		.role = FSDP_ROLE_PARAM,
		.rank = FSDP_NONE,
		.file = fsdp_build_file(model, file, entry.size, FSDP_NONE, ret_error),
		.length = bytes,
		.size = bytes,
		.missing = entry.size == FSDP_UNKNOWN || entry.size < bytes,
	};
	if (plain.shape == FSDP_NONE || plain.file == FSDP_NONE)
		return false;
	judge_size(offload, file, entry.size, bytes);
	return fsdp_build_plain(model, &plain, ret_error) != FSDP_NONE;
}

static bool read_members(struct offload *offload, struct fsdp_error **ret_error)
{
	if (!next(offload, ret_error))
		return false;
	if (offload->token.kind != FSDP_SCAN_OBJECT)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, offload->token.offset,
			"the index is not a JSON object");
	for (;;) {
		if (!next(offload, ret_error))
			return false;
		if (offload->token.kind == FSDP_SCAN_OBJECT_END)
			return next(offload, ret_error);
		offload->name = fsdp_json_text_copy(
			&offload->token, offload->reading->model->arena);
		offload->dims = 0;
		offload->has_dtype = offload->has_shape = false;
		offload->is_elsewhere = offload->is_bad = false;
		if (offload->name.data == NULL)
			return fsdp_arena_fail(offload->reading->model->arena, ret_error);
		if (!read_entry(offload, ret_error) || !add_tensor(offload, ret_error))
			return false;
	}
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct offload *offload = FSDP_TAKE(reading->scratch, offload, 1);
	uint64_t limit = fsdp_limit(reading->limits, FSDP_LIMIT_JSON_BYTES);
	if (offload == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	offload->reading = reading;
	offload->folder = look->folder;
	fsdp_table_init(&offload->seen, reading->scratch);
	if (!fsdp_folder_source(
		    look->folder, FSDP_SPAN(INDEX), &offload->rest.source, ret_error))
		return false;
	offload->rest.end = offload->rest.source.size;
	if (offload->rest.end > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_JSON_BYTES, limit);
	if (fsdp_build_file(reading->model, FSDP_SPAN(INDEX), offload->rest.end,
		    FSDP_NONE, ret_error) == FSDP_NONE ||
		!fsdp_json_scan_init(&offload->scan, fsdp_source_refill, &offload->rest,
			reading->limits, ret_error))
		return false;
	bool done = read_members(offload, ret_error);
	fsdp_json_scan_done(&offload->scan);
	if (!done)
		return fsdp_error_add_path(ret_error, INDEX);
	if (offload->elsewhere != 0)
		fsdp_reading_note(reading,
			offload->elsewhere == 1
				? "%zu tensor of the index lies in a safetensors file elsewhere, which was not opened"
				: "%zu tensors of the index lie in safetensors files elsewhere, which were not opened",
			offload->elsewhere);
	reading->model->format = (struct fsdp_format){
		.family = "accelerate-offload",
		.title = "offload folder of Accelerate",
		.writer = "accelerate",
	};
	return true;
}

static const char *const rankless[] = { "accelerate-offload", NULL };

const struct fsdp_family fsdp_family_offload = {
	.name = "accelerate-offload",
	.title = "offload folder of Accelerate",
	.recognise = recognise,
	.read = read,
	.rankless = rankless,
};
