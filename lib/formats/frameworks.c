/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of training frameworks with checkpoints of other families: the file or
 * directory of the model, of the optimizer, of loose values. Adds these as children by
 * their names and does not read them.
 *
 *	Lightning, Fabric   .metadata __R_N.distcp   the state: model or, of ModelParallel-
 *	                                             Strategy, state_dict; optimizer, …
 *	                    meta.pt                  values outside of modules
 *	Megatron-core       .metadata __R_N.distcp, metadata.json (written last)
 *	                    common.pt                values that all ranks share
 *	Accelerate          pytorch_model_fsdp[_I].bin  pytorch_model_fsdp_I/
 *	                    pytorch_model_fsdp[_I]_rankR.bin  optimizer[_I].bin
 *	                    optimizer_I/  optimizer_I_rankR.bin
 *	                    (before 0.25 pytorch_model… instead of pytorch_model_fsdp…)
 *	                    random_states_R.pkl (one a rank)  scheduler[_I].bin
 *	                    sampler[_I].bin  dl_state_dict[_I].bin  scaler.pt
 *	                    custom_checkpoint_I.pkl
 *	NeMo 2              weights/                 one of Megatron-core
 *	                    context/                 how the model was configured
 *	                    ../NAME-unfinished       while the directory NAME is written
 *	others              .metadata __R_N.distcp   lr_scheduler.pt or scheduler.pt
 *	                    config.json model…       optimizer_state_dict.pt
 *	verl                global_step_N/[actor|critic/]
 *	                    {model,optim,extra_state}_world_size_W_rank_R.pt
 *	                    fsdp_config.json         {"world_size": W, …}
 *
 * Of several models or optimizers (I beyond 0) names may be the same: those of the later
 * ones are put below a name with their number.
 *
 * Accelerate's LOCAL files have of a parameter only the elements of a rank. Its shape is
 * that of its moments in the optimizer, which are complete.
 *
 * Origin: lightning/fabric/strategies/fsdp.py (2.6), megatron/core/dist_checkpointing
 * (0.16), accelerate/utils/fsdp_utils.py (1.15), verl/utils/checkpoint.
 */
#include "base/num.h"
#include "base/sort.h"
#include "formats/format.h"
#include "syntax/json-tree.h"

#include <stdio.h>

/* ---- Megatron-core ---- */

/*
 * Files that Megatron-core writes in addition to DCP, and the files that they list.
 *
 *	metadata.json   written last: {"sharded_backend": …, "common_backend": …}
 *	common.pt       values that all ranks share, if there is a common_backend
 *	integrity.json  {"algorithm": "sha256", "files": {name: digest}}
 *
 * Origin: megatron/core/dist_checkpointing (0.16, 0.19).
 */

#define COMMIT "metadata.json"
#define COMMON "common.pt"
#define INTEGRITY "integrity.json"

/* NULL: it is not there, or no document, which is reported. */
static const struct fsdp_json *read_document(
	struct fsdp_reading *reading, const struct fsdp_folder *folder, const char *name)
{
	fsdp_auto_error *error = NULL;
	const struct fsdp_json *root =
		fsdp_reading_document(reading, folder, name, &error);
	if (root == NULL && fsdp_folder_has(folder, name, FSDP_ENTRY_FILE))
		fsdp_find(&reading->model->findings,
			error == NULL || fsdp_error_code(error) == FSDP_ERROR_DAMAGED
				? FSDP_RULE_TRUNCATED_FILE
				: FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = fsdp_span_text(name)),
			"this is not a complete JSON document: %s",
			error != NULL ? fsdp_error_message(error) : "it is too large");
	return root;
}

/* Checks the files that Megatron-core writes in addition to DCP: whether the listed ones
 * exist. */
