/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a finished (or, inside a fold, a half-finished) tree of values. Never allocates,
 * never follows more than one reference, and answers "nothing" to a reference that is
 * unknown.
 */
#include "base/characters.h"
#include "syntax/pickle-internal.h"

static struct cell *known_cell(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	if (!ref_is_cell(ref) || ref_payload(ref) == 0 ||
		ref_payload(ref) >= pickle->cells.count)
		return NULL;
	return cell_at(pickle, ref_payload(ref));
}

static const struct cell *cell_of_kind(
	const struct fsdp_pickle *pickle, fsdp_ref ref, enum fsdp_pickle_kind kind)
{
	const struct cell *cell = known_cell(pickle, ref);
	return cell != NULL && cell->kind == kind ? cell : NULL;
}

enum fsdp_pickle_kind fsdp_pickle_kind(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell;
	switch (ref_tag(ref)) {
	case TAG_CELL:
		cell = known_cell(pickle, ref);
		if (cell == NULL)
			return FSDP_PICKLE_NOTHING;
		if (cell->kind < FSDP_PICKLE_KIND_COUNT)
			return (enum fsdp_pickle_kind)cell->kind;
		return cell->kind == CELL_FORWARD ? FSDP_PICKLE_FOLDED
						  : FSDP_PICKLE_NOTHING;
	case TAG_SMALL:
		return FSDP_PICKLE_INTEGER;
	case TAG_CONST: {
		uint32_t which = ref_payload(ref);
		switch (which) {
		case CONST_NULL:
			return FSDP_PICKLE_NULL;
		case CONST_FALSE:
		case CONST_TRUE:
			return FSDP_PICKLE_BOOL;
		case CONST_EMPTY_TUPLE:
			return FSDP_PICKLE_TUPLE;
		case CONST_BUFFER:
			return FSDP_PICKLE_BUFFER;
		default:
			return FSDP_PICKLE_NOTHING;
		}
	}
	case TAG_GLOBAL:
		return ref_payload(ref) < pickle->globals.count ? FSDP_PICKLE_GLOBAL
								: FSDP_PICKLE_NOTHING;
	case TAG_FOLDED:
		return FSDP_PICKLE_FOLDED;
	default:
		return FSDP_PICKLE_NOTHING;
	}
}

const char *fsdp_pickle_type_name(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	static const char *const names[FSDP_PICKLE_KIND_COUNT] = {
		[FSDP_PICKLE_NULL] = "NoneType",
		[FSDP_PICKLE_BOOL] = "bool",
		[FSDP_PICKLE_INTEGER] = "int",
		[FSDP_PICKLE_BIG_INTEGER] = "int",
		[FSDP_PICKLE_FLOAT] = "float",
		[FSDP_PICKLE_TEXT] = "str",
		[FSDP_PICKLE_BYTES] = "bytes",
		[FSDP_PICKLE_BYTEARRAY] = "bytearray",
		[FSDP_PICKLE_TUPLE] = "tuple",
		[FSDP_PICKLE_LIST] = "list",
		[FSDP_PICKLE_SET] = "set",
		[FSDP_PICKLE_FROZENSET] = "frozenset",
		[FSDP_PICKLE_DICT] = "dict",
		[FSDP_PICKLE_GLOBAL] = "type",
	};
	return names[fsdp_pickle_kind(pickle, ref)];
}

bool fsdp_pickle_integer(
	const struct fsdp_pickle *pickle, fsdp_ref ref, int64_t *ret_value)
{
	if (ref_tag(ref) == TAG_SMALL) {
		*ret_value = (int32_t)ref >> TAG_BITS;
		return true;
	}
	if (ref == REF_FALSE || ref == REF_TRUE) {
		*ret_value = ref == REF_TRUE;
		return true;
	}
	const struct cell *cell = cell_of_kind(pickle, ref, FSDP_PICKLE_INTEGER);
	if (cell != NULL)
		*ret_value = (int64_t)cell_wide(cell);
	return cell != NULL;
}

