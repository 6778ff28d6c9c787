/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what was opened into the model: the own part of the family, the children it
 * names, the counter of its optimizer, units out of a log or trace, the sharding plan.
 */
#include <unistd.h>

#include "base/num.h"
#include "checkpoint/opening.h"
#include "syntax/model-repr.h"
#include "trace/event.h"
#include "trace/kineto.h"

/*
 * Reads how many steps an optimizer did: the one element of a tensor that a family named
 * as the counter. Adds that as a value, or nothing where it cannot be read: the tensor
 * itself is listed in any case.
 */

enum { NUMBER_BYTES = 8 };

static bool read_count(struct fsdp_locator *locator, uint32_t piece, int64_t *ret_count,
	struct fsdp_error **ret_error)
{
	struct fsdp_view view;
	struct fsdp_source source;
	unsigned char bytes[NUMBER_BYTES];
	uint64_t begin, end, bits = 0;
	if (!fsdp_locator_view(locator, piece, NULL, &view, ret_error) ||
		view.method != 0 || !fsdp_view_bytes(&view, &begin, &end) ||
		end - begin > sizeof bytes ||
		!fsdp_locator_source(locator, view.file, &source, ret_error) ||
		!fsdp_source_read(&source, view.record + begin, bytes,
			(size_t)(end - begin), ret_error))
		return false;
	for (size_t i = 0; i < end - begin; i++)
		bits |= (uint64_t)bytes[view.big_endian ? end - begin - 1 - i : i]
			<< 8 * i;
	/* Counted are whole numbers, whatever they are stored as. */
	const char *dtype = fsdp_dtype(view.dtype)->name;
	double number = 0;
	float single;
	uint32_t low = (uint32_t)bits;
	if (strcmp(dtype, "int64") == 0) {
		*ret_count = (int64_t)bits;
		return *ret_count >= 0;
	}
	if (strcmp(dtype, "int32") == 0) {
		*ret_count = (int32_t)low;
		return *ret_count >= 0;
	}
	if (strcmp(dtype, "float64") == 0) {
		memcpy(&number, &bits, sizeof number);
	} else if (strcmp(dtype, "float32") == 0) {
		memcpy(&single, &low, sizeof single);
		number = (double)single;
	} else {
		return false;
	}
	if (!(number >= 0 && number < (double)(INT64_C(1) << 53)))
		return false;
	*ret_count = (int64_t)number;
	return (double)*ret_count >= number;
}

struct steps_done {
	struct fsdp_model *model;
	uint32_t file;
	int64_t count;
};

static void add_count(void *context)
{
	const struct steps_done *count = context;
	fsdp_build_integer(count->model, FSDP_SPAN("steps"), count->file, count->count);
}

/* Reads how many steps were done, if a family said which tensor counts them, and adds
 * the value `steps`. Before the model is frozen. False: memory ended. */
static bool counter_read(
	struct fsdp_checkpoint *checkpoint, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = &checkpoint->model;
	struct fsdp_locator *locator;
	struct fsdp_error *error = NULL;
	int64_t count = 0;
	if (model->counter == FSDP_NONE)
		return true;
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(model, model->counter);
	if (tensor->piece_count == 0)
		return true;
	const struct fsdp_piece_record *piece =
		fsdp_model_piece(model, tensor->first_piece);
	if (piece->extent == FSDP_NONE)
		return true;
	const struct fsdp_extent *extent = fsdp_model_extent(model, piece->extent);
	if (!fsdp_locator_new(checkpoint, &locator, ret_error))
		return false;
	bool read = read_count(locator, tensor->first_piece, &count, &error);
	bool fatal =
		!read && error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_locator_free(locator);
	if (fatal) {
		*ret_error = error;
		return false;
	}
	fsdp_error_free(error);
	struct steps_done counted = { model, extent->file, count };
	return !read ||
	       fsdp_model_try(model, model->arena, add_count, &counted, ret_error);
}

/*
 * Reads units and classes from what a training run left: the model that a log has
 * printed, or the units that a trace names.
 */

/* ---- a log ---- */

struct printed_log {
	struct fsdp_trace_reading reading;
	struct fsdp_printed *printed;
};

static void read_lines(void *context)
{
	struct printed_log *log = context;
	struct fsdp_span line;
	log->reading.scratch = fsdp_arena_new_below(&log->reading.arena);
	struct fsdp_lines *lines = fsdp_lines_new(&log->reading);
	while (fsdp_lines_next(lines, &line)) {
		/* The scan writes to lines, which are in a writable window. */
		union {
			const unsigned char *is;
			unsigned char *was;
		} data = { line.data };
		fsdp_trace_require(&log->reading,
			fsdp_printed_take(log->printed, data.was, line.size));
	}
	fsdp_arena_done(log->reading.scratch);
}

