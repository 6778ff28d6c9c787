/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the module of a name, adds up what each rank holds of the modules right below it,
 * and shows that as a map.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/show/show.h"
#include "part/modules.h"
#include "part/tensor-row.h"
#include "session/session.h"

/* Visits inside a module follow it, each deeper than it is. */
static uint32_t end_of(const struct fsdp_checkpoint *checkpoint, uint32_t module)
{
	uint32_t depth = fsdp_module(checkpoint, module).depth, end = module + 1;

	while (end < fsdp_module_count(checkpoint) &&
		fsdp_module(checkpoint, end).depth > depth)
		end++;
	return end;
}

static bool is_called(
	struct show *show, const struct fsdp_module *module, const char *word)
{
	struct text name = name_text(&show->buffers.module, show->run->checkpoint,
		show->run->common->raw ? module->raw_name : module->name);
	struct fsdp_span prefix = selection_prefix(show->selection);
	struct text typed = text_of(word);

	if (typed.size == name.size + prefix.size && prefix.size > 0 &&
		memcmp(typed.data, prefix.data, prefix.size) == 0)
		typed = text_of(word + prefix.size);
	return typed.size == name.size && name.size > 0 &&
	       memcmp(typed.data, name.data, name.size) == 0;
}

bool show_find_module(struct show *show, const char *word, uint32_t *ret_module)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	size_t count = fsdp_module_count(checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_module module = fsdp_module(checkpoint, i);
		if (!wrapper_is_folded(show->run, i) && is_called(show, &module, word)) {
			*ret_module = i;
			return true;
		}
	}
	return false;
}

/* Own tensors of the module and of all that is in it. NULL: out of memory. */
static uint32_t *list_tensors_of(
	const struct fsdp_checkpoint *checkpoint, uint32_t first, size_t *ret_count)
{
	uint32_t end = end_of(checkpoint, first), *tensors;
	size_t count = 0;

	for (uint32_t i = first; i < end; i++)
		count += fsdp_module(checkpoint, i).tensor_count;
	tensors = malloc((count + 1) * sizeof *tensors);
	*ret_count = 0;
	for (uint32_t i = first; i < end && tensors != NULL; i++) {
		struct fsdp_module module = fsdp_module(checkpoint, i);
		/* A second visit has the tensors of the first. */
		for (uint32_t k = 0;
			k < module.tensor_count && module.same_as == FSDP_NONE; k++)
			tensors[(*ret_count)++] =
				fsdp_module_tensor(checkpoint, &module, k);
	}
	return tensors;
}

static bool takes_piece(void *context, const struct fsdp_piece *piece)
{
	const struct show *show = context;

	return selection_takes_piece(show->selection, show->run->checkpoint, piece);
}

bool show_add_up_module(
	struct show *show, struct item *item, struct fsdp_error **ret_error)
{
	static const enum fsdp_sums_by by[2] = { FSDP_BY_MODULE, FSDP_BY_RANK };
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	uint32_t *tensors;
	bool good;

	item->module = fsdp_module(checkpoint, item->index);
	tensors = list_tensors_of(checkpoint, item->index, &item->tensor_count);
	if (tensors == NULL)
		return false;
	good = fsdp_crossed_new(checkpoint, by, (int64_t)item->module.shown_depth + 1,
		tensors, item->tensor_count, takes_piece, show, &item->groups, ret_error);
	free(tensors);
	if (good)
		item->group_count = fsdp_crossed_count(item->groups);
	return good;
}

struct module_group {
	struct fsdp_group group;
	uint32_t rank;
};

_Static_assert(sizeof(struct module_group) <= RECORD_ROOM, "room for one");

static const void *find_group(struct subject of, size_t i, void *room)
{
	const struct item *item = of.object;
	struct module_group *made = room;

	made->group = fsdp_crossed_group(item->groups, i, &made->rank);
	return made;
}

