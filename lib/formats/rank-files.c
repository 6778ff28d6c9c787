/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories with files of ranks: those of one save (rank-set), and those of tensor
 * parallelism, each with its own slices (slices).
 */
#include "base/num.h"
#include "base/sort.h"
#include "formats/format.h"
#include "syntax/json-tree.h"

#include <stdio.h>

/* ---- the ranks of one save ---- */

/*
 * Files of one directory that are the ranks of one save: their names differ in one
 * number, or the user named them together. Adds them as children, and checks when all
 * were read whether they are one save.
 *
 *	rank0.pt rank1.pt …                      free naming
 *	model_world_size_2_rank_0.pt …           verl
 *	consolidated.00.pth …                    one number anywhere in the name
 *
 * The content of the files (the process group of a ShardedTensor, the mesh of a DTensor)
 * determines the rank; the number in the name is used only without it.
 */

enum { RANK_MAX = 1 << 24, NAMED_MAX = 1 << 16 };

/* Files of one rank that are distinguished by name; beyond that none are compared. */
enum { KINDS_MAX = 64 };

/* A name with one number taken out. */
struct numbered_name {
	struct fsdp_span prefix, suffix;
	uint32_t number;
};

/* macOS writes a file "._NAME" next to each file NAME on disks of other systems. */
static bool has_torch_suffix(struct fsdp_span name)
{
	return !fsdp_span_begins(name, FSDP_SPAN(".")) &&
	       fsdp_span_ends_any(name, ".pt .pth .bin .ckpt");
}

/* The last number of the name is the rank, unless "-of-N" makes it the world size. */
static bool match_pattern(struct fsdp_span name, struct numbered_name *ret_pattern)
{
	size_t end = fsdp_span_begins(name, FSDP_SPAN(".")) ? 0 : name.size;
	for (unsigned tries = 0; tries < 2; tries++) {
		while (end != 0 && !fsdp_is_digit(name.data[end - 1]))
			end--;
		size_t begin = end;
		while (begin != 0 && fsdp_is_digit(name.data[begin - 1]))
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
		*ret_pattern = (struct numbered_name){
			.prefix = prefix,
			.suffix = fsdp_span(name.data + end, name.size - end),
			.number = (uint32_t)number,
		};
		return number < RANK_MAX;
	}
	return false;
}

static bool same_pattern(const struct numbered_name *a, const struct numbered_name *b)
{
	return fsdp_span_equal(a->prefix, b->prefix) &&
	       fsdp_span_equal(a->suffix, b->suffix);
}

/* All torch files of the directory have one pattern; the first one's goes to
 * *ret_pattern.
 */
static size_t count_members(
	const struct fsdp_folder *folder, struct numbered_name *ret_pattern)
{
	struct numbered_name pattern = { 0 };
	size_t count = 0;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE || !has_torch_suffix(entry.name))
			continue;
		if (!match_pattern(entry.name, &pattern) ||
			(count != 0 && !same_pattern(&pattern, ret_pattern)))
			return 0;
		if (count++ == 0)
			*ret_pattern = pattern;
	}
	return count;
}

/* A word for ranks of tensor or model parallelism, which "temp_1" does not hold. */
static bool names_a_slice(struct fsdp_span name)
{
	static const char *const words[] = { "mp_", "tp_" };
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		const unsigned char *at = memmem(name.data, name.size, words[i], 3);
		if (at != NULL && (at == name.data || (at[-1] | 0x20) < 'a' ||
					  (at[-1] | 0x20) > 'z'))
			return true;
	}
	return false;
}

/* A word that only the names of rank files hold. Epochs and steps are counted too. */
static bool names_a_rank(struct fsdp_span name)
{
	static const char *const words[] = { "rank", "shard", "consolidated." };
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (memmem(name.data, name.size, words[i], strlen(words[i])) != NULL)
			return true;
	return names_a_slice(name);
}

