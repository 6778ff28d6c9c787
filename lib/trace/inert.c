/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at values of pickles and of JSON alike.
 */
#include "trace/inert.h"

static enum fsdp_pickle_kind kind_of(const struct fsdp_inert *value)
{
	return value->pickle != NULL ? fsdp_pickle_kind(value->pickle, value->ref)
				     : FSDP_PICKLE_NOTHING;
}

bool fsdp_inert_is_dict(const struct fsdp_inert *value)
{
	return fsdp_json_is(value->json, FSDP_JSON_OBJECT) ||
	       kind_of(value) == FSDP_PICKLE_DICT;
}

bool fsdp_inert_is_list(const struct fsdp_inert *value)
{
	enum fsdp_pickle_kind kind = kind_of(value);
	return fsdp_json_is_list(value->json) || kind == FSDP_PICKLE_LIST ||
	       kind == FSDP_PICKLE_TUPLE;
}

uint64_t fsdp_inert_count(const struct fsdp_inert *value)
{
	if (!fsdp_inert_is_list(value) && !fsdp_inert_is_dict(value))
		return 0;
	return value->json != NULL ? value->json->count
				   : fsdp_pickle_count(value->pickle, value->ref);
}

struct fsdp_span fsdp_inert_text(const struct fsdp_inert *value)
{
	if (fsdp_json_is(value->json, FSDP_JSON_TEXT))
		return value->json->text;
	return kind_of(value) == FSDP_PICKLE_TEXT
		       ? fsdp_pickle_text(value->pickle, value->ref)
		       : (struct fsdp_span){ 0 };
}

bool fsdp_inert_integer(const struct fsdp_inert *value, int64_t *ret)
{
	if (value->packed)
		*ret = value->integer;
	else if (fsdp_json_is(value->json, FSDP_JSON_INTEGER))
		*ret = value->json->integer;
	else
		return kind_of(value) == FSDP_PICKLE_INTEGER &&
		       fsdp_pickle_integer(value->pickle, value->ref, ret);
	return true;
}

bool fsdp_inert_number(const struct fsdp_inert *value, int64_t *ret)
{
	struct fsdp_span text = fsdp_inert_text(value);
	bool minus = text.size != 0 && text.data[0] == '-';
	int64_t number = 0;
	if (text.data == NULL)
		return fsdp_inert_integer(value, ret);
	if (text.size == minus)
		return false;
	for (size_t i = minus; i < text.size; i++)
		if (!fsdp_is_digit(text.data[i]) ||
			__builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, text.data[i] - '0', &number))
			return false;
	*ret = minus ? -number : number;
	return true;
}

bool fsdp_inert_truth(const struct fsdp_inert *value)
{
	bool truth = false;
	if (fsdp_json_is(value->json, FSDP_JSON_BOOL))
		return value->json->integer != 0;
	return kind_of(value) == FSDP_PICKLE_BOOL &&
	       fsdp_pickle_boolean(value->pickle, value->ref, &truth) && truth;
}

static bool next_of_json(struct fsdp_inert_walk *walk, struct fsdp_span *ret_key,
	struct fsdp_inert *ret_value)
{
	const struct fsdp_json *of = walk->of.json;
	if ((of->kind != FSDP_JSON_OBJECT && !fsdp_json_is_list(of)) ||
		walk->at >= of->count)
		return false;
	*ret_key = (struct fsdp_span){ 0 };
	*ret_value = (struct fsdp_inert){ 0 };
	if (of->kind == FSDP_JSON_INTEGERS) {
		ret_value->packed = true;
		ret_value->integer = of->integers[walk->at];
	} else {
		ret_value->json = &of->items[walk->at];
	}
	if (of->kind == FSDP_JSON_OBJECT)
		*ret_key = ret_value->json->key;
	walk->at++;
	return true;
}

static bool is_dict_or_list(const struct fsdp_inert *value)
{
	enum fsdp_pickle_kind kind = kind_of(value);
	return kind == FSDP_PICKLE_DICT || kind == FSDP_PICKLE_LIST ||
	       kind == FSDP_PICKLE_TUPLE;
}

bool fsdp_inert_next(struct fsdp_inert_walk *walk, struct fsdp_span *ret_key,
	struct fsdp_inert *ret_value)
{
	const struct fsdp_pickle *pickle = walk->of.pickle;
	fsdp_ref key, value;
	if (walk->of.json != NULL)
		return next_of_json(walk, ret_key, ret_value);
	if (!walk->begun && !is_dict_or_list(&walk->of))
		return false;
	walk->begun = true;
	walk->iterator.ref = walk->of.ref;
	if (!fsdp_pickle_next(pickle, &walk->iterator, &key, &value))
		return false;
	*ret_key = fsdp_pickle_text(pickle, key);
	*ret_value = fsdp_inert_pickle(pickle, value);
	return true;
}

struct fsdp_inert fsdp_inert_get(const struct fsdp_inert *dict, const char *key)
{
	if (dict->json != NULL)
		return fsdp_inert_json(fsdp_json_get(dict->json, key));
	if (!fsdp_inert_is_dict(dict))
		return (struct fsdp_inert){ 0 };
	return fsdp_inert_pickle(
		dict->pickle, fsdp_pickle_get(dict->pickle, dict->ref, key));
}
