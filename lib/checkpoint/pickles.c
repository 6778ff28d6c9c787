/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the pickles of a file: opens it, finds them, keeps of each what it names and what
 * torch would refuse of it; walks the values that one builds.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "io/zip.h"
#include "checkpoint/opening.h"

/*
 * The outermost value of a torch.save file, as Python would have it: loaders of weights
 * ask for a dict of tensors and fail in their own ways if it is none.
 */

/* Streams of torch.save before 1.6: magic number, version, machine, values, keys. */
enum { LEGACY_STREAMS = 5, LEGACY_VALUES = 3 };

static const struct fsdp_pickle *find_values(const struct fsdp_pickles *pickles)
{
	size_t count = fsdp_pickles_count(pickles);
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_ends(fsdp_listed(pickles, i)->facts.member,
			    FSDP_SPAN("/data.pkl")))
			return fsdp_listed(pickles, i)->pickle;
	return count == LEGACY_STREAMS ? fsdp_listed(pickles, LEGACY_VALUES)->pickle
	       : count == 1            ? fsdp_listed(pickles, 0)->pickle
				       : NULL;
}

/* The global that is called; NULL: it is not a call. */
static const struct fsdp_pickle_global *maker_of(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	return fsdp_pickle_kind(pickle, ref) == FSDP_PICKLE_CALL
		       ? fsdp_pickle_named(pickle, ref)
		       : NULL;
}

/* The functions of torch that make tensors again. */
static bool is_tensor(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct fsdp_pickle_global *made = maker_of(pickle, ref);
	return made != NULL && fsdp_span_begins(made->module, FSDP_SPAN("torch")) &&
	       fsdp_span_begins(made->name, FSDP_SPAN("_rebuild"));
}

/* Classes that the restricted loader makes, as they are called. */
static const struct known_class {
	const char *module, *name, *shown;
	bool is_dict;
} classes[] = {
	{ "collections", "OrderedDict", "collections.OrderedDict", true },
	{ "collections", "defaultdict", "collections.defaultdict", true },
	{ "builtins", "set", "set", false },
	{ "builtins", "complex", "complex", false },
	{ "builtins", "bytearray", "bytearray", false },
	{ "_codecs", "encode", "bytes", false },
	{ "torch", "Size", "torch.Size", false },
};

static const struct known_class *find_class(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct fsdp_pickle_global *made = maker_of(pickle, ref);
	for (size_t i = 0; made != NULL && i < FSDP_COUNT(classes); i++)
		if (fsdp_span_is(made->module, classes[i].module) &&
			fsdp_span_is(made->name, classes[i].name))
			return &classes[i];
	return NULL;
}

/* NULL: not known. */
static const char *class_of(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct known_class *known = find_class(pickle, ref);
	if (is_tensor(pickle, ref))
		return fsdp_span_begins(fsdp_pickle_named(pickle, ref)->name,
			       FSDP_SPAN("_rebuild_parameter"))
			       ? "Parameter"
			       : "Tensor";
	return known != NULL ? known->shown : fsdp_pickle_type_name(pickle, ref);
}

/* False: out of memory. */
static bool add_pair(const struct fsdp_pickle *pickle, fsdp_ref key, fsdp_ref value,
	struct fsdp_arena *arena, struct fsdp_scan_root *root)
{
	if (fsdp_pickle_kind(pickle, key) != FSDP_PICKLE_TEXT) {
		if (root->key_class == NULL)
			root->key_class = class_of(pickle, key);
		return true;
	}
	if (root->other_key != NULL || is_tensor(pickle, value))
		return true;
	root->other_key =
		(const char *)fsdp_arena_copy(arena, fsdp_pickle_span(pickle, key)).data;
	return root->other_key != NULL;
}

