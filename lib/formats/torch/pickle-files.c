/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of PyTorch that are pickles and no zip: what torch.save wrote before 1.6, and
 * bare pickles.
 */
#include "base/num.h"
#include "formats/format.h"
#include "formats/torch/torch.h"

#include <stdio.h>

/* ---- the end of a pickle ---- */

/*
 * Finds the end of a pickle without a recorded length: its opcodes are skipped up to
 * STOP.
 *
 * What follows may be storages of many gigabytes, so the window grows only while the
 * pickle continues.
 */

enum { WINDOW = 16 << 10, GROWTH = 8 };

/* Steps on from *at. True: STOP was found, or something that is none of a pickle's; the
 * pickle ends at *at. False: the window ends first. */
static bool step_to_stop(struct fsdp_span window, bool whole, uint64_t *at)
{
	while (*at < window.size) {
		struct fsdp_error *error = NULL;
		struct fsdp_span argument;
		uint64_t next = *at;
		const struct fsdp_pickle_opcode *opcode =
			fsdp_pickle_next_opcode(window, &next, &argument, &error);
		bool unknown = fsdp_pickle_opcode(window.data[*at]) == NULL;
		fsdp_error_free(error);
		if (opcode == NULL) {
			/* What is wrong with it, the pickle machine will say. */
			if (whole || unknown)
				*at = window.size;
			return whole || unknown;
		}
		if (opcode->code == FSDP_OP_STOP) {
			++*at;
			return true;
		}
		*at = next;
	}
	return whole;
}

static bool find_end(const struct fsdp_source *source, uint64_t offset, uint64_t most,
	struct fsdp_arena *arena, uint64_t *ret_length, struct fsdp_error **ret_error)
{
	uint64_t size = fsdp_min(WINDOW, most);
	*ret_length = 0;
	for (;;) {
		struct fsdp_span window;
		fsdp_arena_reset(arena);
		if (!fsdp_source_read_all(
			    source, offset, size, arena, &window, ret_error))
			return false;
		if (step_to_stop(window, size == most, ret_length))
			return true;
		size = most / GROWTH > size ? size * GROWTH : most;
	}
}

bool fsdp_torch_next_pickle(const struct fsdp_source *source, uint64_t *offset,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_span *ret_stream, struct fsdp_error **ret_error)
{
	struct fsdp_arena windows;
	uint64_t limit = fsdp_limit(limits, FSDP_LIMIT_PICKLE_BYTES), length;
	if (*offset >= source->size)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1047", *offset,
			"the file ends where a pickle should begin");
	fsdp_arena_init(&windows, arena->budget);
	bool found = find_end(source, *offset, fsdp_min(source->size - *offset, limit),
		&windows, &length, ret_error);
	fsdp_arena_done(&windows);
	if (!found || !fsdp_source_read_all(
			      source, *offset, length, arena, ret_stream, ret_error))
		return false;
	*offset += length;
	return true;
}

/* ---- streams and tars ---- */

/*
 * The two forms in which torch saved before it packed zips: a stream of pickles with the
 * storages after them, and before that a tar. What the pickles mean: torch.h.
 *
 * The stream, nothing framed:
 *
 *	pickle   an integer of ten bytes, the magic, in any protocol of pickle
 *	pickle   1001, the protocol
 *	pickle   {"protocol_version": 1001, "little_endian": bool, "type_sizes": {…}}
 *	pickle   the object; ids are ("storage", class, key, location, numel, part)
 *	pickle   the list of the storages' keys
 *	for each key: i64 elements, then so many elements
 *
 * The tar, members by name:
 *
 *	sys_info  pickle  as above
 *	storages  pickle  how many; for each: pickle (key, location, class),
 *	                  i64 elements, the elements;
 *	                  then pickle [(part, key, offset, numel), …]
 *	tensors   pickle  how many; for each: pickle (key, storage, class),
 *	                  i32 dimensions, 4 bytes, i64 sizes, strides, offset
 *	pickle    pickle  the object; ids are texts of keys of tensors, storages
 *
 * Counts and elements are little-endian whatever the machine was: its order is recorded,
 * and torch swaps when it writes.
 *
 * Origin: torch/serialization.py (PyTorch 2.13, _legacy_save, _legacy_load,
 * legacy_load), torch/csrc/serialization.cpp.
 */

/* The magic as LONG1 and, below protocol 2, as LONG has it. */
#define MAGIC "l\374\234F\371 j\250P\031"
#define WRITTEN_MAGIC "119547037146038801333356L"

enum { PROTOCOL = 1001 };

struct legacy {
	struct fsdp_reading *reading;
	const struct fsdp_folder *folder; /* of the tar's members */
	struct fsdp_source source, storages;
	struct fsdp_source tar; /* all of it, if its members are stored as they are */
	struct fsdp_span file;
	struct fsdp_span member; /* of the tar; absent: it goes by the name of a file */
	uint32_t file_id;
	uint64_t at;
	struct fsdp_arena pickles; /* what the object's pickle needs until it is walked */
	struct fsdp_arena small;   /* one pickle of those around it */
	struct fsdp_torch facts;   /* with which these are read; they hold no tensors */
	struct fsdp_torch torch;
	uint32_t extent_count; /* of storages that have one */
	bool is_truncated;     /* the file ends before its last storage does */

	struct fsdp_error *error; /* of what `require` leaves for */

	/* The tar only: what an id stands for. */
	struct fsdp_names keys;
	struct fsdp_vec numbers; /* uint32_t, by name - 1 */
};

static struct fsdp_findings *findings_of(const struct legacy *legacy)
{
	return &legacy->reading->model->findings;
}

#define FIND(legacy, where, ...)                                               \
	fsdp_find(findings_of(legacy), FSDP_RULE_LEGACY_STREAM,                \
		FSDP_PLACE(.file = (legacy)->file, .member = (legacy)->member, \
			.offset = where),                                      \
		__VA_ARGS__)

