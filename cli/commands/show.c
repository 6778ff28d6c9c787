/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves the names that `show` was given, and collects the facts about them.
 */
#include <stdio.h>
#include <stdlib.h>
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
	struct name_buffer list = { NULL, 0, false };
	struct similar similar;
	size_t length = 0;
	struct retyped line;
	struct usage usage;

	similar_init(&similar, text_of(word));
	for (uint32_t i = 0; i < modules; i++) {
		uint32_t name = fsdp_module(checkpoint, i).name;
		similar_try(
			&similar, name, name_text(&show->buffers.name, checkpoint, name));
	}
	for (uint32_t i = 0; i < tensors; i++) {
		uint32_t name = tensor_at(show, i).name;
		similar_try(
			&similar, name, name_text(&show->buffers.name, checkpoint, name));
	}
	for (uint32_t i = 0; i < values; i++) {
		uint32_t name = fsdp_value(checkpoint, i).name;
		similar_try(
			&similar, name, name_text(&show->buffers.name, checkpoint, name));
	}
	/* Names that end so leave no doubt. */
	for (size_t i = 0; i < similar.count &&
			   (similar.best[i].score == 0 || similar.best[0].score > 0);
		i++) {
		name_buffer_append(
			&list, &length, text_of(i > 0 ? ", " : "did you mean "));
		name_buffer_append(&list, &length,
			name_text(&show->buffers.name, checkpoint, similar.best[i].name));
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
		"no tensor, value or module %s", word);
	name_buffer_done(&list);
	show->status = status_worse(show->status, STATUS_BAD);
}

static bool add_item(struct show *show, uint32_t index, enum item_kind is)
{
	static const char *const kinds[] = { "tensor", "value", "module" };

	if (show->item_count == show->item_room) {
		size_t room = 2 * show->item_room + 8;
		struct item *items = realloc(show->items, room * sizeof *items);
		if (items == NULL)
			return false;
		show->items = items;
		show->item_room = room;
	}
	show->items[show->item_count] =
		(struct item){ .index = index, .is = is, .kind = kinds[is] };
	if (is == ITEM_VALUE)
		show->items[show->item_count].value =
			fsdp_value(show->run->checkpoint, index);
	else if (is == ITEM_TENSOR)
		show->items[show->item_count].tensor = tensor_at(show, index);
	show->item_count++;
	return true;
}

/* What ranks have of their own goes by one name: all of it, in order of ranks. */
static bool add_tensors(struct show *show, uint32_t first)
{
	size_t count = fsdp_tensor_count(show->run->checkpoint);
	uint32_t name = tensor_at(show, first).name;

	for (uint32_t i = first; i < count && tensor_at(show, i).name == name; i++)
		if (!add_item(show, i, ITEM_TENSOR))
			return false;
	return true;
}

static bool add_values(struct show *show, uint32_t first)
{
	size_t count = fsdp_value_count(show->run->checkpoint);
	uint32_t name = fsdp_value(show->run->checkpoint, first).name;

	for (uint32_t i = first;
		i < count && fsdp_value(show->run->checkpoint, i).name == name; i++)
		if (!add_item(show, i, ITEM_VALUE))
			return false;
	return true;
}

/* A name that is stored under another one is shown there. */
static bool find_tied(struct show *show, const char *word)
{
	struct run *run = show->run;
	struct fsdp_tied_weights tie;
	struct text name;

	if (!fsdp_tied_weights_find(
		    run->checkpoint, span_of_text(text_of(word)), &tie, NULL))
		return false;
	if (tie.tensor == FSDP_NONE) {
		print_missing(show, word);
		return true;
	}
	name = name_text(
		&show->buffers.name, run->checkpoint, tensor_at(show, tie.tensor).name);
	run_note(run, "%s is not stored: %s ties it to %.*s, which is shown", word,
		tie.declared ? "its file" : "tie_word_embeddings of the configuration",
		(int)name.size, name.data);
	return add_tensors(show, tie.tensor);
}

/* A word may be a name of the plan: stored names have a container in front. */
static uint32_t find_tensor_of(struct show *show, const char *word)
{
	struct fsdp_span prefix = selection_prefix(show->selection);
	struct name_buffer *buffer = &show->buffers.text;
	uint32_t index =
		fsdp_tensor_find(show->run->checkpoint, span_of_text(text_of(word)));
	size_t length = 0;

	if (index != FSDP_NONE || prefix.size == 0)
		return index;
	name_buffer_append(buffer, &length, text_of_span(prefix));
	name_buffer_append(buffer, &length, text_of(word));
	if (buffer->failed)
		return FSDP_NONE;
	return fsdp_tensor_find(show->run->checkpoint,
		span_of_text((struct text){ buffer->data, length }));
}