bool fsdp_pickles_root(const struct fsdp_pickles *pickles, struct fsdp_arena *arena,
	struct fsdp_scan_root *ret_root)
{
	const struct fsdp_pickle *pickle = find_values(pickles);
	fsdp_ref top = pickle != NULL ? fsdp_pickle_top(pickle) : FSDP_REF_NONE;
	*ret_root = (struct fsdp_scan_root){ 0 };
	if (top == FSDP_REF_NONE)
		return true;
	ret_root->is_known = true;
	ret_root->class_name = class_of(pickle, top);
	const struct known_class *known = find_class(pickle, top);
	ret_root->is_dict = fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_DICT ||
			    (known != NULL && known->is_dict);
	ret_root->is_tensor = is_tensor(pickle, top);
	ret_root->count = fsdp_pickle_count(pickle, top);
	struct fsdp_pickle_iterator iterator = { .ref = top };
	fsdp_ref key, value;

	for (bool first = true; fsdp_pickle_next(pickle, &iterator, &key, &value);
		first = false) {
		ret_root->tensors += is_tensor(pickle, value);
		if (first)
			ret_root->first_class = class_of(pickle, value);
		if (key != FSDP_REF_NONE &&
			!add_pair(pickle, key, value, arena, ret_root))
			return false;
	}
	return true;
}

/*
 * Walks the values that a pickle builds, in pre-order. A container is shown where it is
 * met first: later it is only named, so that shared values are not expanded. How deep a
 * walk goes is fixed, so it keeps one frame a level and nothing calls itself.
 */

enum phase { FUNCTION, ARGUMENTS, KEYWORDS, ITEMS, STATES, OVER };

struct unfolding {
	fsdp_ref ref;
	enum phase phase;
	struct fsdp_pickle_iterator iterator;
	fsdp_ref value; /* of the pair whose key was shown; FSDP_REF_NONE */
	size_t state;
};

struct fsdp_pickles_walk {
	const struct fsdp_pickle *pickle;
	struct unfolding frames[FSDP_PICKLES_DEPTH];
	uint32_t depth;    /* frames that are open */
	uint32_t *numbers; /* by identity: in order of the walk, or 0 */
	bool *open;        /* by identity: its frame is open */
	uint32_t last;
	bool begun;
	char *name; /* of a global, with room for the longest */
};

const char *fsdp_pickles_kind_name(enum fsdp_pickles_kind kind)
{
	static const char *const names[] = { "absent", "none", "bool", "integer",
		"big_integer", "float", "text", "bytes", "tuple", "list", "set", "dict",
		"global", "call", "persistent", "buffer", "shared", "cycle", "cut" };
	return (size_t)kind < FSDP_PICKLES_KIND_COUNT ? names[kind] : names[0];
}

static bool has_values(enum fsdp_pickles_kind kind)
{
	return kind == FSDP_PICKLES_TUPLE || kind == FSDP_PICKLES_LIST ||
	       kind == FSDP_PICKLES_SET || kind == FSDP_PICKLES_DICT ||
	       kind == FSDP_PICKLES_CALL || kind == FSDP_PICKLES_PERSISTENT;
}

/* ---- one value ---- */

static size_t name_size(const struct fsdp_pickle_global *global)
{
	return global->module.size + 1 + global->name.size;
}

/* "module.name", in `text`. */
static struct fsdp_span write_name(
	struct fsdp_span module, struct fsdp_span name, char *text)
{
	if (module.size != 0)
		memcpy(text, module.data, module.size);
	text[module.size] = '.';
	if (name.size != 0)
		memcpy(text + module.size + 1, name.data, name.size);
	return fsdp_span(text, module.size + 1 + name.size);
}