/* verl and others write it into the name; FSDP_NONE if it is not there. */
static uint32_t named_world_size(struct fsdp_span name)
{
	static const char word[] = "world_size_";
	const unsigned char *at = memmem(name.data, name.size, word, sizeof word - 1);
	uint64_t size = 0;
	if (at == NULL)
		return FSDP_NONE;
	for (at += sizeof word - 1;
		at < name.data + name.size && fsdp_is_digit(*at) && size < RANK_MAX; at++)
		size = size * 10 + (uint64_t)(*at - '0');
	return size != 0 && size < RANK_MAX ? (uint32_t)size : FSDP_NONE;
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	struct numbered_name pattern = { 0 };
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	/* What was named together is read together, except sharding plans. */
	for (size_t i = 0; look->folder->picked != NULL && i < look->folder->count; i++)
		if (!fsdp_plan_has_name(fsdp_folder_entry(look->folder, i).name))
			return FSDP_SIGN_LIKELY;
	if (look->folder->picked != NULL)
		return FSDP_SIGN_NONE;
	size_t count = count_members(look->folder, &pattern);
	/* One file with the name of a rank is a set whose other files are missing. */
	return count >= 2 || (count == 1 && names_a_rank(pattern.prefix))
		       ? FSDP_SIGN_SURE
		       : FSDP_SIGN_NONE;
}

size_t fsdp_rank_siblings(const struct fsdp_folder *folder, struct fsdp_span name,
	uint32_t *positions, bool *ret_sure)
{
	struct numbered_name own, pattern;
	size_t count = 0;
	if (!match_pattern(name, &own))
		return 0;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (entry.kind == FSDP_ENTRY_FILE &&
			match_pattern(entry.name, &pattern) &&
			same_pattern(&pattern, &own))
			positions[count++] = (uint32_t)i;
	*ret_sure = names_a_rank(own.prefix);
	return count;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct numbered_name pattern, first = { 0 };
	bool uniform = true;
	(void)ret_error;
	FSDP_EACH(i, look->folder->count, entry, fsdp_folder_entry(look->folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE)
			continue;
		if (!(look->folder->picked != NULL ? !fsdp_plan_has_name(entry.name)
						   : has_torch_suffix(entry.name)))
			continue;
		bool numbered = match_pattern(entry.name, &pattern);
		fsdp_reading_add_child(
			reading, entry.name, numbered ? pattern.number : FSDP_NONE);
		if (reading->children.count == 1)
			first = pattern;
		uniform &= numbered && same_pattern(&pattern, &first);
	}
	/* Of names that differ in more than a number, only the word identifies a rank. */
	for (size_t i = 0; i < reading->children.count && !uniform; i++) {
		struct fsdp_child *child = fsdp_vec_at(&reading->children, i);
		if (!names_a_rank(child->name))
			child->rank = FSDP_NONE;
	}
	reading->model->is_set = true;
	reading->checks_ranks = true;
	fsdp_reading_order_children(reading, 0);
	return true;
}

/* ---- after all files were read: is it one save? ---- */

/* Of a world size: the files that contain it. */
struct claim {
	uint32_t world_size;
	uint32_t files;
	uint32_t ranks; /* below it, with a file that contains it */
};

/* Distinct world sizes are few; further ones are skipped anyway. */
enum { CLAIMS_MAX = 16 };

struct claims {
	struct claim items[CLAIMS_MAX];
	size_t count;
};

/* The world size in the files; of several the most complete one. Files
 * of another world size are of another save: their tensors are not joined with these. */
