/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is nothing but pickles, one behind the other: values, and tensors that have
 * no bytes here. What they mean is read by torch.h.
 *
 * The data.pkl that was taken out of a file of torch.save is one: its tensors have names,
 * shapes and dtypes, and their storages are records of the file that it was taken from.
 *
 * Origin: Python's pickle.dump; the files beside checkpoints (arguments, states of
 * random generators) that are written with it.
 */
#include "format/format.h"
#include "format/torch/torch.h"

/* Protocols 0 and 1 begin with anything, so all of it must be a pickle. */
static bool is_old_pickle(const struct fsdp_look *look)
{
	struct fsdp_error *error = NULL;
	struct fsdp_span argument;
	const struct fsdp_pickle_opcode *opcode;
	uint64_t at = 0, last = 0;
	if (look->head.size < 2 || look->head.size != look->source.size)
		return false;
	do {
		last = at;
		opcode = fsdp_pickle_next_opcode(look->head, &at, &argument, &error);
		fsdp_error_free(error);
		error = NULL;
	} while (opcode != NULL && opcode->code != FSDP_OP_STOP);
	return opcode != NULL && last + 1 == look->head.size;
}

static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	if (look->folder != NULL || look->head.size < 2)
		return FSDP_SIGN_NONE;
	/* The legacy stream begins like this too, and is more than pickles. */
	if (look->head.data[0] == 0x80 && look->head.data[1] >= 2 &&
		look->head.data[1] <= 5)
		return FSDP_SIGN_SURE;
	return is_old_pickle(look) ? FSDP_SIGN_LIKELY : FSDP_SIGN_NONE;
}

struct pickles {
	struct fsdp_reading *reading;
	const struct fsdp_look *look;
	uint32_t file_id;
	struct fsdp_torch torch;
	uint64_t at;
};

/* ---- storages ---- */

/* Where one lies in the pickle; NULL: its bytes are not in this file. */
static const struct fsdp_torch_inlined *inlined_at(
	const struct pickles *file, uint32_t storage, size_t *next)
{
	const struct fsdp_torch_inlined *inlined =
		*next < file->torch.inlined.count
			? fsdp_vec_at(&file->torch.inlined, *next)
			: NULL;
	if (inlined == NULL || inlined->storage != storage)
		return NULL;
	++*next;
	return inlined;
}

static bool add_extents(struct pickles *file, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = file->reading->model;
	size_t next = 0;
	for (uint32_t i = 0; i < file->torch.storages.count; i++) {
		const struct fsdp_torch_inlined *inlined = inlined_at(file, i, &next);
		struct fsdp_extent extent = {
			.kind = FSDP_EXTENT_BYTES,
			.file = file->file_id,
			.size = fsdp_torch_storage_bytes(
				fsdp_torch_storage(&file->torch, i)),
			.offset = FSDP_UNKNOWN,
			.is_record = fsdp_torch_storage(&file->torch, i)->is_mesh,
			.missing = true,
		};
		if (inlined != NULL && inlined->payload == FSDP_UNKNOWN)
			extent.method = FSDP_METHOD_TEXT;
		if (inlined != NULL && inlined->payload != FSDP_UNKNOWN) {
			extent.offset = file->torch.base + inlined->payload;
			extent.length = extent.size;
			extent.missing = false;
		}
		if (fsdp_build_extent(model, &extent, fsdp_torch_key(&file->torch, i),
			    ret_error) == FSDP_NONE)
			return false;
	}
	return true;
}

/* Tensors of such storages are listed; their elements are not where a place could name them. */
static void refuse_text(const struct pickles *file, uint64_t count)
{
	struct fsdp_error *error = NULL;
	fsdp_fail_rule(&error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
		"elements of %llu storage%s are stored as text (pickle below protocol 3), which is not read",
		FSDP_LLU(count), count == 1 ? "" : "s");
	fsdp_error_add_path(&error, (const char *)file->look->path.data);
	fsdp_error_add_hint(
		&error, "load it with pickle and save it again with torch.save");
	fsdp_reading_keep_error(file->reading, error);
}

/* Once for the file. What is on no device has no bytes anywhere. */
static void say_missing(const struct pickles *file)
{
	uint64_t count = 0, as_text = 0;
	size_t next = 0;
	for (uint32_t i = 0; i < file->torch.storages.count; i++) {
		const struct fsdp_torch_inlined *inlined = inlined_at(file, i, &next);
		bool is_empty = fsdp_torch_storage_bytes(
					fsdp_torch_storage(&file->torch, i)) == 0;
		as_text +=
			inlined != NULL && inlined->payload == FSDP_UNKNOWN && !is_empty;
		count +=
			inlined == NULL && !is_empty &&
			!fsdp_span_is(fsdp_torch_location(&file->torch, i)->text, "meta");
	}
	if (as_text != 0)
		refuse_text(file, as_text);
	if (count == 0)
		return;
	fsdp_find(&file->reading->model->findings, FSDP_RULE_TORCH_RECORD,
		FSDP_PLACE(.file = file->look->path,
			.next = "open the file of torch.save that it was taken from"),
		"a pickle without its records: the bytes of %llu storage%s are not in this file",
		FSDP_LLU(count), count == 1 ? "" : "s");
}

