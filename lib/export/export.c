/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what an export writes: which tensors of a checkpoint and as which dtype, their
 * names, and their files.
 *
 * Origin: split_state_dict_into_shards_factory of huggingface_hub 2.4, prepare of
 * safetensors 0.8.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/characters.h"
#include "base/arena.h"
#include "base/sort.h"
#include "export/exporting.h"
#include "naming/naming.h"

/*
 * The bytes before tensors: headers of safetensors, byte for byte as the reference
 * writer makes them; NumPy's; and the index of a directory of shards, as Python's json.
 */

/* ---- dtypes ---- */

/* What safetensors calls a dtype, and how it sorts; NULL: nothing. In the order of the
 * reference writer, which puts the last ones first in a file. What NumPy lacks is written
 * as unsigned integers of its width. */
static const struct dtype {
	const char *torch;
	const char *name; /* in safetensors */
	const char *npy;  /* in NumPy's format; NULL: none */
} dtypes[] = {
	{ "complex128", NULL, "<c16" },
	{ "bool", "BOOL", "|b1" },
	{ "float4_e2m1fn_x2", "F4", "|u1" },
	{ "uint8", "U8", "|u1" },
	{ "int8", "I8", "|i1" },
	{ "float8_e5m2", "F8_E5M2", "|u1" },
	{ "float8_e4m3fn", "F8_E4M3", "|u1" },
	{ "float8_e8m0fnu", "F8_E8M0", "|u1" },
	{ "float8_e4m3fnuz", "F8_E4M3FNUZ", "|u1" },
	{ "float8_e5m2fnuz", "F8_E5M2FNUZ", "|u1" },
	{ "int16", "I16", "<i2" },
	{ "uint16", "U16", "<u2" },
	{ "float16", "F16", "<f2" },
	{ "bfloat16", "BF16", "<u2" },
	{ "int32", "I32", "<i4" },
	{ "uint32", "U32", "<u4" },
	{ "float32", "F32", "<f4" },
	{ "complex64", "C64", "<c8" },
	{ "float64", "F64", "<f8" },
	{ "int64", "I64", "<i8" },
	{ "uint64", "U64", "<u8" },
};

static const struct dtype *find_dtype(uint32_t dtype, unsigned *ret_order)
{
	const char *name = fsdp_dtype(dtype)->name;
	for (unsigned i = 0; i < FSDP_COUNT(dtypes); i++)
		if (strcmp(dtypes[i].torch, name) == 0) {
			if (ret_order != NULL)
				*ret_order = i;
			return &dtypes[i];
		}
	return NULL;
}

/* ---- texts ---- */

void fsdp_export_put(struct fsdp_export_text *text, const void *bytes, size_t size)
{
	if (text->failed)
		return;
	if (size > text->room - text->size) {
		size_t room = 2 * (text->size + size) + 256;
		unsigned char *grown = realloc(text->bytes, room);
		if (grown == NULL) {
			text->failed = true;
			return;
		}
		text->bytes = grown;
		text->room = room;
	}
	memcpy(text->bytes + text->size, bytes, size);
	text->size += size;
}

void fsdp_export_put_text(struct fsdp_export_text *text, const char *format, ...)
{
	char buffer[128];
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(buffer, sizeof buffer, format, arguments);
	va_end(arguments);
	fsdp_export_put(text, buffer, (size_t)size);
}

void fsdp_export_put_json(
	struct fsdp_export_text *text, struct fsdp_span string, bool ascii)
{
	const unsigned char *at = string.data, *end = string.data + string.size;
	fsdp_export_put(text, "\"", 1);
	while (at < end) {
		const unsigned char *begin = at;
		/* The code point at `at` of valid UTF-8. */
		const unsigned char *byte = at;
		unsigned more = byte[0] < 0x80   ? 0
				: byte[0] < 0xe0 ? 1
				: byte[0] < 0xf0 ? 2
						 : 3;
		uint32_t point = more == 0 ? byte[0] : byte[0] & (0x3fu >> more);
		for (unsigned i = 1; i <= more; i++)
			point = point << 6 | (byte[i] & 0x3f);
		at = byte + more + 1;
		if (point < 0x20 || point == '"' || point == '\\' ||
			(ascii && point > 0x7f)) {
			static const char short_ones[] = "\bb\tt\nn\ff\rr\"\"\\\\";
			const char *found = short_ones;
			while (*found != '\0' && (unsigned char)*found != point)
				found += 2;
			if (*found != '\0')
				fsdp_export_put_text(text, "\\%c", found[1]);
			else if (point < 0x10000)
				fsdp_export_put_text(text, "\\u%04x", point);
			else
				fsdp_export_put_text(text, "\\u%04x\\u%04x",
					0xd7c0 + (point >> 10), 0xdc00 | (point & 0x3ff));
		} else
			fsdp_export_put(text, begin, (size_t)(at - begin));
	}
	fsdp_export_put(text, "\"", 1);
}

/* ---- safetensors ---- */

/* Of what torch counts as bytes of two elements the reference writer counts elements. */
static void write_shape(struct fsdp_export_text *text,
	const struct fsdp_export_item *item, const char *comma, bool doubled)
{
	for (uint32_t i = 0; i < item->dims; i++) {
		bool doubles = doubled && i + 1 == item->dims;
		fsdp_export_put_text(text, "%s%llu", i > 0 ? comma : "",
			FSDP_LLU((uint64_t)item->shape[i] << doubles));
	}
}