static void check_megatron(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	const struct fsdp_json *commit = read_document(reading, folder, COMMIT);
	if (!fsdp_folder_has(folder, COMMIT, FSDP_ENTRY_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_UNCOMMITTED_SAVE,
			FSDP_PLACE(.file = { 0 }),
			COMMIT
			" is missing (Megatron writes it last): the save did not finish, or a copy skipped it");
	if (fsdp_json_get(commit, "common_backend") != NULL &&
		!fsdp_folder_has(folder, COMMON, FSDP_ENTRY_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = FSDP_SPAN(COMMON)),
			COMMIT " requires this file (values shared by all ranks)");
	const struct fsdp_json *files =
		fsdp_json_get(read_document(reading, folder, INTEGRITY), "files");
	char room[FSDP_SHOWN];
	for (uint32_t i = 0; fsdp_json_is(files, FSDP_JSON_OBJECT) && i < files->count;
		i++) {
		struct fsdp_span name = files->items[i].key;
		struct fsdp_entry entry;
		if (fsdp_name_is_safe(name) && fsdp_folder_find(folder, name, &entry))
			continue;
		fsdp_find(&reading->model->findings, FSDP_RULE_MEGATRON_OBJECTS,
			FSDP_PLACE(.file = FSDP_SPAN(INTEGRITY)),
			"it lists %s, which does not exist", fsdp_shown(name, room));
	}
}

/* Parameters with longer names are skipped. */
enum { NAME_BYTES = 4096 };

/* "KEY/shard_0.1_2.4…": one of 2 * 4 objects of KEY. */
struct object_shard {
	struct fsdp_span key, place, sizes;
	uint64_t due;
};

/* So many numbers at most, with dots between them; answers how many, and cuts the text
 * there. */
static size_t read_place(struct fsdp_span *text, size_t most, uint64_t *ret_product)
{
	struct fsdp_span rest = *text;
	uint64_t number;
	size_t count = 0;
	*ret_product = 1;
	do {
		if (!fsdp_span_number(&rest, UINT64_C(1) << 59, &number))
			break;
		if (!fsdp_mul(*ret_product, number, ret_product))
			*ret_product = 0;
		count++;
	} while (count < most && rest.size > 1 && fsdp_span_behind(rest, ".", &rest));
	text->size -= rest.size;
	return count;
}

static bool read_shard(struct fsdp_span name, struct object_shard *ret)
{
	static const char WORD[] = "/shard_";
	const unsigned char *word = memmem(name.data, name.size, WORD, sizeof WORD - 1);
	uint64_t product;
	size_t at, count;
	if (word == NULL)
		return false;
	at = (size_t)(word - name.data) + sizeof WORD - 1;
	ret->key = fsdp_span(name.data, (size_t)(word - name.data));
	ret->place = fsdp_span(name.data + at, name.size - at);
	count = read_place(&ret->place, SIZE_MAX, &product);
	at += ret->place.size;
	if (count == 0 || at + 1 >= name.size || name.data[at] != '_')
		return false;
	ret->sizes = fsdp_span(name.data + at + 1, name.size - at - 1);
	/* Older releases omit the last size. */
	return read_place(&ret->sizes, count, &ret->due) == count && ret->due > 1;
}

static void add_shard(
	struct fsdp_reading *reading, struct fsdp_vec *shards, uint32_t name)
{
	struct fsdp_model *model = reading->model;
	char text[NAME_BYTES];
	size_t size = fsdp_names_write(&model->names, name, text, sizeof text);
	if (size > sizeof text || memmem(text, size, "/shard_", 7) == NULL)
		return;
	struct fsdp_span copy = fsdp_arena_copy(model->arena, fsdp_span(text, size));
	struct object_shard *shard = fsdp_vec_push(shards);
	if (!read_shard(copy, shard))
		shards->count--;
}

/* Each object that ranks or layers have one of is stored once for each. */
static void check_shards(struct fsdp_reading *reading)
{
	struct fsdp_model *model = reading->model;
	char key[FSDP_SHOWN], place[FSDP_SHOWN];
	struct object_shard *list;
	struct fsdp_vec shards;
	fsdp_vec_init(&shards, model->arena, sizeof *list);
	for (size_t i = 0; i < model->values.count; i++)
		add_shard(reading, &shards, fsdp_model_value(model, i)->raw_name);
	for (size_t i = 0; i < model->tensors.count; i++)
		add_shard(reading, &shards, fsdp_model_tensor(model, i)->raw_name);
	list = FSDP_TAKE(model->arena, list, shards.count + 1);
	for (size_t i = 0; i < shards.count; i++)
		list[i] = *(struct object_shard *)fsdp_vec_at(&shards, i);
	FSDP_SORT(list, shards.count, FSDP_BY(list, key), FSDP_BY(list, sizes),
		FSDP_BY(list, place));
	for (size_t first = 0, end; first < shards.count; first = end) {
		size_t found = 1;
		for (end = first + 1; end < shards.count &&
				      fsdp_span_equal(list[end].key, list[first].key) &&
				      fsdp_span_equal(list[end].sizes, list[first].sizes);
			end++)
			found += !fsdp_span_equal(list[end].place, list[end - 1].place);
		if (found < list[first].due)
			fsdp_find(&model->findings, FSDP_RULE_MEGATRON_OBJECTS,
				FSDP_PLACE(.file = { 0 }),
				"of the object %s %zu of %llu parts are stored: the first one is shard_%s",
				fsdp_shown(list[first].key, key), found,
				(unsigned long long)list[first].due,
				fsdp_shown(list[first].place, place));
	}
}

/* ---- frameworks ---- */

/* Families of the directory itself; frameworks add some files to it. */
#define INNER "dcp"
#define MODEL "hf-safetensors"

struct layout {
	const char *name, *title, *writer;
	bool (*matches)(const struct fsdp_folder *folder);
	void (*name_children)(
		struct fsdp_reading *reading, const struct fsdp_folder *folder);
	/* Number in the names; 0: none, NULL: never in the names. */
	uint32_t (*count_ranks)(
		struct fsdp_reading *reading, const struct fsdp_folder *folder);
	/* After they were read; may be NULL. */
	void (*finish)(struct fsdp_reading *reading);
	bool is_split; /* tensors are sharded over ranks, but no module was wrapped */
	bool has_step; /* only the name of its directory contains it */
	bool is_nemo;  /* NeMo writes it too */
};

struct state {
	const struct layout *layout; /* NULL: a directory that only leads to another */
	uint32_t world_size;         /* 0: from the parts */
	/* From the name of a directory: verl writes it nowhere else. */
	uint32_t step;
	bool is_nemo;
	const char *marker; /* of NeMo, that the save did not finish; or NULL */
};

/* ---- Lightning and Megatron: DCP and further files ---- */

static void name_with(struct fsdp_reading *reading, const char *beside, const char *strip)
{
	struct fsdp_child *child =
		fsdp_reading_add_child(reading, (struct fsdp_span){ 0 }, FSDP_NONE);
	child->as = INNER;
	child->strip = fsdp_span_text(strip);
	if (beside == NULL)
		return;
	child = fsdp_reading_add_child(reading, fsdp_span_text(beside), FSDP_NONE);
	child->role = FSDP_ROLE_OTHER;
}

static bool is_lightning(const struct fsdp_folder *folder)
{
	return fsdp_folder_has(folder, ".metadata", FSDP_ENTRY_FILE) &&
	       fsdp_folder_has(folder, "meta.pt", FSDP_ENTRY_FILE);
}

static void name_lightning(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	(void)folder;
	name_with(reading, "meta.pt", "model");
}

/* ---- further files of custom training loops ---- */

static const struct {
	const char *inner, *marker; /* the family of the directory; a file that it has */
	const char *beside, *below;
	int role;
} besides[] = {
	{ INNER, ".metadata", "lr_scheduler.pt", "lr_scheduler", FSDP_ROLE_OTHER },
	{ INNER, ".metadata", "scheduler.pt", "scheduler", FSDP_ROLE_OTHER },
	{ MODEL, "config.json", "optimizer_state_dict.pt", "", FSDP_ROLE_OPTIM },
	{ MODEL, "config.json", "lr_scheduler.pt", "lr_scheduler", FSDP_ROLE_OTHER },
	{ MODEL, "config.json", "distrib_optim.pt", "distrib_optim", FSDP_ROLE_OPTIM },
};

static bool has_beside(const struct fsdp_folder *folder, const char *inner)
{
	for (size_t i = 0; i < FSDP_COUNT(besides); i++)
		if (strcmp(besides[i].inner, inner) == 0 &&
			fsdp_folder_has(folder, besides[i].marker, FSDP_ENTRY_FILE) &&
			fsdp_folder_has(folder, besides[i].beside, FSDP_ENTRY_FILE))
			return true;
	return false;
}

static bool has_scheduler(const struct fsdp_folder *folder)
{
	return has_beside(folder, INNER) &&
	       fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "__#_#.distcp");
}