static bool use(struct opening *opening, struct fsdp_trace_reading *reading,
	struct fsdp_printed *printed, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_printed_model model;
	if (!fsdp_printed_end(printed, &reading->arena, &model, ret_error) ||
		!fsdp_plan_from_printed(&opening->reading, &model,
			fsdp_span_text(checkpoint->plan_path), ret_error))
		return false;
	if (model.is_cut) {
		/* What stood below the last line that is there is not known. */
		struct fsdp_error *error = NULL;
		fsdp_fail(&error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"the model printed in line %llu is truncated after %zu modules",
			FSDP_LLU(model.line), model.modules.count);
		fsdp_error_add_kind(&error, "cut");
		fsdp_error_add_hint(&error, "give the complete log, or export a plan");
		fsdp_error_add_path(&error, opening->checkpoint->plan_path);
		fsdp_reading_keep_error(&opening->reading, error);
	}
	return true;
}

/* ---- a trace ---- */

static bool read_any(struct opening *opening, struct fsdp_stream *stream,
	struct fsdp_error **ret_error)
{
	struct fsdp_span head;
	if (!fsdp_stream_peek(stream, &head, ret_error))
		return false;
	if (fsdp_trace_is_json(head)) {
		struct fsdp_checkpoint *checkpoint = opening->checkpoint;
		struct fsdp_model *model = &checkpoint->model;
		if (opening->path_count == 0) {
			fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
				"a trace names units and no modules, so it needs a checkpoint next to it");
			return fsdp_error_add_hint(
				ret_error, "also give the checkpoint of the run");
		}
		if (!fsdp_trace_unit_names(stream, &checkpoint->limits,
			    &checkpoint->arena, &model->known_units, ret_error))
			return false;
		model->plan.from = "trace";
		model->plan.mesh = FSDP_NONE;
		model->plan.world_size = FSDP_NONE;
		fsdp_find(&model->findings, FSDP_RULE_PLAN_PARTIAL,
			FSDP_PLACE(.file = fsdp_span_text(checkpoint->plan_path)),
			"units come from the annotations of a trace, which names %zu; it has no classes, strategies and meshes",
			model->known_units.count);
		return true;
	}
	struct fsdp_budget *budget = &opening->checkpoint->budget;
	struct printed_log log = { .printed = fsdp_printed_new(budget),
		.reading = { .stream = stream,
			.budget = budget,
			.limits = &opening->checkpoint->limits } };
	fsdp_arena_init_lean(&log.reading.arena, budget);
	bool good = log.printed != NULL || fsdp_fail_memory(ret_error);
	if (good && !fsdp_arena_try(&log.reading.arena, read_lines, &log))
		good = log.reading.error != NULL
			       ? fsdp_fail_with(ret_error, log.reading.error)
			       : fsdp_arena_fail(&log.reading.arena, ret_error);
	good = good && use(opening, &log.reading, log.printed, ret_error);
	fsdp_printed_free(log.printed);
	fsdp_arena_done(&log.reading.arena);
	return good;
}

bool fsdp_unit_source(struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_stream_options options = {
		.remote = checkpoint->remote,
		.limits = &checkpoint->limits,
	};
	struct fsdp_stream *stream;
	struct fsdp_span path = fsdp_arena_copy(
		&checkpoint->arena, fsdp_span_text(opening->options->units_path));
	if (path.data == NULL)
		return fsdp_arena_fail(&checkpoint->arena, ret_error);
	checkpoint->plan_path = (const char *)path.data;
	opening->reading.plan_is_checkpoint = opening->path_count == 0;
	bool good = fsdp_stream_open(checkpoint->plan_path, &options, &stream, ret_error);
	if (good) {
		fsdp_budget_give(&checkpoint->budget, fsdp_stream_size(stream));
		good = read_any(opening, stream, ret_error);
		fsdp_stream_close(stream);
	}
	if (!good)
		fsdp_error_add_path(ret_error, checkpoint->plan_path);
	return good;
}

/*
 * Reads what was opened into the model: the family's own part, the children it names,
 * the sharding plan.
 */

enum { NESTING_MAX = 64 };

/* ---- the plan ---- */