static void write_header(const struct fsdp_export *plan,
	const struct fsdp_export_out *file, struct fsdp_export_text *text)
{
	uint64_t begin = 0;
	fsdp_export_put_text(text, "{\"__metadata__\":{\"format\":\"pt\"");
	/* In a directory of shards the index contains them. */
	for (size_t i = 0; i < plan->tie_count && !plan->has_index; i++) {
		const struct fsdp_export_tie *tie = &plan->ties[i];
		fsdp_export_put(text, ",", 1);
		fsdp_export_put_json(text, tie->name, false);
		fsdp_export_put(text, ":", 1);
		fsdp_export_put_json(text, plan->items[tie->item].name, false);
	}
	fsdp_export_put(text, "}", 1);
	FSDP_EACH(i, file->count, item, &plan->items[plan->order[file->first + i]]) {
		fsdp_export_put(text, ",", 1);
		fsdp_export_put_json(text, item->name, false);
		fsdp_export_put_text(text, ":{\"dtype\":\"%s\",\"shape\":[",
			find_dtype(item->dtype, NULL)->name);
		write_shape(text, item, ",",
			strcmp(fsdp_dtype(item->dtype)->name, "float4_e2m1fn_x2") == 0);
		fsdp_export_put_text(text, "],\"data_offsets\":[%llu,%llu]}",
			FSDP_LLU(begin), FSDP_LLU(begin + item->bytes));
		begin += item->bytes;
	}
	fsdp_export_put(text, "}", 1);
	while (!text->failed && text->size % 8 != 0)
		fsdp_export_put(text, " ", 1);
}

/* ---- the index ---- */

static int compare_names(const void *left, const void *right, void *context)
{
	const struct fsdp_export_item *items = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	int order = fsdp_span_compare(items[a].name, items[b].name);
	return order != 0 ? order : a < b ? -1 : a > b;
}

static void write_index(const struct fsdp_export *plan, struct fsdp_export_text *text)
{
	uint32_t *sorted = malloc(plan->item_count * sizeof *sorted);
	if (sorted == NULL) {
		text->failed = true;
		return;
	}
	memcpy(sorted, plan->order, plan->item_count * sizeof *sorted);
	qsort_r(sorted, plan->item_count, sizeof *sorted, compare_names, plan->items);
	fsdp_export_put_text(text, "{\n  \"metadata\": {\n");
	FSDP_EACH(i, plan->tie_count, tie, &plan->ties[i]) {
		fsdp_export_put_text(text, "    ");
		fsdp_export_put_json(text, tie->name, true);
		fsdp_export_put_text(text, ": ");
		fsdp_export_put_json(text, plan->items[tie->item].name, true);
		fsdp_export_put_text(text, ",\n");
	}
	fsdp_export_put_text(text,
		"    \"total_parameters\": %llu,\n    \"total_size\": %llu\n  },\n",
		FSDP_LLU(plan->facts.numel), FSDP_LLU(plan->facts.tensor_bytes));
	/* Bytewise order of UTF-8 is that of code points, which Python sorts by. */
	fsdp_export_put_text(text, "  \"weight_map\": {");
	FSDP_EACH(i, plan->item_count, item, &plan->items[sorted[i]]) {
		fsdp_export_put_text(text, "%s\n    ", i > 0 ? "," : "");
		fsdp_export_put_json(text, item->name, true);
		fsdp_export_put_text(text, ": ");
		fsdp_export_put_json(text, plan->files[item->file].name, true);
	}
	fsdp_export_put_text(text, "\n  }\n}\n");
	free(sorted);
}

/* ---- NumPy ---- */

/* ---- which one ---- */

bool fsdp_export_head(const struct fsdp_export *plan, size_t index,
	struct fsdp_export_text *text, struct fsdp_error **ret_error)
{
	const struct fsdp_export_out *file = &plan->files[index];
	if (plan->has_index && index + 1 == plan->file_count)
		write_index(plan, text);
	else if (plan->form == FSDP_EXPORT_NPY) {
		/* The text ends where a multiple of 64 bytes does. */
		const struct fsdp_export_item *item = &plan->items[0];
		fsdp_export_put(text, "\x93NUMPY\x01\x00\x00\x00", 10);
		fsdp_export_put_text(text,
			"{'descr': '%s', 'fortran_order': False, 'shape': (",
			find_dtype(item->dtype, NULL)->npy);
		write_shape(text, item, ", ", false);
		fsdp_export_put_text(text, "%s), }", item->dims == 1 ? "," : "");
		while (!text->failed && text->size % 64 != 63)
			fsdp_export_put(text, " ", 1);
		fsdp_export_put(text, "\n", 1);
		if (!text->failed) {
			text->bytes[8] = (unsigned char)(text->size - 10);
			text->bytes[9] = (unsigned char)((text->size - 10) >> 8);
		}
	} else if (plan->form != FSDP_EXPORT_RAW) {
		/* The length of the header precedes it. */
		unsigned char length[8] = { 0 };
		fsdp_export_put(text, length, sizeof length);
		write_header(plan, file, text);
		if (!text->failed) {
			uint64_t size = text->size - sizeof length;
			for (size_t i = 0; i < sizeof length; i++)
				text->bytes[i] = (unsigned char)(size >> 8 * i);
		}
	}
	return !text->failed || fsdp_fail_memory(ret_error);
}

/* ---- Which tensors, and as which dtype ---- */

/* Leaves what makes the plan, with plan->error. */
static void must(struct fsdp_export *plan, bool good)
{
	if (!good)
		fsdp_arena_leave(&plan->arena);
}

enum { SIX_BITS = 6 };

