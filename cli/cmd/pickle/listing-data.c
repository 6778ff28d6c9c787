/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine output of `pickle`: an object per stream.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/pickle/listing.h"
#include "session/session.h"

struct text pickle_hex(struct fsdp_span bytes, char buffer[PICKLE_TEXT])
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

/* A value of the tree. */
struct shown {
	enum fsdp_pickles_kind kind;
	int64_t integer;
	double number;
	struct fsdp_span text;
	char buffer[PICKLE_TEXT];
};

static struct value value_of(struct shown *shown)
{
	switch (shown->kind) {
	case FSDP_PICKLES_NONE:
		return value_null();
	case FSDP_PICKLES_BOOL:
		return value_bool(shown->integer != 0);
	case FSDP_PICKLES_INTEGER:
		return value_integer(shown->integer);
	case FSDP_PICKLES_FLOAT:
		return value_number(shown->number);
	case FSDP_PICKLES_TEXT:
	case FSDP_PICKLES_GLOBAL:
		return value_text(text_of_span(shown->text));
	case FSDP_PICKLES_BYTES:
	case FSDP_PICKLES_BIG_INTEGER:
		return value_text(pickle_hex(shown->text, shown->buffer));
	case FSDP_PICKLES_ABSENT:
	case FSDP_PICKLES_TUPLE:
	case FSDP_PICKLES_LIST:
	case FSDP_PICKLES_SET:
	case FSDP_PICKLES_DICT:
	case FSDP_PICKLES_CALL:
	case FSDP_PICKLES_PERSISTENT:
	case FSDP_PICKLES_BUFFER:
	case FSDP_PICKLES_SHARED:
	case FSDP_PICKLES_CYCLE:
	case FSDP_PICKLES_CUT:
	case FSDP_PICKLES_KIND_COUNT:
		break;
	}
	return value_absent();
}

/* ---- globals and refusals ---- */

#define GLOBAL struct fsdp_pickles_global
static bool is_mapped(struct subject of)
{
	const GLOBAL *global = of.object;

	return !text_is(text_of_span(global->module),
		       text_of_span(global->written_module)) ||
	       !text_is(text_of_span(global->name), text_of_span(global->written_name));
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
	"What a pickle names. Nothing was imported.",
	{ "module", TEXT_AT(GLOBAL, module), .always = true, ABOUT("Its module.") },
	{ "name", TEXT_AT(GLOBAL, name), .always = true, ABOUT("Its name in there.") },
	{ NULL, FIELDS(written_record), .has = is_mapped },
	{ "offset", COUNT_AT(GLOBAL, offset), .always = true,
		ABOUT("Byte in the file of the opcode that names it first.") },
	{ "use", WORD_AT(GLOBAL, use), .always = true, .words = USES,
		ABOUT("Whether it is called, makes an object, or is only referenced.") },
	{ "allowed", BOOL_AT(GLOBAL, allowed), .always = true,
		ABOUT("Whether it is on the list of known data.") },
	{ "profile", WORD_AT(GLOBAL, profile),
		ABOUT("Whose data that is: `torch` takes it as it is, `dtensor` once torch.distributed.tensor is imported.") });

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

void pickle_rows(struct out *out, struct pickle_listing *listing)
{
	static const struct table LIKE = {
		.key = "globals", .main = true, .rows_only = true
	};
	struct record_table table;

	record_table_init(&table, &LIKE, &row_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < listing->count; i++) {
		struct fsdp_pickles_stream stream =
			fsdp_pickles_stream(listing->pickles, i);

		for (size_t k = 0; k < stream.global_count; k++) {
			struct global_row row = { stream.member,
				fsdp_pickles_global(listing->pickles, i, k) };

			out_records_row(out, &table, &row);
		}
	}
	out_table_end(out);
}

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
	"What torch.load(weights_only=True) would not accept.",
	{ "offset", COUNT_AT(REFUSAL, offset), .always = true,
		ABOUT("Byte in the file, of an opcode its first use.") },
	{ "what", TEXT_AT(REFUSAL, what), .always = true,
		ABOUT("Opcode, or module and name of a global.") },
	{ "why", WORD_AT(REFUSAL, why), .always = true,
		ABOUT("Why, or what would make it accepted.") },
	{ "count", COUNT_AT(REFUSAL, count), .always = true,
		ABOUT("Number of uses of the opcode.") });

