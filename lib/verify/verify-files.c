/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that are looked at: which bytes of them the facts speak of, in order, and
 * what else lies in their folder.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/num.h"
#include "verify/verify-private.h"

enum { SNIFFED = 64 };

/* ---- the lists ---- */

static int compare_places(uint32_t file_a, uint64_t at_a, uint32_t file_b, uint64_t at_b,
	uint32_t a, uint32_t b)
{
	if (file_a != file_b)
		return file_a < file_b ? -1 : 1;
	if (at_a != at_b)
		return at_a < at_b ? -1 : 1;
	return a < b ? -1 : a > b;
}

static int compare_extents(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const struct fsdp_extent *of_a = fsdp_model_extent(context, a),
				 *of_b = fsdp_model_extent(context, b);
	return compare_places(of_a->file, of_a->offset, of_b->file, of_b->offset, a, b);
}

static int compare_pieces(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint32_t of_a = fsdp_model_piece(context, a)->extent,
		 of_b = fsdp_model_piece(context, b)->extent;
	int order = of_a == of_b ? 0 : compare_extents(&of_a, &of_b, context);
	return order != 0 ? order : a < b ? -1 : a > b;
}

static int compare_values(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const struct fsdp_value_record *of_a = fsdp_model_value(context, a),
				       *of_b = fsdp_model_value(context, b);
	return compare_places(of_a->file, of_a->offset, of_b->file, of_b->offset, a, b);
}

/* The file that an extent, piece or value lies in, or FSDP_NONE: it has no place. */

static uint32_t file_of_extent(const struct fsdp_model *model, uint32_t extent)
{
	const struct fsdp_extent *record = fsdp_model_extent(model, extent);
	return record->offset != FSDP_UNKNOWN ? record->file : FSDP_NONE;
}

static uint32_t file_of_piece(const struct fsdp_model *model, uint32_t piece)
{
	uint32_t extent = fsdp_model_piece(model, piece)->extent;
	return extent != FSDP_NONE ? file_of_extent(model, extent) : FSDP_NONE;
}

static uint32_t file_of_value(const struct fsdp_model *model, uint32_t value)
{
	const struct fsdp_value_record *record = fsdp_model_value(model, value);
	return record->offset != FSDP_UNKNOWN ? record->file : FSDP_NONE;
}

struct list_kind {
	uint32_t (*file_of)(const struct fsdp_model *, uint32_t);
	int (*compare)(const void *, const void *, void *);
};

static const struct list_kind by_extent = { file_of_extent, compare_extents },
			      by_piece = { file_of_piece, compare_pieces },
			      by_value = { file_of_value, compare_values };

/* Most parts are in order already. */
static void sort_part(uint32_t *list, size_t count, const struct list_kind *kind,
	const struct fsdp_model *model)
{
	union {
		const void *given;
		void *taken;
	} context = { model };
	size_t i = 1;
	while (i < count && kind->compare(&list[i - 1], &list[i], context.taken) <= 0)
		i++;
	if (i < count)
		qsort_r(list, count, sizeof *list, kind->compare, context.taken);
}

/* Those of each file together. `ends` has room for the number of files and one more; after
 * the list is filled, each file's part ends where its entry says. */
static void fill_list(uint32_t *list, uint32_t total, uint32_t *ends,
	const struct list_kind *kind, const struct fsdp_model *model)
{
	size_t files = model->files.count;
	uint32_t file, begin = 0;
	memset(ends, 0, (files + 1) * sizeof *ends);
	for (uint32_t i = 0; i < total; i++)
		if ((file = kind->file_of(model, i)) != FSDP_NONE)
			ends[file + 1]++;
	for (size_t i = 0; i < files; i++)
		ends[i + 1] += ends[i];
	for (uint32_t i = 0; i < total; i++)
		if ((file = kind->file_of(model, i)) != FSDP_NONE)
			list[ends[file]++] = i;
	for (size_t i = 0; i < files; begin = ends[i++])
		sort_part(list + begin, ends[i] - begin, kind, model);
}

static bool make_list(struct fsdp_verify *verify, size_t total,
	const struct list_kind *kind, uint32_t **ret_list, size_t *ret_count)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	size_t files = model->files.count;
	uint32_t *ends = FSDP_TAKE(&verify->batch, ends, files + 1);
	*ret_list = FSDP_TAKE(&verify->arena, *ret_list, total + 1);
	if (ends == NULL || *ret_list == NULL)
		return false;
	fill_list(*ret_list, (uint32_t)total, ends, kind, model);
	*ret_count = files != 0 ? ends[files - 1] : 0;
	return true;
}

bool fsdp_verify_sort(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	bool good = make_list(verify, model->extents.count, &by_extent, &verify->extents,
			    &verify->extent_count) &&
		    make_list(verify, model->pieces.count, &by_piece, &verify->pieces,
			    &verify->piece_count) &&
		    make_list(verify, model->values.count, &by_value, &verify->values,
			    &verify->value_count);
	fsdp_arena_reset(&verify->batch);
	return good || fsdp_arena_fail(&verify->arena, ret_error);
}