/* Why the format cannot store a tensor; NULL: it can. */
static const char *obstacle(
	const struct fsdp_export *plan, const struct fsdp_tensor *tensor, uint32_t dtype)
{
	const struct dtype *row = find_dtype(dtype, NULL);
	const struct fsdp_dtype *facts = fsdp_dtype(dtype);
	if (tensor->layout != NULL)
		return "it is sparse";
	if (tensor->quantizer != FSDP_NONE)
		return "it is quantized by torch";
	if (tensor->component_count != 0)
		return "its library keeps it as several tensors";
	if ((tensor->flags & FSDP_TENSOR_NO_DATA) != 0)
		return "it has no bytes in any file";
	if ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0 && tensor->piece_count > 1)
		return "it is a FlatParameter with unknown parameters";
	if (facts->storage_bytes == 0 || facts->item_bits == SIX_BITS)
		return "its dtype has no other name";
	if (plan->form == FSDP_EXPORT_RAW)
		return NULL;
	if (plan->form == FSDP_EXPORT_NPY)
		return row != NULL && row->npy != NULL
			       ? NULL
			       : "NumPy's format has no such dtype";
	return row != NULL && row->name != NULL ? NULL : "safetensors has no such dtype";
}

static void choose_one(struct fsdp_export *plan,
	const struct fsdp_export_options *options, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(plan->checkpoint, index);
	enum fsdp_skip_reason why =
		(tensor.flags & FSDP_TENSOR_SPREAD) != 0 ? FSDP_EXPORT_ROLE
		: options->choose != NULL
			? options->choose(options->choose_context, index)
			: (tensor.role == FSDP_ROLE_PARAM ||
						  tensor.role == FSDP_ROLE_BUFFER
					  ? FSDP_EXPORT_TAKEN
					  : FSDP_EXPORT_ROLE);
	bool casts = options->cast != 0 && tensor.role == FSDP_ROLE_PARAM &&
		     fsdp_cast_is_supported(tensor.dtype, options->cast);
	uint32_t dtype = casts ? options->cast : tensor.dtype;
	const char *what =
		why == FSDP_EXPORT_TAKEN ? obstacle(plan, &tensor, dtype) : NULL;
	if (what != NULL && !options->skip_unsupported) {
		char name[256];
		size_t size =
			fsdp_name_write(plan->checkpoint, tensor.name, name, sizeof name);
		bool fits = size <= sizeof name;
		fsdp_fail(&plan->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"%.*s (%s) cannot be written: %s", fits ? (int)size : 15,
			fits ? name : "a long-named one", fsdp_dtype(tensor.dtype)->name,
			what);
		must(plan,
			fsdp_error_add_hint(&plan->error, "%s",
				(tensor.flags & FSDP_TENSOR_FLATTENED) != 0
					? "give the sharding plan (--plan), or omit it (--skip-unsupported)"
					: "--skip-unsupported skips such tensors"));
	}
	if (what != NULL)
		why = FSDP_EXPORT_UNSUPPORTED;
	plan->why[index] = (uint8_t)why;
	if (why != FSDP_EXPORT_TAKEN)
		return;
	/* Whether the bytes of what is written can be counted at all. */
	uint64_t bytes;
	if (!fsdp_mul(tensor.numel, fsdp_dtype(dtype)->storage_bytes, &bytes) ||
		bytes > INT64_MAX)
		must(plan, fsdp_fail(&plan->error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				   "size of a tensor overflows (%llu elements)",
				   FSDP_LLU(tensor.numel)));
	uint32_t width = fsdp_dtype(dtype)->storage_bytes;
	uint32_t width_read = fsdp_dtype(tensor.dtype)->storage_bytes;
	unsigned rank = 0;
	find_dtype(dtype, &rank);
	plan->casts = plan->casts || dtype != tensor.dtype;
	plan->items[plan->item_count++] = (struct fsdp_export_item){
		.tensor = index,
		.dtype = dtype,
		.rank = rank,
		.width_read = width_read,
		.width = width,
		.numel = tensor.numel,
		.shape = tensor.shape,
		.dims = tensor.dims,
		.bytes = tensor.numel * width,
		.packed = fsdp_tensor_is_packed(plan->checkpoint, index),
	};
}

/* ---- tensors without a name ---- */

static void choose_hidden(
	struct fsdp_export *plan, const struct fsdp_export_options *options)
{
	size_t count = fsdp_value_count(plan->checkpoint);
	plan->left_values = FSDP_TAKE(&plan->arena, plan->left_values, count + 1);
	FSDP_EACH(i, (uint32_t)count, value, fsdp_value(plan->checkpoint, i)) {
		if (!value.hides_tensors || options->index_only)
			continue;
		if (!(options->with_hidden != NULL
				    ? options->with_hidden(options->choose_context, i)
				    : value.role == FSDP_ROLE_PARAM))
			continue;
		if (!options->skip_unsupported) {
			char name[256] =
				"what was saved"; /* which has no name where it is all */
			size_t size = fsdp_name_write(
				plan->checkpoint, value.name, name, sizeof name);
			size = size == 0 ? strlen(name) : fsdp_min(size, sizeof name);
			fsdp_fail(&plan->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"%.*s (%.64s) contains tensors without a name; these cannot be written",
				(int)size, name, value.type);
			must(plan, fsdp_error_add_hint(&plan->error,
					   "--skip-unsupported skips them"));
		}
		plan->left_values[plan->left_value_count++] = i;
	}
}

/* ---- all of them ---- */

/* Which tensors: fills `why` and the items, without names. */
static void export_choose(
	struct fsdp_export *plan, const struct fsdp_export_options *options)
{
	size_t count = fsdp_tensor_count(plan->checkpoint);
	plan->why = FSDP_TAKE(&plan->arena, plan->why, count + 1);
	plan->items = FSDP_TAKE(&plan->arena, plan->items, count + 1);
	for (size_t i = 0; i < count; i++)
		choose_one(plan, options, (uint32_t)i);
	choose_hidden(plan, options);
	if (plan->item_count != 0)
		return;
	fsdp_fail(&plan->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"no tensors to write: no parameter or buffer was selected");
	must(plan, fsdp_error_add_hint(
			   &plan->error, "fsdp-inspect ls shows the role of each"));
}

