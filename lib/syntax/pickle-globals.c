/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of globals: each kept once, Python 2's spellings, the rows of the fold table
 * that are meant, and bytes that no honest name has.
 */
#include "syntax/pickle-internal.h"

enum { FIRST_SLOTS = 64 };

struct python2_name {
	struct fsdp_span module, name, new_module, new_name;
};

struct python2_module {
	struct fsdp_span module, new_module;
};

#define SPAN(literal)                                                    \
	{                                                                \
		(const unsigned char *)("" literal), sizeof(literal) - 1 \
	}

static const struct python2_name python2_names[] = {
#define FSDP_PYTHON2_NAME(module, name, new_module, new_name) \
	{ SPAN(module), SPAN(name), SPAN(new_module), SPAN(new_name) },
#define FSDP_PYTHON2_MODULE(module, new_module)
#include "syntax/pickle-python2.def"
#undef FSDP_PYTHON2_NAME
#undef FSDP_PYTHON2_MODULE
};

static const struct python2_module python2_modules[] = {
#define FSDP_PYTHON2_NAME(module, name, new_module, new_name)
#define FSDP_PYTHON2_MODULE(module, new_module) { SPAN(module), SPAN(new_module) },
#include "syntax/pickle-python2.def"
#undef FSDP_PYTHON2_NAME
#undef FSDP_PYTHON2_MODULE
};

/* A row of the fold table with its lengths, so that comparing is cheap. */
struct fold_key {
	struct fsdp_span module, name;
	bool prefix; /* module ended in `*` */
	enum fsdp_fold_when when;
};

bool fsdp_globals_init(struct globals_table *table, struct fsdp_arena *scratch,
	struct fsdp_hasher hasher, const struct fsdp_pickle_options *options)
{
	*table = (struct globals_table){
		.arena = scratch,
		.slot_count = FIRST_SLOTS,
		.hasher = hasher,
		.fold_count = options->fold_count,
	};
	table->slots = FSDP_TAKE(scratch, table->slots, FIRST_SLOTS);
	table->folds = FSDP_TAKE(scratch, table->folds, options->fold_count);
	if (table->slots == NULL || table->folds == NULL)
		return false;
	for (size_t i = 0; i < options->fold_count; i++) {
		const struct fsdp_fold *row = &options->folds[i];
		struct fsdp_span module = fsdp_span_text(row->module);
		bool prefix = fsdp_span_ends(module, FSDP_SPAN("*"));
		module.size -= prefix;
		table->folds[i] = (struct fold_key){ module, fsdp_span_text(row->name),
			prefix, row->when };
	}
	return true;
}

/* CPython's pickle looks for the pair first and only then for the module. */
static void map_python2(struct fsdp_pickle_global *global)
{
	for (size_t i = 0; i < FSDP_COUNT(python2_names); i++) {
		const struct python2_name *row = &python2_names[i];
		if (fsdp_span_equal(global->name, row->name) &&
			fsdp_span_equal(global->module, row->module)) {
			global->module = row->new_module;
			global->name = row->new_name;
			return;
		}
	}
	for (size_t i = 0; i < FSDP_COUNT(python2_modules); i++)
		if (fsdp_span_equal(global->module, python2_modules[i].module)) {
			global->module = python2_modules[i].new_module;
			return;
		}
}

/* The table is keyed by the names as written: two spellings of one name are two globals
 * to the caller, who may want to show both. Mapping never depends on anything else but
 * `python2`, which is part of the key. */
static size_t hash_global(
	const struct fsdp_hasher *hasher, struct fsdp_span module, struct fsdp_span name)
{
	return (size_t)fsdp_hash_span(
		hasher, fsdp_hash_span(hasher, hasher->seed, module), name);
}

static bool same(const struct global *global, struct fsdp_span module,
	struct fsdp_span name, bool python2)
{
	return global->python2 == python2 &&
	       fsdp_span_equal(global->shown.written_name, name) &&
	       fsdp_span_equal(global->shown.written_module, module);
}

