/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the files beside the tensors of a checkpoint that training programs load with
 * them (look-beside.h).
 *
 * Origin: transformers/trainer.py (5.23), accelerate/checkpointing.py (1.15), the
 * remote code of transformers/dynamic_module_utils.py.
 */
#include "look-beside.h"

#include <stdlib.h>

#include "base/num.h"
#include "model/missing-ranks.h"
#include "syntax/json-tree.h"

enum {
	JSON_MOST = 16 << 20, /* of a larger one only the end is looked at */
	TAIL = 64,
};

enum content { PICKLES, RANKED, JSON };

static const struct side_file {
	const char *pattern;
	enum content content;
} side_files[] = {
	{ "optimizer.pt", PICKLES },
	{ "optimizer.bin", PICKLES },
	{ "optimizer_#.bin", PICKLES },
	{ "scheduler.pt", PICKLES },
	{ "scheduler.bin", PICKLES },
	{ "scheduler_#.bin", PICKLES },
	{ "scaler.pt", PICKLES },
	{ "rng_state.pth", PICKLES },
	{ "rng_state_#.pth", RANKED },
	{ "random_states_#.pkl", RANKED },
	{ "training_args.bin", PICKLES },
	{ "custom_checkpoint_#.pkl", PICKLES },
	{ "sampler.bin", PICKLES },
	{ "sampler_#.bin", PICKLES },
	{ "dl_state_dict.bin", PICKLES },
	{ "dl_state_dict_#.bin", PICKLES },
	{ "composer_states.pt", PICKLES },
	{ "meta.pt", PICKLES },
	{ "common.pt", PICKLES },
	{ "data.pt", PICKLES },
	{ "config.json", JSON },
	{ "generation_config.json", JSON },
	{ "adapter_config.json", JSON },
	{ "trainer_state.json", JSON },
	{ "tokenizer.json", JSON },
	{ "tokenizer_config.json", JSON },
	{ "special_tokens_map.json", JSON },
	{ "preprocessor_config.json", JSON },
	{ "processor_config.json", JSON },
	{ "video_preprocessor_config.json", JSON },
	{ "quantize_config.json", JSON },
	{ "model_index.json", JSON },
	{ "fsdp_config.json", JSON },
	{ "metadata.json", JSON },
};

struct beside {
	struct opening *opening;
	const struct fsdp_folder *folder;
	struct fsdp_findings *findings; /* of the checkpoint */
	struct fsdp_arena arena;        /* emptied after each file */
	struct fsdp_span *read;         /* paths of the files that were read, sorted */
	size_t read_count;
	struct fsdp_ranks_here here; /* with states of random generators */
	struct fsdp_span example;    /* a file of them */
};

/* ---- which files ---- */

static int by_bytes(const void *a, const void *b)
{
	const struct fsdp_span *first = a, *second = b;
	return fsdp_span_compare(*first, *second);
}

static bool list_read(struct beside *beside, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &beside->opening->checkpoint->model;
	struct fsdp_arena *scratch = &beside->opening->scratch;
	beside->read = FSDP_TAKE(scratch, beside->read, model->files.count + 1);
	if (beside->read == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (uint32_t i = 0; i < model->files.count; i++)
		beside->read[beside->read_count++] = fsdp_model_file(model, i)->path;
	qsort(beside->read, beside->read_count, sizeof *beside->read, by_bytes);
	return true;
}

static bool was_read(const struct beside *beside, struct fsdp_span name)
{
	return bsearch(&name, beside->read, beside->read_count, sizeof *beside->read,
		       by_bytes) != NULL;
}

static const struct side_file *find_side_file(
	struct fsdp_span name, uint32_t *ret_numbers)
{
	for (size_t i = 0; i < FSDP_COUNT(side_files); i++)
		if (fsdp_pattern_takes(name, side_files[i].pattern, ret_numbers))
			return &side_files[i];
	return NULL;
}

bool fsdp_checkpoint_loads_beside(struct fsdp_span name)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	const struct side_file *file = find_side_file(name, numbers);
	return file != NULL && file->content != JSON;
}

/* ---- what is noticed ---- */

static enum fsdp_rule_index index_of(const struct fsdp_rule *rule)
{
	return (enum fsdp_rule_index)(rule - fsdp_rule(0));
}

/* Takes the error: what prevented a look is not a judgement on the file. */
static void say_error(
	struct beside *beside, struct fsdp_span name, struct fsdp_error *error)
{
	enum fsdp_error_code code = fsdp_error_code(error);
	const char *id = fsdp_error_rule(error);
	const struct fsdp_rule *rule = id != NULL ? fsdp_rule_find(id) : NULL;
	bool judged = code == FSDP_ERROR_DAMAGED || code == FSDP_ERROR_NOT_A_CHECKPOINT;
	fsdp_find(beside->findings,
		!judged        ? FSDP_RULE_NOT_EVALUATED
		: rule == NULL ? FSDP_RULE_TRUNCATED_FILE
			       : index_of(rule),
		FSDP_PLACE(.file = name, .offset = fsdp_error_offset(error)), "%s",
		fsdp_error_message(error));
	fsdp_error_free(error);
}

