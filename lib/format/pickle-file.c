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

/* So many opcodes, one behind the other, are no chance. */
enum { CLEAR = 16 };

/* What no program could import is a piece of a text. */
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

/* Whether these opcodes, and STOP behind them, call something before anything is wrong.
 * *ret_sound: nothing is wrong with them. */
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
		.judge = note_call,
		.judge_context = &call,
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

/* Whether the argument of the opcode at `at` goes on behind the head and has room in the
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
	uint64_t size = 0, left = look->source.size - at - 1;
	if (opcode == NULL)
		return false;
	size_t width = widths[opcode->argument];
	for (size_t i = width; i > 0 && at + i < head.size; i--)
		size = size << 8 | head.data[at + i];
	return left >= width && size <= left - width;
}

/* What may be of any length: no number and no name is as long. */
static bool is_long(unsigned char code)
{
	const struct fsdp_pickle_opcode *opcode = fsdp_pickle_opcode(code);
	return code == FSDP_OP_UNICODE || code == FSDP_OP_STRING ||
	       (opcode->argument != FSDP_ARGUMENT_LINE &&
		       opcode->argument != FSDP_ARGUMENT_LINES);
}

/* What needs no value before it: nothing else begins a pickle. */
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

static bool is_call(unsigned char code)
{
	return code == FSDP_OP_REDUCE || code == FSDP_OP_INST || code == FSDP_OP_OBJ ||
	       code == FSDP_OP_NEWOBJ || code == FSDP_OP_NEWOBJ_EX;
}

/* Protocols 0 and 1 begin with anything, and so may what is written by hand: a pickle is
 * what is one to its end, what calls something, and what is opcodes for long. A long text
 * or a line in the beginning may be that of a pickle. */
static enum fsdp_sign recognise_headless(const struct fsdp_look *look)
{
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
		calls |= opcode != NULL && is_call(opcode->code);
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

static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	if (look->folder != NULL || look->head.size < 2)
		return FSDP_SIGN_NONE;
	/* The legacy stream begins like this too, and is more than pickles. */
	if (look->head.data[0] == FSDP_OP_PROTO && look->head.data[1] >= 2 &&
		look->head.data[1] <= 5)
		return FSDP_SIGN_SURE;
	return recognise_headless(look);
}

bool fsdp_pickle_may_begin(const struct fsdp_look *look)
{
	return recognise(look) != FSDP_SIGN_NONE;
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