/* Leaves the reading unless that is so, with legacy->error; of a tar with its member. */
static void require(struct legacy *legacy, bool good)
{
	if (good)
		return;
	if (legacy->folder != NULL)
		fsdp_error_add_member(&legacy->error,
			legacy->member.data != NULL ? legacy->member : legacy->file);
	fsdp_model_leave(legacy->reading->model, legacy->error);
}

static bool fail(struct legacy *legacy, const char *what)
{
	return fsdp_fail_rule(
		&legacy->error, FSDP_ERROR_DAMAGED, "FI1047", legacy->at, "%s", what);
}

/* ---- the pickles around the object ---- */

/* Reads and checks the next one; its value. */
static fsdp_ref next_fact(struct legacy *legacy)
{
	struct fsdp_reading *reading = legacy->reading;
	struct fsdp_span stream;
	uint64_t begin = legacy->at;
	fsdp_arena_reset(&legacy->small);
	require(legacy,
		fsdp_torch_next_pickle(&legacy->source, &legacy->at, reading->limits,
			&legacy->small, &stream, &legacy->error));
	struct fsdp_pickle_options options = {
		.limits = reading->limits,
		.findings = findings_of(legacy),
		.file = legacy->file,
		.member = legacy->member,
		.base = begin,
	};
	legacy->facts.pickle = NULL; /* the one before is gone */
	fsdp_torch_watch(&legacy->facts, &options, stream.size, begin);
	bool read = fsdp_pickle_read(
		stream, &legacy->small, &options, &legacy->facts.pickle, &legacy->error);
	fsdp_torch_check(&legacy->facts);
	require(legacy, read);
	return fsdp_pickle_top(legacy->facts.pickle);
}

/* What follows can be read even if this is wrong, so that is only a finding. */
static void read_facts(struct legacy *legacy)
{
	uint64_t begin = legacy->at;
	fsdp_ref top = next_fact(legacy);
	if (fsdp_pickle_kind(legacy->facts.pickle, top) != FSDP_PICKLE_DICT)
		FIND(legacy, begin, "the machine information is not a dict");
}

/* ---- storages ---- */

static struct fsdp_extent *extent_of(const struct legacy *legacy, uint32_t storage)
{
	return fsdp_model_extent(
		legacy->reading->model, legacy->torch.first_extent + storage);
}

/* An extent for every storage that was named so far; none has a place yet. */
static void add_extents(struct legacy *legacy)
{
	struct fsdp_torch *torch = &legacy->torch;
	while (legacy->extent_count < torch->storages.count) {
		uint32_t i = legacy->extent_count++;
		struct fsdp_extent extent = {
			.kind = FSDP_EXTENT_BYTES,
			.file = legacy->file_id,
			.size = fsdp_torch_storage_bytes(fsdp_torch_storage(torch, i)),
			.offset = FSDP_UNKNOWN,
			.missing = true,
		};
		fsdp_build_extent(
			legacy->reading->model, &extent, fsdp_torch_key(torch, i));
	}
}

static uint64_t read_count(struct legacy *legacy)
{
	unsigned char bytes[8];
	require(legacy,
		fsdp_source_read(&legacy->source, legacy->at, bytes, 8, &legacy->error));
	legacy->at += 8;
	return fsdp_load_le(bytes, 8);
}

/* Gives a storage its bytes, which begin here, and moves after them. False: the file ends
 * first, which is a finding. */
static bool place_storage(struct legacy *legacy, uint32_t storage, uint64_t count)
{
	struct fsdp_extent *extent = extent_of(legacy, storage);
	const struct fsdp_torch_storage *record =
		fsdp_torch_storage(&legacy->torch, storage);
	uint64_t width = record->untyped ? 1 : fsdp_dtype(record->dtype)->storage_bytes;
	uint64_t left = legacy->source.size - legacy->at, length;
	struct fsdp_span key = fsdp_model_key(legacy->reading->model, extent);
	bool whole = fsdp_mul(count, width, &length) && length <= left;
	if (extent->offset != FSDP_UNKNOWN)
		FIND(legacy, legacy->at, "duplicate storage %.*s",
			FSDP_TEXT_MOST(key, 64));
	extent->offset = legacy->at;
	extent->length = whole ? length : left;
	extent->missing = extent->length < extent->size;
	if (!whole && legacy->member.data != NULL)
		FIND(legacy, legacy->at,
			"the member ends inside storage %.*s: storage size is %llu x %llu bytes, %llu bytes are present",
			FSDP_TEXT_MOST(key, 64), FSDP_LLU(count), FSDP_LLU(width),
			FSDP_LLU(left));
	else if (!whole)
		legacy->is_truncated = true;
	else if (length != extent->size)
		fsdp_find(findings_of(legacy), FSDP_RULE_STORAGE_SIZE,
			FSDP_PLACE(.file = legacy->file, .member = legacy->member,
				.offset = legacy->at),
			"storage %.*s has %llu bytes, its id requires %llu",
			FSDP_TEXT_MOST(key, 64), FSDP_LLU(length),
			FSDP_LLU(extent->size));
	legacy->at += extent->length;
	return whole;
}

static void report_unplaced(struct legacy *legacy)
{
	for (uint32_t i = 0; i < legacy->extent_count && !legacy->is_truncated; i++) {
		const struct fsdp_extent *extent = extent_of(legacy, i);
		struct fsdp_span key = fsdp_model_key(legacy->reading->model, extent);
		if (extent->offset == FSDP_UNKNOWN && extent->size != 0)
			FIND(legacy, FSDP_UNKNOWN, "storage %.*s is missing",
				FSDP_TEXT_MOST(key, 64));
	}
}

/* The storages after the list of their keys. Where one cannot be stepped over, the others
 * cannot be found. */
