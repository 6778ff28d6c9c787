/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes sizes as a directory listing for `ncdu -f`: modules are directories, tensors are
 * files.
 */
#include "render/writer.h"
#include "render/output-functions.h"

struct ncdu {
	struct out base;
	struct writer stream;
	struct writer name;
	uint32_t open; /* directories that are */
	bool begun;
};

static struct ncdu *ncdu_of(struct out *out)
{
	return (struct ncdu *)out;
}

static void close_down_to(struct ncdu *ncdu, uint32_t depth)
{
	for (; ncdu->open > depth; ncdu->open--)
		writer_char(&ncdu->stream, ']');
}

static void begin(struct out *out, const struct out_header *header)
{
	struct ncdu *ncdu = ncdu_of(out);
	ncdu->begun = header->has_data;
	if (!ncdu->begun)
		return;
	writer_text(&ncdu->stream, "[1,2,{\"progname\":\"fsdp-inspect\",\"progver\":\"");
	writer_text(&ncdu->stream, header->version);
	writer_text(&ncdu->stream, "\",\"timestamp\":0}");
}

static void weighed(struct out *out, const struct weighed *part)
{
	struct ncdu *ncdu = ncdu_of(out);
	struct writer *to = &ncdu->stream;
	close_down_to(ncdu, part->depth);
	writer_text(to, ",\n");
	if (!part->is_leaf) {
		writer_char(to, '[');
		ncdu->open++;
	}
	writer_text(to, "{\"name\":");
	/* A terminal shows it: unsafe characters are escaped first. */
	struct writer *name = &ncdu->name;
	name->size = 0;
	if (part->name.size == 0)
		writer_text(name, "(root)");
	else
		escape_write(name, part->name.data, part->name.size, ESCAPE_TEXT);
	write_json_string(to, name->data, name->size);
	if (part->own != 0) {
		writer_text(to, ",\"asize\":");
		writer_count(to, part->own);
		writer_text(to, ",\"dsize\":");
		writer_count(to, part->own);
	}
	writer_char(to, '}');
}

static void end(struct out *out, const struct out_footer *footer)
{
	struct ncdu *ncdu = ncdu_of(out);
	(void)footer;
	close_down_to(ncdu, 0);
	if (ncdu->begun)
		writer_text(&ncdu->stream, "]\n");
	writer_flush(&ncdu->stream);
}

static void start(struct out *out, FILE *stream, const struct looks *looks)
{
	(void)stream;
	ncdu_of(out)->name.ascii = looks->seven_bits;
}

const struct out_functions ncdu_functions = {
	.size = sizeof(struct ncdu),
	.writers = { offsetof(struct ncdu, stream), offsetof(struct ncdu, name) },
	.start = start,
	.begin = begin,
	.end = end,
	.weighed = weighed,
};
