/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outermost value of a file of torch.save, as Python would have it: loaders of weights
 * ask for a dict of tensors and fail in their own ways if it is none.
 */
#include "base/num.h"
#include "pickles-private.h"

/* Streams of torch.save before 1.6: magic number, version, machine, values, keys. */
enum { LEGACY_STREAMS = 5, LEGACY_VALUES = 3 };

static const struct fsdp_pickle *find_values(const struct fsdp_pickles *pickles)
{
	size_t count = fsdp_pickles_count(pickles);

	for (size_t i = 0; i < count; i++)
		if (fsdp_span_ends(fsdp_listed(pickles, i)->facts.member,
			    FSDP_SPAN("/data.pkl")))
			return fsdp_listed(pickles, i)->pickle;
	return count == LEGACY_STREAMS ? fsdp_listed(pickles, LEGACY_VALUES)->pickle
	       : count == 1            ? fsdp_listed(pickles, 0)->pickle
				       : NULL;
}

/* The global that is called; NULL: it is not a call. */
static const struct fsdp_pickle_global *maker_of(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	return fsdp_pickle_kind(pickle, ref) == FSDP_PICKLE_CALL
		       ? fsdp_pickle_named(pickle, ref)
		       : NULL;
}

/* The functions of torch that make tensors again. */
static bool is_tensor(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct fsdp_pickle_global *made = maker_of(pickle, ref);

	return made != NULL && fsdp_span_begins(made->module, FSDP_SPAN("torch")) &&
	       fsdp_span_begins(made->name, FSDP_SPAN("_rebuild"));
}

/* Classes that the restricted loader makes, as they are called. */
static const struct known_class {
	const char *module, *name, *shown;
	bool is_dict;
} classes[] = {
	{ "collections", "OrderedDict", "collections.OrderedDict", true },
	{ "collections", "defaultdict", "collections.defaultdict", true },
	{ "builtins", "set", "set", false },
	{ "builtins", "complex", "complex", false },
	{ "builtins", "bytearray", "bytearray", false },
	{ "_codecs", "encode", "bytes", false },
	{ "torch", "Size", "torch.Size", false },
};

static const struct known_class *find_class(
	const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct fsdp_pickle_global *made = maker_of(pickle, ref);

	for (size_t i = 0; made != NULL && i < FSDP_COUNT(classes); i++)
		if (fsdp_span_is(made->module, classes[i].module) &&
			fsdp_span_is(made->name, classes[i].name))
			return &classes[i];
	return NULL;
}

static bool is_dict(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct known_class *known = find_class(pickle, ref);

	return fsdp_pickle_kind(pickle, ref) == FSDP_PICKLE_DICT ||
	       (known != NULL && known->is_dict);
}

/* NULL: not known. */
static const char *class_of(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct known_class *known = find_class(pickle, ref);

	if (is_tensor(pickle, ref))
		return fsdp_span_begins(fsdp_pickle_named(pickle, ref)->name,
			       FSDP_SPAN("_rebuild_parameter"))
			       ? "Parameter"
			       : "Tensor";
	return known != NULL ? known->shown : fsdp_pickle_type_name(pickle, ref);
}

/* False: out of memory. */
static bool take_pair(const struct fsdp_pickle *pickle, fsdp_ref key, fsdp_ref value,
	struct fsdp_arena *arena, struct fsdp_survey_root *root)
{
	if (fsdp_pickle_kind(pickle, key) != FSDP_PICKLE_TEXT) {
		if (root->key_class == NULL)
			root->key_class = class_of(pickle, key);
		return true;
	}
	if (root->other_key != NULL || is_tensor(pickle, value))
		return true;
	root->other_key =
		(const char *)fsdp_arena_copy(arena, fsdp_pickle_span(pickle, key)).data;
	return root->other_key != NULL;
}

static bool take_items(const struct fsdp_pickle *pickle, fsdp_ref top,
	struct fsdp_arena *arena, struct fsdp_survey_root *root)
{
	struct fsdp_pickle_iterator iterator = { .ref = top };
	fsdp_ref key, value;

	for (bool first = true; fsdp_pickle_next(pickle, &iterator, &key, &value);
		first = false) {
		root->tensors += is_tensor(pickle, value);
		if (first)
			root->first_class = class_of(pickle, value);
		if (key != FSDP_REF_NONE && !take_pair(pickle, key, value, arena, root))
			return false;
	}
	return true;
}

bool fsdp_pickles_root(const struct fsdp_pickles *pickles, struct fsdp_arena *arena,
	struct fsdp_survey_root *ret_root)
{
	const struct fsdp_pickle *pickle = find_values(pickles);
	fsdp_ref top = pickle != NULL ? fsdp_pickle_top(pickle) : FSDP_REF_NONE;

	*ret_root = (struct fsdp_survey_root){ 0 };
	if (top == FSDP_REF_NONE)
		return true;
	ret_root->is_known = true;
	ret_root->class_name = class_of(pickle, top);
	ret_root->is_dict = is_dict(pickle, top);
	ret_root->is_tensor = is_tensor(pickle, top);
	ret_root->count = fsdp_pickle_count(pickle, top);
	return take_items(pickle, top, arena, ret_root);
}
