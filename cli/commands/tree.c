/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the modules and which of them are fully sharded.
 */
#include <stdio.h>
#include <string.h>

#include "shared/modules.h"
#include "shared/shown-names.h"
#include "shared/tensor-row.h"
#include "session/session.h"

/*
 * What `tree` shows: the visits that shared/modules.c chooses.
 */
struct tree_options {
	bool sizes, fold, no_fold, full, sharded_only, params;
	const char *style, *units_from;
};

struct tree {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct tree_options *options;
	struct selection *selection;
	struct module_tree modules;
	uint64_t *hashes; /* by shown visit; only for --fold */
	struct mixer mixer;
	size_t *name_sizes; /* by depth: how much of a shown name is the ancestor's; --fold */

	struct row_buffers *buffers;
	struct join join;
	bool summed;       /* what was folded away is in the sums of its representative */
	bool folding;      /* the rows that are emitted now are joined … */
	bool numbers_only; /* … where they differ in a number, not in a word */
	bool inferred_units, inferred_classes;
};

/* ---- joins siblings that differ only in a number or a word ---- */

/* The name after the prefix of the shown parent. */
static struct text below_parent(struct tree *tree, struct text name, size_t index)
{
	const struct shown_visit *shown = &tree->modules.shown[index];

	if (shown->parent == FSDP_NONE)
		return name;
	struct text parent = module_tree_name(&tree->modules, &tree->buffers->raw,
		tree->modules.shown[shown->parent].module);
	if (parent.size == 0 || name.size < parent.size + 1 ||
		memcmp(name.data, parent.data, parent.size) != 0 ||
		name.data[parent.size] != '.')
		return name;
	return (struct text){ name.data + parent.size + 1, name.size - parent.size - 1 };
}

static struct text own_name(struct tree *tree, struct name_buffer *buffer, size_t index)
{
	return below_parent(tree,
		module_tree_name(
			&tree->modules, buffer, tree->modules.shown[index].module),
		index);
}

/* What of a module must be equal: what is shown of it. Sizes of own tensors are not, so
 * that q_proj and k_proj of a grouped attention are one line; their number is. */
static uint64_t hash_module(struct tree *tree, const struct shown_visit *shown)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct mixer *mixer = &tree->mixer;
	struct fsdp_module module = module_at(&tree->modules, shown->module);
	uint64_t hash = mix(mixer, module.tensor_count, module.wrapper);

	hash = mix(mixer, hash, module_tree_mark(&tree->modules, shown));
	hash = mix(mixer, hash, module.same_as != FSDP_NONE);
	hash = mix_text(mixer, hash, text_of(module_shown_class(tree->run, &module)));
	FOR_EACH(i, module.tensor_count, tensor,
		fsdp_tensor(checkpoint, fsdp_module_tensor(checkpoint, &module, i))) {
		struct text name =
			tensor_shown_name(tree->run, &tree->buffers->name, &tensor);
		hash = mix(mixer, mix(mixer, hash, tensor.dtype), tensor.dims);
		hash = mix_text(mixer, hash, text_last(name, '.'));
		for (uint32_t j = 0; tree->options->params && j < tensor.dims; j++)
			hash = mix(mixer, hash, (uint64_t)tensor.shape[j]);
	}
	return hash;
}

static bool same_module(
	struct tree *tree, const struct shown_visit *a, const struct shown_visit *b)
{
	struct fsdp_module left = module_at(&tree->modules, a->module);
	struct fsdp_module right = module_at(&tree->modules, b->module);
	struct text left_class = text_of(module_shown_class(tree->run, &left));
	struct text right_class = text_of(module_shown_class(tree->run, &right));

	return text_is(left_class, right_class) && left.wrapper == right.wrapper &&
	       module_tree_mark(&tree->modules, a) == module_tree_mark(&tree->modules, b);
}

/* Equal hashes are a guess; this is what counts. Each visit is compared at most once a
 * level, and what was folded away is not looked at again, so it stays linear. */
