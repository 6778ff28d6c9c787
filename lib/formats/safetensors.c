/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the header of a safetensors file.
 *
 *	u64            bytes of the header
 *	header         {"__metadata__": {text: text}, "<tensor>": {"dtype": text,
 *	               "shape": [u64 …], "data_offsets": [begin, end]}, …}, then blanks
 *	buffer         the elements, C order; begin and end count from here
 *
 * The format has no magic; holes, overlaps and bytes after the last tensor are invalid.
 * The metadata of a file of a distributed save has the offsets of its tensors in the full
 * ones:
 *
 *	DCP_SHARDING_INFO  text of {"<tensor>": {"saved_offsets": [u64 …], ["fqn": text]}}
 *
 * Origin: safetensors/src/tensor.rs (safetensors 0.8);
 * torch/distributed/checkpoint/hf_storage.py (PyTorch 2.13).
 */
#include "base/num.h"
#include "base/sort.h"
#include "formats/format.h"
#include "syntax/json-template.h"

/* Nearly all tensors of a header are of few shapes. */
enum { FSDP_SAFETENSORS_SHAPES = 64 };

/* Rows of the table of dtypes. */
enum { FSDP_SAFETENSORS_DTYPES = 22 };

struct fsdp_safetensors_dtype {
	const char *name;
	const char *torch;
	unsigned bits;
};

/* One tensor while it is read. */
struct fsdp_safetensors_entry {
	struct fsdp_span name;
	uint64_t offset; /* of its key in the file */
	const struct fsdp_safetensors_dtype *dtype;
	struct fsdp_span dtype_text; /* if it has no row */
	union {
		struct {
			struct fsdp_json_list shape, range;
		};
		struct fsdp_json_list lists[2];
	};
	bool has_dtype, has_shape, has_range;
	bool broken; /* reported; it is skipped */
};

/* A file while its header is read. */
struct fsdp_safetensors {
	struct fsdp_reading *reading;
	struct fsdp_source source;
	struct fsdp_span file;
	uint32_t file_id;
	uint64_t size;
	uint64_t buffer; /* bytes after the header */

	struct fsdp_limits limits;
	struct fsdp_json_walk json;
	uint8_t dtype_ids[FSDP_SAFETENSORS_DTYPES];
	struct fsdp_safetensors_entry entry;

	uint32_t first_tensor;
	size_t first_value;
	struct fsdp_bits seen; /* raw names that have a tensor */
	uint64_t end;          /* of the tensor before */
	bool unordered, truncated, has_metadata;
	bool left_out;             /* a tensor; what it would own is then no hole */
	struct fsdp_span sharding; /* the text of DCP_SHARDING_INFO */

	struct fsdp_json_quick *quick; /* tensors that are written like one before */

	/* Shapes that tensors had lately: places in the pool, by a hash. */
	struct known_shape {
		size_t dims;
		fsdp_ints place;
	} shapes[FSDP_SAFETENSORS_SHAPES];
};

static inline struct fsdp_findings *safetensors_findings(
	const struct fsdp_safetensors *header)
{
	return &header->reading->model->findings;
}

#define FSDP_SAFETENSORS_FIND(header, rule, where, ...) \
	fsdp_find(safetensors_findings(header), rule,   \
		FSDP_PLACE(.file = (header)->file, .offset = where), __VA_ARGS__)

#define FSDP_SAFETENSORS_FIND_ENTRY(header, rule, entry, ...)                 \
	fsdp_find(safetensors_findings(header), rule,                         \
		FSDP_PLACE(.file = (header)->file, .offset = (entry)->offset, \
			.tensor = (entry)->name),                             \
		__VA_ARGS__)

static inline uint64_t safetensors_place(const struct fsdp_safetensors *header)
{
	return 8 + header->json.token.offset;
}

/* ---- tokens of the header ---- */

/* An error in the JSON: its position is in the file. */
static void complete_error(struct fsdp_error **error)
{
	fsdp_error_shift_offset(error, 8);
	if (*error != NULL && fsdp_error_code(*error) == FSDP_ERROR_DAMAGED &&
		fsdp_error_rule(*error) == NULL) {
		struct fsdp_error *damaged = NULL;
		fsdp_fail_rule(&damaged, FSDP_ERROR_DAMAGED, "FI1051",
			fsdp_error_offset(*error), "header is damaged at byte %llu: %s",
			FSDP_LLU(fsdp_error_offset(*error)), fsdp_error_message(*error));
		fsdp_error_free(*error);
		*error = damaged;
	}
	fsdp_error_add_rule(error, "FI1051");
	fsdp_error_add_hint(error, "copy this file again");
}

/* What is to be done takes more than counts: see fsdp_model_counting. */
static void need_records(struct fsdp_safetensors *header)
{
	struct fsdp_model *model = header->reading->model;
	if (model->counting == NULL)
		return;
	model->needs_records = true;
	fsdp_model_leave(model, NULL);
}

/* A value of another kind than is due: reported and skipped. */
static void safetensors_unexpected(struct fsdp_safetensors *header, const char *what)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	if (!entry->broken)
		fsdp_find(safetensors_findings(header), FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = header->file,
				.offset = safetensors_place(header),
				.tensor = entry->name),
			"%s", what);
	entry->broken = true;
	fsdp_json_walk_skip(&header->json);
}

/* Digits only: the format has no other numbers. */
static bool safetensors_count(struct fsdp_span text, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (size_t i = 0; i < text.size; i++) {
		unsigned digit = (unsigned)text.data[i] - '0';
		if (digit > 9 || !fsdp_mul(value, 10, &value) ||
			!fsdp_add(value, digit, &value))
			return false;
	}
	*ret_value = value;
	return true;
}

/* ---- __metadata__ ---- */

/* Values of the files before that are compared. */
enum { NOTES_MAX = 64 };

