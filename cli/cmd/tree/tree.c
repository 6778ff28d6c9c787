/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the modules and which of them are fully sharded.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/tree/tree.h"
#include "part/modules.h"
#include "part/shown-names.h"
#include "session/session.h"

static const char *const STYLES[] = { "default", "torch", NULL };

static const struct option_row OPTIONS[] = {
	{ "sizes", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, sizes),
		.help = "show parameters, bytes, percentage and bytes per rank" },
	{ "full", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, full),
		.help = "print full names" },
	{ "fold", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, fold),
		.help = "print one line for siblings that differ in one word" },
	{ "no-fold", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, no_fold),
		.help = "print one line per module on a terminal too" },
	{ "sharded-only", 0, OPTION_FLAG, NULL,
		offsetof(struct tree_options, sharded_only),
		.help = "show only fully sharded modules and their parents" },
	{ "params", 0, OPTION_FLAG, NULL, offsetof(struct tree_options, params),
		.help = "show the parameters of each module" },
	{ "style", 0, OPTION_WORD, "STYLE", offsetof(struct tree_options, style), STYLES,
		.initial = "default", .help = "torch: as PyTorch prints it" },
	{ "units-from", 0, OPTION_TEXT, "FILE", offsetof(struct tree_options, units_from),
		.help = "use the units of a trace, or of a log with the printed model" },
	{ NULL },
};

/* A print has a class of its own for each unit of FSDP2, and a class of the same name may
 * be its author's. */
static void tell_log(struct tree *tree, const struct fsdp_plan_facts *plan)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	size_t count = fsdp_unit_count(checkpoint);
	bool by_name = false;

	for (uint32_t i = 0; i < count; i++)
		by_name |= strcmp(fsdp_unit(checkpoint, i).api, "fsdp2") == 0;
	run_note(tree->run, "classes and units from %s: a printed model%s", plan->path,
		by_name ? ", whose units are known by the names of their classes" : "");
}

/* A pickled module, or TorchScript, names the classes of its parts. */
static bool stores_classes(const struct fsdp_checkpoint *checkpoint)
{
	size_t count = fsdp_module_count(checkpoint);
	bool any = false;

	for (uint32_t i = 0; i < count && !any; i++)
		any = fsdp_module(checkpoint, i).class_name != NULL;
	return any;
}

static void tell_origin(struct tree *tree)
{
	struct fsdp_plan_facts plan;

	if (fsdp_checkpoint_plan(tree->run->checkpoint, &plan) && plan.from != NULL &&
		strcmp(plan.from, "trace") == 0) {
		run_note(tree->run,
			"units from %s: what a trace names; it has no classes",
			plan.path);
		return;
	}
	if (fsdp_checkpoint_plan(tree->run->checkpoint, &plan) && plan.from != NULL) {
		tell_log(tree, &plan);
		return;
	}
	if (fsdp_checkpoint_plan(tree->run->checkpoint, &plan)) {
		run_note(tree->run, "using sharding plan %s", plan.path);
		return;
	}
	if (tree->inferred_classes)
		run_note(tree->run,
			"classes written [~Class] were inferred from config.json");
	if (tree->inferred_units)
		run_note(tree->run,
			"FULLY SHARDED is inferred; a sharding plan makes it exact (fsdp-inspect help plan)");
	else if (!tree->inferred_classes && stores_classes(tree->run->checkpoint))
		run_note(tree->run,
			"without a sharding plan, only units that the checkpoint names are shown (fsdp-inspect help plan)");
	else if (!tree->inferred_classes)
		run_note(tree->run,
			"without a sharding plan, classes are unknown, and units only known where the checkpoint names them: fsdp-inspect help plan");
}

/* On a terminal siblings are folded that differ in a number: hundreds of layers are no
 * answer. Programs get each module unless they ask. */
static bool folds_for_people(const struct tree *tree)
{
	const struct looks *looks = out_looks(tree->run->out);

	return !tree->options->fold && !tree->options->no_fold && looks != NULL &&
	       looks->width > 0;
}

static void emit_rows(struct tree *tree)
{
	const struct table like = { .key = "modules",
		.main = true,
		.tree = true,
		.heads = tree->options->sizes ? tree_heads : NULL };
	struct record_table table;

	if (out_weighs(tree->run->out))
		tree_weigh(tree);
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
}

/* False: out of memory. */
static bool choose(struct tree *tree)
{
	bool may_fold = tree->options->fold || folds_for_people(tree);

	tree->modules.run = tree->run;
	tree->modules.selection = tree->selection;
	tree->modules.wanted.sharded_only = tree->options->sharded_only;
	tree->modules.wanted.sums = may_fold;
	tree->modules.wanted.depth = tree->run->select->depth;
	tree->modules.wanted.rank_bytes = tree->options->sizes;
	return module_tree_choose(&tree->modules) && (!may_fold || tree_fold_begin(tree));
}

static bool show_tree(struct tree *tree)
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
	emit_rows(tree);
	out_fields(tree->run->out, &tree_record, (struct subject){ &tree->row, tree });
	plan_document_write(tree->run, &tree->buffers);
	if (tree->modules.shown_count > 0)
		tell_origin(tree);
	return !tree->join.first.failed && !tree->join.braces.failed;
}

static void tree_done(struct tree *tree)
{
	module_tree_done(&tree->modules);
	free(tree->hashes);
	free(tree->name_sizes);
	row_buffers_done(&tree->buffers);
	join_done(&tree->join);
	selection_free(tree->selection);
}

static bool run_tree(struct run *run, struct fsdp_error **ret_error)
{
	struct tree tree = { .run = run, .options = run->options, .mixer = mixer_new() };
	bool good;

	(void)ret_error; /* nothing here reads */
	if (tree.options->fold && tree.options->no_fold)
		return refuse(run, "give one of them",
			"--fold and --no-fold exclude each other");
	if (!plan_document_check(run) || !answer_selection(run, &tree.selection))
		return true;
	tree.row = (struct row_context){ .run = run, .buffers = &tree.buffers };
	if (strcmp(tree.options->style, "torch") == 0)
		good = tree_as_torch(&tree);
	else
		good = choose(&tree) && show_tree(&tree);
	good = good && !row_buffers_failed(&tree.buffers);
	tree_done(&tree);
	return good;
}

static const char *units_from(const void *options)
{
	return ((const struct tree_options *)options)->units_from;
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
	.units_from = units_from,
	.run = run_tree,
};
