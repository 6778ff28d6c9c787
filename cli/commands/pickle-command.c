/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the pickles of a file without loading them.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/pickle.h>

#include "args/parse.h"
#include "shared/recordings.h"
#include "shared/stored-values.h"
#include "render/record.h"
#include "session/session.h"

struct pickle_options {
	bool globals, tree, check;
	const char *member;
};

struct pickle_listing {
	const struct fsdp_pickles *pickles;
	size_t count; /* of streams */
	bool globals, tree, check;
	struct fsdp_pickles_walk *walk; /* of the tree that is written, or NULL */
};

/* Bytes of an argument that are shown. */
enum { PICKLE_SHOWN = 64, PICKLE_TEXT = 2 * PICKLE_SHOWN + 8 };

/* ---- machine output of `pickle`: an object per stream ---- */

/* "0x0a1b…" */
static struct text pickle_hex(struct fsdp_span bytes, char buffer[PICKLE_TEXT])
{
	size_t at = (size_t)snprintf(buffer, PICKLE_TEXT, "0x");

	for (size_t i = 0; i < bytes.size && i < PICKLE_SHOWN; i++)
		at += (size_t)snprintf(
			buffer + at, PICKLE_TEXT - at, "%02x", bytes.data[i]);
	if (bytes.size > PICKLE_SHOWN)
		at += (size_t)snprintf(buffer + at, PICKLE_TEXT - at, "...");
	return (struct text){ buffer, at };
}

/* One stream while it is written. */
struct stream {
	struct fsdp_pickles_stream facts;
	struct pickle_listing *listing;
	size_t index;
	/* Where there are lists; NULL: they were not asked for. */
	const struct pickle_listing *globals, *tree, *refusals;
};

/* ---- globals and refusals ---- */

#define GLOBAL struct fsdp_pickles_global
static bool has_other_name(const GLOBAL *global)
{
	return !text_is(text_of_span(global->module),
		       text_of_span(global->written_module)) ||
	       !text_is(text_of_span(global->name), text_of_span(global->written_name));
}

static bool is_mapped(struct subject of)
{
	return has_other_name(of.object);
}

static const void *each_global(struct subject of, size_t i, void *room)
{
	const struct stream *stream = of.object;
	GLOBAL *global = room;

	if (i >= stream->facts.global_count)
		return NULL;
	*global = fsdp_pickles_global(stream->listing->pickles, stream->index, i);
	return global;
}

static const struct record written_record = RECORD_OF(RECORD_OBJECT, GLOBAL,
	{ "written_module", TEXT_AT(GLOBAL, written_module),
		ABOUT("Module as stored in the pickle, if it has another name in Python 3.") },
	{ "written_name", TEXT_AT(GLOBAL, written_name),
		ABOUT("The same of its name.") });
static const char *const USES[] = { "called", "built", "value", NULL };
static const struct record global_record = OBJECT_RECORD(GLOBAL, "pickle_global",
	"A global of a pickle. Nothing was imported.",
	{ "module", TEXT_AT(GLOBAL, module), ALWAYS("Its module.") },
	{ "name", TEXT_AT(GLOBAL, name), ALWAYS("Its name in there.") },
	{ NULL, FIELDS(written_record), .has = is_mapped },
	{ "offset", COUNT_AT(GLOBAL, offset),
		ALWAYS("Byte in the file of the opcode that names it first.") },
	{ "use", WORD_AT(GLOBAL, use), .always = true, .words = USES,
		ABOUT("Whether it is called, makes an object, or is only referenced.") },
	{ "allowed", BOOL_AT(GLOBAL, allowed),
		ALWAYS("Whether it is on the list of known data.") },
	{ "profile", WORD_AT(GLOBAL, profile),
		ABOUT("Package that allows it: `torch` always, `dtensor` once torch.distributed.tensor is imported.") });

/* A global with the pickle that it is of. */
struct global_row {
	struct fsdp_span member;
	GLOBAL global;
};

static const struct record row_record = RECORD_OF(RECORD_OBJECT, struct global_row,
	{ "member", TEXT_AT(struct global_row, member) },
	{ "offset", COUNT_AT(struct global_row, global.offset) },
	{ "use", WORD_AT(struct global_row, global.use) },
	{ "profile", WORD_AT(struct global_row, global.profile) },
	{ "module", TEXT_AT(struct global_row, global.module) },
	{ "name", TEXT_AT(struct global_row, global.name) },
	{ "allowed", BOOL_AT(struct global_row, global.allowed) });

