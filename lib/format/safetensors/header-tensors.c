/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the tensors that the header of a safetensors file lists.
 */
#include "base/num.h"
#include "format/safetensors/safetensors-reading.h"
#include "model/dtype.h"

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

void fsdp_safetensors_know_dtypes(struct fsdp_safetensors *header)
{
	for (size_t i = 0; i < FSDP_SAFETENSORS_DTYPES; i++) {
		header->dtype_ids[i] =
			(uint8_t)fsdp_dtype_find(fsdp_span_text(dtypes[i].torch));
		header->reading->model->spelled[header->dtype_ids[i]] = dtypes[i].name;
	}
}

/* ---- what a tensor says ---- */

/* A list of counts, at most `room` of them. */
static bool read_counts(struct fsdp_safetensors *header, struct fsdp_json_list *list,
	size_t room, struct fsdp_error **ret_error)
{
	list->size = 0;
	if (!fsdp_safetensors_next(header, ret_error))
		return false;
	if (header->token.kind != FSDP_SCAN_ARRAY)
		return fsdp_safetensors_unexpected(
			header, "this is not a list of numbers", ret_error);
	for (;;) {
		if (!fsdp_safetensors_next(header, ret_error))
			return false;
		if (header->token.kind == FSDP_SCAN_ARRAY_END)
			return true;
		if (header->token.kind != FSDP_SCAN_NUMBER || list->size == room) {
			if (!fsdp_safetensors_unexpected(header,
				    header->token.kind != FSDP_SCAN_NUMBER
					    ? "this is not a number"
					    : "this list is too long",
				    ret_error))
				return false;
			continue;
		}
		if (!fsdp_safetensors_count(
			    header->token.span, &list->counts[list->size]) &&
			!fsdp_safetensors_unexpected(header,
				"this is not a number that can be a size", ret_error))
			return false;
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

static bool read_dtype(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	entry->has_dtype = true;
	if (!fsdp_safetensors_next(header, ret_error))
		return false;
	if (header->token.kind != FSDP_SCAN_TEXT)
		return fsdp_safetensors_unexpected(
			header, "the dtype is not a string", ret_error);
	entry->dtype = find_dtype(&header->token);
	if (entry->dtype != NULL)
		return true;
	entry->dtype_text =
		fsdp_json_text_copy(&header->token, header->reading->model->arena);
	return entry->dtype_text.data != NULL ||
	       fsdp_arena_fail(header->reading->model->arena, ret_error);
}

static bool read_shape(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	entry->has_shape = true;
	return read_counts(header, &entry->shape, FSDP_DIMS_MAX, ret_error);
}

static bool read_range(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	entry->has_range = true;
	if (!read_counts(header, &entry->range, 2, ret_error))
		return false;
	size_t count = entry->range.size;
	if (count != 2 && !entry->broken) {
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"data_offsets has %zu number%s instead of two", count,
			count == 1 ? "" : "s");
		entry->broken = true;
	}
	return true;
}

static const struct {
	struct fsdp_span name;
	size_t seen; /* where the entry notes that it came */
	bool (*read)(struct fsdp_safetensors *header, struct fsdp_error **ret_error);
} members[] = {
	{ { (const unsigned char *)"dtype", 5 },
		offsetof(struct fsdp_safetensors_entry, has_dtype), read_dtype },
	{ { (const unsigned char *)"shape", 5 },
		offsetof(struct fsdp_safetensors_entry, has_shape), read_shape },
	{ { (const unsigned char *)"data_offsets", 12 },
		offsetof(struct fsdp_safetensors_entry, has_range), read_range },
};

static bool read_member(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	for (size_t i = 0; i < FSDP_COUNT(members); i++) {
		if (!fsdp_json_text_is(&header->token, members[i].name))
			continue;
		if (*(const bool *)((const char *)entry + members[i].seen)) {
			FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_JSON, entry,
				"%s comes twice; readers disagree which one counts",
				(const char *)members[i].name.data);
			entry->broken = true;
		}
		return members[i].read(header, ret_error);
	}
	fsdp_find(fsdp_safetensors_findings(header), FSDP_RULE_SAFETENSORS_STYLE,
		FSDP_PLACE(.file = header->file, .offset = fsdp_safetensors_place(header),
			.tensor = entry->name, .severity = FSDP_WARNING + 1),
		"the tensor has a member that the format does not know: %.*s",
		FSDP_TEXT_MOST(header->token.span, 64));
	return fsdp_safetensors_skip(header, ret_error);
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
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"the shape overflows");
		return false;
	}
	*ret_bytes = entry->range.counts[1] - entry->range.counts[0];
	if (entry->dtype == NULL)
		return true;
	if (!fsdp_mul(numel, entry->dtype->bits, &bits) || bits % 8 != 0) {
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"%llu elements of %u bits are not a whole number of bytes",
			FSDP_LLU(numel), entry->dtype->bits);
		return false;
	}
	if (bits / 8 == *ret_bytes)
		return true;
	FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
		"shape and dtype need %llu bytes, data_offsets give %llu",
		FSDP_LLU(bits / 8), FSDP_LLU(*ret_bytes));
	return false;
}

