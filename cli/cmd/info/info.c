/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what a checkpoint is, on one screen. Knows which facts people ask for first; adds
 * up what the model holds, and reads nothing more (but for --waste).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/groups.h"
#include "part/tensor-row.h"
#include "part/units.h"
#include "cmd/info/waste-table.h"

enum {
	KINDS_MAX = 8, /* ways of sharding, optimizer states, suffixes of files */
	KINDS_SHOWN = 4,
	VALUES_SHOWN = 4,
	PREFIXES_SHOWN = 4,
	WORD_SIZE = 40,
};

struct info_options {
	bool waste;
};

static const struct option OPTIONS[] = {
	{ "waste", 0, OPTION_FLAG, NULL, offsetof(struct info_options, waste),
		.help = "a table of bytes that are stored but not viewed" },
	{ NULL },
};

/* Something that occurs several times: a suffix, a state, a way of sharding. */
struct kind {
	char word[WORD_SIZE];
	uint32_t dtype;
	bool scalar;
	uint32_t dim, over, copies;
	uint64_t count, pieces;
};

struct kinds {
	struct kind items[KINDS_MAX];
	size_t count;
	uint64_t others; /* of kinds that found no place */
};

/* Tensors of one role. */
struct total {
	uint64_t tensors, numel, bytes;
	uint32_t dtype;
	bool mixed;
};

struct info {
	struct run *run;
	const struct info_options *options;
	struct row_buffers buffers;
	struct total totals[FSDP_ROLE_COUNT];
	struct kinds states, shardings, suffixes;
	uint64_t whole;      /* tensors in one piece, in a checkpoint of several ranks */
	uint32_t whole_rank; /* the rank that keeps all of them, or FSDP_NONE */
	uint32_t whole_seen;
	struct fsdp_sums *by_dtype, *by_role, *by_rank;
	bool has_ranks; /* some piece tells whose it is */
	struct fsdp_waste *waste;
	int status;
};

/* ---- adding up ---- */

static struct kind *kind_of(struct kinds *kinds, const struct kind *like)
{
	for (size_t i = 0; i < kinds->count; i++) {
		struct kind *kind = &kinds->items[i];
		if (strcmp(kind->word, like->word) == 0 && kind->dtype == like->dtype &&
			kind->scalar == like->scalar && kind->dim == like->dim &&
			kind->over == like->over && kind->copies == like->copies)
			return kind;
	}
	if (kinds->count == KINDS_MAX) {
		kinds->others++;
		return NULL;
	}
	kinds->items[kinds->count] = *like;
	return &kinds->items[kinds->count++];
}

static void count_kind(struct kinds *kinds, const struct kind *like, uint64_t pieces)
{
	struct kind *kind = kind_of(kinds, like);

	if (kind == NULL)
		return;
	kind->count++;
	kind->pieces += pieces;
}

static void take_word(struct kind *kind, const char *data, size_t size)
{
	if (size >= WORD_SIZE)
		size = WORD_SIZE - 1;
	if (size > 0)
		memcpy(kind->word, data, size);
	kind->word[size] = '\0';
}

static void add_state(struct info *info, const struct fsdp_tensor *tensor)
{
	struct text name =
		name_text(&info->buffers.name, info->run->checkpoint, tensor->name);
	struct text key = text_last(name, '.');
	struct kind kind = { .dtype = tensor->dtype, .scalar = tensor->dims == 0 };

	take_word(&kind, key.data, key.size);
	count_kind(&info->states, &kind, 0);
}

/* The one dimension that is cut; FSDP_NONE if none is, or more than one. */
static uint32_t cut_dimension(const struct fsdp_tensor *tensor,
	const struct fsdp_piece *piece, uint32_t *ret_cuts)
{
	uint32_t dim = FSDP_NONE;

	*ret_cuts = 0;
	for (uint32_t i = 0; piece->sizes != NULL && i < piece->dims && i < tensor->dims;
		i++) {
		if (piece->sizes[i] == tensor->shape[i])
			continue;
		dim = i;
		(*ret_cuts)++;
	}
	return *ret_cuts == 1 ? dim : FSDP_NONE;
}

