/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists tensors, their pieces, sums over them, or list values that are not tensors.
 */
#include "cmd/ls/ls.h"
#include "session/session.h"

static const struct option_row OPTIONS[] = {
	{ "long", 'l', OPTION_FLAG, NULL, offsetof(struct ls_options, pieces),
		.help = "print one row per piece: rank, file, offset, length" },
	{ "by", 0, OPTION_WORDS, "KEY[,KEY]", offsetof(struct ls_options, by), BY_WORDS,
		.help = "print sums by these keys" },
	{ "fold", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, fold),
		.help = "print one row for tensors that differ in a number" },
	{ "values", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, values),
		.help = "list values that are not tensors" },
	{ "objects", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, objects),
		.help = "the same as --values", .hidden = true },
	{ NULL },
};

static const struct record ls_record = RECORD_OF(RECORD_ONE_OF, struct listing,
	{ NULL, OBJECT(tensor_list_record) }, { NULL, OBJECT(piece_list_record) },
	{ NULL, OBJECT(group_list_record) }, { NULL, OBJECT(value_list_record) });

static bool list(struct listing *listing, struct fsdp_error **ret_error)
{
	const struct ls_options *options = listing->options;

	if (lists_values(options))
		return list_values(listing, ret_error);
	if (!listing_take_tensors(listing, ret_error))
		return false;
	if (lists_groups(options, listing->run->select))
		return list_groups(listing, ret_error);
	return options->pieces ? list_pieces(listing, ret_error)
			       : list_tensors(listing, ret_error);
}

/* False: the options contradict each other, and refuse() was called. */
static bool check(struct run *run, const struct ls_options *options)
{
	bool values = lists_values(options), by = options->by.count > 0;

	if (options->pieces + by + options->fold + values > 1) {
		refuse(run, "give one of them",
			"-l, --by, --fold and --values exclude each other");
		return false;
	}
	if (options->by.count > 2) {
		refuse(run, "example: --by=layer,rank",
			"--by takes one key or two, not %zu", options->by.count);
		return false;
	}
	return true;
}

static bool run_ls(struct run *run, struct fsdp_error **ret_error)
{
	struct listing listing = { .run = run,
		.options = run->options,
		.wide = run->select->columns.count > 0 || answer_is_machine(run) };
	bool good;

	if (!check(run, run->options) || !answer_selection(run, &listing.selection))
		return true;
	listing.row = (struct row_context){ .run = run, .buffers = &listing.buffers };
	good = list(&listing, ret_error) && !row_buffers_failed(&listing.buffers);
	listing_done(&listing);
	return good;
}

static bool wants_values(const void *options)
{
	return lists_values(options);
}

const struct command command_ls = {
	.name = "ls",
	.group = GROUP_LOOK,
	.summary = "list tensors",
	.synopsis = "[-l | --by=KEY[,KEY] | --fold | --values] CHECKPOINT",
	.examples = { "ls -S -n 10 step-1000/", "ls --by=file step-1000/",
		"ls --by=layer,rank step-1000/" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = select_all,
	.shapes = SHAPE_TABLE,
	.answer = &ls_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.wants_values = wants_values,
	.options_size = sizeof(struct ls_options),
	.run = run_ls,
};
