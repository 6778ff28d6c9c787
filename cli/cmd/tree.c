/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the modules and which of them are fully sharded. Knows which visits are shown,
 * under which parent and name; knows no output.
 *
 * Visits come in pre-order with their depth, so everything is a loop over arrays: once up
 * (what is needed, what is equal), once down (what is shown).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "run/answer.h"
#include "part/fold.h"
#include "part/mixer.h"
#include "part/tensor-row.h"
#include "part/units.h"

struct tree_options {
	bool sizes, fold, sharded_only, params;
	const char *style;
};

static const char *const STYLES[] = { "default", "torch", NULL };

static const struct option OPTIONS[] = {
	{ "sizes", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, sizes),
		.help = "parameters, bytes, and bytes a rank" },
	{ "fold", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, fold),
		.help = "one line for siblings that differ only in a number or a word" },
	{ "sharded-only", 0, OPTION_FLAG, NULL,
		offsetof(struct tree_options, sharded_only),
		.help = "only modules that are fully sharded, and those above them" },
	{ "params", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, params),
		.help = "each module's own parameters below it" },
	{ "style", 0, OPTION_WORD, "STYLE", offsetof(struct tree_options, style), STYLES,
		.initial = "default", .help = "torch is PyTorch's own form" },
	{ NULL },
};

enum tree_column {
	TREE_NAME,
	TREE_NAME_RAW,
	TREE_CLASS,
	TREE_WRAPPER,
	TREE_DEPTH,
	TREE_PARENT,
	TREE_UNIT,
	TREE_FULLY_SHARDED,
	TREE_INFERRED,
	TREE_SAME_AS,
	TREE_PARAMETERS,
	TREE_BYTES,
	TREE_BYTES_PER_RANK,
	TREE_COLUMNS,
};

static const struct column COLUMNS[TREE_COLUMNS] = {
	[TREE_NAME] = { "name" },
	[TREE_NAME_RAW] = { "name_raw", .machine_only = true },
	[TREE_CLASS] = { "class" },
	[TREE_WRAPPER] = { "wrapper", .machine_only = true },
	[TREE_DEPTH] = { "depth", .machine_only = true },
	[TREE_PARENT] = { "parent", .machine_only = true },
	[TREE_UNIT] = { "unit", .machine_only = true },
	[TREE_FULLY_SHARDED] = { "fully_sharded", .machine_only = true },
	[TREE_INFERRED] = { "inferred", .machine_only = true },
	[TREE_SAME_AS] = { "same_as", .machine_only = true },
	[TREE_PARAMETERS] = { "parameters", .right = true },
	[TREE_BYTES] = { "bytes", .right = true },
	[TREE_BYTES_PER_RANK] = { "bytes_per_rank", .right = true },
};

/* A visit that is shown. Indices are of this list. */
struct shown {
	uint32_t module;
	uint32_t parent; /* FSDP_NONE: none */
	uint32_t depth;
	uint32_t end;     /* behind the last one below it */
	uint32_t jump;    /* where the walk goes on instead of here, or 0 */
	uint32_t emitted; /* its index in the output, or FSDP_NONE */
	uint32_t marked;  /* the visit that is fully sharded: it or a wrapper around it */
};

struct sums {
	uint64_t parameters, bytes, rank_bytes;
};

struct tree {
	struct run *run;
	const struct tree_options *options;
	struct selection *selection;
	size_t module_count;

	bool *kept;       /* by module: selected, or something below it is */
	uint32_t *marks;  /* by module: as in struct shown */
	uint32_t *places; /* by module: index of a shown visit, NOT_SHOWN or CUT_OFF */
	struct shown *shown;
	size_t shown_count;
	uint32_t deepest;
	struct sums *sums; /* by shown visit; only for --sizes and --fold */
	uint64_t *hashes;  /* by shown visit; only for --fold */
	struct mixer mixer;
	size_t *name_sizes; /* by depth: how much of `path` names the ancestor; --fold */

	struct name_buffer name, other, raw, unit, path;
	struct join join;
	bool summed; /* what was folded away is in the sums of its representative */
	bool inferred_units, inferred_classes;
};