static void resolve_world(struct fsdp_model *model)
{
	struct claims claims = { .count = 0 };
	const struct claim *best = &claims.items[0];
	FSDP_EACH(i, model->files.count, file, fsdp_model_file(model, i)) {
		size_t k = 0;
		if (file->world_size == FSDP_NONE || !file->world_whole)
			continue;
		while (k < claims.count && claims.items[k].world_size != file->world_size)
			k++;
		if (k == CLAIMS_MAX)
			continue;
		if (k == claims.count)
			claims.items[claims.count++] =
				(struct claim){ .world_size = file->world_size };
		claims.items[k].files++;
		claims.items[k].ranks += file->rank < file->world_size;
	}
	if (claims.count < 2)
		return;
	for (size_t i = 1; i < claims.count; i++) {
		/* Whether more of its ranks are there; of equal ones, whether it has more
		 * files. */
		const struct claim *a = &claims.items[i];
		uint64_t left = (uint64_t)a->ranks * best->world_size;
		uint64_t right = (uint64_t)best->ranks * a->world_size;
		if (left != right ? left > right : a->files > best->files)
			best = &claims.items[i];
	}
	model->world_size = best->world_size;
	FSDP_EACH(i, model->files.count, file, fsdp_model_file(model, i)) {
		if (!file->world_whole || file->world_size == best->world_size)
			continue;
		file->left_out = true;
		fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
			FSDP_PLACE(.file = file->path, .rank = file->rank),
			"skipped: the file belongs to a save by %u rank%s, %u other file%s to one by %u",
			file->world_size, file->world_size == 1 ? "" : "s", best->files,
			best->files == 1 ? " is" : "s are", best->world_size);
	}
}

/* The files of each rank, as lists: by rank the first, by file the next. A world may be
 * said to be of millions, so ranks go by their place among those that files are of. */
struct ranks {
	uint32_t *list; /* ascending */
	size_t count;
	uint32_t *place_of; /* by file: that of its rank in the list; after those of all
			       files that of the rank in its name */
	uint32_t *first, *next;
	uint32_t *twin;    /* by file: the first one of its rank, plus one */
	bool *is_reported; /* by place: a finding reports the file in its place */
	uint32_t world_size;
};

/* The ranks of files, and those in their names. */
static void list_ranks(
	const struct fsdp_model *model, struct ranks *ranks, struct fsdp_arena *scratch)
{
	size_t count = model->files.count, room = 2 * count + 1;
	uint64_t *keys = FSDP_TAKE(scratch, keys, room);
	ranks->list = FSDP_TAKE(scratch, ranks->list, room);
	ranks->place_of = FSDP_TAKE(scratch, ranks->place_of, room);
	ranks->first = FSDP_TAKE(scratch, ranks->first, room);
	ranks->is_reported = FSDP_TAKE(scratch, ranks->is_reported, room);
	ranks->next = FSDP_TAKE(scratch, ranks->next, count + 1);
	ranks->twin = FSDP_TAKE(scratch, ranks->twin, count + 1);
	FSDP_EACH(i, count, file, fsdp_model_file(model, i)) {
		keys[2 * i] = (uint64_t)file->rank << 32 | i;
		keys[2 * i + 1] = (uint64_t)file->named_rank << 32 | (count + i);
	}
	FSDP_SORT(keys, 2 * count, FSDP_BY_VALUE(keys));
	for (size_t i = 0; i < 2 * count; i++) {
		uint32_t rank = (uint32_t)(keys[i] >> 32);
		if (ranks->count == 0 || ranks->list[ranks->count - 1] != rank)
			ranks->list[ranks->count++] = rank;
		ranks->place_of[(uint32_t)keys[i]] = (uint32_t)ranks->count - 1;
	}
}

/* The number of another file of the rank, plus one; 0: none. */
static uint32_t find_double(const struct fsdp_model *model, const struct ranks *ranks,
	const struct fsdp_file_record *file, uint32_t place)
{
	uint32_t other = ranks->first[place];
	for (size_t i = 0; other != 0 && i < KINDS_MAX; i++) {
		const struct fsdp_file_record *a = fsdp_model_file(model, other - 1);
		struct numbered_name left, right;
		if (match_pattern(a->path, &left) && match_pattern(file->path, &right)
				? same_pattern(&left, &right)
				: fsdp_span_equal(a->path, file->path))
			return other;
		other = ranks->next[other - 1];
	}
	return 0;
}