static bool same_below(struct tree *tree, uint32_t a, uint32_t b)
{
	uint32_t size = tree->modules.shown[a].end - a;

	if (tree->modules.shown[b].end - b != size)
		return false;
	for (uint32_t i = 0; i < size; i++) {
		const struct shown_visit *left = &tree->modules.shown[a + i],
					 *right = &tree->modules.shown[b + i];
		if (left->depth != right->depth ||
			tree->hashes[a + i] != tree->hashes[b + i] ||
			!same_module(tree, left, right))
			return false;
		if (i > 0 && !text_is(own_name(tree, &tree->buffers->name, a + i),
				     own_name(tree, &tree->buffers->alias, b + i)))
			return false;
	}
	return true;
}

/* Folds equal siblings that follow a visit; the walk skips them. */
static void tree_fold(struct tree *tree, uint32_t first)
{
	uint32_t next = tree->modules.shown[first].end;

	join_begin(&tree->join, own_name(tree, &tree->buffers->alias, first));
	while (next < tree->modules.shown_count &&
		tree->modules.shown[next].parent == tree->modules.shown[first].parent &&
		tree->hashes[next] == tree->hashes[first] &&
		same_below(tree, first, next) &&
		join_add(&tree->join, own_name(tree, &tree->buffers->alias, next))) {
		if (tree->numbers_only && !tree->join.numbers) {
			join_begin(&tree->join,
				own_name(tree, &tree->buffers->alias, first));
			break;
		}
		if (!tree->summed) {
			uint32_t size = tree->modules.shown[first].end - first;

			FOR_EACH(i, size, sum, &tree->modules.sums[first + i]) {
				const struct sums *other = &tree->modules.sums[next + i];
				sum->parameters += other->parameters;
				sum->bytes += other->bytes;
				if (sum->rank_bytes != FSDP_UNKNOWN)
					sum->rank_bytes =
						other->rank_bytes != FSDP_UNKNOWN
							? sum->rank_bytes +
								  other->rank_bytes
							: FSDP_UNKNOWN;
			}
		}
		next = tree->modules.shown[next].end;
	}
	if (next != tree->modules.shown[first].end)
		tree->modules.shown[tree->modules.shown[first].end].jump = next;
}

static struct text folded_name(struct tree *tree, size_t index, struct text *ret_leaf)
{
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct name_buffer *buffer = &tree->buffers->module;
	size_t length = 0, above;

	if (shown->depth > 0)
		length = tree->name_sizes[shown->depth - 1];
	if (length > 0)
		name_buffer_append(buffer, &length, text_of("."));
	above = length;
	join_write(&tree->join, buffer, &length);
	tree->name_sizes[shown->depth] = length;
	if (length == 0)
		return *ret_leaf = (struct text){ "", 0 };
	*ret_leaf = (struct text){ buffer->data + above, length - above };
	return (struct text){ buffer->data, length };
}

/* The name of a shown visit, made of joined segments when they are folded; and the part
 * after the parent's name, or all of it if that is empty. */
static struct text tree_shown_name(struct tree *tree, size_t index, struct text *ret_leaf)
{
	struct text name;

	if (tree->folding) {
		name = folded_name(tree, index, ret_leaf);
	} else {
		name = module_tree_name(&tree->modules, &tree->buffers->module,
			tree->modules.shown[index].module);
		*ret_leaf = below_parent(tree, name, index);
	}
	/* A segment may be empty, and "(root)" stands for an empty name. */
	if (tree->options->full || ret_leaf->size == 0)
		*ret_leaf = name;
	return name;
}

/* ---- describes each visit that is shown, and emits the rows ---- */

/* A row of the tree. Its context is the row_context of the tree. */
struct shown_module {
	struct fsdp_module module;
	struct text name;
	const char *class;
	uint32_t depth, parent, same_as; /* the latter by their rows, or FSDP_NONE */
	uint32_t unit, raw_name;         /* FSDP_NONE: none, or that of several */
	enum mark mark;
	bool is_sharded, is_likely;
	struct sums sums;
};

