/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a saved value, names its leaves, and turns them into tensors and values of the
 * model.
 *
 * A leaf's name is its path joined by dots: keys of dicts as text, positions in lists and
 * tuples. A pickled nn.Module is walked as its state dict would be: its parameters, its
 * buffers, then its modules. The walk is a loop with a stack of its own; shared
 * containers are entered again, but only so often that the work stays linear in the
 * pickle.
 */
#include <stdio.h>

#include "base/num.h"
#include "formats/format.h"
#include "formats/torch/torch.h"

/* More numbers than that are not listed one by one. */
enum { SHORT_TUPLE = 64 };

/* Of a pickle without tensors, such as a vocabulary: items of a container that is one
 * value if it has more, and values after which all containers are. */
enum { SHORT_CONTAINER = 4096, VALUES_MOST = 1 << 16 };

/* Steps of work: an item of a container, fields of a state that are looked at, bytes of a
 * key that are. */
enum { ITEM_STEPS = 4, FIELDS_STEP = 2, KEY_STEP = 8 };

/* How a container hands out its items. */
enum frame_kind {
	FRAME_PAIRS,
	FRAME_ITEMS,
	FRAME_MODULE, /* an nn.Module: parts _parameters, _buffers, _modules in turn */
	FRAME_PART,   /* one of these dicts */
};

struct frame {
	struct fsdp_pickle_iterator iterator;
	fsdp_ref object;
	uint32_t name; /* of the container, raw */
	uint64_t index;
	uint32_t path_count;
	uint8_t kind;
	uint8_t part;  /* of FRAME_MODULE: the next one; of FRAME_PART: which one it is */
	fsdp_ref skip; /* of a part _buffers: the set of names that are not persistent */
	uint32_t identity;
	bool wrapped; /* its name holds a wrapper's segment, or ends in one */
	bool optim;   /* it is in the state dict of an optimizer */
};

struct walk {
	struct fsdp_torch *torch;
	struct fsdp_vec stack; /* struct frame */
	struct fsdp_path_builder path;
	/* By identity: 1 open, 2 seen before, 4 only numbers, 8 looked whether so. */
	unsigned char *visits;
	uint64_t entered, ceiling;
	uint64_t values; /* that were added */
	size_t levels;   /* of containers whose names are listed; 0: all */
	bool said;       /* that values were skipped */
	/* Of the entry that is met: what its frame, if any, takes over. */
	bool wrapped, optim;
	uint64_t hidden;       /* values that hold tensors without a name … */
	uint32_t first_hidden; /* … and what the first is called */
	int inner; /* number of tensors of a library's class around the tensor */
};

/* A class of torchao holds one that holds the bytes. */
enum { INNER_DEPTH = 2 };

/* Shared objects are met again and again: the work is limited. */
static void work(struct walk *walk, uint64_t steps)
{
	fsdp_model_work(walk->torch->model, steps);
}

/* ---- tensors ---- */

static struct fsdp_span name_text(struct walk *walk, uint32_t name)
{
	return fsdp_model_name(walk->torch->model, name, walk->torch->scratch);
}

/* Whether the view is inside its storage. */
static bool view_fits(const struct fsdp_torch *torch,
	const struct fsdp_torch_tensor *tensor, uint64_t *ret_end)
{
	const int64_t *shape = fsdp_model_ints(torch->model, tensor->shape);
	uint64_t numel, end = tensor->offset, bytes;
	if (!fsdp_numel(shape, tensor->dims, &numel))
		return false;
	*ret_end = end;
	if (numel == 0)
		return true;
	for (size_t i = 0; i < tensor->dims; i++) {
		uint64_t reach;
		uint64_t stride =
			tensor->contiguous ? 0 : (uint64_t)shape[tensor->dims + i];
		if (!fsdp_mul((uint64_t)shape[i] - 1, stride, &reach) ||
			!fsdp_add(end, reach, &end))
			return false;
	}
	if (!fsdp_add(end, tensor->contiguous ? numel : 1, &end))
		return false;
	*ret_end = end;
	return fsdp_dtype_bytes(tensor->dtype, end, &bytes) &&
	       bytes <= fsdp_torch_storage_bytes(
				fsdp_torch_storage(torch, tensor->storage));
}

static void report_broken(struct walk *walk, uint32_t name, const char *why)
{
	struct fsdp_torch *torch = walk->torch;
	fsdp_find(&torch->model->findings, FSDP_RULE_VIEW_OUT_OF_STORAGE,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.tensor = name_text(walk, name)),
		"tensor cannot be: %s", why);
}

