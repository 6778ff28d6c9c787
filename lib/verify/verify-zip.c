/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is a zip: its headers, the members that nothing refers to, whether it
 * records checksums, and whether records lie where torch computes them.
 *
 * Origin: torch/serialization.py and caffe2/serialize/inline_container.cc (PyTorch 2.13)
 * for how records are aligned.
 */
#include <strings.h>

#include "base/num.h"
#include "verify/verify-private.h"

enum {
	SNIFFED = 64,
	LOCAL_SIZE = 30,
	ALIGNMENT = 64,
	SMALL_DESCRIPTOR = 16,
	LARGE_DESCRIPTOR = 24,
};

/* ---- checksums ---- */

static bool is_storage(struct fsdp_span name)
{
	struct fsdp_span root = fsdp_span_first(name, '/');
	struct fsdp_span below = fsdp_span(name.data + root.size, name.size - root.size);
	return fsdp_span_begins(below, FSDP_SPAN("/data/")) && below.size > 6;
}

bool fsdp_verify_storages_zero(const struct fsdp_zip *zip)
{
	bool any = false;
	for (size_t i = 0; i < zip->members.count; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, i);
		if (member->size == 0 || !is_storage(member->name))
			continue;
		if (member->crc != 0)
			return false;
		any = true;
	}
	return any;
}

bool fsdp_verify_has_crc(struct fsdp_verify_file *file,
	const struct fsdp_zip_member *member, bool storages_zero)
{
	bool missing = member->crc == 0 && storages_zero && is_storage(member->name);
	if (member->size == 0)
		return true;
	file->members++;
	file->unrecorded += missing;
	return !missing;
}

static void count_checksums(struct fsdp_verify_file *file)
{
	const struct fsdp_zip *zip = &file->zip;
	file->skipped_data = !zip->no_crc && fsdp_verify_storages_zero(zip);
	for (size_t i = 0; i < zip->members.count; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(zip, i);
		bool recorded = fsdp_verify_has_crc(file, member, file->skipped_data);
		file->unrecorded += recorded && zip->no_crc && member->size != 0;
	}
}

/* ---- members that nothing refers to ---- */

static bool is_known(struct fsdp_span name)
{
	static const char *const known[] = { "data.pkl", "version", "byteorder",
		".format_version", ".storage_alignment", "constants.pkl" };
	if (name.size == 0 || fsdp_span_begins(name, FSDP_SPAN(".data/")))
		return true;
	for (size_t i = 0; i < FSDP_COUNT(known); i++)
		if (name.size == strlen(known[i]) &&
			strncasecmp((const char *)name.data, known[i], name.size) == 0)
			return true;
	return false;
}

/* What the first bytes of a member would be to another program. NULL: nothing. */
static const char *threat_of(struct fsdp_span head, bool *ret_native)
{
	const char *native = fsdp_native_code(head);
	*ret_native = native != NULL;
	if (native != NULL)
		return native;
	if (fsdp_span_begins(head, FSDP_SPAN("PK\3\4")))
		return "a zip archive";
	if (fsdp_span_begins(head, FSDP_SPAN("\037\213")))
		return "gzip data";
	if (fsdp_span_begins(head, FSDP_SPAN("7z\274\257\047\034")))
		return "a 7-Zip archive";
	if (head.size > 2 && head.data[0] == 0x80 && head.data[1] >= 2 &&
		head.data[1] <= 5 && memchr(head.data, 'c', head.size) != NULL)
		return "a pickle with globals";
	if (fsdp_span_begins(head, FSDP_SPAN("#!")))
		return "a script";
	return NULL;
}

/* Reports what could not be read; damage is in the checkpoint's own findings. Takes the
 * error. */
static bool excuse_reading(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_error *error,
	struct fsdp_error **ret_error)
{
	const char *rule = fsdp_error_rule(error);
	bool changed = rule != NULL && strcmp(rule, "FI2004") == 0;
	enum fsdp_error_code code = fsdp_error_code(error);
	if (!changed && (code == FSDP_ERROR_DAMAGED || code == FSDP_ERROR_UNSUPPORTED)) {
		fsdp_error_free(error);
		return true;
	}
	return fsdp_verify_excuse(verify, file, &error, ret_error);
}