static void place_listed(struct legacy *legacy, fsdp_ref keys)
{
	struct fsdp_pickle *pickle = legacy->facts.pickle;
	struct fsdp_pickle_iterator iterator = { .ref = keys };
	fsdp_ref none, item;
	while (fsdp_pickle_next(pickle, &iterator, &none, &item)) {
		struct fsdp_span key = fsdp_pickle_text(pickle, item);
		uint32_t name = key.data != NULL ? fsdp_names_find_child(
							   &legacy->torch.keys, 0, key)
						 : FSDP_NONE;
		if (name == FSDP_NONE) {
			FIND(legacy, legacy->at,
				"the list names storage %.*s, which no tensor has",
				FSDP_TEXT_MOST(key, 64));
			return;
		}
		if (legacy->source.size - legacy->at < 8) {
			legacy->is_truncated = true;
			return;
		}
		if (!place_storage(legacy, name - 1, read_count(legacy)))
			return;
	}
	uint64_t left = legacy->source.size - legacy->at;
	legacy->reading->model->unaccounted += left;
	if (left != 0)
		fsdp_find(findings_of(legacy), FSDP_RULE_PICKLE_TRAILING,
			FSDP_PLACE(.file = legacy->file, .offset = legacy->at,
				.length = left),
			"%llu bytes follow the last storage", FSDP_LLU(left));
}

static void read_listed(struct legacy *legacy)
{
	uint64_t begin = legacy->at;
	fsdp_ref top = next_fact(legacy);
	if (fsdp_pickle_kind(legacy->facts.pickle, top) == FSDP_PICKLE_LIST)
		place_listed(legacy, top);
	else
		FIND(legacy, begin, "the keys of the storages are not a list");
}

/* ---- the object ---- */

static bool read_storage(void *context, uint32_t storage, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error)
{
	struct legacy *legacy = context;
	const struct fsdp_extent *extent = extent_of(legacy, storage);
	struct fsdp_source part;
	if (extent->missing)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1047", legacy->at,
			"a storage is missing");
	return fsdp_source_slice(&legacy->storages, extent->offset, extent->length, &part,
		       ret_error) &&
	       fsdp_source_read(&part, offset, buffer, size, ret_error);
}

static void read_object(struct legacy *legacy)
{
	struct fsdp_span stream;
	uint64_t begin = legacy->at;
	require(legacy, fsdp_torch_next_pickle(&legacy->source, &legacy->at,
				legacy->reading->limits, legacy->reading->model->arena,
				&stream, &legacy->error));
	bool read = fsdp_torch_read(&legacy->torch, stream, begin, false, &legacy->error);
	fsdp_torch_look_inside(&legacy->torch, stream);
	fsdp_torch_check(&legacy->torch);
	require(legacy, read);
}

/* With the tensors from `first` on whose storages the file does not contain. */
static void report_truncated(struct legacy *legacy, uint32_t first)
{
	struct fsdp_model *model = legacy->reading->model;
	struct fsdp_span *names = FSDP_TAKE(legacy->reading->scratch, names,
		fsdp_min(model->pieces.count - first, FSDP_AFFECTED_KEPT) + 1);
	uint32_t affected = 0, lost = 0;
	for (uint32_t i = first; i < model->pieces.count; i++) {
		const struct fsdp_piece_record *piece = fsdp_model_piece(model, i);
		if (piece->extent == FSDP_NONE ||
			!fsdp_model_extent(model, piece->extent)->missing)
			continue;
		if (affected < FSDP_AFFECTED_KEPT)
			names[affected] = fsdp_model_name(model,
				fsdp_model_tensor(model, piece->tensor)->raw_name,
				legacy->reading->scratch);
		affected++;
	}
	for (uint32_t i = 0; i < legacy->extent_count; i++)
		lost += extent_of(legacy, i)->missing && extent_of(legacy, i)->size != 0;
	fsdp_find(findings_of(legacy), FSDP_RULE_LEGACY_STREAM,
		FSDP_PLACE(.file = legacy->file, .offset = legacy->at, .affected = names,
			.affected_count = affected,
			.fix = affected < model->pieces.count - first
				       ? "copy this file again, or export the other tensors: fsdp-inspect export --partial -o OUT FILE"
				       : "copy this file again"),
		"file is truncated: %u of %u storages are missing or incomplete", lost,
		legacy->extent_count);
}

/* Of a file, or (NULL) of the members of a tar. */
static struct legacy *new_legacy(
	struct fsdp_reading *reading, struct fsdp_span file, uint32_t file_id)
{
	struct legacy *legacy = FSDP_TAKE(reading->scratch, legacy, 1);
	legacy->reading = reading;
	legacy->file = file;
	legacy->file_id = file_id;
	fsdp_arena_init_below(&legacy->pickles, reading->scratch);
	fsdp_arena_init_below(&legacy->small, reading->scratch);
	(void)!fsdp_torch_init(&legacy->facts, reading->model, reading->scratch,
		reading->scratch, file, (struct fsdp_span){ 0 }, NULL);
	(void)!fsdp_torch_init(&legacy->torch, reading->model, &legacy->pickles,
		reading->scratch, file, (struct fsdp_span){ 0 }, NULL);
	legacy->torch.first_extent = (uint32_t)reading->model->extents.count;
	legacy->torch.owner = legacy;
	legacy->torch.ids = FSDP_IDS_LEGACY;
	legacy->facts.profile = FSDP_PROFILE_METADATA;
	return legacy;
}

/* ---- the stream ---- */

/* Bytes of the first pickle, if it is the magic and nothing else; or 0. */
static uint64_t magic_bytes(struct fsdp_span head)
{
	fsdp_auto_error *error = NULL;
	const struct fsdp_pickle_opcode *opcode;
	struct fsdp_span argument;
	uint64_t at = 0;
	do
		opcode = fsdp_pickle_next_opcode(head, &at, &argument, &error);
	while (opcode != NULL &&
		(opcode->code == FSDP_OP_PROTO || opcode->code == FSDP_OP_FRAME));
	if (opcode == NULL ||
		(opcode->code != FSDP_OP_LONG1 && opcode->code != FSDP_OP_LONG) ||
		!fsdp_span_is(
			argument, opcode->code == FSDP_OP_LONG1 ? MAGIC : WRITTEN_MAGIC))
		return 0;
	return at < head.size && head.data[at] == FSDP_OP_STOP ? at + 1 : 0;
}

