/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves the names that `show` was given, and collects the facts about them.
 */
#include <stdio.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "args/input.h"
#include "commands/show.h"
#include "shared/part-result.h"
#include "shared/shown-names.h"
#include "shared/tensor-reading.h"
#include "session/session.h"

static const struct option_row OPTIONS[] = {
	{ "values", 0, OPTION_TEXT, "N|SLICES", offsetof(struct show_options, values),
		.help = "print N elements, or slices: 0:8,-4:, as stored" },
	{ "whole", 0, OPTION_FLAG, .offset = offsetof(struct show_options, whole),
		.help = "with -g '**': also describe the checkpoint", .hidden = true },
	{ "serve", 0, OPTION_FLAG, .offset = offsetof(struct show_options, serve),
		.help = "answer requests for elements on standard input",
		.hidden = true },
	{ NULL },
};

static struct fsdp_tensor tensor_at(const struct show *show, uint32_t index)
{
	return fsdp_tensor(show->run->checkpoint, index);
}

static bool find_value(const struct show *show, uint32_t name, uint32_t *ret_index)
{
	size_t count = fsdp_value_count(show->run->checkpoint);

	for (uint32_t i = 0; i < count && name != FSDP_NONE; i++) {
		struct fsdp_value value = fsdp_value(show->run->checkpoint, i);
		if (value.name == name || value.raw_name == name) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

/* One look at all names for each word that was not found. */
static void print_missing(struct show *show, const char *word)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	size_t modules = fsdp_module_count(checkpoint),
	       tensors = fsdp_tensor_count(checkpoint),
	       values = fsdp_value_count(checkpoint);
	struct name_buffer list = { 0 };
	struct similar similar;
	size_t length = 0;
	struct retyped line;
	struct usage usage;

	similar_init(&similar, text_of(word));
	for (uint32_t i = 0; i < modules; i++) {
		uint32_t name = fsdp_module(checkpoint, i).name;
		similar_try(&similar, name,
			name_text(&show->buffers->name, checkpoint, name));
	}
	for (uint32_t i = 0; i < tensors; i++) {
		uint32_t name = tensor_at(show, i).name;
		similar_try(&similar, name,
			name_text(&show->buffers->name, checkpoint, name));
	}
	for (uint32_t i = 0; i < values; i++) {
		uint32_t name = fsdp_value(checkpoint, i).name;
		similar_try(&similar, name,
			name_text(&show->buffers->name, checkpoint, name));
	}
	/* Names that end so leave no doubt. */
	for (size_t i = 0; i < similar.count &&
			   (similar.best[i].score == 0 || similar.best[0].score > 0);
		i++) {
		name_buffer_append(
			&list, &length, text_of(i > 0 ? ", " : "did you mean "));
		name_buffer_append(&list, &length,
			name_text(
				&show->buffers->name, checkpoint, similar.best[i].name));
	}
	name_buffer_append(&list, &length, (struct text){ "", 1 });
	/* What to type for a word that is not a name: a pattern as one, elements as they
	 * are asked for, or what lists the names. */
	size_t size = strcspn(word, "[");
	char name[200];
	if (strpbrk(word, "*?") != NULL) {
		retyped_line(&line, "show", "-g", word, show->run->path, NULL);
	} else if (word[size] == '[' && size > 0 && size < sizeof name) {
		snprintf(name, sizeof name, "%.*s", (int)size, word);
		retyped_line(&line, "show", "--values=8", show->run->path, name, NULL);
	} else {
		retyped_line(&line, "ls", show->run->path, NULL);
	}
	run_failure(show->run, "usage",
		suggest_path_as_name(&usage, show->run->arguments, word) ? usage.hint
		: strpbrk(word, "*?[") == NULL && similar.count > 0 && list.data != NULL
			? list.data
			: line.text,
		"no tensor, value or module '%s'", word);
	show->status = status_worse(show->status, STATUS_BAD);
}

static void add_item(struct show *show, uint32_t index, enum item_kind is)
{
	static const char *const kinds[] = { "tensor", "value", "module" };

	show->items =
		run_grown(show->run, show->items, show->item_count, sizeof *show->items);
	struct item *item = &show->items[show->item_count++];
	*item = (struct item){ .index = index, .is = is, .kind = kinds[is] };
	if (is == ITEM_VALUE)
		item->value = fsdp_value(show->run->checkpoint, index);
	else if (is == ITEM_TENSOR)
		item->tensor = tensor_at(show, index);
}

/* What ranks have of their own goes by one name: all of it, in order of ranks. */
static void add_tensors(struct show *show, uint32_t first)
{
	size_t count = fsdp_tensor_count(show->run->checkpoint);
	uint32_t name = tensor_at(show, first).name;

	for (uint32_t i = first; i < count && tensor_at(show, i).name == name; i++)
		add_item(show, i, ITEM_TENSOR);
}

static void add_values(struct show *show, uint32_t first)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	size_t count = fsdp_value_count(checkpoint);
	uint32_t name = fsdp_value(checkpoint, first).name;

	for (uint32_t i = first; i < count && fsdp_value(checkpoint, i).name == name; i++)
		add_item(show, i, ITEM_VALUE);
}

