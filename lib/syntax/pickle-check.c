/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over what remains once STOP has been reached: how deep it is nested, how large
 * it would be without sharing, whether it contains itself, which keys are duplicates.
 *
 * Every container is walked once, whatever its parents: results of those that have
 * several (CELL_SHARED) are kept in a hash, and a sum that would overflow stays at the
 * largest number. No recursion: the path is a stack of frames, at most as long as the
 * limit of depth.
 */
#include "syntax/pickle-internal.h"

static const uint64_t UNFOLD_LIMIT = 1000000000, UNFOLD_FACTOR = 1000000;

enum { FIRST_FRAMES = 64, FIRST_RESULTS = 64, FEW_KEYS = 8, LONG_KEY = 256 };

/* One container on the path, and how far its children have been looked at. */
struct container {
	uint64_t size;   /* unfolded, so far */
	uint32_t cell;   /* index */
	uint32_t height; /* of the tallest child so far */
	uint32_t run, at;
	uint8_t stage;
};

struct result {
	uint64_t size;
	uint32_t cell; /* 0: free */
	uint32_t height;
	bool open; /* on the path now */
};

struct check_walk {
	const struct fsdp_pickle *pickle;
	const struct fsdp_pickle_options *options;
	struct fsdp_arena *scratch;
	uint64_t depth_limit;
	struct fsdp_hasher hasher;
	uint64_t real;
	bool cycle, deep;
	struct container *frames;
	size_t frame_count, frame_room;
	struct result *results;
	size_t result_count, result_room;
	fsdp_ref *keys; /* hash for one container at a time; FSDP_REF_NONE: free */
	size_t key_room;
	struct fsdp_vec long_keys; /* uint64_t: hashes of texts, by cell; 0: not yet */
};

/* ---- results of shared containers ---- */

static size_t result_at(const struct check_walk *walk, uint32_t cell)
{
	size_t at = (size_t)fsdp_hash(&walk->hasher, cell) & (walk->result_room - 1);
	while (walk->results[at].cell != 0 && walk->results[at].cell != cell)
		at = (at + 1) & (walk->result_room - 1);
	return at;
}

/* The place for a container's result; `cell` is 0 in one that is new. */
static struct result *find_result(struct check_walk *walk, uint32_t cell)
{
	if (walk->result_count * 2 >= walk->result_room) {
		struct check_walk new = *walk;
		new.result_room =
			walk->result_room == 0 ? FIRST_RESULTS : walk->result_room * 2;
		new.results = FSDP_TAKE(walk->scratch, new.results, new.result_room);
		for (size_t i = 0; i < walk->result_room; i++)
			if (walk->results[i].cell != 0)
				new.results[result_at(&new, walk->results[i].cell)] =
					walk->results[i];
		*walk = new;
	}
	return &walk->results[result_at(walk, cell)];
}

/* ---- children ---- */

static bool next_in_run(
	const struct check_walk *walk, struct container *frame, fsdp_ref *ret_child)
{
	while (frame->run != 0) {
		struct cell *run = cell_at(walk->pickle, frame->run);
		if (frame->at < run->a) {
			*ret_child = run_refs(run)[frame->at++];
			return true;
		}
		frame->run = run->b;
		frame->at = 0;
	}
	return false;
}

/* callable, arguments, items, keywords, first state, further states */
static bool next_of_call(const struct check_walk *walk, const struct cell *cell,
	struct container *frame, fsdp_ref *ret_child)
{
	const struct cell *more = cell->c != 0 ? cell_at(walk->pickle, cell->c) : NULL;
	for (;;) {
		if (next_in_run(walk, frame, ret_child))
			return true;
		unsigned stage = frame->stage++;
		*ret_child = FSDP_REF_NONE;
		if (stage == 0)
			*ret_child = cell->a;
		else if (stage == 1)
			*ret_child = cell->b;
		else if (more == NULL || stage > 5)
			return false;
		else if (stage == 2)
			frame->run = more[0].b;
		else if (stage == 3)
			*ret_child = more[1].a;
		else if (stage == 4)
			*ret_child = more[1].b;
		else if (more[1].c != 0)
			frame->run = cell_at(walk->pickle, more[1].c)->b;
		if (*ret_child != FSDP_REF_NONE)
			return true;
	}
}

static bool next_child(
	const struct check_walk *walk, struct container *frame, fsdp_ref *ret_child)
{
	struct cell *cell = cell_at(walk->pickle, frame->cell);
	if (cell->kind == FSDP_PICKLE_CALL)
		return next_of_call(walk, cell, frame, ret_child);
	if (cell->kind == FSDP_PICKLE_PERSISTENT) {
		*ret_child = cell->a;
		return frame->at++ == 0;
	}
	if (cell->kind == FSDP_PICKLE_TUPLE && cell->x != 0) {
		if (frame->at >= cell->x)
			return false;
		*ret_child = frame->at == 0   ? cell->a
			     : frame->at == 1 ? cell->b
					      : cell->c;
		frame->at++;
		return true;
	}
	if (frame->stage == 0) {
		frame->stage = 1;
		frame->run = cell->b;
	}
	return next_in_run(walk, frame, ret_child);
}