static bool has_optimizer(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	return has_beside(folder, MODEL) &&
	       fsdp_family_hugging_face.recognize(&look) != FSDP_SIGN_NONE;
}

static void name_besides(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	const char *inner = has_scheduler(folder) ? INNER : MODEL;
	struct fsdp_child *child =
		fsdp_reading_add_child(reading, (struct fsdp_span){ 0 }, FSDP_NONE);
	child->as = inner;
	for (size_t i = 0; i < FSDP_COUNT(besides); i++) {
		if (strcmp(besides[i].inner, inner) != 0 ||
			!fsdp_folder_has(folder, besides[i].beside, FSDP_ENTRY_FILE))
			continue;
		child = fsdp_reading_add_child(
			reading, fsdp_span_text(besides[i].beside), FSDP_NONE);
		child->role = besides[i].role;
		child->below = fsdp_span_text(besides[i].below);
	}
}

/* No module that was stripped of `model` can be called so. */
static void strip_state_dict(struct fsdp_reading *reading)
{
	fsdp_build_place(reading->model, 0, 0,
		&(struct fsdp_build_place){
			.strip = FSDP_SPAN("state_dict"), .role = -1 });
}

enum { COMMIT_BYTES = 4096 };

/* Other programs have a file of this name, too. One that is damaged may be Megatron's. */
static bool has_commit(const struct fsdp_folder *folder)
{
	fsdp_auto_error *error = NULL;
	struct fsdp_source source;
	char text[COMMIT_BYTES];
	size_t size;
	if (!fsdp_folder_has(folder, COMMIT, FSDP_ENTRY_FILE))
		return false;
	if (!fsdp_folder_source(folder, FSDP_SPAN(COMMIT), &source, &error) ||
		!fsdp_source_read(&source, 0, text,
			size = fsdp_min(source.size, sizeof text), &error))
		return true;
	if (memmem(text, size, "\"sharded_backend\"", 17) != NULL)
		return true;
	while (size > 0 && (unsigned char)text[size - 1] <= ' ')
		size--;
	return source.size <= sizeof text && (size == 0 || text[size - 1] != '}');
}

static bool is_megatron(const struct fsdp_folder *folder)
{
	return fsdp_folder_has(folder, ".metadata", FSDP_ENTRY_FILE) &&
	       fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "__#_#.distcp") &&
	       (fsdp_folder_has(folder, COMMON, FSDP_ENTRY_FILE) || has_commit(folder));
}

static void name_megatron(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	check_megatron(reading, folder);
	name_with(reading,
		fsdp_folder_has(folder, "common.pt", FSDP_ENTRY_FILE) ? "common.pt"
								      : NULL,
		"");
}

/* ---- Accelerate ---- */