bool fsdp_pickle_boolean(const struct fsdp_pickle *pickle, fsdp_ref ref, bool *ret_value)
{
	(void)pickle;
	if (ref != REF_FALSE && ref != REF_TRUE)
		return false;
	*ret_value = ref == REF_TRUE;
	return true;
}

bool fsdp_pickle_float(const struct fsdp_pickle *pickle, fsdp_ref ref, double *ret_value)
{
	const struct cell *cell = cell_of_kind(pickle, ref, FSDP_PICKLE_FLOAT);
	if (cell == NULL)
		return false;
	uint64_t bits = cell_wide(cell);
	memcpy(ret_value, &bits, sizeof bits);
	return true;
}

static struct fsdp_span cell_span(
	const struct fsdp_pickle *pickle, const struct cell *cell)
{
	size_t size = (size_t)((uint64_t)cell->x << 32 | cell->a);
	if ((cell->flags & CELL_DECODED) != 0)
		return fsdp_span((const void *)(uintptr_t)cell_wide(cell), size);
	if ((cell->flags & CELL_INSIDE) != 0)
		return fsdp_span((const unsigned char *)(cell + 1), size);
	return fsdp_span(pickle->stream.data + cell_wide(cell), size);
}

struct fsdp_span fsdp_pickle_span(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = known_cell(pickle, ref);
	if (cell == NULL ||
		(cell->kind != FSDP_PICKLE_TEXT && cell->kind != FSDP_PICKLE_BYTES &&
			cell->kind != FSDP_PICKLE_BYTEARRAY &&
			cell->kind != FSDP_PICKLE_BIG_INTEGER))
		return (struct fsdp_span){ 0 };
	return cell_span(pickle, cell);
}

struct fsdp_span fsdp_pickle_text(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = cell_of_kind(pickle, ref, FSDP_PICKLE_TEXT);
	return cell != NULL ? cell_span(pickle, cell) : (struct fsdp_span){ 0 };
}

bool fsdp_pickle_stays(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = known_cell(pickle, ref);
	return cell != NULL && (cell->flags & CELL_STAYS) != 0;
}

bool fsdp_pickle_is_written(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = cell_of_kind(pickle, ref, FSDP_PICKLE_BIG_INTEGER);
	return cell != NULL && (cell->flags & CELL_WRITTEN) != 0;
}

const struct fsdp_pickle_global *fsdp_pickle_named(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = cell_of_kind(pickle, ref, FSDP_PICKLE_CALL);
	if (cell != NULL)
		ref = cell->a;
	if (ref_tag(ref) != TAG_GLOBAL)
		return NULL;
	return fsdp_pickle_global(pickle, ref_payload(ref));
}

bool fsdp_pickle_is_global(const struct fsdp_pickle *pickle, fsdp_ref ref,
	const char *module, const char *name)
{
	if (ref_tag(ref) != TAG_GLOBAL)
		return false;
	const struct fsdp_pickle_global *global =
		fsdp_pickle_global(pickle, ref_payload(ref));
	return global != NULL && fsdp_span_is(global->name, name) &&
	       fsdp_span_is(global->module, module);
}

bool fsdp_pickle_is_mapping(const struct fsdp_pickle *pickle, fsdp_ref callable)
{
	static const char *const names[] = { "OrderedDict", "Counter", "defaultdict" };
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (fsdp_pickle_is_global(pickle, callable, "collections", names[i]))
			return true;
	return fsdp_pickle_is_global(pickle, callable, "builtins", "dict");
}

bool fsdp_pickle_folded(
	const struct fsdp_pickle *pickle, fsdp_ref ref, uint32_t *ret_number)
{
	if (ref_tag(ref) == TAG_FOLDED) {
		*ret_number = ref_payload(ref);
		return true;
	}
	const struct cell *cell = known_cell(pickle, ref);
	if (cell == NULL || cell->kind != CELL_FORWARD)
		return false;
	*ret_number = cell->a;
	return true;
}