enum { NOT_SHOWN = -1, CUT_OFF = -2 };

static struct fsdp_module module_at(const struct tree *tree, uint32_t index)
{
	return fsdp_module(tree->run->checkpoint, index);
}

static uint32_t shown_name_id(const struct tree *tree, const struct fsdp_module *module)
{
	return tree->run->common->raw ? module->raw_name : module->name;
}

static struct text module_name(
	const struct tree *tree, struct name_buffer *buffer, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);
	return name_text(buffer, tree->run->checkpoint, shown_name_id(tree, &module));
}

enum mark { MARK_NONE, MARK_SHARDED, MARK_INFERRED };

static const char *const MARKS[] = { NULL, "FULLY SHARDED", "FULLY SHARDED (inferred)" };

static enum mark mark_at(const struct tree *tree, const struct shown *shown)
{
	if (shown->marked == FSDP_NONE)
		return MARK_NONE;
	return module_at(tree, shown->marked).unit_inferred ? MARK_INFERRED
							    : MARK_SHARDED;
}

/* ---- which visits are shown ---- */

/* A wrapper stands for the one module that it holds. */
static bool is_folded_wrapper(
	const struct tree *tree, const struct fsdp_module *module, uint32_t index)
{
	return !tree->run->common->raw && module->wrapper != FSDP_WRAPPER_NONE &&
	       index + 1 < tree->module_count &&
	       module_at(tree, index + 1).parent == index;
}

/* A unit may belong to a wrapper (activation checkpointing inside of FSDP): its mark goes
 * to the module that stands for both. */
static bool mark_modules(struct tree *tree)
{
	tree->marks = malloc((tree->module_count + 1) * sizeof *tree->marks);
	if (tree->marks == NULL)
		return false;
	for (uint32_t i = 0; i < tree->module_count; i++) {
		struct fsdp_module module = module_at(tree, i), parent;
		tree->marks[i] = module.unit != FSDP_NONE ? i : FSDP_NONE;
		if (module.unit != FSDP_NONE || module.parent == FSDP_NONE ||
			module.parent >= i)
			continue;
		parent = module_at(tree, module.parent);
		if (is_folded_wrapper(tree, &parent, module.parent))
			tree->marks[i] = tree->marks[module.parent];
	}
	return true;
}

/* With more than names to go by, a module is selected if one of its own tensors is. */
static bool takes_some_tensor(struct tree *tree, const struct fsdp_module *module)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;

	for (uint32_t i = 0; i < module->tensor_count; i++) {
		uint32_t index = fsdp_module_tensor(checkpoint, module, i);
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
		struct text name = tensor_shown_name(tree->run, &tree->name, &tensor);
		if (selection_takes_tensor(
			    tree->selection, checkpoint, index, span_of_text(name)))
			return true;
	}
	return false;
}

static bool is_selected(struct tree *tree, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);

	if (tree->options->sharded_only && tree->marks[index] == FSDP_NONE)
		return false;
	if (selection_is_all(tree->selection))
		return true;
	if (!selection_is_by_name(tree->selection))
		return takes_some_tensor(tree, &module);
	return selection_takes_name(
		tree->selection, span_of_text(module_name(tree, &tree->name, index)));
}

/* Upwards: what is selected keeps all that is above it. */
static bool keep_selected(struct tree *tree)
{
	bool some = false;

	tree->kept = calloc(tree->module_count + 1, sizeof *tree->kept);
	if (tree->kept == NULL)
		return false;
	for (size_t i = tree->module_count; i-- > 0;) {
		uint32_t parent = module_at(tree, (uint32_t)i).parent;
		if (!tree->kept[i])
			tree->kept[i] = is_selected(tree, (uint32_t)i);
		if (tree->kept[i] && parent != FSDP_NONE && parent < i)
			tree->kept[parent] = true;
		some |= tree->kept[i];
	}
	if (!some)
		memset(tree->kept, 0, tree->module_count * sizeof *tree->kept);
	return true;
}