static uint32_t view_extent(
	struct walk *walk, const struct fsdp_torch_tensor *view, uint32_t name)
{
	struct fsdp_torch *torch = walk->torch;
	uint64_t end = 0;
	if (view->storage == FSDP_NONE || (view->flags & FSDP_TENSOR_NO_DATA))
		return FSDP_NONE;
	const struct fsdp_torch_storage *storage =
		fsdp_torch_storage(torch, view->storage);
	struct fsdp_span key = fsdp_torch_key(torch, view->storage);
	if (view_fits(torch, view, &end))
		return torch->first_extent + view->storage;
	fsdp_find(&torch->model->findings, FSDP_RULE_VIEW_OUT_OF_STORAGE,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.tensor = name_text(walk, name)),
		"the tensor reaches to element %llu of storage %.*s, which has %llu bytes",
		FSDP_LLU(end), FSDP_TEXT_MOST(key, 64),
		FSDP_LLU(fsdp_torch_storage_bytes(storage)));
	return FSDP_NONE;
}

static fsdp_ints strides_of(const struct fsdp_torch_tensor *view)
{
	if (view->contiguous || view->dims == 0)
		return FSDP_NONE;
	/* They follow the shape in the same run of the pool. */
	return view->shape + view->dims;
}

static void add_whole_piece(struct walk *walk, uint32_t tensor,
	const struct fsdp_torch_tensor *view, uint32_t name)
{
	if (view->storage == FSDP_NONE)
		return;
	struct fsdp_piece_record piece = {
		.tensor = tensor,
		.extent = view_extent(walk, view, name),
		.box = FSDP_NONE,
		.strides = strides_of(view),
		.rank = walk->torch->rank,
		.storage_offset = view->offset,
	};
	if (view->flags & FSDP_TENSOR_NO_DATA)
		return;
	fsdp_build_piece(walk->torch->model, &piece);
}

/* Strides of a part: those of the local tensor, unless the part is all of it. */
static void part_strides(struct walk *walk, const struct fsdp_torch_tensor *view,
	const int64_t *sizes, fsdp_ints *ret_strides)
{
	const int64_t *shape = fsdp_model_ints(walk->torch->model, view->shape);
	*ret_strides = strides_of(view);
	if (!view->contiguous || view->dims == 0 ||
		memcmp(shape, sizes, view->dims * sizeof *shape) == 0)
		return;
	int64_t strides[FSDP_DIMS_MAX];
	uint64_t expected = 1; /* may wrap, unused, without elements */
	for (size_t i = view->dims; i-- > 0;) {
		strides[i] = (int64_t)expected;
		expected *= shape[i] > 0 ? (uint64_t)shape[i] : 1;
	}
	*ret_strides = fsdp_build_ints(walk->torch->model, strides, view->dims);
}

static bool box_inside(const int64_t *box, const int64_t *shape, size_t dims)
{
	for (size_t i = 0; i < dims; i++)
		if (box[i] < 0 || box[dims + i] < 0 || box[i] > shape[i] ||
			box[dims + i] > shape[i] - box[i])
			return false;
	return true;
}

static void add_local_piece(struct walk *walk, uint32_t tensor_id,
	const struct fsdp_torch_tensor *tensor, const struct fsdp_torch_local *local,
	uint32_t name)
{
	struct fsdp_torch *torch = walk->torch;
	const struct fsdp_torch_tensor *view = fsdp_torch_tensor(torch, local->tensor);
	const int64_t *box = fsdp_model_ints(torch->model, local->box);
	const int64_t *shape = fsdp_model_ints(torch->model, tensor->shape);
	struct fsdp_piece_record piece = {
		.tensor = tensor_id,
		.box = local->box,
		.rank = local->rank != FSDP_NONE ? local->rank : torch->rank,
		.storage_offset = view->offset + local->offset,
	};
	if (view->broken != NULL || view->dims != tensor->dims ||
		!box_inside(box, shape, tensor->dims)) {
		fsdp_find(&torch->model->findings, FSDP_RULE_CHUNK_BOUNDS,
			FSDP_PLACE(.file = torch->file, .member = torch->member,
				.tensor = name_text(walk, name)),
			"a shard is outside of its tensor");
		return;
	}
	piece.extent = view_extent(walk, view, name);
	part_strides(walk, view, box + tensor->dims, &piece.strides);
	fsdp_build_piece(torch->model, &piece);
}

static void add_components(
	struct walk *walk, uint32_t extra, const struct fsdp_torch_rare *rare);