struct node {
	struct fsdp_pickles_node node;
	struct shown value;
};

static const void *each_node(struct subject of, size_t i, void *room)
{
	const struct stream *stream = of.object;
	struct pickle_listing *listing = stream->listing;
	struct node *node = room;

	if (i == 0) {
		fsdp_pickles_walk_free(listing->walk);
		listing->walk = NULL;
		listing->failed |= !fsdp_pickles_walk_new(
			listing->pickles, stream->index, &listing->walk, NULL);
	}
	if (listing->walk == NULL || !fsdp_pickles_walk_next(listing->walk, &node->node))
		return NULL;
	node->value = (struct shown){ .kind = node->node.kind,
		.integer = node->node.integer,
		.number = node->node.number,
		.text = node->node.text };
	return node;
}

static const char *kind_name(unsigned kind)
{
	return fsdp_pickles_kind_name((enum fsdp_pickles_kind)kind);
}

static struct value get_value(struct subject of)
{
	struct node *node = (struct node *)(uintptr_t)of.object;

	return value_of(&node->value);
}

static struct value get_id(struct subject of)
{
	const struct node *node = of.object;

	return node->node.number_of > 0 ? value_id(node->node.number_of) : value_absent();
}

static struct value get_count(struct subject of)
{
	const struct node *node = of.object;
	enum fsdp_pickles_kind kind = node->node.kind;
	bool holds = kind == FSDP_PICKLES_TUPLE || kind == FSDP_PICKLES_LIST ||
		     kind == FSDP_PICKLES_SET || kind == FSDP_PICKLES_DICT ||
		     kind == FSDP_PICKLES_CALL;

	return holds ? value_count(node->node.count) : value_absent();
}

#define NODE struct node
static const struct record node_record = OBJECT_RECORD(NODE, "pickle_node",
	"A value that the pickle builds. Its items follow it, one level deeper.",
	{ "depth", ID_AT(NODE, node.depth), .always = true,
		ABOUT("Level below the topmost value.") },
	{ "role", WORD_AT(NODE, node.role),
		.words = (const char *const[]){ "item", "key", "value", "function",
			"arguments", "keywords", "state", "id", NULL },
		ABOUT("Its key or index in the value that contains it.") },
	{ "kind", ENUM_AT(NODE, node.kind, kind_name), .always = true,
		ABOUT("Its kind; `shared` and `cycle` mark a value that occurred before, `cut` one that is nested too deeply.") },
	{ "value", GET(FIELD_ANY, get_value),
		ABOUT("A plain value; of bytes the first 64 in hexadecimal; of a global its module and name.") },
	{ "count", GET(FIELD_COUNT, get_count),
		ABOUT("Number of items, of a dict and of a call pairs.") },
	{ "id", GET(FIELD_COUNT, get_id),
		ABOUT("Number by which a `shared` or a `cycle` refers to it.") });

static struct value get_protocol(struct subject of)
{
	const struct stream *stream = of.object;

	return stream->facts.protocol < 0 ? value_null()
					  : value_integer(stream->facts.protocol);
}

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
	{ "offset", COUNT_AT(STREAM, facts.offset), .always = true,
		ABOUT("Its first byte in the file; of a deflated member where that begins.") },
	{ "length", COUNT_AT(STREAM, facts.length), .always = true,
		ABOUT("Bytes up to STOP, or all there are.") },
	{ "protocol", GET(FIELD_INTEGER, get_protocol), .always = true, .null = true,
		ABOUT("Protocol that it declares; null if it declares none.") },
	{ "complete", BOOL_AT(STREAM, facts.complete), .always = true,
		ABOUT("Whether it was read up to STOP.") },
	{ "globals", EACH(each_global, global_record), IF_SET(STREAM, globals),
		ABOUT("What it names.") },
	{ "tree", EACH(each_node, node_record), IF_SET(STREAM, tree),
		ABOUT("The values that it builds, in pre-order.") },
	{ "refusals", EACH(each_refusal, refusal_record), IF_SET(STREAM, refusals),
		ABOUT("With --check: what torch would refuse.") });

const struct record pickle_record = OBJECT_RECORD(struct pickle_listing, NULL,
	"The pickles of a file.",
	{ "streams", EACH_ITEM(struct pickle_listing, count, each_stream, stream_record),
		.always = true, ABOUT("The pickles, in order of the file.") });