/* Names of the tensors that a file holds, as many as a finding keeps. */
static const struct fsdp_span *names_of_file(const struct fsdp_model *model,
	uint32_t index, size_t *ret_count, struct fsdp_arena *scratch)
{
	uint32_t begin = fsdp_model_file(model, index)->first_tensor;
	size_t end = index + 1 < model->files.count
			     ? fsdp_model_file(model, index + 1)->first_tensor
			     : model->tensors.count;
	size_t kept = fsdp_min(end - begin, FSDP_AFFECTED_KEPT);
	struct fsdp_span *names = FSDP_TAKE(scratch, names, kept + 1);
	for (uint32_t i = 0; i < kept; i++)
		names[i] = fsdp_model_name(
			model, fsdp_model_tensor(model, begin + i)->name, scratch);
	*ret_count = end - begin;
	return names;
}

/* A second file of a rank. If it has the name of a rank that is missing, the parts of
 * that one are lost. */
static void report_double(struct fsdp_model *model, struct ranks *ranks, uint32_t index,
	struct fsdp_arena *scratch)
{
	const struct fsdp_file_record *file = fsdp_model_file(model, index);
	struct fsdp_span other = fsdp_model_file(model, ranks->twin[index] - 1)->path;
	uint32_t place = ranks->place_of[model->files.count + index];
	bool is_instead =
		file->named_rank < ranks->world_size && ranks->first[place] == 0;
	size_t count;
	char fix[FSDP_FIX_ROOM];
	if (!is_instead) {
		fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
			FSDP_PLACE(.file = file->path, .rank = file->rank),
			"skipped: another file has the same rank %u (%.*s)", file->rank,
			FSDP_TEXT_MOST(other, 256));
		return;
	}
	const struct fsdp_span *names = names_of_file(model, index, &count, scratch);
	ranks->is_reported[place] = true;
	fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
		FSDP_PLACE(.file = file->path, .rank = file->rank, .affected = names,
			.affected_count = count,
			.fix = fsdp_fix_of_rank(fix, file->named_rank)),
		"contains the data of rank %u, as %.*s does; the data of rank %u is missing",
		file->rank, FSDP_TEXT_MOST(other, 256), file->named_rank);
}

static void check_file(struct fsdp_model *model, struct ranks *ranks, uint32_t index)
{
	struct fsdp_file_record *file = fsdp_model_file(model, index);
	uint32_t named = named_world_size(file->path);
	char fix[FSDP_FIX_ROOM];
	if (file->rank == FSDP_NONE || file->left_out)
		return;
	if (named != FSDP_NONE && file->world_whole && named != file->world_size)
		fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
			FSDP_PLACE(.file = file->path, .rank = file->rank),
			"the file belongs to a save by %u rank%s, but its name has %u",
			file->world_size, file->world_size == 1 ? "" : "s", named);
	if (file->rank >= ranks->world_size) {
		fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
			FSDP_PLACE(.file = file->path, .rank = file->rank),
			"the file belongs to rank %u, but the world size is %u",
			file->rank, ranks->world_size);
		return;
	}
	uint32_t place = ranks->place_of[index];
	ranks->twin[index] = find_double(model, ranks, file, place);
	file->left_out = ranks->twin[index] != 0;
	if (file->left_out)
		return;
	if (file->named_rank != FSDP_NONE && file->named_rank != file->rank)
		fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
			FSDP_PLACE(.file = file->path, .rank = file->rank,
				.fix = fsdp_fix_of_rank(fix, file->named_rank)),
			"contains the data of rank %u instead of rank %u", file->rank,
			file->named_rank);
	ranks->next[index] = ranks->first[place];
	ranks->first[place] = index + 1;
}