static struct value find_raw_name(struct subject of, uint32_t name)
{
	return value_name(name_text(&buffers_of(of)->raw, checkpoint_of(of), name));
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
	{ "name", NAME_AT(MODULE, name),
		ALWAYS("Name as shown; the root is the empty string.") },
	{ "name_raw", FOUND_AT(MODULE, raw_name, FIELD_NAME, find_raw_name),
		ABOUT("Name as PyTorch has it, when cleaning changed it.") },
	{ "class", WORD_AT(MODULE, class),
		ABOUT("Python class, where a plan or a record has it.") },
	{ "wrapper", ENUM_AT(MODULE, module.wrapper, wrapper_word),
		ABOUT("Kind of wrapper: `fsdp1`, `checkpoint`, `compile`, `ddp`, `dmp` or `other`; absent for ordinary modules.") },
	{ "depth", ID_AT(MODULE, depth), ALWAYS("Levels below the root.") },
	{ "parent", ID_AT(MODULE, parent), .null = true,
		ABOUT("Position of its parent in this array; null for a root.") },
	{ "unit", FOUND_AT(MODULE, unit, FIELD_NAME, find_unit_module),
		ABOUT("Clean name of the unit that shards it; absent where none does.") },
	{ "fully_sharded", BOOL_AT(MODULE, is_sharded),
		ALWAYS("True where the text output has the mark FULLY SHARDED, unless it is only likely.") },
	{ "likely_unit", BOOL_AT(MODULE, is_likely), IF_SET(MODULE, is_likely),
		ABOUT("True for a repeated block below a sharded module: inferred to be a unit, not recorded.") },
	{ "inferred", GET(FIELD_TEXTS, get_inferred), .always = true,
		WORDS("class", "fully_sharded"),
		ABOUT("Fields that were inferred from the checkpoint and not read from a record.") },
	{ "same_as", ID_AT(MODULE, same_as),
		ABOUT("Position of the first visit of the same module, where several paths lead to it.") },
	{ "parameters", COUNT_AT(MODULE, sums.parameters),
		ALWAYS("Elements of the parameters in it and below it; tied ones count once.") },
	{ "bytes", BYTES_AT(MODULE, sums.bytes), ALWAYS("Bytes of these parameters.") },
	{ "bytes_per_rank", BYTES_AT(MODULE, sums.rank_bytes),
		ABOUT("The most bytes of them on one rank; with `--sizes`.") });

const char *const tree_heads[] = { "PARAMS", "BYTES", "SHARE", "PER RANK", NULL };

static void emit_module(struct tree *tree, const struct record_table *table, size_t index,
	struct text name, struct text leaf)
{
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct fsdp_module module = module_at(&tree->modules, shown->module);
	struct sums sums = module_tree_sums(&tree->modules, index);
	enum mark mark = module_tree_mark(&tree->modules, shown);
	/* Where the first visit of the same module is shown. */
	uint32_t place = module.same_as < tree->modules.module_count
				 ? tree->modules.places[module.same_as]
				 : (uint32_t)NOT_SHOWN;
	const struct shown_module row = {
		.module = module,
		.name = name,
		.class = module_shown_class(tree->run, &module),
		.raw_name = tree->run->common->raw || tree->folding ||
					    module.raw_name == module.name
				    ? FSDP_NONE
				    : module.raw_name,
		.depth = shown->depth,
		.parent = shown->parent == FSDP_NONE
				  ? FSDP_NONE
				  : tree->modules.shown[shown->parent].emitted,
		.same_as = place == (uint32_t)CUT_OFF || place == (uint32_t)NOT_SHOWN
				   ? FSDP_NONE
				   : tree->modules.shown[place].emitted,
		.unit = shown->marked == FSDP_NONE
				? FSDP_NONE
				: module_at(&tree->modules, shown->marked).unit,
		.mark = mark,
		.is_sharded = mark == MARK_SHARDED || mark == MARK_INFERRED,
		.is_likely = mark == MARK_LIKELY,
		.sums = sums,
	};
	char share[16] = "";
	if (tree->options->sizes) {
		uint64_t all = module_at(&tree->modules, 0).bytes;

		snprintf(share, 16, "%.1f %%",
			all > 0 ? 100.0 * (double)sums.bytes / (double)all : 0.0);
	}
	const struct value lead[] = { value_elements(sums.parameters),
		value_bytes(sums.bytes), value_word(share),
		value_bytes(sums.rank_bytes) };
	const struct tree_node node = {
		.depth = shown->depth,
		.name = leaf,
		.class_name = text_of(row.class),
		.class_guessed = module.class_inferred,
		.mark = module_mark_text(mark),
		.mark_guessed = mark == MARK_INFERRED || mark == MARK_LIKELY,
		.lead = tree->options->sizes ? lead : NULL,
	};

