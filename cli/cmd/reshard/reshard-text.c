/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `reshard` says to people.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/reshard/reshard.h"
#include "render/writer.h"

enum { NAMED = 3, GROUPS = 3 };

static void tell_head(const struct resharding *resharding)
{
	const struct ways *will = &resharding->will;
	struct out *out = resharding->run->out;

	out_line_begin(out, NULL);
	out_line_text(out, "%" PRId64 " -> %" PRId64 " rank%s", resharding->is.world,
		will->world, will->world == 1 ? "" : "s");
	if (will->mesh_dims != 0)
		out_line_text(out, ", %" PRId64 " %s on %" PRId64 " rank%s%s",
			will->mesh[0], will->mesh[0] == 1 ? "copy" : "copies",
			will->mesh[1], will->mesh[1] == 1 ? "" : "s",
			will->mesh[0] == 1 ? "" : " each");
	if (will->tp > 0)
		out_line_text(out, ", tensor parallel over %" PRId64, will->tp);
	if (will->dim != FSDP_RESHARD_AUTO)
		out_line_text(out, ", Shard(%d)", will->dim);
	out_line_text(out, "; computed only, nothing is written");
	out_line_end(out);
}

/* "12.47 GiB on ranks 0-4, 12.44 GiB on rank 5" */
static void tell_bytes(const struct resharding *resharding)
{
	struct out *out = resharding->run->out;
	uint32_t groups = 0;
	char size[HUMAN_ROOM];

	out_line_begin(out, "bytes");
	for (uint32_t first = 0, end; first < resharding->will.world; first = end) {
		struct fsdp_reshard_rank rank = fsdp_reshard_rank(resharding->to, first);
		uint64_t bytes = reshard_rank_bytes(&rank);

		for (end = first + 1; end < resharding->will.world; end++) {
			struct fsdp_reshard_rank next =
				fsdp_reshard_rank(resharding->to, end);

			if (reshard_rank_bytes(&next) != bytes)
				break;
		}
		if (++groups > GROUPS) {
			out_line_text(out, ", …");
			break;
		}
		out_line_text(out, "%s%s on rank%s %u", groups > 1 ? ", " : "",
			out_bytes(resharding->run->out, bytes, size),
			end > first + 1 ? "s" : "", first);
		if (end > first + 1)
			out_line_text(out, "-%u", end - 1);
	}
	if (resharding->most_now != FSDP_UNKNOWN)
		out_line_text(out, " (as saved: at most %s)",
			out_bytes(resharding->run->out, resharding->most_now, size));
	out_line_end(out);
}

static void tell_weights(const struct resharding *resharding)
{
	uint64_t most = 0, padding = 0;
	char size[HUMAN_ROOM], more[HUMAN_ROOM];

	for (uint32_t i = 0; i < resharding->will.world; i++) {
		struct fsdp_reshard_rank rank = fsdp_reshard_rank(resharding->to, i);

		most = rank.param_bytes > most ? rank.param_bytes : most;
		padding = rank.padding_bytes > padding ? rank.padding_bytes : padding;
	}
	out_line(resharding->run->out, "weights",
		"at most %s per rank; padding at most %s per rank",
		out_bytes(resharding->run->out, most, size),
		out_bytes(resharding->run->out, padding, more));
}