static void add_pieces(struct walk *walk, uint32_t id,
	const struct fsdp_torch_tensor *tensor, uint32_t name)
{
	const struct fsdp_torch_rare *rare =
		tensor->rare != FSDP_NONE ? fsdp_vec_at(&walk->torch->rares, tensor->rare)
					  : NULL;
	if (rare == NULL || !rare->sharded) {
		add_whole_piece(walk, id, tensor, name);
		return;
	}
	work(walk, ITEM_STEPS * (uint64_t)rare->local_count);
	for (uint32_t i = 0; i < rare->local_count; i++)
		add_local_piece(walk, id, tensor,
			fsdp_vec_at(&walk->torch->locals, rare->first_local + i), name);
}

static void add_extra(
	struct walk *walk, const struct fsdp_torch_tensor *tensor, uint32_t *ret_extra)
{
	const struct fsdp_torch *torch = walk->torch;
	struct fsdp_torch_location *location =
		tensor->storage != FSDP_NONE ? fsdp_torch_location(torch, tensor->storage)
					     : NULL;
	bool elsewhere = location != NULL && !fsdp_span_is(location->text, "cpu");
	*ret_extra = FSDP_NONE;
	if (tensor->rare == FSDP_NONE && !elsewhere)
		return;
	if (tensor->rare == FSDP_NONE && location->extra != FSDP_NONE) {
		*ret_extra = location->extra;
		return;
	}
	struct fsdp_extra *extra =
		fsdp_build_push(torch->model, &torch->model->extras, ret_extra);
	*extra = (struct fsdp_extra){ .quantizer = FSDP_NONE, .placement = FSDP_NONE };
	if (elsewhere) {
		extra->device = fsdp_build_text(torch->model, location->text);
	}
	if (tensor->rare == FSDP_NONE) {
		location->extra = *ret_extra;
		return;
	}
	const struct fsdp_torch_rare *rare = fsdp_vec_at(&torch->rares, tensor->rare);
	extra->class_name = rare->class_name;
	extra->layout = rare->layout;
	extra->dtype_raw = rare->dtype_raw;
	if (rare->device != NULL)
		extra->device = rare->device;
	extra->quantizer = rare->quantizer;
	extra->placement = rare->placement;
}

static uint32_t add_record(struct walk *walk, const struct fsdp_torch_tensor *tensor,
	uint32_t name, uint32_t raw_name, uint32_t path, uint16_t more_flags)
{
	struct fsdp_model *model = walk->torch->model;
	struct fsdp_tensor_record record = {
		.name = name,
		.raw_name = raw_name,
		.path = path,
		.shape = tensor->shape,
		.dims = tensor->dims,
		.dtype = tensor->dtype,
		.class_index = tensor->class_index,
		.flags = tensor->flags | more_flags,
		.role = walk->optim        ? FSDP_ROLE_OPTIM
			: walk->inner != 0 ? FSDP_ROLE_OTHER
					   : FSDP_ROLE_PARAM,
	};
	if (!walk->optim && walk->inner == 0 &&
		fsdp_model_class(tensor->class_index) != NULL &&
		strcmp(fsdp_model_class(tensor->class_index), "Parameter") != 0)
		record.flags |= FSDP_TENSOR_ROLE_INFERRED;
	if (fsdp_name_is_flat_parameter(fsdp_names_segment(&model->names, raw_name)))
		record.flags |= FSDP_TENSOR_FLATTENED;
	add_extra(walk, tensor, &record.extra);
	return fsdp_build_tensor(model, &record);
}

static void add_tensor(
	struct walk *walk, uint32_t index, uint32_t name, uint32_t raw_name);

/* Tensors that hold the bytes of a tensor of a library's class: NAME.qdata, NAME.scale.
 */
static void add_inner(struct walk *walk, uint32_t name, uint32_t raw_name,
	const struct fsdp_torch_rare *rare)
{
	struct fsdp_names *names = &walk->torch->model->names;
	if (walk->inner == INNER_DEPTH)
		return;
	walk->inner++;
	FSDP_EACH(
		i, rare->component_count, last, fsdp_span_text(rare->component_name[i])) {
		uint32_t child = fsdp_names_child(names, name, last);
		uint32_t raw_child = fsdp_names_child(names, raw_name, last);
		add_tensor(walk, rare->component[i], child, raw_child);
	}
	walk->inner--;
}