static void set_value(
	struct fsdp_pickles_walk *walk, fsdp_ref ref, struct fsdp_pickles_node *node)
{
	const struct fsdp_pickle *pickle = walk->pickle;
	bool truth = false;
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, ref);
	static const enum fsdp_pickles_kind kinds[FSDP_PICKLE_KIND_COUNT] = {
		[FSDP_PICKLE_NOTHING] = FSDP_PICKLES_ABSENT,
		[FSDP_PICKLE_NULL] = FSDP_PICKLES_NONE,
		[FSDP_PICKLE_BOOL] = FSDP_PICKLES_BOOL,
		[FSDP_PICKLE_INTEGER] = FSDP_PICKLES_INTEGER,
		[FSDP_PICKLE_BIG_INTEGER] = FSDP_PICKLES_BIG_INTEGER,
		[FSDP_PICKLE_FLOAT] = FSDP_PICKLES_FLOAT,
		[FSDP_PICKLE_TEXT] = FSDP_PICKLES_TEXT,
		[FSDP_PICKLE_BYTES] = FSDP_PICKLES_BYTES,
		[FSDP_PICKLE_BYTEARRAY] = FSDP_PICKLES_BYTES,
		[FSDP_PICKLE_TUPLE] = FSDP_PICKLES_TUPLE,
		[FSDP_PICKLE_LIST] = FSDP_PICKLES_LIST,
		[FSDP_PICKLE_SET] = FSDP_PICKLES_SET,
		[FSDP_PICKLE_FROZENSET] = FSDP_PICKLES_SET,
		[FSDP_PICKLE_DICT] = FSDP_PICKLES_DICT,
		[FSDP_PICKLE_GLOBAL] = FSDP_PICKLES_GLOBAL,
		[FSDP_PICKLE_PERSISTENT] = FSDP_PICKLES_PERSISTENT,
		[FSDP_PICKLE_CALL] = FSDP_PICKLES_CALL,
		[FSDP_PICKLE_BUFFER] = FSDP_PICKLES_BUFFER,
	};
	node->kind = kinds[kind];
	if (node->kind == FSDP_PICKLES_BOOL && fsdp_pickle_boolean(pickle, ref, &truth))
		node->integer = truth;
	else if (node->kind == FSDP_PICKLES_INTEGER)
		(void)fsdp_pickle_integer(pickle, ref, &node->integer);
	else if (node->kind == FSDP_PICKLES_FLOAT)
		(void)fsdp_pickle_float(pickle, ref, &node->number);
	else if (node->kind == FSDP_PICKLES_GLOBAL) {
		const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
		node->text = write_name(global->module, global->name, walk->name);
	} else if (has_values(node->kind))
		node->count = fsdp_pickle_count(pickle, ref);
	else
		node->text = fsdp_pickle_span(pickle, ref);
}

/* Of a container that is met first a frame is opened. */
static void set_node(struct fsdp_pickles_walk *walk, fsdp_ref ref, const char *role,
	struct fsdp_pickles_node *node)
{
	uint32_t identity = fsdp_pickle_identity(walk->pickle, ref);
	*node = (struct fsdp_pickles_node){ .depth = walk->depth, .role = role };
	set_value(walk, ref, node);
	if (!has_values(node->kind))
		return;
	node->number_of = walk->numbers[identity];
	if (identity != 0 && node->number_of != 0) {
		node->kind =
			walk->open[identity] ? FSDP_PICKLES_CYCLE : FSDP_PICKLES_SHARED;
		return;
	}
	if (walk->depth == FSDP_PICKLES_DEPTH) {
		node->kind = FSDP_PICKLES_CUT;
		return;
	}
	if (identity != 0) {
		node->number_of = walk->numbers[identity] = ++walk->last;
		walk->open[identity] = true;
	}
	walk->frames[walk->depth++] = (struct unfolding){
		.ref = ref,
		.iterator = { .ref = ref },
		.value = FSDP_REF_NONE,
	};
}

/* ---- what follows ---- */

/* A part that there is once: a function, arguments, keywords. */
static bool add_part(struct fsdp_pickles_walk *walk, struct unfolding *frame,
	fsdp_ref part, const char *role, struct fsdp_pickles_node *ret_node)
{
	frame->phase++;
	if (part == FSDP_REF_NONE)
		return false;
	set_node(walk, part, role, ret_node);
	return true;
}