/* The part of a list that belongs to a file. */
static const uint32_t *part_of(const struct fsdp_model *model, const uint32_t *list,
	size_t count, uint32_t file,
	uint32_t (*file_of)(const struct fsdp_model *, uint32_t), size_t *ret_count)
{
	size_t low = 0, high = count;
	FSDP_HALVE(low, high, middle, file_of(model, list[middle]) < file);
	size_t first = low;
	high = count;
	FSDP_HALVE(low, high, middle, file_of(model, list[middle]) <= file);
	*ret_count = low - first;
	return list + first;
}

/* ---- one file ---- */

bool fsdp_verify_excuse(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_error **error, struct fsdp_error **ret_error)
{
	enum fsdp_error_code code = fsdp_error_code(*error);
	if (code == FSDP_ERROR_MEMORY || code == FSDP_ERROR_LIMIT) {
		fsdp_fail_with(ret_error, *error);
		*error = NULL;
		return false;
	}
	const char *rule = fsdp_error_rule(*error);
	bool changed = rule != NULL && strcmp(rule, "FI2004") == 0;
	verify->lacks |= FSDP_UNREADABLE;
	fsdp_find(&verify->findings,
		changed ? FSDP_RULE_CHANGED_DURING_READ : FSDP_RULE_READ_ERROR,
		FSDP_IN(file, .offset = fsdp_error_offset(*error)), "%s",
		fsdp_error_message(*error));
	fsdp_error_free(*error);
	*error = NULL;
	return true;
}

bool fsdp_verify_is_zip(
	const struct fsdp_source *source, bool *ret_zip, struct fsdp_error **ret_error)
{
	unsigned char head[4] = { 0 };
	bool good = source->size < sizeof head ||
		    fsdp_source_read(source, 0, head, sizeof head, ret_error);
	*ret_zip = good && memcmp(head, "PK\3\4", sizeof head) == 0;
	return good;
}

static bool find_kind(const struct fsdp_model *model, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	bool zip = false;
	file->kind = FSDP_BYTES_ITEMS;
	if (file->extent_count != 0 &&
		fsdp_model_extent(model, file->extents[0])->kind == FSDP_EXTENT_ITEM)
		return true;
	if (fsdp_span_ends(file->path, FSDP_SPAN(".distcp")))
		return true;
	bool good = fsdp_verify_is_zip(&file->source, &zip, ret_error);
	file->kind = zip ? FSDP_BYTES_ZIP : FSDP_BYTES_RAW;
	return good;
}

bool fsdp_verify_file(struct fsdp_verify *verify, uint32_t id,
	struct fsdp_verify_file *ret_file, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	const struct fsdp_file_record *record = fsdp_model_file(model, id);
	struct fsdp_error *error = NULL;
	*ret_file = (struct fsdp_verify_file){ .id = id, .path = record->path };
	if (!fsdp_checkpoint_source(verify->checkpoint, id, &ret_file->source, &error)) {
		(void)fsdp_verify_excuse(verify, ret_file, &error, ret_error);
		return false;
	}
	if (ret_file->source.fd >= 0)
		(void)fstat(ret_file->source.fd, &ret_file->before);
	ret_file->extents = part_of(model, verify->extents, verify->extent_count, id,
		file_of_extent, &ret_file->extent_count);
	ret_file->pieces = part_of(model, verify->pieces, verify->piece_count, id,
		file_of_piece, &ret_file->piece_count);
	ret_file->values = part_of(model, verify->values, verify->value_count, id,
		file_of_value, &ret_file->value_count);
	if (find_kind(model, ret_file, &error))
		return true;
	(void)fsdp_verify_excuse(verify, ret_file, &error, ret_error);
	return false;
}

/* ---- findings ---- */

static const struct fsdp_extent *extent_of(
	const struct fsdp_verify *verify, const struct fsdp_verify_file *file, size_t at)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	return fsdp_model_extent(
		model, fsdp_model_piece(model, file->pieces[at])->extent);
}

/* The first piece of a file whose extent ends behind `begin`. */
static size_t first_piece(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, uint64_t begin)
{
	size_t low = 0, high = file->piece_count;
	FSDP_HALVE(low, high, middle, extent_of(verify, file, middle)->offset < begin);
	if (low == 0)
		return 0;
	const struct fsdp_extent *before = extent_of(verify, file, low - 1);
	if (before->offset + before->length <= begin)
		return low;
	while (low != 0 && extent_of(verify, file, low - 1)->offset == before->offset)
		low--;
	return low;
}