	tree->inferred_units |= node.mark_guessed;
	tree->inferred_classes |= module.class_inferred;
	out_records_node(tree->run->out, table, &node, &row);
}

/* Own parameters are leaves of the text form; programs have `ls`. */
static void emit_params(struct tree *tree, size_t index, struct text module_shown)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct fsdp_module module = module_at(&tree->modules, shown->module);

	FOR_EACH(i, module.tensor_count, tensor,
		fsdp_tensor(checkpoint, fsdp_module_tensor(checkpoint, &module, i))) {
		struct text own = text_last(
			tensor_shown_name(tree->run, &tree->buffers->name, &tensor), '.');
		struct value trail[2] = { value_word(fsdp_dtype(tensor.dtype)->name),
			value_shape(tensor.shape, tensor.dims) };
		struct tree_node node = {
			.depth = shown->depth + 1, .trail = trail, .trail_count = 2
		};
		size_t length = 0;
		if (tensor.role != FSDP_ROLE_PARAM && tensor.role != FSDP_ROLE_BUFFER)
			continue;
		if (tree->options->full && module_shown.size > 0) {
			name_buffer_append(&tree->buffers->alias, &length, module_shown);
			name_buffer_append(&tree->buffers->alias, &length, text_of("."));
		}
		name_buffer_append(&tree->buffers->alias, &length, own);
		node.name = (struct text){ tree->buffers->alias.data, length };
		out_node(tree->run->out, &node, NULL);
	}
}