/* Where a visit hangs, and whether it hangs at all. */
static uint32_t place_module(struct tree *tree, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);
	int64_t limit = tree->run->select->depth;
	uint32_t parent = (uint32_t)NOT_SHOWN, depth = 0;
	struct shown *shown;

	if (module.parent != FSDP_NONE && module.parent < index)
		parent = tree->places[module.parent];
	if (!tree->kept[index] || parent == (uint32_t)CUT_OFF)
		return (uint32_t)CUT_OFF;
	if (is_folded_wrapper(tree, &module, index))
		return parent;
	if (parent != (uint32_t)NOT_SHOWN)
		depth = tree->shown[parent].depth + 1;
	if (limit >= 0 && depth > (uint64_t)limit)
		return (uint32_t)CUT_OFF;
	shown = &tree->shown[tree->shown_count];
	*shown = (struct shown){ .module = index, .depth = depth, .emitted = FSDP_NONE };
	shown->marked = tree->marks[index];
	shown->parent = parent == (uint32_t)NOT_SHOWN ? FSDP_NONE : parent;
	if (depth > tree->deepest)
		tree->deepest = depth;
	return (uint32_t)tree->shown_count++;
}

static bool choose_shown(struct tree *tree)
{
	tree->places = malloc((tree->module_count + 1) * sizeof *tree->places);
	tree->shown = malloc((tree->module_count + 1) * sizeof *tree->shown);
	if (tree->places == NULL || tree->shown == NULL)
		return false;
	for (uint32_t i = 0; i < tree->module_count; i++)
		tree->places[i] = place_module(tree, i);
	for (size_t i = tree->shown_count; i-- > 0;) {
		struct shown *shown = &tree->shown[i];
		if (shown->end == 0)
			shown->end = (uint32_t)i + 1;
		if (shown->parent != FSDP_NONE &&
			tree->shown[shown->parent].end < shown->end)
			tree->shown[shown->parent].end = shown->end;
	}
	return true;
}

/* ---- sizes ---- */

/* The library looks at all visits, shown or not. */
static bool sum_rank_bytes(struct tree *tree)
{
	struct fsdp_shares *shares;

	if (!fsdp_shares_new(tree->run->checkpoint, &shares, NULL))
		return false;
	for (size_t i = 0; i < tree->shown_count; i++)
		tree->sums[i].rank_bytes = fsdp_shares_of(shares, tree->shown[i].module);
	fsdp_shares_free(shares);
	return true;
}

static bool sum_sizes(struct tree *tree)
{
	if (!tree->options->sizes && !tree->options->fold)
		return true;
	tree->sums = malloc((tree->shown_count + 1) * sizeof *tree->sums);
	if (tree->sums == NULL)
		return false;
	for (size_t i = 0; i < tree->shown_count; i++) {
		struct fsdp_module module = module_at(tree, tree->shown[i].module);
		tree->sums[i] =
			(struct sums){ module.parameters, module.bytes, FSDP_UNKNOWN };
	}
	return !tree->options->sizes || sum_rank_bytes(tree);
}

static struct sums sums_of(const struct tree *tree, size_t index)
{
	struct fsdp_module module;

	if (tree->sums != NULL)
		return tree->sums[index];
	module = module_at(tree, tree->shown[index].module);
	return (struct sums){ module.parameters, module.bytes, FSDP_UNKNOWN };
}

/* ---- folding ---- */

/* The name of a shown visit below its parent. */
static struct text own_name(struct tree *tree, struct name_buffer *buffer, size_t index)
{
	const struct shown *shown = &tree->shown[index];
	struct text name = module_name(tree, buffer, shown->module), parent;

	if (shown->parent == FSDP_NONE)
		return name;
	parent = module_name(tree, &tree->raw, tree->shown[shown->parent].module);
	if (parent.size == 0 || name.size < parent.size + 1 ||
		memcmp(name.data, parent.data, parent.size) != 0 ||
		name.data[parent.size] != '.')
		return name;
	return (struct text){ name.data + parent.size + 1, name.size - parent.size - 1 };
}

/* What of a module must be equal: what is shown of it. Sizes of own tensors are not, so
 * that q_proj and k_proj of a grouped attention are one line; their number is. */