static enum fsdp_sign recognize_stream(const struct fsdp_look *look)
{
	return look->folder == NULL && magic_bytes(look->head) != 0 ? FSDP_SIGN_SURE
								    : FSDP_SIGN_NONE;
}

/* ---- a stream in a value of another pickle ---- */

/* The pickles before the payload, as storages are saved: each with its required value. */
enum inlined_part { PART_PROTOCOL, PART_FACTS, PART_STORAGE, PART_KEYS, PARTS };

static bool is_part(struct fsdp_torch *torch, enum inlined_part part)
{
	struct fsdp_pickle *pickle = torch->pickle;
	fsdp_ref top = fsdp_pickle_top(pickle);
	int64_t version;
	uint32_t storage;
	switch (part) {
	case PART_PROTOCOL:
		return fsdp_pickle_integer(pickle, top, &version) && version == PROTOCOL;
	case PART_FACTS:
		return fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_DICT;
	case PART_STORAGE:
		return fsdp_torch_folded(torch, top, FSDP_TORCH_STORAGE, &storage) &&
		       torch->storages.count == 1;
	case PART_KEYS:
		return fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_LIST &&
		       fsdp_pickle_count(pickle, top) == 1 &&
		       fsdp_span_equal(
			       fsdp_pickle_text(pickle, fsdp_pickle_item(pickle, top, 0)),
			       fsdp_torch_key(torch, 0));
	case PARTS:
		break;
	}
	return false;
}

/* Reads these pickles. *at is where the payload begins; false too: it is something else.
 */
static bool read_parts(struct fsdp_torch *inner, struct fsdp_span bytes, uint64_t base,
	size_t *at, const struct fsdp_pickle_global **ret_class)
{
	for (enum inlined_part part = PART_PROTOCOL; part < PARTS; part++) {
		struct fsdp_error *error = NULL;
		struct fsdp_span rest = fsdp_span(bytes.data + *at, bytes.size - *at);
		inner->pickle = NULL;
		bool read = fsdp_torch_read(inner, rest, base + *at, true, &error);
		fsdp_torch_check(inner);
		if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			fsdp_model_leave(inner->model, error);
		fsdp_error_free(error);
		if (!read || !is_part(inner, part))
			return false;
		if (part == PART_STORAGE)
			*ret_class = fsdp_pickle_global(inner->pickle, 0);
		*at += (size_t)fsdp_pickle_length(inner->pickle);
	}
	return true;
}

/* A count of elements, and they are all that follows. */
static bool is_payload(const struct fsdp_torch_storage *storage, struct fsdp_span rest)
{
	return rest.size >= 8 && fsdp_load_le(rest.data, 8) == storage->numel &&
	       rest.size - 8 == fsdp_torch_storage_bytes(storage);
}

static bool add_inlined(struct fsdp_torch *torch, const struct fsdp_torch *inner,
	const struct fsdp_pickle_global *class, struct fsdp_torch_inlined *inlined)
{
	const struct fsdp_torch_storage *storage = fsdp_torch_storage(inner, 0);
	size_t known = torch->storages.count;
	char text[32];
	struct fsdp_span key, location;
	/* Keys of torch are addresses, which another storage may have had before. */
	snprintf(text, sizeof text, "%llu", FSDP_LLU(inlined->begin));
	key = fsdp_arena_copy(torch->model->arena, fsdp_span_text(text));
	location =
		fsdp_arena_copy(torch->model->arena, fsdp_torch_location(inner, 0)->text);
	if (!fsdp_torch_add_storage(
		    torch, key, class, location, storage->numel, &inlined->storage))
		return false;
	/* The value may have been taken from the memo. */
	if (torch->storages.count != known)
		fsdp_vec_append(&torch->inlined, inlined);
	return true;
}

/* The storage in the bytes of a value, if pickle wrote them for one: a complete stream of
 * torch.save with nothing else in it. All of its pickles are checked. `begin` is the
 * position of the value in the pickle, and as_text whether it is text there. False:
 * they are not. */
static bool torch_take_inlined(struct fsdp_torch *torch, struct fsdp_span bytes,
	struct fsdp_span value, bool as_text, uint32_t *ret_storage)
{
	const struct fsdp_pickle_global *class = NULL;
	struct fsdp_torch_inlined inlined = { .begin = (uint64_t)(value.data -
								  torch->stream.data) };
	struct fsdp_torch inner;
	size_t at = (size_t)magic_bytes(bytes);
	if (at == 0 || value.data < torch->stream.data ||
		inlined.begin > torch->stream.size)
		return false;
	/* Any number of calls may share a value. */
	fsdp_model_work(torch->model, bytes.size / 8);
	struct fsdp_arena *arena = fsdp_arena_new_below(torch->scratch);
	inlined.end = inlined.begin + value.size;
	(void)!fsdp_torch_init(
		&inner, torch->model, arena, arena, torch->file, torch->member, NULL);
	inner.ids = FSDP_IDS_LEGACY;
	bool good = read_parts(&inner, bytes, torch->base + inlined.begin, &at, &class) &&
		    is_payload(fsdp_torch_storage(&inner, 0),
			    fsdp_span(bytes.data + at, bytes.size - at));
	inlined.payload = as_text ? FSDP_UNKNOWN : inlined.begin + at + 8;
	good = good && add_inlined(torch, &inner, class, &inlined);
	fsdp_arena_done(arena);
	*ret_storage = inlined.storage;
	return good;
}

/* ---- the file ---- */

static bool read_stream(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct legacy *legacy = new_legacy(reading, look->path,
		fsdp_build_file(
			reading->model, look->path, look->source.size, FSDP_NONE));
	int64_t version;
	reading->model->format = (struct fsdp_format){
		.family = fsdp_family_torch_legacy.name,
		.title = fsdp_family_torch_legacy.title,
		.writer = "torch.save",
	};
	legacy->source = legacy->storages = look->source;
	legacy->at = magic_bytes(look->head);
	uint64_t begin = legacy->at;
	fsdp_ref top = next_fact(legacy);
	if (!fsdp_pickle_integer(legacy->facts.pickle, top, &version) ||
		version != PROTOCOL)
		FIND(legacy, begin, "the protocol version is not 1001");
	read_facts(legacy);
	read_object(legacy);
	add_extents(legacy);
	read_listed(legacy);
	report_unplaced(legacy);
	uint32_t first = (uint32_t)reading->model->pieces.count;
	bool walked = fsdp_torch_add(&legacy->torch, reading, legacy->file_id,
		read_storage, legacy, ret_error);
	if (legacy->is_truncated)
		report_truncated(legacy, first);
	return walked;
}

