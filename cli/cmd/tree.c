/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the modules and which of them are fully sharded.
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
#include "part/nothing.h"
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
	struct row_context row; /* what records are handed */
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
	size_t *name_sizes; /* by depth: how much of a shown name is the ancestor's; --fold */

	struct row_buffers buffers;
	struct join join;
	bool summed; /* what was folded away is in the sums of its representative */
	bool inferred_units, inferred_classes;
};

enum { NOT_SHOWN = -1, CUT_OFF = -2 };

static struct fsdp_module module_at(const struct tree *tree, uint32_t index)
{
	return fsdp_module(tree->run->checkpoint, index);
}

static struct text module_name(
	const struct tree *tree, struct name_buffer *buffer, uint32_t index)
{
	struct fsdp_module module = module_at(tree, index);
	return name_text(buffer, tree->run->checkpoint,
		tree->run->common->raw ? module.raw_name : module.name);
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

/* A unit may belong to a wrapper (activation checkpointing inside of FSDP): its mark goes
 * to the module that stands for both. */
static bool mark_modules(struct tree *tree)
{
	tree->marks = malloc((tree->module_count + 1) * sizeof *tree->marks);
	if (tree->marks == NULL)
		return false;
	for (uint32_t i = 0; i < tree->module_count; i++) {
		struct fsdp_module module = module_at(tree, i);
		tree->marks[i] = module.unit != FSDP_NONE ? i : FSDP_NONE;
		if (module.unit != FSDP_NONE || module.parent == FSDP_NONE ||
			module.parent >= i)
			continue;
		if (wrapper_is_folded(tree->run, module.parent))
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
		struct text name =
			tensor_shown_name(tree->run, &tree->buffers.name, &tensor);
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
	return selection_takes_name(tree->selection,
		span_of_text(module_name(tree, &tree->buffers.name, index)));
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
	if (wrapper_is_folded(tree->run, index))
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
	parent = module_name(tree, &tree->buffers.raw, tree->shown[shown->parent].module);
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
		struct text name =
			tensor_shown_name(tree->run, &tree->buffers.name, &tensor);
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
				own_name(tree, &tree->buffers.alias, i));
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
		if (i > 0 && !text_is(own_name(tree, &tree->buffers.name, a + i),
				     own_name(tree, &tree->buffers.alias, b + i)))
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

	join_begin(&tree->join, own_name(tree, &tree->buffers.alias, first));
	while (next < tree->shown_count &&
		tree->shown[next].parent == tree->shown[first].parent &&
		tree->hashes[next] == tree->hashes[first] &&
		same_below(tree, first, next) &&
		join_add(&tree->join, own_name(tree, &tree->buffers.alias, next))) {
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
		return module_name(tree, &tree->buffers.module, shown->module);
	if (shown->depth > 0)
		length = tree->name_sizes[shown->depth - 1];
	if (length > 0)
		name_buffer_append(&tree->buffers.module, &length, text_of("."));
	join_write(&tree->join, &tree->buffers.module, &length);
	tree->name_sizes[shown->depth] = length;
	return (struct text){ length > 0 ? tree->buffers.module.data : "", length };
}

/* ---- what is shown of each ---- */

/* A row of the tree. Its context is the row_context of the tree. */
struct shown_module {
	struct fsdp_module module;
	struct text name;
	uint32_t depth, parent, same_as; /* the latter by their rows, or FSDP_NONE */
	uint32_t unit;
	enum mark mark;
	struct sums sums;
	bool folded; /* the name is that of several */
};

static struct value get_raw_name(struct subject of)
{
	const struct row_context *context = of.context;
	const struct shown_module *row = of.object;

	if (context->run->common->raw || row->folded ||
		row->module.raw_name == row->module.name)
		return value_absent();
	return value_name(name_text(
		&context->buffers->raw, context->run->checkpoint, row->module.raw_name));
}

static struct value get_class(struct subject of)
{
	return value_word(
		module_shown_class(((const struct row_context *)of.context)->run,
			&((const struct shown_module *)of.object)->module));
}

static const char *wrapper_word(unsigned wrapper)
{
	return wrapper != FSDP_WRAPPER_NONE ? fsdp_wrapper_name(wrapper) : NULL;
}

static struct value get_unit(struct subject of)
{
	const struct row_context *context = of.context;
	const struct fsdp_checkpoint *checkpoint = context->run->checkpoint;
	uint32_t index = ((const struct shown_module *)of.object)->unit, module;

	if (index == FSDP_NONE)
		return value_absent();
	module = fsdp_unit(checkpoint, index).module;
	return module == FSDP_NONE
		       ? value_absent()
		       : value_name(name_text(&context->buffers->unit, checkpoint,
				 fsdp_module(checkpoint, module).name));
}

static struct value get_fully_sharded(struct subject of)
{
	return value_bool(((const struct shown_module *)of.object)->mark != MARK_NONE);
}

static struct value get_inferred(struct subject of)
{
	static const struct text words[] = { { "class", 5 }, { "fully_sharded", 13 } };
	const struct shown_module *row = of.object;
	size_t class = row->module.class_inferred, mark = row->mark == MARK_INFERRED;

	return value_texts(&words[1 - class], class + mark);
}

#define MODULE struct shown_module
static const struct record module_record = OBJECT_RECORD(MODULE, "module",
	"A module as the tree shows it. Parents come before their children.",
	{ "name", NAME_AT(MODULE, name), .always = true,
		.about = "Name as shown; the root is the empty text." },
	{ "name_raw", GET(FIELD_NAME, get_raw_name),
		.about = "Name as PyTorch has it, when cleaning changed it." },
	{ "class", GET(FIELD_WORD, get_class),
		.about = "Python class, where a plan or a record has it." },
	{ "wrapper", ENUM_AT(MODULE, module.wrapper, wrapper_word),
		.about =
			"Kind of wrapper: `fsdp1`, `checkpoint`, `compile`, `ddp`, `dmp` or `other`; absent for ordinary modules." },
	{ "depth", ID_AT(MODULE, depth), .always = true,
		.about = "Levels below the root." },
	{ "parent", ID_AT(MODULE, parent), .null = true,
		.about = "Position of its parent in this array; null for a root." },
	{ "unit", GET(FIELD_NAME, get_unit),
		.about =
			"Clean name of the unit that shards it; absent where none does." },
	{ "fully_sharded", GET(FIELD_BOOL, get_fully_sharded), .always = true,
		.about = "True where the text output has the mark FULLY SHARDED." },
	{ "inferred", GET(FIELD_TEXTS, get_inferred), .always = true,
		WORDS("class", "fully_sharded"),
		.about =
			"Fields that were inferred from the checkpoint and not read from a record." },
	{ "same_as", ID_AT(MODULE, same_as),
		.about =
			"Position of the first visit of the same module, where several paths lead to it." },
	{ "parameters", COUNT_AT(MODULE, sums.parameters), .always = true,
		.about =
			"Elements of the parameters in it and below it; tied ones count once." },
	{ "bytes", BYTES_AT(MODULE, sums.bytes), .always = true,
		.about = "Bytes of these parameters." },
	{ "bytes_per_rank", BYTES_AT(MODULE, sums.rank_bytes),
		.about = "The most bytes of them that one rank holds; with `--sizes`." });

/* Where the first visit of the same module is shown. */
static uint32_t same_as(const struct tree *tree, uint32_t module)
{
	uint32_t place =
		module < tree->module_count ? tree->places[module] : (uint32_t)NOT_SHOWN;

	return place == (uint32_t)CUT_OFF || place == (uint32_t)NOT_SHOWN
		       ? FSDP_NONE
		       : tree->shown[place].emitted;
}

static void emit_module(struct tree *tree, const struct record_table *table, size_t index,
	struct text name)
{
	const struct shown *shown = &tree->shown[index];
	struct fsdp_module module = module_at(tree, shown->module);
	struct sums sums = sums_of(tree, index);
	const struct shown_module row = {
		.module = module,
		.name = name,
		.depth = shown->depth,
		.parent = shown->parent == FSDP_NONE ? FSDP_NONE
						     : tree->shown[shown->parent].emitted,
		.same_as = same_as(tree, module.same_as),
		.unit = shown->marked == FSDP_NONE ? FSDP_NONE
						   : module_at(tree, shown->marked).unit,
		.mark = mark_at(tree, shown),
		.sums = sums,
		.folded = tree->options->fold,
	};
	const struct value trail[] = { value_elements(sums.parameters),
		value_bytes(sums.bytes), value_bytes(sums.rank_bytes) };
	const struct tree_node node = {
		.depth = shown->depth,
		.name = name,
		.class_name = text_of(module_shown_class(tree->run, &module)),
		.class_guessed = module.class_inferred,
		.mark = MARKS[row.mark],
		.trail = trail,
		.trail_count = tree->options->sizes ? 3 : 0,
	};

	tree->inferred_units |= row.mark == MARK_INFERRED;
	tree->inferred_classes |= module.class_inferred;
	out_records_node(tree->run->out, table, &node, &row);
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
			tensor_shown_name(tree->run, &tree->buffers.name, &tensor), '.');
		struct value trail[2] = { value_word(fsdp_dtype(tensor.dtype)->name),
			value_shape(tensor.shape, tensor.dims) };
		struct tree_node node = {
			.depth = shown->depth + 1, .trail = trail, .trail_count = 2
		};
		size_t length = 0;
		if (tensor.role != FSDP_ROLE_PARAM && tensor.role != FSDP_ROLE_BUFFER)
			continue;
		name_buffer_append(&tree->buffers.alias, &length, module_shown);
		if (length > 0)
			name_buffer_append(&tree->buffers.alias, &length, text_of("."));
		name_buffer_append(&tree->buffers.alias, &length, own);
		node.name = (struct text){ tree->buffers.alias.data, length };
		out_node(tree->run->out, &node, NULL);
	}
}