static void add_tensor(
	struct walk *walk, uint32_t index, uint32_t name, uint32_t raw_name)
{
	struct fsdp_torch *torch = walk->torch;
	const struct fsdp_torch_tensor *tensor = fsdp_torch_tensor(torch, index);
	if (tensor->broken != NULL) {
		report_broken(walk, name, tensor->broken);
		return;
	}
	uint64_t numel, bytes;
	if (!fsdp_numel(
		    fsdp_model_ints(torch->model, tensor->shape), tensor->dims, &numel) ||
		!fsdp_dtype_bytes(tensor->dtype, numel, &bytes)) {
		report_broken(walk, name, "its size overflows");
		return;
	}
	uint32_t path = fsdp_build_path(torch->model, &walk->path);
	uint32_t id = add_record(walk, tensor, name, raw_name, path, 0);
	add_pieces(walk, id, tensor, name);
	if (tensor->rare == FSDP_NONE)
		return;
	const struct fsdp_torch_rare *rare = fsdp_vec_at(&torch->rares, tensor->rare);
	if (rare->dtype_raw != NULL)
		fsdp_find(&torch->model->findings, FSDP_RULE_DTYPE_UNKNOWN,
			FSDP_PLACE(.file = torch->file, .member = torch->member,
				.tensor = name_text(walk, name)),
			"the dtype torch.%s is not known", rare->dtype_raw);
	if (rare->component_count != 0)
		add_components(walk, fsdp_model_tensor(torch->model, id)->extra, rare);
	if (rare->class_name != NULL && (tensor->flags & FSDP_TENSOR_NO_DATA) != 0)
		add_inner(walk, name, raw_name, rare);
}

/* Parts of a structured tensor: separate tensors, after all others. Components of
 * components do not occur and are not followed. */
static void add_components(
	struct walk *walk, uint32_t extra_id, const struct fsdp_torch_rare *rare)
{
	struct fsdp_model *model = walk->torch->model;
	FSDP_EACH(i, rare->component_count, part,
		fsdp_torch_tensor(walk->torch, rare->component[i])) {
		uint32_t name = fsdp_names_child(
			&model->names, 0, fsdp_span_text(rare->component_name[i]));
		if (part->broken != NULL) {
			report_broken(walk, name, part->broken);
			return;
		}
		uint64_t numel, bytes;
		if (!fsdp_numel(
			    fsdp_model_ints(model, part->shape), part->dims, &numel) ||
			!fsdp_dtype_bytes(part->dtype, numel, &bytes)) {
			report_broken(walk, name, "its size overflows");
			return;
		}
		uint32_t id = add_record(
			walk, part, name, name, FSDP_NONE, FSDP_TENSOR_COMPONENT);
		add_whole_piece(walk, id, part, name);
		struct fsdp_extra *extra = fsdp_model_extra(model, extra_id);
		if (extra->component_count++ == 0)
			extra->first_component = id;
	}
}

/* ---- values ---- */

static void report_hidden(struct walk *walk)
{
	struct fsdp_torch *torch = walk->torch;
	char room[FSDP_SHOWN], others[48] = "";
	if (walk->hidden == 0)
		return;
	struct fsdp_span name = name_text(walk, walk->first_hidden);
	if (walk->hidden > 1)
		snprintf(others, sizeof others,
			walk->hidden == 2 ? "; %llu other value too"
					  : "; %llu other values too",
			FSDP_LLU(walk->hidden - 1));
	fsdp_find(&torch->model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
		FSDP_PLACE(.file = torch->file, .member = torch->member, .tensor = name,
			.severity = FSDP_NOTE + 1,
			.fix = "save tensors in dicts under texts, or in lists"),
		"%s has tensors without a name that are not listed: in an object of an unknown class, in a set or in the key of a dict%s",
		fsdp_shown(name, room), others);
}

/* `hides`: it contains tensors without a name. */
static void add_value(
	struct walk *walk, fsdp_ref ref, uint32_t name, uint32_t raw_name, bool hides)
{
	struct fsdp_value_record value = {
		.name = name,
		.raw_name = raw_name,
		.file = FSDP_NONE,
		.rank = walk->torch->rank,
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
		.hides_tensors = hides,
		.role = walk->optim ? FSDP_ROLE_OPTIM : FSDP_ROLE_PARAM,
	};
	if (hides && walk->hidden++ == 0)
		walk->first_hidden = name;
	walk->values++;
	value.path = fsdp_build_path(walk->torch->model, &walk->path);
	fsdp_torch_tokens(walk->torch, ref, &value);
	fsdp_build_value(walk->torch->model, &value);
}

/* ---- the walk ---- */

static const char *const module_parts[] = { "_parameters", "_buffers", "_modules" };

/* The dict that a BUILD gave to an object, if it looks like an nn.Module's. */
static fsdp_ref module_state(struct fsdp_pickle *pickle, fsdp_ref ref)
{
	fsdp_ref state = fsdp_pickle_state(pickle, ref, 0);
	if (fsdp_pickle_kind(pickle, state) != FSDP_PICKLE_DICT)
		return FSDP_REF_NONE;
	for (size_t i = 0; i < 3; i++)
		if (fsdp_pickle_get(pickle, state, module_parts[i]) == FSDP_REF_NONE)
			return FSDP_REF_NONE;
	return state;
}