static const struct fsdp_named_part accelerate_parts[] = {
	{ "pytorch_model_fsdp_#", FSDP_ENTRY_DIRECTORY, "model", "model", -1, 1 },
	{ "pytorch_model_fsdp.bin", FSDP_ENTRY_FILE, "", "model", -1 },
	{ "pytorch_model_fsdp_#.bin", FSDP_ENTRY_FILE, "", "model", -1, 1 },
	{ "pytorch_model_fsdp_rank#.bin", FSDP_ENTRY_FILE, "", "model", -1, .rank = 1 },
	{ "pytorch_model_fsdp_#_rank#.bin", FSDP_ENTRY_FILE, "", "model", -1, 1, 2 },
	{ "pytorch_model_#", FSDP_ENTRY_DIRECTORY, "model", "model", -1, 1 },
	{ "pytorch_model.bin", FSDP_ENTRY_FILE, "", "model", -1 },
	{ "pytorch_model_#.bin", FSDP_ENTRY_FILE, "", "model", -1, 1 },
	{ "pytorch_model_rank#.bin", FSDP_ENTRY_FILE, "", "model", -1, .rank = 1 },
	{ "pytorch_model_#_rank#.bin", FSDP_ENTRY_FILE, "", "model", -1, 1, 2 },
	{ "model.safetensors", FSDP_ENTRY_FILE, "", "model", -1 },
	{ "model_#.safetensors", FSDP_ENTRY_FILE, "", "model", -1, 1 },
	{ "optimizer_#", FSDP_ENTRY_DIRECTORY, "optimizer", "optimizer", FSDP_ROLE_OPTIM,
		1 },
	{ "optimizer.bin", FSDP_ENTRY_FILE, "", "optimizer", FSDP_ROLE_OPTIM },
	{ "optimizer_#.bin", FSDP_ENTRY_FILE, "", "optimizer", FSDP_ROLE_OPTIM, 1 },
	{ "optimizer_#_rank#.bin", FSDP_ENTRY_FILE, "", "optimizer", FSDP_ROLE_OPTIM, 1,
		2 },
	{ "random_states_#.pkl", FSDP_ENTRY_FILE, "", "random_states", FSDP_ROLE_OTHER,
		.rank = 1 },
	{ "scheduler.bin", FSDP_ENTRY_FILE, "", "scheduler", FSDP_ROLE_OTHER },
	{ "scheduler_#.bin", FSDP_ENTRY_FILE, "", "scheduler", FSDP_ROLE_OTHER, 1 },
	{ "sampler.bin", FSDP_ENTRY_FILE, "", "sampler", FSDP_ROLE_OTHER },
	{ "sampler_#.bin", FSDP_ENTRY_FILE, "", "sampler", FSDP_ROLE_OTHER, 1 },
	{ "dl_state_dict.bin", FSDP_ENTRY_FILE, "", "dl_state_dict", FSDP_ROLE_OTHER },
	{ "dl_state_dict_#.bin", FSDP_ENTRY_FILE, "", "dl_state_dict", FSDP_ROLE_OTHER,
		1 },
	{ "scaler.pt", FSDP_ENTRY_FILE, "", "scaler", FSDP_ROLE_OTHER },
	{ "custom_checkpoint_#.pkl", FSDP_ENTRY_FILE, "", "custom_checkpoint",
		FSDP_ROLE_OTHER, 1 },
};

static bool has_model(const struct fsdp_folder *folder, const char *stem)
{
	FSDP_EACH(i, FSDP_COUNT(accelerate_parts), part, &accelerate_parts[i])
		if (part->role < 0 && strncmp(part->pattern, stem, strlen(stem)) == 0 &&
			fsdp_parts_are_in(folder, part, 1))
			return true;
	return false;
}

/* Whether all files are those of a state whose model is missing. */
static bool has_only_state(const struct fsdp_folder *folder)
{
	bool has_optimizer = false;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		bool is_part = fsdp_span_begins(entry.name, FSDP_SPAN("random_states_"));
		for (size_t k = 0; k < FSDP_COUNT(accelerate_parts) && !is_part; k++) {
			uint32_t numbers[FSDP_PATTERN_NUMBERS];
			is_part = fsdp_pattern_takes(
				entry.name, accelerate_parts[k].pattern, numbers);
			has_optimizer |=
				is_part && accelerate_parts[k].role == FSDP_ROLE_OPTIM;
		}
		if (!is_part)
			return false;
	}
	return has_optimizer;
}

/* With DeepSpeed below, Accelerate leaves the model to it. Its Trainer, which has its own
 * file for the schedule, writes optimizer.bin, too. */
static bool is_accelerate(const struct fsdp_folder *folder)
{
	bool has_parts =
		fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "random_states_#.pkl") ||
		(fsdp_folder_has(folder, "optimizer.bin", FSDP_ENTRY_FILE) &&
			fsdp_folder_has(folder, "scheduler.bin", FSDP_ENTRY_FILE));
	if (fsdp_folder_has(folder, "latest", FSDP_ENTRY_FILE) ||
		fsdp_folder_has(folder, "zero_to_fp32.py", FSDP_ENTRY_FILE))
		return false;
	return has_model(folder, "pytorch_model_fsdp") ||
	       (has_parts && (has_model(folder, "") || has_only_state(folder)));
}

static void name_accelerate(
	struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	fsdp_reading_add_parts(
		reading, folder, accelerate_parts, FSDP_COUNT(accelerate_parts));
}

/* Every rank writes its random states. */
static uint32_t count_accelerate(
	struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	(void)reading;
	uint32_t numbers[FSDP_PATTERN_NUMBERS], highest = 0;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (fsdp_pattern_takes(entry.name, "random_states_#.pkl", numbers) &&
			numbers[0] + 1 > highest)
			highest = numbers[0] + 1;
	return highest;
}

/* Of "[optimizer_<i>.]state.<fqn>.<state>" the parameter: "[model_<i>.]<fqn>". */
static bool parse_owner(struct fsdp_span name, char *text, size_t size)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	struct fsdp_span first = fsdp_span_first(name, '.');
	size_t at = 0;
	if (fsdp_pattern_takes(first, "optimizer_#", numbers)) {
		at = (size_t)snprintf(text, size, "model_%u.", numbers[0]);
		first.size += first.size != name.size;
		name = fsdp_span(name.data + first.size, name.size - first.size);
	}
	struct fsdp_span word = FSDP_SPAN("state.");
	const unsigned char *last = memrchr(name.data, '.', name.size);
	if (!fsdp_span_begins(name, word) || last < name.data + word.size)
		return false;
	size_t length = (size_t)(last - name.data) - word.size;
	if (at + length >= size)
		return false;
	memcpy(text + at, name.data + word.size, length);
	text[at + length] = '\0';
	return true;
}

