/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the records of the container that torch.save writes. For the meaning of the
 * pickle see torch.h.
 *
 *	ROOT/data.pkl                one pickle
 *	ROOT/data/<key>              the bytes of one storage
 *	ROOT/version                 decimal text, 1 … 10 (or .data/version)
 *	ROOT/byteorder               "little" or "big", of the storages; absent: little
 *	ROOT/.format_version         "1": storages are in numeric order of their keys
 *	ROOT/.storage_alignment      decimal text
 *	ROOT/.data/serialization_id  40 digits
 *	ROOT/constants.pkl           it is a TorchScript archive, which contains code too
 *
 * Origin: torch/serialization.py and caffe2/serialize/inline_container.cc (PyTorch 2.13),
 * and files of torch 1.6 to 2.13.
 */
#include <stdio.h>
#include <strings.h>

#include "base/num.h"
#include "formats/format.h"
#include "formats/torch/torch.h"
#include "io/zip.h"

enum { OTHER_BYTES = 16 << 20 };

struct torch_zip {
	struct fsdp_reading *reading;
	struct fsdp_zip zip;
	struct fsdp_span root; /* with its slash */
	const struct fsdp_zip_member *pickle, *version, *byteorder;
	bool format_version, serialization_id, alignment;
	bool constants;
	size_t outside; /* members that are not below the root */
	size_t others;  /* these, and what else torch does not write */
	struct fsdp_span file;
	uint32_t file_id;
	bool big_endian;
	struct fsdp_arena pickles; /* what the pickle needs while it is read and walked */
	struct fsdp_torch torch;
};

/* The last 22 bytes are the end of a zip directory. Other bytes precede the zip: torch
 * refuses that, other readers of zips do not. */
static bool recognize_end(const struct fsdp_look *look)
{
	unsigned char end[22];
	struct fsdp_error *error = NULL;
	bool read = look->source.size > sizeof end &&
		    fsdp_source_read(&look->source, look->source.size - sizeof end, end,
			    sizeof end, &error);
	fsdp_error_free(error);
	return read && memcmp(end, "PK\005\006", 4) == 0;
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	if (look->folder != NULL)
		return FSDP_SIGN_NONE;
	return fsdp_span_begins(look->head, FSDP_SPAN("PK\003\004")) ? FSDP_SIGN_SURE
								     : FSDP_SIGN_NONE;
}

/* ---- records ---- */

/* A member's name below the root; absent: it is elsewhere. */
static struct fsdp_span below_root(const struct torch_zip *file, struct fsdp_span name)
{
	if (file->root.size == 0 || !fsdp_span_begins(name, file->root))
		return (struct fsdp_span){ 0 };
	return fsdp_span(name.data + file->root.size, name.size - file->root.size);
}

enum torch_record {
	RECORD_OTHER, /* nothing that torch writes */
	RECORD_STORAGE,
	RECORD_PICKLE,
	RECORD_VERSION,
	RECORD_BYTEORDER,
	RECORD_FORMAT_VERSION,
	RECORD_ALIGNMENT,
	RECORD_SERIALIZATION_ID,
	RECORD_CONSTANTS,
};

static enum torch_record record_of(struct fsdp_span name)
{
	static const struct {
		const char *name;
		enum torch_record record;
	} rows[] = {
		{ "data.pkl", RECORD_PICKLE },
		{ "version", RECORD_VERSION },
		{ ".data/version", RECORD_VERSION },
		{ "byteorder", RECORD_BYTEORDER },
		{ ".format_version", RECORD_FORMAT_VERSION },
		{ ".storage_alignment", RECORD_ALIGNMENT },
		{ ".data/serialization_id", RECORD_SERIALIZATION_ID },
		{ "constants.pkl", RECORD_CONSTANTS },
	};
	if (name.size > 5 && memcmp(name.data, "data/", 5) == 0)
		return RECORD_STORAGE;
	/* What torch looks a name up for: ASCII case does not count there. */
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (name.size == strlen(rows[i].name) &&
			strncasecmp((const char *)name.data, rows[i].name, name.size) ==
				0)
			return rows[i].record;
	return RECORD_OTHER;
}