static bool read_plan_file(struct opening *opening, const struct fsdp_source *source,
	const char *path, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	uint64_t limit = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_PLAN_BYTES);
	struct fsdp_span bytes;
	if (source->size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_PLAN_BYTES, limit);
	if (!fsdp_source_read_all(
		    source, 0, source->size, &checkpoint->arena, &bytes, ret_error))
		return false;
	checkpoint->plan_path = path;
	return fsdp_plan_read(&opening->reading, bytes, fsdp_span_text(path), ret_error);
}

/* The only plan of a directory. With several, no plan is used; a note reports that. */
static bool find_plan(struct opening *opening, const struct fsdp_folder *folder,
	struct fsdp_entry *ret_entry)
{
	size_t count = 0;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE || !fsdp_plan_has_name(entry.name))
			continue;
		count++;
		*ret_entry = entry;
	}
	if (count > 1)
		fsdp_reading_note(&opening->reading,
			"%zu sharding plans are next to the checkpoint: no plan is used; choose one with --plan",
			count);
	return count == 1;
}

/* Whether a found plan may cost that much: a plan larger than a small checkpoint was not
 * requested. */
static bool is_small_beside(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_source *plan)
{
	uint64_t most = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_FOUND_PLAN_BYTES);
	for (size_t i = 0; i < checkpoint->model.files.count && most < plan->size; i++) {
		const struct fsdp_file_record *file =
			fsdp_model_file(&checkpoint->model, i);
		uint64_t size = file->size != FSDP_UNKNOWN ? file->size : 0;
		most = fsdp_add(most, size / 2, &most) ? most : UINT64_MAX;
	}
	return plan->size <= most;
}

/* A plan next to the checkpoint that cannot be used is a finding, not a failure; one that
 * cannot be read is a failure. Without a directory the name is a path. */
static bool read_found_plan(struct opening *opening, const struct fsdp_folder *folder,
	const char *root, struct fsdp_span name, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	const char *path = folder != NULL ? fsdp_opening_join(opening, root, name)
					  : (const char *)name.data;
	if (path == NULL)
		return fsdp_arena_fail(&checkpoint->arena, ret_error);
	fsdp_opening_report(opening, path);
	bool opened = folder != NULL
			      ? fsdp_folder_source(folder, name, &source, &error)
			      : fsdp_file_open(checkpoint->remote, path, &source, &error);
	if (opened && !is_small_beside(checkpoint, &source)) {
		fsdp_reading_note(&opening->reading,
			"did not use the plan %s: it has %llu bytes, which is large for this checkpoint; give it with --plan",
			path, FSDP_LLU(source.size));
		return true;
	}
	if (opened && read_plan_file(opening, &source, path, &error)) {
		checkpoint->plan_found = true;
		return true;
	}
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		fsdp_error_free(error);
		return fsdp_arena_fail(&checkpoint->arena, ret_error);
	}
	/* Bytes that were not read say nothing of the plan, and with it the answer might
	 * be another one. */
	bool has_bytes = checkpoint->plan_path != NULL;
	if (!has_bytes && fsdp_error_code(error) != FSDP_ERROR_LIMIT) {
		fsdp_error_add_path(&error, path);
		fsdp_error_add_hint(
			&error, "--no-plan opens the checkpoint without the plan");
		*ret_error = error;
		return false;
	}
	checkpoint->plan_path = NULL;
	fsdp_model_forget_plan(&checkpoint->model);
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_PLAN_INVALID,
		FSDP_PLACE(.file = fsdp_span_last(name, '/'),
			.offset = fsdp_error_offset(error)),
		"%s", fsdp_error_message(error));
	fsdp_reading_note(&opening->reading, "the plan %s is not used: %s", path,
		fsdp_error_message(error));
	fsdp_error_free(error);
	return true;
}

/* For the open directory: that of the input, or one in it that was entered. */
static const char *root_path(const struct opening *opening)
{
	return opening->folder_path != NULL ? opening->folder_path : opening->path;
}