/* Files of one export say the same: once is enough. */
static bool is_known(
	const struct fsdp_safetensors *header, uint32_t raw_name, struct fsdp_span text)
{
	const struct fsdp_model *model = header->reading->model;
	for (size_t i = 0; i < header->first_value && i < NOTES_MAX; i++) {
		const struct fsdp_value_record *value = fsdp_model_value(model, i);
		if (value->raw_name == raw_name && value->token_count == 1 &&
			fsdp_span_equal(value->tokens->text, text))
			return true;
	}
	return false;
}

static void add_text(
	struct fsdp_safetensors *header, struct fsdp_span key, struct fsdp_span text)
{
	struct fsdp_model *model = header->reading->model;
	struct fsdp_token *token = FSDP_TAKE(model->arena, token, 1);
	struct fsdp_value_record value = {
		.file = header->file_id,
		.rank = header->reading->rank,
		.token_count = 1,
		.tokens = token,
		.type = "str",
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
	};
	static const struct fsdp_span root = { (const unsigned char *)"__metadata__",
		12 };
	struct fsdp_path_builder *path = FSDP_TAKE(header->reading->scratch, path, 1);
	*token = (struct fsdp_token){ .kind = FSDP_TOKEN_TEXT, .text = text };
	path->parts[0].length = (uint32_t)root.size;
	path->parts[1].length = (uint32_t)key.size;
	path->count = 2;
	uint32_t parent = fsdp_names_child(&model->names, 0, root);
	fsdp_build_names(model, parent, key, false, &value.name, &value.raw_name);
	if (is_known(header, value.raw_name, text))
		return;
	value.path = fsdp_build_path(model, path);
	fsdp_build_value(model, &value);
}

static void read_note(struct fsdp_safetensors *header, struct fsdp_names *seen)
{
	struct fsdp_arena *arena = header->reading->model->arena;
	struct fsdp_json_token *token = &header->json.token;
	struct fsdp_span key = fsdp_json_text_copy(token, arena);
	size_t known = seen->list.count;
	uint64_t where = safetensors_place(header);
	bool not_utf8 = token->not_utf8;
	fsdp_names_child(seen, 0, key);
	if (seen->list.count == known)
		fsdp_find(safetensors_findings(header), FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = header->file, .offset = where,
				.severity = FSDP_WARNING + 1),
			"the metadata has a key twice");
	fsdp_json_walk_next(&header->json);
	if (token->kind != FSDP_SCAN_TEXT) {
		safetensors_unexpected(header, "the metadata is not text alone");
		return;
	}
	struct fsdp_span text = fsdp_json_text_copy(token, arena);
	if (not_utf8 || token->not_utf8) {
		fsdp_find(safetensors_findings(header), FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = header->file, .offset = where),
			"the metadata is not UTF-8, which the safetensors library refuses");
		return;
	}
	/* The offsets of tensors are not a note for people. */
	if (fsdp_span_is(key, "DCP_SHARDING_INFO")) {
		header->sharding = text;
		need_records(header);
		return;
	}
	fsdp_build_declared(header->reading->model, key, text);
	add_text(header, key, text);
}

/* The token is "__metadata__". */
static void read_notes(struct fsdp_safetensors *header)
{
	struct fsdp_json_walk *json = &header->json;
	struct fsdp_names seen;
	header->entry =
		(struct fsdp_safetensors_entry){ .offset = safetensors_place(header) };
	if (header->has_metadata)
		FSDP_SAFETENSORS_FIND(header, FSDP_RULE_SAFETENSORS_JSON,
			safetensors_place(header), "duplicate __metadata__");
	header->has_metadata = true;
	(void)fsdp_names_init(&seen, header->reading->scratch);
	fsdp_json_walk_next(json);
	if (json->token.kind == FSDP_SCAN_NULL)
		return;
	if (json->token.kind != FSDP_SCAN_OBJECT) {
		safetensors_unexpected(header, "the metadata is not a JSON object");
		return;
	}
	while (fsdp_json_walk_more(json))
		read_note(header, &seen);
}

/* ---- tensors ---- */

/* Dimensions of shapes that are remembered. */
enum { SHAPE_DIMS = 8 };

static const struct fsdp_safetensors_dtype dtypes[] = {
	{ "BF16", "bfloat16", 16 },
	{ "F32", "float32", 32 },
	{ "F16", "float16", 16 },
	{ "I64", "int64", 64 },
	{ "U8", "uint8", 8 },
	{ "I8", "int8", 8 },
	{ "I32", "int32", 32 },
	{ "F8_E4M3", "float8_e4m3fn", 8 },
	{ "F8_E5M2", "float8_e5m2", 8 },
	{ "F8_E8M0", "float8_e8m0fnu", 8 },
	{ "F8_E4M3FNUZ", "float8_e4m3fnuz", 8 },
	{ "F8_E5M2FNUZ", "float8_e5m2fnuz", 8 },
	{ "F4", "float4_e2m1fn_x2", 4 },
	{ "F6_E2M3", "F6_E2M3", 6 },
	{ "F6_E3M2", "F6_E3M2", 6 },
	{ "BOOL", "bool", 8 },
	{ "I16", "int16", 16 },
	{ "U16", "uint16", 16 },
	{ "U32", "uint32", 32 },
	{ "U64", "uint64", 64 },
	{ "F64", "float64", 64 },
	{ "C64", "complex64", 64 },
};

_Static_assert(FSDP_COUNT(dtypes) == FSDP_SAFETENSORS_DTYPES, "each has its place");

/* ---- what a tensor says ---- */

/* A list of counts, at most `room` of them. */
static void read_counts(
	struct fsdp_safetensors *header, struct fsdp_json_list *list, size_t room)
{
	struct fsdp_json_walk *json = &header->json;
	list->size = 0;
	fsdp_json_walk_next(json);
	if (json->token.kind != FSDP_SCAN_ARRAY) {
		safetensors_unexpected(header, "this is not a list of numbers");
		return;
	}
	while (fsdp_json_walk_more(json)) {
		if (json->token.kind != FSDP_SCAN_NUMBER || list->size == room) {
			safetensors_unexpected(
				header, json->token.kind != FSDP_SCAN_NUMBER
						? "this is not a number"
						: "this list is too long");
			continue;
		}
		if (!safetensors_count(json->token.span, &list->counts[list->size]))
			safetensors_unexpected(
				header, "this is not a number that can be a size");
		list->size++;
	}
}