static void check_others(struct torch_zip *file);

static bool read_members(struct torch_zip *file, struct fsdp_error **ret_error)
{
	struct fsdp_findings *findings = &file->reading->model->findings;
	if (file->zip.members.count == 0)
		return fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			"this is a zip archive without members");
	struct fsdp_span first = fsdp_zip_member(&file->zip, 0)->name;
	size_t root = fsdp_span_first(first, '/').size;
	file->root = fsdp_span(first.data, root < first.size ? root + 1 : 0);
	FSDP_EACH(i, file->zip.members.count, member, fsdp_zip_member(&file->zip, i)) {
		struct fsdp_span name = below_root(file, member->name);
		enum torch_record record =
			name.data != NULL ? record_of(name) : RECORD_OTHER;
		file->outside += name.data == NULL;
		file->others += record == RECORD_OTHER;
		/* Of two pickles whose names differ only in case the ordinary one. */
		if (record == RECORD_PICKLE &&
			(file->pickle == NULL || fsdp_span_is(name, "data.pkl")))
			file->pickle = member;
		if (record == RECORD_VERSION)
			file->version = member;
		if (record == RECORD_BYTEORDER)
			file->byteorder = member;
		file->format_version |= record == RECORD_FORMAT_VERSION;
		file->alignment |= record == RECORD_ALIGNMENT;
		file->serialization_id |= record == RECORD_SERIALIZATION_ID;
		file->constants |= record == RECORD_CONSTANTS;
	}
	if (file->pickle == NULL) {
		check_others(file);
		return fsdp_foreign_zip(&file->zip, ret_error);
	}
	if (file->outside != 0)
		fsdp_find(findings, FSDP_RULE_ZIP_ROOT, FSDP_PLACE(.file = file->file),
			file->outside == 1 ? "%zu member is outside of %.*s"
					   : "%zu members are outside of %.*s",
			file->outside, FSDP_TEXT(file->root));
	return true;
}

/* A small record as text. */
static bool read_small(struct torch_zip *file, const struct fsdp_zip_member *member,
	struct fsdp_span *ret_text, struct fsdp_error **ret_error)
{
	return fsdp_zip_read(
		&file->zip, member, 4096, file->reading->scratch, ret_text, ret_error);
}

static bool check_version(struct torch_zip *file, struct fsdp_error **ret_error)
{
	struct fsdp_findings *findings = &file->reading->model->findings;
	struct fsdp_span text;
	if (file->version == NULL) {
		fsdp_find(findings, FSDP_RULE_TORCH_RECORD,
			FSDP_PLACE(.file = file->file),
			"the record 'version' is missing: torch.load rejects the file");
		return true;
	}
	if (!read_small(file, file->version, &text, ret_error))
		return false;
	uint64_t version = 0;
	text.size = (size_t)fsdp_min(text.size, 9);
	(void)fsdp_span_number(&text, UINT64_MAX >> 5, &version);
	if (version < 1 || version > 10)
		fsdp_find(findings, FSDP_RULE_TORCH_RECORD,
			FSDP_PLACE(.file = file->file, .member = file->version->name),
			"the version is %llu; torch accepts 1 to 10", FSDP_LLU(version));
	return true;
}

static bool check_byteorder(struct torch_zip *file, struct fsdp_error **ret_error)
{
	struct fsdp_span text;
	if (file->byteorder == NULL)
		return true;
	if (!read_small(file, file->byteorder, &text, ret_error))
		return false;
	file->big_endian = fsdp_span_is(text, "big");
	if (!file->big_endian && !fsdp_span_is(text, "little"))
		fsdp_find(&file->reading->model->findings, FSDP_RULE_TORCH_RECORD,
			FSDP_PLACE(.file = file->file, .member = file->byteorder->name),
			"the byte order is neither little nor big");
	else if (file->big_endian)
		fsdp_find(&file->reading->model->findings, FSDP_RULE_ODD_TENSOR_STATE,
			FSDP_PLACE(.file = file->file, .member = file->byteorder->name,
				.severity = FSDP_NOTE + 1, .fix = ""),
			"the bytes of each element are in big-endian order: torch.load swaps them, other readers may not");
	return true;
}

