/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of dtypes, and how they are found by the names of torch and of its classes.
 *
 * Origin: c10/core/ScalarType.h and torch/storage.py of PyTorch 2.15. Packed dtypes
 * (quint4x2, quint2x4) hold several elements in a byte; of bits1x8 … and
 * float4_e2m1fn_x2 torch counts one element for a byte. The two of six bits are
 * safetensors' own; torch has none.
 */
#include "base/num.h"
#include "checkpoint/model.h"

struct row {
	struct fsdp_dtype facts;
	const char *other;   /* torch's second spelling, or NULL */
	const char *storage; /* class name before "Storage" and "Tensor", or NULL */
};

#define ROW(name, bits, bytes, floating, complex, sign, other, storage)        \
	{                                                                      \
		{ name, bits, bytes, floating, complex, sign }, other, storage \
	}

/* clang-format off */
static const struct row rows[] = {
	/*  name               bits bytes float  complex signed other     storage */
	ROW("unknown",            0, 0, false, false, false, NULL,      NULL),
	ROW("float64",           64, 8, true,  false, true,  "double",  "Double"),
	ROW("float32",           32, 4, true,  false, true,  "float",   "Float"),
	ROW("float16",           16, 2, true,  false, true,  "half",    "Half"),
	ROW("bfloat16",          16, 2, true,  false, true,  NULL,      "BFloat16"),
	ROW("complex128",       128, 16, false, true, true,  "cdouble", "ComplexDouble"),
	ROW("complex64",         64, 8, false, true,  true,  "cfloat",  "ComplexFloat"),
	ROW("complex32",         32, 4, false, true,  true,  "chalf",   NULL),
	ROW("bcomplex32",        32, 4, false, true,  true,  NULL,      NULL),
	ROW("int64",             64, 8, false, false, true,  "long",    "Long"),
	ROW("int32",             32, 4, false, false, true,  "int",     "Int"),
	ROW("int16",             16, 2, false, false, true,  "short",   "Short"),
	ROW("int8",               8, 1, false, false, true,  NULL,      "Char"),
	ROW("uint8",              8, 1, false, false, false, NULL,      "Byte"),
	ROW("uint16",            16, 2, false, false, false, NULL,      NULL),
	ROW("uint32",            32, 4, false, false, false, NULL,      NULL),
	ROW("uint64",            64, 8, false, false, false, NULL,      NULL),
	ROW("bool",               8, 1, false, false, false, NULL,      "Bool"),
	ROW("float8_e4m3fn",      8, 1, true,  false, true,  NULL,      NULL),
	ROW("float8_e5m2",        8, 1, true,  false, true,  NULL,      NULL),
	ROW("float8_e4m3fnuz",    8, 1, true,  false, true,  NULL,      NULL),
	ROW("float8_e5m2fnuz",    8, 1, true,  false, true,  NULL,      NULL),
	ROW("float8_e8m0fnu",     8, 1, true,  false, false, NULL,      NULL),
	ROW("float4_e2m1fn_x2",   8, 1, true,  false, true,  NULL,      NULL),
	ROW("F6_E2M3",            6, 1, true,  false, true,  NULL,      NULL),
	ROW("F6_E3M2",            6, 1, true,  false, true,  NULL,      NULL),
	ROW("bits8",              8, 1, false, false, false, NULL,      NULL),
	ROW("bits1x8",            8, 1, false, false, false, NULL,      NULL),
	ROW("bits2x4",            8, 1, false, false, false, NULL,      NULL),
	ROW("bits4x2",            8, 1, false, false, false, NULL,      NULL),
	ROW("bits16",            16, 2, false, false, false, NULL,      NULL),
	ROW("qint8",              8, 1, false, false, true,  NULL,      "QInt8"),
	ROW("quint8",             8, 1, false, false, false, NULL,      "QUInt8"),
	ROW("qint32",            32, 4, false, false, true,  NULL,      "QInt32"),
	ROW("quint4x2",           4, 1, false, false, false, NULL,      "QUInt4x2"),
	ROW("quint2x4",           2, 1, false, false, false, NULL,      "QUInt2x4"),
	ROW("int1",               8, 1, false, false, true,  NULL,      NULL),
	ROW("int2",               8, 1, false, false, true,  NULL,      NULL),
	ROW("int3",               8, 1, false, false, true,  NULL,      NULL),
	ROW("int4",               8, 1, false, false, true,  NULL,      NULL),
	ROW("int5",               8, 1, false, false, true,  NULL,      NULL),
	ROW("int6",               8, 1, false, false, true,  NULL,      NULL),
	ROW("int7",               8, 1, false, false, true,  NULL,      NULL),
	ROW("uint1",              8, 1, false, false, false, NULL,      NULL),
	ROW("uint2",              8, 1, false, false, false, NULL,      NULL),
	ROW("uint3",              8, 1, false, false, false, NULL,      NULL),
	ROW("uint4",              8, 1, false, false, false, NULL,      NULL),
	ROW("uint5",              8, 1, false, false, false, NULL,      NULL),
	ROW("uint6",              8, 1, false, false, false, NULL,      NULL),
	ROW("uint7",              8, 1, false, false, false, NULL,      NULL),
};
/* clang-format on */