/* Pieces with the box of the first one, if each box has as many. */
static uint32_t copies_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, const struct fsdp_piece *first)
{
	size_t size = first->dims * sizeof *first->offsets;
	uint32_t copies = 1;

	if (first->offsets == NULL || first->sizes == NULL)
		return 1;
	/* An even cut: its pieces fill the tensor, so none is there twice. */
	if (tensor->numel % tensor->piece_count == 0 &&
		piece_numel(tensor, first) == tensor->numel / tensor->piece_count)
		return 1;
	for (uint32_t i = 1; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		copies += piece.offsets != NULL && piece.sizes != NULL &&
			  memcmp(piece.offsets, first->offsets, size) == 0 &&
			  memcmp(piece.sizes, first->sizes, size) == 0;
	}
	return tensor->piece_count % copies == 0 ? copies : 1;
}

static void add_sharding(struct info *info, const struct fsdp_tensor *tensor)
{
	struct kind kind = { .over = tensor->piece_count };
	struct fsdp_piece piece;
	uint32_t cuts;

	if (tensor->piece_count == 0)
		return;
	if (tensor->piece_count == 1 && !info->has_ranks) {
		info->whole_rank = FSDP_NONE;
		info->whole++;
		return;
	}
	piece = fsdp_piece(info->run->checkpoint, tensor->first_piece);
	kind.dim = cut_dimension(tensor, &piece, &cuts);
	if (tensor->piece_count == 1) {
		info->whole_rank =
			info->whole_seen++ == 0 || info->whole_rank == piece.rank
				? piece.rank
				: FSDP_NONE;
		info->whole++;
		return;
	}
	kind.scalar = cuts == 0 && !piece.is_run; /* replicated */
	if (piece.is_run)
		take_word(&kind, "flattened", strlen("flattened"));
	if (!kind.scalar)
		kind.copies = copies_of(info->run->checkpoint, tensor, &piece);
	if (kind.copies > 1)
		kind.over /= kind.copies;
	count_kind(&info->shardings, &kind, tensor->piece_count);
}

static void add_tensors(struct info *info)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct total *total = &info->totals[tensor.role];
		if (total->tensors > 0 && total->dtype != tensor.dtype)
			total->mixed = true;
		total->tensors++;
		total->dtype = tensor.dtype;
		if (tensor_counts(&tensor)) {
			total->numel += tensor.numel;
			total->bytes += tensor.bytes;
		}
		if (tensor.role == FSDP_ROLE_OPTIM)
			add_state(info, &tensor);
		add_sharding(info, &tensor);
		fsdp_sums_add(info->by_dtype, i, &tensor, NULL, NULL);
		fsdp_sums_add(info->by_role, i, &tensor, NULL, NULL);
		if (info->has_ranks)
			fsdp_sums_add(info->by_rank, i, &tensor, NULL, NULL);
	}
}

/* The same for tensors that are so plain that the library has added them up. */
static void add_sums(struct info *info, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct fsdp_sum sum = fsdp_sum(info->run->checkpoint, i);
		struct total *total = &info->totals[sum.role];
		total->mixed |= total->tensors > 0;
		total->dtype = sum.dtype;
		total->tensors += sum.tensors;
		total->numel += sum.numel;
		total->bytes += sum.bytes;
		info->whole += sum.tensors;
		fsdp_sums_add_counted(info->by_dtype, &sum);
		fsdp_sums_add_counted(info->by_role, &sum);
	}
	info->whole_rank = FSDP_NONE;
}

static void add_files(struct info *info)
{
	size_t count = fsdp_file_count(info->run->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_file file = fsdp_file(info->run->checkpoint, i);
		struct text base = text_last(text_of_span(file.path), '/');
		struct text suffix = text_last(base, '.');
		struct kind kind = { .over = 0 };
		/* ".metadata" is a name, not a suffix. */
		kind.scalar = suffix.size + 1 == base.size;
		if (suffix.size < base.size)
			take_word(&kind, suffix.data - 1, suffix.size + 1);
		count_kind(&info->suffixes, &kind, 0);
	}
}

/* ---- for programs ---- */

static void emit_format(struct info *info)
{
	struct fsdp_format format = fsdp_checkpoint_format(info->run->checkpoint);
	struct out *out = info->run->out;

	out_object_begin(out, "format");
	out_field(out, "family", value_word(format.family));
	out_field(out, "title", value_word(format.title));
	out_field(out, "writer", value_word(format.writer));
	out_field(out, "torch_guess", value_word(format.torch_guess));
	out_object_end(out);
	out_field(out, "world_size",
		value_id(fsdp_checkpoint_world_size(info->run->checkpoint)));
}

