/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes in front of tensors: headers of safetensors, byte for byte as the reference
 * writer makes them; NumPy's; and the index of a folder of shards, as Python's json.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/exporting.h"

/* ---- dtypes ---- */

/* In the order of the reference writer, which puts the last ones first in a file. What
 * NumPy lacks is written as unsigned integers of its width. */
static const struct fsdp_export_dtype dtypes[] = {
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

const struct fsdp_export_dtype *fsdp_export_dtype(uint32_t dtype, unsigned *ret_order)
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

/* The code point at *at of valid UTF-8, which it moves behind. */
static uint32_t take_point(const unsigned char **at)
{
	const unsigned char *byte = *at;
	unsigned more = byte[0] < 0x80 ? 0 : byte[0] < 0xe0 ? 1 : byte[0] < 0xf0 ? 2 : 3;
	uint32_t point = more == 0 ? byte[0] : byte[0] & (0x3fu >> more);
	for (unsigned i = 1; i <= more; i++)
		point = point << 6 | (byte[i] & 0x3f);
	*at = byte + more + 1;
	return point;
}

void fsdp_export_put_json(
	struct fsdp_export_text *text, struct fsdp_span string, bool ascii)
{
	const unsigned char *at = string.data, *end = string.data + string.size;
	fsdp_export_put(text, "\"", 1);
	while (at < end) {
		const unsigned char *begin = at;
		uint32_t point = take_point(&at);
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
static void put_shape(struct fsdp_export_text *text, const struct fsdp_export_item *item,
	const char *comma, bool doubled)
{
	for (uint32_t i = 0; i < item->dims; i++) {
		bool doubles = doubled && i + 1 == item->dims;
		fsdp_export_put_text(text, "%s%llu", i > 0 ? comma : "",
			FSDP_LLU((uint64_t)item->shape[i] << doubles));
	}
}

static void put_header(const struct fsdp_export *plan, const struct fsdp_export_out *file,
	struct fsdp_export_text *text)
{
	uint64_t begin = 0;
	fsdp_export_put_text(text, "{\"__metadata__\":{\"format\":\"pt\"");
	/* In a folder of shards the index tells them. */
	for (size_t i = 0; i < plan->tie_count && !plan->has_index; i++) {
		const struct fsdp_export_tie *tie = &plan->ties[i];
		fsdp_export_put(text, ",", 1);
		fsdp_export_put_json(text, tie->name, false);
		fsdp_export_put(text, ":", 1);
		fsdp_export_put_json(text, plan->items[tie->item].name, false);
	}
	fsdp_export_put(text, "}", 1);
	for (size_t i = 0; i < file->count; i++) {
		const struct fsdp_export_item *item =
			&plan->items[plan->order[file->first + i]];
		fsdp_export_put(text, ",", 1);
		fsdp_export_put_json(text, item->name, false);
		fsdp_export_put_text(text, ":{\"dtype\":\"%s\",\"shape\":[",
			fsdp_export_dtype(item->dtype, NULL)->name);
		put_shape(text, item, ",",
			strcmp(fsdp_dtype(item->dtype)->name, "float4_e2m1fn_x2") == 0);
		fsdp_export_put_text(text, "],\"data_offsets\":[%llu,%llu]}",
			FSDP_LLU(begin), FSDP_LLU(begin + item->bytes));
		begin += item->bytes;
	}
	fsdp_export_put(text, "}", 1);
	while (!text->failed && text->size % 8 != 0)
		fsdp_export_put(text, " ", 1);
}

/* The length of the header stands in front of it. */
static void put_safetensors(const struct fsdp_export *plan,
	const struct fsdp_export_out *file, struct fsdp_export_text *text)
{
	unsigned char length[8] = { 0 };
	fsdp_export_put(text, length, sizeof length);
	put_header(plan, file, text);
	if (text->failed)
		return;
	uint64_t size = text->size - sizeof length;
	for (size_t i = 0; i < sizeof length; i++)
		text->bytes[i] = (unsigned char)(size >> 8 * i);
}

/* ---- the index ---- */

static int compare_names(const void *left, const void *right, void *context)
{
	const struct fsdp_export_item *items = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	return fsdp_span_compare(items[a].name, items[b].name);
}

static void put_index(const struct fsdp_export *plan, struct fsdp_export_text *text)
{
	uint32_t *sorted = malloc(plan->item_count * sizeof *sorted);
	if (sorted == NULL) {
		text->failed = true;
		return;
	}
	memcpy(sorted, plan->order, plan->item_count * sizeof *sorted);
	qsort_r(sorted, plan->item_count, sizeof *sorted, compare_names, plan->items);
	fsdp_export_put_text(text, "{\n  \"metadata\": {\n");
	for (size_t i = 0; i < plan->tie_count; i++) {
		const struct fsdp_export_tie *tie = &plan->ties[i];
		fsdp_export_put_text(text, "    ");
		fsdp_export_put_json(text, tie->name, true);
		fsdp_export_put_text(text, ": ");
		fsdp_export_put_json(text, plan->items[tie->item].name, true);
		fsdp_export_put_text(text, ",\n");
	}
	fsdp_export_put_text(text,
		"    \"total_parameters\": %llu,\n    \"total_size\": %llu\n  },\n",
		FSDP_LLU(plan->facts.numel), FSDP_LLU(plan->facts.tensor_bytes));
	/* Bytewise order of UTF-8 is that of code points, by which Python sorts. */
	fsdp_export_put_text(text, "  \"weight_map\": {");
	for (size_t i = 0; i < plan->item_count; i++) {
		const struct fsdp_export_item *item = &plan->items[sorted[i]];
		fsdp_export_put_text(text, "%s\n    ", i > 0 ? "," : "");
		fsdp_export_put_json(text, item->name, true);
		fsdp_export_put_text(text, ": ");
		fsdp_export_put_json(text, plan->files[item->file].name, true);
	}
	fsdp_export_put_text(text, "\n  }\n}\n");
	free(sorted);
}

/* ---- NumPy ---- */

/* The text ends where a multiple of 64 bytes does. */
static void put_npy(const struct fsdp_export *plan, struct fsdp_export_text *text)
{
	const struct fsdp_export_item *item = &plan->items[0];
	fsdp_export_put(text, "\x93NUMPY\x01\x00\x00\x00", 10);
	fsdp_export_put_text(text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
		fsdp_export_dtype(item->dtype, NULL)->npy);
	put_shape(text, item, ", ", false);
	fsdp_export_put_text(text, "%s), }", item->dims == 1 ? "," : "");
	while (!text->failed && text->size % 64 != 63)
		fsdp_export_put(text, " ", 1);
	fsdp_export_put(text, "\n", 1);
	if (text->failed)
		return;
	text->bytes[8] = (unsigned char)(text->size - 10);
	text->bytes[9] = (unsigned char)((text->size - 10) >> 8);
}

/* ---- which one ---- */

bool fsdp_export_head(const struct fsdp_export *plan, size_t index,
	struct fsdp_export_text *text, struct fsdp_error **ret_error)
{
	const struct fsdp_export_out *file = &plan->files[index];
	if (plan->has_index && index + 1 == plan->file_count)
		put_index(plan, text);
	else if (plan->form == FSDP_EXPORT_NPY)
		put_npy(plan, text);
	else if (plan->form != FSDP_EXPORT_RAW)
		put_safetensors(plan, file, text);
	return !text->failed || fsdp_fail_memory(ret_error);
}