/* A finding may already report a rank without a file. */
static void check_missing(struct fsdp_model *model, const struct ranks *ranks,
	uint32_t *scratch, bool named)
{
	struct fsdp_ranks_here here = { .list = scratch,
		.world_size = ranks->world_size,
		.named = named,
		.what = "file" };
	for (size_t i = 0; i < ranks->count; i++) {
		const struct fsdp_file_record *file =
			ranks->first[i] != 0 ? fsdp_model_file(model, ranks->first[i] - 1)
					     : NULL;
		if (file != NULL || ranks->is_reported[i])
			here.list[here.count++] = ranks->list[i];
		if (file != NULL && file->named_rank == file->rank) {
			here.example = file->path;
			here.example_rank = file->rank;
		}
	}
	fsdp_find_missing_ranks(&model->findings, &here, FSDP_PLACE(.file = { 0 }));
}

/* Files that differ in a number and say nothing of ranks may be anything. */
static void check_evidence(struct fsdp_reading *reading)
{
	const struct fsdp_child *first = fsdp_vec_at(&reading->children, 0);
	struct fsdp_error *error = NULL;
	if (reading->ranks_recorded != 0 || names_a_rank(first->name))
		return;
	fsdp_fail(&error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"it is not recorded that these %zu files are ranks of one save",
		reading->children.count);
	fsdp_error_add_hint(&error, "give one of them");
	fsdp_model_leave(reading->model, error);
}

/* Ranks in the names, for files without one. */
static uint32_t guess_world_size(const struct fsdp_reading *reading)
{
	uint32_t size = (uint32_t)reading->children.count, highest = 0;
	FSDP_ITEMS(const struct fsdp_child, child, &reading->children) {
		uint32_t named = named_world_size(child->name);
		if (named != FSDP_NONE)
			return named;
		if (child->rank == FSDP_NONE)
			return size;
		if (child->rank > highest)
			highest = child->rank;
	}
	/* Numbers far apart are not ranks. */
	return highest >= size && highest < NAMED_MAX ? highest + 1 : size;
}

static void finish(struct fsdp_reading *reading)
{
	struct fsdp_model *model = reading->model;
	const struct fsdp_child *first = fsdp_vec_at(&reading->children, 0);
	/* One file with its plan. */
	if (reading->children.count == 1 && reading->ranks_recorded == 0 &&
		!names_a_rank(first->name))
		return;
	check_evidence(reading);
	/* Relatives of FSDP contain their kind. */
	if (model->format.family == NULL ||
		strcmp(model->format.family, "torch-zip") == 0 ||
		strcmp(model->format.family, "torch-legacy") == 0 ||
		model->format.title == NULL) {
		model->format.family = fsdp_family_rank_set.name;
		model->format.title = fsdp_family_rank_set.title;
	}
	resolve_world(model);
	/* Files contain their rank in sharded tensors. */
	model->are_unproven = reading->ranks_recorded == 0;
	model->is_split |= model->are_unproven && names_a_slice(first->name);
	if (model->world_size == FSDP_NONE)
		model->world_size = guess_world_size(reading);
	model->is_unstated &= named_world_size(first->name) == FSDP_NONE;
	struct ranks ranks = { .world_size = model->world_size };
	uint32_t *here =
		FSDP_TAKE(reading->scratch, here, 2 * (size_t)model->files.count + 1);
	list_ranks(model, &ranks, reading->scratch);
	for (uint32_t i = 0; i < model->files.count; i++)
		check_file(model, &ranks, i);
	for (uint32_t i = 0; i < model->files.count; i++)
		if (ranks.twin[i] != 0)
			report_double(model, &ranks, i, reading->scratch);
	check_missing(model, &ranks, here, reading->named);
}

const struct fsdp_family fsdp_family_rank_set = {
	.name = "rank-set",
	.title = "PyTorch rank files (one torch.save per rank)",
	.recognize = recognize,
	.read = read,
	.finish = finish,
};

/* ---- slices of tensor parallelism ---- */

