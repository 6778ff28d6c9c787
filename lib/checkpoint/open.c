/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens what the user named: what the paths mean, sets of rank files, several files as
 * one checkpoint, and pickles of an input that does not open. Closes a checkpoint.
 */
#include <stdlib.h>
#include <unistd.h>

#include <fsdp/checkpoint.h>

#include "base/num.h"
#include "checkpoint/opening.h"

/* ---- What the steps share: their outcome, paths, and sets of rank files ---- */

enum fsdp_outcome fsdp_opening_outcome(const struct opening *opening, bool good)
{
	return good                                       ? FSDP_OPENED
	       : opening->checkpoint->model.needs_records ? FSDP_NEEDS_RECORDS
							  : FSDP_FAILED;
}

void fsdp_opening_must(struct opening *opening, bool good)
{
	struct fsdp_error *error = opening->error;
	opening->error = NULL;
	if (!good)
		fsdp_model_leave(&opening->checkpoint->model, error);
}

const char *fsdp_opening_join(
	struct opening *opening, const char *root, struct fsdp_span name)
{
	size_t size = strlen(root);
	while (size > 1 && root[size - 1] == '/')
		size--;
	char *path =
		fsdp_arena_take(&opening->checkpoint->arena, size + 1 + name.size + 1, 1);
	if (path == NULL)
		return NULL;
	memcpy(path, root, size);
	if (size != 0 && path[size - 1] != '/')
		path[size++] = '/';
	memcpy(path + size, name.data, name.size);
	path[size + name.size] = '\0';
	return path;
}

void fsdp_opening_report(const struct opening *opening, const char *path)
{
	if (opening->options->belongs != NULL)
		opening->options->belongs(opening->options->belongs_context, path);
}

bool fsdp_opening_has_set(struct opening *opening, bool has_hint)
{
	struct fsdp_folder folder;
	bool sure = false;
	if (opening->as_set || opening->path_count != 1 ||
		opening->options->single_file || opening->options->slice ||
		!opening->has_beside || opening->wrapped != 0 ||
		opening->look.folder != NULL)
		return false;
	fsdp_folder_of_dir(&folder, &opening->beside);
	uint32_t *positions = FSDP_TAKE(&opening->scratch, positions, folder.count + 1);
	return positions != NULL &&
	       fsdp_rank_siblings(&folder,
		       fsdp_span_last(fsdp_span_text(opening->path), '/'), positions,
		       &sure) > 1 &&
	       (sure || has_hint);
}

bool fsdp_look_at_head(const struct fsdp_source *source, struct fsdp_span path,
	unsigned char *head, struct fsdp_look *ret_look, struct fsdp_error **ret_error)
{
	size_t size = (size_t)fsdp_min(source->size, FSDP_HEAD_BYTES);
	if (!fsdp_source_read(source, 0, head, size, ret_error))
		return false;
	*ret_look = (struct fsdp_look){
		.path = path,
		.source = *source,
		.head = fsdp_span(head, size),
	};
	return true;
}

/* ---- Files of an open checkpoint, and its end ---- */

bool fsdp_checkpoint_source_in(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_folder *folder, uint32_t file, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	const struct fsdp_file_record *record = fsdp_model_file(&checkpoint->model, file);
	if (record->size == FSDP_UNKNOWN)
		return fsdp_fail(
			ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN, "the file is absent");
	if (!checkpoint->is_folder || record->is_tar) {
		*ret_source = checkpoint->source;
		return true;
	}
	if (fsdp_folder_source(folder, record->path, ret_source, ret_error))
		return true;
	return fsdp_error_add_path(ret_error, (const char *)record->path.data);
}

bool fsdp_checkpoint_source(const struct fsdp_checkpoint *checkpoint, uint32_t file,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	return fsdp_checkpoint_source_in(
		checkpoint, &checkpoint->folder, file, ret_source, ret_error);
}

uint64_t fsdp_checkpoint_holes(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_source source;
	uint64_t total = 0, begin, end;
	for (uint32_t i = 0; i < checkpoint->model.files.count; i++)
		if (fsdp_checkpoint_source(checkpoint, i, &source, NULL))
			for (end = 0; fsdp_source_find_hole(&source, end, &begin, &end);)
				total += end - begin;
	return total;
}