static void tree_walk(struct tree *tree, struct record_table *table, bool params)
{
	uint32_t emitted = 0;

	out_records_begin(tree->run->out, table);
	for (uint32_t i = 0; i < tree->modules.shown_count;) {
		struct text name, leaf;
		if (tree->folding && tree->modules.shown[i].jump != 0 &&
			tree->modules.shown[i].jump != i) {
			i = tree->modules.shown[i].jump;
			continue;
		}
		if (tree->folding)
			tree_fold(tree, i);
		tree->modules.shown[i].emitted = emitted++;
		name = tree_shown_name(tree, i, &leaf);
		emit_module(tree, table, i, name, leaf);
		if (params)
			emit_params(tree, i, name);
		i++;
	}
	out_table_end(tree->run->out);
	tree->summed |= tree->folding;
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

static const struct record tree_record = OBJECT_RECORD(struct tree, "tree",
	"The tree of modules.",
	{ "modules", ITEMS(module_record), ALWAYS("Modules in depth-first order.") },
	{ "units", EACH(each_unit, unit_record),
		ALWAYS("FSDP units, in the order of their modules.") });

/* ---- writes PyTorch's own form, byte for byte ---- */

static void tree_as_torch(struct tree *tree)
{
	struct run *run = tree->run;
	int64_t limit = run->select->depth;

	if (!fsdp_has_visits(run->checkpoint))
		run_refuse(run, "name one with --plan FILE: fsdp-inspect help plan",
			"--style=torch needs a sharding plan: the checkpoint has no classes");
	if (!selection_is_all(tree->selection))
		run_refuse(run, "omit --style=torch",
			"PyTorch's own form shows all modules, so there is nothing to select");
	if (tree->options->sizes || tree->options->params || tree->options->fold ||
		tree->options->sharded_only)
		run_refuse(run, "omit --style=torch",
			"PyTorch's own form has no --sizes, --params, --fold or --sharded-only");
	run_begin(run, STATUS_GOOD);
	for (uint32_t i = 0; i < fsdp_module_count(run->checkpoint); i++) {
		struct fsdp_module module = fsdp_module(run->checkpoint, i);
		const char *api = module.unit != FSDP_NONE
					  ? fsdp_unit(run->checkpoint, module.unit).api
					  : NULL;
		bool is_marked = api != NULL && strcmp(api, "fsdp1") == 0;

		if (limit >= 0 && module.depth > (uint64_t)limit)
			continue;
		out_line_begin(run->out, NULL);
		if (module.depth > 0)
			out_line_text(run->out, "%*s", (int)(4 * module.depth), "");
		out_values(run->out, "{}{[}{}{]}{}",
			value_name(name_text(&tree->buffers->name, run->checkpoint,
				fsdp_module_torch_prefix(run->checkpoint, i))),
			value_word(module.class_name != NULL ? module.class_name : ""),
			value_word(is_marked ? " FULLY SHARDED" : ""));
		out_line_end(run->out);
	}
}

/* ---- parts with weights, for ncdu ---- */

/* A module with the bytes that none of its children has, then its tensors, unless -d cuts
 * them off. What a further name of a tensor holds is in it already. */
static void emit_weighed(struct tree *tree, size_t index)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct fsdp_module module = module_at(&tree->modules, shown->module);
	struct weighed part = { .depth = shown->depth,
		.total = module_tree_sums(&tree->modules, index).bytes };
	int64_t limit = tree->run->select->depth;
	uint32_t tensors =
		limit < 0 || shown->depth < (uint64_t)limit ? module.tensor_count : 0;
	uint64_t below = 0;

	for (size_t i = index + 1; i < shown->end; i = tree->modules.shown[i].end)
		below += module_tree_sums(&tree->modules, i).bytes;
	FOR_EACH(i, tensors, tensor,
		fsdp_tensor(checkpoint, fsdp_module_tensor(checkpoint, &module, i)))
		below += tensor.role == FSDP_ROLE_PARAM ? tensor.bytes : 0;
	part.own = part.total > below ? part.total - below : 0;
	(void)tree_shown_name(tree, index, &part.name);
	out_weighed(tree->run->out, &part);
	FOR_EACH(i, tensors, tensor,
		fsdp_tensor(checkpoint, fsdp_module_tensor(checkpoint, &module, i))) {
		uint64_t bytes = tensor.alias == FSDP_NONE ? tensor.bytes : 0;

		if (tensor.role != FSDP_ROLE_PARAM && tensor.role != FSDP_ROLE_BUFFER)
			continue;
		part = (struct weighed){ .depth = shown->depth + 1,
			.name = text_last(tensor_shown_name(tree->run,
						  &tree->buffers->name, &tensor),
				'.'),
			.own = bytes,
			.total = bytes,
			.is_leaf = true };
		out_weighed(tree->run->out, &part);
	}
}

static const char *const STYLES[] = { "default", "torch", NULL };

