/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the files in hand, every byte once, and says what their checksums tell.
 */
#include <sys/stat.h>

#include "base/num.h"
#include "verify/verify-private.h"

enum { FLAGS_UNREADABLE = 0x2061 /* encryption, patch data, masked headers */ };

/* ---- segments ---- */

static uint32_t number_by_header(const struct fsdp_zip *zip, size_t index)
{
	return zip->by_header != NULL ? zip->by_header[index] : (uint32_t)index;
}

static struct fsdp_segment segment_of_member(
	const struct fsdp_verify_file *file, uint32_t number)
{
	const struct fsdp_zip_member *member = fsdp_zip_member(&file->zip, number);
	bool zero = file->skipped_data && member->crc == 0;
	return (struct fsdp_segment){
		.begin = file->offsets[number],
		.stored = member->stored_size,
		.size = member->size,
		.crc = member->crc,
		.owner = number,
		.has_crc = !file->zip.no_crc && !zero,
		.deflated = member->method != 0,
	};
}

static struct fsdp_segment segment_of_zip(const void *context, size_t index)
{
	const struct fsdp_verify_file *file = context;
	return segment_of_member(file, number_by_header(&file->zip, index));
}

static struct fsdp_segment segment_of_list(const void *context, size_t index)
{
	const struct fsdp_verify_file *file = context;
	return *(const struct fsdp_segment *)fsdp_vec_of(
		&file->segments, index, sizeof(struct fsdp_segment));
}

static bool is_plain(const struct fsdp_zip_member *member)
{
	return member->method == 0 && member->size == member->stored_size &&
	       (member->flags & FLAGS_UNREADABLE) == 0;
}

/* Whether the directory itself is a list of segments: all are stored, one behind the
 * other. */
static bool is_simple(const struct fsdp_verify_file *file)
{
	uint64_t reach = 0;
	for (size_t i = 0; i < file->zip.members.count; i++) {
		uint32_t number = number_by_header(&file->zip, i);
		const struct fsdp_zip_member *member =
			fsdp_zip_member(&file->zip, number);
		uint64_t begin = file->offsets[number];
		if (!is_plain(member) || begin == FSDP_UNKNOWN || begin < reach)
			return false;
		reach = begin + member->stored_size;
	}
	return true;
}

bool fsdp_verify_may_read(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	const struct fsdp_zip_member *member, const struct fsdp_segment *segment)
{
	if (is_plain(member))
		return true;
	if (member->method != 8 || (member->flags & FLAGS_UNREADABLE) != 0)
		return false; /* opening has said so */
	if (segment->size <= verify->inflate_left) {
		verify->inflate_left -= segment->size;
		return true;
	}
	verify->lacks |= FSDP_OVER_LIMIT;
	fsdp_find(&verify->findings, FSDP_RULE_LIMIT_REACHED,
		FSDP_IN(file, .offset = segment->begin, .length = segment->stored,
			.next = "raise --limit=inflate-bytes if you trust the input"),
		"more than inflate-bytes would be inflated in all: these %llu bytes are not looked at",
		FSDP_LLU(segment->stored));
	return false;
}

static bool list_members(struct fsdp_verify *verify, struct fsdp_verify_file *file)
{
	for (size_t i = 0; i < file->zip.members.count; i++) {
		uint32_t number = number_by_header(&file->zip, i);
		const struct fsdp_zip_member *member =
			fsdp_zip_member(&file->zip, number);
		if (file->offsets[number] == FSDP_UNKNOWN)
			continue;
		struct fsdp_segment segment = segment_of_member(file, number);
		if (!fsdp_verify_may_read(verify, file, member, &segment))
			continue;
		if (!fsdp_segments_add(&file->segments, &segment))
			return false;
	}
	return true;
}

/* Payload that lies in a file as it is. */
static bool list_extents(const struct fsdp_model *model, struct fsdp_verify_file *file)
{
	for (size_t i = 0; i < file->extent_count; i++) {
		const struct fsdp_extent *extent =
			fsdp_model_extent(model, file->extents[i]);
		uint64_t end;
		if (extent->kind != FSDP_EXTENT_BYTES || extent->missing ||
			extent->length == 0 ||
			!fsdp_add(extent->offset, extent->length, &end) ||
			end > file->source.size)
			continue;
		struct fsdp_segment segment = {
			.begin = extent->offset,
			.stored = extent->length,
			.size = extent->length,
		};
		if (!fsdp_segments_add(&file->segments, &segment))
			return false;
	}
	return true;
}

