/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses requests about flat parameters: units, ranks, an element of a parameter. flat-answer.c prints the answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/flat/flat-answer.h"
#include "part/shown-names.h"

static const struct option_row OPTIONS[] = {
	{ "unit", 0, OPTION_TEXT, "NAME", offsetof(struct flat_options, unit),
		.help = "show only the unit of this module; '' is the root" },
	{ "param", 0, OPTION_TEXT, "FQN[:INDEX]", offsetof(struct flat_options, param),
		.help = "locate a parameter, or one element of it: 100 or 6,4" },
	{ "at", 0, OPTION_TEXT, "RANK:OFFSET", offsetof(struct flat_options, at),
		.help = "show the parameter at an element of a rank's shard" },
	{ "units-from", 0, OPTION_TEXT, "FILE", offsetof(struct flat_options, units_from),
		.help = "use the units of a trace, or of a log with the printed model" },
	{ NULL },
};

static bool find_files(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	size_t count = fsdp_file_count(checkpoint), most = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t rank = fsdp_file(checkpoint, i).rank;
		if (rank != FSDP_NONE && rank >= most)
			most = (size_t)rank + 1;
	}
	ledger->files = malloc((most + 1) * sizeof *ledger->files);
	if (ledger->files == NULL)
		return false;
	memset(ledger->files, 0xff, (most + 1) * sizeof *ledger->files);
	ledger->file_count = most;
	for (size_t i = count; i-- > 0;) {
		uint32_t rank = fsdp_file(checkpoint, i).rank;
		if (rank != FSDP_NONE)
			ledger->files[rank] = (uint32_t)i;
	}
	return true;
}

static bool is_unit(struct ledger *ledger, uint32_t unit, struct text word)
{
	struct fsdp_unit facts = fsdp_unit(ledger->run->checkpoint, unit);

	if (text_is(ledger_unit_name(ledger, unit), word))
		return true;
	return facts.module != FSDP_NONE &&
	       text_is(name_text(&ledger->buffers.raw, ledger->run->checkpoint,
			       fsdp_module(ledger->run->checkpoint, facts.module)
				       .raw_name),
		       word);
}

static bool takes_unit(struct ledger *ledger, uint32_t unit)
{
	struct fsdp_flat flat;

	if (!fsdp_unit_flat(ledger->run->checkpoint, unit, &flat))
		return false;
	if (ledger->options->unit != NULL &&
		!is_unit(ledger, unit, text_of(ledger->options->unit)))
		return false;
	return selection_takes_module(
		ledger->selection, span_of_text(ledger_unit_name(ledger, unit)));
}

static bool find_units(struct ledger *ledger)
{
	size_t count = fsdp_unit_count(ledger->run->checkpoint);

	ledger->units = malloc((count + 1) * sizeof *ledger->units);
	if (ledger->units == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (takes_unit(ledger, i))
			ledger->units[ledger->unit_count++] = i;
	return true;
}

/* The names nearest to one that was not found, as the end of a sentence. */
static void tell_similar(struct ledger *ledger, struct similar *similar, const char *what,
	const char *word)
{
	size_t length = 0;

	for (size_t i = 0; i < similar->count; i++) {
		name_buffer_append(&ledger->buffers.text, &length,
			text_of(i > 0 ? ", " : "; did you mean "));
		name_buffer_append(&ledger->buffers.text, &length,
			ledger_full_name(ledger, similar->best[i].name));
	}
	name_buffer_append(&ledger->buffers.text, &length, (struct text){ "", 1 });
	run_note(ledger->run, "no flat parameter %s %s%s", what, word,
		ledger->buffers.text.data != NULL ? ledger->buffers.text.data : "");
	ledger->status = STATUS_BAD;
	ledger->unit_count = 0;
}

static void tell_no_unit(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	size_t count = fsdp_unit_count(checkpoint), flats = 0;
	struct fsdp_plan_facts plan;
	struct similar similar;

	similar_init(&similar,
		text_of(ledger->options->unit != NULL ? ledger->options->unit : ""));
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_flat flat;
		uint32_t module = fsdp_unit(checkpoint, i).module;
		if (!fsdp_unit_flat(checkpoint, i, &flat) || module == FSDP_NONE)
			continue;
		flats++;
		similar_try(&similar, fsdp_module(checkpoint, module).name,
			ledger_unit_name(ledger, i));
	}
	ledger->status = STATUS_BAD;
	if (flats > 0 && ledger->options->unit != NULL)
		tell_similar(ledger, &similar, "belongs to a unit called",
			ledger->options->unit);
	else if (flats > 0)
		run_note(ledger->run, "no unit was selected");
	else if (fsdp_checkpoint_plan(checkpoint, &plan) && plan.from != NULL)
		run_note(ledger->run,
			"a printed model has no layout of flat parameters, and no file holds one");
	else if (fsdp_checkpoint_plan(checkpoint, &plan))
		run_note(ledger->run,
			"the plan has no flat parameter: only FSDP1 makes them");
	else
		run_note(ledger->run,
			"no flat parameter is stored here; a sharding plan of an FSDP1 model has them: fsdp-inspect help plan");
}

