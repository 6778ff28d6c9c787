/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `pickle` says to people.
 */
#include <inttypes.h>

#include "cmd/pickle/listing.h"
#include "part/value-text.h"
#include "session/session.h"

/* Bytes of a text that one line shows. */
enum { LINE_TEXT = 200 };

static void put_text(struct out *out, struct fsdp_span text)
{
	struct text shown = text_of_span(text);
	bool cut = shown.size > LINE_TEXT;

	if (cut)
		shown.size = LINE_TEXT;
	out_line_name(out, shown);
	if (cut)
		out_line_text(out, "...");
}

static void put_value(struct out *out, enum fsdp_pickles_kind kind, int64_t integer,
	double number, struct fsdp_span text)
{
	char buffer[PICKLE_TEXT];
	struct text hex;

	if (kind == FSDP_PICKLES_INTEGER) {
		out_line_text(out, "%" PRId64, integer);
	} else if (kind == FSDP_PICKLES_BOOL) {
		out_line_text(out, integer != 0 ? "True" : "False");
	} else if (kind == FSDP_PICKLES_FLOAT) {
		size_t size = number_text(number, buffer, sizeof buffer);
		out_line_text(out, "%.*s", (int)size, buffer);
	} else if (kind == FSDP_PICKLES_TEXT) {
		out_line_text(out, "\"");
		put_text(out, text);
		out_line_text(out, "\"");
	} else if (kind == FSDP_PICKLES_GLOBAL) {
		put_text(out, text);
	} else if (kind == FSDP_PICKLES_BYTES || kind == FSDP_PICKLES_BIG_INTEGER) {
		hex = pickle_hex(text, buffer);
		out_line_text(out, "%zu bytes %.*s", text.size, (int)hex.size, hex.data);
	} else {
		out_line_text(out, "%s", fsdp_pickles_kind_name(kind));
	}
}

/* ---- globals and refusals ---- */

static void put_name(struct out *out, struct fsdp_span module, struct fsdp_span name)
{
	put_text(out, module);
	out_line_text(out, ".");
	put_text(out, name);
}

static void show_global(struct out *out, const struct fsdp_pickles_global *global)
{
	out_line_begin(out, NULL);
	out_line_text(out, "%10" PRIu64 "  %-6s  %-11s  ", global->offset, global->use,
		global->profile != NULL ? global->profile : "UNKNOWN");
	put_name(out, global->module, global->name);
	if (!text_is(
		    text_of_span(global->module), text_of_span(global->written_module)) ||
		!text_is(
			text_of_span(global->name), text_of_span(global->written_name))) {
		out_line_text(out, " (written ");
		put_name(out, global->written_module, global->written_name);
		out_line_text(out, ")");
	}
	out_line_end(out);
}

static void show_globals(struct out *out, const struct pickle_listing *listing,
	size_t stream, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct fsdp_pickles_global global =
			fsdp_pickles_global(listing->pickles, stream, i);
		show_global(out, &global);
	}
}

static void show_refusals(struct out *out, const struct pickle_listing *listing,
	size_t stream, size_t count)
{
	if (count == 0)
		out_line(out, NULL,
			"  torch.load(weights_only=True) accepts what it names and every opcode");
	for (size_t i = 0; i < count; i++) {
		struct fsdp_pickles_refusal refusal =
			fsdp_pickles_refusal(listing->pickles, stream, i);
		out_line_begin(out, NULL);
		out_line_text(out, "%10" PRIu64 "  refused: ", refusal.offset);
		put_text(out, refusal.what);
		if (refusal.count > 1)
			out_line_text(out, " (%" PRIu64 " times)", refusal.count);
		out_line_text(out, ": %s", refusal.why);
		out_line_end(out);
	}
}

static bool holds_items(enum fsdp_pickles_kind kind)
{
	return kind == FSDP_PICKLES_TUPLE || kind == FSDP_PICKLES_LIST ||
	       kind == FSDP_PICKLES_SET || kind == FSDP_PICKLES_DICT ||
	       kind == FSDP_PICKLES_CALL;
}

static void show_node(struct out *out, const struct fsdp_pickles_node *node)
{
	out_line_begin(out, NULL);
	out_line_text(out, "%*s", 2 + 2 * (int)node->depth, "");
	if (node->role != NULL)
		out_line_text(out, "%s: ", node->role);
	put_value(out, node->kind, node->integer, node->number, node->text);
	if (holds_items(node->kind) && node->count > 0)
		out_line_text(out, " of %" PRIu64, node->count);
	if (node->number_of > 0)
		out_line_text(out, " #%" PRIu32, node->number_of);
	out_line_end(out);
}

static void show_tree(struct out *out, struct pickle_listing *listing, size_t stream)
{
	struct fsdp_pickles_walk *walk = NULL;
	struct fsdp_pickles_node node;

	if (!fsdp_pickles_walk_new(listing->pickles, stream, &walk, NULL)) {
		listing->failed = true;
		return;
	}
	while (fsdp_pickles_walk_next(walk, &node))
		show_node(out, &node);
	fsdp_pickles_walk_free(walk);
}

static void show_head(struct out *out, const struct fsdp_pickles_stream *facts, size_t i)
{
	out_line_begin(out, NULL);
	if (facts->member.data != NULL)
		put_text(out, facts->member);
	else
		out_line_text(out, "pickle %zu", i);
	if (facts->protocol >= 0)
		out_line_text(out, ": protocol %d, ", facts->protocol);
	else
		out_line_text(out, ": no protocol, ");
	out_line_text(out, "%" PRIu64 " bytes at %" PRIu64 "%s", facts->length,
		facts->offset, facts->complete ? "" : ", incomplete");
	out_line_end(out);
}

void pickle_text(struct run *run, struct pickle_listing *listing)
{
	for (size_t i = 0; i < listing->count; i++) {
		struct fsdp_pickles_stream facts =
			fsdp_pickles_stream(listing->pickles, i);

		show_head(run->out, &facts, i);
		if (listing->globals)
			show_globals(run->out, listing, i, facts.global_count);
		if (listing->tree)
			show_tree(run->out, listing, i);
		if (listing->check)
			show_refusals(run->out, listing, i, facts.refusal_count);
	}
}