static bool emit_ranks(struct info *info)
{
	size_t count = 0;
	const uint32_t *ranks = fsdp_checkpoint_ranks(info->run->checkpoint, &count);
	int64_t *list = malloc((count + 1) * sizeof *list);

	if (list == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		list[i] = ranks[i];
	out_field(info->run->out, "ranks_seen", value_shape(list, count));
	free(list);
	return true;
}

/* The strategies of the units, each once, in order. */
static size_t list_strategies(const struct info *info, const char *strategies[KINDS_MAX])
{
	size_t units = fsdp_unit_count(info->run->checkpoint), count = 0;

	for (uint32_t i = 0; i < units; i++) {
		struct fsdp_unit unit = fsdp_unit(info->run->checkpoint, i);
		size_t j = 0;
		if (unit.strategy == NULL || unit.inferred)
			continue;
		while (j < count && strcmp(strategies[j], unit.strategy) != 0)
			j++;
		if (j == count && count < KINDS_MAX)
			strategies[count++] = unit.strategy;
	}
	return count;
}

static void emit_plan(struct info *info)
{
	struct out *out = info->run->out;
	const char *strategies[KINDS_MAX];
	struct fsdp_plan_facts plan;
	size_t count;

	if (!fsdp_checkpoint_plan(info->run->checkpoint, &plan))
		return;
	out_object_begin(out, "plan");
	out_field(out, "path", value_name(text_of(plan.path)));
	out_field(out, "torch", value_word(plan.torch));
	out_field(out, "world_size", value_id(plan.world_size));
	out_field(out, "units", value_id(plan.unit_count));
	out_array_begin(out, "strategies");
	count = list_strategies(info, strategies);
	for (size_t i = 0; i < count; i++)
		out_field(out, NULL, value_word(strategies[i]));
	out_array_end(out);
	mesh_field(info->run, plan.mesh, false);
	out_object_end(out);
}

static void emit_counts(struct info *info)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	struct out *out = info->run->out;

	out_object_begin(out, "counts");
	out_field(out, "tensors", value_count(fsdp_tensor_count(checkpoint)));
	out_field(out, "parameters", value_count(info->totals[FSDP_ROLE_PARAM].numel));
	out_field(out, "pieces", value_count(fsdp_piece_count(checkpoint)));
	out_field(out, "files", value_count(fsdp_file_count(checkpoint)));
	out_field(out, "modules", value_count(fsdp_module_count(checkpoint)));
	out_field(out, "units", value_count(fsdp_unit_count(checkpoint)));
	out_field(out, "values", value_count(fsdp_value_count(checkpoint)));
	out_object_end(out);
}

static void emit_groups(struct info *info, const char *key, enum fsdp_sums_by by,
	const struct fsdp_sums *sums)
{
	struct out *out = info->run->out;

	out_array_begin(out, key);
	for (size_t i = 0; i + 1 < fsdp_sums_count(sums); i++) {
		struct fsdp_group group = fsdp_sums_group(sums, i);
		if (group.tensors == 0)
			continue;
		out_object_begin(out, NULL);
		out_field(out, "key",
			group_key(info->run->checkpoint, by, group.key,
				&info->buffers.name, false));
		out_field(out, "tensors", value_count(group.tensors));
		out_field(out, "pieces", value_count(group.pieces));
		out_field(out, "bytes", value_bytes(group.bytes));
		out_object_end(out);
	}
	out_array_end(out);
}

static void emit_bytes(struct info *info)
{
	struct fsdp_bytes bytes = fsdp_checkpoint_bytes(info->run->checkpoint);
	struct out *out = info->run->out;

	out_object_begin(out, "bytes");
	out_field(out, "payload", value_bytes(bytes.payload));
	out_field(out, "on_disk", value_bytes(bytes.on_disk));
	out_field(out, "records", value_bytes(bytes.records));
	out_field(out, "unaccounted", value_bytes(bytes.unaccounted));
	out_field(out, "unused", value_bytes(bytes.unused));
	emit_groups(info, "by_dtype", FSDP_BY_DTYPE, info->by_dtype);
	emit_groups(info, "by_role", FSDP_BY_ROLE, info->by_role);
	emit_groups(info, "by_rank", FSDP_BY_RANK, info->by_rank);
	out_object_end(out);
}