static const char *const rankless[] = { "torch-legacy", "torch-tar", NULL };

const struct fsdp_family fsdp_family_torch_legacy = {
	.name = "torch-legacy",
	.title = "PyTorch file (torch.save, legacy format before torch 1.6, not zip)",
	.recognize = recognize_stream,
	.read = read_stream,
	.has_pickles = true,
	.rankless = rankless,
};

/* ---- the tar ---- */

static enum fsdp_sign recognize_tar(const struct fsdp_look *look)
{
	return look->folder != NULL &&
			       fsdp_folder_has(look->folder, "pickle", FSDP_ENTRY_FILE) &&
			       fsdp_folder_has(
				       look->folder, "storages", FSDP_ENTRY_FILE) &&
			       fsdp_folder_has(look->folder, "sys_info", FSDP_ENTRY_FILE)
		       ? FSDP_SIGN_SURE
		       : FSDP_SIGN_NONE;
}

/* The next member is read from its start. That of a compressed tar is a file of its own:
 * what was compressed has no other place. */
static void open_member(struct legacy *legacy, const char *name)
{
	struct fsdp_span text = fsdp_span_text(name);
	require(legacy, fsdp_folder_source(
				legacy->folder, text, &legacy->source, &legacy->error));
	if (legacy->tar.size != 0) {
		/* The member as a part of the tar that ends with it, so that offsets are
		 * the tar's. */
		legacy->at = fsdp_folder_offset(legacy->folder, text);
		legacy->member = legacy->facts.member = legacy->torch.member = text;
		require(legacy, fsdp_source_slice(&legacy->tar, 0,
					legacy->at + legacy->source.size, &legacy->source,
					&legacy->error));
		return;
	}
	legacy->at = 0;
	legacy->file = legacy->facts.file = legacy->torch.file = text;
	legacy->file_id = fsdp_build_file(
		legacy->reading->model, text, legacy->source.size, FSDP_NONE);
}

/* Keys are numbers, and texts in the ids. */
static struct fsdp_span key_text(struct legacy *legacy, fsdp_ref key)
{
	const struct fsdp_pickle *pickle = legacy->facts.pickle;
	struct fsdp_span found = fsdp_pickle_text(pickle, key);
	char text[24];
	int64_t number;
	if (fsdp_pickle_integer(pickle, key, &number))
		found = fsdp_span(text,
			(size_t)snprintf(text, sizeof text, "%lld", (long long)number));
	require(legacy, found.data != NULL || fail(legacy, "a key is not a number"));
	return fsdp_arena_copy(legacy->reading->model->arena, found);
}

/* Sets the number of the storage with this id. */
static void set_number(struct legacy *legacy, struct fsdp_span key, uint32_t number)
{
	uint32_t name = fsdp_names_child(&legacy->keys, 0, key);
	*(uint32_t *)fsdp_vec_reach(&legacy->numbers, name - 1) = number;
}

static bool find_number(
	const struct legacy *legacy, struct fsdp_span key, uint32_t *ret_number)
{
	uint32_t name = fsdp_names_find_child(&legacy->keys, 0, key);
	if (name == FSDP_NONE)
		return false;
	*ret_number = *(const uint32_t *)fsdp_vec_at(&legacy->numbers, name - 1);
	return true;
}

static void read_records(
	struct legacy *legacy, void (*read_record)(struct legacy *legacy, fsdp_ref top))
{
	fsdp_ref top = next_fact(legacy);
	int64_t count;
	require(legacy, fsdp_pickle_integer(legacy->facts.pickle, top, &count) ||
				fail(legacy, "the member does not begin with a count"));
	for (int64_t i = 0; i < count; i++)
		read_record(legacy, next_fact(legacy));
}

static void read_tar_storage(struct legacy *legacy, fsdp_ref top)
{
	struct fsdp_pickle *pickle = legacy->facts.pickle;
	fsdp_ref class = fsdp_pickle_item(pickle, top, 2);
	struct fsdp_span key,
		location = fsdp_pickle_text(pickle, fsdp_pickle_item(pickle, top, 1));
	uint32_t storage;
	require(legacy, (fsdp_pickle_kind(pickle, class) == FSDP_PICKLE_GLOBAL &&
				location.data != NULL) ||
				fail(legacy, "a storage is not described as one"));
	location = fsdp_arena_copy(legacy->reading->model->arena, location);
	key = key_text(legacy, fsdp_pickle_item(pickle, top, 0));
	uint64_t numel = read_count(legacy);
	require(legacy,
		fsdp_torch_add_storage(&legacy->torch, key,
			fsdp_pickle_named(pickle, class), location, numel, &storage) ||
			fail(legacy, "a storage has an unknown class"));
	add_extents(legacy);
	require(legacy, place_storage(legacy, storage, numel) ||
				fail(legacy, "the member ends inside a storage"));
	set_number(legacy, key, storage << 2 | FSDP_TORCH_STORAGE);
}

static void read_tar_part(struct legacy *legacy, fsdp_ref item)
{
	struct fsdp_pickle *pickle = legacy->facts.pickle;
	struct fsdp_span key = key_text(legacy, fsdp_pickle_item(pickle, item, 0));
	struct fsdp_span root = key_text(legacy, fsdp_pickle_item(pickle, item, 1));
	uint32_t number = FSDP_NONE;
	int64_t offset, numel;
	if (!find_number(legacy, root, &number) ||
		fsdp_torch_kind(number) != FSDP_TORCH_STORAGE ||
		!fsdp_pickle_integer(
			pickle, fsdp_pickle_item(pickle, item, 2), &offset) ||
		!fsdp_pickle_integer(pickle, fsdp_pickle_item(pickle, item, 3), &numel) ||
		offset < 0 || numel < 0)
		require(legacy,
			fail(legacy, "a part of a storage is not described as one"));
	set_number(legacy, key,
		fsdp_torch_add_part(&legacy->torch, fsdp_torch_index(number),
			(uint64_t)offset, (uint64_t)numel));
}