static void tell_uneven(struct resharding *resharding)
{
	struct fsdp_reshard_facts facts = fsdp_reshard_facts(resharding->to);
	size_t count = fsdp_reshard_uneven_count(resharding->to), empty = 0, shown = 0;
	struct out *out = resharding->run->out;
	uint32_t last = (uint32_t)resharding->will.world - 1;

	for (size_t i = 0; i < count; i++)
		empty += fsdp_reshard_is_empty(resharding->to, i, last);
	out_line_begin(out, "uneven");
	out_line_text(out, "%zu of %" PRIu64 " tensor%s; ", count, facts.cut,
		facts.cut == 1 ? "" : "s");
	if (empty == 0)
		out_line_text(out, "no rank is empty");
	else
		out_line_text(out, "%zu tensor%s leave%s some ranks empty: ", empty,
			empty == 1 ? "" : "s", empty == 1 ? "s" : "");
	for (size_t i = 0; i < count && shown < NAMED && empty > 0; i++) {
		struct fsdp_reshard_cut cut = fsdp_reshard_uneven(resharding->to, i);
		struct fsdp_tensor tensor =
			fsdp_tensor(resharding->run->checkpoint, cut.tensor);

		if (!fsdp_reshard_is_empty(resharding->to, i, last))
			continue;
		out_line_text(out, "%s", shown++ > 0 ? ", " : "");
		out_line_name(out, tensor_shown_name(resharding->run,
					   &resharding->buffers.name, &tensor));
		out_line_text(out, " (on %u ranks)", cut.ranks);
	}
	if (empty > shown)
		out_line_text(out, " and %zu more", empty - shown);
	out_line_end(out);
	if (facts.refused > 0)
		out_line(out, "",
			"fully_shard refuses %" PRIu64
			" of them: along a dimension other than 0 all parts have to be equal",
			facts.refused);
	if (facts.flat_units > 0)
		out_line(out, "units",
			"%" PRIu64 " flat parameter%s sharded as one tensor",
			facts.flat_units, facts.flat_units == 1 ? " is" : "s are");
	if (facts.tp_unknown > 0)
		out_line(out, "",
			"tensor parallel placement is unknown for %" PRIu64
			" tensor%s assumed replicated",
			facts.tp_unknown,
			facts.tp_unknown == 1 ? ": it is" : "s: they are");
}

static void tell_reads(const struct resharding *resharding)
{
	struct fsdp_reshard_facts facts = fsdp_reshard_facts(resharding->to);
	uint32_t fewest = UINT32_MAX, most = 0;
	char size[HUMAN_ROOM];

	for (uint32_t i = 0; i < resharding->will.world; i++) {
		uint32_t files = fsdp_reshard_rank(resharding->to, i).files;

		fewest = files < fewest ? files : fewest;
		most = files > most ? files : most;
	}
	if (most == FSDP_NONE || facts.needed_bytes == 0)
		return;
	out_line_begin(resharding->run->out, "reads");
	out_line_text(resharding->run->out, "each rank opens %u", fewest);
	if (most > fewest)
		out_line_text(resharding->run->out, " to %u", most);
	out_line_text(resharding->run->out,
		" file%s; reads %s in total (%.2fx the bytes that the ranks need)",
		most == 1 ? "" : "s",
		out_bytes(resharding->run->out, facts.read_bytes, size),
		(double)facts.read_bytes / (double)facts.needed_bytes);
	out_line_end(resharding->run->out);
}

static void tell_stays(struct resharding *resharding)
{
	struct out *out = resharding->run->out;

	if (resharding->stay_count == 0)
		return;
	out_line_begin(out, "stays");
	out_line_text(out, "%zu not sharded again: ", resharding->stay_count);
	for (size_t i = 0; i < resharding->stay_count && i < NAMED; i++) {
		out_line_text(out, "%s", i > 0 ? ", " : "");
		out_line_name(out,
			name_text(&resharding->buffers.text, resharding->run->checkpoint,
				resharding->stays[i].name));
	}
	if (resharding->stay_count > NAMED)
		out_line_text(out, " and %zu more", resharding->stay_count - NAMED);
	out_line_end(out);
}

static void tell_fit(const struct resharding *resharding)
{
	char size[HUMAN_ROOM];

	if (resharding->options->fit == UINT64_MAX)
		return;
	if (resharding->unfit == 0)
		out_line(resharding->run->out, "fit", "yes: no rank needs more than %s",
			out_bytes(resharding->run->out, resharding->options->fit, size));
	else
		out_line(resharding->run->out, "fit",
			"no: %u of %" PRId64 " ranks need more than %s",
			resharding->unfit, resharding->will.world,
			out_bytes(resharding->run->out, resharding->options->fit, size));
}

void reshard_text(struct resharding *resharding)
{
	tell_head(resharding);
	loading_text(&resharding->loading, resharding->run->out);
	tell_bytes(resharding);
	tell_weights(resharding);
	tell_uneven(resharding);
	tell_reads(resharding);
	tell_stays(resharding);
	tell_fit(resharding);
}