enum { COUNT = FSDP_COUNT(rows) };

const struct fsdp_dtype *fsdp_dtype(uint32_t dtype)
{
	return &rows[dtype < COUNT ? dtype : FSDP_DTYPE_UNKNOWN].facts;
}

size_t fsdp_dtype_count(void)
{
	return COUNT;
}

uint32_t fsdp_dtype_find(struct fsdp_span name)
{
	for (uint32_t i = 1; i < COUNT; i++)
		if (fsdp_span_is(name, rows[i].facts.name) ||
			(rows[i].other != NULL && fsdp_span_is(name, rows[i].other)))
			return i;
	return FSDP_DTYPE_UNKNOWN;
}

bool fsdp_dtype_may_be(struct fsdp_span name)
{
	static const char *const families[] = { "float", "bfloat", "complex", "bcomplex",
		"int", "uint", "qint", "quint", "bits" };
	FSDP_EACH(i, FSDP_COUNT(families), family, fsdp_span_text(families[i])) {
		size_t at = family.size;
		if (!fsdp_span_begins(name, family) || at == name.size ||
			name.data[at] < '0' || name.data[at] > '9')
			continue;
		while (at < name.size &&
			((name.data[at] >= '0' && name.data[at] <= '9') ||
				(name.data[at] >= 'a' && name.data[at] <= 'z') ||
				name.data[at] == '_'))
			at++;
		return at == name.size;
	}
	return false;
}

static uint32_t find_class(struct fsdp_span class_name, struct fsdp_span suffix)
{
	if (!fsdp_span_ends(class_name, suffix))
		return FSDP_DTYPE_UNKNOWN;
	struct fsdp_span stem = fsdp_span(class_name.data, class_name.size - suffix.size);
	for (uint32_t i = 1; i < COUNT; i++)
		if (rows[i].storage != NULL && fsdp_span_is(stem, rows[i].storage))
			return i;
	return FSDP_DTYPE_UNKNOWN;
}

uint32_t fsdp_dtype_of_storage(struct fsdp_span class_name)
{
	if (fsdp_span_is(class_name, "UntypedStorage"))
		return fsdp_dtype_find(FSDP_SPAN("uint8"));
	return find_class(class_name, FSDP_SPAN("Storage"));
}

uint32_t fsdp_dtype_of_tensor_class(struct fsdp_span class_name)
{
	return find_class(class_name, FSDP_SPAN("Tensor"));
}

bool fsdp_dtype_bytes(uint32_t dtype, uint64_t numel, uint64_t *ret_bytes)
{
	const struct fsdp_dtype *facts = fsdp_dtype(dtype);
	if (facts->item_bits >= 8)
		return fsdp_mul(numel, facts->item_bits / 8, ret_bytes);
	if (facts->item_bits == 0)
		return fsdp_mul(numel, 0, ret_bytes);
	if (facts->item_bits == 6) {
		*ret_bytes = numel / 4 * 3 + (numel % 4 * 6 + 7) / 8;
		return true;
	}
	uint64_t per_byte = 8 / facts->item_bits;
	*ret_bytes = numel / per_byte + (numel % per_byte != 0);
	return true;
}

bool fsdp_dtype_counts(uint32_t dtype, uint32_t dims)
{
	const struct fsdp_dtype *facts = fsdp_dtype(dtype);
	return dims == 0 && facts->item_bits != 0 && !facts->is_floating &&
	       !facts->is_complex;
}