static bool find_items(struct show *show)
{
	struct run *run = show->run;

	for (size_t i = 0; i < run->word_count; i++) {
		struct fsdp_span word = span_of_text(text_of(run->words[i]));
		uint32_t index = find_tensor_of(show, run->words[i]);
		bool good = true;
		if (index != FSDP_NONE)
			good = add_tensors(show, index);
		else if (find_value(show, fsdp_name_find(run->checkpoint, word), &index))
			good = add_values(show, index);
		else if (show_find_module(show, run->words[i], &index))
			good = add_item(show, index, ITEM_MODULE);
		else
			good = find_tied(show, run->words[i]);
		if (!good)
			return false;
	}
	return true;
}

/* With -g or -e: all tensors and values that match. */
static bool find_matches(struct show *show)
{
	struct run *run = show->run;
	size_t tensors = fsdp_tensor_count(run->checkpoint),
	       values = fsdp_value_count(run->checkpoint), found = show->item_count;

	if (run->select->globs.count + run->select->regexes.count == 0)
		return true;
	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = tensor_at(show, i);
		struct text name = tensor_shown_name(run, &show->buffers.name, &tensor);
		if (selection_takes_name(show->selection, span_of_text(name)) &&
			!add_item(show, i, ITEM_TENSOR))
			return false;
	}
	for (uint32_t i = 0; i < values; i++) {
		struct fsdp_value value = fsdp_value(run->checkpoint, i);
		struct text name = entry_shown_name(run, &show->buffers.name, &value);
		if (selection_takes_name(show->selection, span_of_text(name)) &&
			!add_item(show, i, ITEM_VALUE))
			return false;
	}
	if (show->item_count == found && !show->options->whole) {
		print_no_match(run, NAMEABLE_TENSORS);
		show->status = status_worse(show->status, STATUS_BAD);
	}
	show->status = answer_selection_status(run, show->selection, show->status);
	return true;
}

/* After the items, each with its own. */
static bool add_components(struct show *show)
{
	size_t next = show->item_count;

	show->wanted_count = show->item_count;
	for (size_t i = 0; i < show->wanted_count; i++) {
		uint32_t first = show->items[i].tensor.first_component;
		show->items[i].component_count = show->items[i].tensor.component_count;
		for (uint32_t k = 0; k < show->items[i].component_count; k++)
			if (!add_item(show, first + k, ITEM_TENSOR))
				return false;
	}
	/* Only now: items move while there come more. */
	for (size_t i = 0; i < show->wanted_count; i++) {
		if (show->items[i].component_count > 0)
			show->items[i].components = &show->items[next];
		next += show->items[i].component_count;
	}
	return true;
}

static bool locate(struct show *show, struct fsdp_error **ret_error)
{
	size_t count = 0;
	uint32_t *wanted;
	bool good;

	for (size_t i = 0; i < show->item_count; i++)
		count += show->items[i].tensor.piece_count;
	wanted = malloc((count + 1) * sizeof *wanted);
	show->pieces = malloc((count + 1) * sizeof *show->pieces);
	if (wanted == NULL || show->pieces == NULL) {
		free(wanted);
		return false;
	}
	for (size_t i = 0; i < show->item_count; i++)
		for (uint32_t k = 0; k < show->items[i].tensor.piece_count; k++)
			wanted[show->place_count++] =
				show->items[i].tensor.first_piece + k;
	good = places_list(
		show->run, wanted, count, &show->places, &show->status, ret_error);
	free(wanted);
	return good;
}

/* Those that are selected. */
static bool list_pieces(struct show *show, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	const struct place_facts *place = show->places;
	struct piece_facts *next = show->pieces;
	struct fsdp_replicas *replicas = NULL;
	bool good = fsdp_replicas_new(checkpoint, &replicas, ret_error);

	for (size_t i = 0; i < show->item_count && good; i++) {
		struct item *item = &show->items[i];
		item->pieces = next;
		good = fsdp_replicas_find(
			replicas, &item->tensor, &item->copies, ret_error);
		for (uint32_t k = 0; k < item->tensor.piece_count && good; k++, place++) {
			struct fsdp_piece piece =
				fsdp_piece(checkpoint, item->tensor.first_piece + k);
			if (!selection_takes_piece(show->selection, checkpoint, &piece))
				continue;
			*next = piece_facts(&item->tensor, &piece, place);
			next++->replica = fsdp_replicas_number(replicas, k);
		}
		item->piece_count = (size_t)(next - item->pieces);
	}
	fsdp_replicas_free(replicas);
	return good;
}