fsdp_ref fsdp_pickle_callable(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = cell_of_kind(pickle, ref, FSDP_PICKLE_CALL);
	return cell != NULL ? cell->a : FSDP_REF_NONE;
}

fsdp_ref fsdp_pickle_argument(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = known_cell(pickle, ref);
	if (cell != NULL && cell->kind == FSDP_PICKLE_CALL)
		return cell->b;
	if (cell != NULL && cell->kind == FSDP_PICKLE_PERSISTENT)
		return cell->a;
	return FSDP_REF_NONE;
}

static const struct cell *cell_states(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *cell = cell_of_kind(pickle, ref, FSDP_PICKLE_CALL);
	return cell != NULL && cell->c != 0 ? cell_at(pickle, cell->c + 1) : NULL;
}

fsdp_ref fsdp_pickle_keywords(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct cell *states = cell_states(pickle, ref);
	return states != NULL ? states->a : FSDP_REF_NONE;
}

/* The index-th reference of a holder, run by run. */
static fsdp_ref walk_to(
	const struct fsdp_pickle *pickle, const struct cell *holder, size_t index)
{
	for (uint32_t at = holder->b; at != 0;) {
		struct cell *run = cell_at(pickle, at);
		uint32_t items = run->c == 0 ? run->a : 0; /* pairs are not items */
		if (index < items)
			return run_refs(run)[index];
		index -= items;
		at = run->b;
	}
	return FSDP_REF_NONE;
}

fsdp_ref fsdp_pickle_state(const struct fsdp_pickle *pickle, fsdp_ref ref, size_t index)
{
	const struct cell *states = cell_states(pickle, ref);
	if (states == NULL)
		return FSDP_REF_NONE;
	if (index == 0)
		return states->b;
	if (states->c == 0)
		return FSDP_REF_NONE;
	return walk_to(pickle, cell_at(pickle, states->c), index - 1);
}

/* ---- containers ---- */

uint64_t fsdp_pickle_count(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	struct cell *cell = known_cell(pickle, ref);
	if (cell == NULL)
		return 0;
	if (cell->kind == FSDP_PICKLE_TUPLE && cell->x != 0)
		return cell->x;
	const struct cell *holder = cell_holder(pickle, cell);
	return holder != NULL ? holder->a : 0;
}

static fsdp_ref small_item(const struct cell *cell, size_t index)
{
	if (index >= cell->x)
		return FSDP_REF_NONE;
	return index == 0 ? cell->a : index == 1 ? cell->b : cell->c;
}

fsdp_ref fsdp_pickle_item(const struct fsdp_pickle *pickle, fsdp_ref ref, size_t index)
{
	struct cell *cell = known_cell(pickle, ref);
	if (cell == NULL)
		return FSDP_REF_NONE;
	if (cell->kind == FSDP_PICKLE_TUPLE && cell->x != 0)
		return small_item(cell, index);
	const struct cell *holder = cell_holder(pickle, cell);
	return holder != NULL ? walk_to(pickle, holder, index) : FSDP_REF_NONE;
}

bool fsdp_pickle_next(const struct fsdp_pickle *pickle,
	struct fsdp_pickle_iterator *iterator, fsdp_ref *ret_key, fsdp_ref *ret_value)
{
	struct cell *cell = known_cell(pickle, iterator->ref);
	if (cell == NULL)
		return false;
	if (cell->kind == FSDP_PICKLE_TUPLE && cell->x != 0) {
		if (iterator->at >= cell->x)
			return false;
		*ret_key = FSDP_REF_NONE;
		*ret_value = small_item(cell, iterator->at++);
		return true;
	}
	if (!iterator->begun) {
		const struct cell *holder = cell_holder(pickle, cell);
		iterator->begun = true;
		iterator->run = holder != NULL ? holder->b : 0;
	}
	while (iterator->run != 0) {
		struct cell *run = cell_at(pickle, iterator->run);
		uint32_t step = run->c != 0 ? 2 : 1;
		if (iterator->at < run->a) {
			const fsdp_ref *refs = run_refs(run) + iterator->at;
			*ret_key = step == 2 ? refs[0] : FSDP_REF_NONE;
			*ret_value = refs[step - 1];
			iterator->at += step;
			return true;
		}
		iterator->run = run->b;
		iterator->at = 0;
	}
	return false;
}