/* The states of a parameter have its shape; if they do not, the number of
 * elements differs and the hint is not used. */
static void hint_shapes(struct fsdp_reading *reading)
{
	struct fsdp_model *model = reading->model;
	char text[NAME_BYTES];
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->role != FSDP_ROLE_OPTIM || tensor->dims == 0)
			continue;
		struct fsdp_span name =
			fsdp_model_name(model, tensor->name, reading->scratch);
		if (!parse_owner(name, text, sizeof text))
			continue;
		uint32_t owner = fsdp_names_find(&model->names, 0, fsdp_span_text(text));
		if (owner == FSDP_NONE)
			continue;
		struct fsdp_shape_hint *hint =
			fsdp_build_push(model, &model->shape_hints, NULL);
		*hint = (struct fsdp_shape_hint){
			.name = owner, .shape = tensor->shape, .dims = tensor->dims
		};
	}
}

static void finish_accelerate(struct fsdp_reading *reading)
{
	/* A schedule is one of an optimizer, which save_state writes before it. */
	bool scheduler = false, optimizer = reading->named, whole = false;
	FSDP_ITEMS(const struct fsdp_child, child, &reading->children) {
		optimizer |= child->role == FSDP_ROLE_OPTIM;
		scheduler |= fsdp_span_begins(child->name, FSDP_SPAN("scheduler"));
		whole |= fsdp_span_is(child->name, "pytorch_model_fsdp.bin") ||
			 fsdp_span_is(child->name, "model.safetensors");
	}
	if (scheduler && !optimizer)
		fsdp_find(&reading->model->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.file = fsdp_span_text(
					   whole ? "optimizer.bin" : "optimizer_0"),
				.severity = FSDP_ERROR + 1,
				.fix = "copy it from where the checkpoint was written, or resume from another checkpoint"),
			"the optimizer is missing, but the scheduler, which Accelerate writes later, is present: load_state fails");
	struct fsdp_model *model = reading->model;
	/* A scheduler of torch adds initial_lr to each group; a script may not save the
	 * scheduler. */
	for (uint32_t i = 0; i < model->values.count && optimizer && !scheduler; i++) {
		const struct fsdp_value_record *value = fsdp_model_value(model, i);
		scheduler = fsdp_span_is(
			fsdp_names_segment(&model->names, value->name), "initial_lr");
		if (scheduler)
			fsdp_find(&model->findings, FSDP_RULE_RESUME_PART,
				FSDP_PLACE(.file = FSDP_SPAN("scheduler.bin"),
					.severity = FSDP_WARNING + 1,
					.fix = "copy it from where the checkpoint was written, unless the script does not prepare its scheduler"),
				"the schedule of the optimizer is missing: load_state stops if the script prepares the scheduler");
	}
	/* How many steps were done the optimizer counts for each parameter. */
	for (uint32_t i = 0; i < model->tensors.count && model->counter == FSDP_NONE;
		i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->role == FSDP_ROLE_OPTIM && tensor->dims == 0 &&
			fsdp_span_is(
				fsdp_names_segment(&model->names, tensor->name), "step"))
			model->counter = i;
	}
	hint_shapes(reading);
}

/* ---- verl ---- */

static const struct fsdp_named_part verl_parts[] = {
	{ "model_world_size_#_rank_#.pt", FSDP_ENTRY_FILE, "", "", -1, .rank = 2 },
	{ "optim_world_size_#_rank_#.pt", FSDP_ENTRY_FILE, "", "", FSDP_ROLE_OPTIM,
		.rank = 2 },
	{ "extra_state_world_size_#_rank_#.pt", FSDP_ENTRY_FILE, "", "", FSDP_ROLE_OTHER,
		.rank = 2 },
};

static bool is_verl(const struct fsdp_folder *folder)
{
	return fsdp_pattern_in(folder, FSDP_ENTRY_FILE, verl_parts[0].pattern) &&
	       (fsdp_folder_has(folder, "fsdp_config.json", FSDP_ENTRY_FILE) ||
		       fsdp_pattern_in(folder, FSDP_ENTRY_FILE, verl_parts[1].pattern));
}

/* Of a world size: the files that have it in their names. */
struct world {
	uint32_t size;
	uint32_t models, files; /* of the model; of all three kinds */
	struct fsdp_span first;
};

/* If one directory has more saves, the rest counts as the last one. */
enum { WORLDS_MAX = 16 };