static bool judge_unreferenced(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, size_t index, bool storage,
	struct fsdp_error **ret_error)
{
	const struct fsdp_zip_member *member = fsdp_zip_member(&file->zip, index);
	unsigned char head[SNIFFED];
	size_t size = (size_t)fsdp_min(member->size, sizeof head);
	bool native = false;
	const char *threat = NULL;
	struct fsdp_error *error = NULL;
	/* An entry of a folder, as other packers write them. */
	if (member->size == 0 && fsdp_span_ends(member->name, FSDP_SPAN("/")))
		return true;
	if (file->offsets[index] != FSDP_UNKNOWN) {
		if (fsdp_zip_read_part(&file->zip.source, file->offsets[index],
			    member->stored_size, member->method, 0, head, size, &error))
			threat = threat_of(fsdp_span(head, size), &native);
		else if (!excuse_reading(verify, file, error, ret_error))
			return false;
	}
	if (native && !storage) {
		fsdp_find(&verify->findings, FSDP_RULE_NATIVE_CODE,
			FSDP_IN(file, .member = member->name, .offset = member->header),
			"this member is %s (%llu bytes)", threat, FSDP_LLU(member->size));
		return true;
	}
	fsdp_find(&verify->findings, FSDP_RULE_MEMBER_UNREFERENCED,
		FSDP_IN(file, .member = member->name, .offset = member->header,
			.length = member->stored_size,
			.severity = threat != NULL ? FSDP_ERROR + 1 : 0),
		"no tensor refers to these %llu bytes%s%s", FSDP_LLU(member->size),
		threat != NULL ? ", which are " : "", threat != NULL ? threat : "");
	verify->scope.unreferenced += member->stored_size;
	return true;
}

static const struct fsdp_zip_member *by_header(const struct fsdp_zip *zip, size_t i)
{
	return fsdp_zip_member(zip, zip->by_header != NULL ? zip->by_header[i] : i);
}

/* Both in the order of the file. */
static bool judge_members(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct fsdp_span records = fsdp_model_file(model, file->id)->records;
	struct fsdp_span root = fsdp_span(records.data, records.size - 5);
	const struct fsdp_zip *zip = &file->zip;
	size_t next = 0;
	for (size_t i = 0; i < zip->members.count; i++) {
		const struct fsdp_zip_member *member = by_header(zip, i);
		bool below = fsdp_span_begins(member->name, root);
		while (next < file->extent_count &&
			fsdp_model_extent(model, file->extents[next])->offset <
				member->header)
			next++;
		if (next < file->extent_count &&
			fsdp_model_extent(model, file->extents[next])->offset ==
				member->header)
			continue;
		struct fsdp_span name = fsdp_span(member->name.data + root.size,
			below ? member->name.size - root.size : 0);
		if ((!below || !is_known(name)) &&
			!judge_unreferenced(verify, file,
				zip->by_header != NULL ? zip->by_header[i] : i,
				fsdp_span_begins(name, FSDP_SPAN("data/")), ret_error))
			return false;
	}
	return true;
}

/* ---- computed offsets ---- */

static const struct fsdp_zip_member *find_record(
	const struct fsdp_verify_file *file, struct fsdp_span root, const char *name)
{
	for (size_t i = 0; i < file->zip.members.count; i++) {
		const struct fsdp_zip_member *member = fsdp_zip_member(&file->zip, i);
		if (member->name.size == root.size + strlen(name) &&
			fsdp_span_begins(member->name, root) &&
			memcmp(member->name.data + root.size, name, strlen(name)) == 0)
			return member;
	}
	return NULL;
}

/* 0: the record cannot be read. */
static uint64_t alignment_of(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_span root,
	struct fsdp_error **ret_error)
{
	const struct fsdp_zip_member *record =
		find_record(file, root, ".storage_alignment");
	struct fsdp_span text;
	uint64_t alignment = 0;
	if (record == NULL)
		return ALIGNMENT;
	if (!fsdp_zip_read(&file->zip, record, 16, &verify->item, &text, ret_error))
		return 0;
	for (size_t i = 0; i < text.size && i < 9; i++)
		if (fsdp_is_digit(text.data[i]))
			alignment = alignment * 10 + (text.data[i] - '0');
	return alignment != 0 ? alignment : ALIGNMENT;
}

/* Where the data of a record begins whose header is at `header`, as torch puts it. */
static uint64_t data_begin(
	uint64_t header, size_t name_size, uint64_t size, uint64_t alignment)
{
	bool large = size >= UINT32_MAX, far = header >= UINT32_MAX;
	uint64_t begin = header + LOCAL_SIZE + name_size + 4;
	if (large || far)
		begin += 4 + (large ? 16u : 0) + (far ? 8u : 0);
	uint64_t beyond = begin % alignment;
	return beyond == 0 ? begin : begin + alignment - beyond;
}

