/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the header of a safetensors file.
 *
 *	u64            bytes of the header
 *	header         {"__metadata__": {text: text}, "<tensor>": {"dtype": text,
 *	               "shape": [u64 …], "data_offsets": [begin, end]}, …}, then blanks
 *	buffer         the elements, C order; begin and end count from here
 *
 * There is no magic, no hole, no overlap and nothing behind the last tensor. A file of a
 * distributed save says in its metadata where its tensors lie in the whole ones:
 *
 *	DCP_SHARDING_INFO  text of {"<tensor>": {"saved_offsets": [u64 …], ["fqn": text]}}
 *
 * Origin: safetensors/src/tensor.rs (safetensors 0.8);
 * torch/distributed/checkpoint/hf_storage.py (PyTorch 2.13).
 */
#include <stdlib.h>

#include "base/num.h"
#include "format/safetensors/safetensors-reading.h"

/* The reference reader refuses larger headers, and deeper ones. */
enum { REFERENCE_BYTES = 100000000, REFERENCE_DEPTH = 128 };

/* ---- tokens ---- */

/* ---- the whole ---- */

struct range {
	uint64_t begin, end;
	uint32_t tensor;
};

static int compare_ranges(const void *a, const void *b)
{
	const struct range *left = a, *right = b;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	if (left->end != right->end)
		return left->end < right->end ? -1 : 1;
	return left->tensor < right->tensor ? -1 : left->tensor > right->tensor;
}

static struct fsdp_span tensor_name(
	const struct fsdp_safetensors *header, uint32_t tensor)
{
	struct fsdp_model *model = header->reading->model;
	struct fsdp_span name = fsdp_model_name(
		model, fsdp_model_tensor(model, tensor)->name, header->reading->scratch);
	model->findings.lost |= name.data == NULL;
	return name;
}

/* The first hole or overlap; all holes count as bytes that no tensor owns. */
static void judge_sorted(
	struct fsdp_safetensors *header, const struct range *ranges, size_t count)
{
	uint64_t end = 8 + header->size;
	bool said = false;
	for (size_t i = 0; i < count; i++) {
		if (ranges[i].begin > end)
			header->reading->model->unaccounted += ranges[i].begin - end;
		if (ranges[i].begin != end && !said) {
			bool hole = ranges[i].begin > end;
			uint64_t bytes =
				hole ? ranges[i].begin - end : end - ranges[i].begin;
			said = true;
			fsdp_find(fsdp_safetensors_findings(header),
				FSDP_RULE_SAFETENSORS_OFFSETS,
				FSDP_PLACE(.file = header->file,
					.offset = fsdp_min(ranges[i].begin, end),
					.length = bytes,
					.tensor = tensor_name(header, ranges[i].tensor)),
				hole && bytes == 1
					? "%llu byte before the tensor belongs to none"
				: hole ? "%llu bytes before the tensor belong to none"
				: bytes == 1
					? "the tensor shares %llu byte with the one before"
					: "the tensor shares %llu bytes with the one before",
				FSDP_LLU(bytes));
		}
		if (ranges[i].end > end)
			end = ranges[i].end;
	}
	header->end = end - 8 - header->size;
}

/* Headers list tensors in the order of their bytes, or nearly: only then no sorting. */
static bool judge_order(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = header->reading->model;
	size_t count = model->tensors.count - header->first_tensor;
	if (!header->unordered || header->left_out)
		return true;
	if (!fsdp_safetensors_has_records(header))
		return false;
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, header->reading->scratch->budget);
	struct range *ranges = FSDP_TAKE(&arena, ranges, count + 1);
	for (size_t i = 0; ranges != NULL && i < count; i++) {
		uint32_t id = header->first_tensor + (uint32_t)i;
		const struct fsdp_piece_record *piece = fsdp_model_piece(
			model, fsdp_model_tensor(model, id)->first_piece);
		const struct fsdp_extent *extent =
			fsdp_model_extent(model, piece->extent);
		ranges[i] = (struct range){ extent->offset,
			extent->offset + extent->length, id };
	}
	if (ranges != NULL) {
		qsort(ranges, count, sizeof *ranges, compare_ranges);
		judge_sorted(header, ranges, count);
	}
	fsdp_arena_done(&arena);
	return ranges != NULL || fsdp_arena_fail(header->reading->scratch, ret_error);
}

static void judge_end(struct fsdp_safetensors *header)
{
	if (header->truncated || header->left_out || header->end >= header->buffer)
		return;
	uint64_t left = header->buffer - header->end;
	header->reading->model->unaccounted += left;
	fsdp_find(fsdp_safetensors_findings(header), FSDP_RULE_SAFETENSORS_OFFSETS,
		FSDP_PLACE(.file = header->file, .offset = 8 + header->size + header->end,
			.length = left),
		left == 1 ? "%llu byte follows the last tensor"
			  : "%llu bytes follow the last tensor",
		FSDP_LLU(left));
}

