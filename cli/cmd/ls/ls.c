/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists tensors, their pieces, sums over them, or the values that are no tensors.
 */
#include "cmd/ls/ls.h"
#include "run/answer.h"

const char *const BY_WORDS[] = { "rank", "file", "dtype", "role", "module", NULL };

static const struct option OPTIONS[] = {
	{ "long", 'l', OPTION_FLAG, NULL, offsetof(struct ls_options, pieces),
		.help = "one row a piece: rank, file, offset, length" },
	{ "by", 0, OPTION_WORD, "KEY", offsetof(struct ls_options, by), BY_WORDS,
		.help = "sums for each" },
	{ "fold", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, fold),
		.help = "one row for tensors that differ only in a number" },
	{ "objects", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, objects),
		.help = "the values that are not tensors" },
	{ NULL },
};

static const struct record ls_record = RECORD_OF(RECORD_ONE_OF, struct listing,
	{ NULL, OBJECT(tensor_list_record) }, { NULL, OBJECT(piece_list_record) },
	{ NULL, OBJECT(group_list_record) }, { NULL, OBJECT(value_list_record) });

static bool list(struct listing *listing, struct fsdp_error **ret_error)
{
	const struct ls_options *options = listing->options;

	if (options->objects)
		return list_values(listing, ret_error);
	if (!listing_take_tensors(listing))
		return false;
	if (options->by != NULL)
		return list_groups(listing, ret_error);
	return options->pieces ? list_pieces(listing, ret_error)
			       : list_tensors(listing, ret_error);
}

static bool run_ls(struct run *run, struct fsdp_error **ret_error)
{
	struct listing listing = { .run = run,
		.options = run->options,
		.wide = run->select->columns.count > 0 || answer_is_machine(run) };
	const struct ls_options *options = run->options;
	bool good;

	if ((options->by != NULL) + options->objects + options->pieces > 1 ||
		(options->fold &&
			(options->by != NULL || options->objects || options->pieces)))
		return refuse(run, "give one of them",
			"-l, --by, --fold and --objects exclude each other");
	if (!answer_selection(run, &listing.selection))
		return true;
	listing.row = (struct row_context){ .run = run, .buffers = &listing.buffers };
	good = list(&listing, ret_error) && !row_buffers_failed(&listing.buffers);
	listing_done(&listing);
	return good;
}

static bool wants_values(const void *options)
{
	return ((const struct ls_options *)options)->objects;
}

const struct command command_ls = {
	.name = "ls",
	.group = GROUP_LOOK,
	.summary = "which tensors?",
	.synopsis =
		"[-l] [--by=rank|file|dtype|role|module] [--fold] [--objects] CHECKPOINT",
	.examples = { "ls -s -bytes --head 10 step-1000/", "ls --by=file step-1000/" },
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