bool fsdp_pickle_ints(const struct fsdp_pickle *pickle, fsdp_ref ref, int64_t *items,
	size_t room, size_t *ret_count)
{
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, ref);
	if ((kind != FSDP_PICKLE_TUPLE && kind != FSDP_PICKLE_LIST) ||
		fsdp_pickle_count(pickle, ref) > room)
		return false;
	struct fsdp_pickle_iterator iterator = { .ref = ref };
	fsdp_ref key, value;
	size_t count = 0;
	while (fsdp_pickle_next(pickle, &iterator, &key, &value)) {
		if (fsdp_pickle_kind(pickle, value) != FSDP_PICKLE_INTEGER ||
			!fsdp_pickle_integer(pickle, value, &items[count]))
			return false;
		count++;
	}
	*ret_count = count;
	return true;
}

/* Keys are short: two words that may overlap cost less than a call of memcmp. */
static inline bool same_bytes(const unsigned char *a, const unsigned char *b, size_t size)
{
	uint64_t x, y;
	uint32_t v, w;
	if (size > 16)
		return memcmp(a, b, size) == 0;
	if (size >= 8) {
		memcpy(&x, a, 8);
		memcpy(&y, b, 8);
		uint64_t differ = x ^ y;
		memcpy(&x, a + size - 8, 8);
		memcpy(&y, b + size - 8, 8);
		return (differ | (x ^ y)) == 0;
	}
	if (size >= 4) {
		memcpy(&v, a, 4);
		memcpy(&w, b, 4);
		uint32_t differ = v ^ w;
		memcpy(&v, a + size - 4, 4);
		memcpy(&w, b + size - 4, 4);
		return (differ | (v ^ w)) == 0;
	}
	while (size > 0 && a[size - 1] == b[size - 1])
		size--;
	return size == 0;
}

/* Straight over the runs: families ask this of every small state. */
fsdp_ref fsdp_pickle_get_span(
	const struct fsdp_pickle *pickle, fsdp_ref ref, struct fsdp_span key)
{
	struct cell *cell = known_cell(pickle, ref);
	const struct cell *holder = cell != NULL ? cell_holder(pickle, cell) : NULL;
	fsdp_ref found = FSDP_REF_NONE;
	if (holder == NULL ||
		(cell->kind != FSDP_PICKLE_DICT && cell->kind != FSDP_PICKLE_CALL))
		return found;
	for (uint32_t at = holder->b; at != 0;) {
		struct cell *run = cell_at(pickle, at);
		const fsdp_ref *refs = run_refs(run);
		for (uint32_t i = 0; run->c != 0 && i < run->a; i += 2) {
			if (!ref_is_cell(refs[i]))
				continue;
			const struct cell *name = cell_at(pickle, ref_payload(refs[i]));
			if (name->kind != FSDP_PICKLE_TEXT ||
				name->a != (uint32_t)key.size)
				continue;
			struct fsdp_span text = cell_span(pickle, name);
			if (text.size == key.size &&
				same_bytes(text.data, key.data, key.size))
				found = refs[i + 1];
		}
		at = run->b;
	}
	return found;
}