/*
 * Leaves one name of each tensor that has several.
 *
 * Which one stays is what loaders of Hugging Face expect: not the one that a model class
 * lists in _tied_weights_keys, since that is made from the other when a model is loaded.
 */

/* Ends of names in _tied_weights_keys of the classes of transformers. */
static const char *const made_by_tying[] = {
	"lm_head.weight",
	"lm_head.bias",
	"lm_head.decoder.weight",
	"lm_head.decoder.bias",
	"cls.predictions.decoder.weight",
	"cls.predictions.decoder.bias",
	"encoder.embed_tokens.weight",
	"decoder.embed_tokens.weight",
	"embed_out.weight",
	"proj_out.weight",
};

static bool is_made_by_tying(struct fsdp_span name)
{
	FSDP_EACH(i, FSDP_COUNT(made_by_tying), end, fsdp_span_text(made_by_tying[i]))
		if (fsdp_span_ends(name, end) &&
			(name.size == end.size ||
				name.data[name.size - end.size - 1] == '.'))
			return true;
	return false;
}

/* The tensor that it is tied to, or itself. */
static uint32_t root_of(const struct fsdp_export *plan, uint32_t tensor)
{
	uint32_t alias = fsdp_tensor(plan->checkpoint, tensor).alias;
	return alias != FSDP_NONE ? alias : tensor;
}

/* Of each root the item that stays: FSDP_NONE, or its index. */
static uint32_t *find_kept(struct fsdp_export *plan)
{
	size_t count = fsdp_tensor_count(plan->checkpoint);
	uint32_t *kept = FSDP_TAKE(&plan->arena, kept, count + 1);
	memset(kept, 0xff, (count + 1) * sizeof *kept);
	FSDP_EACH(i, plan->item_count, best, &kept[root_of(plan, plan->items[i].tensor)])
		if (*best == FSDP_NONE || (is_made_by_tying(plan->items[*best].name) &&
						  !is_made_by_tying(plan->items[i].name)))
			*best = (uint32_t)i;
	return kept;
}

/* Of several names for one tensor one stays. */
static void export_tie(struct fsdp_export *plan)
{
	uint32_t *kept = find_kept(plan);
	plan->ties = FSDP_TAKE(&plan->arena, plan->ties, plan->item_count);
	uint32_t *moved = FSDP_TAKE(&plan->arena, moved, plan->item_count);
	size_t count = 0;
	FSDP_EACH(i, plan->item_count, item, plan->items[i]) {
		uint32_t stays = kept[root_of(plan, item.tensor)];
		moved[i] = (uint32_t)count;
		if (stays == i) {
			plan->items[count++] = item;
			continue;
		}
		plan->why[item.tensor] = FSDP_EXPORT_TIED;
		plan->ties[plan->tie_count++] =
			(struct fsdp_export_tie){ item.name, stays };
	}
	plan->item_count = count;
	for (size_t i = 0; i < plan->tie_count; i++)
		plan->ties[i].item = moved[plan->ties[i].item];
	FSDP_SORT(plan->ties, plan->tie_count, FSDP_BY(plan->ties, name));
	for (size_t i = 0; i < fsdp_tensor_count(plan->checkpoint); i++)
		if (kept[i] != FSDP_NONE)
			kept[i] = moved[kept[i]];
	plan->kept = kept;
}

/* ---- Names ---- */

/* ---- names ---- */

/* What is next to the key of the model is not of it. */
static void omit_outside(
	struct fsdp_export *plan, struct fsdp_naming *naming, struct fsdp_span above)
{
	struct fsdp_span rest;
	size_t count = 0;
	for (size_t i = 0; above.data != NULL && i < plan->item_count; i++) {
		if (!fsdp_naming_is_below(naming->list[i].name, above, &rest)) {
			plan->why[plan->items[i].tensor] = FSDP_EXPORT_ROLE;
			continue;
		}
		naming->list[count] = naming->list[i];
		plan->items[count++] = plan->items[i];
	}
	if (above.data != NULL)
		naming->count = plan->item_count = count;
}

static void strip(struct fsdp_export *plan, struct fsdp_naming *naming,
	const struct fsdp_export_options *options)
{
	struct fsdp_span above = { NULL, 0 };
	if (options->strip == NULL && !options->stored_names) {
		above = fsdp_naming_container(naming);
		omit_outside(plan, naming, above);
	} else if (options->strip != NULL)
		above = fsdp_naming_prefix(naming, options->strip);
	if (above.data != NULL && fsdp_naming_strip(naming, above))
		plan->facts.stripped = above;
	/* What torch.compile and DistributedDataParallel put around a module may be
	 * anywhere. */
	if (options->strip == NULL ||
		(!fsdp_span_is(above, "_orig_mod") && !fsdp_span_is(above, "module")))
		return;
	for (size_t i = 0; i < naming->count; i++) {
		/* Removes a segment wherever it is, but not the last one. */
		struct fsdp_named *named = &naming->list[i];
		struct fsdp_span rest = named->name;
		char *text = fsdp_arena_take(naming->arena, rest.size + 1, 1);
		size_t size = 0;
		for (;;) {
			struct fsdp_span segment = fsdp_span_first(rest, '.');
			bool is_last = segment.size == rest.size;
			size_t taken = segment.size + !is_last;
			if (is_last || !fsdp_span_equal(segment, above)) {
				memcpy(text + size, rest.data, taken);
				size += taken;
			}
			rest = fsdp_span(rest.data + taken, rest.size - taken);
			if (is_last)
				break;
		}
		plan->facts.cleaned += size < named->name.size;
		named->name = fsdp_span(text, size);
	}
}