/* NULL: it has no row. */
static const struct fsdp_safetensors_dtype *find_dtype(const struct fsdp_json_token *name)
{
	for (size_t i = 0; i < FSDP_SAFETENSORS_DTYPES; i++)
		if (fsdp_json_text_is(name, fsdp_span_text(dtypes[i].name)))
			return &dtypes[i];
	return NULL;
}

static void read_dtype(struct fsdp_safetensors *header)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	entry->has_dtype = true;
	fsdp_json_walk_next(&header->json);
	if (header->json.token.kind != FSDP_SCAN_TEXT) {
		safetensors_unexpected(header, "the dtype is not a string");
		return;
	}
	entry->dtype = find_dtype(&header->json.token);
	if (entry->dtype == NULL)
		entry->dtype_text = fsdp_json_text_copy(
			&header->json.token, header->reading->model->arena);
}

static void read_shape(struct fsdp_safetensors *header)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	entry->has_shape = true;
	read_counts(header, &entry->shape, FSDP_DIMS_MAX);
}

static void read_range(struct fsdp_safetensors *header)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	entry->has_range = true;
	read_counts(header, &entry->range, 2);
	size_t count = entry->range.size;
	if (count != 2 && !entry->broken) {
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"data_offsets has %zu number%s instead of two", count,
			count == 1 ? "" : "s");
		entry->broken = true;
	}
}

static const struct {
	struct fsdp_span name;
	size_t seen; /* where the entry notes that it came */
	void (*read)(struct fsdp_safetensors *header);
} members[] = {
	{ FSDP_SPAN_INIT("dtype"), offsetof(struct fsdp_safetensors_entry, has_dtype),
		read_dtype },
	{ FSDP_SPAN_INIT("shape"), offsetof(struct fsdp_safetensors_entry, has_shape),
		read_shape },
	{ FSDP_SPAN_INIT("data_offsets"),
		offsetof(struct fsdp_safetensors_entry, has_range), read_range },
};

static void read_member(struct fsdp_safetensors *header)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	for (size_t i = 0; i < FSDP_COUNT(members); i++) {
		if (!fsdp_json_text_is(&header->json.token, members[i].name))
			continue;
		if (*(const bool *)((const char *)entry + members[i].seen)) {
			FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_JSON,
				entry,
				"duplicate entry %s; readers use the first or the last",
				(const char *)members[i].name.data);
			entry->broken = true;
		}
		members[i].read(header);
		return;
	}
	fsdp_find(safetensors_findings(header), FSDP_RULE_SAFETENSORS_STYLE,
		FSDP_PLACE(.file = header->file, .offset = safetensors_place(header),
			.tensor = entry->name, .severity = FSDP_WARNING + 1),
		"tensor has a member that is not part of the format: %.*s",
		FSDP_TEXT_MOST(header->json.token.span, 64));
	fsdp_json_walk_skip(&header->json);
}

/* ---- what follows from it ---- */

/* Elements and bytes by dtype and shape. Numbers that cannot be true are a finding. */
static bool measure(struct fsdp_safetensors *header, int64_t *shape, uint64_t *ret_bytes)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	uint64_t numel, bits;
	bool fits = true;
	for (size_t i = 0; i < entry->shape.size; i++) {
		fits &= entry->shape.counts[i] <= INT64_MAX;
		shape[i] = (int64_t)entry->shape.counts[i];
	}
	if (!fits || !fsdp_numel(shape, entry->shape.size, &numel)) {
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"the shape overflows");
		return false;
	}
	*ret_bytes = entry->range.counts[1] - entry->range.counts[0];
	if (entry->dtype == NULL)
		return true;
	if (!fsdp_mul(numel, entry->dtype->bits, &bits) || bits % 8 != 0) {
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"%llu elements of %u bits are not a whole number of bytes",
			FSDP_LLU(numel), entry->dtype->bits);
		return false;
	}
	if (bits / 8 == *ret_bytes)
		return true;
	FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
		"shape and dtype need %llu bytes, data_offsets has %llu",
		FSDP_LLU(bits / 8), FSDP_LLU(*ret_bytes));
	return false;
}

/* Rare facts of a dtype without a row. */
static void add_unknown(struct fsdp_safetensors *header, uint32_t *ret_extra)
{
	struct fsdp_model *model = header->reading->model;
	struct fsdp_safetensors_entry *entry = &header->entry;
	struct fsdp_extra *extra = fsdp_build_push(model, &model->extras, ret_extra);
	*extra = (struct fsdp_extra){ .quantizer = FSDP_NONE, .placement = FSDP_NONE };
	extra->dtype_raw = fsdp_build_text(model, entry->dtype_text);
	if (entry->dtype_text.size == 0)
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"the dtype is an empty text");
	else
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_DTYPE_UNKNOWN, entry,
			"the dtype %.*s is not known",
			FSDP_TEXT_MOST(entry->dtype_text, 64));
}

/* The place of a shape in the pool: that of an earlier tensor if it had it too. */
static fsdp_ints share_shape(
	struct fsdp_safetensors *header, const int64_t *shape, size_t dims)
{
	struct fsdp_model *model = header->reading->model;
	if (dims > SHAPE_DIMS)
		return fsdp_build_ints(model, shape, dims);
	uint64_t hash = dims;
	for (size_t i = 0; i < dims; i++)
		hash = (hash ^ (uint64_t)shape[i]) * UINT64_C(0x9E3779B97F4A7C15);
	struct known_shape *known =
		&header->shapes[hash >> 32 & (FSDP_SAFETENSORS_SHAPES - 1)];
	if (known->place != FSDP_NONE && known->dims == dims &&
		fsdp_bytes_equal(
			(const unsigned char *)fsdp_model_ints(model, known->place),
			(const unsigned char *)shape, dims * sizeof *shape))
		return known->place;
	known->dims = dims;
	known->place = fsdp_build_ints(model, shape, dims);
	return known->place;
}