#define REFUSAL struct fsdp_pickles_refusal
static const void *each_refusal(struct subject of, size_t i, void *room)
{
	const struct stream *stream = of.object;
	REFUSAL *refusal = room;

	if (i >= stream->facts.refusal_count)
		return NULL;
	*refusal = fsdp_pickles_refusal(stream->listing->pickles, stream->index, i);
	return refusal;
}

static const struct record refusal_record = OBJECT_RECORD(REFUSAL, "refusal",
	"An item that torch.load(weights_only=True) would refuse.",
	{ "offset", COUNT_AT(REFUSAL, offset),
		ALWAYS("Byte in the file, of an opcode its first use.") },
	{ "what", TEXT_AT(REFUSAL, what),
		ALWAYS("Opcode, or module and name of a global.") },
	{ "why", WORD_AT(REFUSAL, why), ALWAYS("Why, or what would make it accepted.") },
	{ "count", COUNT_AT(REFUSAL, count), ALWAYS("Number of uses of the opcode.") });

/* A value of the tree. */
struct node {
	struct fsdp_pickles_node node;
	char text[PICKLE_TEXT];
};

static void release_walk(void *object)
{
	struct pickle_listing *listing = object;

	fsdp_pickles_walk_free(listing->walk);
}

/* Begins with the values of a stream. */
static void walk(struct pickle_listing *listing, size_t stream)
{
	fsdp_pickles_walk_free(listing->walk);
	listing->walk = NULL;
	if (!fsdp_pickles_walk_new(listing->pickles, stream, &listing->walk, NULL))
		memory_fail();
}

static const void *each_node(struct subject of, size_t i, void *room)
{
	const struct stream *stream = of.object;
	struct pickle_listing *listing = stream->listing;
	struct node *node = room;

	if (i == 0) {
		walk(listing, stream->index);
	}
	return fsdp_pickles_walk_next(listing->walk, &node->node) ? node : NULL;
}

static const char *kind_name(unsigned kind)
{
	return fsdp_pickles_kind_name((enum fsdp_pickles_kind)kind);
}

static struct value get_value(struct subject of)
{
	struct node *one = (struct node *)(uintptr_t)of.object;
	const struct fsdp_pickles_node *node = &one->node;

	if (node->kind == FSDP_PICKLES_NONE)
		return value_null();
	if (node->kind == FSDP_PICKLES_BOOL)
		return value_bool(node->integer != 0);
	if (node->kind == FSDP_PICKLES_INTEGER)
		return value_integer(node->integer);
	if (node->kind == FSDP_PICKLES_FLOAT)
		return value_number(node->number);
	if (node->kind == FSDP_PICKLES_TEXT || node->kind == FSDP_PICKLES_GLOBAL)
		return value_text(text_of_span(node->text));
	if (node->kind == FSDP_PICKLES_BYTES || node->kind == FSDP_PICKLES_BIG_INTEGER)
		return value_text(pickle_hex(node->text, one->text));
	return value_absent();
}

GETTER(get_id, struct node,
	one->node.number_of > 0 ? value_id(one->node.number_of) : value_absent())

static bool has_items(enum fsdp_pickles_kind kind)
{
	return kind == FSDP_PICKLES_TUPLE || kind == FSDP_PICKLES_LIST ||
	       kind == FSDP_PICKLES_SET || kind == FSDP_PICKLES_DICT ||
	       kind == FSDP_PICKLES_CALL;
}

static struct value get_count(struct subject of)
{
	const struct fsdp_pickles_node *node = &((const struct node *)of.object)->node;

	return has_items(node->kind) ? value_count(node->count) : value_absent();
}

#define NODE struct node
static const struct record node_record = OBJECT_RECORD(NODE, "pickle_node",
	"A value that the pickle builds. Its items follow it, one level deeper.",
	{ "depth", ID_AT(NODE, node.depth), ALWAYS("Level below the topmost value.") },
	{ "role", WORD_AT(NODE, node.role),
		.words = (const char *const[]){ "item", "key", "value", "function",
			"arguments", "keywords", "state", "id", NULL },
		ABOUT("Its key or index in the value that contains it.") },
	{ "kind", ENUM_AT(NODE, node.kind, kind_name),
		ALWAYS("Its kind; `shared` and `cycle` mark a value that occurred before, `cut` one that is nested too deeply.") },
	{ "value", GET(FIELD_ANY, get_value),
		ABOUT("A plain value; of bytes the first 64 in hexadecimal; of a global its module and name.") },
	{ "count", GET(FIELD_COUNT, get_count),
		ABOUT("Number of items, of a dict and of a call pairs.") },
	{ "id", GET(FIELD_COUNT, get_id),
		ABOUT("Number by which a `shared` or a `cycle` refers to it.") });