/* ---- duplicate keys ---- */

static uint64_t hash_text(const struct check_walk *walk, struct fsdp_span text)
{
	return fsdp_hash_span(&walk->hasher, walk->hasher.seed, text);
}

/* Any number of keys may share a long text, which is looked at once. */
static uint64_t hash_long(struct check_walk *walk, fsdp_ref key, struct fsdp_span text)
{
	uint64_t *hash = fsdp_vec_reach(&walk->long_keys, ref_payload(key));
	if (*hash == 0)
		*hash = hash_text(walk, text) | 1;
	return *hash;
}

static bool same_key(struct check_walk *walk, fsdp_ref a, fsdp_ref b)
{
	int64_t x, y;
	struct fsdp_span text = fsdp_pickle_text(walk->pickle, a);
	if (text.data != NULL) {
		struct fsdp_span other = fsdp_pickle_text(walk->pickle, b);
		if (other.data == NULL)
			return false;
		if (text.size != other.size || text.size <= LONG_KEY || a == b)
			return a == b || fsdp_span_equal(text, other);
		/* All that follows from it is a warning: two hashes are proof enough. */
		return hash_long(walk, a, text) == hash_long(walk, b, other);
	}
	return fsdp_pickle_integer(walk->pickle, a, &x) &&
	       fsdp_pickle_integer(walk->pickle, b, &y) && x == y;
}

/* False of keys that are neither text nor integer: those are not compared. */
static bool hash_key(struct check_walk *walk, fsdp_ref key, uint64_t *ret_hash)
{
	int64_t number;
	struct fsdp_span text = fsdp_pickle_text(walk->pickle, key);
	if (text.data != NULL) {
		*ret_hash = text.size > LONG_KEY ? hash_long(walk, key, text)
						 : hash_text(walk, text);
		return true;
	}
	if (!fsdp_pickle_integer(walk->pickle, key, &number))
		return false;
	*ret_hash = fsdp_hash(&walk->hasher, (uint64_t)number);
	return true;
}

static void report_key(const struct check_walk *walk, fsdp_ref key)
{
	struct fsdp_span text = fsdp_pickle_text(walk->pickle, key);
	const unsigned char *begin = walk->pickle->stream.data;
	bool placed =
		text.data >= begin && text.data <= begin + walk->pickle->stream.size;
	PICKLE_FIND(walk->options, FSDP_RULE_PICKLE_ODD,
		placed ? (uint64_t)(text.data - begin) : 0, FSDP_WARNING,
		"duplicate key in a dict: the last one counts");
}

static void many_keys(struct check_walk *walk, fsdp_ref dict, uint64_t count)
{
	size_t room = 32;
	while (room < count * 2)
		room *= 2;
	if (room > walk->key_room) {
		walk->keys = FSDP_TAKE(walk->scratch, walk->keys, room);
		walk->key_room = room;
	}
	memset(walk->keys, 0xff, room * sizeof *walk->keys);

	size_t mask = room - 1;
	struct fsdp_pickle_iterator iterator = { .ref = dict };
	fsdp_ref key, value;
	while (fsdp_pickle_next(walk->pickle, &iterator, &key, &value)) {
		uint64_t hash;
		if (!hash_key(walk, key, &hash))
			continue;
		size_t at = (size_t)hash & mask;
		while (walk->keys[at] != FSDP_REF_NONE &&
			!same_key(walk, walk->keys[at], key))
			at = (at + 1) & mask;
		if (walk->keys[at] != FSDP_REF_NONE)
			report_key(walk, key);
		walk->keys[at] = key;
	}
}

/* ---- the walk ---- */

static void enter(struct check_walk *walk, uint32_t cell)
{
	if (walk->frame_count == walk->frame_room) {
		size_t room = walk->frame_room == 0 ? FIRST_FRAMES : walk->frame_room * 2;
		struct container *frames = FSDP_TAKE(walk->scratch, frames, room);
		if (walk->frame_count != 0)
			memcpy(frames, walk->frames, walk->frame_count * sizeof *frames);
		walk->frames = frames;
		walk->frame_room = room;
	}
	walk->frames[walk->frame_count++] = (struct container){ .size = 1, .cell = cell };
	uint8_t kind = cell_at(walk->pickle, cell)->kind;
	if (kind != FSDP_PICKLE_DICT && kind != FSDP_PICKLE_CALL)
		return;
	fsdp_ref dict = REF(TAG_CELL, cell), keys[FEW_KEYS], value;
	uint64_t count = fsdp_pickle_count(walk->pickle, dict);
	if (count > FEW_KEYS) {
		many_keys(walk, dict, count);
		return;
	}
	struct fsdp_pickle_iterator iterator = { .ref = dict };
	size_t used = 0;
	while (count > 1 &&
		fsdp_pickle_next(walk->pickle, &iterator, &keys[used], &value))
		used++;
	for (size_t i = 1; i < used; i++)
		for (size_t j = 0; j < i; j++)
			if (same_key(walk, keys[i], keys[j])) {
				report_key(walk, keys[i]);
				break;
			}
}