uint32_t fsdp_pickle_identity(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	switch (fsdp_pickle_kind(pickle, ref)) {
	case FSDP_PICKLE_TUPLE:
	case FSDP_PICKLE_LIST:
	case FSDP_PICKLE_SET:
	case FSDP_PICKLE_FROZENSET:
	case FSDP_PICKLE_DICT:
	case FSDP_PICKLE_PERSISTENT:
	case FSDP_PICKLE_CALL:
		return ref_is_cell(ref) ? ref_payload(ref) : 0;
	case FSDP_PICKLE_NOTHING:
	case FSDP_PICKLE_NULL:
	case FSDP_PICKLE_BOOL:
	case FSDP_PICKLE_INTEGER:
	case FSDP_PICKLE_BIG_INTEGER:
	case FSDP_PICKLE_FLOAT:
	case FSDP_PICKLE_TEXT:
	case FSDP_PICKLE_BYTES:
	case FSDP_PICKLE_BYTEARRAY:
	case FSDP_PICKLE_GLOBAL:
	case FSDP_PICKLE_BUFFER:
	case FSDP_PICKLE_FOLDED:
	case FSDP_PICKLE_KIND_COUNT:
		return 0;
	}
	return 0;
}

uint32_t fsdp_pickle_place(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	return known_cell(pickle, ref) != NULL ? ref_payload(ref) : 0;
}

uint32_t fsdp_pickle_identity_bound(const struct fsdp_pickle *pickle)
{
	return (uint32_t)pickle->cells.count;
}

/* ---- the pickle itself ---- */

fsdp_ref fsdp_pickle_top(const struct fsdp_pickle *pickle)
{
	return pickle->top;
}

uint64_t fsdp_pickle_length(const struct fsdp_pickle *pickle)
{
	return pickle->length;
}

size_t fsdp_pickle_global_count(const struct fsdp_pickle *pickle)
{
	return pickle->globals.count;
}

const struct fsdp_pickle_global *fsdp_pickle_global(
	const struct fsdp_pickle *pickle, size_t index)
{
	if (index >= pickle->globals.count)
		return NULL;
	return &global_at(pickle, (uint32_t)index)->shown;
}

struct fsdp_pickle_global *fsdp_pickle_global_of(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	return ref != FSDP_REF_NONE && ref_tag(ref) == TAG_GLOBAL
		       ? &global_at(pickle, ref_payload(ref))->shown
		       : NULL;
}

/*
 * Numbers and strings as protocol 0 writes them, as text.
 *
 * Strings are Python 2's repr (STRING) or raw-unicode-escape (UNICODE). Both only shrink,
 * or grow from Latin-1 to UTF-8 by at most half of the escape or twice the byte.
 */