bool fsdp_checkpoint_last_token(const struct fsdp_checkpoint *checkpoint,
	uint64_t *ret_number, const char **ret_file, const char **ret_token)
{
	*ret_number = checkpoint->last_token.number;
	*ret_file = checkpoint->last_token.file;
	*ret_token = checkpoint->last_token.token;
	return *ret_token != NULL;
}

uint64_t fsdp_checkpoint_room(
	const struct fsdp_checkpoint *const *checkpoints, size_t count)
{
	const struct fsdp_budget *budgets[2];
	for (size_t i = 0; i < count && i < FSDP_COUNT(budgets); i++)
		budgets[i] = &checkpoints[i]->budget;
	return fsdp_budget_room(budgets, fsdp_min(count, FSDP_COUNT(budgets)));
}

const struct fsdp_folder *fsdp_checkpoint_place(const struct fsdp_checkpoint *checkpoint)
{
	bool any = checkpoint->is_folder ||
		   (checkpoint->has_dir && checkpoint->folder.dir != NULL);
	return any ? &checkpoint->folder : NULL;
}

void fsdp_checkpoint_keep_open(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_source source;
	if (checkpoint->is_folder || checkpoint->model.files.count == 0)
		return;
	(void)fsdp_folder_source(fsdp_checkpoint_place(checkpoint),
		fsdp_model_file(&checkpoint->model, 0)->path, &source, NULL);
}

void fsdp_checkpoint_free(struct fsdp_checkpoint *checkpoint)
{
	if (checkpoint == NULL)
		return;
	for (size_t i = 0; i < checkpoint->errors.count; i++)
		fsdp_error_free(
			*(struct fsdp_error **)fsdp_vec_at(&checkpoint->errors, i));
	if (checkpoint->has_dir)
		fsdp_dir_close(&checkpoint->dir);
	else if (checkpoint->source.fd >= 0)
		close(checkpoint->source.fd);
	fsdp_arena_done(&checkpoint->arena);
	free(checkpoint);
}

/* ---- Files of something that did not open, looked through for harmful pickles ---- */

enum { FILES_MOST = 64 };

struct looking {
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *scratch;
	size_t looks;
	/* Files of the model by their paths, which are names of it here: from the last
	 * component to the first. */
	struct fsdp_table files;
	uint32_t known; /* so many files are in the table */
};

/* Takes the last component off a path. *ret_more: others are before it. */
static struct fsdp_span cut_component(struct fsdp_span *path, bool *ret_more)
{
	struct fsdp_span last = fsdp_span_last(*path, '/');
	*ret_more = last.size < path->size;
	path->size -= last.size + *ret_more;
	return last;
}

/* Whether a file of this name was read. A member's name may begin with directories that
 * were entered since. */
static bool was_read(struct looking *looking, struct fsdp_span name, bool *ret_read,
	struct fsdp_error **ret_error)
{
	const struct fsdp_names *names = &looking->checkpoint->model.names;
	uint64_t steps = 0;
	uint32_t id = 0;
	*ret_read = false;
	/* Adds the paths of files that were read since it was last called. */
	struct fsdp_checkpoint *checkpoint = looking->checkpoint;
	struct fsdp_model *model = &checkpoint->model;
	for (; looking->known < model->files.count; looking->known++) {
		struct fsdp_span rest = fsdp_model_file(model, looking->known)->path;
		uint64_t path_steps = 0;
		uint32_t path_id = 0;
		for (bool more = true; more && path_id != FSDP_NONE; path_steps++)
			path_id = fsdp_names_child(
				&model->names, path_id, cut_component(&rest, &more));
		if (path_id == FSDP_NONE ||
			!fsdp_table_set(&looking->files, path_id, looking->known))
			return fsdp_arena_fail(looking->scratch, ret_error);
		if (!fsdp_budget_work(&checkpoint->budget, path_steps, ret_error))
			return false;
	}
	for (bool more = true; more && id != FSDP_NONE && !*ret_read; steps++) {
		id = fsdp_names_find_child(names, id, cut_component(&name, &more));
		*ret_read = fsdp_table_get(&looking->files, id) != FSDP_NONE;
	}
	return fsdp_budget_work(&looking->checkpoint->budget, steps, ret_error);
}

/* An unreadable file does not stop the checks, and does not count as good. Takes the
 * error over. */