static uint32_t count_verl(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	struct world worlds[WORLDS_MAX];
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	size_t count = 0;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		size_t kind = 0, k = 0;
		while (kind < FSDP_COUNT(verl_parts) &&
			!fsdp_pattern_takes(
				entry.name, verl_parts[kind].pattern, numbers))
			kind++;
		if (entry.kind != FSDP_ENTRY_FILE || kind == FSDP_COUNT(verl_parts))
			continue;
		while (k < count && worlds[k].size != numbers[0])
			k++;
		if (k == WORLDS_MAX)
			k--;
		if (k == count)
			worlds[count++] = (struct world){ numbers[0], 0, 0, entry.name };
		worlds[k].files++;
		worlds[k].models += kind == 0 && numbers[1] < numbers[0];
	}
	/* What fsdp_config.json says; 0: nothing that can be read. It is rewritten by
	 * each save. */
	fsdp_auto_error *error = NULL;
	const struct fsdp_json *root =
		fsdp_reading_document(reading, folder, "fsdp_config.json", &error);
	int64_t size = 0;
	uint32_t declared =
		fsdp_json_get_integer(root, "world_size", 1, FSDP_PATTERN_MAX, &size)
			? (uint32_t)size
			: 0;
	const struct world *own = &worlds[0];
	bool found = false;
	for (size_t i = 0; i < count; i++) {
		/* More of its ranks are there; of equal ones, it has more files. */
		const struct world *a = &worlds[i];
		uint64_t left = (uint64_t)a->models * own->size;
		uint64_t right = (uint64_t)own->models * a->size;
		bool is_declared = a->size == declared && a->models != 0;
		if (is_declared || (!found && (left != right ? left > right
							     : a->files > own->files)))
			own = a;
		found |= is_declared;
	}
	/* Files of another world size are of an earlier save into the same directory: the
	 * loader reads those of its own world size only. */
	for (size_t i = 0; i < count; i++)
		if (&worlds[i] != own)
			fsdp_find(&reading->model->findings,
				found ? FSDP_RULE_ORPHAN_FILE : FSDP_RULE_RANK_IDENTITY,
				FSDP_PLACE(.file = worlds[i].first),
				"skipped %u file%s of a save by %u ranks: the other files are of a save by %u%s",
				worlds[i].files, worlds[i].files == 1 ? "" : "s",
				worlds[i].size, own->size,
				found ? " (see fsdp_config.json)" : "");
	return own->size;
}

static void name_verl(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	const struct state *state = reading->state;
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	size_t kept = 0;
	fsdp_reading_add_parts(reading, folder, verl_parts, FSDP_COUNT(verl_parts));
	FSDP_ITEMS(struct fsdp_child, child, &reading->children) {
		size_t k = 0;
		while (k < FSDP_COUNT(verl_parts) &&
			!fsdp_pattern_takes(child->name, verl_parts[k].pattern, numbers))
			k++;
		if (numbers[0] == state->world_size)
			*(struct fsdp_child *)fsdp_vec_at(&reading->children, kept++) =
				*child;
	}
	fsdp_vec_truncate(&reading->children, kept);
	reading->model->is_set = true;
}

/* ---- the table ---- */

static const struct layout layouts[] = {
	{ .name = "lightning-fsdp",
		.title = "Lightning checkpoint (DCP and meta.pt)",
		.writer = "Lightning",
		.matches = is_lightning,
		.name_children = name_lightning,
		.finish = strip_state_dict },
	{ .name = "megatron-torch_dist",
		.title = "Megatron-core checkpoint (torch_dist)",
		.writer = "Megatron-core",
		.matches = is_megatron,
		.name_children = name_megatron,
		.finish = check_shards,
		.is_split = true,
		.is_nemo = true },
	{ .name = "accelerate",
		.title = "Accelerate checkpoint (save_state)",
		.writer = "accelerate",
		.matches = is_accelerate,
		.name_children = name_accelerate,
		.count_ranks = count_accelerate,
		.finish = finish_accelerate },
	{ .name = "verl-fsdp",
		.title = "verl checkpoint (FSDP)",
		.writer = "verl",
		.matches = is_verl,
		.name_children = name_verl,
		.count_ranks = count_verl,
		.has_step = true },
	{ .name = "dcp-with-scheduler",
		.title = "PyTorch distributed checkpoint (DCP) and a scheduler",
		.matches = has_scheduler,
		.name_children = name_besides },
	{ .name = "hf-with-optimizer",
		.title = "Hugging Face model and an optimizer",
		.matches = has_optimizer,
		.name_children = name_besides },
};

/* Framework of a subdirectory; NULL: none of these. */
static const struct layout *layout_of(const struct fsdp_model *model)
{
	const char *format = model->format.family;
	for (size_t i = 0; format != NULL && i < FSDP_COUNT(layouts); i++)
		if (strcmp(layouts[i].name, format) == 0)
			return &layouts[i];
	return NULL;
}

static const struct layout *find_layout(const struct fsdp_folder *folder)
{
	for (size_t i = 0; i < FSDP_COUNT(layouts); i++)
		if (layouts[i].matches(folder))
			return &layouts[i];
	return NULL;
}

/* ---- directories that only lead to another ---- */

#define TRACKER "latest_checkpointed_iteration.txt"

#define FIX_TEXT \
	"copy the missing directory, or write this into the file to resume from there: "

enum { TRACKER_BYTES = 64 };

/* Of a step: the number in its directory's name. */
static bool takes_step(const struct fsdp_entry *entry, uint32_t *ret_step)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (entry->kind != FSDP_ENTRY_DIRECTORY)
		return false;
	*ret_step = FSDP_NONE;
	if (fsdp_span_is(entry->name, "release"))
		return true;
	if (!fsdp_pattern_takes(entry->name, "global_step_#", numbers) &&
		!fsdp_pattern_takes(entry->name, "iter_#", numbers))
		return false;
	*ret_step = numbers[0];
	return true;
}

static size_t count_steps(const struct fsdp_folder *folder, struct fsdp_entry *ret_last)
{
	size_t count = 0;
	uint32_t step;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (!takes_step(&entry, &step))
			continue;
		*ret_last = entry;
		count++;
	}
	return count;
}