GETTER(get_protocol, struct stream,
	one->facts.protocol < 0 ? value_null() : value_integer(one->facts.protocol))

static const void *each_stream(struct subject of, size_t i, void *room)
{
	struct pickle_listing *listing = (struct pickle_listing *)(uintptr_t)of.context;
	struct stream *stream = room;
	const struct pickle_listing *shown = listing;

	if (i >= listing->count)
		return NULL;
	*stream = (struct stream){
		.facts = fsdp_pickles_stream(listing->pickles, i),
		.listing = listing,
		.index = i,
		.globals = listing->globals ? shown : NULL,
		.tree = listing->tree ? shown : NULL,
		.refusals = listing->check ? shown : NULL,
	};
	return stream;
}

#define STREAM struct stream
static const struct record stream_record = OBJECT_RECORD(STREAM, "pickle_stream",
	"One pickle of the file.",
	{ "member", TEXT_AT(STREAM, facts.member), ABOUT("Member of the zip.") },
	{ "offset", COUNT_AT(STREAM, facts.offset),
		ALWAYS("Its first byte in the file; of a deflated member where that begins.") },
	{ "length", COUNT_AT(STREAM, facts.length),
		ALWAYS("Bytes up to STOP, or all there are.") },
	{ "protocol", GET(FIELD_INTEGER, get_protocol), .always = true, .null = true,
		ABOUT("Protocol that it declares; null if it declares none.") },
	{ "complete", BOOL_AT(STREAM, facts.complete),
		ALWAYS("Whether it was read up to STOP.") },
	{ "globals", EACH(each_global, global_record), IF_SET(STREAM, globals),
		ABOUT("Its globals.") },
	{ "tree", EACH(each_node, node_record), IF_SET(STREAM, tree),
		ABOUT("The values that it builds, in pre-order.") },
	{ "refusals", EACH(each_refusal, refusal_record), IF_SET(STREAM, refusals),
		ABOUT("With --check: what torch would refuse.") });

static const struct record pickle_record = OBJECT_RECORD(struct pickle_listing, NULL,
	"The pickles of a file.",
	{ "streams", EACH_ITEM(struct pickle_listing, count, each_stream, stream_record),
		ALWAYS("The pickles, in order of the file.") });

/* ---- what `pickle` says to people ---- */

/* Bytes of a text that one line shows. */
enum { LINE_TEXT = 200 };

static void print_text(struct out *out, struct fsdp_span text)
{
	struct text shown = text_of_span(text);
	bool cut = shown.size > LINE_TEXT;

	if (cut)
		shown.size = LINE_TEXT;
	out_line_name(out, shown);
	if (cut)
		out_line_text(out, "...");
}

/* ---- globals and refusals ---- */

static void print_name(struct out *out, struct fsdp_span module, struct fsdp_span name)
{
	print_text(out, module);
	out_line_text(out, ".");
	print_text(out, name);
}

static void show_globals(struct out *out, const struct pickle_listing *listing,
	size_t stream, size_t count)
{
	FOR_EACH(i, count, global, fsdp_pickles_global(listing->pickles, stream, i)) {
		out_line_begin(out, NULL);
		out_line_text(out, "%10" PRIu64 "  %-6s  %-11s  ", global.offset,
			global.use, global.profile != NULL ? global.profile : "UNKNOWN");
		print_name(out, global.module, global.name);
		if (has_other_name(&global)) {
			out_line_text(out, " (written ");
			print_name(out, global.written_module, global.written_name);
			out_line_text(out, ")");
		}
		out_line_end(out);
	}
}