static void add_record(
	struct fsdp_safetensors *header, const int64_t *shape, uint64_t bytes)
{
	struct fsdp_model *model = header->reading->model;
	struct fsdp_safetensors_entry *entry = &header->entry;
	bool optim = fsdp_path_is_of_optimizer(entry->name), again = false;
	struct fsdp_plain_tensor plain = {
		.extra = FSDP_NONE,
		.shape = share_shape(header, shape, entry->shape.size),
		.flags = FSDP_TENSOR_ROLE_INFERRED |
			 (entry->dtype != NULL ? FSDP_TENSOR_LITERAL : 0),
		.dims = (uint8_t)entry->shape.size,
		.dtype = entry->dtype != NULL ? header->dtype_ids[entry->dtype - dtypes]
					      : FSDP_DTYPE_UNKNOWN,
		.role = optim ? FSDP_ROLE_OPTIM : FSDP_ROLE_PARAM,
		.rank = header->reading->rank,
		.file = header->file_id,
		.size = bytes,
	};
	fsdp_build_names(model, 0, entry->name, false, &plain.name, &plain.raw_name);
	if (entry->dtype == NULL)
		add_unknown(header, &plain.extra);
	(void)fsdp_bits_set(&header->seen, plain.raw_name, &again);
	/* What there is of the bytes that a tensor should have. */
	uint64_t begin = fsdp_min(entry->range.counts[0], header->buffer);
	uint64_t end = fsdp_min(entry->range.counts[1], header->buffer);
	plain.offset = 8 + header->size + begin;
	plain.length = end - begin;
	plain.missing = entry->range.counts[1] > header->buffer;
	if (plain.missing && !header->truncated)
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_TRUNCATED_FILE, entry,
			"file is truncated: tensor '%.*s' ends at byte %llu, file size is %llu",
			FSDP_TEXT_MOST(entry->name, 256),
			FSDP_LLU(8 + header->size + entry->range.counts[1]),
			FSDP_LLU(header->source.size));
	header->truncated |= plain.missing;
	if (again)
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"duplicate tensor name; readers use the first or the last");
	if (fsdp_build_plain(model, &plain) == FSDP_NONE)
		fsdp_model_leave(model, NULL);
}

/* Whether it can be a tensor; if not, a finding has the reason. */
static bool is_sound(struct fsdp_safetensors *header, int64_t *shape, uint64_t *ret_bytes)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	if (entry->broken)
		return false;
	if (!entry->has_dtype || !entry->has_shape || !entry->has_range) {
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"the tensor has no %s",
			!entry->has_dtype   ? "dtype"
			: !entry->has_shape ? "shape"
					    : "data_offsets");
		return false;
	}
	if (entry->range.counts[1] < entry->range.counts[0] ||
		entry->range.counts[1] > INT64_MAX - 8 - header->size) {
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"data_offsets are not a range of bytes");
		return false;
	}
	if (!measure(header, shape, ret_bytes))
		return false;
	/* Two elements of four bits are one of torch's. */
	if (entry->dtype == NULL || entry->dtype->bits != 4 || entry->shape.size == 0)
		return true;
	if (shape[entry->shape.size - 1] % 2 != 0) {
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"its last dimension is not even, so its rows share bytes");
		return false;
	}
	shape[entry->shape.size - 1] /= 2;
	return true;
}

static void add_tensor(struct fsdp_safetensors *header)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	int64_t shape[FSDP_DIMS_MAX];
	uint64_t bytes;
	if (!is_sound(header, shape, &bytes)) {
		header->left_out = true;
		return;
	}
	header->unordered |= entry->range.counts[0] != header->end;
	header->end = entry->range.counts[1];
	add_record(header, shape, bytes);
}

/* ---- tensors that are written like one before ---- */

/* The lists in the order of struct fsdp_safetensors_entry. */
static const struct fsdp_span member_keys[] = { FSDP_SPAN_INIT("shape"),
	FSDP_SPAN_INIT("data_offsets"), FSDP_SPAN_INIT("dtype") };
_Static_assert((int)FSDP_QUICK_COUNTS == FSDP_DIMS_MAX, "a shape has its place");
static const struct fsdp_json_wanted wanted = {
	.keys = member_keys,
	.key_count = FSDP_COUNT(member_keys),
	.list_count = 2,
	.members = true,
};

/* Reads the next member with it. False: it is something else, and nothing happened. */
static bool read_alike(struct fsdp_safetensors *header)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	struct fsdp_json_member member;
	if (!fsdp_json_quick_member(
		    header->quick, &header->json.scan, entry->lists, &member) ||
		entry->range.size != 2 ||
		fsdp_span_equal(member.key, FSDP_SPAN("__metadata__")))
		return false;
	if (*member.meaning == 0) {
		const struct fsdp_json_token name = { .span = member.text };
		const struct fsdp_safetensors_dtype *row = find_dtype(&name);
		if (row == NULL)
			return false;
		*member.meaning = 1 + (uint32_t)(row - dtypes);
	}
	entry->dtype = &dtypes[*member.meaning - 1];
	fsdp_json_quick_accept(&header->json.scan, &member);
	entry->name = member.key;
	entry->offset =
		8 + fsdp_json_scan_offset(&header->json.scan, member.key.data - 1);
	entry->has_dtype = entry->has_shape = entry->has_range = true;
	entry->broken = false;
	add_tensor(header);
	return true;
}

