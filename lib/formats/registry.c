/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice among the families of families.def.
 */
#include "base/sort.h"
#include "formats/format.h"
#include "syntax/json-tree.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- the choice ---- */

#define COUNT FSDP_COUNT(families)

static const struct {
	const struct fsdp_family *family;
	unsigned char bids[FSDP_SIGN_COUNT];
} families[] = {
#define FSDP_FAMILY(name, sure, likely, weak) \
	{ &fsdp_family_##name, { 0, sure, likely, weak } },
#include "formats/families.def"
#undef FSDP_FAMILY
};

const struct fsdp_family *fsdp_registry_at(size_t index)
{
	return index < COUNT ? families[index].family : NULL;
}

unsigned fsdp_registry_bid(size_t index, enum fsdp_sign sign)
{
	return families[index].bids[sign];
}

const struct fsdp_family *fsdp_registry_find(const char *name)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(families[i].family->name, name) == 0)
			return families[i].family;
	return NULL;
}

const struct fsdp_family *fsdp_registry_choose(const struct fsdp_look *look)
{
	const struct fsdp_family *best = NULL;
	unsigned highest = 0;
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_family *family = families[i].family;
		if (family->recognize == NULL || family->read == NULL)
			continue;
		unsigned bid = families[i].bids[family->recognize(look)];
		if (bid > highest) {
			highest = bid;
			best = family;
		}
	}
	for (size_t i = 0; i < COUNT && best == NULL && look->folder == NULL; i++)
		if (families[i].family->recognize_end != NULL &&
			families[i].family->recognize_end(look))
			best = families[i].family;
	return best;
}

const struct fsdp_family *fsdp_registry_lead(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	for (size_t i = 0; i < COUNT; i++)
		if (families[i].family->leads_to != NULL &&
			families[i].family->recognize(&look) != FSDP_SIGN_NONE)
			return families[i].family;
	return NULL;
}

const struct fsdp_family *fsdp_registry_find_anchor(
	const struct fsdp_folder *folder, struct fsdp_span name)
{
	struct fsdp_look look = { .folder = folder };
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_family *family = families[i].family;
		if (family->is_anchor != NULL && family->is_anchor(name) &&
			fsdp_registry_choose(&look) == family)
			return family;
	}
	return NULL;
}

bool fsdp_registry_may_anchor(struct fsdp_span name)
{
	for (size_t i = 0; i < COUNT; i++)
		if (families[i].family->is_anchor != NULL &&
			families[i].family->is_anchor(name))
			return true;
	return false;
}

bool fsdp_registry_is_data(struct fsdp_span name)
{
	for (size_t i = 0; i < COUNT; i++) {
		const char *suffix = families[i].family->data_suffix;
		if (suffix != NULL && fsdp_span_ends(name, fsdp_span_text(suffix)))
			return true;
	}
	return false;
}

/* The family that loaders take a file of this name for; NULL: they look inside. */
static const struct fsdp_family *of_suffix(struct fsdp_span name)
{
	for (size_t i = 0; i < COUNT; i++) {
		const struct fsdp_family *family = families[i].family;
		if (family->suffix != NULL &&
			fsdp_span_ends(name, fsdp_span_text(family->suffix)))
			return family;
	}
	return NULL;
}

/* Names after which loaders choose how to read; torch 2.13 does so too. */
void fsdp_registry_check_name(struct fsdp_reading *reading, const struct fsdp_look *look,
	const struct fsdp_family *family)
{
	struct fsdp_findings *findings = &reading->model->findings;
	const struct fsdp_family *named = of_suffix(look->path);
	if (look->folder != NULL || named == family)
		return;
	if (named != NULL)
		fsdp_find(findings, FSDP_RULE_CONTENT_EXTENSION,
			FSDP_PLACE(.file = look->path, .severity = FSDP_ERROR + 1),
			"it is called %s and is another format: %s", named->suffix,
			family->title);
	else if (family->suffix != NULL &&
		 fsdp_span_ends_any(look->path, ".bin .pt .pth .ckpt .pkl"))
		fsdp_find(findings, FSDP_RULE_CONTENT_EXTENSION,
			FSDP_PLACE(.file = look->path),
			"the name is that of a torch.save file, but the content is %s",
			family->name);
}

bool fsdp_registry_has_ranks(const char *format)
{
	for (size_t i = 0; format != NULL && i < COUNT; i++) {
		const char *const *rankless = families[i].family->rankless;
		for (; rankless != NULL && *rankless != NULL; rankless++)
			if (strcmp(*rankless, format) == 0)
				return false;
	}
	return true;
}