static bool list_segments(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	bool good = true;
	file->pass.source = file->source;
	file->pass.segment = segment_of_list;
	file->pass.hashed = file->has_digest && !verify->foreign;
	if (file->kind == FSDP_BYTES_ZIP && is_simple(file) && !verify->foreign) {
		file->pass.segment = segment_of_zip;
		file->pass.segment_count = file->zip.members.count;
		return true;
	}
	if (file->kind == FSDP_BYTES_ZIP)
		good = list_members(verify, file);
	else if (file->kind == FSDP_BYTES_RAW && file->id != FSDP_NONE)
		good = list_extents(&verify->checkpoint->model, file);
	file->pass.segment_count = file->segments.count;
	return good || fsdp_arena_fail(&verify->batch, ret_error);
}

/* ---- what covers what ---- */

static void count_coverage(
	struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	uint64_t covered = 0, bare = 0;
	for (size_t i = 0; i < file->pass.segment_count; i++) {
		struct fsdp_segment segment = file->pass.segment(file, i);
		if (segment.has_crc)
			covered += segment.stored;
		else
			bare += segment.stored;
	}
	if (file->packed_length != 0) { /* whose bytes are read with the file's */
		covered = bare == 0 ? file->packed_length : 0;
		bare = file->packed_length - covered;
	} else {
		verify->scope.bytes_read += file->source.size;
	}
	verify->scope.bytes_with_digest += file->has_digest ? file->source.size : covered;
	if (file->has_digest || bare == 0)
		return;
	verify->scope.payload_without += bare;
	verify->lacks |= FSDP_WITHOUT_CRC;
}

/* ---- in hand ---- */

bool fsdp_verify_take(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	if (!list_segments(verify, file, ret_error))
		return false;
	file->pass.context = file;
	if (!fsdp_verify_end_views(verify, file, ret_error))
		return false;
	if (verify->foreign)
		fsdp_verify_keep_viewed(file);
	count_coverage(verify, file);
	file->place = verify->place;
	verify->hand_bytes += file->source.size;
	verify->hand_segments += file->pass.segment_count;
	verify->hand[verify->hand_count] = *file;
	verify->hand[verify->hand_count].pass.context = &verify->hand[verify->hand_count];
	verify->hand_count++;
	if (verify->hand_count < FSDP_VERIFY_HAND &&
		verify->hand_bytes < FSDP_VERIFY_HAND_BYTES &&
		verify->hand_segments < FSDP_VERIFY_HAND_SEGMENTS)
		return true;
	return fsdp_verify_read(verify, ret_error);
}

/* ---- what was seen ---- */

static struct fsdp_span member_of(
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment)
{
	if (file->kind != FSDP_BYTES_ZIP)
		return (struct fsdp_span){ 0 };
	return fsdp_zip_member(&file->zip, segment->owner)->name;
}

/* Where it lies in the file; what was unpacked, where all of it does. */
static uint64_t begin_of(
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment)
{
	return file->packed_length != 0 ? file->packed_offset : segment->begin;
}

static uint64_t length_of(
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment)
{
	return file->packed_length != 0 ? file->packed_length : segment->stored;
}

static const char *names_of(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, const struct fsdp_segment *segment,
	char room[FSDP_NAMES_SHOWN])
{
	uint64_t begin = begin_of(file, segment), end = begin + length_of(file, segment);
	if (file->id == FSDP_NONE)
		return "";
	if (file->kind == FSDP_BYTES_ZIP) {
		begin = fsdp_zip_member(&file->zip, segment->owner)->header;
		end = begin + 1;
	}
	return fsdp_verify_names(verify, file, begin, end, room);
}

static void say_mismatch(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	const struct fsdp_segment *segment, uint32_t crc)
{
	char room[FSDP_NAMES_SHOWN];
	const char *names = names_of(verify, file, segment, room);
	fsdp_find(&verify->findings, FSDP_RULE_CRC_MISMATCH,
		FSDP_IN(file, .member = member_of(file, segment),
			.offset = begin_of(file, segment),
			.length = length_of(file, segment),
			.tensor = fsdp_span_first(fsdp_span_text(names), ',')),
		"the CRC-32 of %llu bytes is %08lx, but the file records %08lx%s%s",
		FSDP_LLU(segment->size), (unsigned long)crc, (unsigned long)segment->crc,
		names[0] != '\0' ? "; lost: " : "", names);
}