/* The token is the name of the tensor. */
static void read_tensor(struct fsdp_safetensors *header)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	struct fsdp_json_walk *json = &header->json;
	*entry = (struct fsdp_safetensors_entry){
		.name = fsdp_json_text_copy(&json->token, header->reading->scratch),
		.offset = safetensors_place(header),
	};
	if (json->token.not_utf8)
		FSDP_SAFETENSORS_FIND_ENTRY(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"the tensor's name is not UTF-8");
	fsdp_json_walk_next(json);
	if (json->token.kind != FSDP_SCAN_OBJECT) {
		header->left_out = true;
		safetensors_unexpected(header, "the tensor is not a JSON object");
		return;
	}
	while (fsdp_json_walk_more(json))
		read_member(header);
	add_tensor(header);
}

/* ---- shards of whole tensors ---- */

/*
 * Reads the offsets of the tensors of a safetensors file in the full ones, from
 * DCP_SHARDING_INFO of its metadata.
 */

/* Metadata of one tensor of this file. */
struct declared_shard {
	struct fsdp_safetensors *header;
	struct fsdp_json_walk json;
	uint64_t offsets[FSDP_DIMS_MAX];
	size_t count;
	bool has_offsets, again; /* `again`: something of it comes twice */
	struct fsdp_span fqn;
	struct fsdp_table owners; /* the tensor of each raw name */
	struct fsdp_bits placed;  /* tensors that have an entry */
};

/* Of members that come twice the last one counts, as in json.loads. */
static void read_saved_offsets(struct declared_shard *shard)
{
	shard->again |= shard->has_offsets;
	shard->has_offsets = true;
	shard->count = 0;
	fsdp_json_walk_next(&shard->json);
	if (shard->json.token.kind != FSDP_SCAN_ARRAY) {
		shard->has_offsets = false;
		fsdp_json_walk_skip(&shard->json);
		return;
	}
	while (fsdp_json_walk_more(&shard->json)) {
		if (shard->json.token.kind == FSDP_SCAN_NUMBER &&
			shard->count < FSDP_DIMS_MAX &&
			safetensors_count(
				shard->json.token.span, &shard->offsets[shard->count])) {
			shard->count++;
			continue;
		}
		shard->has_offsets = false;
		fsdp_json_walk_skip(&shard->json);
	}
}

static void read_shard_member(struct declared_shard *shard)
{
	struct fsdp_json_token *token = &shard->json.token;
	if (fsdp_json_text_is(token, FSDP_SPAN("saved_offsets"))) {
		read_saved_offsets(shard);
		return;
	}
	bool names = fsdp_json_text_is(token, FSDP_SPAN("fqn")) ||
		     fsdp_json_text_is(token, FSDP_SPAN("logical_fqn"));
	if (names)
		fsdp_json_walk_next(&shard->json);
	if (names && token->kind == FSDP_SCAN_TEXT)
		shard->fqn =
			fsdp_json_text_copy(token, shard->header->reading->model->arena);
	else
		fsdp_json_walk_skip(&shard->json);
}

static void begin_shard(
	struct declared_shard *shard, struct fsdp_span name, uint32_t owner)
{
	struct fsdp_safetensors *header = shard->header;
	struct fsdp_model *model = header->reading->model;
	bool placed = false;
	(void)fsdp_bits_set(&shard->placed, owner, &placed);
	if (placed || shard->again)
		fsdp_find(safetensors_findings(header), FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = header->file, .tensor = name),
			"DCP_SHARDING_INFO has two locations of this part; the last one counts");
	/* An earlier entry of the same name counts no more. */
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, owner);
	if (!placed)
		return;
	struct fsdp_piece_record *piece = fsdp_model_piece(model, tensor->first_piece);
	int64_t shape[FSDP_DIMS_MAX];
	if (piece->box == FSDP_NONE)
		return;
	for (size_t i = 0; i < tensor->dims; i++)
		shape[i] = fsdp_model_ints(model, piece->box)[tensor->dims + i];
	piece->box = FSDP_NONE;
	tensor->flags &= (uint16_t)~FSDP_TENSOR_SHAPE_INFERRED;
	tensor->shape = fsdp_build_ints(model, shape, tensor->dims);
	fsdp_build_names(model, 0, name, false, &tensor->name, &tensor->raw_name);
}

/* The tensor's one piece gets its box; the tensor is at least as large as this. */
static void place_shard(struct declared_shard *shard, struct fsdp_span name)
{
	struct fsdp_safetensors *header = shard->header;
	struct fsdp_model *model = header->reading->model;
	int64_t box[2 * FSDP_DIMS_MAX], whole[FSDP_DIMS_MAX];
	uint32_t id = fsdp_names_find(&model->names, 0, name);
	uint32_t owner = id != FSDP_NONE ? fsdp_table_get(&shard->owners, id) : FSDP_NONE;
	if (owner == FSDP_NONE)
		return;
	begin_shard(shard, name, owner);
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, owner);
	const int64_t *shape = fsdp_model_ints(model, tensor->shape);
	bool fits = shard->has_offsets && shard->count == tensor->dims;
	for (size_t i = 0; fits && i < tensor->dims; i++) {
		fits = shard->offsets[i] <= (uint64_t)(INT64_MAX - shape[i]);
		box[i] = fits ? (int64_t)shard->offsets[i] : 0;
		box[tensor->dims + i] = shape[i];
		whole[i] = box[i] + shape[i];
	}
	uint64_t numel;
	if (!fits || !fsdp_numel(whole, tensor->dims, &numel)) {
		fsdp_find(safetensors_findings(header), FSDP_RULE_CHUNK_BOUNDS,
			FSDP_PLACE(.file = header->file, .tensor = name),
			"DCP_SHARDING_INFO has no location of this part");
		return;
	}
	struct fsdp_piece_record *piece = fsdp_model_piece(model, tensor->first_piece);
	piece->box = fsdp_build_ints(model, box, 2 * (size_t)tensor->dims);
	tensor->shape = fsdp_build_ints(model, whole, tensor->dims);
	tensor->flags |= FSDP_TENSOR_SHAPE_INFERRED;
	if (shard->fqn.data != NULL)
		fsdp_build_names(
			model, 0, shard->fqn, false, &tensor->name, &tensor->raw_name);
}