/*
 * Directories where every rank of tensor parallelism has its own slices under the same
 * names, without their dimensions: each is listed as its rank's own.
 *
 *	vLLM, sglang   model-rank-R-part-P.safetensors  config.json
 *	Meta           consolidated.RR.pth              params.json
 *
 * Weights of vLLM are fused (qkv_proj, gate_up_proj) and norms are whole on each rank; a
 * rank's parts are a split of its names. Of each the names of all ranks are the same.
 * Files of the last ranks leave no gap: two matrices of a rank, which the configuration
 * has whole, are cut over as many ranks as there were.
 *
 * Origin: vllm/model_executor/model_loader/sharded_state_loader.py, llama/generation.py;
 * a file of either.
 */

enum { SLICES_MAX = 65536, PARAMS_BYTES = 1 << 20, NO_NUMBER = -1 };

static const struct slice_layout {
	const char *pattern, *beside; /* of its files; what else is there, or NULL */
	int rank, part;               /* which of the numbers; NO_NUMBER: none */
	const char *family, *title, *writer;
} slice_layouts[] = {
	{ "model-rank-#-part-#.safetensors", NULL, 0, 1, "vllm-sharded-state",
		"vLLM sharded state", "vLLM" },
	{ "consolidated.#.pth", "params.json", 0, NO_NUMBER, "meta-consolidated",
		"Meta checkpoint (consolidated)", "Meta" },
};

enum model_size { WIDTH, HEADS, HEAD, INNER, SIZES };

static const struct {
	const char *key;
	enum model_size size;
} size_keys[] = {
	{ "dim", WIDTH },
	{ "hidden_size", WIDTH },
	{ "n_heads", HEADS },
	{ "num_attention_heads", HEADS },
	{ "head_dim", HEAD },
	{ "intermediate_size", INNER },
};

/* Matrices that ranks cut along `cut`; the other side is as wide as the model. */
static const struct {
	const char *name;
	int cut;
	bool is_inner; /* cut is INNER, else all heads */
} cut_matrices[] = {
	{ ".attention.wq.weight", 0, false },
	{ ".attention.wo.weight", 1, false },
	{ ".self_attn.o_proj.weight", 1, false },
	{ ".mlp.down_proj.weight", 1, true },
};

struct slice_rank {
	uint32_t files, highest; /* parts, and the highest number of one, plus 1 */
	uint32_t tensors;
};

struct rank_slices {
	const struct slice_layout *layout;
	const struct fsdp_folder *folder;
	struct slice_rank *ranks;
	uint32_t count; /* of them */
	size_t first_tensor;
	int64_t sizes[SIZES]; /* 0: absent */
};

static const struct slice_layout *find_layout(const struct fsdp_folder *folder)
{
	for (size_t i = 0; folder != NULL && i < FSDP_COUNT(slice_layouts); i++)
		if (fsdp_pattern_in(folder, FSDP_ENTRY_FILE, slice_layouts[i].pattern) &&
			(slice_layouts[i].beside == NULL ||
				fsdp_folder_has(folder, slice_layouts[i].beside,
					FSDP_ENTRY_FILE)))
			return &slice_layouts[i];
	return NULL;
}

static enum fsdp_sign recognize_slices(const struct fsdp_look *look)
{
	return find_layout(look->folder) != NULL ? FSDP_SIGN_SURE : FSDP_SIGN_NONE;
}

/* ---- naming the files ---- */

static bool takes(const struct rank_slices *slices, size_t index,
	struct fsdp_entry *ret_entry, uint32_t *numbers)
{
	*ret_entry = fsdp_folder_entry(slices->folder, index);
	return ret_entry->kind == FSDP_ENTRY_FILE &&
	       fsdp_pattern_takes(ret_entry->name, slices->layout->pattern, numbers);
}