/* Their names. */
static void export_name(
	struct fsdp_export *plan, const struct fsdp_export_options *options)
{
	struct fsdp_naming naming = {
		.checkpoint = plan->checkpoint,
		.arena = &plan->arena,
		.list = FSDP_TAKE(&plan->arena, naming.list, plan->item_count + 1),
		.count = plan->item_count,
	};
	for (size_t i = 0; i < plan->item_count; i++)
		naming.list[i].tensor = plan->items[i].tensor;
	plan->facts.cleaned = fsdp_naming_take(&naming, options->stored_names);
	strip(plan, &naming, options);
	fsdp_naming_rename(&naming, options->renames, options->rename_count);
	plan->facts.idle_renames = naming.idle_renames;
	for (size_t i = 0; i < plan->item_count; i++)
		plan->items[i].name = naming.list[i].name;
}

/* ---- no two of one name ---- */

static uint32_t file_of(const struct fsdp_export *plan, const struct fsdp_tensor *tensor)
{
	return tensor->piece_count != 0
		       ? fsdp_piece(plan->checkpoint, tensor->first_piece).file
		       : FSDP_NONE;
}

/* No two have one name. */
static void export_check_names(struct fsdp_export *plan)
{
	uint32_t *sorted = FSDP_TAKE(&plan->arena, sorted, plan->item_count);
	for (size_t i = 0; i < plan->item_count; i++) {
		struct fsdp_span name = plan->items[i].name;
		sorted[i] = (uint32_t)i;
		if (plan->form <= FSDP_EXPORT_SAFETENSORS && !fsdp_utf8_is_valid(name))
			must(plan,
				fsdp_fail(&plan->error, FSDP_ERROR_UNSUPPORTED,
					FSDP_UNKNOWN,
					"the name %.*s is not UTF-8, which safetensors needs",
					FSDP_TEXT_MOST(name, 160)));
		if (plan->form <= FSDP_EXPORT_SAFETENSORS &&
			fsdp_span_equal(name, FSDP_SPAN("__metadata__"))) {
			fsdp_fail(&plan->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"no tensor of a safetensors file can be called __metadata__");
			must(plan,
				fsdp_error_add_hint(&plan->error,
					"give it another name: --rename=__metadata__=NAME"));
		}
	}
	qsort_r(sorted, plan->item_count, sizeof *sorted, compare_names, plan->items);
	for (size_t i = 1; i < plan->item_count; i++) {
		const struct fsdp_export_item *a = &plan->items[sorted[i - 1]],
					      *b = &plan->items[sorted[i]];
		if (fsdp_span_equal(a->name, b->name)) {
			struct fsdp_tensor one = fsdp_tensor(plan->checkpoint, a->tensor);
			struct fsdp_tensor two = fsdp_tensor(plan->checkpoint, b->tensor);
			char first[160] = "", second[160] = "";
			size_t first_size = fsdp_name_write(
				plan->checkpoint, one.raw_name, first, sizeof first);
			size_t second_size = fsdp_name_write(
				plan->checkpoint, two.raw_name, second, sizeof second);
			fsdp_fail(&plan->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
				"two tensors would be called %.*s: %.*s and %.*s",
				FSDP_TEXT_MOST(a->name, 160),
				(int)fsdp_min(first_size, sizeof first), first,
				(int)fsdp_min(second_size, sizeof second), second);
			fsdp_error_add_hint(&plan->error, "%s",
				(one.flags & two.flags & FSDP_TENSOR_RANKS_OWN) != 0
					? "each rank has its own: choose one with --rank"
				: one.raw_name == two.raw_name
					? (file_of(plan, &one) == file_of(plan, &two)
							  ? "a key with dots reads like one of a nested dict: save it under another"
							  : "several files contain it: choose one with --file")
					: "keep the names apart with --strip=none or --rename");
			must(plan, false);
		}
	}
	plan->order = sorted; /* export.c puts it in order of files */
}

/* ---- Names and cuts by a map ---- */

/* The items as a map takes them. */
static struct fsdp_mapped *list_items(
	const struct fsdp_export *plan, uint32_t *of_tensor, struct fsdp_mapped *list)
{
	FSDP_EACH(i, plan->item_count, item, &plan->items[i]) {
		of_tensor[item->tensor] = (uint32_t)i;
		list[i] = (struct fsdp_mapped){
			.name = item->name,
			.tensor = item->tensor,
			.dtype = fsdp_tensor(plan->checkpoint, item->tensor).dtype,
			.shape = item->shape,
			.dims = item->dims,
			.numel = item->numel,
		};
		fsdp_mapped_find_rank(plan->checkpoint, &list[i]);
	}
	return list;
}

/* Which item a tensor became, or the first of several. */
static void move(uint32_t *moved, uint32_t item, size_t to)
{
	if (moved[item] == FSDP_NONE)
		moved[item] = (uint32_t)to;
}

/* Of another rank one that has the same name may stand for it. */
static bool is_written(const struct fsdp_export *plan, const uint32_t *of_tensor,
	const uint32_t *moved, uint32_t tensor)
{
	uint32_t name = fsdp_tensor(plan->checkpoint, tensor).name;
	for (uint32_t i = tensor + 1;
		i-- > 0 && fsdp_tensor(plan->checkpoint, i).name == name;)
		if (plan->why[i] == FSDP_EXPORT_TAKEN && moved[of_tensor[i]] != FSDP_NONE)
			return true;
	return false;
}