/* A name that is stored under another one is shown there. */
static void find_tied(struct show *show, const char *word)
{
	struct run *run = show->run;
	struct fsdp_tied_weights tie;

	run_must(run, fsdp_tied_weights_find(
			      run->checkpoint, span_of_text(text_of(word)), &tie, NULL));
	if (tie.tensor == FSDP_NONE) {
		print_missing(show, word);
		return;
	}
	struct text name = name_text(
		&show->buffers->name, run->checkpoint, tensor_at(show, tie.tensor).name);
	run_note(run, "%s is not stored: %s ties it to %.*s, which is shown", word,
		tie.declared ? "its file" : "tie_word_embeddings of the configuration",
		(int)name.size, name.data);
	add_tensors(show, tie.tensor);
}

/* A word may be a name of the plan: stored names have a container in front. */
static uint32_t find_tensor_of(struct show *show, const char *word)
{
	struct fsdp_span prefix = selection_prefix(show->selection);
	struct name_buffer *buffer = &show->buffers->text;
	uint32_t index =
		fsdp_tensor_find(show->run->checkpoint, span_of_text(text_of(word)));
	size_t length = 0;

	if (index != FSDP_NONE || prefix.size == 0)
		return index;
	name_buffer_append(buffer, &length, text_of_span(prefix));
	name_buffer_append(buffer, &length, text_of(word));
	return fsdp_tensor_find(show->run->checkpoint,
		span_of_text((struct text){ buffer->data, length }));
}

static void find_items(struct show *show)
{
	struct run *run = show->run;

	FOR_EACH(i, run->word_count, word, span_of_text(text_of(run->words[i]))) {
		uint32_t index = find_tensor_of(show, run->words[i]);
		if (index != FSDP_NONE)
			add_tensors(show, index);
		else if (find_value(show, fsdp_name_find(run->checkpoint, word), &index))
			add_values(show, index);
		else if (show_find_module(show, run->words[i], &index))
			add_item(show, index, ITEM_MODULE);
		else
			find_tied(show, run->words[i]);
	}
}

/* With -g or -e: all tensors and values that match. */
static void find_matches(struct show *show)
{
	struct run *run = show->run;
	size_t tensors = fsdp_tensor_count(run->checkpoint),
	       values = fsdp_value_count(run->checkpoint), found = show->item_count;

	if (run->select->globs.count + run->select->regexes.count == 0)
		return;
	FOR_EACH(i, (uint32_t)tensors, tensor, tensor_at(show, i)) {
		struct text name = tensor_shown_name(run, &show->buffers->name, &tensor);
		if (selection_takes_name(show->selection, span_of_text(name)))
			add_item(show, i, ITEM_TENSOR);
	}
	FOR_EACH(i, (uint32_t)values, value, fsdp_value(run->checkpoint, i)) {
		struct text name = entry_shown_name(run, &show->buffers->name, &value);
		if (selection_takes_name(show->selection, span_of_text(name)))
			add_item(show, i, ITEM_VALUE);
	}
	if (show->item_count == found && !show->options->whole) {
		print_no_match(run, NAMEABLE_TENSORS);
		show->status = status_worse(show->status, STATUS_BAD);
	}
	show->status = answer_selection_status(run, show->selection, show->status);
}

RELEASE(release_replicas, fsdp_replicas_free)

/* Those that are selected, with their places. */
static void list_pieces(struct show *show)
{
	struct run *run = show->run;
	struct piece_facts *next;
	struct fsdp_replicas *replicas;
	size_t count = 0, at = 0;
	uint32_t *wanted;

	for (size_t i = 0; i < show->item_count; i++)
		count += show->items[i].tensor.piece_count;
	wanted = run_memory(run, count, sizeof *wanted);
	next = run_memory(run, count, sizeof *next);
	for (size_t i = 0; i < show->item_count; i++)
		for (uint32_t k = 0; k < show->items[i].tensor.piece_count; k++)
			wanted[at++] = show->items[i].tensor.first_piece + k;
	const struct place_facts *place = places_list(run, wanted, count, &show->status);
	run_must(run, fsdp_replicas_new(run->checkpoint, &replicas, &run->error));
	run_owns(run, replicas, release_replicas);
	FOR_EACH(i, show->item_count, item, &show->items[i]) {
		item->pieces = next;
		run_must(run, fsdp_replicas_find(replicas, &item->tensor, &item->copies,
				      &run->error));
		for (uint32_t k = 0; k < item->tensor.piece_count; k++, place++) {
			struct fsdp_piece piece =
				fsdp_piece(run->checkpoint, item->tensor.first_piece + k);
			if (!selection_takes_piece(
				    show->selection, run->checkpoint, &piece))
				continue;
			*next = piece_facts(&item->tensor, &piece, place);
			next++->replica = fsdp_replicas_number(replicas, k);
		}
		item->piece_count = (size_t)(next - item->pieces);
	}
}