static bool read_slices(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct rank_slices *slices = FSDP_TAKE(reading->scratch, slices, 1);
	slices->layout = find_layout(look->folder);
	slices->folder = look->folder;
	slices->first_tensor = reading->model->tensors.count;
	reading->state = slices;
	reading->model->is_set = true;
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	struct fsdp_entry entry;
	for (size_t i = 0; i < slices->folder->count; i++) {
		if (!takes(slices, i, &entry, numbers))
			continue;
		if (numbers[slices->layout->rank] >= SLICES_MAX)
			return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"the name of a file has rank %u, which is above the limit",
				numbers[slices->layout->rank]);
		if (numbers[slices->layout->rank] >= slices->count)
			slices->count = numbers[slices->layout->rank] + 1;
	}
	slices->ranks = FSDP_TAKE(reading->scratch, slices->ranks, slices->count + 1);
	for (size_t i = 0; i < slices->folder->count; i++) {
		if (!takes(slices, i, &entry, numbers))
			continue;
		struct slice_rank *rank = &slices->ranks[numbers[slices->layout->rank]];
		uint32_t part = slices->layout->part != NO_NUMBER
					? numbers[slices->layout->part]
					: 0;
		rank->files++;
		if (part >= rank->highest)
			rank->highest = part + 1;
		fsdp_reading_add_child(
			reading, entry.name, numbers[slices->layout->rank]);
	}
	fsdp_reading_order_children(reading, 0);
	return true;
}

/* ---- checks ---- */

static void keep_size(struct rank_slices *slices, struct fsdp_span key, int64_t value)
{
	for (size_t i = 0; i < FSDP_COUNT(size_keys); i++)
		if (fsdp_span_is(key, size_keys[i].key) && value > 0 && value < INT32_MAX)
			slices->sizes[size_keys[i].size] = value;
}

/* Both matrices of a rank have to say the same. */
static void check_last_ranks(struct fsdp_reading *reading, struct rank_slices *slices)
{
	struct fsdp_model *model = reading->model;
	uint64_t ranks_of[FSDP_COUNT(cut_matrices)] = { 0 }, ranks = 0;
	unsigned agreed = 0;
	for (size_t i = slices->first_tensor; i < model->tensors.count && agreed < 2;
		i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->dims != 2)
			continue;
		struct fsdp_span name =
			fsdp_model_name(model, tensor->raw_name, reading->scratch);
		for (size_t k = 0; k < FSDP_COUNT(cut_matrices); k++) {
			if (ranks_of[k] != 0 ||
				!fsdp_span_ends(
					name, fsdp_span_text(cut_matrices[k].name)))
				continue;
			/* Over how many ranks a matrix is cut; 0: it is none of them, or
			 * its sides are others. */
			const int64_t *sizes = slices->sizes;
			const int64_t *shape = fsdp_model_ints(model, tensor->shape);
			int64_t heads = sizes[HEAD] != 0 ? sizes[HEADS] * sizes[HEAD]
							 : sizes[WIDTH];
			int64_t whole = cut_matrices[k].is_inner ? sizes[INNER] : heads;
			int cut = cut_matrices[k].cut;
			ranks_of[k] = tensor->dims == 2 && shape != NULL &&
						      shape[!cut] == sizes[WIDTH] &&
						      shape[cut] > 0 &&
						      whole % shape[cut] == 0
					      ? (uint64_t)(whole / shape[cut])
					      : 0;
			if (ranks_of[k] == 0 || (agreed != 0 && ranks_of[k] != ranks))
				return;
			ranks = ranks_of[k];
			agreed++;
		}
	}
	if (agreed < 2 || ranks <= slices->count)
		return;
	model->world_size = (uint32_t)ranks;
	if (!reading->named)
		fsdp_find(&model->findings, FSDP_RULE_RANK_MISSING,
			FSDP_PLACE(.rank = slices->count),
			ranks == slices->count + 1
				? "file of rank %u is missing: config.json expects matrices %llu times as large"
				: "files of rank %u and later ranks are missing: config.json expects matrices %llu times as large",
			slices->count, FSDP_LLU(ranks));
}