static bool grow(struct globals_table *table, const struct fsdp_pickle *pickle)
{
	size_t count = table->slot_count * 2;
	uint32_t *slots = FSDP_TAKE(table->arena, slots, count);
	if (slots == NULL)
		return false;
	for (size_t i = 0; i < pickle->globals.count; i++) {
		const struct fsdp_pickle_global *shown =
			&global_at(pickle, (uint32_t)i)->shown;
		size_t slot = hash_global(&table->hasher, shown->written_module,
				      shown->written_name) &
			      (count - 1);
		while (slots[slot] != 0)
			slot = (slot + 1) & (count - 1);
		slots[slot] = (uint32_t)i + 1;
	}
	table->slots = slots;
	table->slot_count = count;
	return true;
}

static bool matches(const struct fold_key *key, const struct fsdp_pickle_global *global)
{
	if (!fsdp_span_equal(key->name, global->name))
		return false;
	return key->prefix ? fsdp_span_begins(global->module, key->module)
			   : fsdp_span_equal(global->module, key->module);
}

static void find_folds(const struct globals_table *table, struct global *global)
{
	global->fold_call = global->fold_build = global->shown.fold_row = -1;
	for (size_t i = 0; i < table->fold_count; i++) {
		if (!matches(&table->folds[i], &global->shown))
			continue;
		int32_t *row = table->folds[i].when == FSDP_FOLD_CALL
				       ? &global->fold_call
				       : &global->fold_build;
		if (*row < 0)
			*row = (int32_t)i;
		if (global->shown.fold_row < 0)
			global->shown.fold_row = (int32_t)i;
	}
}

static bool is_honest(struct fsdp_span text)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] <= ' ' || text.data[i] >= 0x7f)
			return false;
	return text.size != 0;
}

/* The bytes themselves stay out of the message: the finding says where they are, and
 * what shows the global escapes it. */
static void judge_name(const struct fsdp_pickle_options *options,
	const struct fsdp_pickle_global *global)
{
	bool module = !is_honest(global->written_module);
	if (!module && is_honest(global->written_name))
		return;
	struct fsdp_span text = module ? global->written_module : global->written_name;
	PICKLE_FIND(options, FSDP_RULE_PICKLE_NAME, global->offset, FSDP_ERROR,
		"the %s of a global is %s", module ? "module" : "name",
		text.size == 0 ? "empty" : "not made of printable ASCII without blanks");
}

static bool keep(struct fsdp_span *text, struct fsdp_arena *copies)
{
	if (copies != NULL)
		*text = fsdp_arena_copy(copies, *text);
	return text->data != NULL;
}

uint32_t fsdp_globals_intern(struct globals_table *table, struct fsdp_pickle *pickle,
	const struct fsdp_pickle_options *options, const struct naming *naming)
{
	struct fsdp_span module = naming->module, name = naming->name;
	if (pickle->globals.count * 2 >= table->slot_count && !grow(table, pickle))
		return UINT32_MAX;
	size_t slot = hash_global(&table->hasher, module, name);
	for (;; slot++) {
		uint32_t entry = table->slots[slot &= table->slot_count - 1];
		if (entry == 0)
			break;
		if (same(global_at(pickle, entry - 1), module, name, naming->python2))
			return entry - 1;
	}
	if (!keep(&module, naming->copies) || !keep(&name, naming->copies))
		return UINT32_MAX;
	struct global *global = fsdp_vec_push(&pickle->globals);
	if (global == NULL || pickle->globals.count >= REF_PAYLOADS)
		return UINT32_MAX;
	*global = (struct global){
		.shown = { module, name, module, name, .offset = naming->offset },
		.python2 = naming->python2,
	};
	global->shown.via = naming->opcode;
	if (naming->python2)
		map_python2(&global->shown);
	find_folds(table, global);
	judge_name(options, &global->shown);
	table->slots[slot] = (uint32_t)pickle->globals.count;
	return (uint32_t)pickle->globals.count - 1;
}