static void pass_over(
	struct looking *looking, struct fsdp_span name, struct fsdp_error *error)
{
	if (error != NULL)
		fsdp_find(&looking->checkpoint->model.findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = name), "skipped its pickles: %s",
			fsdp_error_message(error));
	fsdp_error_free(error);
}

static void look_at(
	struct looking *looking, struct fsdp_span name, const struct fsdp_source *source)
{
	struct fsdp_checkpoint *checkpoint = looking->checkpoint;
	unsigned char head[FSDP_HEAD_BYTES];
	struct fsdp_look look;
	struct fsdp_error *error = NULL;
	if (!fsdp_look_at_head(source, name, head, &look, &error)) {
		pass_over(looking, name, error);
		return;
	}
	const struct fsdp_family *family = fsdp_registry_choose(&look);
	if (family == NULL || !family->has_pickles)
		return;
	struct fsdp_reading reading = {
		.model = &checkpoint->model,
		.scratch = looking->scratch,
		.is_one_of_many = true,
		.limits = &checkpoint->limits,
		.rank = FSDP_NONE,
		.errors = &checkpoint->errors,
		.notes = &checkpoint->notes,
	};
	fsdp_vec_init(&reading.children, looking->scratch, sizeof(struct fsdp_child));
	looking->looks++;
	/* Of its bytes nothing stays, so no name may borrow from them. */
	struct fsdp_names *names = &checkpoint->model.names;
	struct fsdp_arena *copies = names->copies;
	names->copies = checkpoint->model.arena;
	if (!fsdp_family_read(&reading, family, &look, &error))
		pass_over(looking, name, error);
	names->copies = copies;
	fsdp_names_let_go(names);
}

/* The member of the archive, or the entry of the directory, at an index. False: the look
 * ends here. */
static bool look_at_entry(
	struct looking *looking, size_t index, struct fsdp_span *ret_name)
{
	struct fsdp_checkpoint *checkpoint = looking->checkpoint;
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	bool read;
	if (checkpoint->packed.count != 0) {
		const struct fsdp_packed *member =
			fsdp_vec_at(&checkpoint->packed, index);
		*ret_name = member->name;
		source = member->source;
	} else {
		struct fsdp_entry entry = fsdp_folder_entry(&checkpoint->folder, index);
		*ret_name = entry.name;
		if (entry.kind != FSDP_ENTRY_FILE)
			return true;
		if (!fsdp_folder_source(
			    &checkpoint->folder, entry.name, &source, &error)) {
			pass_over(looking, entry.name, error);
			return true;
		}
	}
	if (ret_name->data == NULL || fsdp_registry_is_data(*ret_name))
		return true;
	if (!was_read(looking, *ret_name, &read, &error)) {
		fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = *ret_name),
			"its pickles and those of later files were not checked: %s",
			fsdp_error_message(error));
		fsdp_error_free(error);
		return false;
	}
	if (!read)
		look_at(looking, *ret_name, &source);
	return true;
}

void fsdp_look_through(struct fsdp_checkpoint *checkpoint, struct fsdp_arena *scratch)
{
	struct looking looking = { .checkpoint = checkpoint, .scratch = scratch };
	bool needs_records = checkpoint->model.needs_records;
	size_t packed = checkpoint->packed.count;
	size_t files = checkpoint->is_folder ? checkpoint->folder.count : 0;
	size_t count = packed != 0 ? packed : files, i = 0;
	struct fsdp_span name = { 0 };
	fsdp_table_init(&looking.files, scratch);
	while (i < count && looking.looks < FILES_MOST &&
		look_at_entry(&looking, i, &name))
		i++;
	if (i < count && looking.looks == FILES_MOST)
		fsdp_find(&checkpoint->model.findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = name),
			"this is the last of %u files whose pickles were checked; those of later files were not",
			(unsigned)FILES_MOST);
	/* It is not to be opened again. */
	checkpoint->model.needs_records = needs_records;
}

/*
 * Opens a checkpoint: finds what the paths mean, has it entered and read, and freezes it.
 */

/* ---- several files as one checkpoint ---- */