static void read_params(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	static const char name[] = "params.json";
	struct fsdp_source source;
	struct fsdp_span bytes;
	struct fsdp_error *error = NULL;
	const struct fsdp_json *root = NULL;
	char text[128];
	if (!fsdp_folder_has(folder, name, FSDP_ENTRY_FILE))
		return;
	if (!fsdp_folder_source(folder, FSDP_SPAN("params.json"), &source, &error) ||
		source.size > PARAMS_BYTES ||
		!fsdp_source_read_all(
			&source, 0, source.size, reading->scratch, &bytes, &error) ||
		!fsdp_json_read(bytes, reading->limits, reading->scratch, &root, &error))
		root = NULL;
	fsdp_error_free(error);
	if (root == NULL)
		fsdp_find(&reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.file = fsdp_span_text(name)),
			"the sizes of the model cannot be read");
	for (uint32_t i = 0; fsdp_json_is(root, FSDP_JSON_OBJECT) && i < root->count;
		i++) {
		const struct fsdp_json *item = &root->items[i];
		if (item->kind != FSDP_JSON_INTEGER || item->key.size > 64)
			continue;
		keep_size(reading->state, item->key, item->integer);
		int size =
			snprintf(text, sizeof text, "params.%.*s", FSDP_TEXT(item->key));
		struct fsdp_span key =
			fsdp_build_span(reading->model, fsdp_span(text, (size_t)size));
		fsdp_build_integer(reading->model, key, FSDP_NONE, item->integer);
	}
}

static void finish_slices(struct fsdp_reading *reading)
{
	struct rank_slices *slices = reading->state;
	struct fsdp_model *model = reading->model;
	for (size_t i = slices->first_tensor; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->flags & FSDP_TENSOR_COMPONENT)
			continue;
		tensor->flags |= FSDP_TENSOR_RANKS_OWN;
		if (tensor->piece_count == 0)
			continue;
		uint32_t rank = fsdp_model_piece(model, tensor->first_piece)->rank;
		if (rank < slices->count)
			slices->ranks[rank].tensors++;
	}
	uint32_t most = 0;
	for (uint32_t i = 0; i < slices->count; i++)
		if (slices->ranks[i].tensors > most)
			most = slices->ranks[i].tensors;
	for (uint32_t i = 0; i < slices->count && !reading->named; i++) {
		/* The last part of a rank leaves no gap in the numbers, but its names are
		 * gone. */
		struct fsdp_findings *findings = &reading->model->findings;
		const struct slice_rank *rank = &slices->ranks[i];
		if (rank->files == 0)
			fsdp_find(findings, FSDP_RULE_RANK_MISSING, FSDP_PLACE(.rank = i),
				"file of rank %u is missing (world size is at least %u)",
				i, slices->count);
		else if (rank->files < rank->highest || rank->tensors < most)
			fsdp_find(findings, FSDP_RULE_RANK_MISSING, FSDP_PLACE(.rank = i),
				"rank %u has %u tensors in %u files, another rank has %u tensors: a part of it is missing",
				i, rank->tensors, rank->files, most);
	}
	model->world_size = slices->count;
	model->is_split = true;
	fsdp_hf_config(reading, slices->folder);
	read_params(reading, slices->folder);
	/* Of the members of config.json. */
	uint32_t end = model->settings.count != 0 ? fsdp_model_setting(model, 0)->end : 0;
	for (uint32_t i = 1; i < end; i = fsdp_model_setting(model, i)->end) {
		const struct fsdp_setting *setting = fsdp_model_setting(model, i);
		if (setting->value.kind == FSDP_TOKEN_INTEGER)
			keep_size(slices, setting->key, setting->value.integer);
	}
	check_last_ranks(reading, slices);
	model->format = (struct fsdp_format){
		.family = slices->layout->family,
		.title = slices->layout->title,
		.writer = slices->layout->writer,
	};
	fsdp_reading_note(reading,
		"each rank has its own slices and their layout is not recorded: listed separately");
}

const struct fsdp_family fsdp_family_slices = {
	.name = "slices",
	.title = "slices of tensor-parallel ranks",
	.recognize = recognize_slices,
	.read = read_slices,
	.finish = finish_slices,
};