static void emit_values(struct info *info)
{
	size_t count = fsdp_value_count(info->run->checkpoint);
	struct table table = { .key = "values",
		.columns = entry_columns,
		.column_count = ENTRY_COLUMNS,
		.main = true,
		.machine_only = true };
	struct value values[ENTRY_COLUMNS];

	out_table_begin(info->run->out, &table);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_value value = fsdp_value(info->run->checkpoint, i);
		entry_row(info->run, &info->buffers, &value, values);
		out_row(info->run->out, values);
	}
	out_table_end(info->run->out);
}

static void emit_names(struct info *info)
{
	size_t count = fsdp_prefix_count(info->run->checkpoint);
	struct out *out = info->run->out;

	out_object_begin(out, "names");
	out_array_begin(out, "prefixes");
	for (size_t i = 0; i < count; i++) {
		struct fsdp_prefix prefix = fsdp_prefix(info->run->checkpoint, i);
		out_object_begin(out, NULL);
		out_field(out, "prefix", value_word(prefix.prefix));
		out_field(out, "count", value_count(prefix.count));
		out_object_end(out);
	}
	out_array_end(out);
	out_object_end(out);
}

/* ---- for people ---- */

static void tell_head(struct info *info)
{
	struct fsdp_format format = fsdp_checkpoint_format(info->run->checkpoint);
	uint32_t world_size = fsdp_checkpoint_world_size(info->run->checkpoint);
	struct text path = text_of(info->run->path);
	struct out *out = info->run->out;
	size_t ranks;

	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	out_line_begin(out, NULL);
	out_line_name(out, path);
	if (info->run->path_count > 1)
		out_line_text(out, " and %zu more", info->run->path_count - 1);
	out_line_text(out, ": ");
	out_line_name(out, text_of(format.title != NULL ? format.title : format.family));
	(void)fsdp_checkpoint_ranks(info->run->checkpoint, &ranks);
	if (world_size != FSDP_NONE && (world_size > 1 || ranks > 0))
		out_line_text(out, ", %" PRIu32 " rank%s", world_size,
			world_size == 1 ? "" : "s");
	if (format.writer != NULL) {
		out_line_text(out, ", written by ");
		out_line_name(out, text_of(format.writer));
	}
	if (format.torch_guess != NULL) {
		out_line_text(out, ", torch ");
		out_line_name(out, text_of(format.torch_guess));
	}
	out_line_end(out);
}

static void tell_plan(struct info *info)
{
	struct out *out = info->run->out;
	const char *strategies[KINDS_MAX];
	struct fsdp_plan_facts plan;
	size_t count;

	if (!fsdp_checkpoint_plan(info->run->checkpoint, &plan))
		return;
	out_line_begin(out, "plan");
	out_line_name(out, text_of(plan.path));
	if (plan.torch != NULL) {
		out_line_text(out, " (torch ");
		out_line_name(out, text_of(plan.torch));
		out_line_text(out, ")");
	}
	out_line_text(out, ": %" PRIu32 " unit%s", plan.unit_count,
		plan.unit_count == 1 ? "" : "s");
	count = list_strategies(info, strategies);
	for (size_t i = 0; i < count; i++) {
		out_line_text(out, ", ");
		out_line_name(out, text_of(strategies[i]));
	}
	if (plan.mesh != FSDP_NONE) {
		out_line_text(out, ", mesh ");
		mesh_line(info->run, plan.mesh);
	} else if (plan.world_size != FSDP_NONE) {
		out_line_text(out, ", world size %" PRIu32, plan.world_size);
	}
	out_line_end(out);
}

static const char *dtype_word(const struct total *total)
{
	return total->mixed ? "several dtypes" : fsdp_dtype(total->dtype)->name;
}

static void tell_role(
	struct info *info, enum fsdp_role role, const char *label, bool as_parameters)
{
	const struct total *total = &info->totals[role];
	struct out *out = info->run->out;

	if (total->tensors == 0)
		return;
	out_line_begin(out, label);
	if (as_parameters) {
		out_line_value(out, value_elements(total->numel));
		out_line_text(out, " in ");
	}
	out_line_text(out, "%" PRIu64 " tensor%s, %s, ", total->tensors,
		total->tensors == 1 ? "" : "s", dtype_word(total));
	out_line_value(out, value_bytes(total->bytes));
	out_line_end(out);
}