/*
 * A long tuple of nothing but numbers is one value: the state of Python's random
 * generator has 625 of them. Containers are looked at once, however often they are met.
 */
static bool is_long_tuple(struct walk *walk, fsdp_ref ref)
{
	struct fsdp_pickle *pickle = walk->torch->pickle;
	struct fsdp_pickle_iterator iterator = { .ref = ref };
	uint32_t identity = fsdp_pickle_identity(pickle, ref);
	fsdp_ref key, value;
	double number;
	int64_t integer;
	bool numbers = true;
	if (fsdp_pickle_kind(pickle, ref) != FSDP_PICKLE_TUPLE ||
		fsdp_pickle_count(pickle, ref) <= SHORT_TUPLE)
		return false;
	if (identity != 0 && (walk->visits[identity] & 8))
		return (walk->visits[identity] & 4) != 0;
	while (numbers && fsdp_pickle_next(pickle, &iterator, &key, &value))
		numbers = fsdp_pickle_integer(pickle, value, &integer) ||
			  fsdp_pickle_float(pickle, value, &number);
	if (identity != 0)
		walk->visits[identity] |= (unsigned char)(numbers ? 12 : 8);
	return numbers;
}

/* How to enter a value, or false: it is a leaf. */
static bool enter_kind(
	const struct fsdp_torch *torch, fsdp_ref ref, enum frame_kind *ret_kind)
{
	struct fsdp_pickle *pickle = torch->pickle;
	fsdp_ref callable = fsdp_pickle_callable(pickle, ref);
	struct fsdp_pickle_global *class = fsdp_pickle_global_of(pickle, callable);
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, ref);
	bool filled = fsdp_pickle_count(pickle, ref) != 0;
	*ret_kind = FRAME_PAIRS;
	if (kind == FSDP_PICKLE_DICT)
		return filled;
	if (kind == FSDP_PICKLE_TUPLE || kind == FSDP_PICKLE_LIST) {
		*ret_kind = FRAME_ITEMS;
		return filled;
	}
	if (kind != FSDP_PICKLE_CALL)
		return false;
	if (module_state(pickle, ref) != FSDP_REF_NONE) {
		*ret_kind = FRAME_MODULE;
		return true;
	}
	if (!filled || class == NULL || fsdp_pickle_is_mapping(pickle, callable))
		return filled && class != NULL;
	const struct fsdp_torch_known *known = fsdp_torch_known(torch, class);
	return known != NULL && (known->what & FSDP_KNOWN_PAIRS) != 0 &&
	       (known->what & FSDP_KNOWN_APPENDS) == 0;
}

/* Whether a container may be entered (again): never while it is open, and not so often
 * that a small file expands to a large one. */
static bool may_enter(struct walk *walk, uint32_t identity)
{
	if (identity == 0)
		return true;
	if (walk->visits[identity] & 1)
		return false;
	return !(walk->visits[identity] & 2) || walk->entered < walk->ceiling;
}

static void report_left_out(
	struct walk *walk, uint32_t name, enum fsdp_severity severity, const char *why)
{
	if (walk->said)
		return;
	walk->said = true;
	struct fsdp_torch *torch = walk->torch;
	fsdp_find(&torch->model->findings, FSDP_RULE_PICKLE_EXPANSION,
		FSDP_PLACE(.file = torch->file, .member = torch->member,
			.tensor = name_text(walk, name), .severity = (int)severity + 1,
			.fix = severity == FSDP_NOTE ? "" : NULL),
		"%s; its contents are not listed", why);
}

/* Whether the container was entered. */
static bool push_frame(
	struct walk *walk, fsdp_ref ref, enum frame_kind kind, uint32_t name)
{
	struct fsdp_pickle *pickle = walk->torch->pickle;
	uint32_t identity = fsdp_pickle_identity(pickle, ref);
	if (!may_enter(walk, identity)) {
		/* A list in itself is legal, and harmless where it is not followed. */
		bool open = walk->visits[identity] & 1;
		report_left_out(walk, name, open ? FSDP_NOTE : FSDP_ERROR,
			open ? "a container contains itself"
			     : "shared containers expand to too much");
		return false;
	}
	if (walk->path.count == FSDP_PATH_DEPTH) {
		report_left_out(
			walk, name, FSDP_ERROR, "containers are nested deeper than 512");
		return false;
	}
	fsdp_vec_append(&walk->stack, &(struct frame){
					      .iterator = { .ref = ref },
					      .object = ref,
					      .name = name,
					      .path_count = (uint32_t)walk->path.count,
					      .kind = (uint8_t)kind,
					      .skip = FSDP_REF_NONE,
					      .identity = identity,
					      .wrapped = walk->wrapped,
					      .optim = walk->optim,
				      });
	if (identity != 0)
		walk->visits[identity] |= 3;
	walk->entered += fsdp_pickle_count(pickle, ref) + 1;
	work(walk, ITEM_STEPS * (fsdp_pickle_count(pickle, ref) + 1));
	return true;
}