/* ---- storages ---- */

static void add_extents(struct torch_zip *file)
{
	FSDP_EACH(i, (uint32_t)file->torch.storages.count, storage,
		fsdp_torch_storage(&file->torch, i)) {
		struct fsdp_span key = fsdp_torch_key(&file->torch, i);
		struct fsdp_extent extent = {
			.kind = FSDP_EXTENT_MEMBER,
			.file = file->file_id,
			.size = fsdp_torch_storage_bytes(storage),
			.offset = FSDP_UNKNOWN,
			.big_endian = file->big_endian,
			.is_record = storage->is_mesh,
			.missing = true,
		};
		fsdp_build_extent(file->reading->model, &extent, key);
		if (storage->conflict)
			fsdp_find(&file->reading->model->findings,
				FSDP_RULE_STORAGE_CONFLICT,
				FSDP_PLACE(.file = file->file),
				"storage %.*s is described in two ways; torch keeps the first",
				FSDP_TEXT_MOST(key, 64));
	}
}

/* Gives a storage its record. A record of another length is not used. */
static void match_storage(
	struct torch_zip *file, uint32_t storage, const struct fsdp_zip_member *member)
{
	struct fsdp_model *model = file->reading->model;
	struct fsdp_extent *extent =
		fsdp_model_extent(model, file->torch.first_extent + storage);
	uint64_t expected = extent->size;
	extent->offset = member->header;
	extent->length = member->stored_size;
	extent->method = (uint8_t)member->method;
	extent->crc = member->crc;
	extent->has_crc = !file->zip.no_crc && member->size == expected;
	extent->missing = member->size < expected || member->method > 8;
	if (member->size != expected)
		fsdp_find(&model->findings, FSDP_RULE_STORAGE_SIZE,
			FSDP_PLACE(.file = file->file, .member = member->name,
				.offset = member->header),
			"the record has %llu bytes, its storage needs %llu",
			FSDP_LLU(member->size), FSDP_LLU(expected));
	if (member->method != 0)
		fsdp_find(&model->findings, FSDP_RULE_ZIP_STORAGE_COMPRESSED,
			FSDP_PLACE(.file = file->file, .member = member->name,
				.offset = member->header),
			"the storage is compressed; mmap=True would map compressed bytes");
}

/* The storage of a key. Records mostly come in the order in which the pickle names them,
 * so the one after the last is tried first. */
static uint32_t find_storage(
	const struct torch_zip *file, struct fsdp_span key, uint32_t guess)
{
	if (guess < file->torch.storages.count &&
		fsdp_span_equal(fsdp_torch_key(&file->torch, guess), key))
		return guess;
	uint32_t name = fsdp_names_find_child(&file->torch.keys, 0, key);
	return name == FSDP_NONE ? FSDP_NONE : name - 1;
}

/* One pass over the directory: keys are looked up by hash, members are never sorted. */
static void match_members(struct torch_zip *file)
{
	uint32_t next = 0;
	size_t skip = file->root.size + 5;
	FSDP_EACH(i, file->zip.members.count, member, fsdp_zip_member(&file->zip, i)) {
		if (member->name.size <= skip ||
			!fsdp_span_begins(member->name, file->root) ||
			memcmp(member->name.data + file->root.size, "data/", 5) != 0)
			continue;
		uint32_t storage = find_storage(file,
			fsdp_span(member->name.data + skip, member->name.size - skip),
			next);
		if (storage == FSDP_NONE)
			continue;
		match_storage(file, storage, member);
		next = storage + 1;
	}
}

/* A storage before it has an extent: its record by name. */
static bool read_storage(void *context, uint32_t index, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error)
{
	struct torch_zip *file = context;
	struct fsdp_span key = fsdp_torch_key(&file->torch, index);
	size_t room = file->root.size + 5 + key.size;
	char *name = fsdp_arena_take(file->reading->scratch, room, 1);
	uint64_t begin;
	if (name == NULL)
		return fsdp_arena_fail(file->reading->scratch, ret_error);
	memcpy(name, file->root.data, file->root.size);
	memcpy(name + file->root.size, "data/", 5);
	memcpy(name + file->root.size + 5, key.data, key.size);
	const struct fsdp_zip_member *member =
		fsdp_zip_find(&file->zip, fsdp_span(name, room));
	if (member == NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"a storage is missing");
	return fsdp_zip_locate(&file->zip.source, member, &begin, ret_error) &&
	       fsdp_zip_read_part(&file->zip.source, begin, member->stored_size,
		       member->method, offset, buffer, size, ret_error);
}