static bool read_members(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	if (!fsdp_safetensors_next(header, ret_error))
		return false;
	if (header->token.offset != 0)
		FSDP_SAFETENSORS_SAY(header, FSDP_RULE_SAFETENSORS_STYLE, 8,
			"the header begins with blanks");
	if (header->token.kind != FSDP_SCAN_OBJECT) {
		fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, header->token.offset,
			"the header is not a JSON object");
		return fsdp_safetensors_fail_json(ret_error);
	}
	for (;;) {
		bool alike;
		if (!fsdp_safetensors_read_alike(header, &alike, ret_error))
			return false;
		if (alike)
			continue;
		if (!fsdp_safetensors_next(header, ret_error))
			return false;
		if (header->token.kind == FSDP_SCAN_OBJECT_END)
			return fsdp_safetensors_next(header, ret_error);
		bool metadata =
			fsdp_json_text_is(&header->token, FSDP_SPAN("__metadata__"));
		if (!(metadata ? fsdp_safetensors_read_notes
			       : fsdp_safetensors_read_tensor)(header, ret_error))
			return false;
	}
}

static bool scan_header(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_source_rest rest = { header->source, 8, 8 + header->size };
	if (!fsdp_json_scan_init(
		    &header->scan, fsdp_source_refill, &rest, &header->limits, ret_error))
		return false;
	/* What is in the window does not stay there. */
	struct fsdp_names *names = &header->reading->model->names;
	struct fsdp_arena *copies = names->copies;
	names->copies = header->reading->model->arena;
	header->quick = fsdp_safetensors_quick_new();
	bool read = header->quick != NULL ? read_members(header, ret_error)
					  : fsdp_fail_memory(ret_error);
	fsdp_json_quick_free(header->quick);
	names->copies = copies;
	fsdp_json_scan_done(&header->scan);
	return read;
}

static bool take_size(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	unsigned char bytes[8];
	uint64_t limit = fsdp_limit(header->reading->limits, FSDP_LIMIT_HEADER_BYTES);
	if (!fsdp_source_read(&header->source, 0, bytes, 8, ret_error))
		return false;
	for (size_t i = 8; i-- > 0;)
		header->size = header->size << 8 | bytes[i];
	if (header->size > header->source.size - 8)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1050", 0,
			"the header should have %llu bytes, the file has %llu",
			FSDP_LLU(header->size), FSDP_LLU(header->source.size));
	if (header->size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_HEADER_BYTES, limit);
	header->buffer = header->source.size - 8 - header->size;
	if (header->size > REFERENCE_BYTES)
		fsdp_find(fsdp_safetensors_findings(header), FSDP_RULE_SAFETENSORS_HEADER,
			FSDP_PLACE(.file = header->file, .offset = 0, .length = 8,
				.severity = FSDP_WARNING + 1,
				.next = "save it as several files, of fewer tensors each"),
			"the header has %llu bytes; the reference reader refuses more than %d",
			FSDP_LLU(header->size), REFERENCE_BYTES);
	return true;
}

static void set_limits(struct fsdp_safetensors *header)
{
	header->limits = *header->reading->limits;
	if (fsdp_limit(&header->limits, FSDP_LIMIT_JSON_DEPTH) > REFERENCE_DEPTH)
		(void)fsdp_limits_set(&header->limits, "json-depth", REFERENCE_DEPTH);
}

static bool read_all(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	fsdp_safetensors_know_dtypes(header);
	set_limits(header);
	fsdp_bits_init(&header->seen, header->reading->scratch);
	memset(header->shapes, 0xff, sizeof header->shapes); /* no place: FSDP_NONE */
	header->first_tensor = (uint32_t)header->reading->model->tensors.count;
	header->first_value = header->reading->model->values.count;
	if (!take_size(header, ret_error) || !scan_header(header, ret_error) ||
		!judge_order(header, ret_error))
		return false;
	judge_end(header);
	return fsdp_safetensors_read_shards(header, ret_error);
}

/* Before zips and pickles: the length may look like either. */
static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	uint64_t size = 0;
	if (look->folder != NULL || look->head.size < 10)
		return FSDP_SIGN_NONE;
	for (size_t i = 8; i-- > 0;)
		size = size << 8 | look->head.data[i];
	if (size < 2 || size > look->source.size - 8)
		return FSDP_SIGN_NONE;
	for (size_t i = 8; i < look->head.size && i < 8 + size; i++)
		if (memchr(" \t\n\r", look->head.data[i], 4) == NULL)
			return look->head.data[i] == '{' ? FSDP_SIGN_SURE
							 : FSDP_SIGN_NONE;
	return FSDP_SIGN_NONE;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_safetensors *header = FSDP_TAKE(reading->scratch, header, 1);
	if (header == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	header->reading = reading;
	header->source = look->source;
	header->file = look->path;
	header->file_id = fsdp_build_file(
		reading->model, look->path, look->source.size, reading->rank, ret_error);
	reading->model->format = (struct fsdp_format){
		.family = fsdp_family_safetensors.name,
		.title = fsdp_family_safetensors.title,
	};
	return header->file_id != FSDP_NONE &&
	       (!reading->may_count || fsdp_model_counting(reading->model, ret_error)) &&
	       read_all(header, ret_error);
}

static const char *const rankless[] = { "safetensors", NULL };

const struct fsdp_family fsdp_family_safetensors = {
	.name = "safetensors",
	.title = "safetensors file",
	.recognise = recognise,
	.read = read,
	.suffix = ".safetensors",
	.rankless = rankless,
};