static void read_shards(void *context)
{
	struct declared_shard *shard = context;
	fsdp_json_walk_next(&shard->json);
	if (shard->json.token.kind != FSDP_SCAN_OBJECT) {
		struct fsdp_error *error = NULL;
		fsdp_fail(&error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"DCP_SHARDING_INFO is not a JSON object");
		fsdp_model_leave(shard->header->reading->model, error);
	}
	while (fsdp_json_walk_more(&shard->json)) {
		struct fsdp_json_walk *json = &shard->json;
		struct fsdp_span name = fsdp_json_text_copy(
			&json->token, shard->header->reading->model->arena);
		shard->count = 0;
		shard->has_offsets = shard->again = false;
		shard->fqn = (struct fsdp_span){ 0 };
		fsdp_json_walk_next(json);
		if (json->token.kind != FSDP_SCAN_OBJECT)
			fsdp_json_walk_skip(json);
		else
			while (fsdp_json_walk_more(json))
				read_shard_member(shard);
		place_shard(shard, name);
	}
}

/* Offsets of the tensors in the full ones, if the notes contain them. */
static void safetensors_read_shards(struct fsdp_safetensors *header)
{
	struct fsdp_arena *scratch = header->reading->scratch;
	size_t size = header->sharding.size;
	if (header->sharding.data == NULL)
		return;
	unsigned char *text = fsdp_arena_take(scratch, size + FSDP_WINDOW_PADDING, 1);
	struct declared_shard *shard = FSDP_TAKE(scratch, shard, 1);
	shard->header = header;
	struct fsdp_model *model = header->reading->model;
	shard->json.arena = model->arena;
	shard->json.error = &model->error;
	fsdp_table_init(&shard->owners, scratch);
	fsdp_bits_init(&shard->placed, scratch);
	for (uint32_t i = header->first_tensor; i < model->tensors.count; i++)
		(void)fsdp_table_set(
			&shard->owners, fsdp_model_tensor(model, i)->raw_name, i);
	memcpy(text, header->sharding.data, size);
	fsdp_json_scan_over(&shard->json.scan, fsdp_span(text, size), &header->limits);
	struct fsdp_error *error = NULL;
	if (fsdp_model_try(model, scratch, read_shards, shard, &error))
		return;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY ||
		fsdp_error_code(error) == FSDP_ERROR_LIMIT)
		fsdp_model_leave(model, error);
	FSDP_SAFETENSORS_FIND(header, FSDP_RULE_SAFETENSORS_JSON, FSDP_UNKNOWN,
		"DCP_SHARDING_INFO: %s", fsdp_error_message(error));
	fsdp_error_free(error);
}

/* ---- the file ---- */

/* The reference reader refuses larger headers, and deeper ones. */
enum { REFERENCE_BYTES = 100000000, REFERENCE_DEPTH = 128 };

struct range {
	uint64_t begin, end;
	uint32_t tensor;
};

/* The first hole or overlap; all holes count as bytes that no tensor owns. */
static void check_sorted(
	struct fsdp_safetensors *header, const struct range *ranges, size_t count)
{
	uint64_t end = 8 + header->size;
	bool said = false;
	for (size_t i = 0; i < count; i++) {
		if (ranges[i].begin > end)
			header->reading->model->unaccounted += ranges[i].begin - end;
		if (ranges[i].begin != end && !said) {
			bool hole = ranges[i].begin > end;
			uint64_t bytes =
				hole ? ranges[i].begin - end : end - ranges[i].begin;
			said = true;
			struct fsdp_model *model = header->reading->model;
			struct fsdp_span name = fsdp_model_name(model,
				fsdp_model_tensor(model, ranges[i].tensor)->name,
				header->reading->scratch);
			fsdp_find(safetensors_findings(header),
				FSDP_RULE_SAFETENSORS_OFFSETS,
				FSDP_PLACE(.file = header->file,
					.offset = fsdp_min(ranges[i].begin, end),
					.length = bytes, .tensor = name),
				hole && bytes == 1
					? "%llu byte before the tensor is unreferenced"
				: hole ? "%llu bytes before the tensor are unreferenced"
				: bytes == 1
					? "the tensor overlaps the tensor before it by %llu byte"
					: "the tensor overlaps the tensor before it by %llu bytes",
				FSDP_LLU(bytes));
		}
		if (ranges[i].end > end)
			end = ranges[i].end;
	}
	header->end = end - 8 - header->size;
}

/* Headers list tensors in the order of their bytes, or nearly: only then no sorting. */
static void check_order(struct fsdp_safetensors *header)
{
	struct fsdp_model *model = header->reading->model;
	size_t count = model->tensors.count - header->first_tensor;
	if (!header->unordered || header->left_out)
		return;
	need_records(header);
	struct fsdp_arena *arena = fsdp_arena_new_below(header->reading->scratch);
	struct range *ranges = FSDP_TAKE(arena, ranges, count + 1);
	for (size_t i = 0; i < count; i++) {
		uint32_t id = header->first_tensor + (uint32_t)i;
		const struct fsdp_piece_record *piece = fsdp_model_piece(
			model, fsdp_model_tensor(model, id)->first_piece);
		const struct fsdp_extent *extent =
			fsdp_model_extent(model, piece->extent);
		ranges[i] = (struct range){ extent->offset,
			extent->offset + extent->length, id };
	}
	FSDP_SORT(ranges, count, FSDP_BY(ranges, begin), FSDP_BY(ranges, end),
		FSDP_BY(ranges, tensor));
	check_sorted(header, ranges, count);
	fsdp_arena_done(arena);
}