/* After two keys: i32 dimensions, 4 bytes of an older layout, sizes, strides, offset. */
static void read_tar_tensor(struct legacy *legacy, fsdp_ref top)
{
	struct fsdp_pickle *pickle = legacy->facts.pickle;
	struct fsdp_span key = key_text(legacy, fsdp_pickle_item(pickle, top, 0));
	struct fsdp_span root = key_text(legacy, fsdp_pickle_item(pickle, top, 1));
	int64_t sizes[2 * FSDP_DIMS_MAX]; /* and strides */
	size_t dims = read_count(legacy) & 0xffffffff;
	uint64_t offset, begin = 0;
	uint32_t number = FSDP_NONE;
	require(legacy, dims <= FSDP_DIMS_MAX ||
				fail(legacy, "a tensor has more than 64 dimensions"));
	for (size_t i = 0; i < 2 * dims; i++)
		sizes[i] = (int64_t)read_count(legacy);
	offset = read_count(legacy);
	require(legacy, (find_number(legacy, root, &number) &&
				fsdp_torch_kind(number) != FSDP_TORCH_TENSOR) ||
				fail(legacy, "a tensor views a storage that is missing"));
	uint32_t storage = fsdp_torch_index(number);
	if (fsdp_torch_kind(number) == FSDP_TORCH_PART) {
		const struct fsdp_torch_part *part =
			fsdp_vec_at(&legacy->torch.parts, storage);
		storage = part->storage;
		begin = part->offset;
	}
	require(legacy, fsdp_add(begin, offset, &offset) ||
				fail(legacy, "a tensor has no start offset"));
	set_number(legacy, key,
		fsdp_torch_add_view(
			&legacy->torch, storage, offset, sizes, sizes + dims, dims));
}

/* Ids are texts of keys; some files made by hand spell storages as the stream does. */
static bool fold_key(
	void *context, struct fsdp_pickle *pickle, fsdp_ref id, uint32_t *ret_number)
{
	struct fsdp_torch *torch = context;
	struct fsdp_span key = fsdp_pickle_text(pickle, id);
	if (key.data != NULL)
		return find_number(torch->owner, key, ret_number);
	return fsdp_torch_fold_persistent(context, pickle, id, ret_number);
}

static bool read_tar(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reading->model;
	bool is_one_file = look->tar.data != NULL; /* whatever its members are */
	struct legacy *legacy = new_legacy(reading, look->tar, FSDP_NONE);
	if (is_one_file) {
		legacy->tar = look->source;
		legacy->file_id =
			fsdp_build_file(model, look->tar, look->source.size, FSDP_NONE);
		fsdp_model_file(model, legacy->file_id)->is_tar = true;
	}
	legacy->folder = look->folder;
	legacy->torch.fold_persistent = fold_key;
	fsdp_vec_init(&legacy->numbers, reading->scratch, sizeof(uint32_t));
	(void)!fsdp_names_init(&legacy->keys, reading->scratch);
	model->format = (struct fsdp_format){
		.family = fsdp_family_torch_tar.name,
		.title = fsdp_family_torch_tar.title,
		.writer = "torch.save",
	};
	fsdp_find(findings_of(legacy), FSDP_RULE_TAR_CHECKPOINT,
		FSDP_PLACE(.file = { 0 }),
		"this is the tar of torch 0.1, which torch loads without restrictions before 2.6 and refuses since");
	open_member(legacy, "sys_info");
	read_facts(legacy);
	open_member(legacy, "storages");
	legacy->storages = legacy->source;
	read_records(legacy, read_tar_storage);
	fsdp_ref none, item;
	struct fsdp_pickle_iterator iterator = { .ref = next_fact(legacy) };
	while (fsdp_pickle_next(legacy->facts.pickle, &iterator, &none, &item))
		read_tar_part(legacy, item);
	if (fsdp_folder_has(legacy->folder, "tensors", FSDP_ENTRY_FILE)) {
		open_member(legacy, "tensors");
		read_records(legacy, read_tar_tensor);
	}
	open_member(legacy, "pickle");
	read_object(legacy);
	add_extents(legacy);
	report_unplaced(legacy);
	return fsdp_torch_add(&legacy->torch, reading, legacy->file_id, read_storage,
		legacy, ret_error);
}

const struct fsdp_family fsdp_family_torch_tar = {
	.name = "torch-tar",
	.title = "PyTorch file (tar of torch 0.1)",
	.recognize = recognize_tar,
	.read = read_tar,
};

/* ---- bare pickles ---- */

/*
 * A file of concatenated pickles: values, and tensors without
 * bytes. torch.h reads their meaning.
 *
 * The data.pkl that was taken out of a torch.save file is one: its tensors have names,
 * shapes and dtypes, and their storages are records of the file that it was taken from.
 *
 * Origin: Python's pickle.dump; the files next to checkpoints (arguments, states of
 * random generators) that are written with it.
 */

/* A coincidence of so many consecutive opcodes is excluded. */
enum { CLEAR = 16 };

/* A word that no program can import is part of a text. */
static bool is_name(struct fsdp_span text)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] <= ' ' || text.data[i] >= 0x7f)
			return false;
	return text.size != 0;
}

static bool note_call(void *context, const struct fsdp_pickle *pickle,
	const struct fsdp_pickle_deed *deed)
{
	uint64_t *first = context; /* of the opcodes that call */
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, deed->object);
	if (deed->kind == FSDP_DEED_CALL && global != NULL && is_name(global->module) &&
		is_name(global->name) && deed->offset < *first)
		*first = deed->offset;
	return *first != FSDP_UNKNOWN;
}

/* Whether these opcodes, up to their STOP, call something before the first error.
 * *ret_sound: they have no error. */