static void walk(struct tree *tree, struct record_table *table, bool params)
{
	uint32_t emitted = 0;

	out_records_begin(tree->run->out, table);
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
		emit_module(tree, table, i, name);
		if (params)
			emit_params(tree, i, name);
		i++;
	}
	out_table_end(tree->run->out);
	tree->summed = true;
}

static const void *each_unit(struct subject of, size_t i, void *room)
{
	const struct fsdp_checkpoint *checkpoint =
		((const struct tree *)of.object)->run->checkpoint;
	struct fsdp_unit *unit = room;

	if (i == fsdp_unit_count(checkpoint))
		return NULL;
	*unit = fsdp_unit(checkpoint, (uint32_t)i);
	return unit;
}

_Static_assert(sizeof(struct fsdp_unit) <= RECORD_ROOM, "room for one");

static const struct record tree_record =
	OBJECT_RECORD(struct tree, "tree", "The tree of modules.",
		{ "modules", ITEMS(module_record), .always = true,
			.about = "Modules in depth-first order." },
		{ "units", EACH(each_unit, unit_record), .always = true,
			.about = "FSDP units, in the order of their modules." });

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
	static const struct table like = { .key = "modules", .main = true, .tree = true };
	struct record_table table;
	int status = tree->shown_count == 0 && !selection_is_all(tree->selection)
			     ? STATUS_BAD
			     : STATUS_GOOD;

	if (tree->options->sharded_only && tree->shown_count == 0) {
		run_note(tree->run, "no module is fully sharded");
		status = STATUS_BAD;
	} else if (tree->shown_count == 0 && !selection_is_all(tree->selection)) {
		tell_nothing(tree->run, NAMEABLE_MODULES);
	} else if (tree->shown_count == 0) {
		run_note(tree->run, "there are no modules");
	}
	run_begin(tree->run, answer_selection_status(tree->run, tree->selection, status));
	record_table_init(&table, &like, &module_record, &tree->row);
	if (tree->options->params) {
		table.table.machine_only = true;
		walk(tree, &table, false);
		table.table.machine_only = false;
		table.table.text_only = true;
	}
	walk(tree, &table, tree->options->params);
	out_fields(tree->run->out, &tree_record, (struct subject){ &tree->row, tree });
	if (tree->shown_count > 0)
		tell_origin(tree);
	return !tree->join.first.failed && !tree->join.braces.failed;
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
			run->out, name_text(&tree->buffers.name, run->checkpoint,
					  fsdp_module_torch_prefix(run->checkpoint, i)));
		out_line_text(run->out, "[");
		if (module.class_name != NULL)
			out_line_name(run->out, text_of(module.class_name));
		out_line_text(run->out,
			is_marked_by_torch(tree, &module) ? "] FULLY SHARDED" : "]");
		out_line_end(run->out);
	}
	return true;
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
	row_buffers_done(&tree->buffers);
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
	tree.row = (struct row_context){ .run = run, .buffers = &tree.buffers };
	if (strcmp(tree.options->style, "torch") == 0)
		good = show_as_torch(&tree);
	else
		good = prepare(&tree) && show_tree(&tree);
	good = good && !row_buffers_failed(&tree.buffers);
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
	.selectors = (const struct option *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_depth, NULL },
	.shapes = SHAPE_TREE,
	.answer = &tree_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.options_size = sizeof(struct tree_options),
	.run = run_tree,
};