/* "exp_avg, exp_avg_sq float32": those of one dtype together. */
static void tell_state_kinds(struct info *info)
{
	struct out *out = info->run->out;
	const struct kinds *states = &info->states;
	const struct kind *before = NULL;

	for (size_t i = 0; i < states->count; i++) {
		const struct kind *kind = &states->items[i];
		if (kind->scalar)
			continue;
		if (before != NULL && before->dtype != kind->dtype)
			out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
		out_line_text(out, "%s", before != NULL ? ", " : "");
		out_line_name(out, text_of(kind->word));
		before = kind;
	}
	if (before != NULL)
		out_line_text(out, " %s", fsdp_dtype(before->dtype)->name);
	if (states->others > 0)
		out_line_text(out, ", and others");
}

static void tell_optimizer(struct info *info)
{
	const struct total *total = &info->totals[FSDP_ROLE_OPTIM];
	struct out *out = info->run->out;

	if (total->tensors == 0)
		return;
	out_line_begin(out, "optimizer");
	out_line_text(out, "%" PRIu64 " tensor%s: ", total->tensors,
		total->tensors == 1 ? "" : "s");
	tell_state_kinds(info);
	out_line_text(out, ", ");
	out_line_value(out, value_bytes(total->bytes));
	for (size_t i = 0; i < info->states.count; i++) {
		const struct kind *kind = &info->states.items[i];
		if (!kind->scalar)
			continue;
		out_line_text(out, "; ");
		out_line_name(out, text_of(kind->word));
		out_line_text(out, " (%" PRIu64 " scalar%s)", kind->count,
			kind->count == 1 ? "" : "s");
	}
	out_line_end(out);
}

/* How far training was: what people look for among many values. */
static bool is_progress(struct text name)
{
	static const char *const WORDS[] = { "step", "steps", "global_step",
		"global_steps", "epoch", "iteration" };

	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (text_is(name, text_of(WORDS[i])))
			return true;
	return false;
}

static void tell_value(struct info *info, uint32_t index, bool progress, size_t *shown)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	struct fsdp_value value = fsdp_value(checkpoint, index);
	struct text name = name_text(&info->buffers.name, checkpoint,
		info->run->common->raw ? value.raw_name : value.name);
	struct out *out = info->run->out;

	if (*shown == VALUES_SHOWN || is_progress(name) != progress)
		return;
	out_line_text(out, "%s", (*shown)++ > 0 ? ", " : "");
	out_line_name(out, name);
	struct text text =
		tokens_text(&info->buffers.text, value.tokens, value.token_count);
	if (text.data == NULL || text.size > WORD_SIZE)
		return; /* long ones: see ls --objects */
	out_line_text(out, " ");
	out_line_name(out, text);
}

static void tell_values(struct info *info)
{
	size_t count = fsdp_value_count(info->run->checkpoint), shown = 0;
	struct out *out = info->run->out;

	if (count == 0)
		return;
	out_line_begin(out, "values");
	for (uint32_t i = 0; i < count; i++)
		tell_value(info, i, true, &shown);
	for (uint32_t i = 0; i < count && shown < VALUES_SHOWN; i++)
		tell_value(info, i, false, &shown);
	if (count > VALUES_SHOWN)
		out_line_text(out, ", and %zu more", count - VALUES_SHOWN);
	out_line_end(out);
}

static void tell_sharding(struct info *info)
{
	const struct kinds *kinds = &info->shardings;
	struct out *out = info->run->out;

	if (kinds->count == 0)
		return;
	out_line_begin(out, "sharding");
	for (size_t i = 0; i < kinds->count && i < KINDS_SHOWN; i++) {
		const struct kind *kind = &kinds->items[i];
		out_line_text(out, "%s", i > 0 ? "; " : "");
		if (kind->scalar)
			out_line_text(out, "on each of %" PRIu32, kind->over);
		else if (kind->word[0] != '\0')
			out_line_text(out, "%s over %" PRIu32, kind->word, kind->over);
		else if (kind->dim == FSDP_NONE)
			out_line_text(out, "several dims over %" PRIu32, kind->over);
		else
			out_line_text(out, "dim %" PRIu32 " over %" PRIu32, kind->dim,
				kind->over);
		if (kind->copies > 1)
			out_line_text(out, ", %" PRIu32 " copies", kind->copies);
		out_line_text(out, ": %" PRIu64 " tensor%s in %" PRIu64 " pieces",
			kind->count, kind->count == 1 ? "" : "s", kind->pieces);
	}
	if (kinds->count > KINDS_SHOWN || kinds->others > 0)
		out_line_text(out, "; others otherwise");
	if (info->whole > 0)
		out_line_text(out, "; %" PRIu64 " whole", info->whole);
	if (info->whole > 0 && info->whole_rank != FSDP_NONE)
		out_line_text(out, ", kept by rank %" PRIu32, info->whole_rank);
	out_line_end(out);
}