static bool is_tracked(const struct fsdp_folder *folder)
{
	struct fsdp_entry entry;
	return fsdp_folder_has(folder, TRACKER, FSDP_ENTRY_FILE) &&
	       count_steps(folder, &entry) != 0;
}

/* A step of verl: a directory per trained model. *ret_others: those
 * after the first one. */
static bool find_role(const struct fsdp_folder *folder, struct fsdp_entry *ret_entry,
	struct fsdp_name_list *ret_others)
{
	static const char *const roles[] = { "actor", "critic" };
	bool found = false;
	*ret_others = (struct fsdp_name_list){ .count = 0 };
	for (size_t i = 0; i < FSDP_COUNT(roles); i++) {
		struct fsdp_entry entry;
		if (!fsdp_folder_find(folder, fsdp_span_text(roles[i]), &entry) ||
			entry.kind != FSDP_ENTRY_DIRECTORY)
			continue;
		if (found)
			fsdp_name_list_add(ret_others, entry.name);
		else
			*ret_entry = entry;
		found = true;
	}
	return found;
}

/* NeMo, by its directories; only the subdirectory shows their content. */
static bool is_nemo(const struct fsdp_folder *folder)
{
	return fsdp_folder_has(folder, "weights", FSDP_ENTRY_DIRECTORY) &&
	       fsdp_folder_has(folder, "context", FSDP_ENTRY_DIRECTORY);
}

/* The directory that the tracker of a root names; the only one if it names none. */
static bool follow_tracker(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_entry *ret_entry, uint32_t *ret_step, struct fsdp_error **ret_error)
{
	struct fsdp_span text;
	char next[sizeof FIX_TEXT + 16];
	struct fsdp_source source;
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (!fsdp_folder_source(folder, FSDP_SPAN(TRACKER), &source, ret_error) ||
		!fsdp_source_read_all(&source, 0, fsdp_min(source.size, TRACKER_BYTES),
			reading->model->arena, &text, ret_error))
		return false;
	while (text.size != 0 && text.data[text.size - 1] <= ' ')
		text.size--;
	bool is_number = fsdp_pattern_takes(text, "#", numbers);
	uint32_t wanted = is_number ? numbers[0] : FSDP_NONE;
	bool is_declared = is_number || fsdp_span_is(text, "release");
	for (size_t i = 0; i < folder->count && is_declared; i++) {
		*ret_entry = fsdp_folder_entry(folder, i);
		if (!takes_step(ret_entry, ret_step) || *ret_step != wanted)
			continue;
		/* Which of the steps is read, and what others there are. */
		struct fsdp_name_list others = { .count = 0 };
		uint32_t step;
		FSDP_EACH(k, folder->count, entry, fsdp_folder_entry(folder, k))
			if (takes_step(&entry, &step) &&
				!fsdp_span_equal(entry.name, ret_entry->name))
				fsdp_name_list_add(&others, entry.name);
		fsdp_reading_note(reading, "using %.*s (from " TRACKER "%s%s)",
			FSDP_TEXT_MOST(ret_entry->name, 64),
			others.count != 0 ? "; also present: " : "",
			fsdp_name_list_text(&others));
		return true;
	}
	if (count_steps(folder, ret_entry) == 1) {
		(void)takes_step(ret_entry, ret_step);
		if (*ret_step == FSDP_NONE)
			snprintf(next, sizeof next, FIX_TEXT "release");
		else
			snprintf(next, sizeof next, FIX_TEXT "%u", *ret_step);
		fsdp_find(&reading->model->findings, FSDP_RULE_TRACKER_STALE,
			FSDP_PLACE(.file = FSDP_SPAN(TRACKER), .fix = next),
			"points to %.*s, which does not exist; %.*s was read",
			FSDP_TEXT(text), FSDP_TEXT_MOST(ret_entry->name, 64));
		return true;
	}
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1011", FSDP_UNKNOWN,
		TRACKER " points to %.*s, which does not exist", FSDP_TEXT(text));
	return fsdp_error_add_hint(ret_error, "give the directory of another step");
}

/* ---- the family ---- */

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	struct fsdp_name_list others;
	struct fsdp_entry entry;
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	if (find_layout(look->folder) != NULL)
		return FSDP_SIGN_SURE;
	return is_tracked(look->folder) || is_nemo(look->folder) ||
			       find_role(look->folder, &entry, &others)
		       ? FSDP_SIGN_WEAK
		       : FSDP_SIGN_NONE;
}

/* The marker next to the named directory, or next to the one with its
 * weights. */
static void find_marker(
	struct fsdp_reading *reading, struct fsdp_span path, struct state *state)
{
	struct fsdp_span end = FSDP_SPAN("/weights");
	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	if (fsdp_span_ends(path, end))
		path.size -= end.size;
	if (path.size == 0)
		return;
	size_t size = path.size + sizeof "-unfinished";
	char *text = fsdp_arena_take(reading->model->arena, size, 1);
	snprintf(text, size, "%.*s-unfinished", FSDP_TEXT(path));
	if (fsdp_path_exists(reading->remote, text))
		state->marker = text;
}