/* The findings of a file that was read into a model of its own. */
static void take_findings(struct beside *beside, const struct fsdp_findings *from)
{
	for (size_t i = 0; i < from->list.count; i++) {
		const struct fsdp_finding *finding = fsdp_vec_at(&from->list, i);
		fsdp_find(beside->findings, index_of(finding->rule),
			FSDP_PLACE(.file = finding->file, .member = finding->member,
				.tensor = finding->tensor, .offset = finding->offset,
				.length = finding->length,
				.next = finding->next.data != NULL
						? (const char *)finding->next.data
						: "",
				.severity = (int)finding->severity + 1),
			"%.*s", FSDP_TEXT_MOST(finding->message, 4096));
	}
	beside->findings->lost |= from->lost;
}

/* ---- pickles ---- */

static bool read_alone(struct beside *beside, const struct fsdp_look *look,
	const struct fsdp_family *family, struct fsdp_model *model,
	struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = beside->opening->checkpoint;
	struct fsdp_vec errors, notes;
	struct fsdp_reading reading = {
		.model = model,
		.scratch = &beside->arena,
		.limits = &checkpoint->limits,
		.rank = FSDP_NONE,
		.errors = &errors,
		.notes = &notes,
	};
	bool read;
	fsdp_vec_init(&errors, &beside->arena, sizeof(struct fsdp_error *));
	fsdp_vec_init(&notes, &beside->arena, sizeof(const char *));
	fsdp_vec_init(&reading.children, &beside->arena, sizeof(struct fsdp_child));
	read = family->read(&reading, look, ret_error);
	for (size_t i = 0; i < errors.count; i++)
		say_error(beside, look->path,
			*(struct fsdp_error **)fsdp_vec_at(&errors, i));
	return read;
}

static void judge_pickles(struct beside *beside, struct fsdp_span name,
	const struct fsdp_source *source, struct fsdp_error **error)
{
	struct fsdp_checkpoint *checkpoint = beside->opening->checkpoint;
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	struct fsdp_model *model = FSDP_TAKE(&beside->arena, model, 1);
	if (model == NULL) {
		fsdp_arena_fail(&beside->arena, error);
		return;
	}
	if (!fsdp_look_at_head(source, name, head, &look, error) ||
		!fsdp_build_init(model, &beside->arena, &checkpoint->limits, error))
		return;
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	const char *other = fsdp_foreign_stand_in(look.head, &beside->arena);
	if (family != NULL && family->has_pickles) {
		(void)read_alone(beside, &look, family, model, error);
		take_findings(beside, &model->findings);
	} else if (other != NULL) {
		fsdp_find(beside->findings, FSDP_RULE_NOT_A_CHECKPOINT,
			FSDP_PLACE(.file = name), "this is %s", other);
	} else {
		fsdp_find(beside->findings, FSDP_RULE_TRUNCATED_FILE,
			FSDP_PLACE(.file = name),
			"this is not a file of torch.save: its %llu bytes begin like nothing that one writes",
			FSDP_LLU(source->size));
	}
}

/* ---- configurations ---- */

/* What a member of a configuration has a loader run; NULL: nothing. */
static const char *what_runs(const struct fsdp_json *member)
{
	if (member->key.data == NULL)
		return NULL;
	if (fsdp_span_is(member->key, "auto_map") && member->count != 0)
		return "code that comes with the checkpoint runs if it is loaded with trust_remote_code=True";
	if (fsdp_span_is(member->key, "trust_remote_code") &&
		member->kind == FSDP_JSON_BOOL && member->integer != 0)
		return "it asks for code that comes with the checkpoint to be run";
	if (fsdp_span_is(member->key, "_target_") && member->kind == FSDP_JSON_TEXT)
		return "programs that instantiate configurations call what it names";
	return NULL;
}

/* The first text in it: "modeling_custom.CustomModel". */
static struct fsdp_span first_text(const struct fsdp_json *value)
{
	while ((value->kind == FSDP_JSON_OBJECT || value->kind == FSDP_JSON_ARRAY) &&
		value->count != 0)
		value = &value->items[0];
	return value->kind == FSDP_JSON_TEXT ? value->text : (struct fsdp_span){ 0 };
}