/* The parameter of each state that was asked for. */
static bool find_owners(struct show *show, struct fsdp_error **ret_error)
{
	struct state_of *owners = NULL;
	bool is_wanted = false, good;

	for (size_t i = 0; i < show->wanted_count; i++)
		is_wanted |= show->items[i].is == ITEM_TENSOR &&
			     show->items[i].tensor.role == FSDP_ROLE_OPTIM;
	good = !is_wanted || states_of_all(show->run->checkpoint, &owners, ret_error);
	for (size_t i = 0; i < show->wanted_count && good; i++)
		if (show->items[i].is == ITEM_TENSOR)
			show->items[i].tensor = tensor_of_owner(show->run->checkpoint,
				owners, show->items[i].index, &show->items[i].owner);
	free(owners);
	return good;
}

static bool find_states(struct show *show, struct fsdp_error **ret_error)
{
	uint32_t *tensors = malloc((show->wanted_count + 1) * sizeof *tensors);
	size_t count = 0;
	bool good;

	if (tensors == NULL)
		return false;
	for (size_t i = 0; i < show->wanted_count; i++)
		if (show->items[i].is == ITEM_TENSOR)
			tensors[count++] = show->items[i].index;
	good = fsdp_optimizer_states_new(
		show->run->checkpoint, tensors, count, &show->states, ret_error);
	free(tensors);
	for (size_t i = 0; i < show->wanted_count && good; i++)
		if (show->items[i].is == ITEM_TENSOR)
			show->items[i].states = fsdp_optimizer_states_of(show->states,
				show->items[i].index, &show->items[i].state_count);
	return good;
}

static bool add_up_modules(struct show *show, struct fsdp_error **ret_error)
{
	bool good = true;

	for (size_t i = 0; i < show->wanted_count && good; i++)
		if (show->items[i].is == ITEM_MODULE)
			good = show_add_up_module(show, &show->items[i], ret_error);
	return good;
}

static bool find_whole(struct show *show, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	struct fsdp_overview *overview = NULL;
	struct show_whole *whole = &show->whole;
	bool good;

	if (!show->options->whole)
		return true;
	good = fsdp_overview_new(checkpoint, &overview, ret_error) &&
	       fsdp_checkpoint_classify(checkpoint, fsdp_overview_facts(overview),
		       &whole->kind, ret_error);
	fsdp_overview_free(overview);
	whole->format = fsdp_checkpoint_format(checkpoint);
	whole->world_size = fsdp_checkpoint_world_size(checkpoint);
	whole->step = step_of_run(show->run, &whole->kind);
	whole->files = files_state(show->run);
	return good && whole->files != NULL;
}

static bool run_show(struct run *run, struct fsdp_error **ret_error)
{
	struct show show = { .run = run, .options = run->options };
	bool good;

	if (show.options->values != NULL &&
		!slices_parse(show.options->values, &show.slices))
		return refuse(run, "example: 8, or slices: 0:8,-4:",
			"--values: %s is neither a number nor slices",
			show.options->values);
	if (show.options->serve)
		return show_serve(&show, ret_error);
	if (!answer_selection(run, &show.selection))
		return true;
	show.row = (struct row_context){ .run = run, .buffers = &show.buffers };
	good = find_items(&show) && find_matches(&show) && add_components(&show) &&
	       find_owners(&show, ret_error) && find_states(&show, ret_error) &&
	       add_up_modules(&show, ret_error) && locate(&show, ret_error) &&
	       list_pieces(&show, ret_error) && show_read_elements(&show, ret_error) &&
	       find_whole(&show, ret_error);
	if (good) {
		run_begin(run, show.status);
		out_fields(show.run->out, &show_record, (struct subject){ &show, &show });
		for (size_t i = 0; i < show.wanted_count; i++)
			print_item(&show, &show.items[i]);
		show_rows(&show);
		good = !row_buffers_failed(&show.buffers);
	}
	places_free(show.places, show.place_count);
	free(show.pieces);
	for (size_t i = 0; show.items != NULL && i < show.item_count; i++) {
		free(show.items[i].elements);
		fsdp_pivot_free(show.items[i].groups);
	}
	free(show.items);
	fsdp_optimizer_states_free(show.states);
	row_buffers_done(&show.buffers);
	selection_free(show.selection);
	return good;
}

const struct command command_show = {
	.name = "show",
	.group = GROUP_LOOK,
	.summary = "show details of tensors, values or modules",
	.synopsis = "[--values=N|SLICES] [-g PATTERN] [--rank=LIST] CHECKPOINT [NAME...]",
	.examples = { "show step-1000/ lm_head.weight", "show step-1000/ layers.31",
		"show --values 0:8,-4: model.pt fc.bias" },
	.exit_1 = "a name is absent",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_ranks,
		select_files, select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &show_record,
	.output = "text",
	.inputs = INPUTS_ONE_NAMES,
	.reads_values = always,
	.options_size = sizeof(struct show_options),
	.run = run_show,
};