/* False: the frame gave nothing this time. */
static bool step(struct fsdp_pickles_walk *walk, struct unfolding *frame,
	struct fsdp_pickles_node *ret_node)
{
	const struct fsdp_pickle *pickle = walk->pickle;
	bool is_id = fsdp_pickle_kind(pickle, frame->ref) == FSDP_PICKLE_PERSISTENT;
	switch (frame->phase) {
	case FUNCTION:
		return add_part(walk, frame, fsdp_pickle_callable(pickle, frame->ref),
			"function", ret_node);
	case ARGUMENTS:
		return add_part(walk, frame, fsdp_pickle_argument(pickle, frame->ref),
			is_id ? "id" : "arguments", ret_node);
	case KEYWORDS:
		return add_part(walk, frame, fsdp_pickle_keywords(pickle, frame->ref),
			"keywords", ret_node);
	case ITEMS: {
		fsdp_ref key, value = frame->value;
		if (value != FSDP_REF_NONE) {
			frame->value = FSDP_REF_NONE;
			set_node(walk, value, "value", ret_node);
			return true;
		}
		if (!fsdp_pickle_next(walk->pickle, &frame->iterator, &key, &value)) {
			frame->phase = STATES;
			return false;
		}
		if (key == FSDP_REF_NONE) {
			set_node(walk, value, "item", ret_node);
			return true;
		}
		frame->value = value;
		set_node(walk, key, "key", ret_node);
		return true;
	}
	case STATES: {
		fsdp_ref state = fsdp_pickle_state(pickle, frame->ref, frame->state++);
		if (state == FSDP_REF_NONE) {
			frame->phase = OVER;
			return false;
		}
		set_node(walk, state, "state", ret_node);
		return true;
	}
	case OVER:
		break;
	}
	return false;
}

bool fsdp_pickles_walk_next(
	struct fsdp_pickles_walk *walk, struct fsdp_pickles_node *ret_node)
{
	if (!walk->begun) {
		fsdp_ref top = walk->pickle != NULL ? fsdp_pickle_top(walk->pickle)
						    : FSDP_REF_NONE;
		walk->begun = true;
		if (top == FSDP_REF_NONE)
			return false;
		set_node(walk, top, NULL, ret_node);
		return true;
	}
	while (walk->depth != 0) {
		struct unfolding *frame = &walk->frames[walk->depth - 1];
		if (frame->phase == OVER) {
			fsdp_ref ref = walk->frames[--walk->depth].ref;
			walk->open[fsdp_pickle_identity(walk->pickle, ref)] = false;
		} else if (step(walk, frame, ret_node))
			return true;
	}
	return false;
}

bool fsdp_pickles_walk_new(const struct fsdp_pickles *pickles, size_t stream,
	struct fsdp_pickles_walk **ret_walk, struct fsdp_error **ret_error)
{
	const struct fsdp_pickle *pickle = fsdp_listed(pickles, stream)->pickle;
	struct fsdp_pickles_walk *walk = calloc(1, sizeof *walk);
	size_t bound = pickle != NULL ? fsdp_pickle_identity_bound(pickle) : 0;
	size_t globals = pickle != NULL ? fsdp_pickle_global_count(pickle) : 0;
	size_t longest = 1;
	if (walk == NULL)
		return fsdp_fail_memory(ret_error);
	walk->pickle = pickle;
	walk->numbers = calloc(bound + 1, sizeof *walk->numbers);
	walk->open = calloc(bound + 1, sizeof *walk->open);
	for (size_t i = 0; i < globals; i++) {
		size_t size = name_size(fsdp_pickle_global(pickle, i));
		longest = size > longest ? size : longest;
	}
	walk->name = malloc(longest);
	if (walk->numbers == NULL || walk->open == NULL || walk->name == NULL) {
		fsdp_pickles_walk_free(walk);
		return fsdp_fail_memory(ret_error);
	}
	*ret_walk = walk;
	return true;
}

void fsdp_pickles_walk_free(struct fsdp_pickles_walk *walk)
{
	if (walk == NULL)
		return;
	free(walk->numbers);
	free(walk->open);
	free(walk->name);
	free(walk);
}

/* ---- The list ---- */

/* What torch.save wrote before 1.6 begins with these, and has five pickles. */
#define LEGACY "\200\002\212\012l\374\234F\371 j\250P\031."
enum { NAME_ROOM = 4 * FSDP_SHOWN };

/* ---- what torch would refuse ---- */

static bool refuse(struct fsdp_listed *listed, uint64_t offset, struct fsdp_span what,
	const char *why, uint64_t count)
{
	const struct fsdp_pickles_refusal refusal = { offset, what, why, count };
	return fsdp_vec_add(&listed->refusals, &refusal);
}