/* ---- what an input could mean ---- */

enum { LISTED = 5, DOCUMENT_BYTES = 1 << 20 };

void fsdp_candidates_add(
	struct fsdp_candidates *candidates, const struct fsdp_entry *entry)
{
	size_t at = strlen(candidates->list);
	candidates->last = *entry;
	if (candidates->count++ < LISTED)
		snprintf(candidates->list + at, sizeof candidates->list - at, "%s%s",
			at == 0 ? "" : ", ", (const char *)entry->name.data);
}

bool fsdp_candidates_fail(const struct fsdp_candidates *candidates, const char *what,
	struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"this directory contains %s%zu %s (%s%s)",
		candidates->is_cut ? "at least " : "", candidates->count, what,
		candidates->list, candidates->count > LISTED ? ", …" : "");
	return fsdp_error_add_hint(ret_error, "give one of them");
}

/* ---- what families do while they read ---- */

struct fsdp_child *fsdp_reading_add_child(
	struct fsdp_reading *reading, struct fsdp_span name, uint32_t rank)
{
	struct fsdp_child *child = fsdp_vec_push(&reading->children);
	*child = (struct fsdp_child){ .name = name, .rank = rank, .role = -1 };
	return child;
}

void fsdp_reading_order_children(struct fsdp_reading *reading, size_t first)
{
	size_t count = reading->children.count - first;
	struct fsdp_child *sorted = FSDP_TAKE(reading->scratch, sorted, count + 1);
	for (size_t i = 0; i < count; i++)
		sorted[i] = *(const struct fsdp_child *)fsdp_vec_at(
			&reading->children, first + i);
	FSDP_SORT(sorted, count, FSDP_BY(sorted, rank), FSDP_BY(sorted, name));
	for (size_t i = 0; i < count; i++)
		*(struct fsdp_child *)fsdp_vec_at(&reading->children, first + i) =
			sorted[i];
}

bool fsdp_parts_are_in(const struct fsdp_folder *folder,
	const struct fsdp_named_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_pattern_in(folder, parts[i].kind, parts[i].pattern))
			return true;
	return false;
}

static void add_part(struct fsdp_reading *reading, const struct fsdp_named_part *part,
	struct fsdp_span name, const uint32_t *numbers)
{
	uint32_t index = part->index != 0 ? numbers[part->index - 1] : FSDP_NONE;
	uint32_t rank = part->rank != 0 ? numbers[part->rank - 1] : FSDP_NONE;
	struct fsdp_child *child = fsdp_reading_add_child(reading, name, rank);
	child->strip = fsdp_span_text(part->strip);
	child->role = part->role;
	reading->model->is_set |= rank != FSDP_NONE;
	/* What the names of a part begin with: of a model or optimizer nothing, unless it
	 * is a further one. */
	char text[64];
	bool bare = index == FSDP_NONE;
	int size = snprintf(text, sizeof text, bare ? "%s" : "%s_%u", part->below, index);
	if (*part->below == '\0' ||
		(part->role != FSDP_ROLE_OTHER && (index == 0 || bare)))
		return;
	child->below =
		fsdp_arena_copy(reading->model->arena, fsdp_span(text, (size_t)size));
}

void fsdp_reading_add_parts(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, const struct fsdp_named_part *parts,
	size_t count)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0; i < count; i++) {
		size_t first = reading->children.count;
		FSDP_EACH(k, folder->count, entry, fsdp_folder_entry(folder, k))
			if (entry.kind == parts[i].kind &&
				fsdp_pattern_takes(entry.name, parts[i].pattern, numbers))
				add_part(reading, &parts[i], entry.name, numbers);
		fsdp_reading_order_children(reading, first);
	}
}

const struct fsdp_json *fsdp_reading_document(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, const char *name, struct fsdp_error **ret_error)
{
	const struct fsdp_json *root = NULL;
	struct fsdp_source source;
	struct fsdp_span bytes;
	if (fsdp_folder_has(folder, name, FSDP_ENTRY_FILE) &&
		fsdp_folder_source(folder, fsdp_span_text(name), &source, ret_error) &&
		source.size <= DOCUMENT_BYTES &&
		fsdp_source_read_all(
			&source, 0, source.size, reading->scratch, &bytes, ret_error) &&
		fsdp_json_read_of_python(
			bytes, reading->limits, reading->scratch, &root, ret_error))
		return root;
	return NULL;
}