static const struct option_row OPTIONS[] = {
	{ "sizes", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, sizes),
		.help = "show parameters, bytes, percentage and bytes per rank" },
	{ "full", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, full),
		.help = "print full names" },
	{ "fold", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, fold),
		.help = "print one line for siblings that differ in one word" },
	{ "no-fold", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, no_fold),
		.help = "print one line per module, also on a terminal" },
	{ "sharded-only", 0, OPTION_FLAG, NULL,
		offsetof(struct tree_options, sharded_only),
		.help = "show only fully sharded modules and their parents" },
	{ "params", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, params),
		.help = "show the parameters of each module" },
	{ "style", 0, OPTION_WORD, "STYLE", offsetof(struct tree_options, style), STYLES,
		.initial = "default", .help = "torch: print the model like PyTorch" },
	{ "units-from", 0, OPTION_TEXT, "FILE", offsetof(struct tree_options, units_from),
		.help = "use the units of a trace, or of a log with the printed model" },
	{ NULL },
};

/* Of a model as a hub has it, or of an adapter, no sharding is to be expected. */
static bool is_of_training(const struct fsdp_checkpoint *checkpoint)
{
	const char *family = fsdp_checkpoint_format(checkpoint).family;

	return family == NULL ||
	       (strncmp(family, "hf-", 3) != 0 && strncmp(family, "peft", 4) != 0);
}

static void print_origin(struct tree *tree)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	struct run *run = tree->run;
	struct fsdp_plan_facts plan;
	bool by_name = false, has_class = false;

	if (fsdp_checkpoint_plan(checkpoint, &plan)) {
		/* A print has a class of its own for each unit of FSDP2, and a class of
		 * the same name may be its author's. */
		for (uint32_t i = 0; plan.from != NULL && i < fsdp_unit_count(checkpoint);
			i++)
			by_name |= strcmp(fsdp_unit(checkpoint, i).api, "fsdp2") == 0;
		if (plan.from == NULL)
			run_note(run, "using sharding plan %s", plan.path);
		else if (strcmp(plan.from, "trace") == 0)
			run_note(run,
				"units from %s: what a trace names; it has no classes",
				plan.path);
		else
			run_note(run,
				"classes and FSDP units from %s (a printed model)%s",
				plan.path,
				by_name ? ", whose units are known by the names of their classes"
					: "");
		return;
	}
	/* A pickled module, or TorchScript, names the classes of its parts. */
	for (uint32_t i = 0; i < fsdp_module_count(checkpoint) && !has_class; i++)
		has_class = fsdp_module(checkpoint, i).class_name != NULL;
	if (tree->inferred_classes)
		run_note(run, "classes written [~Class] were inferred from config.json");
	if (tree->inferred_units)
		run_note(run,
			"FULLY SHARDED is inferred; a sharding plan makes it exact (fsdp-inspect help plan)");
	else if (!tree->inferred_classes && has_class)
		run_note(run,
			"without a sharding plan, only units that the checkpoint names are shown (fsdp-inspect help plan)");
	else if (!tree->inferred_classes && is_of_training(checkpoint))
		run_note(run,
			"classes and FSDP units are not in this checkpoint: add a sharding plan (fsdp-inspect help plan)");
}

/* On a terminal siblings are folded that differ in a number: hundreds of layers are no
 * answer. Programs get each module unless they ask. */
static bool folds_for_people(const struct tree *tree)
{
	const struct looks *looks = out_looks(tree->run->out);

	return !tree->options->fold && !tree->options->no_fold && looks != NULL &&
	       looks->width > 0;
}