/* Only these files of the directory; the rest is ignored. */
static void look_at_picked(struct opening *opening, const struct fsdp_pick *pick)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	opening->path = pick->folder;
	opening->folder_path = pick->folder;
	checkpoint->base = pick->folder[0] != '\0' ? pick->folder : ".";
	fsdp_folder_pick(
		&checkpoint->folder, &checkpoint->dir, pick->positions, pick->count);
	fsdp_opening_set_folder(opening);
}

/* Whether these files are only parts of their directory. */
static bool anchor_folder(
	const struct fsdp_folder *picked, const struct fsdp_folder *whole)
{
	const struct fsdp_family *family =
		fsdp_registry_find_anchor(whole, fsdp_folder_entry(picked, 0).name);
	if (family == NULL || family->one_is_enough)
		return false;
	for (size_t i = 1; i < picked->count; i++)
		if (!family->is_anchor(fsdp_folder_entry(picked, i).name))
			return false;
	return true;
}

/* Reports the files that are read in addition to the named one. */
static void report_siblings(struct opening *opening)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_span own = fsdp_span_last(fsdp_span_text(opening->paths[0]), '/');
	const char *first = "", *last = "";
	size_t count = 0;
	for (size_t i = 0; i < checkpoint->folder.count; i++) {
		struct fsdp_span name = fsdp_folder_entry(&checkpoint->folder, i).name;
		if (fsdp_span_equal(name, own))
			continue;
		const char *path =
			strchr(opening->paths[0], '/') != NULL
				? fsdp_opening_join(opening, opening->path, name)
				: (const char *)name.data;
		fsdp_vec_append(&checkpoint->siblings, &path);
		fsdp_opening_report(opening, path);
		last = (const char *)name.data;
		if (count++ == 0)
			first = last;
	}
	fsdp_reading_note(&opening->reading,
		"%s is one file of a set: %zu more %s read too (%s%s%s); --separate reads it alone",
		opening->paths[0], count, count == 1 ? "was" : "were", first,
		count == 1  ? ""
		: count > 2 ? " … "
			    : ", ",
		count == 1 ? "" : last);
}

/* ---- opening what the user named ---- */

static void open_directory(struct opening *opening)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	fsdp_opening_must(opening,
		fsdp_dir_open(checkpoint->remote, opening->path, &checkpoint->arena,
			&checkpoint->limits, &checkpoint->dir, &opening->error));
	checkpoint->has_dir = true;
	opening->folder_path = opening->path;
	if (opening->options->listing_path != NULL) {
		fsdp_listing_open(opening);
		return;
	}
	fsdp_folder_of_dir(&checkpoint->folder, &checkpoint->dir);
	fsdp_opening_set_folder(opening);
}

/* The directory of a file, which may contain its plan. If it cannot be listed the file is
 * still opened, unless it needs the directory: the error is kept. False: out of memory.
 */
static void open_beside(struct opening *opening)
{
	const char *slash = strrchr(opening->path, '/');
	const char *parent = NULL;
	if (slash != NULL) {
		size_t size =
			slash == opening->path ? 1 : (size_t)(slash - opening->path);
		parent = (const char *)fsdp_arena_copy(
			&opening->scratch, fsdp_span(opening->path, size))
				 .data;
	}
	opening->beside_path = parent != NULL ? parent : "";
	opening->has_beside = fsdp_dir_open_names(opening->checkpoint->remote,
		parent != NULL ? parent : ".", &opening->scratch,
		&opening->checkpoint->limits, &opening->beside, &opening->beside_error);
	if (!opening->has_beside &&
		fsdp_error_code(opening->beside_error) == FSDP_ERROR_MEMORY)
		fsdp_model_leave(&opening->checkpoint->model, NULL);
}

/* The directory without the files that represent it, or would be taken instead, and that
 * the user did not name. */
static void hide_others(
	struct opening *opening, const struct fsdp_family *family, struct fsdp_span name)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	size_t count = 0, all = checkpoint->folder.count;
	uint32_t *picked = FSDP_TAKE(&checkpoint->arena, picked, all + 1);
	FSDP_EACH(i, all, other, fsdp_folder_entry(&checkpoint->folder, i).name) {
		bool competes = family->is_anchor(other) ||
				(family->is_rival != NULL && family->is_rival(other));
		if (!competes || fsdp_span_equal(other, name))
			picked[count++] = (uint32_t)i;
	}
	if (count != all)
		fsdp_folder_pick(&checkpoint->folder, &checkpoint->dir, picked, count);
}