/* The entry of this name in one of the units; further names stand for the first one. */
static bool find_entry(
	struct ledger *ledger, uint32_t name, uint32_t *ret_unit, uint32_t *ret_entry)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;

	for (size_t i = 0; i < ledger->unit_count && name != FSDP_NONE; i++) {
		struct fsdp_flat flat = ledger_flat(ledger, ledger->units[i]);
		uint32_t wanted = name;
		for (uint32_t n = 0; n < flat.tie_count; n++) {
			struct fsdp_flat_tie tie = fsdp_flat_tie(checkpoint, &flat, n);
			if (tie.fqn == wanted)
				wanted = tie.same_as;
		}
		for (uint32_t n = 0; n < flat.entry_count; n++) {
			if (fsdp_flat_entry(checkpoint, &flat, n).fqn != wanted)
				continue;
			*ret_unit = ledger->units[i];
			*ret_entry = n;
			return true;
		}
	}
	return false;
}

/* Another name of the same tensor, as a module has that is visited by two paths. */
static uint32_t first_name(const struct ledger *ledger, struct text word)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	uint32_t tensor = fsdp_tensor_find(checkpoint, span_of_text(word));
	uint32_t alias =
		tensor != FSDP_NONE ? fsdp_tensor(checkpoint, tensor).alias : FSDP_NONE;

	return alias != FSDP_NONE ? fsdp_tensor(checkpoint, alias).name : FSDP_NONE;
}

static bool find_named(
	struct ledger *ledger, struct text word, uint32_t *ret_unit, uint32_t *ret_entry)
{
	return find_entry(ledger,
		       fsdp_name_find(ledger->run->checkpoint, span_of_text(word)),
		       ret_unit, ret_entry) ||
	       find_entry(ledger, first_name(ledger, word), ret_unit, ret_entry);
}

/* "100", or "6,4" in the parameter's shape. False: neither. */
static bool read_index(
	const char *text, const struct fsdp_flat_entry *entry, uint64_t *ret_offset)
{
	uint64_t offset = 0, numbers = 0;
	bool one = strchr(text, ',') == NULL;

	for (const char *at = text;; numbers++) {
		uint64_t number = 0, most = one ? entry->numel : 0;
		size_t digits = 0;
		if (!one) {
			if (entry->shape == NULL || numbers >= entry->dims)
				return false;
			most = (uint64_t)entry->shape[numbers];
		}
		for (; is_digit(*at) && number < most; at++, digits++)
			number = number * 10 + (uint64_t)(*at - '0');
		if (digits == 0 || number >= most || (*at != ',' && *at != '\0'))
			return false;
		offset = offset * (one ? 1 : most) + number;
		if (*at++ == '\0')
			break;
	}
	*ret_offset = offset;
	return one || numbers + 1 == entry->dims;
}

/* The answer's place in the shape of its parameter. */
static bool unravel(struct ledger *ledger, const struct fsdp_flat_entry *entry)
{
	uint64_t left = ledger->answer.param_offset;

	if (entry->shape == NULL)
		return true;
	ledger->index = malloc((entry->dims + 1) * sizeof *ledger->index);
	if (ledger->index == NULL)
		return false;
	ledger->dims = entry->dims;
	for (uint32_t i = entry->dims; i-- > 0;) {
		ledger->index[i] = (int64_t)(left % (uint64_t)entry->shape[i]);
		left /= (uint64_t)entry->shape[i];
	}
	return true;
}