static void add_child(struct container *parent, uint64_t size, uint32_t height)
{
	parent->size =
		parent->size > UINT64_MAX - size ? UINT64_MAX : parent->size + size;
	if (height > parent->height)
		parent->height = height;
}

/* A child of the frame on top: counted if that is known already, else entered. */
static void visit(struct check_walk *walk, fsdp_ref child)
{
	struct container *parent = &walk->frames[walk->frame_count - 1];
	uint32_t cell = fsdp_pickle_identity(walk->pickle, child);
	walk->real++;
	if (cell == 0) {
		add_child(parent, 1, 0);
		return;
	}
	if ((cell_at(walk->pickle, cell)->flags & CELL_SHARED) != 0) {
		struct result *result = find_result(walk, cell);
		if (result->cell != 0) {
			walk->cycle |= result->open;
			add_child(
				parent, result->open ? 1 : result->size, result->height);
			return;
		}
		*result = (struct result){ .cell = cell, .open = true };
		walk->result_count++;
	}
	if (walk->frame_count >= walk->depth_limit) {
		walk->deep = true;
		add_child(parent, 1, 1);
		return;
	}
	enter(walk, cell);
}

/* The frame on top has no more children. */
static void leave(struct check_walk *walk)
{
	struct container done = walk->frames[--walk->frame_count];
	uint32_t height = done.height < UINT32_MAX ? done.height + 1 : done.height;
	if ((cell_at(walk->pickle, done.cell)->flags & CELL_SHARED) != 0) {
		struct result *result = find_result(walk, done.cell);
		walk->result_count += result->cell == 0;
		*result = (struct result){ done.size, done.cell, height, false };
	}
	walk->deep |= height > walk->depth_limit;
	if (walk->frame_count > 0)
		add_child(&walk->frames[walk->frame_count - 1], done.size, height);
	else
		walk->frames[0].size = done.size;
}

void fsdp_pickle_check(const struct fsdp_pickle *pickle,
	const struct fsdp_pickle_options *options, const struct fsdp_limits *limits,
	struct fsdp_arena *scratch, struct fsdp_hasher hasher)
{
	struct check_walk walk = {
		.pickle = pickle,
		.options = options,
		.scratch = scratch,
		.depth_limit = fsdp_limit(limits, FSDP_LIMIT_PICKLE_DEPTH),
		.hasher = hasher,
		.real = 1,
	};
	fsdp_vec_init(&walk.long_keys, scratch, sizeof(uint64_t));
	uint32_t cell = fsdp_pickle_identity(pickle, pickle->top);
	if (cell == 0)
		return;
	enter(&walk, cell);
	if ((cell_at(pickle, cell)->flags & CELL_SHARED) != 0) {
		*find_result(&walk, cell) = (struct result){ .cell = cell, .open = true };
		walk.result_count++;
	}
	while (walk.frame_count > 0) {
		fsdp_ref child;
		if (next_child(&walk, &walk.frames[walk.frame_count - 1], &child))
			visit(&walk, child);
		else
			leave(&walk);
	}
	uint64_t size = walk.frames[0].size;
	if (walk.cycle && walk.options->findings != NULL)
		fsdp_find(walk.options->findings, FSDP_RULE_PICKLE_EXPANSION,
			FSDP_PLACE(.file = walk.options->file,
				.member = walk.options->member,
				.offset = walk.options->base, .severity = FSDP_NOTE + 1,
				.fix = ""),
			"a value contains itself");
	if (walk.deep)
		PICKLE_FIND(walk.options, FSDP_RULE_PICKLE_EXPANSION, 0, FSDP_ERROR,
			"values are nested more than %llu levels deep",
			FSDP_LLU(walk.depth_limit));
	if (size > UNFOLD_LIMIT || size / UNFOLD_FACTOR > walk.real)
		PICKLE_FIND(walk.options, FSDP_RULE_PICKLE_EXPANSION, 0, FSDP_ERROR,
			"%llu values would expand to %s%llu", FSDP_LLU(walk.real),
			size == UINT64_MAX ? "more than " : "", FSDP_LLU(size));
}
