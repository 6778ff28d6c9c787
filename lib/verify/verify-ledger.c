/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file system says of a file: which parts of it were never written, and whether it
 * is newer than the metadata that describes it.
 */
#include "base/num.h"
#include "verify/verify-private.h"

enum {
	NEWER_MOST = 60, /* seconds */
	SMALL_HOLES = 1 << 20,
	SMALL_SHARE = 16, /* of the bytes of all tensors */
};

/* ---- holes ---- */

/* The bytes of a file that its facts refer to, from `begin` to `end`. Only the first run
 * of them is reported: holes are few, and what lies in them is named. */
static bool meets_extent(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, uint64_t begin, uint64_t end,
	uint64_t *ret_begin, uint64_t *ret_end)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	size_t low = 0, high = file->extent_count;
	FSDP_HALVE(low, high, middle,
		fsdp_model_extent(model, file->extents[middle])->offset +
				fsdp_model_extent(model, file->extents[middle])->length <=
			begin);
	if (low == file->extent_count)
		return false;
	const struct fsdp_extent *extent = fsdp_model_extent(model, file->extents[low]);
	*ret_begin = extent->offset > begin ? extent->offset : begin;
	*ret_end = fsdp_min(extent->offset + extent->length, end);
	return *ret_begin < *ret_end;
}

/* At the level of data a checksum tells better whether zeros belong there. */
static bool is_covered(
	const struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	return file->skipped_data || (verify->options.level != FSDP_LEVEL_HEADERS &&
					     file->members != 0 && file->unrecorded == 0);
}

/* What was never written of the model, without its optimizer. */
struct unwritten {
	uint64_t model, bytes; /* of the file; of these: in holes */
	uint64_t begin, end;   /* from the first hole to the last */
};

/* A fresh adapter is half zeros, or all. */
static bool is_of_adapter(const struct fsdp_names *names, uint32_t name)
{
	bool found = false;
	for (; name != 0; name = fsdp_names_at(names, name)->parent) {
		struct fsdp_span segment = fsdp_names_segment(names, name);
		if (fsdp_span_is(segment, "base_layer"))
			return false;
		found |= fsdp_span_is(segment, "base_model") ||
			 fsdp_span_begins(segment, FSDP_SPAN("lora_"));
	}
	return found;
}

static struct unwritten add_holes(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, bool with_adapters)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct unwritten sum = { .begin = FSDP_UNKNOWN };
	uint64_t counted = 0, hole = 0, hole_end = 0;
	bool more = true;
	for (size_t i = 0; i < file->piece_count; i++) {
		const struct fsdp_piece_record *piece =
			fsdp_model_piece(model, file->pieces[i]);
		const struct fsdp_extent *extent =
			fsdp_model_extent(model, piece->extent);
		const struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, piece->tensor);
		uint64_t end = extent->offset + extent->length;
		uint64_t at = counted > extent->offset ? counted : extent->offset;
		if (extent->missing || at >= end ||
			(tensor->role != FSDP_ROLE_PARAM &&
				tensor->role != FSDP_ROLE_BUFFER) ||
			(!with_adapters && is_of_adapter(&model->names, tensor->name)))
			continue;
		sum.model += end - at;
		counted = end;
		while (more && hole < end) {
			if (hole_end > at) {
				uint64_t first = hole > at ? hole : at;
				sum.begin = fsdp_min(sum.begin, first);
				sum.end = fsdp_min(hole_end, end);
				sum.bytes += sum.end - first;
			}
			if (hole_end >= end)
				break;
			more = fsdp_source_find_hole(&file->source,
				hole_end > at ? hole_end : at, &hole, &hole_end);
		}
	}
	return sum;
}

/* A copy that leaves zeros out makes holes too, but no model is half zeros unless it is an
 * adapter. What is small beside the model may be. */
static bool is_most(const struct fsdp_verify *verify, const struct unwritten *sum)
{
	return sum->bytes != 0 && sum->bytes >= sum->model - sum->bytes &&
	       (sum->bytes >= SMALL_HOLES ||
		       sum->bytes >= verify->checkpoint->model.payload / SMALL_SHARE);
}

static bool find_unwritten(
	struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	struct unwritten sum = add_holes(verify, file, true);
	char names[FSDP_NAMES_SHOWN];
	/* Names are looked at only where it matters. */
	if (is_most(verify, &sum))
		sum = add_holes(verify, file, false);
	if (!is_most(verify, &sum))
		return false;
	fsdp_verify_names(verify, file, sum.begin, sum.end, names);
	fsdp_find(&verify->findings, FSDP_RULE_FILE_HOLE,
		FSDP_IN(file, .offset = sum.begin, .length = sum.end - sum.begin,
			.severity = FSDP_ERROR + 1),
		"%llu of %llu bytes of the model are holes: they were never written, and read as zero: %s",
		FSDP_LLU(sum.bytes), FSDP_LLU(sum.model), names);
	return true;
}

static void find_holes(struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	char names[FSDP_NAMES_SHOWN];
	uint64_t hole, at = 0, begin, end;
	if (is_covered(verify, file) || find_unwritten(verify, file))
		return;
	while (fsdp_source_find_hole(&file->source, at, &hole, &at)) {
		if (!meets_extent(verify, file, hole, at, &begin, &end))
			continue;
		fsdp_verify_names(verify, file, begin, end, names);
		fsdp_find(&verify->findings, FSDP_RULE_FILE_HOLE,
			FSDP_IN(file, .offset = begin, .length = end - begin),
			"the file system holds nothing for %llu bytes from byte %llu on, which read as zero: %s",
			FSDP_LLU(end - begin), FSDP_LLU(begin), names);
	}
}

/* ---- times ---- */

/* A second save into the same directory leaves data files that are newer than the
 * metadata, and items that are not what it says. */
static void judge_times(struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	struct fsdp_entry metadata, data;
	if (!file->contradicts || !checkpoint->is_folder ||
		!fsdp_folder_find(
			&checkpoint->folder, FSDP_SPAN(".metadata"), &metadata) ||
		!fsdp_folder_find(&checkpoint->folder, file->path, &data))
		return;
	int64_t newer = data.mtime_s - metadata.mtime_s;
	if (newer > NEWER_MOST)
		fsdp_find(&verify->findings, FSDP_RULE_OVERWRITTEN_IN_PLACE,
			FSDP_IN(file, .offset = FSDP_UNKNOWN),
			"written %lld seconds after .metadata (at %lld and %lld seconds since 1970), and its items are not what that says",
			(long long)newer, (long long)data.mtime_s,
			(long long)metadata.mtime_s);
}

/* ---- the whole ---- */

static void judge_checksums(
	struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	if (file->kind == FSDP_BYTES_RAW || file->members == 0)
		return;
	verify->crc_count++;
	if (file->unrecorded == 0)
		return;
	fsdp_find(&verify->findings, FSDP_RULE_CRC_NOT_RECORDED,
		FSDP_IN(file, .offset = FSDP_UNKNOWN),
		"%llu of %llu members with bytes have no checksum",
		FSDP_LLU(file->unrecorded), FSDP_LLU(file->members));
}

bool fsdp_verify_ledger(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	bool good = true;
	if (file->kind == FSDP_BYTES_ZIP)
		good = fsdp_verify_zip(verify, file, ret_error);
	else if (file->kind == FSDP_BYTES_ITEMS)
		good = fsdp_verify_items(verify, file, ret_error);
	if (!good)
		return false;
	judge_checksums(verify, file);
	judge_times(verify, file);
	find_holes(verify, file);
	return true;
}