static uint64_t next_header(uint64_t header, uint64_t data, uint64_t size)
{
	if (size == 0)
		return data;
	return data + size +
	       (size >= UINT32_MAX || header >= UINT32_MAX ? LARGE_DESCRIPTOR
							   : SMALL_DESCRIPTOR);
}

/* The number that a key is, or FSDP_UNKNOWN. */
static uint64_t number_of(struct fsdp_span key)
{
	uint64_t number = 0;
	if (key.size == 0 || key.size > 18)
		return FSDP_UNKNOWN;
	for (size_t i = 0; i < key.size; i++) {
		if (!fsdp_is_digit(key.data[i]))
			return FSDP_UNKNOWN;
		number = number * 10 + (uint64_t)(key.data[i] - '0');
	}
	return number;
}

/* Loaders that compute where records lie start from the real place of the first. */
static bool judge_offsets(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_span records, struct fsdp_error **ret_error)
{
	struct fsdp_span root = fsdp_span(records.data, records.size - 5);
	const struct fsdp_zip *zip = &file->zip;
	uint64_t header = FSDP_UNKNOWN, number = 0;
	if (find_record(file, root, ".format_version") == NULL)
		return true;
	struct fsdp_error *error = NULL;
	uint64_t alignment = alignment_of(verify, file, root, &error);
	if (alignment == 0) {
		alignment = ALIGNMENT;
		if (!excuse_reading(verify, file, error, ret_error))
			return false;
	}
	for (size_t i = 0; i < zip->members.count; i++) {
		const struct fsdp_zip_member *member = by_header(zip, i);
		size_t index = zip->by_header != NULL ? zip->by_header[i] : i;
		uint64_t real = file->offsets[index];
		if (!fsdp_span_begins(member->name, records) ||
			member->name.size == records.size)
			continue;
		if (real == FSDP_UNKNOWN)
			return true;
		if (header == FSDP_UNKNOWN)
			header = member->header;
		uint64_t computed = number == 0 ? real
						: data_begin(header, member->name.size,
							  member->size, alignment);
		uint64_t key = number_of(fsdp_span(member->name.data + records.size,
			member->name.size - records.size));
		if (key != FSDP_UNKNOWN && key > number)
			return true; /* one is missing, which is a finding already */
		if (computed != real || key != number) {
			fsdp_find(&verify->findings, FSDP_RULE_OFFSETS_NOT_COMPUTABLE,
				FSDP_IN(file, .member = member->name, .offset = real),
				"the record lies at byte %llu, but loaders that compute offsets look for record %llu at byte %llu",
				FSDP_LLU(real), FSDP_LLU(number), FSDP_LLU(computed));
			return true;
		}
		header = next_header(header, real, member->size);
		number++;
	}
	return true;
}

/* ---- the whole ---- */

bool fsdp_verify_zip(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	struct fsdp_error *error = NULL;
	fsdp_arena_reset(&verify->item);
	fsdp_findings_init(&verify->notes, &verify->item, &checkpoint->limits);
	/* What is wrong with the directory the checkpoint's own findings say. */
	if (!fsdp_zip_open(&file->source, &verify->batch, &checkpoint->limits, file->path,
		    &verify->notes, &file->zip, &error)) {
		file->kind = FSDP_BYTES_RAW;
		return excuse_reading(verify, file, error, ret_error);
	}
	file->offsets =
		FSDP_TAKE(&verify->batch, file->offsets, file->zip.members.count + 1);
	if (file->offsets == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	if (!fsdp_zip_check_headers(
		    &file->zip, file->path, &verify->findings, file->offsets, &error)) {
		file->kind = FSDP_BYTES_RAW;
		return fsdp_verify_excuse(verify, file, &error, ret_error);
	}
	count_checksums(file);
	const struct fsdp_file_record *record =
		file->id != FSDP_NONE ? fsdp_model_file(&checkpoint->model, file->id)
				      : NULL;
	if (record == NULL || record->records.size < 5 || file->extent_count == 0 ||
		strcmp(checkpoint->model.format.family, "torchscript") == 0)
		return true;
	return judge_members(verify, file, ret_error) &&
	       judge_offsets(verify, file, record->records, ret_error);
}