/* ---- the file ---- */

static void set_format(struct torch_zip *file)
{
	struct fsdp_model *model = file->reading->model;
	model->format = (struct fsdp_format){
		.family = "torch-zip",
		.title = "PyTorch file (torch.save, zip)",
		.writer = "torch.save",
		.torch_guess = file->format_version && file->alignment ? "2.7 or later"
			       : file->serialization_id                ? "2.1 or later"
			       : file->byteorder != NULL               ? "2.1 or later"
								       : "1.6 or later",
	};
	if (!file->constants)
		return;
	model->format.family = "torchscript";
	model->format.title = "TorchScript archive";
	model->format.writer = "torch.jit.save";
}

/* Only the name of fairscale's files has their rank. */
static bool resolve_relative(struct torch_zip *file, const struct fsdp_relative *relative,
	struct fsdp_error **ret_error)
{
	if (file->torch.rank == FSDP_NONE && !relative->is_xla)
		file->torch.rank = file->reading->rank;
	if (file->torch.rank < FSDP_RELATIVE_RANKS)
		return true;
	fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
		"this is a rank file of %s FSDP without its rank in the file or its name",
		relative->writer);
	return fsdp_error_add_hint(ret_error,
		"give the files of all ranks, with their numbers in their names");
}

/* Its parameters in place of what they were flattened to. */
static void read_relative(struct torch_zip *file, struct fsdp_relative *relative)
{
	struct fsdp_format *format = &file->reading->model->format;
	fsdp_torch_take_relative(&file->torch, relative);
	format->family = relative->family;
	format->title = relative->title;
	format->writer = relative->writer;
	if (!relative->is_xla && relative->ranks_at_least < FSDP_RELATIVE_RANKS)
		fsdp_reading_resolve_world(file->reading, file->file_id,
			(uint32_t)relative->ranks_at_least, false);
}

/* The first segment of a name. */
static struct fsdp_span first_segment(const struct fsdp_model *model, uint32_t name)
{
	uint32_t above = fsdp_names_at(&model->names, name)->parent;
	while (above != FSDP_NONE && above != 0) {
		name = above;
		above = fsdp_names_at(&model->names, name)->parent;
	}
	return fsdp_names_segment(&model->names, name);
}

/* States of callbacks are not parameters. */
static uint8_t role_in_lightning(
	const struct fsdp_model *model, uint32_t raw_name, uint8_t role)
{
	return role == FSDP_ROLE_OPTIM ||
			       fsdp_span_is(first_segment(model, raw_name), "state_dict")
		       ? role
		       : FSDP_ROLE_OTHER;
}

/* Files of Ultralytics have the arguments of the training, two models, and the result of
 * the best one. */
static void name_ultralytics(struct torch_zip *file)
{
	static const char *const keys[] = { "train_args", "best_fitness", "ema" };
	struct fsdp_format *format = &file->reading->model->format;
	struct fsdp_pickle *pickle = file->torch.pickle;
	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (fsdp_pickle_get(pickle, fsdp_pickle_top(pickle), keys[i]) ==
			FSDP_REF_NONE)
			return;
	format->title = "Ultralytics checkpoint (.pt)";
	format->writer = "Ultralytics";
}

