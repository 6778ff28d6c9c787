/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a name. What the escaping functions make of them is valid UTF-8 without
 * controls, by the judgement of utf8proc; what the JSON writer makes is a string
 * that jansson reads, and reads back the same if the bytes were valid.
 */
#include <stdlib.h>

#include <jansson.h>
#include <utf8proc.h>

#include "render/writer.h"
#include "render/output-functions.h"
#include "render/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
	if (!holds)
		abort();
}

/* Every character may be shown, or is one of `allowed`. */
static bool check_harmless(const char *data, size_t size, const char *allowed)
{
	size_t at = 0;
	while (at < size) {
		utf8proc_int32_t character;
		utf8proc_ssize_t length =
			utf8proc_iterate((const utf8proc_uint8_t *)data + at,
				(utf8proc_ssize_t)(size - at), &character);
		if (length <= 0)
			return false;
		bool control =
			character < 0x20 || (character >= 0x7f && character < 0xa0);
		if (control && (character == 0 || character > 0x7f ||
				       strchr(allowed, character) == NULL))
			return false;
		at += (size_t)length;
	}
	return true;
}

static bool is_valid(const char *data, size_t size)
{
	for (size_t at = 0; at < size;) {
		utf8proc_int32_t character;
		utf8proc_ssize_t length =
			utf8proc_iterate((const utf8proc_uint8_t *)data + at,
				(utf8proc_ssize_t)(size - at), &character);
		if (length <= 0)
			return false;
		at += (size_t)length;
	}
	return true;
}

static void check_escape(const char *data, size_t size, enum escape_style style)
{
	struct writer writer;
	writer_init(&writer, NULL);
	escape_write(&writer, data, size, style);
	demand(check_harmless(writer.data, writer.size, ""));
	writer_done(&writer);
}

static void check_json(const char *data, size_t size)
{
	struct writer writer;
	writer_init(&writer, NULL);
	bool kept = write_json_string(&writer, data, size);
	demand(kept == is_valid(data, size));
	demand(check_harmless(writer.data, writer.size, ""));
	json_t *json = json_loadb(
		writer.data, writer.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	demand(json_is_string(json));
	if (kept) {
		demand(json_string_length(json) == size);
		demand(size == 0 || memcmp(json_string_value(json), data, size) == 0);
	}
	json_decref(json);
	writer_done(&writer);
}

/* The name as a row and as a node of a format. */
static void check_output(
	struct text name, const char *format, int width, const char *allowed)
{
	char *data = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&data, &size);
	demand(stream != NULL);
	const struct looks looks = { .width = width };
	struct out *out = out_new(out_format_find(format), stream, &looks);
	demand(out != NULL);
	const struct out_header header = {
		.command = "ls", .version = "0", .has_data = true
	};
	const struct out_footer footer = { 0 };
	const struct column column = { .name = "name" };
	struct table table = {
		.key = "items", .columns = &column, .column_count = 1, .main = true
	};
	const struct value value = value_name(name);
	const struct tree_node node = { .name = name, .class_name = name, .depth = 2 };
	out_begin(out, &header);
	out_verbatim(out, name);
	out_table_begin(out, &table);
	out_row(out, &value);
	out_table_end(out);
	table.tree = true;
	out_table_begin(out, &table);
	out_node(out, &node, &value);
	out_table_end(out);
	out_end(out, &footer);
	demand(out_finish(out) == 0);
	out_free(out);
	fclose(stream);
	demand(check_harmless(data, size, allowed));
	free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *data = size != 0 ? (const char *)bytes : "";
	const struct text name = { data, size };
	check_escape(data, size, ESCAPE_TEXT);
	check_escape(data, size, ESCAPE_TSV);
	check_json(data, size);
	check_output(name, "text", 0, "\n");
	check_output(name, "text", 40, "\n");
	check_output(name, "json", 0, "\n");
	check_output(name, "jsonl", 0, "\n");
	check_output(name, "csv", 0, "\r\n\t");
	check_output(name, "tsv", 0, "\t\n");
	check_output(name, "name", 0, "\n");
	return 0;
}