static void show_node(struct out *out, const struct fsdp_pickles_node *node)
{
	char buffer[PICKLE_TEXT];
	struct text hex;

	out_line_begin(out, NULL);
	out_line_text(out, "%*s", 2 + 2 * (int)node->depth, "");
	if (node->role != NULL)
		out_line_text(out, "%s: ", node->role);
	if (node->kind == FSDP_PICKLES_INTEGER) {
		out_line_text(out, "%" PRId64, node->integer);
	} else if (node->kind == FSDP_PICKLES_BOOL) {
		out_line_text(out, node->integer != 0 ? "True" : "False");
	} else if (node->kind == FSDP_PICKLES_FLOAT) {
		size_t size = number_text(node->number, buffer, sizeof buffer);
		out_line_text(out, "%.*s", (int)size, buffer);
	} else if (node->kind == FSDP_PICKLES_TEXT) {
		out_line_text(out, "\"");
		print_text(out, node->text);
		out_line_text(out, "\"");
	} else if (node->kind == FSDP_PICKLES_GLOBAL) {
		print_text(out, node->text);
	} else if (node->kind == FSDP_PICKLES_BYTES ||
		   node->kind == FSDP_PICKLES_BIG_INTEGER) {
		hex = pickle_hex(node->text, buffer);
		out_line_text(
			out, "%zu bytes %.*s", node->text.size, (int)hex.size, hex.data);
	} else {
		out_line_text(out, "%s", fsdp_pickles_kind_name(node->kind));
	}
	if (has_items(node->kind) && node->count > 0)
		out_line_text(out, " of %" PRIu64, node->count);
	if (node->number_of > 0)
		out_line_text(out, " #%" PRIu32, node->number_of);
	out_line_end(out);
}

/* The answer for people. */
static void pickle_text(struct run *run, struct pickle_listing *listing)
{
	struct out *out = run->out;
	FOR_EACH(i, listing->count, facts, fsdp_pickles_stream(listing->pickles, i)) {
		out_line_begin(run->out, NULL);
		if (facts.member.data != NULL)
			print_text(run->out, facts.member);
		else
			out_line_text(run->out, "pickle %zu", i);
		if (facts.protocol >= 0)
			out_line_text(run->out, ": protocol %d, ", facts.protocol);
		else
			out_line_text(run->out, ": no protocol, ");
		out_line_text(run->out, "%" PRIu64 " bytes at %" PRIu64 "%s",
			facts.length, facts.offset, facts.complete ? "" : ", incomplete");
		out_line_end(run->out);
		if (listing->globals)
			show_globals(run->out, listing, i, facts.global_count);
		if (listing->tree) {
			struct fsdp_pickles_node node;

			walk(listing, i);
			while (fsdp_pickles_walk_next(listing->walk, &node))
				show_node(out, &node);
		}
		if (listing->check && facts.refusal_count == 0)
			out_line(out, NULL,
				"  torch.load(weights_only=True) accepts what it names and every opcode");
		for (size_t k = 0; listing->check && k < facts.refusal_count; k++) {
			struct fsdp_pickles_refusal refusal =
				fsdp_pickles_refusal(listing->pickles, i, k);

			out_line_begin(out, NULL);
			out_line_text(out, "%10" PRIu64 "  refused: ", refusal.offset);
			print_text(out, refusal.what);
			if (refusal.count > 1)
				out_line_text(out, " (%" PRIu64 " times)", refusal.count);
			out_line_text(out, ": %s", refusal.why);
			out_line_end(out);
		}
	}
}

#define AT(member) offsetof(struct pickle_options, member)
static const struct option_row OPTIONS[] = {
	{ "globals", 0, OPTION_FLAG, NULL, AT(globals),
		.help = "list globals and their use (default)" },
	{ "tree", 0, OPTION_FLAG, NULL, AT(tree),
		.help = "print the values, without looking up globals" },
	{ "member", 0, OPTION_TEXT, "NAME", AT(member),
		.help = "only this member of a zip" },
	{ "check", 0, OPTION_FLAG, NULL, AT(check),
		.help = "list globals that torch.load(weights_only=True) refuses" },
	{ NULL },
};

