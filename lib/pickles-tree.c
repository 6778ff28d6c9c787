/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the values that a pickle builds, in pre-order. A container is shown where it is met
 * first: later it is only named, so that what is shared does not unfold. How deep a walk
 * goes is fixed, so it keeps one frame a level and nothing calls itself.
 */
#include <stdlib.h>

#include "pickles-private.h"

/* What of a container comes next. */
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

static enum fsdp_pickles_kind kind_of(enum fsdp_pickle_kind kind)
{
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
	return kinds[kind];
}

static bool holds_values(enum fsdp_pickles_kind kind)
{
	return kind == FSDP_PICKLES_TUPLE || kind == FSDP_PICKLES_LIST ||
	       kind == FSDP_PICKLES_SET || kind == FSDP_PICKLES_DICT ||
	       kind == FSDP_PICKLES_CALL || kind == FSDP_PICKLES_PERSISTENT;
}

/* ---- one value ---- */

/* Of a global, with a dot between. */
static size_t name_size(const struct fsdp_pickle_global *global)
{
	return global->module.size + 1 + global->name.size;
}

static struct fsdp_span write_name(
	struct fsdp_pickles_walk *walk, const struct fsdp_pickle_global *global)
{
	if (global->module.size != 0)
		memcpy(walk->name, global->module.data, global->module.size);
	walk->name[global->module.size] = '.';
	if (global->name.size != 0)
		memcpy(walk->name + global->module.size + 1, global->name.data,
			global->name.size);
	return fsdp_span(walk->name, name_size(global));
}

static void set_value(
	struct fsdp_pickles_walk *walk, fsdp_ref ref, struct fsdp_pickles_node *node)
{
	const struct fsdp_pickle *pickle = walk->pickle;
	bool truth = false;
	node->kind = kind_of(fsdp_pickle_kind(pickle, ref));
	if (node->kind == FSDP_PICKLES_BOOL && fsdp_pickle_boolean(pickle, ref, &truth))
		node->integer = truth;
	else if (node->kind == FSDP_PICKLES_INTEGER)
		(void)fsdp_pickle_integer(pickle, ref, &node->integer);
	else if (node->kind == FSDP_PICKLES_FLOAT)
		(void)fsdp_pickle_float(pickle, ref, &node->number);
	else if (node->kind == FSDP_PICKLES_GLOBAL)
		node->text = write_name(walk, fsdp_pickle_named(pickle, ref));
	else if (holds_values(node->kind))
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
	if (!holds_values(node->kind))
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
static bool take_part(struct fsdp_pickles_walk *walk, struct unfolding *frame,
	fsdp_ref part, const char *role, struct fsdp_pickles_node *ret_node)
{
	frame->phase++;
	if (part == FSDP_REF_NONE)
		return false;
	set_node(walk, part, role, ret_node);
	return true;
}

static bool take_item(struct fsdp_pickles_walk *walk, struct unfolding *frame,
	struct fsdp_pickles_node *ret_node)
{
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

/* False: the frame gave nothing this time. */
static bool step(struct fsdp_pickles_walk *walk, struct unfolding *frame,
	struct fsdp_pickles_node *ret_node)
{
	const struct fsdp_pickle *pickle = walk->pickle;
	bool is_id = fsdp_pickle_kind(pickle, frame->ref) == FSDP_PICKLE_PERSISTENT;
	switch (frame->phase) {
	case FUNCTION:
		return take_part(walk, frame, fsdp_pickle_callable(pickle, frame->ref),
			"function", ret_node);
	case ARGUMENTS:
		return take_part(walk, frame, fsdp_pickle_argument(pickle, frame->ref),
			is_id ? "id" : "arguments", ret_node);
	case KEYWORDS:
		return take_part(walk, frame, fsdp_pickle_keywords(pickle, frame->ref),
			"keywords", ret_node);
	case ITEMS:
		return take_item(walk, frame, ret_node);
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

static void close_frame(struct fsdp_pickles_walk *walk)
{
	fsdp_ref ref = walk->frames[--walk->depth].ref;
	walk->open[fsdp_pickle_identity(walk->pickle, ref)] = false;
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
		if (frame->phase == OVER)
			close_frame(walk);
		else if (step(walk, frame, ret_node))
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