/* Some files represent their directory: that is opened. */
static void open_whole_directory(struct opening *opening)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_span name = fsdp_span_last(fsdp_span_text(opening->path), '/');
	struct fsdp_folder folder;
	if (!opening->has_beside && checkpoint->source.remote != NULL &&
		fsdp_registry_may_anchor(name)) {
		fsdp_error_free(opening->beside_error);
		opening->beside_error = NULL;
		fsdp_fail(&opening->error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			"one file of a checkpoint in a directory, and HTTP has no directories");
		fsdp_error_add_hint(&opening->error,
			"download the directory, or name it at s3://, gs://, az:// or hf://");
		fsdp_opening_must(opening, false);
	}
	if (!opening->has_beside || opening->options->slice)
		return;
	fsdp_folder_of_dir(&folder, &opening->beside);
	const struct fsdp_family *family = fsdp_registry_find_anchor(&folder, name);
	if (family == NULL)
		return;
	if (family->check_folder != NULL)
		fsdp_opening_must(
			opening, family->check_folder(&folder, &opening->error));
	fsdp_reading_note(&opening->reading, "opened the directory that contains %s",
		opening->path);
	struct fsdp_span parent = fsdp_span(opening->path,
		name.data == (const unsigned char *)opening->path
			? 0
			: (size_t)((const char *)name.data - opening->path) - 1);
	struct fsdp_span path = fsdp_arena_copy(
		&checkpoint->arena, parent.size != 0 ? parent : FSDP_SPAN("."));
	fsdp_dir_close(&opening->beside);
	opening->has_beside = false;
	if (checkpoint->source.fd >= 0)
		close(checkpoint->source.fd);
	checkpoint->source = (struct fsdp_source){ .fd = -1 };
	opening->path = checkpoint->base = (const char *)path.data;
	fsdp_opening_report(opening, opening->path);
	open_directory(opening);
	if (family->one_is_enough)
		hide_others(opening, family, name);
}

/* The part of the input that was asked for. */
static void cut_slice(struct opening *opening, struct fsdp_source *source)
{
	const struct fsdp_options *options = opening->options;
	if (!options->slice)
		return;
	uint64_t length = options->slice_length;
	if (length == FSDP_UNKNOWN && options->slice_offset <= source->size)
		length = source->size - options->slice_offset;
	fsdp_opening_must(opening, fsdp_source_slice(source, options->slice_offset,
					   length, source, &opening->error));
}

static void open_file(struct opening *opening)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_source source;
	fsdp_opening_must(opening, fsdp_file_open(checkpoint->remote, opening->path,
					   &source, &opening->error));
	checkpoint->source = source;
	fsdp_budget_give(&checkpoint->budget, source.size);
	checkpoint->path = (const char *)fsdp_arena_copy(
		&checkpoint->arena, fsdp_span_text(opening->path))
				   .data;
	const struct fsdp_options *options = opening->options;
	cut_slice(opening, &source);
	fsdp_opening_must(
		opening, fsdp_opening_set_source(opening, source,
				 fsdp_span_last(fsdp_span_text(opening->path), '/')));
	bool is_known = options->no_plan || options->plan_beside != NULL;
	if (!is_known || !options->single_file)
		open_beside(opening);
	open_whole_directory(opening);
}

static void open_input(void *context)
{
	struct opening *opening = context;
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_pick pick;
	if (opening->path_count == 0)
		return;
	if (opening->as_set) {
		/* The set of the one file that was named. */
		fsdp_pick_set(opening, &pick);
		look_at_picked(opening, &pick);
		report_siblings(opening);
		return;
	}
	if (opening->path_count > 1) {
		struct fsdp_folder whole;
		if (opening->options->slice)
			fsdp_opening_must(opening,
				fsdp_fail(&opening->error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
					"a byte range needs one file, but several were given"));
		fsdp_pick_paths(opening, &pick);
		look_at_picked(opening, &pick);
		fsdp_folder_of_dir(&whole, &checkpoint->dir);
		if (anchor_folder(&checkpoint->folder, &whole)) {
			fsdp_reading_note(&opening->reading,
				"opened the directory that contains these files");
			fsdp_opening_report(opening, opening->path);
			checkpoint->folder = whole;
		}
		return;
	}
	if (strcmp(opening->path, "-") == 0) {
		struct fsdp_source source;
		fsdp_opening_must(opening,
			fsdp_source_drain(STDIN_FILENO,
				fsdp_limit(&checkpoint->limits, FSDP_LIMIT_STDIN_BYTES),
				&checkpoint->arena, &source, &opening->error));
		cut_slice(opening, &source);
		fsdp_opening_must(opening,
			fsdp_opening_set_source(opening, source, FSDP_SPAN("-")));
	} else if (fsdp_dir_is(checkpoint->remote, opening->path))
		open_directory(opening);
	else
		open_file(opening);
	fsdp_opening_enter(opening);
}