static bool read_plan(struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_entry entry;
	if (opening->path_count != 0 && opening->options->units_path != NULL)
		return fsdp_unit_source(opening, ret_error);
	if (checkpoint->model.has_plan || opening->options->no_plan)
		return true;
	if (opening->options->plan_path != NULL) {
		struct fsdp_source source;
		struct fsdp_span path = fsdp_arena_copy(&opening->checkpoint->arena,
			fsdp_span_text(opening->options->plan_path));
		if (path.data == NULL)
			return fsdp_arena_fail(&opening->checkpoint->arena, ret_error);
		bool read = fsdp_file_open(opening->checkpoint->remote,
			(const char *)path.data, &source, ret_error);
		if (read) {
			fsdp_budget_give(&opening->checkpoint->budget, source.size);
			read = read_plan_file(
				opening, &source, (const char *)path.data, ret_error);
			if (source.fd >= 0)
				close(source.fd);
		}
		if (read)
			return true;
		/* Of a file that is not there another is looked for. */
		if (!fsdp_error_is_unread(*ret_error))
			fsdp_error_add_hint(ret_error,
				"a sharding plan is one JSON file: fsdp-inspect help plan");
		return fsdp_error_add_path(ret_error, (const char *)path.data);
	}
	if (checkpoint->is_folder || checkpoint->has_dir) {
		struct fsdp_folder whole = checkpoint->folder;
		bool found = find_plan(opening, &whole, &entry);
		/* In the directory of the named files, if it is not one of them. */
		if (!found && whole.picked != NULL) {
			fsdp_folder_of_dir(&whole, &checkpoint->dir);
			found = find_plan(opening, &whole, &entry);
		}
		if (found)
			return read_found_plan(opening, &whole, root_path(opening),
				entry.name, ret_error);
	}
	if (opening->wrapped != 0)
		return true;
	if (opening->options->plan_beside != NULL && opening->options->single_file &&
		!checkpoint->is_folder) {
		struct fsdp_span path = fsdp_arena_copy(&checkpoint->arena,
			fsdp_span_text(opening->options->plan_beside));
		return path.data == NULL
			       ? fsdp_arena_fail(&checkpoint->arena, ret_error)
			       : read_found_plan(opening, NULL, NULL, path, ret_error);
	}
	if (!opening->has_beside)
		return true;
	struct fsdp_folder beside;
	fsdp_folder_of_dir(&beside, &opening->beside);
	return !find_plan(opening, &beside, &entry) ||
	       read_found_plan(
		       opening, &beside, opening->beside_path, entry.name, ret_error);
}

/* Files in findings since `first`, and in *error, become relative to the prefix; those of
 * the input layer already are. */
static void report_errors_below(struct opening *opening, size_t first, const char *folder,
	struct fsdp_error **error)
{
	struct fsdp_vec *errors = &opening->checkpoint->errors;
	for (size_t i = first; i < errors->count; i++)
		fsdp_error_put_below(fsdp_vec_at(errors, i), folder);
	if (*error != NULL && fsdp_error_path(*error) != NULL)
		fsdp_error_put_below(error, folder);
}

/* An input inside another one, while it is read. */
struct inside {
	struct fsdp_look look;
	const struct fsdp_family *family;
	/* For a subdirectory: */
	struct fsdp_folder folder;
	struct fsdp_dir dir;
	struct fsdp_span *below, before; /* what findings are named from, and were */
	size_t first_error;              /* kept since it was opened */
};

/* A file, a subdirectory, or files of the directory that its family does not read. */
static bool open_child(struct opening *opening, const struct fsdp_folder *folder,
	const struct fsdp_child *child, struct inside *inside,
	struct fsdp_error **ret_error)
{
	struct fsdp_entry entry;
	if (child->name.size == 0) {
		inside->look.folder = folder;
		inside->family = fsdp_registry_find(child->as);
		return true;
	}
	if (fsdp_folder_find(folder, child->name, &entry) &&
		(entry.kind == FSDP_ENTRY_DIRECTORY ||
			entry.kind == FSDP_ENTRY_LINK_DIRECTORY)) {
		/* While it is read, its files are named from the root on. */
		struct fsdp_checkpoint *checkpoint = opening->checkpoint;
		struct fsdp_span before = checkpoint->model.findings.below;
		size_t size = before.size + child->name.size + 1;
		char *path = fsdp_arena_take(&checkpoint->arena, size + 1, 1);
		if (path == NULL)
			return fsdp_arena_fail(&checkpoint->arena, ret_error);
		if (!fsdp_folder_open_child(folder, child->name, opening->reading.scratch,
			    &checkpoint->limits, &inside->dir, &inside->folder,
			    ret_error))
			return false;
		if (before.size != 0)
			memcpy(path, before.data, before.size);
		memcpy(path + before.size, child->name.data, child->name.size);
		path[size - 1] = '/';
		inside->before = before;
		inside->below = &checkpoint->model.findings.below;
		*inside->below = fsdp_span(path, size);
		inside->first_error = checkpoint->errors.count;
		inside->look.folder = &inside->folder;
		inside->family = child->as != NULL ? fsdp_registry_find(child->as)
						   : fsdp_registry_choose(&inside->look);
		return inside->family != NULL || fsdp_foreign(&inside->look, ret_error);
	}
	struct fsdp_source source;
	if (!fsdp_folder_source(folder, child->name, &source, ret_error) ||
		!fsdp_look_at_head(
			&source, child->name, opening->head, &inside->look, ret_error))
		return false;
	inside->family = fsdp_registry_choose(&inside->look);
	if (inside->family == NULL)
		return fsdp_foreign(&inside->look, ret_error);
	fsdp_registry_check_name(&opening->reading, &inside->look, inside->family);
	return true;
}