static void read_members(struct fsdp_safetensors *header)
{
	struct fsdp_json_walk *json = &header->json;
	fsdp_json_walk_next(json);
	if (json->token.offset != 0)
		FSDP_SAFETENSORS_FIND(header, FSDP_RULE_SAFETENSORS_STYLE, 8,
			"the header begins with blanks");
	if (json->token.kind != FSDP_SCAN_OBJECT) {
		struct fsdp_error *error = NULL;
		fsdp_fail(&error, FSDP_ERROR_DAMAGED, json->token.offset,
			"the header is not a JSON object");
		complete_error(&error);
		fsdp_model_leave(header->reading->model, error);
	}
	for (;;) {
		if (read_alike(header))
			continue;
		if (!fsdp_json_walk_more(json))
			break;
		bool metadata =
			fsdp_json_text_is(&json->token, FSDP_SPAN("__metadata__"));
		(metadata ? read_notes : read_tensor)(header);
	}
	fsdp_json_walk_next(json);
}

static bool read_size(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	unsigned char bytes[8];
	uint64_t limit = fsdp_limit(header->reading->limits, FSDP_LIMIT_HEADER_BYTES);
	if (!fsdp_source_read(&header->source, 0, bytes, 8, ret_error))
		return false;
	header->size = fsdp_load_le(bytes, sizeof bytes);
	if (header->size > header->source.size - 8)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1050", 0,
			"file is truncated: the header needs %llu bytes, file size is %llu",
			FSDP_LLU(header->size), FSDP_LLU(header->source.size));
	if (header->size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_HEADER_BYTES, limit);
	header->buffer = header->source.size - 8 - header->size;
	if (header->size > REFERENCE_BYTES)
		fsdp_find(safetensors_findings(header), FSDP_RULE_SAFETENSORS_HEADER,
			FSDP_PLACE(.file = header->file, .offset = 0, .length = 8,
				.fix = "save it as several files, of fewer tensors each"),
			"the header has %llu bytes: safetensors refuses more than %d",
			FSDP_LLU(header->size), REFERENCE_BYTES);
	return true;
}

static void release(void *context)
{
	struct fsdp_safetensors *header = context;
	fsdp_json_quick_free(header->quick);
	header->quick = NULL;
	fsdp_json_scan_done(&header->json.scan);
}

static bool read_all(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	/* Numbers of the dtypes, and how the file spells them. */
	for (size_t i = 0; i < FSDP_SAFETENSORS_DTYPES; i++) {
		header->dtype_ids[i] =
			(uint8_t)fsdp_dtype_find(fsdp_span_text(dtypes[i].torch));
		header->reading->model->formatted[header->dtype_ids[i]] = dtypes[i].name;
	}
	header->limits = *header->reading->limits;
	if (fsdp_limit(&header->limits, FSDP_LIMIT_JSON_DEPTH) > REFERENCE_DEPTH)
		(void)fsdp_limits_set(&header->limits, "json-depth", REFERENCE_DEPTH);
	fsdp_bits_init(&header->seen, header->reading->scratch);
	memset(header->shapes, 0xff, sizeof header->shapes); /* no place: FSDP_NONE */
	header->first_tensor = (uint32_t)header->reading->model->tensors.count;
	header->first_value = header->reading->model->values.count;
	if (!read_size(header, ret_error))
		return false;
	struct fsdp_source_rest rest = { header->source, 8, 8 + header->size };
	fsdp_arena_own(header->reading->scratch, release, header);
	header->json.arena = header->reading->model->arena;
	header->json.error = &header->reading->model->error;
	header->json.complete = complete_error;
	if (!fsdp_json_scan_init(&header->json.scan, fsdp_source_refill, &rest,
		    &header->limits, ret_error))
		return false;
	/* What is in the window does not stay there. */
	struct fsdp_names *names = &header->reading->model->names;
	struct fsdp_arena *copies = names->copies;
	names->copies = header->reading->model->arena;
	header->quick = fsdp_json_quick_new(&wanted);
	if (header->quick == NULL)
		return fsdp_fail_memory(ret_error);
	read_members(header);
	names->copies = copies;
	release(header);
	check_order(header);
	if (!header->truncated && !header->left_out && header->end < header->buffer) {
		uint64_t left = header->buffer - header->end;
		header->reading->model->unaccounted += left;
		fsdp_find(safetensors_findings(header), FSDP_RULE_SAFETENSORS_OFFSETS,
			FSDP_PLACE(.file = header->file,
				.offset = 8 + header->size + header->end, .length = left),
			left == 1 ? "%llu byte follows the last tensor"
				  : "%llu bytes follow the last tensor",
			FSDP_LLU(left));
	}
	safetensors_read_shards(header);
	return true;
}

/* Before zips and pickles: the length may look like either. */
static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	if (look->folder != NULL || look->head.size < 10)
		return FSDP_SIGN_NONE;
	uint64_t size = fsdp_load_le(look->head.data, 8);
	if (size < 2 || size > look->source.size - 8)
		return FSDP_SIGN_NONE;
	for (size_t i = 8; i < look->head.size && i < 8 + size; i++)
		if (memchr(" \t\n\r", look->head.data[i], 4) == NULL)
			return look->head.data[i] == '{' ? FSDP_SIGN_SURE
							 : FSDP_SIGN_NONE;
	return FSDP_SIGN_NONE;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_safetensors *header = FSDP_TAKE(reading->scratch, header, 1);
	header->reading = reading;
	header->source = look->source;
	header->file = look->path;
	header->file_id = fsdp_build_file(
		reading->model, look->path, look->source.size, reading->rank);
	reading->model->format = (struct fsdp_format){
		.family = fsdp_family_safetensors.name,
		.title = fsdp_family_safetensors.title,
	};
	if (reading->may_count)
		fsdp_model_counting(reading->model);
	return read_all(header, ret_error);
}

static const char *const rankless[] = { "safetensors", NULL };

const struct fsdp_family fsdp_family_safetensors = {
	.name = "safetensors",
	.title = "safetensors file",
	.recognize = recognize,
	.read = read,
	.suffix = ".safetensors",
	.rankless = rankless,
};

/* ---- files that no index joins ---- */