static bool walk_tensors(struct pickles *file, struct fsdp_error **ret_error)
{
	struct fsdp_reading *reading = file->reading;
	struct fsdp_torch *torch = &file->torch;
	bool resolved = fsdp_torch_resolve(torch, NULL, NULL, ret_error);
	fsdp_reading_keep_limit(reading, &torch->over_limit, file->look->path);
	if (!resolved)
		return false;
	fsdp_reading_settle_rank(reading, file->file_id, &torch->rank);
	fsdp_reading_settle_world(
		reading, file->file_id, torch->world_size, torch->world_whole);
	bool walked = fsdp_torch_walk(torch, ret_error);
	if (!add_extents(file, ret_error) || !walked)
		return false;
	say_missing(file);
	return true;
}

/* ---- one pickle after the other ---- */

/* That of a distributed checkpoint by itself, or of one that was never committed. */
static bool is_metadata(struct fsdp_span name)
{
	return fsdp_span_ends(name, FSDP_SPAN(".metadata")) ||
	       fsdp_span_ends(name, FSDP_SPAN(".metadata.tmp"));
}

static bool read_one(
	struct pickles *file, struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	struct fsdp_reading *reading = file->reading;
	struct fsdp_span stream;
	uint64_t begin = file->at;
	if (!fsdp_torch_next_pickle(&file->look->source, &file->at, reading->limits,
		    reading->model->arena, &stream, ret_error) ||
		!fsdp_torch_init(&file->torch, reading->model, arena, arena,
			file->look->path, (struct fsdp_span){ 0 }, ret_error))
		return false;
	file->torch.first_extent = (uint32_t)reading->model->extents.count;
	file->torch.take_inlined = fsdp_torch_take_inlined;
	if (is_metadata(file->look->path))
		file->torch.profile = FSDP_PROFILE_METADATA;
	bool read = fsdp_torch_read(&file->torch, stream, begin, false, ret_error);
	fsdp_torch_look_inside(&file->torch, stream);
	fsdp_torch_judge(&file->torch);
	/* Only the first is what torch.load would give. */
	return read && (begin != 0 || walk_tensors(file, ret_error));
}

static void say_trailing(const struct pickles *file, uint64_t begin)
{
	fsdp_find(&file->reading->model->findings, FSDP_RULE_PICKLE_TRAILING,
		FSDP_PLACE(.file = file->look->path, .offset = begin,
			.length = file->look->source.size - begin),
		"%llu bytes follow the pickle",
		FSDP_LLU(file->look->source.size - begin));
}

/* What follows the first is looked at for what it would call, as long as it is
 * pickles. */
static bool read_all(struct pickles *file, struct fsdp_error **ret_error)
{
	uint64_t most = fsdp_limit(file->reading->limits, FSDP_LIMIT_PICKLE_STREAMS);
	for (uint64_t count = 0; file->at < file->look->source.size; count++) {
		struct fsdp_error *error = NULL;
		struct fsdp_arena arena;
		if (count == most)
			return fsdp_fail_limit(
				ret_error, FSDP_LIMIT_PICKLE_STREAMS, most);
		if (count == 1)
			say_trailing(file, file->at);
		fsdp_arena_init(&arena, file->reading->scratch->budget);
		bool read = read_one(file, &arena, count == 0 ? ret_error : &error);
		fsdp_arena_done(&arena);
		bool fatal = error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
		fsdp_error_free(error);
		if (fatal)
			return fsdp_arena_fail(file->reading->scratch, ret_error);
		if (!read)
			return count != 0;
	}
	return true;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct pickles *file = FSDP_TAKE(reading->scratch, file, 1);
	if (file == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	file->reading = reading;
	file->look = look;
	reading->model->format = (struct fsdp_format){
		.family = fsdp_family_pickle.name,
		.title = fsdp_family_pickle.title,
	};
	file->file_id = fsdp_build_file(
		reading->model, look->path, look->source.size, reading->rank, ret_error);
	return file->file_id != FSDP_NONE && read_all(file, ret_error);
}

const struct fsdp_family fsdp_family_pickle = {
	.name = "pickle",
	.title = "bare pickle (no file of torch.save)",
	.recognise = recognise,
	.read = read,
	.has_pickles = true,
};