static void pop_frame(struct walk *walk)
{
	const struct frame *frame = fsdp_vec_at(&walk->stack, walk->stack.count - 1);
	if (frame->identity != 0)
		walk->visits[frame->identity] &= (unsigned char)~1;
	walk->path.count = frame->path_count;
	walk->stack.count--;
}

/* The text of a key that is not a string. */
static struct fsdp_span format_key(struct walk *walk, fsdp_ref key, bool *ret_integer)
{
	struct fsdp_pickle *pickle = walk->torch->pickle;
	char text[64];
	int64_t integer;
	bool boolean;
	double number;
	*ret_integer = false;
	int size;
	if (fsdp_pickle_boolean(pickle, key, &boolean))
		size = snprintf(text, sizeof text, "%s", boolean ? "True" : "False");
	else if (fsdp_pickle_integer(pickle, key, &integer)) {
		*ret_integer = true;
		size = snprintf(text, sizeof text, "%lld", (long long)integer);
	} else if (fsdp_pickle_float(pickle, key, &number))
		size = snprintf(text, sizeof text, "%.17g", number);
	else if (fsdp_pickle_kind(pickle, key) == FSDP_PICKLE_NULL)
		size = snprintf(text, sizeof text, "None");
	else {
		struct fsdp_span span = fsdp_pickle_span(pickle, key);
		if (span.data != NULL)
			return span;
		struct fsdp_span type = fsdp_torch_type_name(walk->torch, key);
		size = snprintf(text, sizeof text, "<%.*s>", FSDP_TEXT_MOST(type, 48));
	}
	return fsdp_arena_copy(walk->torch->model->arena, fsdp_span(text, (size_t)size));
}

static struct fsdp_span format_index(struct walk *walk, uint64_t index)
{
	char text[24];
	int size = snprintf(text, sizeof text, "%llu", FSDP_LLU(index));
	return fsdp_arena_copy(walk->torch->model->arena, fsdp_span(text, (size_t)size));
}

/* A class is remembered for the module whose pickled object this is. */
static void hint_class(struct walk *walk, fsdp_ref ref, uint32_t raw_name)
{
	struct fsdp_model *model = walk->torch->model;
	const struct fsdp_pickle_global *global =
		fsdp_pickle_named(walk->torch->pickle, ref);
	if (global == NULL)
		return;
	struct fsdp_class_hint *hint = fsdp_build_push(model, &model->class_hints, NULL);
	hint->raw_name = raw_name;
	hint->class_name = fsdp_build_text(model, fsdp_torch_class_name(global->name));
}

/* The attributes of a TorchScript object, whose class the archive's code defines. */
static fsdp_ref script_state(struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct fsdp_pickle_global *global =
		fsdp_pickle_kind(pickle, ref) == FSDP_PICKLE_CALL
			? fsdp_pickle_named(pickle, ref)
			: NULL;
	if (global == NULL || !fsdp_span_begins(global->module, FSDP_SPAN("__torch__")))
		return FSDP_REF_NONE;
	fsdp_ref state = fsdp_pickle_state(pickle, ref, 0);
	return fsdp_pickle_kind(pickle, state) == FSDP_PICKLE_DICT ? state
								   : FSDP_REF_NONE;
}

/* Whether a container is one value, with what is in it as text. */
static bool is_kept_whole(const struct walk *walk, fsdp_ref ref)
{
	const struct fsdp_torch *torch = walk->torch;
	if (walk->levels != 0)
		return walk->stack.count >= walk->levels;
	return torch->tensors.count == 0 && torch->storages.count == 0 &&
	       (walk->values >= VALUES_MOST ||
		       fsdp_pickle_count(torch->pickle, ref) > SHORT_CONTAINER);
}