/* Checkpoints of Lightning's Trainer have its version. */
static void resolve_lightning(
	struct torch_zip *file, size_t first_tensor, size_t first_value)
{
	struct fsdp_model *model = file->reading->model;
	struct fsdp_pickle *pickle = file->torch.pickle;
	fsdp_ref version = fsdp_pickle_get(
		pickle, fsdp_pickle_top(pickle), "pytorch-lightning_version");
	if (fsdp_pickle_text(pickle, version).data == NULL)
		return;
	model->format.family = "lightning-ckpt";
	model->format.title = "Lightning checkpoint (.ckpt)";
	model->format.writer = "Lightning";
	for (size_t i = first_tensor; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		tensor->role = role_in_lightning(model, tensor->raw_name, tensor->role);
	}
	for (size_t i = first_value; i < model->values.count; i++) {
		struct fsdp_value_record *value = fsdp_model_value(model, i);
		value->role = role_in_lightning(model, value->raw_name, value->role);
	}
	fsdp_build_place(model, first_tensor, first_value,
		&(struct fsdp_build_place){
			.strip = FSDP_SPAN("state_dict"), .role = -1 });
}

static bool read_pickle(struct torch_zip *file, struct fsdp_error **ret_error)
{
	struct fsdp_reading *reading = file->reading;
	struct fsdp_span stream;
	uint64_t begin = 0;
	if (!fsdp_zip_read(&file->zip, file->pickle,
		    fsdp_limit(reading->limits, FSDP_LIMIT_PICKLE_BYTES),
		    reading->is_one_of_many ? &file->pickles : reading->model->arena,
		    &stream, ret_error))
		return false;
	/* Offsets count in the file if the pickle is stored, else in the pickle. */
	if (file->pickle->method == 0 &&
		!fsdp_zip_locate(&file->zip.source, file->pickle, &begin, ret_error))
		return false;
	if (!fsdp_torch_init(&file->torch, reading->model, &file->pickles,
		    reading->scratch, file->file, file->pickle->name, ret_error))
		return false;
	file->torch.copies = reading->is_one_of_many;
	if (reading->is_one_of_many)
		file->torch.keys.copies = reading->model->arena;
	file->torch.first_extent = (uint32_t)reading->model->extents.count;
	file->torch.ids = FSDP_IDS_ZIP;
	file->torch.profile =
		file->constants ? FSDP_PROFILE_SCRIPT : FSDP_PROFILE_TENSORS;
	bool read = fsdp_torch_read(&file->torch, stream, begin, false, ret_error);
	fsdp_torch_look_inside(&file->torch, stream);
	fsdp_torch_check(&file->torch);
	if (file->constants) {
		/* What torch.jit.save writes is an object of a class that its code
		 * defines. */
		const struct fsdp_pickle *pickle = file->torch.pickle;
		bool defined = false;
		for (size_t i = 0; pickle != NULL && i < fsdp_pickle_global_count(pickle);
			i++)
			defined |= fsdp_span_begins(fsdp_pickle_global(pickle, i)->module,
				FSDP_SPAN("__torch__"));
		if (defined)
			fsdp_find(&file->reading->model->findings, FSDP_RULE_TORCHSCRIPT,
				FSDP_PLACE(.file = file->file),
				"this is a TorchScript archive (torch.jit.save): its code is not checked");
		else
			fsdp_find(&file->reading->model->findings, FSDP_RULE_TORCHSCRIPT,
				FSDP_PLACE(.file = file->file, .severity = FSDP_ERROR + 1,
					.fix = "do not load this file"),
				"a torch.save file with the records of a TorchScript archive: torch.load hands it to the loader that runs code");
	}
	if (!read)
		fsdp_error_add_member(ret_error, file->pickle->name);
	struct fsdp_relative relative = {
		.first_tensor = reading->model->tensors.count,
		.first_piece = reading->model->pieces.count,
		.first_value = reading->model->values.count,
	};
	bool is_relative = read && fsdp_torch_find_relative(&file->torch, &relative);
	if (!read || (is_relative && !resolve_relative(file, &relative, ret_error)) ||
		!fsdp_torch_add(&file->torch, reading, file->file_id, read_storage, file,
			ret_error))
		return false;
	if (is_relative)
		read_relative(file, &relative);
	resolve_lightning(file, relative.first_tensor, relative.first_value);
	name_ultralytics(file);
	return true;
}

