/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows when files of one folder are the ranks of one save: their names differ in one
 * number. Reads none of them: it names them as children, and the door reads each.
 *
 *	rank0.pt rank1.pt …                      free naming
 *	model_world_size_2_rank_0.pt …           verl
 *	consolidated.00.pth …                    one number anywhere in the name
 *
 * What the files say of themselves (the process group of a ShardedTensor, the mesh of a
 * DTensor) is believed; the number in the name only where they say nothing.
 */
#include "format/format.h"

enum { RANK_MAX = 1 << 24 };

/* A name with one number taken out. */
struct pattern {
	struct fsdp_span prefix, suffix;
	uint32_t number;
};

static bool is_digit(unsigned char byte)
{
	return byte >= '0' && byte <= '9';
}

static bool has_torch_suffix(struct fsdp_span name)
{
	return fsdp_span_ends(name, FSDP_SPAN(".pt")) ||
	       fsdp_span_ends(name, FSDP_SPAN(".pth")) ||
	       fsdp_span_ends(name, FSDP_SPAN(".bin")) ||
	       fsdp_span_ends(name, FSDP_SPAN(".ckpt"));
}

/* The last number of the name is the rank, unless "-of-N" makes it the world size. */
static bool take_pattern(struct fsdp_span name, struct pattern *ret_pattern)
{
	size_t end = name.size;
	for (unsigned tries = 0; tries < 2; tries++) {
		while (end != 0 && !is_digit(name.data[end - 1]))
			end--;
		size_t begin = end;
		while (begin != 0 && is_digit(name.data[begin - 1]))
			begin--;
		if (begin == end)
			return false;
		struct fsdp_span prefix = fsdp_span(name.data, begin);
		if (fsdp_span_ends(prefix, FSDP_SPAN("of-")) ||
			fsdp_span_ends(prefix, FSDP_SPAN("of_"))) {
			end = begin;
			continue;
		}
		uint64_t number = 0;
		for (size_t i = begin; i < end && number < RANK_MAX; i++)
			number = number * 10 + (uint64_t)(name.data[i] - '0');
		*ret_pattern = (struct pattern){
			.prefix = prefix,
			.suffix = fsdp_span(name.data + end, name.size - end),
			.number = (uint32_t)number,
		};
		return number < RANK_MAX;
	}
	return false;
}

static bool same_pattern(const struct pattern *a, const struct pattern *b)
{
	return fsdp_span_equal(a->prefix, b->prefix) &&
	       fsdp_span_equal(a->suffix, b->suffix);
}

static bool pattern_at(
	const struct fsdp_folder *folder, size_t index, struct pattern *ret_pattern)
{
	struct fsdp_entry entry = fsdp_folder_entry(folder, index);
	return entry.kind == FSDP_ENTRY_FILE && has_torch_suffix(entry.name) &&
	       take_pattern(entry.name, ret_pattern);
}

/* All torch files of the folder have one pattern; the first one's goes to *ret_pattern.
 */
static size_t count_members(const struct fsdp_folder *folder, struct pattern *ret_pattern)
{
	struct pattern pattern = { 0 };
	size_t count = 0;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind != FSDP_ENTRY_FILE || !has_torch_suffix(entry.name))
			continue;
		if (!take_pattern(entry.name, &pattern) ||
			(count != 0 && !same_pattern(&pattern, ret_pattern)))
			return 0;
		if (count++ == 0)
			*ret_pattern = pattern;
	}
	return count;
}

/* A word that only the names of rank files hold. Epochs and steps are counted too. */
static bool names_a_rank(struct fsdp_span name)
{
	static const char *const words[] = { "rank", "shard", "consolidated.", "mp_",
		"tp_" };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (memmem(name.data, name.size, words[i], strlen(words[i])) != NULL)
			return true;
	return false;
}

static int bid(const struct fsdp_look *look)
{
	struct pattern pattern = { 0 };
	if (look->folder == NULL)
		return 0;
	size_t count = count_members(look->folder, &pattern);
	/* One file that is called a rank's is a set of which the others are missing. */
	return count >= 2 || (count == 1 && names_a_rank(pattern.prefix)) ? 30 : 0;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct pattern pattern;
	for (size_t i = 0; i < look->folder->count; i++) {
		if (!pattern_at(look->folder, i, &pattern))
			continue;
		struct fsdp_child *child = fsdp_vec_push(&reading->children);
		if (child == NULL)
			return fsdp_arena_fail(reading->scratch, ret_error);
		*child = (struct fsdp_child){
			.name = fsdp_folder_entry(look->folder, i).name,
			.rank = pattern.number,
		};
	}
	reading->model->is_set = true;
	return true;
}

/* ---- after all files were read ---- */

static void judge_ranks(
	struct fsdp_reading *reading, unsigned char *seen, uint32_t world_size)
{
	struct fsdp_model *model = reading->model;
	for (uint32_t i = 0; i < model->files.count; i++) {
		const struct fsdp_file_record *file = fsdp_vec_at(&model->files, i);
		if (file->rank == FSDP_NONE)
			continue;
		if (file->rank >= world_size)
			fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
				FSDP_PLACE(.file = file->path, .rank = file->rank),
				"this file is of rank %u, but the world has %u ranks",
				file->rank, world_size);
		else if (seen[file->rank]++ == 1)
			fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
				FSDP_PLACE(.file = file->path, .rank = file->rank),
				"another file is of rank %u too", file->rank);
	}
	for (uint32_t rank = 0; rank < world_size; rank++)
		if (seen[rank] == 0)
			fsdp_find(&model->findings, FSDP_RULE_RANK_MISSING,
				FSDP_PLACE(.file = { 0 }, .rank = rank),
				"there is no file of rank %u; the world has %u ranks",
				rank, world_size);
}

/* Files that differ in a number and say nothing of ranks may be anything. */
static bool check_evidence(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	const struct fsdp_child *first = fsdp_vec_at(&reading->children, 0);
	if (reading->ranks_told != 0 || names_a_rank(first->name))
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"these %zu files differ in one number of their names, but nothing says "
		"that "
		"they are ranks of one save",
		reading->children.count);
	fsdp_error_add_rule(ret_error, "FI9002");
	fsdp_error_add_hint(ret_error, "give one of them");
	return false;
}

static bool finish(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	if (!check_evidence(reading, ret_error))
		return false;
	struct fsdp_model *model = reading->model;
	uint32_t world_size = model->world_size;
	model->format.family = "rank-set";
	model->format.title = "PyTorch rank files (one torch.save a rank)";
	if (world_size == FSDP_NONE) {
		/* Nothing in the files tells: as many as there are files. */
		model->world_size = (uint32_t)reading->children.count;
		return true;
	}
	unsigned char *seen =
		fsdp_arena_take(reading->scratch, (size_t)world_size + 1, 1);
	if (seen == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	judge_ranks(reading, seen, world_size);
	return true;
}

const struct fsdp_family fsdp_family_rank_set = {
	.name = "rank-set",
	.title = "PyTorch rank files (one torch.save a rank)",
	.bid = bid,
	.read = read,
	.finish = finish,
};