static bool calls_something(struct fsdp_span opcodes, bool *ret_sound)
{
	uint64_t call = FSDP_UNKNOWN;
	struct fsdp_budget budget = { .ceiling = 4 << 20 };
	struct fsdp_pickle *pickle = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_findings unused;
	struct fsdp_limits limits;
	struct fsdp_arena arena;
	fsdp_limits_init(&limits);
	fsdp_arena_init(&arena, &budget);
	fsdp_findings_init(&unused, &arena, &limits);
	const struct fsdp_pickle_options options = {
		.limits = &limits,
		.findings = &unused,
		.check_deed = note_call,
		.check_context = &call,
	};
	unsigned char *stream = fsdp_arena_take(&arena, opcodes.size + 1, 1);
	*ret_sound = false;
	if (stream != NULL) {
		memcpy(stream, opcodes.data, opcodes.size);
		stream[opcodes.size] = FSDP_OP_STOP;
		*ret_sound = fsdp_pickle_read(fsdp_span(stream, opcodes.size + 1), &arena,
				     &options, &pickle, &error) ||
			     fsdp_error_offset(error) == opcodes.size;
	}
	bool calls =
		call != FSDP_UNKNOWN && (*ret_sound || call < fsdp_error_offset(error));
	fsdp_error_free(error);
	fsdp_arena_done(&arena);
	return calls;
}

/* Whether the argument of the opcode at `at` continues after the head and fits into the
 * file. */
static bool goes_on(const struct fsdp_look *look, uint64_t at)
{
	static const unsigned char widths[] = {
		[FSDP_ARGUMENT_COUNTED_U1] = 1,
		[FSDP_ARGUMENT_COUNTED_U4] = 4,
		[FSDP_ARGUMENT_COUNTED_I4] = 4,
		[FSDP_ARGUMENT_COUNTED_U8] = 8,
		[FSDP_ARGUMENT_LINES] = 0,
	};
	struct fsdp_span head = look->head;
	const struct fsdp_pickle_opcode *opcode = fsdp_pickle_opcode(head.data[at]);
	uint64_t left = look->source.size - at - 1;
	if (opcode == NULL)
		return false;
	size_t width = widths[opcode->argument];
	uint64_t size =
		at + width < head.size ? fsdp_load_le(head.data + at + 1, width) : 0;
	return left >= width && size <= left - width;
}

static bool is_long(unsigned char code)
{
	const struct fsdp_pickle_opcode *opcode = fsdp_pickle_opcode(code);
	return code == FSDP_OP_UNICODE || code == FSDP_OP_STRING ||
	       (opcode->argument != FSDP_ARGUMENT_LINE &&
		       opcode->argument != FSDP_ARGUMENT_LINES);
}

/* Opcodes that need no value before them: only these begin a pickle. */
static bool may_be_first(unsigned char code)
{
	static const unsigned char takers[] = { FSDP_OP_STOP, FSDP_OP_POP,
		FSDP_OP_POP_MARK, FSDP_OP_DUP, FSDP_OP_BINPERSID, FSDP_OP_REDUCE,
		FSDP_OP_APPEND, FSDP_OP_BUILD, FSDP_OP_DICT, FSDP_OP_APPENDS, FSDP_OP_GET,
		FSDP_OP_BINGET, FSDP_OP_INST, FSDP_OP_LONG_BINGET, FSDP_OP_LIST,
		FSDP_OP_OBJ, FSDP_OP_PUT, FSDP_OP_BINPUT, FSDP_OP_LONG_BINPUT,
		FSDP_OP_SETITEM, FSDP_OP_TUPLE, FSDP_OP_SETITEMS, FSDP_OP_NEWOBJ,
		FSDP_OP_TUPLE1, FSDP_OP_TUPLE2, FSDP_OP_TUPLE3, FSDP_OP_ADDITEMS,
		FSDP_OP_FROZENSET, FSDP_OP_NEWOBJ_EX, FSDP_OP_STACK_GLOBAL,
		FSDP_OP_MEMOIZE, FSDP_OP_READONLY_BUFFER };
	return fsdp_pickle_opcode(code) != NULL &&
	       memchr(takers, code, sizeof takers) == NULL;
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	if (look->folder != NULL || look->head.size < 2)
		return FSDP_SIGN_NONE;
	/* The legacy stream begins like this too, and is more than pickles. */
	if (look->head.data[0] == FSDP_OP_PROTO && look->head.data[1] >= 2 &&
		look->head.data[1] <= 5)
		return FSDP_SIGN_SURE;
	/* Protocols 0 and 1 begin with anything, and so may what is written by hand: a
	 * pickle is what is one to its end, what calls something, and what is opcodes for
	 * long. A long text or a line in the beginning may be that of a pickle. */
	struct fsdp_span head = look->head, argument;
	const struct fsdp_pickle_opcode *opcode;
	struct fsdp_error *error = NULL;
	uint64_t at = 0, last = 0;
	size_t count = 0;
	bool calls = false, sound = false;
	if (!may_be_first(head.data[0]))
		return FSDP_SIGN_NONE;
	do {
		last = at;
		opcode = fsdp_pickle_next_opcode(head, &at, &argument, &error);
		calls |= opcode != NULL && (opcode->code == FSDP_OP_REDUCE ||
						   opcode->code == FSDP_OP_INST ||
						   opcode->code == FSDP_OP_OBJ ||
						   opcode->code == FSDP_OP_NEWOBJ ||
						   opcode->code == FSDP_OP_NEWOBJ_EX);
		count++;
		fsdp_error_free(error);
		error = NULL;
	} while (opcode != NULL && opcode->code != FSDP_OP_STOP);
	struct fsdp_span opcodes = fsdp_span(head.data, (size_t)last);
	bool stops = opcode != NULL;
	if ((calls && calls_something(opcodes, &sound)) ||
		(stops && last + 1 == look->source.size))
		return FSDP_SIGN_LIKELY;
	if (stops || head.size == look->source.size ||
		(last < head.size && !goes_on(look, last)))
		return FSDP_SIGN_NONE;
	if (!calls)
		(void)calls_something(opcodes, &sound);
	if (sound && count > CLEAR)
		return FSDP_SIGN_LIKELY;
	return sound && (last == head.size || is_long(head.data[last])) ? FSDP_SIGN_WEAK
									: FSDP_SIGN_NONE;
}