/* Calls of a pickle, and whether it was looked at. Its other content costs nothing. */
static bool check_other(struct torch_zip *file, const struct fsdp_zip_member *member)
{
	struct fsdp_reading *reading = file->reading;
	struct fsdp_error *error = NULL;
	struct fsdp_torch torch;
	struct fsdp_span stream;
	struct fsdp_arena *arena = fsdp_arena_new_below(reading->scratch);
	uint64_t begin = 0;
	bool looked = false;
	if (fsdp_zip_read(&file->zip, member, OTHER_BYTES, arena, &stream, &error) &&
		(member->method != 0 ||
			fsdp_zip_locate(&file->zip.source, member, &begin, &error)) &&
		fsdp_torch_init(&torch, reading->model, arena, arena, file->file,
			member->name, &error)) {
		uint64_t skip = fsdp_min(fsdp_numpy_pickle(stream), stream.size);
		stream = fsdp_span(stream.data + skip, stream.size - skip);
		begin += skip;
		torch.profile =
			file->constants ? FSDP_PROFILE_SCRIPT : FSDP_PROFILE_TENSORS;
		/* What is broken was looked at up to there; what ended at a limit not. */
		looked = fsdp_torch_read(&torch, stream, begin, false, &error) ||
			 error == NULL || fsdp_error_limit(error) == NULL;
		fsdp_torch_check(&torch);
	}
	if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
		fsdp_model_leave(reading->model, error);
	fsdp_error_free(error);
	fsdp_arena_done(arena);
	return looked;
}

/* Some readers of zips see a name up to its first NUL. */
static bool has_name_of_pickle(struct fsdp_span name)
{
	static const char suffix[] = ".pkl";
	const size_t size = sizeof suffix - 1;
	struct fsdp_span first = fsdp_span_first(name, '\0');
	if (first.size != name.size && has_name_of_pickle(first))
		return true;
	return name.size >= size &&
	       strncasecmp((const char *)name.data + name.size - size, suffix, size) == 0;
}

/* PROTO, as every pickle from protocol 2 on begins; or an array of NumPy with objects. */
static bool begins_as_pickle(
	const struct torch_zip *file, const struct fsdp_zip_member *member)
{
	unsigned char head[1024] = { 0 };
	size_t size = (size_t)fsdp_min(member->size, sizeof head);
	uint64_t begin;
	return size > 2 && fsdp_zip_locate(&file->zip.source, member, &begin, NULL) &&
	       fsdp_zip_read_part(&file->zip.source, begin, member->stored_size,
		       member->method, 0, head, size, NULL) &&
	       ((head[0] == FSDP_OP_PROTO && head[1] >= 2 && head[1] <= 5) ||
		       fsdp_numpy_pickle(fsdp_span(head, size)) != 0);
}

/* Whether it may be a pickle: by its name, or (of what torch does not write) by how it
 * begins. What is not a checkpoint of torch, and what has code, has members of all kinds:
 * of these that of an archive of NumPy is looked at. */
static bool may_be_pickle(struct torch_zip *file, const struct fsdp_zip_member *member)
{
	if (has_name_of_pickle(member->name))
		return true;
	if (file->pickle == NULL && fsdp_span_ends(member->name, FSDP_SPAN(".npy")))
		return begins_as_pickle(file, member);
	if (file->pickle == NULL || file->constants || file->others == 0)
		return false;
	struct fsdp_span name = below_root(file, member->name);
	return (name.data == NULL || record_of(name) == RECORD_OTHER) &&
	       begins_as_pickle(file, member);
}

/* Members that were not looked at. */
struct unseen {
	size_t count, size;
	char names[2 * FSDP_SHOWN];
	bool by_limit;
};