static void choose(struct tree *tree)
{
	bool may_fold = tree->options->fold || folds_for_people(tree);

	tree->modules.run = tree->run;
	tree->modules.selection = tree->selection;
	tree->modules.name = &tree->buffers->text;
	tree->modules.wanted.sharded_only = tree->options->sharded_only;
	tree->modules.wanted.sums = may_fold;
	tree->modules.wanted.depth = tree->run->select->depth;
	tree->modules.wanted.rank_bytes = tree->options->sizes;
	module_tree_choose(&tree->modules);
	if (!may_fold)
		return;
	tree->name_sizes = run_memory(
		tree->run, (size_t)tree->modules.deepest + 1, sizeof *tree->name_sizes);
	const struct mixer *mixer = &tree->mixer;
	size_t count = tree->modules.shown_count;
	uint64_t *below = run_memory(tree->run, count, sizeof *below);

	tree->hashes = run_memory(tree->run, count, sizeof *tree->hashes);
	for (size_t i = tree->modules.shown_count; i-- > 0;) {
		uint32_t parent = tree->modules.shown[i].parent;
		tree->hashes[i] =
			mix(mixer, hash_module(tree, &tree->modules.shown[i]), below[i]);
		if (parent != FSDP_NONE)
			below[parent] = mix_text(mixer,
				mix(mixer, below[parent], tree->hashes[i]),
				own_name(tree, &tree->buffers->alias, i));
	}
}

static void show_tree(struct tree *tree)
{
	int status = tree->modules.shown_count == 0 && !selection_is_all(tree->selection)
			     ? STATUS_BAD
			     : STATUS_GOOD;

	if (tree->options->sharded_only && tree->modules.shown_count == 0) {
		run_note(tree->run, "no module is fully sharded");
		status = STATUS_BAD;
	} else if (tree->modules.shown_count == 0 && !selection_is_all(tree->selection)) {
		print_no_match(tree->run, NAMEABLE_MODULES);
	} else if (tree->modules.shown_count == 0) {
		run_note(tree->run, "no modules");
	}
	run_begin(tree->run, answer_selection_status(tree->run, tree->selection, status));
	const struct table like = { .key = "modules",
		.main = true,
		.tree = true,
		.heads = tree->options->sizes ? tree_heads : NULL };
	struct record_table table;
	for (size_t i = 0; out_weighs(tree->run->out) && i < tree->modules.shown_count;
		i++)
		emit_weighed(tree, i);
	record_table_init(&table, &like, &module_record, &tree->row);
	tree->folding = tree->options->fold;
	tree->numbers_only = folds_for_people(tree);
	if (tree->options->params || tree->numbers_only) {
		table.table.machine_only = true;
		tree_walk(tree, &table, false);
		table.table.machine_only = false;
		table.table.text_only = true;
	}
	tree->folding |= tree->numbers_only;
	tree_walk(tree, &table, tree->options->params);
	out_fields(tree->run->out, &tree_record, (struct subject){ &tree->row, tree });
	plan_document_write(tree->run, tree->buffers);
	if (tree->modules.shown_count > 0)
		print_origin(tree);
}

static void run_tree(struct run *run)
{
	struct row_buffers *buffers = run_memory(run, 1, sizeof *buffers);
	struct tree *tree = run_memory(run, 1, sizeof *tree);

	*tree = (struct tree){ .run = run,
		.row = { .run = run, .buffers = buffers },
		.buffers = buffers,
		.options = run->options,
		.mixer = mixer_new() };
	if (tree->options->fold && tree->options->no_fold)
		run_refuse(run, "give one of them",
			"--fold and --no-fold exclude each other");
	plan_document_check(run);
	tree->selection = run_selection(run);
	if (strcmp(tree->options->style, "torch") == 0) {
		tree_as_torch(tree);
	} else {
		choose(tree);
		show_tree(tree);
	}
}

const struct command command_tree = {
	.name = "tree",
	.group = GROUP_START,
	.summary = "show the module tree and FSDP units",
	.synopsis =
		"[-d N] [--sizes] [--full] [--fold | --no-fold] [--sharded-only] [--params] [--style=default|torch] [--units-from=FILE] [CHECKPOINT]",
	.examples = { "tree --sizes -d 2 step-1000/",
		"tree --style=torch --plan net.fsdp-plan.json rank*.pt" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_depth, select_columns, NULL },
	.shapes = SHAPE_TREE | SHAPE_TABLE | SHAPE_MODULES | SHAPE_PLAN,
	.answer = &tree_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.options_size = sizeof(struct tree_options),
	.perform = run_tree,
};