/* A step of a family. */
struct step {
	struct fsdp_reading *reading;
	const struct fsdp_family *family;
	const struct fsdp_look *look;
	struct fsdp_error **ret_error;
	bool good;
};

static void run_step(void *context)
{
	struct step *step = context;
	step->good = step->look == NULL ||
		     step->family->read(step->reading, step->look, step->ret_error);
	if (step->look == NULL)
		step->family->finish(step->reading);
}

bool fsdp_family_read(struct fsdp_reading *reading, const struct fsdp_family *family,
	const struct fsdp_look *look, struct fsdp_error **ret_error)
{
	struct step step = { reading, family, look, ret_error, false };
	struct fsdp_names *names = &reading->model->names;
	struct fsdp_arena *copies = names->copies;
	if (look == NULL && family->finish == NULL)
		return true;
	if (!fsdp_model_try(reading->model, reading->scratch, run_step, &step, ret_error))
		step.good = false;
	names->copies = copies;
	return step.good;
}

void fsdp_reading_note(struct fsdp_reading *reading, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fsdp_arena_hold(reading->model->arena);
	struct fsdp_span copy =
		fsdp_arena_copy(reading->model->arena, fsdp_span_text(text));
	const char **place = copy.data != NULL ? fsdp_vec_push(reading->notes) : NULL;
	fsdp_arena_resume(reading->model->arena);
	if (place == NULL)
		reading->model->findings.lost = true;
	else
		*place = (const char *)copy.data;
}

enum { NAMES_LISTED = 3, NAME_SHOWN = 64 };

void fsdp_name_list_add(struct fsdp_name_list *list, struct fsdp_span name)
{
	if (list->count++ < NAMES_LISTED)
		list->length += (size_t)snprintf(list->text + list->length,
			sizeof list->text - list->length, "%s%.*s",
			list->count > 1 ? ", " : "", FSDP_TEXT_MOST(name, NAME_SHOWN));
}

const char *fsdp_name_list_text(struct fsdp_name_list *list)
{
	if (list->count > NAMES_LISTED)
		snprintf(list->text + list->length, sizeof list->text - list->length,
			" and %zu more", list->count - NAMES_LISTED);
	return list->text;
}

void fsdp_reading_keep_error(struct fsdp_reading *reading, struct fsdp_error *error)
{
	fsdp_arena_hold(reading->model->arena);
	struct fsdp_error **place = error != NULL ? fsdp_vec_push(reading->errors) : NULL;
	fsdp_arena_resume(reading->model->arena);
	if (place == NULL) {
		/* Losing one of these would be silence: the model refuses to freeze. */
		reading->model->findings.lost |= error != NULL;
		fsdp_error_free(error);
		return;
	}
	*place = error;
}

void fsdp_reading_keep_limit(
	struct fsdp_reading *reading, struct fsdp_error **error, struct fsdp_span file)
{
	if (*error == NULL)
		return;
	fsdp_error_add_path(error, (const char *)file.data);
	fsdp_reading_keep_error(reading, *error);
	*error = NULL;
}

const char *fsdp_fix_of_rank(char fix[FSDP_FIX_ROOM], uint32_t rank)
{
	snprintf(fix, FSDP_FIX_ROOM, "copy this file again from the host of rank %u",
		rank);
	return fix;
}

void fsdp_reading_resolve_rank(
	struct fsdp_reading *reading, uint32_t file, uint32_t *rank)
{
	struct fsdp_model *model = reading->model;
	struct fsdp_file_record *record = fsdp_model_file(model, file);
	uint32_t named = reading->rank;
	char fix[FSDP_FIX_ROOM];
	reading->ranks_recorded += *rank != FSDP_NONE;
	if (*rank == FSDP_NONE)
		*rank = named;
	else if (named != FSDP_NONE && named != *rank && !reading->checks_ranks)
		fsdp_find(&model->findings, FSDP_RULE_RANK_IDENTITY,
			FSDP_PLACE(.file = record->path, .rank = *rank,
				.fix = fsdp_fix_of_rank(fix, named)),
			"contains the data of rank %u instead of rank %u", *rank, named);
	record->rank = *rank;
	record->named_rank = named;
}

void fsdp_reading_resolve_world(
	struct fsdp_reading *reading, uint32_t file, uint32_t world_size, bool whole)
{
	struct fsdp_model *model = reading->model;
	struct fsdp_file_record *record = fsdp_model_file(model, file);
	record->world_size = world_size;
	record->world_whole = whole;
	if (world_size != FSDP_NONE &&
		(model->world_size == FSDP_NONE || model->world_size < world_size))
		model->world_size = world_size;
}