/* Further pickles of the archive: torch.load does not read them, other readers may. */
static void check_others(struct torch_zip *file)
{
	uint64_t most = fsdp_limit(file->reading->limits, FSDP_LIMIT_PICKLE_STREAMS);
	struct unseen unseen = { 0 };
	FSDP_EACH(i, file->zip.members.count, member, fsdp_zip_member(&file->zip, i)) {
		if ((file->pickle != NULL && member->header == file->pickle->header) ||
			!may_be_pickle(file, member))
			continue;
		unseen.by_limit |= most == 0;
		if (most == 0 || !check_other(file, member)) {
			char room[FSDP_SHOWN];
			const char *text = fsdp_shown(member->name, room);
			size_t left = sizeof unseen.names - unseen.size;
			unseen.count++;
			if (strlen(text) + 3 <= left) {
				unseen.size += (size_t)snprintf(
					unseen.names + unseen.size, left, "%s%s",
					unseen.size == 0 ? "" : ", ", text);
			}
		}
		most -= most != 0;
	}
	if (unseen.count != 0)
		fsdp_find(&file->reading->model->findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = file->file, .severity = FSDP_WARNING + 1,
				.fix = unseen.by_limit
					       ? "raise --limit=pickle-streams to check them"
					       : NULL),
			unseen.count == 1
				? "%zu pickle next to data.pkl was not checked: %s"
				: "%zu pickles next to data.pkl were not checked: %s",
			unseen.count, unseen.names);
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct torch_zip *file = FSDP_TAKE(reading->scratch, file, 1);
	file->reading = reading;
	file->file = look->path;
	file->file_id = fsdp_build_file(
		reading->model, look->path, look->source.size, reading->rank);
	if (!fsdp_zip_open(&look->source, reading->scratch, reading->limits, file->file,
		    &reading->model->findings, &file->zip, ret_error) ||
		!read_members(file, ret_error))
		return false;
	set_format(file);
	/* What the names of members that are storages begin with. */
	struct fsdp_model *model = file->reading->model;
	struct fsdp_file_record *record = fsdp_model_file(model, file->file_id);
	struct fsdp_span folder = FSDP_SPAN("data/");
	size_t size = file->root.size + folder.size;
	unsigned char *text = fsdp_arena_take(model->arena, size, 1);
	memcpy(text, file->root.data, file->root.size);
	memcpy(text + file->root.size, folder.data, folder.size);
	record->records = fsdp_span(text, size);
	/* The operations of the pickle are reported, whatever other errors it has. */
	if (!check_version(file, ret_error) || !check_byteorder(file, ret_error)) {
		(void)check_other(file, file->pickle);
		check_others(file);
		return false;
	}
	/* The pickle's values are gone before the extents come: a million storages and
	 * the values are not held together. */
	fsdp_arena_init_below(&file->pickles, reading->scratch);
	bool read = read_pickle(file, ret_error);
	fsdp_arena_done(&file->pickles);
	add_extents(file);
	if (!read) {
		check_others(file);
		return false;
	}
	match_members(file);
	char member[FSDP_SHOWN];
	FSDP_EACH(i, (uint32_t)file->torch.storages.count, key,
		fsdp_torch_key(&file->torch, i)) {
		if (fsdp_model_extent(model, file->torch.first_extent + i)->offset !=
				FSDP_UNKNOWN ||
			fsdp_span_is(fsdp_torch_location(&file->torch, i)->text, "meta"))
			continue;
		snprintf(member, sizeof member, "%.*s%.*s",
			FSDP_TEXT_MOST(record->records, 180), FSDP_TEXT_MOST(key, 64));
		fsdp_find(&model->findings, FSDP_RULE_TORCH_RECORD,
			FSDP_PLACE(.file = file->file, .member = fsdp_span_text(member)),
			"record data/%.*s is missing", FSDP_TEXT_MOST(key, 64));
	}
	check_others(file);
	if (file->constants) {
		/* Its tensors are listed; what its code would do is not checked. */
		struct fsdp_error *error = NULL;
		fsdp_fail(&error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"the code of a TorchScript archive is not checked");
		fsdp_error_add_path(&error, (const char *)file->file.data);
		fsdp_error_add_rule(&error, "FI9006");
		fsdp_error_add_hint(&error,
			"save the state dict of the model instead: torch.save(model.state_dict(), …)");
		fsdp_reading_keep_error(file->reading, error);
	}
	return true;
}

/* A torch.save file may be all that many ranks gathered; how many is not in it. */
static const char *const rankless[] = { "lightning-ckpt", NULL };

const struct fsdp_family fsdp_family_torch_zip = {
	.name = "torch-zip",
	.title = "PyTorch file (torch.save, zip)",
	.recognize = recognize,
	.recognize_end = recognize_end,
	.read = read,
	.has_pickles = true,
	.rankless = rankless,
};