/* NULL: it is accepted. */
static const char *why_refused(const struct fsdp_pickles_global *global)
{
	static const char *const never[] = { "sys", "os", "posix", "nt" };
	for (size_t i = 0; i < FSDP_COUNT(never); i++)
		if (fsdp_span_is(global->module, never[i]))
			return "names of this module are never allowed";
	if (global->profile == NULL)
		return "it is on no list of known data";
	if (strcmp(global->profile, "torch") == 0)
		return NULL;
	return strcmp(global->profile, "dtensor") == 0
		       ? "it needs import torch.distributed.tensor"
		       : "it needs torch.serialization.add_safe_globals";
}

/* ---- one pickle ---- */

static bool list_globals(struct fsdp_listed *listed, const struct fsdp_torch *torch)
{
	size_t count = fsdp_pickle_global_count(listed->pickle);
	FSDP_EACH(i, count, global, fsdp_pickle_global(listed->pickle, i)) {
		struct fsdp_pickles_global one = {
			.module = global->module,
			.name = global->name,
			.written_module = global->written_module,
			.written_name = global->written_name,
			.offset = listed->facts.offset + global->offset,
			.use = global->uses & FSDP_USE_CALLED  ? "called"
			       : global->uses & FSDP_USE_BUILT ? "built"
							       : "value",
			.profile = fsdp_torch_profile_of(torch, global),
		};
		one.allowed = one.profile != NULL;
		if (!fsdp_vec_add(&listed->globals, &one))
			return false;
	}
	return true;
}

/* Reads it as data: no class is known, so that all of it stays a tree. */
static bool read_tree(struct fsdp_pickles *pickles, struct fsdp_listed *listed,
	struct fsdp_torch *torch, struct fsdp_error **ret_error)
{
	struct fsdp_pickle_options options = {
		.limits = &pickles->limits,
		.findings = &pickles->model.findings,
		.may_trail = true,
	};
	struct fsdp_error *error = NULL;
	fsdp_torch_watch(torch, &options, listed->bytes.size, 0);
	listed->facts.complete = fsdp_pickle_read(
		listed->bytes, &pickles->arena, &options, &listed->pickle, &error);
	if (!listed->facts.complete && fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		*ret_error = error;
		return false;
	}
	listed->error = error;
	if (listed->facts.complete)
		listed->facts.length = fsdp_pickle_length(listed->pickle);
	return true;
}

/* Adds the pickle that begins these bytes, which the arena holds. */
static bool add(struct fsdp_pickles *pickles, struct fsdp_span member,
	struct fsdp_span bytes, uint64_t offset, enum fsdp_profile profile,
	struct fsdp_error **ret_error)
{
	struct fsdp_listed *listed = fsdp_vec_push(&pickles->list);
	struct fsdp_torch torch = { 0 };
	if (listed == NULL)
		return fsdp_arena_fail(&pickles->arena, ret_error);
	*listed = (struct fsdp_listed){
		.facts = { .member = member, .offset = offset, .length = bytes.size },
		.bytes = bytes,
	};
	fsdp_vec_init(
		&listed->globals, &pickles->arena, sizeof(struct fsdp_pickles_global));
	fsdp_vec_init(
		&listed->refusals, &pickles->arena, sizeof(struct fsdp_pickles_refusal));
	bool has_protocol =
		listed->bytes.size >= 2 && listed->bytes.data[0] == FSDP_OP_PROTO;
	listed->facts.protocol = has_protocol ? listed->bytes.data[1] : -1;
	if (!fsdp_torch_init(&torch, &pickles->model, &pickles->arena, &pickles->arena,
		    (struct fsdp_span){ 0 }, member, ret_error))
		return false;
	torch.profile = profile;
	if (!read_tree(pickles, listed, &torch, ret_error))
		return false;
	listed->facts.error = listed->error;
	if ((listed->pickle != NULL && !list_globals(listed, &torch)))
		return fsdp_arena_fail(&pickles->arena, ret_error);
	uint64_t first[UINT8_MAX + 1], count[UINT8_MAX + 1] = { 0 }, at = 0, begin = 0;
	const struct fsdp_pickle_opcode *opcode;
	struct fsdp_span argument;
	while ((opcode = fsdp_pickle_next_opcode(listed->bytes, &at, &argument, NULL)) !=
		NULL) {
		if (!opcode->torch && count[opcode->code]++ == 0)
			first[opcode->code] = begin;
		begin = at;
	}
	for (unsigned i = 0; i <= UINT8_MAX; i++) {
		if (count[i] == 0)
			continue;
		const char *name = fsdp_pickle_opcode((uint8_t)i)->name;
		if (!refuse(listed, listed->facts.offset + first[i], fsdp_span_text(name),
			    "the restricted unpickler does not support this opcode",
			    count[i]))
			return fsdp_arena_fail(&pickles->arena, ret_error);
	}
	FSDP_ITEMS(const struct fsdp_pickles_global, global, &listed->globals) {
		const char *why = why_refused(global);
		if (why == NULL)
			continue;
		char *name = fsdp_arena_take(
			&pickles->arena, global->module.size + global->name.size + 1, 1);
		if (name == NULL ||
			!refuse(listed, global->offset,
				write_name(global->module, global->name, name), why, 1))
			return fsdp_arena_fail(&pickles->arena, ret_error);
	}
	listed->facts.global_count = listed->globals.count;
	return true;
}