/*
 * The files of a distributed save in the form of safetensors, which no index and no
 * metadata file joins: each rank writes its own. Reads none of them.
 *
 *	shard-SSSSS-model-IIIII-of-NNNNN.safetensors   SSSSS is the rank + 1
 *	sharded/shard-…                                if they are joined at the end:
 *	model-IIIII-of-NNNNN.safetensors               what one rank then writes,
 *	model.safetensors.index.json                   and last of all
 *
 * A file contains the offset of its tensor in the full one. No file contains the size of
 * the full one: it ends where its parts end.
 *
 * Origin: torch/distributed/checkpoint/hf_storage.py (PyTorch 2.13).
 */

#define SHARDED "sharded"

static bool parse(struct fsdp_span name, uint32_t *ret_rank)
{
	uint32_t numbers[3];
	if (!fsdp_pattern_takes(name, "shard-#-model-#-of-#.safetensors", numbers))
		return false;
	*ret_rank = numbers[0] - 1;
	return numbers[0] != 0;
}

static bool has_shards(const struct fsdp_folder *folder)
{
	uint32_t rank;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (entry.kind == FSDP_ENTRY_FILE && parse(entry.name, &rank))
			return true;
	return false;
}

/* Files next to shards that are not consolidated yet. */
static bool may_be_beside(struct fsdp_span name)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	return memmem(name.data, name.size, ".index.", 7) == NULL &&
	       (fsdp_span_ends_any(name, ".json .jinja .md .model .txt") ||
		       fsdp_pattern_takes(name, "model-#-of-#.safetensors", numbers));
}

/* The shards were to become files that an index names, and there is none. */
static bool lacks_index(const struct fsdp_folder *folder)
{
	bool found = false;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.name.data[0] == '.' && entry.kind == FSDP_ENTRY_DIRECTORY)
			continue;
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			fsdp_span_is(entry.name, SHARDED))
			found = true;
		else if (entry.kind != FSDP_ENTRY_FILE || !may_be_beside(entry.name))
			return false;
	}
	return found;
}

static enum fsdp_sign recognize_shard_files(const struct fsdp_look *look)
{
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	return has_shards(look->folder)    ? FSDP_SIGN_SURE
	       : lacks_index(look->folder) ? FSDP_SIGN_LIKELY
					   : FSDP_SIGN_NONE;
}

static bool read_shard_files(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	uint32_t rank, highest = 0;
	if (!has_shards(look->folder)) {
		/* Only the subdirectory shows whether it is that. */
		struct fsdp_dir dir;
		struct fsdp_folder inside;
		struct fsdp_child *child =
			fsdp_reading_add_child(reading, FSDP_SPAN(SHARDED), FSDP_NONE);
		if (!fsdp_folder_open_child(look->folder, child->name, reading->scratch,
			    reading->limits, &dir, &inside, ret_error))
			return false;
		bool shards = has_shards(&inside);
		fsdp_dir_close(&dir);
		fsdp_reading_note(reading, "opened " SHARDED);
		if (shards)
			fsdp_find(&reading->model->findings, FSDP_RULE_UNCOMMITTED_SAVE,
				FSDP_PLACE(.file = FSDP_SPAN(
						   "model.safetensors.index.json"),
					.fix = "consolidate the shards again; they can be read as they are"),
				"the shards in " SHARDED
				" are not consolidated: the index, which is written last, is missing: the consolidation failed, or is still running");
		return true;
	}
	reading->state = reading;
	FSDP_EACH(i, look->folder->count, entry, fsdp_folder_entry(look->folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE || !parse(entry.name, &rank))
			continue;
		fsdp_reading_add_child(reading, entry.name, rank);
		if (rank > highest)
			highest = rank;
	}
	reading->model->is_set = true;
	reading->model->world_size = highest + 1;
	return true;
}

/* The largest reach of all parts of a name, in each dimension. */
static void widen(struct fsdp_model *model, uint32_t *first, uint32_t index)
{
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	uint32_t known = first[tensor->raw_name];
	int64_t shape[FSDP_DIMS_MAX];
	first[tensor->raw_name] = index;
	if (known == FSDP_NONE || tensor->dims == 0)
		return;
	const struct fsdp_tensor_record *before = fsdp_model_tensor(model, known);
	const int64_t *own = fsdp_model_ints(model, tensor->shape);
	const int64_t *other = fsdp_model_ints(model, before->shape);
	if (before->dims != tensor->dims ||
		memcmp(own, other, tensor->dims * sizeof *own) == 0)
		return;
	for (size_t i = 0; i < tensor->dims; i++)
		shape[i] = own[i] > other[i] ? own[i] : other[i];
	tensor->shape = fsdp_build_ints(model, shape, tensor->dims);
}

/* Up the list each tensor becomes as large as those before it, and down the list as
 * large as the last. */
static void finish(struct fsdp_reading *reading)
{
	struct fsdp_model *model = reading->model;
	if (reading->state == NULL)
		return;
	size_t names = model->names.list.count;
	uint32_t *first = FSDP_TAKE(reading->scratch, first, names);
	memset(first, 0xff, names * sizeof *first);
	for (size_t i = 0; i < model->tensors.count; i++)
		widen(model, first, (uint32_t)i);
	for (size_t i = model->tensors.count; i-- > 0;) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		const struct fsdp_tensor_record *last =
			fsdp_model_tensor(model, first[tensor->raw_name]);
		if (last->dims == tensor->dims)
			tensor->shape = last->shape;
	}
	model->format = (struct fsdp_format){
		.family = fsdp_family_dcp_safetensors.name,
		.title = fsdp_family_dcp_safetensors.title,
		.writer = "torch.distributed.checkpoint",
	};
}

const struct fsdp_family fsdp_family_dcp_safetensors = {
	.name = "dcp-safetensors",
	.title = "PyTorch distributed checkpoint as safetensors",
	.recognize = recognize_shard_files,
	.read = read_shard_files,
	.finish = finish,
};
