/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file system says of a file: which parts of it were never written, and whether it
 * is newer than the metadata that describes it.
 */
#include <unistd.h>

#include "base/num.h"
#include "verify/verify-private.h"

enum { NEWER_MOST = 60 /* seconds */ };

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

static void find_holes(struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	const struct fsdp_source *source = &file->source;
	char names[FSDP_NAMES_SHOWN];
	uint64_t at = 0, begin, end;
	if (source->fd < 0 || source->base != 0 || is_covered(verify, file))
		return;
	while (at < source->size) {
		off_t hole = lseek(source->fd, (off_t)at, SEEK_HOLE);
		if (hole < 0 || (uint64_t)hole >= source->size)
			return;
		off_t data = lseek(source->fd, hole, SEEK_DATA);
		at = data < 0 ? source->size : fsdp_min((uint64_t)data, source->size);
		if (!meets_extent(verify, file, (uint64_t)hole, at, &begin, &end))
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