const char *fsdp_verify_names(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, uint64_t begin, uint64_t end,
	char room[FSDP_NAMES_SHOWN])
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	size_t used = 0, more = 0;
	uint32_t last = FSDP_NONE;
	room[0] = '\0';
	for (size_t i = first_piece(verify, file, begin); i < file->piece_count; i++) {
		uint32_t tensor = fsdp_model_piece(model, file->pieces[i])->tensor;
		if (extent_of(verify, file, i)->offset >= end)
			break;
		if (tensor == last)
			continue;
		last = tensor;
		uint32_t name = fsdp_model_tensor(model, tensor)->name;
		size_t length = fsdp_names_length(&model->names, name);
		if (more != 0 || used + length + 40 > FSDP_NAMES_SHOWN) {
			more++;
			continue;
		}
		if (used != 0)
			used += (size_t)snprintf(
				room + used, FSDP_NAMES_SHOWN - used, ", ");
		fsdp_names_write(
			&model->names, name, room + used, FSDP_NAMES_SHOWN - used);
		used += length;
		room[used] = '\0';
	}
	if (more != 0)
		snprintf(room + used, FSDP_NAMES_SHOWN - used, "%s%zu more",
			used != 0 ? " and " : "", more);
	return room;
}

void fsdp_verify_move_notes(struct fsdp_verify *verify, uint64_t base, bool keep)
{
	struct fsdp_vec *list = &verify->notes.list;
	for (size_t i = 0; keep && i < list->count; i++) {
		const struct fsdp_finding *note = fsdp_vec_at(list, i);
		enum fsdp_rule_index rule = 0;
		while (fsdp_rule(rule) != note->rule)
			rule++;
		fsdp_find(&verify->findings, rule,
			FSDP_PLACE(.file = note->file, .member = note->member,
				.offset = note->offset != FSDP_UNKNOWN
						  ? note->offset + base
						  : FSDP_UNKNOWN,
				.length = note->length,
				.severity = (int)note->severity + 1),
			"%.*s", FSDP_TEXT(note->message));
	}
	if (list->count != 0 || verify->notes.tallies.count != 0)
		fsdp_findings_init(
			&verify->notes, &verify->item, &verify->checkpoint->limits);
}

/* ---- machine code ---- */

const char *fsdp_native_code(struct fsdp_span head)
{
	static const struct {
		const char *name, *magic;
	} rows[] = {
		{ "an ELF program or library", "\177ELF" },
		{ "a Mach-O program or library", "\xfe\xed\xfa\xce" },
		{ "a Mach-O program or library", "\xfe\xed\xfa\xcf" },
		{ "a Mach-O program or library", "\xce\xfa\xed\xfe" },
		{ "a Mach-O program or library", "\xcf\xfa\xed\xfe" },
	};
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (fsdp_span_begins(head, fsdp_span(rows[i].magic, 4)))
			return rows[i].name;
	/* A DOS header whose last field leads to a PE header that is not far. */
	if (head.size >= SNIFFED && fsdp_span_begins(head, FSDP_SPAN("MZ")) &&
		fsdp_load_four(head.data + 60) < 4096 &&
		fsdp_load_four(head.data + 60) >= SNIFFED / 2)
		return "a Windows program or library";
	return NULL;
}

static bool has_native_name(struct fsdp_span name)
{
	static const char *const suffixes[] = { ".so", ".dll", ".pyd", ".dylib", ".exe" };
	for (size_t i = 0; i < FSDP_COUNT(suffixes); i++) {
		size_t size = strlen(suffixes[i]);
		if (name.size > size &&
			strncasecmp((const char *)name.data + name.size - size,
				suffixes[i], size) == 0)
			return true;
	}
	return false;
}

static bool look_at_entry(struct fsdp_verify *verify, const struct fsdp_entry *entry,
	struct fsdp_error **ret_error)
{
	unsigned char head[SNIFFED];
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	size_t size = (size_t)fsdp_min(entry->size, sizeof head);
	fsdp_checkpoint_keep_open(verify->checkpoint);
	if (!fsdp_folder_source(fsdp_checkpoint_place(verify->checkpoint), entry->name,
		    &source, &error) ||
		!fsdp_source_read(&source, 0, head, size, &error)) {
		struct fsdp_verify_file file = { .path = entry->name };
		return fsdp_verify_excuse(verify, &file, &error, ret_error);
	}
	const char *what = fsdp_native_code(fsdp_span(head, size));
	if (what == NULL && !has_native_name(entry->name))
		return true;
	fsdp_find(&verify->findings, FSDP_RULE_NATIVE_CODE,
		FSDP_PLACE(.file = entry->name, .offset = 0, .length = entry->size),
		"this is %s (%llu bytes)", what != NULL ? what : "a library by its name",
		FSDP_LLU(entry->size));
	return true;
}

bool fsdp_verify_folder(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	for (size_t i = 0; folder != NULL && i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && entry.size != 0 &&
			!look_at_entry(verify, &entry, ret_error))
			return false;
	}
	return true;
}