static void tell_no_param(struct ledger *ledger, struct text word)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	struct similar similar;

	similar_init(&similar, word);
	for (size_t i = 0; i < ledger->unit_count; i++) {
		struct fsdp_flat flat = ledger_flat(ledger, ledger->units[i]);
		for (uint32_t n = 0; n < flat.entry_count; n++) {
			uint32_t fqn = fsdp_flat_entry(checkpoint, &flat, n).fqn;
			if (fqn != FSDP_NONE)
				similar_try(&similar, fqn, ledger_full_name(ledger, fqn));
		}
	}
	tell_similar(ledger, &similar, "holds", ledger->options->param);
}

/* A name may hold colons itself, so all of it is tried first. */
static bool find_param(struct ledger *ledger, bool *ret_refused)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	const char *word = ledger->options->param;
	const char *colon = strrchr(word, ':');
	struct text name = text_of(word);
	struct fsdp_flat_entry entry;
	struct fsdp_flat flat;
	uint64_t offset;
	uint32_t unit;

	if (find_named(ledger, name, &unit, &ledger->only_entry)) {
		colon = NULL;
	} else {
		if (colon != NULL)
			name.size = (size_t)(colon - word);
		if (colon == NULL ||
			!find_named(ledger, name, &unit, &ledger->only_entry)) {
			tell_no_param(ledger, name);
			return true;
		}
	}
	ledger->units[0] = unit;
	ledger->unit_count = 1;
	if (colon == NULL)
		return true;
	flat = ledger_flat(ledger, unit);
	entry = fsdp_flat_entry(checkpoint, &flat, ledger->only_entry);
	if (!read_index(colon + 1, &entry, &offset) ||
		!fsdp_flat_place_of(
			checkpoint, &flat, ledger->only_entry, offset, &ledger->answer)) {
		*ret_refused = true;
		return refuse(ledger->run,
			"an index is a number, or one per dimension: 6,4",
			"--param: the parameter has %" PRIu64
			" elements, and no element %s",
			entry.numel, colon + 1);
	}
	ledger->answer_unit = ledger->units[0];
	ledger->only_rank = ledger->answer.rank;
	return unravel(ledger, &entry);
}

/* "RANK:OFFSET", the rank one of the job. */
static bool read_place(const char *text, uint32_t *ret_rank, uint64_t *ret_offset)
{
	uint64_t numbers[2] = { 0, 0 };

	for (size_t i = 0; i < 2; i++) {
		size_t digits = 0;
		for (; is_digit(*text) && digits < 18; text++, digits++)
			numbers[i] = numbers[i] * 10 + (uint64_t)(*text - '0');
		if (digits == 0 || *text != (i == 0 ? ':' : '\0'))
			return false;
		text += i == 0;
	}
	if (numbers[0] >= FSDP_NONE)
		return false;
	*ret_rank = (uint32_t)numbers[0];
	*ret_offset = numbers[1];
	return true;
}

/* A question about one rank, or about a parameter, needs no other rank's file. */
static bool wants_rank(
	const void *values, const struct select_options *select, uint32_t *ret_rank)
{
	const struct flat_options *options = values;
	char *end = NULL;
	uint64_t offset;

	*ret_rank = FSDP_NONE;
	if (options->at != NULL)
		return read_place(options->at, ret_rank, &offset);
	if (select->ranks == NULL)
		return options->param != NULL;
	if (is_digit(*select->ranks))
		*ret_rank = (uint32_t)strtoul(select->ranks, &end, 10);
	return end != NULL && *end == '\0';
}