static uint64_t hash_module(struct tree *tree, const struct shown *shown)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct mixer *mixer = &tree->mixer;
	struct fsdp_module module = module_at(tree, shown->module);
	uint64_t hash = mix(mixer, module.tensor_count, module.wrapper);

	hash = mix(mixer, hash, mark_at(tree, shown));
	hash = mix(mixer, hash, module.same_as != FSDP_NONE);
	hash = mix_text(mixer, hash, text_of(module_shown_class(tree->run, &module)));
	for (uint32_t i = 0; i < module.tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint, fsdp_module_tensor(checkpoint, &module, i));
		struct text name = tensor_shown_name(tree->run, &tree->name, &tensor);
		hash = mix(mixer, mix(mixer, hash, tensor.dtype), tensor.dims);
		hash = mix_text(mixer, hash, text_last(name, '.'));
		for (uint32_t j = 0; tree->options->params && j < tensor.dims; j++)
			hash = mix(mixer, hash, (uint64_t)tensor.shape[j]);
	}
	return hash;
}

static bool hash_all(struct tree *tree)
{
	const struct mixer *mixer = &tree->mixer;
	uint64_t *below = calloc(tree->shown_count + 1, sizeof *below);

	tree->hashes = malloc((tree->shown_count + 1) * sizeof *tree->hashes);
	if (below == NULL || tree->hashes == NULL) {
		free(below);
		return false;
	}
	for (size_t i = tree->shown_count; i-- > 0;) {
		uint32_t parent = tree->shown[i].parent;
		tree->hashes[i] =
			mix(mixer, hash_module(tree, &tree->shown[i]), below[i]);
		if (parent != FSDP_NONE)
			below[parent] = mix_text(mixer,
				mix(mixer, below[parent], tree->hashes[i]),
				own_name(tree, &tree->other, i));
	}
	free(below);
	return true;
}

static bool same_module(struct tree *tree, const struct shown *a, const struct shown *b)
{
	struct fsdp_module left = module_at(tree, a->module);
	struct fsdp_module right = module_at(tree, b->module);
	struct text left_class = text_of(module_shown_class(tree->run, &left));
	struct text right_class = text_of(module_shown_class(tree->run, &right));

	return text_is(left_class, right_class) && left.wrapper == right.wrapper &&
	       mark_at(tree, a) == mark_at(tree, b);
}

/* Equal hashes are a guess; this is what counts. Each visit is compared at most once a
 * level, and what was folded away is not looked at again, so it stays linear. */
static bool same_below(struct tree *tree, uint32_t a, uint32_t b)
{
	uint32_t size = tree->shown[a].end - a;

	if (tree->shown[b].end - b != size)
		return false;
	for (uint32_t i = 0; i < size; i++) {
		const struct shown *left = &tree->shown[a + i],
				   *right = &tree->shown[b + i];
		if (left->depth != right->depth ||
			tree->hashes[a + i] != tree->hashes[b + i] ||
			!same_module(tree, left, right))
			return false;
		if (i > 0 && !text_is(own_name(tree, &tree->name, a + i),
				     own_name(tree, &tree->other, b + i)))
			return false;
	}
	return true;
}

static void add_sums(struct tree *tree, uint32_t to, uint32_t from)
{
	uint32_t size = tree->shown[to].end - to;

	for (uint32_t i = 0; i < size; i++) {
		struct sums *sum = &tree->sums[to + i];
		const struct sums *other = &tree->sums[from + i];
		sum->parameters += other->parameters;
		sum->bytes += other->bytes;
		if (sum->rank_bytes != FSDP_UNKNOWN)
			sum->rank_bytes = other->rank_bytes != FSDP_UNKNOWN
						  ? sum->rank_bytes + other->rank_bytes
						  : FSDP_UNKNOWN;
	}
}

/* Joins the siblings behind a visit that are like it; the walk will jump over them. */
static void join_siblings(struct tree *tree, uint32_t first)
{
	uint32_t next = tree->shown[first].end;

	join_begin(&tree->join, own_name(tree, &tree->other, first));
	while (next < tree->shown_count &&
		tree->shown[next].parent == tree->shown[first].parent &&
		tree->hashes[next] == tree->hashes[first] &&
		same_below(tree, first, next) &&
		join_add(&tree->join, own_name(tree, &tree->other, next))) {
		if (!tree->summed)
			add_sums(tree, first, next);
		next = tree->shown[next].end;
	}
	if (next != tree->shown[first].end)
		tree->shown[tree->shown[first].end].jump = next;
}