RELEASE(release_states, fsdp_optimizer_states_free)

static void find_states(struct show *show)
{
	struct run *run = show->run;
	uint32_t *tensors = run_memory(run, show->wanted_count, sizeof *tensors);
	struct fsdp_optimizer_states *states;
	size_t count = 0;

	for (size_t i = 0; i < show->wanted_count; i++)
		if (show->items[i].is == ITEM_TENSOR)
			tensors[count++] = show->items[i].index;
	run_must(run, fsdp_optimizer_states_new(
			      run->checkpoint, tensors, count, &states, &run->error));
	run_owns(run, states, release_states);
	for (size_t i = 0; i < show->wanted_count; i++)
		if (show->items[i].is == ITEM_TENSOR)
			show->items[i].states = fsdp_optimizer_states_of(states,
				show->items[i].index, &show->items[i].state_count);
}

static void find_whole(struct show *show)
{
	struct run *run = show->run;
	struct fsdp_overview *overview = NULL;
	struct show_whole *whole = &show->whole;
	bool good = fsdp_overview_new(run->checkpoint, &overview, &run->error) &&
		    fsdp_checkpoint_classify(run->checkpoint,
			    fsdp_overview_facts(overview), &whole->kind, &run->error);

	fsdp_overview_free(overview);
	run_must(run, good);
	whole->format = fsdp_checkpoint_format(run->checkpoint);
	whole->world_size = fsdp_checkpoint_world_size(run->checkpoint);
	whole->step = step_of_run(run, &whole->kind);
	whole->files = files_state(run);
	run_must(run, whole->files != NULL);
}

static void run_show(struct run *run)
{
	struct row_buffers *buffers = run_memory(run, 1, sizeof *buffers);
	struct show show = { .run = run,
		.options = run->options,
		.buffers = buffers,
		.row = { .run = run, .buffers = buffers } };

	if (show.options->values != NULL &&
		!slices_parse(show.options->values, &show.slices))
		run_refuse(run, "example: 8, or slices: 0:8,-4:",
			"--values: %s is neither a number nor slices",
			show.options->values);
	if (show.options->serve) {
		show_serve(&show);
		return;
	}
	show.selection = run_selection(run);
	find_items(&show);
	find_matches(&show);
	/* After the items, each with its own. */
	size_t next = show.item_count;

	show.wanted_count = show.item_count;
	FOR_EACH(i, show.wanted_count, first, show.items[i].tensor.first_component) {
		show.items[i].component_count = show.items[i].tensor.component_count;
		for (uint32_t k = 0; k < show.items[i].component_count; k++)
			add_item(&show, first + k, ITEM_TENSOR);
	}
	/* Only now: items move while there come more. */
	for (size_t i = 0; i < show.wanted_count; i++) {
		if (show.items[i].component_count > 0)
			show.items[i].components = &show.items[next];
		next += show.items[i].component_count;
	}
	/* The parameter of each state that was asked for. */
	bool is_wanted = false;

	for (size_t i = 0; i < show.wanted_count; i++)
		is_wanted |= show.items[i].is == ITEM_TENSOR &&
			     show.items[i].tensor.role == FSDP_ROLE_OPTIM;
	struct state_of *owners = is_wanted ? states_of_all(show.run) : NULL;
	for (size_t i = 0; i < show.wanted_count; i++)
		if (show.items[i].is == ITEM_TENSOR)
			show.items[i].tensor = tensor_of_owner(show.run->checkpoint,
				owners, show.items[i].index, &show.items[i].owner);
	find_states(&show);
	for (size_t i = 0; i < show.wanted_count; i++)
		if (show.items[i].is == ITEM_MODULE)
			show_add_up_module(&show, &show.items[i]);
	list_pieces(&show);
	show_read_elements(&show);
	if (show.options->whole)
		find_whole(&show);
	run_begin(run, show.status);
	out_fields(run->out, &show_record, (struct subject){ &show, &show });
	for (size_t i = 0; i < show.wanted_count; i++)
		print_item(&show, &show.items[i]);
	show_rows(&show);
}

const struct command command_show = {
	.name = "show",
	.group = GROUP_LOOK,
	.summary = "show details of tensors, values or modules",
	.synopsis = "[--values=N|SLICES] [-g PATTERN] [--rank=LIST] CHECKPOINT [NAME...]",
	.examples = { "show step-1000/ lm_head.weight", "show step-1000/ layers.31",
		"show --values 0:8,-4: model.pt fc.bias" },
	.exit_1 = "a name is missing",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_ranks,
		select_files, select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &show_record,
	.output = "text",
	.inputs = INPUTS_ONE_NAMES,
	.reads_values = always,
	.options_size = sizeof(struct show_options),
	.perform = run_show,
};