static bool read_below(struct opening *opening, const struct fsdp_family *family,
	const struct fsdp_look *look, unsigned depth, struct fsdp_error **ret_error);

struct placing {
	struct fsdp_model *model;
	size_t first_tensor, first_value;
	struct fsdp_build_place place;
};

static void place_child(void *context)
{
	const struct placing *placing = context;
	fsdp_build_place(placing->model, placing->first_tensor, placing->first_value,
		&placing->place);
}

/* Into the same model as all others. What it needs meanwhile goes with it: there may be
 * many. Of one of many files that repeat what the others say the names are copied, and
 * none of its bytes stay. */
static bool read_child(struct opening *opening, const struct fsdp_folder *folder,
	const struct fsdp_child *child, unsigned depth, struct fsdp_error **ret_error)
{
	struct fsdp_reading *reading = &opening->reading;
	struct fsdp_model *model = reading->model;
	struct placing placing = { model, model->tensors.count, model->values.count,
		{ child->strip, child->below, child->role } };
	struct inside inside = { .below = NULL };
	struct fsdp_arena own, *outer = reading->scratch;
	fsdp_arena_init(&own, outer->budget);
	reading->scratch = &own;
	reading->rank = child->rank;
	bool done = open_child(opening, folder, child, &inside, ret_error);
	bool is_member = done && inside.look.folder == NULL && model->is_set;
	if (is_member) {
		reading->is_one_of_many = true;
		model->names.copies = model->arena;
	}
	if (done) {
		fsdp_vec_init(&reading->children, &own, sizeof(struct fsdp_child));
		reading->state = NULL;
		done = fsdp_family_read(
			       reading, inside.family, &inside.look, ret_error) &&
		       read_below(opening, inside.family, &inside.look, depth, ret_error);
	}
	if (is_member) {
		reading->is_one_of_many = false;
		model->names.copies = NULL;
	}
	if (inside.below != NULL) {
		struct fsdp_span below = *inside.below;
		const char *full =
			inside.dir.path != NULL
				? inside.dir.path
				: fsdp_opening_join(opening, root_path(opening),
					  fsdp_span(below.data, below.size - 1));
		if (full != NULL)
			report_errors_below(opening, inside.first_error, full, ret_error);
		*inside.below = inside.before;
		fsdp_dir_close(&inside.dir);
	}
	fsdp_names_let_go(&model->names);
	reading->scratch = outer;
	fsdp_arena_done(&own);
	return done && fsdp_model_try(model, outer, place_child, &placing, ret_error);
}

/* Without a plan only all files together determine the layout. */
static bool needs_few(const struct opening *opening, const struct fsdp_folder *folder)
{
	size_t plans = opening->options->plan_path != NULL;
	if (folder == NULL || !opening->options->only_ranks ||
		opening->options->no_plan || !opening->checkpoint->model.is_set)
		return false;
	for (size_t i = 0; i < folder->count && opening->options->plan_path == NULL; i++)
		plans += fsdp_plan_has_name(fsdp_folder_entry(folder, i).name);
	return plans == 1;
}

/* A file that is there and is not read. */
static bool note_child(struct opening *opening, const struct fsdp_folder *folder,
	const struct fsdp_child *child, bool is_listed, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = &opening->checkpoint->model;
	struct fsdp_entry entry;
	struct fsdp_source source;
	/* A name with directories is not in the list of the directory. */
	if (!fsdp_folder_find(folder, child->name, &entry)) {
		if (!fsdp_folder_source(folder, child->name, &source, NULL))
			return true;
		entry.size = source.size;
	}
	uint32_t id = fsdp_build_file(model, child->name, entry.size, child->rank);
	if (id == FSDP_NONE)
		return fsdp_model_fail(model, ret_error);
	fsdp_model_file(model, id)->is_listed = is_listed;
	model->is_unstated |=
		is_listed && child->rank != FSDP_NONE && child->role != FSDP_ROLE_OTHER;
	return true;
}