/* ---- where they are ---- */

static bool read_zip(struct fsdp_pickles *pickles,
	const struct fsdp_pickles_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_zip zip;
	bool script = false;
	if (!fsdp_zip_open(&pickles->source, &pickles->arena, &pickles->limits,
		    (struct fsdp_span){ 0 }, &pickles->model.findings, &zip, ret_error))
		return false;
	FSDP_EACH(i, zip.members.count, member, fsdp_zip_member(&zip, i))
		script |= fsdp_span_ends(member->name, FSDP_SPAN("/constants.pkl"));
	FSDP_EACH(i, zip.members.count, member, fsdp_zip_member(&zip, i)) {
		struct fsdp_span bytes;
		uint64_t offset;
		bool wanted = options->member != NULL
				      ? fsdp_span_is(member->name, options->member)
				      : fsdp_span_ends(member->name, FSDP_SPAN(".pkl"));
		if (wanted &&
			(!fsdp_zip_locate(&zip.source, member, &offset, ret_error) ||
				!fsdp_zip_read(&zip, member,
					fsdp_limit(&pickles->limits,
						FSDP_LIMIT_PICKLE_BYTES),
					&pickles->arena, &bytes, ret_error) ||
				!add(pickles, member->name, bytes, offset,
					script ? FSDP_PROFILE_SCRIPT
					       : FSDP_PROFILE_TENSORS,
					ret_error)))
			return false;
	}
	if (pickles->list.count == 0)
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			options->member != NULL ? "the zip has no such member"
						: "the zip has no pickle");
	if (!script)
		return true;
	/* TorchScript has its own loader, which weights_only refuses completely. */
	struct fsdp_listed *listed = fsdp_vec_at(&pickles->list, 0);
	return refuse(listed, listed->facts.offset, FSDP_SPAN("TorchScript"),
		       "torch.load passes such a file to a loader that runs its code",
		       1) ||
	       fsdp_arena_fail(&pickles->arena, ret_error);
}

static bool begins_with(struct fsdp_span head, const char *bytes, size_t size)
{
	return fsdp_span_begins(head, fsdp_span(bytes, size));
}

static bool read_file(struct fsdp_pickles *pickles, const char *path,
	const struct fsdp_pickles_options *options, struct fsdp_error **ret_error)
{
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	if (!fsdp_look_at_head(
		    &pickles->source, fsdp_span_text(path), head, &look, ret_error))
		return false;
	if (begins_with(look.head, "PK\3\4", 4))
		return read_zip(pickles, options, ret_error);
	if (options->member != NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"the file is not a zip, so it has no members");
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	if (family == NULL && pickles->source.size != 0)
		return fsdp_foreign(&look, ret_error);
	if (family == NULL || !family->has_pickles)
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			pickles->source.size == 0 ? "the file is empty"
						  : "the file has no pickle");
	/* In order; the storages after those of a legacy file are not pickles. */
	enum fsdp_profile profile =
		fsdp_span_ends(fsdp_span_text(path), FSDP_SPAN(".metadata"))
			? FSDP_PROFILE_METADATA
			: FSDP_PROFILE_TENSORS;
	uint64_t at = 0,
		 most = begins_with(look.head, LEGACY, sizeof LEGACY - 1)
				? LEGACY_STREAMS
				: fsdp_limit(&pickles->limits, FSDP_LIMIT_PICKLE_STREAMS);
	bool whole = true;
	for (uint64_t i = 0; i < most && at < pickles->source.size && whole; i++) {
		struct fsdp_span bytes;
		uint64_t begin = at;
		if (!fsdp_torch_next_pickle(&pickles->source, &at, &pickles->limits,
			    &pickles->arena, &bytes, ret_error) ||
			!add(pickles, (struct fsdp_span){ 0 }, bytes, begin, profile,
				ret_error))
			return false;
		whole = fsdp_listed(pickles, pickles->list.count - 1)->facts.complete;
	}
	return true;
}

