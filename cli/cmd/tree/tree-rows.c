/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes each visit that is shown, and emits the rows.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/tree/tree.h"
#include "part/modules.h"
#include "session/session.h"

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
	enum mark mark = ((const struct shown_module *)of.object)->mark;

	return value_bool(mark == MARK_SHARDED || mark == MARK_INFERRED);
}

static struct value get_likely(struct subject of)
{
	return ((const struct shown_module *)of.object)->mark == MARK_LIKELY
		       ? value_bool(true)
		       : value_absent();
}

static struct value get_inferred(struct subject of)
{
	static const struct text words[] = { { "class", 5 }, { "fully_sharded", 13 } };
	const struct shown_module *row = of.object;
	size_t class = row->module.class_inferred, mark = row->mark == MARK_INFERRED;

	return value_texts(&words[1 - class], class + mark);
}

#define MODULE struct shown_module
const struct record module_record = OBJECT_RECORD(MODULE, "module",
	"A module as the tree shows it. Parents come before their children.",
	{ "name", NAME_AT(MODULE, name), .always = true,
		.about = "Name as shown; the root is the empty string." },
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
		.about =
			"True where the text output has the mark FULLY SHARDED, unless it is only likely." },
	{ "likely_unit", GET(FIELD_BOOL, get_likely),
		.about =
			"True for a repeated block below a sharded module: inferred to be a unit, not recorded." },
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
	uint32_t place = module < tree->modules.module_count
				 ? tree->modules.places[module]
				 : (uint32_t)NOT_SHOWN;

	return place == (uint32_t)CUT_OFF || place == (uint32_t)NOT_SHOWN
		       ? FSDP_NONE
		       : tree->modules.shown[place].emitted;
}

static void write_share(const struct tree *tree, uint64_t bytes, char share[16])
{
	uint64_t all = module_at(&tree->modules, 0).bytes;

	snprintf(share, 16, "%.1f %%",
		all > 0 ? 100.0 * (double)bytes / (double)all : 0.0);
}

const char *const tree_heads[] = { "PARAMS", "BYTES", "SHARE", "PER RANK", NULL };

static void emit_module(struct tree *tree, const struct record_table *table, size_t index,
	struct text name, struct text leaf)
{
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct fsdp_module module = module_at(&tree->modules, shown->module);
	struct sums sums = module_tree_sums(&tree->modules, index);
	const struct shown_module row = {
		.module = module,
		.name = name,
		.depth = shown->depth,
		.parent = shown->parent == FSDP_NONE
				  ? FSDP_NONE
				  : tree->modules.shown[shown->parent].emitted,
		.same_as = same_as(tree, module.same_as),
		.unit = shown->marked == FSDP_NONE
				? FSDP_NONE
				: module_at(&tree->modules, shown->marked).unit,
		.mark = module_tree_mark(&tree->modules, shown),
		.sums = sums,
		.folded = tree->folding,
	};
	char share[16] = "";
	if (tree->options->sizes)
		write_share(tree, sums.bytes, share);
	const struct value lead[] = { value_elements(sums.parameters),
		value_bytes(sums.bytes), value_word(share),
		value_bytes(sums.rank_bytes) };
	const struct tree_node node = {
		.depth = shown->depth,
		.name = leaf,
		.class_name = text_of(module_shown_class(tree->run, &module)),
		.class_guessed = module.class_inferred,
		.mark = module_mark_text(row.mark),
		.mark_guessed = row.mark == MARK_INFERRED || row.mark == MARK_LIKELY,
		.lead = tree->options->sizes ? lead : NULL,
	};

	tree->inferred_units |= row.mark == MARK_INFERRED || row.mark == MARK_LIKELY;
	tree->inferred_classes |= module.class_inferred;
	out_records_node(tree->run->out, table, &node, &row);
}

/* Own parameters are leaves of the text form; programs have `ls`. */
static void emit_params(struct tree *tree, size_t index, struct text module_shown)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct fsdp_module module = module_at(&tree->modules, shown->module);

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
		if (tree->options->full && module_shown.size > 0) {
			name_buffer_append(&tree->buffers.alias, &length, module_shown);
			name_buffer_append(&tree->buffers.alias, &length, text_of("."));
		}
		name_buffer_append(&tree->buffers.alias, &length, own);
		node.name = (struct text){ tree->buffers.alias.data, length };
		out_node(tree->run->out, &node, NULL);
	}
}

void tree_walk(struct tree *tree, struct record_table *table, bool params)
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

const struct record tree_record =
	OBJECT_RECORD(struct tree, "tree", "The tree of modules.",
		{ "modules", ITEMS(module_record), .always = true,
			.about = "Modules in depth-first order." },
		{ "units", EACH(each_unit, unit_record), .always = true,
			.about = "FSDP units, in the order of their modules." });