/* One value under a name: enter it, or add it. */
static void meet(struct walk *walk, fsdp_ref ref, uint32_t name, uint32_t raw_name)
{
	struct fsdp_pickle *pickle = walk->torch->pickle;
	enum frame_kind kind;
	uint32_t tensor;
	/* Any number of objects may share one state. */
	if (fsdp_pickle_kind(pickle, ref) == FSDP_PICKLE_CALL)
		work(walk, fsdp_pickle_count(pickle, fsdp_pickle_state(pickle, ref, 0)) /
				   FIELDS_STEP);
	fsdp_ref attributes = script_state(pickle, ref);
	if (attributes != FSDP_REF_NONE) {
		hint_class(walk, ref, raw_name);
		push_frame(walk, attributes, FRAME_PAIRS, raw_name);
	} else if (!is_kept_whole(walk, ref) && !is_long_tuple(walk, ref) &&
		   enter_kind(walk->torch, ref, &kind)) {
		if (kind == FRAME_MODULE)
			hint_class(walk, ref, raw_name);
		push_frame(walk, ref, kind, raw_name);
	} else if (fsdp_torch_folded(walk->torch, ref, FSDP_TORCH_TENSOR, &tensor)) {
		add_tensor(walk, tensor, name, raw_name);
	} else {
		add_value(walk, ref, name, raw_name, fsdp_torch_hides(walk->torch, ref));
	}
}

static bool is_in_set(struct fsdp_pickle *pickle, fsdp_ref set, struct fsdp_span text)
{
	if (fsdp_pickle_kind(pickle, set) == FSDP_PICKLE_CALL)
		set = fsdp_pickle_item(pickle, fsdp_pickle_argument(pickle, set), 0);
	struct fsdp_pickle_iterator iterator = { .ref = set };
	fsdp_ref key, value;
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, set);
	if (kind != FSDP_PICKLE_SET && kind != FSDP_PICKLE_LIST)
		return false;
	/* Names of buffers that are not saved are few: a hostile set is truncated. */
	for (size_t i = 0; i < 64 && fsdp_pickle_next(pickle, &iterator, &key, &value);
		i++)
		if (fsdp_span_equal(fsdp_pickle_text(pickle, value), text))
			return true;
	return false;
}

/* A module's next part. Parameters and buffers that are None are not saved. */
static void step_module(struct walk *walk, struct frame *frame)
{
	struct fsdp_pickle *pickle = walk->torch->pickle;
	if (frame->part == 3) {
		pop_frame(walk);
		return;
	}
	uint8_t part = frame->part++;
	uint32_t name = frame->name;
	walk->wrapped = frame->wrapped;
	walk->optim = frame->optim;
	fsdp_ref state = fsdp_pickle_state(pickle, frame->object, 0);
	work(walk, fsdp_pickle_count(pickle, state) / FIELDS_STEP);
	fsdp_ref dict = fsdp_pickle_get(pickle, state, module_parts[part]);
	if (!push_frame(walk, dict, FRAME_PART, name))
		return;
	struct frame *inner = fsdp_vec_at(&walk->stack, walk->stack.count - 1);
	inner->part = part;
	if (part == 1)
		inner->skip =
			fsdp_pickle_get(pickle, state, "_non_persistent_buffers_set");
}

/* The dot that completes a wrapper's segment may be the one before the next key. */
static bool has_wrapper(struct fsdp_span text)
{
	struct fsdp_span mark = FSDP_SPAN("_wrapped_module");
	return fsdp_name_is_dirty(text) || fsdp_span_ends(text, mark);
}

/* A dict of few keys, whatever it is called. */
static bool is_optimizer(struct fsdp_pickle *pickle, fsdp_ref top)
{
	enum { KEYS_MOST = 32 };
	struct fsdp_pickle_iterator iterator = { .ref = top };
	fsdp_ref key, value;
	bool state = false, groups = false;
	if (fsdp_pickle_kind(pickle, top) != FSDP_PICKLE_DICT ||
		fsdp_pickle_count(pickle, top) > KEYS_MOST)
		return false;
	while (fsdp_pickle_next(pickle, &iterator, &key, &value)) {
		struct fsdp_span text = fsdp_pickle_text(pickle, key);
		enum fsdp_pickle_kind kind = fsdp_pickle_kind(pickle, value);
		state |= fsdp_span_is(text, "state") && kind == FSDP_PICKLE_DICT;
		groups |= fsdp_span_is(text, "param_groups") && kind == FSDP_PICKLE_LIST;
	}
	return state && groups;
}