static void answer(struct run *run, const struct fsdp_pickles *pickles)
{
	const struct pickle_options *options = run->options;
	struct pickle_listing *listing = run_memory(run, 1, sizeof *listing);
	size_t refusals = 0;

	*listing = (struct pickle_listing){
		.pickles = pickles,
		.count = fsdp_pickles_count(pickles),
		.globals = options->globals || !options->tree,
		.tree = options->tree,
		.check = options->check,
	};
	run_owns(run, listing, release_walk);
	if (options->check &&
		text_is(text_last(text_of(run->path), '/'), text_of(".metadata")))
		run_note(run,
			"distributed checkpoints read .metadata with pickle.load, which refuses nothing");
	FOR_EACH(i, listing->count, stream, fsdp_pickles_stream(pickles, i)) {
		refusals += stream.refusal_count;
		/* A pickle that ends too early is listed as far as it goes. */
		if (stream.error != NULL)
			run_failure(run,
				fsdp_error_code_name(fsdp_error_code(stream.error)), NULL,
				"%.*s%s%s",
				(int)(stream.member.size < 256 ? stream.member.size
							       : 256),
				stream.member.data != NULL
					? (const char *)stream.member.data
					: "",
				stream.member.data != NULL ? ": " : "",
				fsdp_error_message(stream.error));
	}
	run_begin(run, options->check && refusals > 0 ? STATUS_BAD : STATUS_GOOD);
	pickle_text(run, listing);
	out_fields(run->out, &pickle_record, (struct subject){ listing, listing });
	/* What they name, for outputs of rows alone. */
	static const struct table LIKE = {
		.key = "globals", .main = true, .rows_only = true
	};
	struct record_table table;
	record_table_init(&table, &LIKE, &row_record, NULL);
	out_records_begin(run->out, &table);
	FOR_EACH(i, listing->count, stream, fsdp_pickles_stream(pickles, i)) {
		for (size_t k = 0; k < stream.global_count; k++) {
			struct global_row row = { stream.member,
				fsdp_pickles_global(pickles, i, k) };

			out_records_row(run->out, &table, &row);
		}
	}
	out_table_end(run->out);
}

/* Whether a file begins with a pickle of protocol 2 or later, or is a zip archive. */
static bool may_have_pickle(const char *path)
{
	unsigned char head[4] = { 0 };
	FILE *file = fopen(path, "re");
	size_t size = file != NULL ? fread(head, 1, sizeof head, file) : 0;

	if (file != NULL)
		fclose(file);
	return size == sizeof head &&
	       ((head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) ||
		       memcmp(head, "PK\3\4", 4) == 0);
}

/* A directory has many files: names the first one with a pickle. Names that start with a
 * dot are skipped, except the metadata of a checkpoint. */
static void refuse_folder(struct run *run)
{
	struct trace_paths files = { 0 };
	const char *first = NULL;
	char text[PATH_MAX + 64];
	struct stat found;
	int size = snprintf(text, PATH_MAX, "%s/.metadata", run->path);

	if (size > 0 && size < PATH_MAX &&
		(helper_kind(text) == FSDP_REMOTE_FILE || stat(text, &found) == 0))
		trace_paths_add(&files, text);
	trace_paths_add(&files, run->path);
	for (size_t i = 0; first == NULL && i < files.count; i++)
		if (helper_kind(files.items[i]) == FSDP_REMOTE_FILE ||
			(stat(files.items[i], &found) == 0 && S_ISREG(found.st_mode) &&
				may_have_pickle(files.items[i])))
			first = files.items[i];
	snprintf(text, sizeof text, "fsdp-inspect pickle %s", first != NULL ? first : "");
	if (first == NULL)
		run_refuse(run, "give a file", "%s is a directory without a pickle",
			run->path);
	run_refuse(run, text, "%s is a directory: pickle lists one file", run->path);
}

RELEASE(release_pickles, fsdp_pickles_free)

static void run_pickle(struct run *run)
{
	const struct pickle_options *options = run->options;
	const struct fsdp_pickles_options opening = {
		.size = sizeof opening,
		.member = options->member,
		.limits = run->limits,
		.limit_count = run->limit_count,
		.remote = run->remote,
	};
	struct fsdp_pickles *pickles;

	if (run->path_count != 1)
		run_refuse(run, "run it once for each", "pickle takes one file");
	if (path_is_folder(run->path))
		refuse_folder(run);
	run_must(run, fsdp_pickles_open(run->path, &opening, &pickles, &run->error));
	run_owns(run, pickles, release_pickles);
	answer(run, pickles);
}

const struct command command_pickle = {
	.name = "pickle",
	.group = GROUP_BYTES,
	.summary = "show globals and values of a pickle",
	.synopsis = "[--globals | --tree] [--member=NAME] [--check] FILE",
	.examples = { "pickle model.pt", "pickle --check model.pt",
		"pickle --tree step-1000/.metadata" },
	.exit_1 = "with --check: torch.load(weights_only=True) would refuse the file",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &pickle_record,
	.output = "text",
	.inputs = INPUTS_FILE,
	.options_size = sizeof(struct pickle_options),
	.perform = run_pickle,
};