static void add_all(struct fsdp_export *plan, const struct fsdp_mapped *made,
	size_t count, const uint32_t *of_tensor, uint32_t *moved)
{
	struct fsdp_export_item *items = FSDP_TAKE(&plan->arena, items, count + 1);
	for (size_t i = 0; i < count; i++) {
		items[i] = plan->items[of_tensor[made[i].tensor]];
		struct fsdp_export_item *item = &items[i];
		const struct fsdp_mapped *mapped = &made[i];
		item->name = mapped->name;
		item->shape = mapped->shape;
		item->dims = mapped->dims;
		item->numel = mapped->numel;
		item->bytes = mapped->numel * item->width;
		item->blocks = mapped->blocks;
		item->block_count = mapped->block_count;
		move(moved, of_tensor[made[i].tensor], i);
		for (size_t j = 0; j < made[i].block_count; j++)
			for (size_t k = 0; k < made[i].blocks[j].count; k++)
				move(moved,
					of_tensor[made[i].blocks[j].strands[k].tensor],
					i);
	}
	for (size_t i = 0; i < fsdp_tensor_count(plan->checkpoint); i++)
		if (plan->kept != NULL && plan->kept[i] != FSDP_NONE)
			plan->kept[i] = moved[plan->kept[i]];
	for (uint32_t i = 0; i < fsdp_tensor_count(plan->checkpoint); i++)
		if ((plan->why[i] == FSDP_EXPORT_TAKEN &&
			    !is_written(plan, of_tensor, moved, i)) ||
			(plan->why[i] == FSDP_EXPORT_TIED && plan->kept != NULL &&
				plan->kept[i] == FSDP_NONE))
			plan->why[i] = FSDP_EXPORT_UNMAPPED;
	/* Which name a tie has on the other side, no row says. */
	plan->tie_count = 0;
	plan->items = items;
	plan->item_count = count;
}

/* Names and cuts by a table, if there is one. */
static void export_map(
	struct fsdp_export *plan, const struct fsdp_export_options *options)
{
	const struct fsdp_map_sizes sizes = {
		.given = options->sizes,
		.given_count = options->size_count,
		.checkpoints = { plan->checkpoint, NULL },
	};
	size_t tensors = fsdp_tensor_count(plan->checkpoint), count;
	struct fsdp_mapped *made;
	if (options->map == NULL)
		return;
	struct fsdp_mapped *list = FSDP_TAKE(&plan->arena, list, plan->item_count + 1);
	uint32_t *of_tensor = FSDP_TAKE(&plan->arena, of_tensor, tensors + 1);
	uint32_t *moved = FSDP_TAKE(&plan->arena, moved, plan->item_count + 1);
	for (size_t i = 0; i < plan->item_count; i++)
		moved[i] = FSDP_NONE;
	must(plan, fsdp_mapping_apply(options->map, &sizes,
			   list_items(plan, of_tensor, list), plan->item_count, true,
			   &plan->arena, &made, &count, &plan->error));
	add_all(plan, made, count, of_tensor, moved);
}

/* What is written is read first: no more of it than views may repeat. */
static void export_count_repeats(struct fsdp_export *plan)
{
	struct fsdp_repeats *repeats = NULL;
	bool good = fsdp_repeats_new(plan->checkpoint, &repeats, &plan->error);
	for (size_t i = 0; good && i < plan->item_count; i++) {
		const struct fsdp_export_item *item = &plan->items[i];
		const struct fsdp_mapped mapped = {
			.dtype = fsdp_tensor(plan->checkpoint, item->tensor).dtype,
			.numel = item->numel,
			.blocks = item->blocks,
			.block_count = item->block_count,
		};
		good = fsdp_repeats_take(repeats, item->tensor,
			fsdp_mapped_cost(plan->checkpoint, &mapped), &plan->error);
		if (!good)
			fsdp_error_add_member(&plan->error, item->name);
	}
	fsdp_repeats_free(repeats);
	must(plan, good);
}

/* ---- Files, as save_torch_state_dict deals them out, in the order of safetensors ----
 */

#define SHARD_BYTES UINT64_C(5000000000)
enum { FILES_MOST = 99999 }; /* five digits in the names of shards */

/* ---- which file ---- */

/* Gives what is open among the items from `first` to `end` the next number. */
static void close_file(struct fsdp_export *plan, size_t first, size_t end, size_t *files)
{
	for (size_t i = first; i < end; i++)
		if (plan->items[i].file == FSDP_NONE)
			plan->items[i].file = (uint32_t)*files;
	*files += 1;
}

/* Others fill a file in order; a tensor larger than a file has one of its own, which is
 * counted before the one that is being filled. */
static size_t deal_out(struct fsdp_export *plan)
{
	size_t files = 0, first = 0;
	uint64_t used = 0, most = plan->shard_bytes;
	bool open = false;
	if (plan->form != FSDP_EXPORT_HF)
		return 1;
	FSDP_EACH(i, plan->item_count, item, &plan->items[i]) {
		item->file = FSDP_NONE;
		if (item->bytes > most) {
			item->file = (uint32_t)files++;
			continue;
		}
		if (open && item->bytes > most - used) {
			close_file(plan, first, i, &files);
			first = i;
			used = 0;
		}
		open = true;
		used += item->bytes;
	}
	if (open)
		close_file(plan, first, plan->item_count, &files);
	return files;
}

/* ---- in which order ---- */

static int compare_items(const void *left, const void *right, void *context)
{
	const struct fsdp_export_item *items = context;
	const struct fsdp_export_item *a = &items[*(const uint32_t *)left],
				      *b = &items[*(const uint32_t *)right];
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	return fsdp_span_compare(a->name, b->name);
}

/* ---- names and heads ---- */