/* ---- all steps ---- */

/* How it is opened, which only an attempt may show. */
struct attempt {
	bool as_set;       /* the one file as one of a set */
	bool with_records; /* although only counts are asked for */
};

static bool begin(struct opening *opening, const struct attempt *attempt,
	struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	checkpoint->source.fd = -1;
	checkpoint->remote = opening->options->remote;
	opening->reading.remote = checkpoint->remote;
	fsdp_arena_init(&checkpoint->arena, &checkpoint->budget);
	fsdp_arena_init(&opening->scratch, &checkpoint->budget);
	fsdp_vec_init(
		&checkpoint->errors, &checkpoint->arena, sizeof(struct fsdp_error *));
	fsdp_vec_init(&checkpoint->notes, &checkpoint->arena, sizeof(const char *));
	fsdp_vec_init(&checkpoint->siblings, &checkpoint->arena, sizeof(const char *));
	/* All that a remark needs, before anything is read. */
	opening->reading.model = &checkpoint->model;
	opening->reading.notes = &checkpoint->notes;
	opening->reading.limits = &checkpoint->limits;
	opening->as_set = attempt->as_set;
	if (!fsdp_limits_choose(&checkpoint->limits, opening->options->limits,
		    opening->options->limit_count, ret_error))
		return false;
	fsdp_budget_init(&checkpoint->budget, &checkpoint->limits);
	if (!fsdp_build_init(&checkpoint->model, &checkpoint->arena, &checkpoint->limits,
		    ret_error))
		return false;
	checkpoint->model.only_counts =
		opening->options->only_counts && !attempt->with_records;
	checkpoint->model.counts_from = opening->options->only_counts_from;
	return true;
}

/* Nothing is read any more. */
static void end(struct opening *opening)
{
	fsdp_error_free(opening->beside_error);
	if (opening->has_beside)
		fsdp_dir_close(&opening->beside);
	fsdp_arena_done(&opening->scratch);
}

static enum fsdp_outcome freeze(struct opening *opening, struct fsdp_error **ret_error)
{
	struct fsdp_checkpoint *checkpoint = opening->checkpoint;
	struct fsdp_model *model = &checkpoint->model;
	if (!fsdp_model_freeze(model, ret_error))
		return fsdp_opening_outcome(opening, false);
	/* Which metadata was about two names of one tensor. */
	FSDP_ITEMS(struct fsdp_declared, declared, &checkpoint->model.declared)
		if (fsdp_tensor_find(checkpoint, declared->other) == FSDP_NONE)
			declared->tensor = fsdp_tensor_find(checkpoint, declared->kept);
	model->is_rankless = !fsdp_registry_has_ranks(model->format.family);
	if (model->is_unstated && !model->is_rankless)
		model->world_size = FSDP_NONE;
	return FSDP_OPENED;
}