static void tell_files(struct info *info)
{
	struct fsdp_bytes bytes = fsdp_checkpoint_bytes(info->run->checkpoint);
	const struct kinds *kinds = &info->suffixes;
	struct out *out = info->run->out;

	if (fsdp_file_count(info->run->checkpoint) == 0)
		return;
	out_line_begin(out, "files");
	for (size_t i = 0; i < kinds->count && i < KINDS_SHOWN; i++) {
		const struct kind *kind = &kinds->items[i];
		out_line_text(out, "%s", i > 0 ? " + " : "");
		if (!kind->scalar || kind->count > 1)
			out_line_text(out, "%" PRIu64 " ", kind->count);
		out_line_name(out,
			text_of(kind->word[0] == '\0' ? "without suffix" : kind->word));
	}
	if (kinds->count > KINDS_SHOWN || kinds->others > 0)
		out_line_text(out, " + others");
	out_line_text(out, ": ");
	out_line_value(out, value_bytes(bytes.on_disk));
	out_line_text(out, " = ");
	out_line_value(out, value_bytes(bytes.payload));
	out_line_text(out, " payload + ");
	out_line_value(out, value_bytes(bytes.records));
	out_line_text(out, " records; %" PRIu64 " bytes unaccounted", bytes.unaccounted);
	out_line_end(out);
	if (bytes.unused == 0 || bytes.unused == FSDP_UNKNOWN)
		return;
	out_line_begin(out, "unused");
	out_line_value(out, value_bytes(bytes.unused));
	out_line_text(out, " stored, but viewed by no tensor (--waste lists them)");
	out_line_end(out);
}

static void tell_balance(struct info *info)
{
	struct fsdp_balance balance = fsdp_sums_balance(info->by_rank);

	if (balance.groups < 2 || balance.total == 0)
		return;
	if (balance.is_even) {
		out_line(info->run->out, "balance", "even");
		return;
	}
	out_line(info->run->out, "balance",
		"most on rank %" PRIu32 ", %.2f %% above the mean", balance.key,
		(double)balance.most * (double)balance.groups / (double)balance.total *
				100 -
			100);
}

static const char *wrapper_of(const char *prefix)
{
	static const struct {
		const char *prefix, *wrapper;
	} KNOWN[] = {
		{ "_checkpoint_wrapped_module.", "activation checkpointing" },
		{ "_dmp_wrapped_module.", "DistributedModelParallel" },
		{ "_fsdp_wrapped_module.", "FSDP" },
		{ "_orig_mod.", "torch.compile" },
		{ "module.", "DistributedDataParallel" },
	};

	for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
		if (strcmp(KNOWN[i].prefix, prefix) == 0)
			return KNOWN[i].wrapper;
	return NULL;
}

static bool is_cleaned(const char *prefix)
{
	return strcmp(prefix, "_fsdp_wrapped_module.") == 0 ||
	       strcmp(prefix, "_checkpoint_wrapped_module.") == 0;
}

static void tell_names(struct info *info)
{
	size_t count = fsdp_prefix_count(info->run->checkpoint);
	struct out *out = info->run->out;

	for (size_t i = 0; i < count && i < PREFIXES_SHOWN; i++) {
		struct fsdp_prefix prefix = fsdp_prefix(info->run->checkpoint, i);
		const char *wrapper = wrapper_of(prefix.prefix);
		out_line_begin(out, i == 0 ? "names" : "");
		out_line_name(out, text_of(prefix.prefix));
		out_line_text(out, " in %" PRIu64 " tensor%s", prefix.count,
			prefix.count == 1 ? "" : "s");
		if (wrapper != NULL)
			out_line_text(out, " (%s)", wrapper);
		if (!info->run->common->raw)
			out_line_text(out, ", shown %s it",
				is_cleaned(prefix.prefix) ? "without" : "with");
		out_line_end(out);
	}
}

/* The rule that says where plan and checkpoint do not meet. */
static const char PLAN_MISMATCH[] = "FI1081";