/* The name under which a visit is shown; with --fold it is made of joined segments. */
static struct text name_of(struct tree *tree, size_t index)
{
	const struct shown *shown = &tree->shown[index];
	size_t length = 0;

	if (!tree->options->fold)
		return module_name(tree, &tree->path, shown->module);
	if (shown->depth > 0)
		length = tree->name_sizes[shown->depth - 1];
	if (length > 0)
		name_buffer_append(&tree->path, &length, text_of("."));
	join_write(&tree->join, &tree->path, &length);
	tree->name_sizes[shown->depth] = length;
	return (struct text){ length > 0 ? tree->path.data : "", length };
}

/* ---- what is shown of each ---- */

static struct value unit_name(struct tree *tree, uint32_t marked)
{
	struct fsdp_unit unit;

	if (marked == FSDP_NONE)
		return value_absent();
	unit = fsdp_unit(tree->run->checkpoint, module_at(tree, marked).unit);
	if (unit.module == FSDP_NONE)
		return value_absent();
	return value_name(name_text(
		&tree->unit, tree->run->checkpoint, module_at(tree, unit.module).name));
}

static struct value same_as(const struct tree *tree, uint32_t module)
{
	uint32_t place;

	if (module == FSDP_NONE || module >= tree->module_count)
		return value_absent();
	place = tree->places[module];
	if (place == (uint32_t)CUT_OFF || place == (uint32_t)NOT_SHOWN)
		return value_absent();
	return value_id(tree->shown[place].emitted);
}

static size_t inferred_words(
	const struct fsdp_module *module, enum mark mark, struct text *words)
{
	size_t count = 0;

	if (module->class_inferred)
		words[count++] = text_of("class");
	if (mark == MARK_INFERRED)
		words[count++] = text_of("fully_sharded");
	return count;
}

static void emit_module(struct tree *tree, size_t index, struct text name)
{
	const struct shown *shown = &tree->shown[index];
	struct fsdp_module module = module_at(tree, shown->module);
	struct sums sums = sums_of(tree, index);
	enum mark mark = mark_at(tree, shown);
	struct text words[2];
	struct value values[TREE_COLUMNS] = {
		[TREE_NAME] = value_name(name),
		[TREE_CLASS] = value_word(module_shown_class(tree->run, &module)),
		[TREE_DEPTH] = value_count(shown->depth),
		[TREE_PARENT] = shown->parent == FSDP_NONE
					? value_null()
					: value_id(tree->shown[shown->parent].emitted),
		[TREE_UNIT] = unit_name(tree, shown->marked),
		[TREE_FULLY_SHARDED] = value_bool(mark != MARK_NONE),
		[TREE_INFERRED] =
			value_texts(words, inferred_words(&module, mark, words)),
		[TREE_SAME_AS] = same_as(tree, module.same_as),
		[TREE_PARAMETERS] = value_elements(sums.parameters),
		[TREE_BYTES] = value_bytes(sums.bytes),
		[TREE_BYTES_PER_RANK] = value_bytes(sums.rank_bytes),
	};
	struct tree_node node = {
		.depth = shown->depth,
		.name = name,
		.class_name = text_of(module_shown_class(tree->run, &module)),
		.class_guessed = module.class_inferred,
		.mark = MARKS[mark],
		.trail = tree->options->sizes ? &values[TREE_PARAMETERS] : NULL,
		.trail_count = tree->options->sizes ? 3 : 0,
	};

	if (!tree->run->common->raw && module.raw_name != module.name &&
		!tree->options->fold)
		values[TREE_NAME_RAW] = value_name(
			name_text(&tree->raw, tree->run->checkpoint, module.raw_name));
	if (module.wrapper != FSDP_WRAPPER_NONE)
		values[TREE_WRAPPER] = value_word(fsdp_wrapper_name(module.wrapper));
	tree->inferred_units |= mark == MARK_INFERRED;
	tree->inferred_classes |= module.class_inferred;
	out_node(tree->run->out, &node, values);
}