static void say_code(
	struct beside *beside, struct fsdp_span name, const struct fsdp_json *member)
{
	char key[FSDP_SHOWN], text[FSDP_SHOWN] = "";
	struct fsdp_span first = first_text(member);
	if (first.data != NULL)
		fsdp_shown(first, text);
	fsdp_find(beside->findings, FSDP_RULE_REMOTE_CODE, FSDP_PLACE(.file = name),
		"%s%s%s: %s", fsdp_shown(member->key, key), *text != '\0' ? " " : "",
		text, what_runs(member));
}

/* Every value below the root. Nothing is deeper than json-depth allows, but that may be
 * raised: what is still to be looked at is kept in an array. */
static bool judge_values(
	struct beside *beside, struct fsdp_span name, const struct fsdp_json *root)
{
	struct fsdp_vec todo;
	fsdp_vec_init(&todo, &beside->arena, sizeof root);
	if (!fsdp_vec_add(&todo, &root))
		return false;
	for (size_t at = 0; at < todo.count; at++) {
		const struct fsdp_json *value =
			*(const struct fsdp_json *const *)fsdp_vec_at(&todo, at);
		if (what_runs(value) != NULL) {
			say_code(beside, name, value);
			continue;
		}
		if (value->kind != FSDP_JSON_OBJECT && value->kind != FSDP_JSON_ARRAY)
			continue;
		for (uint32_t i = 0; i < value->count; i++) {
			const struct fsdp_json *item = &value->items[i];
			bool holds = item->kind == FSDP_JSON_OBJECT ||
				     item->kind == FSDP_JSON_ARRAY;
			if ((holds || what_runs(item) != NULL) &&
				!fsdp_vec_add(&todo, &item))
				return false;
		}
	}
	return true;
}

/* Whether a reader of the folder reported already that it is none. */
static bool is_told(const struct beside *beside, struct fsdp_span name)
{
	for (size_t i = 0; i < beside->findings->list.count; i++) {
		const struct fsdp_finding *finding =
			fsdp_vec_at(&beside->findings->list, i);
		if (finding->severity != FSDP_NOTE &&
			fsdp_span_equal(finding->file, name))
			return true;
	}
	return false;
}

static void say_no_json(struct beside *beside, struct fsdp_span name, const char *why)
{
	if (!is_told(beside, name))
		fsdp_find(beside->findings, FSDP_RULE_TRUNCATED_FILE,
			FSDP_PLACE(.file = name),
			"this is not a complete JSON document: %s", why);
}

/* Of a large one. */
static void judge_end(struct beside *beside, struct fsdp_span name,
	const struct fsdp_source *source, struct fsdp_error **error)
{
	struct fsdp_span tail;
	if (!fsdp_source_read_all(
		    source, source->size - TAIL, TAIL, &beside->arena, &tail, error))
		return;
	while (tail.size != 0 && tail.data[tail.size - 1] <= ' ')
		tail.size--;
	if (tail.size == 0 ||
		(tail.data[tail.size - 1] != '}' && tail.data[tail.size - 1] != ']'))
		say_no_json(beside, name, "it does not end with a bracket");
}

static void judge_json(struct beside *beside, struct fsdp_span name,
	const struct fsdp_source *source, struct fsdp_error **error)
{
	struct fsdp_checkpoint *checkpoint = beside->opening->checkpoint;
	const struct fsdp_json *root = NULL;
	struct fsdp_span bytes;
	if (source->size > JSON_MOST) {
		judge_end(beside, name, source, error);
		return;
	}
	if (!fsdp_source_read_all(source, 0, source->size, &beside->arena, &bytes, error))
		return;
	if (fsdp_json_read(bytes, &checkpoint->limits, &beside->arena, &root, error)) {
		if (!judge_values(beside, name, root))
			fsdp_arena_fail(&beside->arena, error);
		return;
	}
	if (fsdp_error_code(*error) == FSDP_ERROR_MEMORY)
		fsdp_arena_fail(&beside->arena, error);
	if (fsdp_error_code(*error) == FSDP_ERROR_MEMORY ||
		fsdp_error_code(*error) == FSDP_ERROR_LIMIT)
		return;
	say_no_json(beside, name, fsdp_error_message(*error));
	fsdp_error_free(*error);
	*error = NULL;
}

/* ---- one file, all of them ---- */

static bool look_at(struct beside *beside, const struct fsdp_entry *entry,
	enum content content, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	if (entry->size == 0) {
		fsdp_find(beside->findings, FSDP_RULE_EMPTY_FILE,
			FSDP_PLACE(.file = entry->name), "the file is empty");
		return true;
	}
	if (fsdp_folder_source(beside->folder, entry->name, &source, &error))
		(content == JSON ? judge_json : judge_pickles)(
			beside, entry->name, &source, &error);
	fsdp_arena_reset(&beside->arena);
	if (error == NULL)
		return true;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		*ret_error = error;
		return false;
	}
	say_error(beside, entry->name, error);
	return true;
}