static void say_error(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	const struct fsdp_segment *segment, const struct fsdp_error *error)
{
	const char *rule = fsdp_error_rule(error);
	enum fsdp_rule_index index = FSDP_RULE_INFLATE_ERROR;
	char room[FSDP_NAMES_SHOWN];
	const char *names = names_of(verify, file, segment, room);
	if (rule != NULL && strcmp(rule, "FI3049") == 0)
		index = FSDP_RULE_ZIP_STRAY_BYTES;
	else if (rule != NULL && strcmp(rule, "FI3053") == 0)
		index = FSDP_RULE_ZIP_BOMB;
	fsdp_find(&verify->findings, index,
		FSDP_IN(file, .member = member_of(file, segment),
			.offset = begin_of(file, segment),
			.length = length_of(file, segment),
			.tensor = fsdp_span_first(fsdp_span_text(names), ',')),
		"%s (%llu stored bytes)%s%s", fsdp_error_message(error),
		FSDP_LLU(segment->stored), names[0] != '\0' ? "; lost: " : "", names);
}

static bool is_memory(const struct fsdp_error *error)
{
	return error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
}

static bool judge_segments(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < file->pass.bad_count; i++) {
		const struct fsdp_pass_bad *bad = &file->pass.bad[i];
		struct fsdp_segment segment = file->pass.segment(file, bad->segment);
		if (is_memory(bad->error))
			return fsdp_fail_memory(ret_error);
		if (bad->error == NULL)
			say_mismatch(verify, file, &segment, bad->crc);
		else
			say_error(verify, file, &segment, bad->error);
	}
	return true;
}

/* What is not known of a segment is not known of its views either; and bytes that are
 * wrong by their checksum need not be compared with others. */
static void deliver(struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	const struct fsdp_pass_bad *bad = file->pass.bad;
	size_t next = 0, count = file->pass.bad_count;
	for (size_t i = 0; i < file->view_count; i++) {
		size_t segment = file->views[i].segment;
		while (next < count && bad[next].segment < segment)
			next++;
		bool spoiled = next < count && bad[next].segment == segment;
		if (!spoiled || bad[next].error == NULL)
			fsdp_verify_deliver(verify, file, i, spoiled);
	}
}

static bool is_same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static void judge_change(struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	const struct stat *before = &file->before;
	struct stat after;
	if (file->source.fd < 0 || fstat(file->source.fd, &after) != 0 ||
		(after.st_size == before->st_size && after.st_ino == before->st_ino &&
			is_same_time(after.st_mtim, before->st_mtim) &&
			is_same_time(after.st_ctim, before->st_ctim)))
		return;
	fsdp_find(&verify->findings, FSDP_RULE_CHANGED_DURING_READ,
		FSDP_IN(file, .offset = FSDP_UNKNOWN),
		"it had %llu bytes, last written at %lld, and after it was read %llu bytes, last written at %lld seconds since 1970",
		FSDP_LLU(before->st_size), (long long)before->st_mtim.tv_sec,
		FSDP_LLU(after.st_size), (long long)after.st_mtim.tv_sec);
}

static bool judge_file(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	struct fsdp_error *error = file->pass.error;
	if (!judge_segments(verify, file, ret_error))
		return false;
	judge_change(verify, file);
	if (error == NULL) {
		deliver(verify, file);
		if (file->pass.hashed)
			fsdp_verify_judge_digest(verify, file);
		return true;
	}
	file->pass.error = NULL;
	return fsdp_verify_excuse(verify, file, &error, ret_error);
}

bool fsdp_verify_read(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_pass_file passes[FSDP_VERIFY_HAND];
	size_t count = verify->hand_count;
	if (!fsdp_verify_mark(verify, verify->place, ret_error))
		return false;
	for (size_t i = 0; i < count; i++)
		passes[i] = verify->hand[i].pass;
	bool good = fsdp_pass_run(passes, count, &verify->pass, ret_error);
	for (size_t i = 0; i < count; i++) {
		verify->hand[i].pass = passes[i];
		good = good && judge_file(verify, &verify->hand[i], ret_error) &&
		       fsdp_verify_mark(verify, verify->hand[i].place, ret_error);
		fsdp_pass_file_done(&verify->hand[i].pass);
	}
	verify->hand_count = 0;
	verify->hand_bytes = verify->hand_segments = 0;
	fsdp_arena_reset(&verify->batch);
	return good;
}