/* The children that the family named, then its end. The depth of checkpoints in
 * checkpoints is a limit, so this may call itself. */
static bool read_below(struct opening *opening, const struct fsdp_family *family,
	const struct fsdp_look *look, unsigned depth, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_reading *reading = &opening->reading;
	uint64_t most = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_CHILDREN);
	uint64_t deepest = fsdp_limit(&checkpoint->limits, FSDP_LIMIT_NESTING);
	struct fsdp_vec children = reading->children;
	void *state = reading->state;
	opening->child_count += children.count;
	if (opening->child_count > most)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_CHILDREN, most);
	if (children.count != 0 && depth >= fsdp_min(deepest, NESTING_MAX))
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_NESTING, deepest);
	/* One that is damaged costs itself. */
	bool few = needs_few(opening, look->folder);
	size_t failed = 0;
	for (size_t i = 0; i < children.count; i++) {
		const struct fsdp_child *child = fsdp_vec_at(&children, i);
		struct fsdp_error *error = NULL;
		bool skipped = few && i != 0 && child->rank != FSDP_NONE;
		for (size_t k = 0; k < opening->options->rank_count && skipped; k++)
			skipped = opening->options->ranks[k] != child->rank;
		if (child->is_aside) {
			if (opening->options->look_beside &&
				!fsdp_look_aside(
					opening, look->folder, child->name, ret_error))
				return false;
			continue;
		}
		bool listed = look->folder != NULL &&
			      fsdp_folder_is_listed(look->folder, child->name);
		if (skipped || listed
				? note_child(opening, look->folder, child, listed, &error)
				: read_child(opening, look->folder, child, depth + 1,
					  &error))
			continue;
		if (child->name.size != 0)
			fsdp_error_add_path(&error, (const char *)child->name.data);
		bool fatal = fsdp_error_code(error) == FSDP_ERROR_MEMORY ||
			     fsdp_error_code(error) == FSDP_ERROR_LIMIT;
		if (fatal || ++failed == children.count) {
			*ret_error = error;
			return false;
		}
		fsdp_reading_keep_error(&opening->reading, error);
	}
	reading->children = children;
	reading->state = state;
	return fsdp_family_read(reading, family, NULL, ret_error);
}

enum fsdp_outcome fsdp_opening_read(
	struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	const struct fsdp_look *look = &opening->look;
	const struct fsdp_family *family = NULL;
	bool read = false;
	opening->reading = (struct fsdp_reading){
		.model = &checkpoint->model,
		.scratch = &opening->scratch,
		.limits = &checkpoint->limits,
		.read_values = opening->options->read_values,
		.value_names = opening->options->value_names,
		.value_name_count = opening->options->value_name_count,
		.may_count = checkpoint->model.only_counts && !checkpoint->is_folder &&
			     strcmp(opening->path, "-") != 0,
		.named = opening->path_count > 1,
		.rank = FSDP_NONE,
		.errors = &checkpoint->errors,
		.notes = &checkpoint->notes,
	};
	fsdp_vec_init(
		&opening->reading.children, &opening->scratch, sizeof(struct fsdp_child));
	if (opening->path_count == 0)
		return fsdp_opening_outcome(
			opening, fsdp_unit_source(opening, ret_error));
	family = fsdp_registry_choose(look);
	if (family == NULL) {
		fsdp_foreign(look, ret_error);
	} else {
		if (!family->is_beside && fsdp_opening_has_set(opening, false))
			return FSDP_IS_ONE_OF_SET;
		fsdp_registry_check_name(&opening->reading, look, family);
		read = fsdp_family_read(&opening->reading, family, look, ret_error);
		if (read && opening->reading.ranks_recorded != 0 &&
			checkpoint->model.world_size > 1 &&
			fsdp_opening_has_set(opening, true))
			return FSDP_IS_ONE_OF_SET;
		read = read && read_below(opening, family, look, 0, ret_error);
	}
	if (checkpoint->is_folder)
		report_errors_below(opening, 0, root_path(opening), ret_error);
	return fsdp_opening_outcome(opening, read);
}

enum fsdp_outcome fsdp_opening_complete(
	struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	if (checkpoint->model.plan_only && opening->path_count != 0)
		checkpoint->plan_path = opening->path;
	bool read = !opening->options->read_values || counter_read(checkpoint, ret_error);
	return fsdp_opening_outcome(opening, read && read_plan(opening, ret_error));
}