bool fsdp_pickle_may_begin(const struct fsdp_look *look)
{
	return recognize(look) != FSDP_SIGN_NONE;
}

struct pickles {
	struct fsdp_reading *reading;
	const struct fsdp_look *look;
	uint32_t file_id;
	struct fsdp_arena arena; /* of the pickle that is read */
	struct fsdp_torch torch;
	uint64_t at;
};

/* ---- storages ---- */

/* Position of one in the pickle; NULL: its bytes are not in this file. */
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

static void add_bare_extents(struct pickles *file)
{
	struct fsdp_model *model = file->reading->model;
	size_t next = 0;
	FSDP_EACH(i, (uint32_t)file->torch.storages.count, inlined,
		inlined_at(file, i, &next)) {
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
		fsdp_build_extent(model, &extent, fsdp_torch_key(&file->torch, i));
	}
}

/* Once for the file. What is on no device has no bytes anywhere. */
static void report_missing(const struct pickles *file)
{
	uint64_t count = 0, as_text = 0;
	size_t next = 0;
	FSDP_EACH(i, (uint32_t)file->torch.storages.count, inlined,
		inlined_at(file, i, &next)) {
		bool is_empty = fsdp_torch_storage_bytes(
					fsdp_torch_storage(&file->torch, i)) == 0;
		as_text +=
			inlined != NULL && inlined->payload == FSDP_UNKNOWN && !is_empty;
		count +=
			inlined == NULL && !is_empty &&
			!fsdp_span_is(fsdp_torch_location(&file->torch, i)->text, "meta");
	}
	if (as_text != 0) {
		/* Tensors of such storages are listed; their elements are not where a
		 * place could name them. */
		struct fsdp_error *error = NULL;
		fsdp_fail_rule(&error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
			"elements of %llu storage%s are stored as text (pickle below protocol 3), which is not read",
			FSDP_LLU(as_text), as_text == 1 ? "" : "s");
		fsdp_error_add_path(&error, (const char *)file->look->path.data);
		fsdp_error_add_hint(
			&error, "load it with pickle and save it again with torch.save");
		fsdp_reading_keep_error(file->reading, error);
	}
	if (count == 0)
		return;
	fsdp_find(&file->reading->model->findings, FSDP_RULE_TORCH_RECORD,
		FSDP_PLACE(.file = file->look->path,
			.fix = "open the torch.save file that it was taken from"),
		"a pickle without its records: the bytes of %llu storage%s are not in this file",
		FSDP_LLU(count), count == 1 ? "" : "s");
}

/* ---- one pickle after the other ---- */

static bool read_one(struct pickles *file, struct fsdp_error **ret_error)
{
	struct fsdp_reading *reading = file->reading;
	struct fsdp_span stream;
	uint64_t begin = file->at;
	if (!fsdp_torch_next_pickle(&file->look->source, &file->at, reading->limits,
		    reading->model->arena, &stream, ret_error) ||
		!fsdp_torch_init(&file->torch, reading->model, &file->arena, &file->arena,
			file->look->path, (struct fsdp_span){ 0 }, ret_error))
		return false;
	file->torch.first_extent = (uint32_t)reading->model->extents.count;
	file->torch.take_inlined = torch_take_inlined;
	/* That of a distributed checkpoint by itself, or of one that was never committed.
	 * */
	if (fsdp_span_ends(file->look->path, FSDP_SPAN(".metadata")) ||
		fsdp_span_ends(file->look->path, FSDP_SPAN(".metadata.tmp")))
		file->torch.profile = FSDP_PROFILE_METADATA;
	bool read = fsdp_torch_read(&file->torch, stream, begin, false, ret_error);
	fsdp_torch_look_inside(&file->torch, stream);
	fsdp_torch_check(&file->torch);
	/* Only the first is what torch.load would give. */
	if (!read || begin != 0)
		return read;
	bool walked = fsdp_torch_add(
		&file->torch, reading, file->file_id, NULL, NULL, ret_error);
	add_bare_extents(file);
	if (walked)
		report_missing(file);
	return walked;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct pickles *file = FSDP_TAKE(reading->scratch, file, 1);
	file->reading = reading;
	file->look = look;
	reading->model->format = (struct fsdp_format){
		.family = fsdp_family_pickle.name,
		.title = fsdp_family_pickle.title,
	};
	file->file_id = fsdp_build_file(
		reading->model, look->path, look->source.size, reading->rank);
	/* What follows the first is looked at for what it would call, as long as it is
	 * pickles. */
	uint64_t most = fsdp_limit(file->reading->limits, FSDP_LIMIT_PICKLE_STREAMS);
	for (uint64_t count = 0; file->at < file->look->source.size; count++) {
		struct fsdp_error *error = NULL;
		if (count == most)
			return fsdp_fail_limit(
				ret_error, FSDP_LIMIT_PICKLE_STREAMS, most);
		if (count == 1)
			fsdp_find(&file->reading->model->findings,
				FSDP_RULE_PICKLE_TRAILING,
				FSDP_PLACE(.file = file->look->path, .offset = file->at,
					.length = file->look->source.size - file->at),
				"%llu bytes follow the pickle",
				FSDP_LLU(file->look->source.size - file->at));
		fsdp_arena_init_below(&file->arena, reading->scratch);
		bool read = read_one(file, count == 0 ? ret_error : &error);
		fsdp_arena_done(&file->arena);
		if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			fsdp_model_leave(reading->model, error);
		fsdp_error_free(error);
		if (!read)
			return count != 0;
	}
	return true;
}

const struct fsdp_family fsdp_family_pickle = {
	.name = "pickle",
	.title = "bare pickle (not a torch.save file)",
	.recognize = recognize,
	.read = read,
	.has_pickles = true,
};