/* Own parameters are leaves of the text form; programs have `ls`. */
static void emit_params(struct tree *tree, size_t index, struct text module_shown)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct shown *shown = &tree->shown[index];
	struct fsdp_module module = module_at(tree, shown->module);

	for (uint32_t i = 0; i < module.tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint, fsdp_module_tensor(checkpoint, &module, i));
		struct text own = text_last(
			tensor_shown_name(tree->run, &tree->name, &tensor), '.');
		struct value trail[2] = { value_word(fsdp_dtype(tensor.dtype)->name),
			value_shape(tensor.shape, tensor.dims) };
		struct value values[TREE_COLUMNS] = { [TREE_NAME] = value_absent() };
		struct tree_node node = {
			.depth = shown->depth + 1, .trail = trail, .trail_count = 2
		};
		size_t length = 0;
		if (tensor.role != FSDP_ROLE_PARAM && tensor.role != FSDP_ROLE_BUFFER)
			continue;
		name_buffer_append(&tree->other, &length, module_shown);
		if (length > 0)
			name_buffer_append(&tree->other, &length, text_of("."));
		name_buffer_append(&tree->other, &length, own);
		node.name = (struct text){ tree->other.data, length };
		out_node(tree->run->out, &node, values);
	}
}

static void walk(struct tree *tree, const struct table *table, bool params)
{
	uint32_t emitted = 0;

	out_tree_begin(tree->run->out, table);
	for (uint32_t i = 0; i < tree->shown_count;) {
		struct text name;
		if (tree->shown[i].jump != 0 && tree->shown[i].jump != i) {
			i = tree->shown[i].jump;
			continue;
		}
		if (tree->options->fold)
			join_siblings(tree, i);
		tree->shown[i].emitted = emitted++;
		name = name_of(tree, i);
		emit_module(tree, i, name);
		if (params)
			emit_params(tree, i, name);
		i++;
	}
	out_tree_end(tree->run->out);
	tree->summed = true;
}

static void emit_units(struct tree *tree)
{
	size_t count = fsdp_unit_count(tree->run->checkpoint);

	out_array_begin(tree->run->out, "units");
	for (uint32_t i = 0; i < count; i++) {
		out_object_begin(tree->run->out, NULL);
		unit_fields(tree->run, i, &tree->name, &tree->raw);
		out_object_end(tree->run->out);
	}
	out_array_end(tree->run->out);
}

static void tell_origin(struct tree *tree)
{
	struct fsdp_plan_facts plan;

	if (fsdp_checkpoint_plan(tree->run->checkpoint, &plan)) {
		run_note(tree->run, "classes and marks from %s", plan.path);
		return;
	}
	if (tree->inferred_classes)
		run_note(tree->run,
			"classes written [~Class] were inferred from config.json");
	if (tree->inferred_units)
		run_note(tree->run,
			"marks were inferred from placements, since unit borders are not stored; a sharding plan has them: man fsdp-inspect-plan");
	else
		run_note(tree->run,
			"without a sharding plan there are no classes, and units only where the checkpoint names them: man fsdp-inspect-plan");
}

static bool show_tree(struct tree *tree)
{
	struct table table = { .key = "modules",
		.columns = COLUMNS,
		.column_count = TREE_COLUMNS,
		.main = true };
	int status = tree->shown_count == 0 && !selection_is_all(tree->selection)
			     ? STATUS_BAD
			     : STATUS_GOOD;

	if (tree->options->sharded_only && tree->shown_count == 0) {
		run_note(tree->run, "no module is fully sharded");
		status = STATUS_BAD;
	} else if (tree->shown_count == 0) {
		run_note(tree->run, "no module was selected");
	}
	run_begin(tree->run, answer_selection_status(tree->run, tree->selection, status));
	if (tree->options->params) {
		table.machine_only = true;
		walk(tree, &table, false);
		table.machine_only = false;
		table.text_only = true;
	}
	walk(tree, &table, tree->options->params);
	emit_units(tree);
	if (tree->shown_count > 0)
		tell_origin(tree);
	return !tree->name.failed && !tree->other.failed && !tree->raw.failed &&
	       !tree->unit.failed && !tree->path.failed && !tree->join.first.failed &&
	       !tree->join.braces.failed;
}