static bool find_place(struct ledger *ledger, bool *ret_refused)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	struct fsdp_flat flat;
	uint32_t global, rank;
	uint64_t offset;

	*ret_refused = true;
	if (!read_place(ledger->options->at, &global, &offset))
		return refuse(ledger->run, "as in --at 3:31",
			"--at: \"%s\" is not RANK:OFFSET", ledger->options->at);
	if (ledger->unit_count > 1)
		return refuse(ledger->run, "fsdp-inspect flat lists them",
			"--at: the checkpoint has %zu units; choose one with --unit",
			ledger->unit_count);
	flat = ledger_flat(ledger, ledger->units[0]);
	rank = fsdp_unit_shard_rank(checkpoint, flat.unit, global);
	if (rank == FSDP_NONE && global < flat.shards)
		rank = global;
	if (rank == FSDP_NONE)
		return refuse(ledger->run, NULL,
			"--at: unknown rank %" PRIu32
			"; the unit is sharded over %" PRIu32,
			global, flat.shards);
	if (!fsdp_flat_place_at(checkpoint, &flat, rank, offset, &ledger->answer))
		return refuse(ledger->run, NULL,
			"--at: a rank's shard has %" PRIu64
			" elements, and no element %" PRIu64,
			flat.sharded_numel, offset);
	*ret_refused = false;
	ledger->answer_unit = ledger->units[0];
	ledger->only_rank = rank;
	if (ledger->answer.entry == FSDP_NONE || ledger->answer.is_padding)
		return true;
	struct fsdp_flat_entry entry =
		fsdp_flat_entry(checkpoint, &flat, ledger->answer.entry);
	return unravel(ledger, &entry);
}

/* A layout that is not that of the files is not shown as theirs. */
static bool tell_refused(struct ledger *ledger)
{
	size_t count = fsdp_unit_count(ledger->run->checkpoint), refused = 0;

	for (uint32_t i = 0; i < count; i++)
		refused += fsdp_unit(ledger->run->checkpoint, i).flat_refused;
	if (refused == 0)
		return false;
	run_note(ledger->run,
		"%zu unit%s left out: the plan is not of this checkpoint (see the findings)",
		refused, refused == 1 ? " is" : "s are");
	ledger->status = STATUS_BAD;
	return true;
}

static bool find_what(struct ledger *ledger, bool *ret_refused)
{
	bool told;

	*ret_refused = false;
	if (!find_units(ledger) || !find_files(ledger))
		return false;
	told = tell_refused(ledger);
	if (ledger->unit_count == 0) {
		if (!told)
			tell_no_unit(ledger);
		return true;
	}
	if (ledger->options->param != NULL)
		return find_param(ledger, ret_refused);
	return ledger->options->at == NULL || find_place(ledger, ret_refused);
}

static void ledger_done(struct ledger *ledger)
{
	free(ledger->units);
	free(ledger->files);
	free(ledger->index);
	row_buffers_done(&ledger->buffers);
	selection_free(ledger->selection);
}

static bool run_flat(struct run *run, struct fsdp_error **ret_error)
{
	struct ledger ledger = { .run = run,
		.options = run->options,
		.only_entry = FSDP_NONE,
		.only_rank = FSDP_NONE,
		.answer_unit = FSDP_NONE };
	bool good, refused;

	(void)ret_error; /* nothing here reads */
	ledger.row = (struct row_context){ .run = run, .buffers = &ledger.buffers };
	if (ledger.options->param != NULL && ledger.options->at != NULL)
		return refuse(
			run, "give one of them", "--param and --at exclude each other");
	if (!answer_selection(run, &ledger.selection))
		return true;
	good = find_what(&ledger, &refused);
	if (good && !refused) {
		ledger_show(&ledger);
		good = !row_buffers_failed(&ledger.buffers);
	}
	ledger_done(&ledger);
	return good;
}

static const char *units_from(const void *options)
{
	return ((const struct flat_options *)options)->units_from;
}

const struct command command_flat = {
	.name = "flat",
	.group = GROUP_LOOK,
	.summary = "show the layout of each FlatParameter",
	.synopsis =
		"[--unit=NAME] [--rank=LIST] [--param=FQN[:INDEX] | --at=RANK:OFFSET] [--units-from=FILE] [CHECKPOINT]",
	.examples = { "flat --unit head --plan net.fsdp-plan.json ranks/",
		"flat --param head.weight:100 net.fsdp-plan.json" },
	.exit_1 = "no flat parameter, or none of that name",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_ranks,
		select_columns, NULL },
	.answer = &flat_record,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &flat_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.wants_rank = wants_rank,
	.options_size = sizeof(struct flat_options),
	.units_from = units_from,
	.run = run_flat,
};