static struct value find_module_name(struct subject of, uint32_t module)
{
	const struct run *run = run_of(of);

	return group_key(run->checkpoint, FSDP_BY_MODULE, module, &buffers_of(of)->module,
		run->common->raw);
}

static struct value find_unit_name(struct subject of, uint32_t unit)
{
	const struct run *run = run_of(of);

	return group_key(run->checkpoint, FSDP_BY_UNIT, unit, &buffers_of(of)->unit,
		run->common->raw);
}

static struct value get_class(struct subject of)
{
	return value_word(module_shown_class(
		run_of(of), &((const struct item *)of.object)->module));
}

#define GROUP struct module_group
static const struct record module_group_record = OBJECT_RECORD(GROUP, "module_group",
	"What a rank holds of a module.",
	{ "module", FOUND_AT(GROUP, group.key, FIELD_NAME, find_module_name),
		ABOUT("A module right below, with all that is in it, or the module itself.") },
	{ "rank", ID_AT(GROUP, rank), ABOUT("The rank; absent if unknown.") },
	{ "pieces", COUNT_AT(GROUP, group.pieces), .always = true,
		ABOUT(GROUP_PIECES_ABOUT) },
	{ "bytes", COUNT_AT(GROUP, group.bytes), .always = true,
		ABOUT(GROUP_BYTES_ABOUT) });

#define ITEM struct item
const struct record module_item_record = OBJECT_RECORD(ITEM, "module_item", "A module.",
	{ "kind", WORD_AT(ITEM, kind), .always = true, WORDS("module"),
		ABOUT("What the name stands for.") },
	{ "name", FOUND_AT(ITEM, index, FIELD_NAME, find_module_name), .always = true,
		ABOUT("Its clean name.") },
	{ "class", GET(FIELD_WORD, get_class), ABOUT("Python class of the module.") },
	{ "unit", FOUND_AT(ITEM, module.unit, FIELD_NAME, find_unit_name),
		ABOUT("Name of the unit, where the module is one.") },
	{ "parameters", COUNT_AT(ITEM, module.parameters), .always = true,
		ABOUT("Elements of the parameters in it, tied ones once.") },
	{ "bytes", COUNT_AT(ITEM, module.bytes), .always = true,
		ABOUT("Bytes of these parameters.") },
	{ "tensors", COUNT_AT(ITEM, tensor_count), .always = true,
		ABOUT("Number of tensors in it.") },
	{ "groups", EACH_OF(ITEM, group_count, find_group, module_group_record),
		.always = true, ABOUT("What each rank holds, module by module.") });

static struct value module_name(struct show *show, uint32_t key)
{
	struct value name = group_key(show->run->checkpoint, FSDP_BY_MODULE, key,
		&show->buffers.module, show->run->common->raw);

	return name.type == VALUE_NAME ? name : value_word("(other)");
}

void tell_module_item(struct show *show, const struct item *item)
{
	const char *class_name = module_shown_class(show->run, &item->module);
	struct out *out = show->run->out;

	out_line_begin(out, NULL);
	out_line_name(out, module_name(show, item->index).text);
	out_line_end(out);
	out_line_begin(out, "is");
	out_line_text(out, "module");
	if (class_name != NULL) {
		out_line_text(out, item->module.class_inferred ? " [~" : " [");
		out_line_name(out, text_of(class_name));
		out_line_text(out, "]");
	}
	if (item->module.unit != FSDP_NONE)
		out_line_text(out, item->module.unit_inferred
					   ? ", FULLY SHARDED (inferred)"
					   : ", FULLY SHARDED");
	out_line_text(out, ", ");
	out_line_value(out, value_elements(item->module.parameters));
	out_line_text(out, " parameters, ");
	out_line_value(out, value_bytes(item->module.bytes));
	out_line_text(out, " in %zu tensor%s", item->tensor_count,
		item->tensor_count == 1 ? "" : "s");
	out_line_end(out);
}
