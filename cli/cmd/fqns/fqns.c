/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps units to the names of their parameters, or lists names alone.
 */
#include <stdlib.h>

#include "cmd/fqns/fqns.h"
#include "session/session.h"

static const char *const UNITS[] = { "known", "likely", NULL };

static const struct option_row OPTIONS[] = {
	{ "bare", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, bare),
		.help = "PyTorch's own map: raw keys, FSDP1 units only" },
	{ "flat", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, flat),
		.help = "only the names of parameters" },
	{ "raw-map", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, raw_map),
		.help = "names as stored, each with its clean name" },
	{ "by-parameter", 0, OPTION_FLAG, NULL,
		offsetof(struct fqns_options, by_parameter),
		.help = "each parameter with all its names, tied ones included" },
	{ "units", 0, OPTION_WORD, "WHICH", offsetof(struct fqns_options, units), UNITS,
		.initial = "known",
		.help = "likely: also repeated blocks, if no plan or log names units" },
	{ "units-from", 0, OPTION_TEXT, "FILE", offsetof(struct fqns_options, units_from),
		.help = "use the units of a trace, or of a log with the printed model" },
	{ NULL },
};

static const struct record fqns_record = RECORD_OF(RECORD_ONE_OF, struct map,
	{ NULL, OBJECT(unit_map_record) }, { NULL, OBJECT(name_list_record) },
	{ NULL, OBJECT(name_map_record) }, { NULL, OBJECT(parameter_list_record) });

static const struct mode {
	const struct record *answer;
	bool (*begin)(struct map *map);
	void (*tell)(struct map *map); /* for people */
} MODES[] = {
	{ &unit_map_record, fqns_begin_units, fqns_tell_units },
	{ &bare_record, fqns_begin_units, fqns_tell_units },
	{ &name_list_record, fqns_begin_names, fqns_tell_names },
	{ &name_map_record, fqns_begin_names, fqns_tell_names },
	{ &parameter_list_record, fqns_begin_names, fqns_tell_parameters },
};

static bool is_bare(const void *options)
{
	return ((const struct fqns_options *)options)->bare;
}

static bool run_fqns(struct run *run, struct fsdp_error **ret_error)
{
	struct map map = { .run = run, .options = run->options, .mixer = mixer_new() };
	const struct fqns_options *options = map.options;
	const struct mode *mode = &MODES[options->bare           ? 1
					 : options->flat         ? 2
					 : options->raw_map      ? 3
					 : options->by_parameter ? 4
								 : 0];
	bool good;

	(void)ret_error; /* nothing here reads */
	if (options->bare + options->flat + options->raw_map + options->by_parameter > 1)
		return refuse(run, "give one of them",
			"--bare, --flat, --raw-map and --by-parameter exclude each other");
	if (!answer_selection(run, &map.selection))
		return true;
	good = mode->begin(&map);
	if (good && answer_has_output(run, "text"))
		mode->tell(&map);
	if (good && answer_is_machine(run))
		out_fields(run->out, mode->answer, (struct subject){ &map, &map });
	good = good && !row_buffers_failed(&map.buffers);
	fsdp_likely_free(map.likely);
	free(map.keys);
	free(map.nexts);
	free(map.slots);
	free(map.ties.begin);
	free(map.ties.tensors);
	row_buffers_done(&map.buffers);
	selection_free(map.selection);
	return good;
}

static const char *units_from(const void *options)
{
	return ((const struct fqns_options *)options)->units_from;
}

const struct command command_fqns = {
	.name = "fqns",
	.group = GROUP_LOOK,
	.summary = "print parameter names by module as JSON",
	.synopsis =
		"[--bare | --flat | --raw-map | --by-parameter] [--units=known|likely] [--units-from=FILE] [CHECKPOINT]",
	.examples = { "fqns -g layers.0 step-1000/", "fqns --flat -o text step-1000/" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_depth, NULL },
	.shapes = SHAPE_FACTS,
	.answer = &fqns_record,
	.output = "json",
	.inputs = INPUTS_MANY,
	.options_size = sizeof(struct fqns_options),
	.is_bare = is_bare,
	.units_from = units_from,
	.run = run_fqns,
};