/* What there is of the bytes that a tensor should have. */
static void find_bytes(struct fsdp_safetensors *header, struct fsdp_plain_tensor *plain)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	uint64_t begin = fsdp_min(entry->range.counts[0], header->buffer);
	uint64_t end = fsdp_min(entry->range.counts[1], header->buffer);
	plain->offset = 8 + header->size + begin;
	plain->length = end - begin;
	plain->missing = entry->range.counts[1] > header->buffer;
	if (plain->missing && !header->truncated)
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_TRUNCATED_FILE, entry,
			"the tensor ends at byte %llu, the file has %llu",
			FSDP_LLU(8 + header->size + entry->range.counts[1]),
			FSDP_LLU(header->source.size));
	header->truncated |= plain->missing;
}

/* Rare facts of a dtype without a row. */
static bool add_unknown(struct fsdp_safetensors *header, uint32_t *ret_extra,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = header->reading->model;
	struct fsdp_safetensors_entry *entry = &header->entry;
	struct fsdp_extra *extra =
		fsdp_build_push(model, &model->extras, ret_extra, ret_error);
	if (extra == NULL)
		return false;
	*extra = (struct fsdp_extra){ .quantizer = FSDP_NONE, .placement = FSDP_NONE };
	extra->dtype_raw = fsdp_build_text(model, entry->dtype_text, ret_error);
	FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_DTYPE_UNKNOWN, entry,
		"the dtype %.*s is not known", FSDP_TEXT_MOST(entry->dtype_text, 64));
	return extra->dtype_raw != NULL;
}

/* The place of a shape in the pool: that of an earlier tensor if it had it too. */
static fsdp_ints share_shape(struct fsdp_safetensors *header, const int64_t *shape,
	size_t dims, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = header->reading->model;
	uint64_t hash = dims;
	if (dims > SHAPE_DIMS)
		return fsdp_build_ints(model, shape, dims, ret_error);
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
	known->place = fsdp_build_ints(model, shape, dims, ret_error);
	return known->place;
}

static bool add_record(struct fsdp_safetensors *header, const int64_t *shape,
	uint64_t bytes, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = header->reading->model;
	struct fsdp_safetensors_entry *entry = &header->entry;
	bool optim = fsdp_path_is_of_optimizer(entry->name), again = false;
	struct fsdp_plain_tensor plain = {
		.extra = FSDP_NONE,
		.shape = share_shape(header, shape, entry->shape.size, ret_error),
		.flags = FSDP_TENSOR_ROLE_INFERRED |
			 (entry->dtype != NULL ? FSDP_TENSOR_SPELLED : 0),
		.dims = (uint8_t)entry->shape.size,
		.dtype = entry->dtype != NULL ? header->dtype_ids[entry->dtype - dtypes]
					      : FSDP_DTYPE_UNKNOWN,
		.role = optim ? FSDP_ROLE_OPTIM : FSDP_ROLE_PARAM,
		.rank = header->reading->rank,
		.file = header->file_id,
		.size = bytes,
	};
	if (plain.shape == FSDP_NONE ||
		!fsdp_build_names(model, 0, entry->name, false, &plain.name,
			&plain.raw_name, ret_error) ||
		(entry->dtype == NULL && !add_unknown(header, &plain.extra, ret_error)))
		return false;
	if (!fsdp_bits_set(&header->seen, plain.raw_name, &again))
		return fsdp_arena_fail(header->reading->scratch, ret_error);
	find_bytes(header, &plain);
	if (again)
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"the tensor comes twice; readers disagree which one counts");
	return fsdp_build_plain(model, &plain, ret_error) != FSDP_NONE;
}