/* ---- PyTorch's own form ---- */

static bool is_marked_by_torch(const struct tree *tree, const struct fsdp_module *module)
{
	struct fsdp_unit unit;

	if (module->unit == FSDP_NONE)
		return false;
	unit = fsdp_unit(tree->run->checkpoint, module->unit);
	return unit.api != NULL && strcmp(unit.api, "fsdp1") == 0;
}

static bool show_as_torch(struct tree *tree)
{
	struct run *run = tree->run;
	int64_t limit = run->select->depth;

	if (!fsdp_has_visits(run->checkpoint))
		return refuse(run, "name one with --plan FILE: man fsdp-inspect-plan",
			"--style=torch needs a sharding plan: the checkpoint has no classes");
	if (!selection_is_all(tree->selection))
		return refuse(run, "leave out --style=torch",
			"PyTorch's own form shows all modules, so there is nothing to select");
	run_begin(run, STATUS_GOOD);
	for (uint32_t i = 0; i < tree->module_count; i++) {
		struct fsdp_module module = module_at(tree, i);
		if (limit >= 0 && module.depth > (uint64_t)limit)
			continue;
		out_line_begin(run->out, NULL);
		if (module.depth > 0)
			out_line_text(run->out, "%*s", (int)(4 * module.depth), "");
		out_line_name(
			run->out, name_text(&tree->name, run->checkpoint,
					  fsdp_module_torch_prefix(run->checkpoint, i)));
		out_line_text(run->out, "[");
		if (module.class_name != NULL)
			out_line_name(run->out, text_of(module.class_name));
		out_line_text(run->out,
			is_marked_by_torch(tree, &module) ? "] FULLY SHARDED" : "]");
		out_line_end(run->out);
	}
	return !tree->name.failed;
}

/* ---- the command ---- */

static void tree_done(struct tree *tree)
{
	free(tree->kept);
	free(tree->marks);
	free(tree->places);
	free(tree->shown);
	free(tree->sums);
	free(tree->hashes);
	free(tree->name_sizes);
	name_buffer_done(&tree->name);
	name_buffer_done(&tree->other);
	name_buffer_done(&tree->raw);
	name_buffer_done(&tree->unit);
	name_buffer_done(&tree->path);
	join_done(&tree->join);
	selection_free(tree->selection);
}

static bool prepare(struct tree *tree)
{
	if (!mark_modules(tree) || !keep_selected(tree) || !choose_shown(tree) ||
		!sum_sizes(tree))
		return false;
	if (!tree->options->fold)
		return true;
	tree->name_sizes = calloc((size_t)tree->deepest + 1, sizeof *tree->name_sizes);
	return tree->name_sizes != NULL && hash_all(tree);
}

static bool run_tree(struct run *run, struct fsdp_error **ret_error)
{
	struct tree tree = { .run = run,
		.options = run->options,
		.module_count = fsdp_module_count(run->checkpoint),
		.mixer = mixer_new() };
	bool good;

	(void)ret_error; /* nothing here reads */
	if (!answer_selection(run, &tree.selection))
		return true;
	if (strcmp(tree.options->style, "torch") == 0)
		good = show_as_torch(&tree);
	else
		good = prepare(&tree) && show_tree(&tree);
	tree_done(&tree);
	return good;
}

const struct command command_tree = {
	.name = "tree",
	.group = GROUP_START,
	.summary = "modules, with FULLY SHARDED marks",
	.synopsis =
		"[-d N] [--sizes] [--fold] [--sharded-only] [--params] [--style=default|torch] CHECKPOINT",
	.example = "tree step-1000/",
	.examples = { "tree --fold step-1000/",
		"tree --style=torch --plan net.fsdp-plan.json rank*.pt" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = true,
	.shapes = SHAPE_TREE,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.options_size = sizeof(struct tree_options),
	.run = run_tree,
};