static void tell_findings(struct info *info)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	uint64_t counts[FSDP_SEVERITY_COUNT] = { 0 };
	size_t count = fsdp_finding_count(checkpoint);
	const struct fsdp_finding *mismatch = NULL;
	struct out *out = info->run->out;
	bool some = false;

	for (size_t i = 0; i < count; i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);
		counts[finding->severity]++;
		if (mismatch == NULL && strcmp(finding->rule->id, PLAN_MISMATCH) == 0)
			mismatch = finding;
	}
	for (size_t i = 0; i < fsdp_omitted_count(checkpoint); i++) {
		struct fsdp_omitted omitted = fsdp_omitted(checkpoint, i);
		counts[omitted.rule->severity] += omitted.count;
	}
	for (size_t i = FSDP_SEVERITY_COUNT; i-- > 0;) {
		if (counts[i] == 0)
			continue;
		if (!some)
			out_line_begin(out, "findings");
		out_line_text(out, "%s%" PRIu64 " %s%s", some ? ", " : "", counts[i],
			fsdp_severity_name((enum fsdp_severity)i),
			counts[i] == 1 ? "" : "s");
		some = true;
	}
	if (some)
		out_line_end(out);
	if (mismatch == NULL)
		return;
	out_line_begin(out, "");
	out_line_name(out, text_of_span(mismatch->message));
	out_line_end(out);
}

/* ---- the command ---- */

static bool show(struct info *info)
{
	bool good;

	tell_head(info);
	tell_plan(info);
	tell_role(info, FSDP_ROLE_PARAM, "parameters", true);
	tell_role(info, FSDP_ROLE_BUFFER, "buffers", false);
	tell_optimizer(info);
	tell_role(info, FSDP_ROLE_OTHER, "tensors", false);
	tell_values(info);
	tell_sharding(info);
	tell_files(info);
	tell_balance(info);
	tell_names(info);
	tell_findings(info);
	emit_format(info);
	good = emit_ranks(info);
	emit_plan(info);
	emit_counts(info);
	emit_bytes(info);
	emit_values(info);
	emit_names(info);
	if (info->waste != NULL)
		good &= waste_show(info->waste, info->run, &info->buffers);
	return good;
}

static bool prepare(struct info *info, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	bool partial = false;
	size_t ranks, sums = fsdp_sum_count(checkpoint);

	if (!fsdp_sums_new(checkpoint, FSDP_BY_DTYPE, -1, &info->by_dtype, ret_error) ||
		!fsdp_sums_new(checkpoint, FSDP_BY_ROLE, -1, &info->by_role, ret_error) ||
		!fsdp_sums_new(checkpoint, FSDP_BY_RANK, -1, &info->by_rank, ret_error))
		return false;
	(void)fsdp_checkpoint_ranks(checkpoint, &ranks);
	info->has_ranks = ranks > 0;
	if (sums > 0)
		add_sums(info, sums);
	else
		add_tensors(info);
	add_files(info);
	if (info->options->waste &&
		!waste_find(info->run, &info->waste, &partial, ret_error))
		return false;
	if (partial)
		info->status = STATUS_PARTIAL;
	return true;
}

static bool run_info(struct run *run, struct fsdp_error **ret_error)
{
	struct info info = { .run = run, .options = run->options };
	bool good = prepare(&info, ret_error);

	if (good) {
		run_begin(run, info.status);
		good = show(&info) && !row_buffers_failed(&info.buffers);
	}
	fsdp_waste_free(info.waste);
	fsdp_sums_free(info.by_dtype);
	fsdp_sums_free(info.by_role);
	fsdp_sums_free(info.by_rank);
	row_buffers_done(&info.buffers);
	return good;
}

static bool wants_values(const void *options)
{
	(void)options;
	return true;
}

/* A table of what is stored but not viewed has rows, in order. */
static bool only_counts(const void *options)
{
	const struct info_options *info = options;

	return !info->waste;
}

const struct command command_info = {
	.name = "info",
	.group = GROUP_START,
	.summary = "what is this checkpoint?",
	.synopsis = "[--waste] CHECKPOINT...",
	.example = "info step-1000/",
	.examples = { "info step-1000/", "info --json model.pt | jq .data.bytes" },
	.options = OPTIONS,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.wants_values = wants_values,
	.only_counts = only_counts,
	.options_size = sizeof(struct info_options),
	.run = run_info,
};