/* ---- the object ---- */

static bool begin(struct fsdp_pickles *pickles, const char *path,
	const struct fsdp_pickles_options *options, struct fsdp_error **ret_error)
{
	pickles->source.fd = -1;
	if (!fsdp_limits_choose(
		    &pickles->limits, options->limits, options->limit_count, ret_error))
		return false;
	fsdp_budget_init(&pickles->budget, &pickles->limits);
	fsdp_arena_init(&pickles->arena, &pickles->budget);
	fsdp_vec_init(&pickles->list, &pickles->arena, sizeof(struct fsdp_listed));
	if (!fsdp_file_open(options->remote, path, &pickles->source, ret_error))
		return false;
	fsdp_budget_give(&pickles->budget, pickles->source.size);
	return fsdp_build_init(
		&pickles->model, &pickles->arena, &pickles->limits, ret_error);
}

bool fsdp_pickles_open(const char *path, const struct fsdp_pickles_options *options,
	struct fsdp_pickles **ret_pickles, struct fsdp_error **ret_error)
{
	static const struct fsdp_pickles_options defaults = { .size = sizeof defaults };
	struct fsdp_error *local = NULL;
	struct fsdp_pickles *pickles = calloc(1, sizeof *pickles);
	if (ret_error == NULL)
		ret_error = &local;
	if (options == NULL)
		options = &defaults;
	bool good = pickles != NULL && begin(pickles, path, options, ret_error) &&
		    read_file(pickles, path, options, ret_error);
	if (good) {
		*ret_pickles = pickles;
	} else {
		fsdp_fail_memory(ret_error); /* unless there is an error */
		fsdp_error_add_path(ret_error, path);
		fsdp_pickles_free(pickles);
	}
	fsdp_error_free(local);
	return good;
}

void fsdp_pickles_free(struct fsdp_pickles *pickles)
{
	if (pickles == NULL)
		return;
	for (size_t i = 0; i < pickles->list.count; i++)
		fsdp_error_free(fsdp_listed(pickles, i)->error);
	fsdp_arena_done(&pickles->arena);
	if (pickles->source.fd >= 0)
		close(pickles->source.fd);
	free(pickles);
}

/* ---- results ---- */

bool fsdp_pickles_never_allowed(struct fsdp_span name)
{
	return fsdp_torch_is_gadget(name);
}

size_t fsdp_pickles_count(const struct fsdp_pickles *pickles)
{
	return pickles->list.count;
}

struct fsdp_pickles_stream fsdp_pickles_stream(
	const struct fsdp_pickles *pickles, size_t stream)
{
	const struct fsdp_listed *listed = fsdp_listed(pickles, stream);
	struct fsdp_pickles_stream facts = listed->facts;
	facts.refusal_count = listed->refusals.count;
	return facts;
}

struct fsdp_pickles_global fsdp_pickles_global(
	const struct fsdp_pickles *pickles, size_t stream, size_t index)
{
	return *(const struct fsdp_pickles_global *)fsdp_vec_at(
		&fsdp_listed(pickles, stream)->globals, index);
}

struct fsdp_pickles_refusal fsdp_pickles_refusal(
	const struct fsdp_pickles *pickles, size_t stream, size_t index)
{
	return *(const struct fsdp_pickles_refusal *)fsdp_vec_at(
		&fsdp_listed(pickles, stream)->refusals, index);
}