/* Two elements of four bits are one of torch's. */
static bool pack_halves(struct fsdp_safetensors *header, int64_t *shape)
{
	const struct fsdp_safetensors_entry *entry = &header->entry;
	if (entry->dtype == NULL || entry->dtype->bits != 4 || entry->shape.size == 0)
		return true;
	if (shape[entry->shape.size - 1] % 2 != 0) {
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"its last dimension is odd, so its rows share bytes");
		return false;
	}
	shape[entry->shape.size - 1] /= 2;
	return true;
}

/* Whether it can be a tensor; if not, a finding tells why. */
static bool is_sound(struct fsdp_safetensors *header, int64_t *shape, uint64_t *ret_bytes)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	if (entry->broken)
		return false;
	if (!entry->has_dtype || !entry->has_shape || !entry->has_range) {
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"the tensor has no %s",
			!entry->has_dtype   ? "dtype"
			: !entry->has_shape ? "shape"
					    : "data_offsets");
		return false;
	}
	if (entry->range.counts[1] < entry->range.counts[0] ||
		entry->range.counts[1] > INT64_MAX - 8 - header->size) {
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_OFFSETS, entry,
			"data_offsets are not a range of bytes");
		return false;
	}
	return measure(header, shape, ret_bytes) && pack_halves(header, shape);
}

static bool add_tensor(struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	int64_t shape[FSDP_DIMS_MAX];
	uint64_t bytes;
	if (!is_sound(header, shape, &bytes)) {
		header->left_out = true;
		return true;
	}
	header->unordered |= entry->range.counts[0] != header->end;
	header->end = entry->range.counts[1];
	return add_record(header, shape, bytes, ret_error);
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

struct fsdp_json_quick *fsdp_safetensors_quick_new(void)
{
	return fsdp_json_quick_new(&wanted);
}

bool fsdp_safetensors_read_alike(
	struct fsdp_safetensors *header, bool *ret_read, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	struct fsdp_json_member member;
	*ret_read = false;
	if (!fsdp_json_quick_member(
		    header->quick, &header->scan, entry->lists, &member) ||
		entry->range.size != 2 ||
		fsdp_span_equal(member.key, FSDP_SPAN("__metadata__")))
		return true;
	if (*member.meaning == 0) {
		const struct fsdp_json_token name = { .span = member.text };
		const struct fsdp_safetensors_dtype *row = find_dtype(&name);
		if (row == NULL)
			return true;
		*member.meaning = 1 + (uint32_t)(row - dtypes);
	}
	*ret_read = true;
	entry->dtype = &dtypes[*member.meaning - 1];
	fsdp_json_quick_accept(&header->scan, &member);
	entry->name = member.key;
	entry->offset = 8 + fsdp_json_scan_offset(&header->scan, member.key.data - 1);
	entry->has_dtype = entry->has_shape = entry->has_range = true;
	entry->broken = false;
	return add_tensor(header, ret_error);
}

bool fsdp_safetensors_read_tensor(
	struct fsdp_safetensors *header, struct fsdp_error **ret_error)
{
	struct fsdp_safetensors_entry *entry = &header->entry;
	struct fsdp_arena *arena = header->reading->scratch;
	*entry = (struct fsdp_safetensors_entry){
		.name = fsdp_json_text_copy(&header->token, arena),
		.offset = fsdp_safetensors_place(header),
	};
	if (entry->name.data == NULL)
		return fsdp_arena_fail(arena, ret_error);
	if (header->token.not_utf8)
		FSDP_SAFETENSORS_SAY_OF(header, FSDP_RULE_SAFETENSORS_JSON, entry,
			"the tensor's name is not UTF-8");
	if (!fsdp_safetensors_next(header, ret_error))
		return false;
	if (header->token.kind != FSDP_SCAN_OBJECT) {
		header->left_out = true;
		return fsdp_safetensors_unexpected(
			header, "the tensor is not a JSON object", ret_error);
	}
	for (;;) {
		if (!fsdp_safetensors_next(header, ret_error))
			return false;
		if (header->token.kind == FSDP_SCAN_OBJECT_END) {
			return add_tensor(header, ret_error);
		}
		if (!read_member(header, ret_error))
			return false;
	}
}