static enum fsdp_outcome open_all(struct opening *opening, struct fsdp_error **ret_error)
{
	enum fsdp_outcome outcome = FSDP_FAILED;
	if (fsdp_model_try(&opening->checkpoint->model, &opening->scratch, open_input,
		    opening, ret_error))
		outcome = fsdp_opening_read(opening, ret_error);
	if (outcome == FSDP_OPENED)
		outcome = fsdp_opening_complete(opening, ret_error);
	if (outcome == FSDP_OPENED && opening->options->look_beside &&
		!fsdp_look_beside(opening, ret_error))
		outcome = FSDP_FAILED;
	if (outcome == FSDP_OPENED && opening->options->count_beside &&
		!fsdp_count_beside(opening, ret_error))
		outcome = FSDP_FAILED;
	/* Not what was typed wrong, nor what was too much already. */
	enum fsdp_error_code code =
		outcome == FSDP_FAILED ? fsdp_error_code(*ret_error) : FSDP_ERROR_USAGE;
	if (opening->options->keep_failed && opening->path_count != 0 &&
		(code == FSDP_ERROR_DAMAGED || code == FSDP_ERROR_UNSUPPORTED ||
			code == FSDP_ERROR_NOT_A_CHECKPOINT))
		fsdp_look_through(opening->checkpoint, &opening->scratch);
	if (outcome == FSDP_FAILED) {
		/* A file that is not a checkpoint may stand for its directory, which was
		 * not seen. */
		struct fsdp_span name =
			fsdp_span_last(fsdp_span_text(opening->path), '/');
		if (opening->beside_error != NULL && fsdp_registry_may_anchor(name) &&
			fsdp_error_code(*ret_error) == FSDP_ERROR_NOT_A_CHECKPOINT) {
			fsdp_error_free(*ret_error);
			*ret_error = opening->beside_error;
			opening->beside_error = NULL;
		}
	}
	/* Memory of reading and memory of freezing are never held together. */
	end(opening);
	if (outcome == FSDP_OPENED)
		outcome = freeze(opening, ret_error);
	if (outcome == FSDP_FAILED) {
		fsdp_fail_memory(ret_error); /* unless there is an error */
		fsdp_error_add_path(ret_error, opening->path);
	}
	return outcome;
}

/* *ret_checkpoint is the result, also if it is not open; NULL: no memory. */
static enum fsdp_outcome open_once(const char *const *paths, size_t count,
	const struct fsdp_options *options, const struct attempt *attempt,
	struct fsdp_checkpoint **ret_checkpoint, struct fsdp_error **ret_error)
{
	enum fsdp_outcome outcome = FSDP_FAILED;
	struct opening *opening = calloc(1, sizeof *opening);
	*ret_checkpoint = opening != NULL ? calloc(1, sizeof **ret_checkpoint) : NULL;
	if (*ret_checkpoint == NULL) {
		free(opening);
		fsdp_fail_memory(ret_error);
		return FSDP_FAILED;
	}
	opening->checkpoint = *ret_checkpoint;
	opening->options = options;
	opening->paths = paths;
	/* A file that was named twice is one file. */
	while (count > 1 && strcmp(paths[count - 1], paths[0]) == 0)
		count--;
	opening->path_count = count;
	opening->path = count != 0 ? paths[0] : options->units_path;
	if (begin(opening, attempt, ret_error))
		outcome = open_all(opening, ret_error);
	else
		end(opening);
	free(opening);
	return outcome;
}

bool fsdp_checkpoint_open(const char *const *paths, size_t count,
	const struct fsdp_options *options, struct fsdp_checkpoint **ret_checkpoint,
	struct fsdp_error **ret_error)
{
	static const struct fsdp_options defaults = { .size = sizeof defaults };
	struct fsdp_error *local = NULL;
	struct attempt attempt = { .as_set = false };
	struct fsdp_checkpoint *checkpoint = NULL;
	enum fsdp_outcome outcome = FSDP_FAILED;
	if (ret_error == NULL)
		ret_error = &local;
	if (options == NULL)
		options = &defaults;
	bool named = count != 0 || options->units_path != NULL;
	if (!named)
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"no checkpoint was named");
	while (named) {
		outcome = open_once(
			paths, count, options, &attempt, &checkpoint, ret_error);
		if (outcome == FSDP_OPENED || outcome == FSDP_FAILED)
			break;
		attempt.as_set |= outcome == FSDP_IS_ONE_OF_SET;
		attempt.with_records |= outcome == FSDP_NEEDS_RECORDS;
		fsdp_checkpoint_free(checkpoint);
		fsdp_error_cleanup(ret_error);
	}
	/* Whether what was found is wanted though nothing was opened. */
	if (outcome == FSDP_OPENED ||
		(options->keep_failed && checkpoint != NULL && (*ret_error) != NULL &&
			fsdp_error_code(*ret_error) != FSDP_ERROR_MEMORY))
		*ret_checkpoint = checkpoint;
	else
		fsdp_checkpoint_free(checkpoint);
	fsdp_error_free(local);
	return outcome == FSDP_OPENED;
}