static void step(struct walk *walk)
{
	struct fsdp_pickle *pickle = walk->torch->pickle;
	struct frame *frame = fsdp_vec_at(&walk->stack, walk->stack.count - 1);
	fsdp_ref key, value;
	if (frame->kind == FRAME_MODULE) {
		step_module(walk, frame);
		return;
	}
	if (!fsdp_pickle_next(pickle, &frame->iterator, &key, &value)) {
		pop_frame(walk);
		return;
	}
	struct fsdp_span text;
	bool integer = false, formatted = false;
	if (frame->kind == FRAME_ITEMS) {
		integer = true;
		text = format_index(walk, frame->index++);
	} else {
		text = fsdp_pickle_text(pickle, key);
		formatted = text.data == NULL;
		if (formatted)
			text = format_key(walk, key, &integer);
	}
	work(walk, text.size / KEY_STEP);
	if (frame->kind == FRAME_PART &&
		(fsdp_pickle_kind(pickle, value) == FSDP_PICKLE_NULL ||
			(frame->part == 1 && is_in_set(pickle, frame->skip, text))))
		return;
	walk->path.count = frame->path_count;
	walk->path.parts[walk->path.count].length = (uint32_t)text.size;
	walk->path.parts[walk->path.count].is_integer = integer;
	walk->path.count++;
	walk->optim =
		frame->optim || is_optimizer(pickle, value) ||
		(walk->path.count == 1 && fsdp_span_begins(text, FSDP_SPAN("optim")));
	uint32_t name, raw_name;
	bool wrapped = frame->wrapped;
	walk->wrapped = wrapped || has_wrapper(text);
	fsdp_build_names(
		walk->torch->model, frame->name, text, wrapped, &name, &raw_name);
	/* A key that is not a string is a value of its own if it is or has a tensor. */
	if (formatted && fsdp_torch_hides(walk->torch, key))
		add_value(walk, key, name, raw_name, true);
	meet(walk, value, name, raw_name);
}

/*
 * What torch.cuda.memory._snapshot() gives, or the list of segments in it: the levels
 * that identify it. Events share their stacks, so that names of all values would take
 * many times the bytes of the file. 0: it is something else.
 */
static size_t snapshot_levels(struct fsdp_pickle *pickle, fsdp_ref top)
{
	fsdp_ref segments = fsdp_pickle_get(pickle, top, "segments");
	fsdp_ref traces = fsdp_pickle_get(pickle, top, "device_traces");
	fsdp_ref first = fsdp_pickle_item(pickle, top, 0);
	if (fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_DICT)
		return fsdp_pickle_kind(pickle, segments) == FSDP_PICKLE_LIST &&
		       fsdp_pickle_kind(pickle, traces) == FSDP_PICKLE_LIST;
	return fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_LIST &&
			       fsdp_pickle_get(pickle, first, "segment_type") !=
				       FSDP_REF_NONE &&
			       fsdp_pickle_get(pickle, first, "blocks") != FSDP_REF_NONE
		       ? 2
		       : 0;
}

static void walk_top(void *context)
{
	struct fsdp_torch *torch = context;
	struct fsdp_model *model = torch->model;
	fsdp_ref top = fsdp_pickle_top(torch->pickle);
	struct walk *walk = FSDP_TAKE(torch->scratch, walk, 1);
	*walk = (struct walk){ .torch = torch };
	uint32_t bound = fsdp_pickle_identity_bound(torch->pickle);
	walk->ceiling = 16 * (uint64_t)bound + 4096;
	fsdp_vec_init(&walk->stack, torch->scratch, sizeof(struct frame));
	walk->visits = fsdp_arena_take(torch->scratch, (size_t)bound + 1, 1);
	model->extents_due = (uint64_t)torch->first_extent + torch->storages.count;
	if (top == FSDP_REF_NONE)
		return;
	walk->optim = is_optimizer(torch->pickle, top);
	walk->levels = snapshot_levels(torch->pickle, top);
	uint32_t name = 0;
	enum frame_kind kind;
	/* A value without a container has the empty name; containers are the root. */
	if (script_state(torch->pickle, top) == FSDP_REF_NONE &&
		(is_kept_whole(walk, top) || !enter_kind(torch, top, &kind))) {
		name = fsdp_names_child(&model->names, 0, FSDP_SPAN(""));
	}
	meet(walk, top, name, name);
	while (walk->stack.count != 0)
		step(walk);
	report_hidden(walk);
}

bool fsdp_torch_add(struct fsdp_torch *torch, struct fsdp_reading *reading,
	uint32_t file_id, fsdp_torch_read_storage read, void *context,
	struct fsdp_error **ret_error)
{
	bool resolved = fsdp_torch_resolve(torch, read, context, ret_error);
	fsdp_reading_keep_limit(reading, &torch->over_limit, torch->file);
	if (!resolved)
		return false;
	fsdp_reading_resolve_rank(reading, file_id, &torch->rank);
	fsdp_reading_resolve_world(
		reading, file_id, torch->world_size, torch->world_whole);
	return fsdp_model_try(torch->model, torch->scratch, walk_top, torch, ret_error);
}