/* A number in the name is that of a rank: one rank alone writes none. */
static void judge_ranks(struct beside *beside)
{
	struct fsdp_ranks_here *here = &beside->here;
	uint32_t told = beside->opening->checkpoint->model.world_size;
	if (told != FSDP_NONE && told > here->world_size)
		here->world_size = told;
	if (here->world_size < 2)
		here->world_size = 2;
	if (here->count != 0)
		fsdp_find_missing_ranks(beside->findings, here,
			FSDP_PLACE(.file = beside->example,
				.severity = FSDP_WARNING + 1));
}

static bool add_rank(struct beside *beside, struct fsdp_span name, uint32_t rank)
{
	struct fsdp_ranks_here *here = &beside->here;
	if (here->list == NULL) {
		beside->example = name;
		here->list = FSDP_TAKE(
			&beside->opening->scratch, here->list, beside->folder->count);
		if (here->list == NULL)
			return false;
	}
	here->list[here->count++] = rank;
	if (rank >= here->world_size)
		here->world_size = rank + 1;
	return true;
}

bool fsdp_look_aside(struct opening *opening, const struct fsdp_folder *folder,
	struct fsdp_span name, struct fsdp_error **ret_error)
{
	struct beside beside = {
		.opening = opening,
		.folder = folder,
		.findings = &opening->checkpoint->model.findings,
	};
	struct fsdp_entry entry;
	if (!fsdp_folder_find(folder, name, &entry) || entry.kind != FSDP_ENTRY_FILE)
		return true;
	fsdp_arena_init(&beside.arena, &opening->checkpoint->budget);
	bool good = look_at(&beside, &entry,
		fsdp_span_ends(name, FSDP_SPAN(".json")) ? JSON : PICKLES, ret_error);
	fsdp_arena_done(&beside.arena);
	return good;
}

/* Training programs leave these files behind where they remove the weights. A part that
 * could not be read may have them. */
static void judge_weights(struct beside *beside)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	if (beside->opening->checkpoint->errors.count != 0)
		return;
	for (size_t i = 0; i < beside->read_count; i++)
		if (find_side_file(beside->read[i], numbers) == NULL)
			return;
	if (beside->read_count != 0)
		fsdp_find(beside->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = { 0 }),
			"no file of this folder has weights: there are only files that are loaded beside them, such as %.*s",
			FSDP_TEXT_MOST(beside->read[0], 256));
}

/* Of two files the second is needed to load the first. */
static void judge_companions(struct beside *beside)
{
	static const struct {
		const char *file, *needs;
	} pairs[] = {
		{ "adapter_model.safetensors", "adapter_config.json" },
		{ "adapter_model.bin", "adapter_config.json" },
		{ "generation_config.json", "config.json" },
	};
	for (size_t i = 0; i < FSDP_COUNT(pairs); i++)
		if (fsdp_folder_has(beside->folder, pairs[i].file, FSDP_ENTRY_FILE) &&
			!fsdp_folder_has(beside->folder, pairs[i].needs, FSDP_ENTRY_FILE))
			fsdp_find(beside->findings, FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = fsdp_span_text(pairs[i].needs),
					.severity = FSDP_WARNING + 1),
				"%s is there, but not this file, without which it cannot be loaded",
				pairs[i].file);
}

bool fsdp_look_beside(struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct beside beside = {
		.opening = opening,
		.folder = &checkpoint->folder,
		.findings = &checkpoint->model.findings,
	};
	uint32_t numbers[FSDP_PATTERN_NUMBERS] = { 0 };
	bool good = true;
	/* A file that was named alone is a checkpoint alone. */
	bool folder = checkpoint->is_folder || checkpoint->has_dir;
	if (!folder || checkpoint->folder.picked != NULL)
		return true;
	beside.here.what = "file like this one";
	if (!list_read(&beside, ret_error))
		return false;
	fsdp_arena_init(&beside.arena, &checkpoint->budget);
	for (size_t i = 0; i < checkpoint->folder.count && good; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(&checkpoint->folder, i);
		const struct side_file *file = find_side_file(entry.name, numbers);
		/* What a configuration has run no reader looks at. */
		if (entry.kind != FSDP_ENTRY_FILE || file == NULL ||
			(file->content != JSON && was_read(&beside, entry.name)))
			continue;
		good = file->content != RANKED ||
		       add_rank(&beside, entry.name, numbers[0]) ||
		       fsdp_arena_fail(&opening->scratch, ret_error);
		good = good && look_at(&beside, &entry, file->content, ret_error);
	}
	fsdp_arena_done(&beside.arena);
	judge_ranks(&beside);
	judge_companions(&beside);
	judge_weights(&beside);
	return good;
}