/* Adds up what is written. Also of all files together they can be counted. */
static void export_count(struct fsdp_export *plan)
{
	struct fsdp_export_facts *facts = &plan->facts;
	for (size_t i = 0; i < plan->item_count; i++)
		if (!fsdp_add(facts->tensor_bytes, plan->items[i].bytes,
			    &facts->tensor_bytes) ||
			!fsdp_add(facts->numel, plan->items[i].numel, &facts->numel) ||
			facts->tensor_bytes > INT64_MAX)
			must(plan,
				fsdp_fail(&plan->error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
					"total size of the tensors overflows"));
}

static struct fsdp_span name_of_index(struct fsdp_export *plan)
{
	char name[64];
	snprintf(name, sizeof name, "%s" FSDP_EXPORT_INDEX, plan->stem);
	return fsdp_arena_copy(&plan->arena, fsdp_span_text(name));
}

/* Files, and the position of each tensor in them. */
static void export_cut(struct fsdp_export *plan)
{
	if (plan->shard_bytes == 0)
		plan->shard_bytes = SHARD_BYTES;
	size_t shards = deal_out(plan);
	plan->has_index = shards > 1;
	plan->file_count = shards + plan->has_index;
	if (shards > FILES_MOST) {
		fsdp_fail(&plan->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"%zu files would be written, more than %d", shards, FILES_MOST);
		must(plan, fsdp_error_add_hint(
				   &plan->error, "give a larger --max-shard-size"));
	}
	plan->files = FSDP_TAKE(&plan->arena, plan->files, plan->file_count);
	export_count(plan);
	size_t next = 0;
	qsort_r(plan->order, plan->item_count, sizeof *plan->order, compare_items,
		plan->items);
	FSDP_EACH(f, plan->file_count, file, &plan->files[f]) {
		file->first = next;
		for (; next < plan->item_count; next++) {
			struct fsdp_export_item *item = &plan->items[plan->order[next]];
			if (item->file != f)
				break;
			item->offset = file->bytes;
			file->bytes += item->bytes;
		}
		file->count = next - file->first;
	}
	for (size_t i = 0; i < plan->file_count; i++) {
		char name[64] = "";
		if (plan->form == FSDP_EXPORT_HF && i == shards) {
			plan->files[i].name = name_of_index(plan);
			continue;
		}
		if (plan->form == FSDP_EXPORT_HF && shards == 1)
			snprintf(name, sizeof name, "%s.safetensors", plan->stem);
		else if (plan->form == FSDP_EXPORT_HF)
			snprintf(name, sizeof name, "%s-%05zu-of-%05zu.safetensors",
				plan->stem, i + 1, shards);
		plan->files[i].name = fsdp_arena_copy(&plan->arena, fsdp_span_text(name));
	}
	for (size_t i = 0; i < plan->file_count; i++) {
		/* The content of headers determines their length. */
		struct fsdp_export_out *file = &plan->files[i];
		struct fsdp_export_text text = { 0 };
		bool good = fsdp_export_head(plan, i, &text, &plan->error);
		free(text.bytes);
		must(plan, good);
		file->head = text.size;
		file->bytes += text.size;
		for (size_t k = 0; k < file->count; k++)
			plan->items[plan->order[file->first + k]].offset += text.size;
		plan->facts.file_bytes += file->bytes;
	}
}

/* ---- An index of shards that have none: tensors stay where they are ---- */

/* The files that already contain the tensors, and their index. */
static void export_take_files(struct fsdp_export *plan)
{
	size_t count = fsdp_file_count(plan->checkpoint);
	uint32_t *places = FSDP_TAKE(&plan->arena, places, count + 1);
	plan->files = FSDP_TAKE(&plan->arena, plan->files, count + 1);
	FSDP_EACH(i, plan->item_count, item, &plan->items[i]) {
		uint32_t file = 0;
		/* The file of an item, among those of the checkpoint. */
		struct fsdp_tensor tensor = fsdp_tensor(plan->checkpoint, item->tensor);
		struct fsdp_span path = FSDP_SPAN("/");
		uint32_t found = FSDP_NONE;
		if (tensor.piece_count == 1)
			found = fsdp_piece(plan->checkpoint, tensor.first_piece).file;
		if (found != FSDP_NONE)
			path = fsdp_file(plan->checkpoint, found).path;
		if (!fsdp_span_ends(path, FSDP_SPAN(".safetensors")) ||
			fsdp_span_first(path, '/').size != path.size)
			must(plan,
				fsdp_fail(&plan->error, FSDP_ERROR_UNSUPPORTED,
					FSDP_UNKNOWN,
					"%.*s is not stored contiguously in one file of the directory",
					FSDP_TEXT_MOST(item->name, 200)));
		file = found;
		/* Counted from 1: 0 is none yet. */
		if (places[file] == 0) {
			struct fsdp_file facts = fsdp_file(plan->checkpoint, file);
			plan->files[plan->file_count++] =
				(struct fsdp_export_out){ .name = facts.path,
					.bytes = facts.size };
			places[file] = (uint32_t)plan->file_count;
		}
		item->file = places[file] - 1;
	}
	plan->files[plan->file_count++].name = name_of_index(plan);
	plan->has_index = true;
	export_count(plan);
}

/* ---- The steps ---- */

const char *fsdp_skip_reason_name(enum fsdp_skip_reason why)
{
	static const char *const names[] = { "", "role", "selected", "tied",
		"unsupported", "incomplete", "unmapped" };
	return (unsigned)why < FSDP_COUNT(names) ? names[why] : "";
}

/* ---- making one ---- */

/* A plan while it is made. */
struct export_making {
	struct fsdp_export *plan;
	const struct fsdp_export_options *options;
};

