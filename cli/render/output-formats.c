/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of outputs. A new one is a file and a row here. It is a file by itself since
 * it needs all outputs, and these need out.c.
 */
#include <string.h>

#include "render/output-functions.h"

static const struct out_format formats[] = {
	{ .name = "text",
		.shapes = SHAPE_FACTS | SHAPE_TABLE | SHAPE_TREE | SHAPE_FINDINGS,
		.summary = "for people; may change",
		.functions = &text_functions },
	{ .name = "json",
		.has_failure = true,
		.shapes = SHAPE_FACTS | SHAPE_TABLE | SHAPE_TREE | SHAPE_FINDINGS,
		.machine = true,
		.summary = "one document, also on failure",
		.functions = &json_functions },
	{ .name = "jsonl",
		.has_failure = true,
		.shapes = SHAPE_TABLE | SHAPE_TREE | SHAPE_FINDINGS | SHAPE_ITEMS,
		.machine = true,
		.summary = "one object per line, in constant memory",
		.functions = &jsonl_functions },
	{ .name = "csv",
		.shapes = SHAPE_TABLE,
		.machine = true,
		.summary = "RFC 4180, with a header row",
		.functions = &csv_functions },
	{ .name = "tsv",
		.shapes = SHAPE_TABLE,
		.machine = true,
		.summary = "tabs between, \\t \\n \\r \\\\ escaped; for awk and cut",
		.functions = &tsv_functions },
	{ .name = "name",
		.shapes = SHAPE_TABLE | SHAPE_TREE,
		.machine = true,
		.summary = "one name per line; -0 for raw bytes",
		.functions = &name_functions },
	{ .name = "sarif",
		.has_failure = true,
		.shapes = SHAPE_FINDINGS,
		.machine = true,
		.summary = "findings for code scanning services (SARIF 2.1.0)",
		.functions = &sarif_functions },
	{ .name = "html",
		.shapes = SHAPE_PAGE,
		.machine = true,
		.summary = "one page, without network requests",
		.functions = &html_functions },
	{ .name = "ncdu",
		.shapes = SHAPE_MODULES,
		.machine = true,
		.summary = "modules as directories, for ncdu -f -",
		.functions = &ncdu_functions },
	{ .name = "chrome",
		.shapes = SHAPE_SPANS,
		.machine = true,
		.summary = "events of all ranks on one clock, for Perfetto",
		.functions = &chrome_functions },
	{ .name = "plan",
		.shapes = SHAPE_PLAN,
		.machine = true,
		.summary = "with --units-from: the units as a sharding plan",
		.functions = &plan_functions },
};

const struct out_format *out_format(size_t index)
{
	return index < sizeof formats / sizeof *formats ? &formats[index] : NULL;
}

const struct out_format *out_format_find(const char *name)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}