static int digit_value(unsigned char c)
{
	if (fsdp_is_digit(c))
		return c - '0';
	unsigned char low = c | 0x20;
	return low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

/* The base that a prefix names; moves *at after it. */
static int parse_base(const unsigned char **at, const unsigned char *end, bool octal)
{
	if (end - *at < 2 || **at != '0')
		return 10;
	unsigned char mark = (*at)[1] | 0x20;
	int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
	if (base != 0) {
		*at += 2;
		return base;
	}
	return octal ? 8 : 10;
}

enum number_kind fsdp_pickle_text_integer(
	struct fsdp_span line, bool octal, int64_t *ret_value)
{
	const unsigned char *at = line.data, *end = at + line.size;
	bool negative = at < end && *at == '-';
	if (at < end && (*at == '-' || *at == '+'))
		at++;
	int base = parse_base(&at, end, octal);
	if (at == end)
		return NUMBER_BAD;
	uint64_t value = 0;
	bool big = false, leading = *at == '0' && end - at > 1;
	for (; at < end; at++) {
		int digit = digit_value(*at);
		if (digit >= base)
			return NUMBER_BAD;
		big |= __builtin_mul_overflow(value, (uint64_t)base, &value);
		big |= __builtin_add_overflow(value, (uint64_t)digit, &value);
	}
	if (base == 10 && leading && value != 0)
		return NUMBER_BAD;
	if (big || value > (uint64_t)INT64_MAX + negative)
		return NUMBER_BIG;
	*ret_value = (int64_t)(negative ? 0 - value : value);
	return base == 10 || value == 0 ? NUMBER_PLAIN : NUMBER_PREFIXED;
}

static bool is_word(const unsigned char *at, const unsigned char *end, const char *word)
{
	size_t size = strlen(word);
	if ((size_t)(end - at) != size)
		return false;
	for (size_t i = 0; i < size; i++)
		if ((at[i] | 0x20) != word[i])
			return false;
	return true;
}

bool fsdp_pickle_text_float(
	struct fsdp_span line, struct fsdp_arena *scratch, double *ret_value)
{
	bool unused;
	const unsigned char *at = line.data, *end = at + line.size;
	bool negative = at < end && *at == '-';
	if (at < end && (*at == '-' || *at == '+'))
		at++;
	double value = __builtin_inf();
	if (is_word(at, end, "nan"))
		value = __builtin_nan("");
	else if (!is_word(at, end, "inf") && !is_word(at, end, "infinity"))
		return fsdp_decimal_real(line, scratch, ret_value, &unused);
	*ret_value = negative ? -value : value;
	return true;
}

/* ---- STRING ---- */

/* The escape after a backslash; other text keeps its backslash. */
static bool parse_escape(
	const unsigned char **at, const unsigned char *end, unsigned char **out)
{
	static const char letters[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
	if (*at == end)
		return false;
	unsigned char c = *(*at)++;
	for (size_t i = 0; i + 1 < sizeof letters; i += 2)
		if (c == (unsigned char)letters[i]) {
			*(*out)++ = (unsigned char)letters[i + 1];
			return true;
		}
	uint32_t value;
	if (c == 'x') {
		if (!fsdp_hex_take(at, end, 2, &value))
			return false;
		*(*out)++ = (unsigned char)value;
		return true;
	}
	if (c < '0' || c > '7') {
		*(*out)++ = '\\';
		*(*out)++ = c;
		return true;
	}
	value = c - '0';
	for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++)
		value = value << 3 | (uint32_t)(*(*at)++ - '0');
	*(*out)++ = (unsigned char)value;
	return true;
}

bool fsdp_pickle_text_string(
	struct fsdp_span line, struct fsdp_arena *arena, struct fsdp_span *ret_text)
{
	if (line.size < 2 || (line.data[0] != '\'' && line.data[0] != '"') ||
		line.data[line.size - 1] != line.data[0])
		return false;
	const unsigned char *at = line.data + 1, *end = line.data + line.size - 1;
	*ret_text = fsdp_span(at, (size_t)(end - at));
	if (memchr(at, '\\', ret_text->size) == NULL)
		return true;
	unsigned char *begin = fsdp_arena_take(arena, ret_text->size, 1), *out = begin;
	while (at < end) {
		if (*at != '\\') {
			*out++ = *at++;
			continue;
		}
		at++;
		if (!parse_escape(&at, end, &out))
			return false;
	}
	*ret_text = fsdp_span(begin, (size_t)(out - begin));
	return true;
}

/* ---- UNICODE ---- */

static bool needs_decoding(struct fsdp_span line)
{
	for (size_t i = 0; i < line.size; i++)
		if (line.data[i] == '\\' || line.data[i] >= 0x80)
			return true;
	return false;
}

bool fsdp_pickle_text_unicode(
	struct fsdp_span line, struct fsdp_arena *arena, struct fsdp_span *ret_text)
{
	*ret_text = line;
	if (!needs_decoding(line))
		return true;
	unsigned char *begin = fsdp_arena_take(arena, line.size * 2, 1), *out = begin;
	const unsigned char *at = line.data, *end = at + line.size;
	while (at < end) {
		uint32_t point = *at++;
		if (point == '\\' && at < end && (*at == 'u' || *at == 'U')) {
			int digits = *at++ == 'u' ? 4 : 8;
			if (!fsdp_hex_take(&at, end, digits, &point) || point > 0x10ffff)
				return false;
		} else if (point == '\\' && at < end) {
			*out++ = '\\';
			point = *at++;
		}
		out = fsdp_utf8_put(out, point);
	}
	*ret_text = fsdp_span(begin, (size_t)(out - begin));
	return true;
}