/* Of a step, or of a model in it, that was named itself. */
static uint32_t typed_step(struct fsdp_span path)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0; i < 2 && path.size != 0; i++) {
		while (path.size != 0 && path.data[path.size - 1] == '/')
			path.size--;
		struct fsdp_span name = fsdp_span_last(path, '/');
		if (fsdp_pattern_takes(name, "global_step_#", numbers))
			return numbers[0];
		path.size -= name.size;
	}
	return FSDP_NONE;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct state *state = FSDP_TAKE(reading->scratch, state, 1);
	reading->state = state;
	state->step = typed_step(look->typed);
	find_marker(reading, look->typed, state);
	state->layout = find_layout(look->folder);
	if (state->layout == NULL) {
		const struct fsdp_folder *folder = look->folder;
		struct fsdp_entry entry;
		if (is_tracked(folder)) {
			if (!follow_tracker(
				    reading, folder, &entry, &state->step, ret_error))
				return false;
		} else if (is_nemo(folder)) {
			state->is_nemo =
				fsdp_folder_find(folder, FSDP_SPAN("weights"), &entry);
			fsdp_reading_note(reading, "opened weights");
		} else {
			/* Which of the models is read. */
			struct fsdp_name_list others;
			if (!find_role(folder, &entry, &others))
				return false;
			fsdp_reading_note(reading, "opened the model in %.*s%s%s%s",
				FSDP_TEXT(entry.name),
				others.count != 0 ? " (also there: " : "",
				fsdp_name_list_text(&others),
				others.count != 0 ? ")"
						  : ", the only model in this directory");
		}
		fsdp_reading_add_child(reading, entry.name, FSDP_NONE);
		return true;
	}
	state->world_size = state->layout->count_ranks != NULL
				    ? state->layout->count_ranks(reading, look->folder)
				    : 0;
	state->layout->name_children(reading, look->folder);
	return true;
}

/* Files that every rank writes are as many as there are ranks. Random states matter
 * only if the same numbers are required, and some programs keep those of one rank; verl
 * loads each of those with the number of ranks in their names. */
static void check_ranks(struct fsdp_reading *reading)
{
	struct fsdp_model *model = reading->model;
	uint32_t *ranks = FSDP_TAKE(reading->scratch, ranks, reading->children.count + 1);
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0, next; i < reading->children.count; i = next) {
		const struct fsdp_child *first = fsdp_vec_at(&reading->children, i);
		struct fsdp_ranks_here here = { .list = ranks,
			.world_size = model->world_size,
			.at_least = first->name.size == 0 ||
				    memmem(first->name.data, first->name.size,
					    "world_size_", 11) == NULL,
			.what = "file",
			.example = first->name,
			.example_rank = first->rank };
		ranks[here.count++] = first->rank;
		for (next = i + 1; next < reading->children.count; next++) {
			const struct fsdp_child *child =
				fsdp_vec_at(&reading->children, next);
			if (child->role != first->role || child->rank == FSDP_NONE ||
				!fsdp_span_equal(child->below, first->below))
				break;
			ranks[here.count++] = child->rank;
		}
		here.lost_none =
			fsdp_pattern_takes(first->name, verl_parts[2].pattern, numbers);
		if (first->rank == FSDP_NONE || model->world_size == FSDP_NONE)
			continue;
		enum fsdp_severity severity = here.lost_none ? FSDP_ERROR : FSDP_NOTE;
		fsdp_find_missing_ranks(&model->findings, &here,
			FSDP_PLACE(.severity = first->role == FSDP_ROLE_OTHER
						       ? (int)severity + 1
						       : 0));
	}
}

static void add_step(struct fsdp_reading *reading, const struct state *state)
{
	const struct layout *layout = layout_of(reading->model);
	if (state->step != FSDP_NONE && layout != NULL && layout->has_step)
		fsdp_build_integer(
			reading->model, FSDP_SPAN("global_step"), FSDP_NONE, state->step);
}

/* NeMo writes checkpoints of Megatron-core, or plain DCP. */
static void check_nemo(struct fsdp_reading *reading, const struct state *state)
{
	struct fsdp_format *format = &reading->model->format;
	const struct layout *layout = layout_of(reading->model);
	bool is_plain = state->is_nemo && format->family != NULL &&
			strcmp(format->family, INNER) == 0;
	if ((layout == NULL || !layout->is_nemo) && !is_plain)
		return;
	if (state->is_nemo)
		*format = (struct fsdp_format){ "nemo", "NeMo checkpoint", "NeMo" };
	if (state->marker == NULL)
		return;
	fsdp_find(&reading->model->findings, FSDP_RULE_COMMIT_LEFTOVER,
		FSDP_PLACE(.file = { 0 },
			.fix = "use an earlier checkpoint, or wait for the save to end"),
		"%s is next to the directory: NeMo's save did not finish, or is still running",
		(const char *)fsdp_span_last(fsdp_span_text(state->marker), '/').data);
}

static void finish(struct fsdp_reading *reading)
{
	struct state *state = reading->state;
	struct fsdp_model *model = reading->model;
	if (state->layout == NULL) {
		check_nemo(reading, state);
		add_step(reading, state);
		return;
	}
	model->format.family = state->layout->name;
	model->format.title = state->layout->title;
	model->format.writer = state->layout->writer;
	model->is_split |= state->layout->is_split;
	if (state->world_size != 0 &&
		(model->world_size == FSDP_NONE || state->layout->has_step ||
			state->world_size > model->world_size))
		model->world_size = state->world_size;
	check_nemo(reading, state);
	check_ranks(reading);
	add_step(reading, state);
	if (state->layout->finish != NULL)
		state->layout->finish(reading);
}

const struct fsdp_family fsdp_family_layout = {
	.name = "layout",
	.title = "checkpoint of a training framework",
	.recognize = recognize,
	.read = read,
	.finish = finish,
};