static void make(void *context)
{
	const struct export_making *making = context;
	const struct fsdp_export_options *options = making->options;
	struct fsdp_export *plan = making->plan;
	export_choose(plan, options);
	export_name(plan, options);
	if (!options->keep_ties && !options->index_only)
		export_tie(plan);
	export_map(plan, options);
	if (!options->index_only)
		export_count_repeats(plan);
	if (plan->form > FSDP_EXPORT_SAFETENSORS && plan->item_count != 1) {
		fsdp_fail(&plan->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"this format stores one tensor, but %zu were selected",
			plan->item_count);
		must(plan, fsdp_error_add_hint(
				   &plan->error, "name one after the checkpoint"));
	}
	export_check_names(plan);
	if (options->index_only)
		export_take_files(plan);
	else
		export_cut(plan);
	size_t count = fsdp_tensor_count(plan->checkpoint);
	struct fsdp_export_facts *facts = &plan->facts;
	plan->left = FSDP_TAKE(&plan->arena, plan->left, count + 1);
	FSDP_EACH(i, count, tensor, fsdp_tensor(plan->checkpoint, (uint32_t)i)) {
		uint64_t *bytes = &facts->left_bytes[plan->why[i]];
		if (plan->why[i] == FSDP_EXPORT_TAKEN)
			continue;
		plan->left[facts->left_count++] = (uint32_t)i;
		facts->left_tensors[plan->why[i]]++;
		/* A tied name has no bytes of its own. */
		if (tensor.alias == FSDP_NONE && !fsdp_add(*bytes, tensor.bytes, bytes))
			*bytes = FSDP_UNKNOWN;
	}
	if (plan->form == FSDP_EXPORT_NPY && plan->item_count == 1) {
		uint32_t dtype = plan->items[0].dtype;
		facts->as_unsigned = find_dtype(dtype, NULL)->npy[1] == 'u' &&
				     fsdp_dtype(dtype)->name[0] != 'u';
	}
	facts->left_count += plan->left_value_count;
	facts->left_tensors[FSDP_EXPORT_UNSUPPORTED] += plan->left_value_count;
	facts->tensor_count = plan->item_count;
	facts->file_count = plan->file_count;
}

/* Its loader looks for files of another name. */
static bool is_of_diffusers(const struct fsdp_export *plan)
{
	bool found = false;
	for (uint32_t i = 0; i < fsdp_setting_count(plan->checkpoint); i++)
		found |= fsdp_span_is(
			fsdp_setting(plan->checkpoint, i).key, "_diffusers_version");
	return found;
}

bool fsdp_export_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_export_options *options, struct fsdp_export **ret_export,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_options known = { .size = sizeof known };
	struct fsdp_export *plan = calloc(1, sizeof *plan);
	if (plan == NULL)
		return fsdp_fail_memory(ret_error);
	if (options != NULL)
		memcpy(&known, options, fsdp_min(options->size, sizeof known));
	plan->checkpoint = checkpoint;
	plan->form = known.form;
	plan->shard_bytes = known.shard_bytes;
	plan->index_only = known.index_only;
	plan->stem = fsdp_export_stems[known.is_adapter        ? 1
				       : is_of_diffusers(plan) ? 2
							       : 0];
	struct export_making making = { plan, &known };
	bool begun = fsdp_arena_init_chosen(&plan->arena, &plan->budget, known.limits,
		known.limit_count, fsdp_checkpoint_room(&plan->checkpoint, 1), ret_error);
	if (!begun || !fsdp_arena_try(&plan->arena, make, &making)) {
		if (begun && plan->error != NULL)
			fsdp_fail_with(ret_error, plan->error);
		else if (begun)
			fsdp_arena_fail(&plan->arena, ret_error);
		fsdp_export_free(plan);
		return false;
	}
	*ret_export = plan;
	return true;
}

void fsdp_export_free(struct fsdp_export *plan)
{
	if (plan == NULL)
		return;
	if (plan->arena.budget != NULL)
		fsdp_arena_done(&plan->arena);
	free(plan);
}

/* ---- what is in it ---- */

struct fsdp_export_facts fsdp_export_facts(const struct fsdp_export *plan)
{
	return plan->facts;
}

struct fsdp_export_tensor fsdp_export_tensor(const struct fsdp_export *plan, size_t index)
{
	const struct fsdp_export_item *item = &plan->items[index];
	return (struct fsdp_export_tensor){
		.name = item->name,
		.source = item->tensor,
		.dtype = item->dtype,
		.shape = item->shape,
		.dims = item->dims,
		.bytes = item->bytes,
		.file = item->file,
		.offset = item->offset,
		.sha256 = plan->facts.digested ? item->sha256 : NULL,
	};
}

struct fsdp_export_file fsdp_export_file(const struct fsdp_export *plan, size_t index)
{
	const struct fsdp_export_out *file = &plan->files[index];
	return (struct fsdp_export_file){
		.name = file->name,
		.bytes = file->bytes,
		.sha256 = plan->facts.verified ? file->sha256 : NULL,
	};
}

struct fsdp_export_skipped fsdp_export_skipped(
	const struct fsdp_export *plan, size_t index)
{
	size_t tensors = plan->facts.left_count - plan->left_value_count;
	if (index >= tensors)
		return (struct fsdp_export_skipped){
			.source = FSDP_NONE,
			.value = plan->left_values[index - tensors],
			.why = FSDP_EXPORT_UNSUPPORTED,
			.same_as = SIZE_MAX,
		};
	uint32_t tensor = plan->left[index];
	struct fsdp_export_skipped left = {
		.source = tensor,
		.value = FSDP_NONE,
		.why = (enum fsdp_skip_reason)plan->why[tensor],
		.same_as = SIZE_MAX,
	};
	uint32_t alias = fsdp_tensor(plan->checkpoint, tensor).alias;
	if (left.why == FSDP_EXPORT_TIED)
		left.same_as = plan->kept[alias != FSDP_NONE ? alias : tensor];
	return left;
}
