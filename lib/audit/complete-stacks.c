/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that an element of a stack lacks and its siblings have. Layers differ on
 * purpose, too: by kind, by a list of the configuration, by a rule. What sets of members
 * there are, and which of them are alike, is learned from the stack itself: elements with
 * the same members are a class, and a class is compared with the one that it should be
 * like.
 */
#include <stdlib.h>

#include "audit/complete.h"
#include "aggregate/aggregate.h"
#include "base/sort.h"

/* A stack of more kinds, or with more differences, is a design that is not known. */
enum { CLASSES_MOST = 64, GROUPS_MOST = 1024 };

/* A flat stack of fewer elements is not checked, and one that is not counted not at its
 * ends. */
enum { FLAT_LEAST = 6 };

/* An element, or the part of it in one child. */
struct stack_item {
	const struct name_record *records;
	uint32_t count, number;
	uint32_t class_index;
	uint64_t hash;
	uint64_t shapes; /* hash of all shapes, where they make classes */
};

/* Elements with the same members; in a stack that is not counted, of the same shapes. */
struct stack_class {
	const struct name_record *records; /* of one of them */
	uint32_t record_count;
	uint32_t count;     /* elements */
	uint32_t first;     /* the lowest of their numbers */
	uint32_t reference; /* class it should be like; FSDP_NONE: a kind of its own */
	uint32_t *nodes;    /* members and all above them, ascending */
	uint32_t node_count;
};

/* Elements that are compared with each other: those of a stack, or those that have one
 * child. */
struct stack_part {
	struct model *model;
	struct fsdp_hasher hasher;
	uint32_t *stamps, stamp; /* of each member, and the last one given */
	uint32_t *counts;        /* of each member, zeros */

	const struct stack *stack;
	struct stack_item *items; /* ascending by number */
	uint32_t item_count;
	bool is_whole;   /* items are elements, and not only a child of each */
	bool is_uniform; /* there are many, and all but one class are alike */
	struct stack_class classes[CLASSES_MOST];
	uint32_t class_count;
	uint32_t groups;            /* looked at */
	bool are_kin[CLASSES_MOST]; /* classes that a set is made of */
	uint32_t *kin;              /* room for a set: of all items, … */
	bool *is_in;                /* … and whether they are in it */
};

/* A member that an element of a class lacks. */
struct lack {
	uint32_t group; /* the topmost module that it has nothing of, … */
	uint32_t above; /* … and its parent */
	uint32_t leaf;  /* the module that owns the tensor */
	const struct name_record *like;
};

/* A run of what is lacking with one group. */
struct lack_group {
	const struct stack_class *class, *like;
	const struct lack *lacks;
	uint32_t count;
	uint32_t leaves; /* modules whose tensors are lacking in the same place */
	bool has_extra;  /* another name is at this place */
};

typedef bool (*hole_test)(struct stack_part *part, const struct lack_group *group);

static uint32_t above_of(const struct stack_part *part, uint32_t member)
{
	return fsdp_names_at(&part->model->members, member)->parent;
}

static struct fsdp_span member_segment(const struct stack_part *part, uint32_t member)
{
	return fsdp_names_segment(&part->model->members, member);
}

/* ---- classes ---- */

static int compare_record(const struct name_record *a, const struct name_record *b)
{
	if (a->child != b->child)
		return a->child < b->child ? -1 : 1;
	return a->member < b->member ? -1 : a->member > b->member;
}

static int compare_classes_of(const struct stack_item *a, const struct stack_item *b)
{
	int order = 0;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->shapes != b->shapes)
		return a->shapes < b->shapes ? -1 : 1;
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	for (uint32_t i = 0; i < a->count && order == 0; i++)
		order = compare_record(&a->records[i], &b->records[i]);
	return order;
}

static int compare_numbers(const void *left, const void *right)
{
	const struct stack_item *a = left, *b = right;
	return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_items(const void *left, const void *right)
{
	int order = compare_classes_of(left, right);
	return order != 0 ? order : compare_numbers(left, right);
}

static void hash_items(struct stack_part *part)
{
	const struct fsdp_hasher *hasher = &part->hasher;
	FSDP_EACH(i, part->item_count, item, &part->items[i]) {
		item->hash = item->shapes = hasher->seed;
		for (uint32_t k = 0; k < item->count; k++) {
			item->hash = fsdp_hash_more(
				hasher, item->hash, item->records[k].member);
			if (part->stack->is_counted)
				continue;
			struct fsdp_tensor tensor =
				tensor_at(part->model, item->records[k].tensor);
			item->shapes = fsdp_hash_more(hasher, item->shapes, tensor.dims);
			for (uint32_t dim = 0; dim < tensor.dims; dim++)
				item->shapes = fsdp_hash_more(hasher, item->shapes,
					(uint64_t)tensor.shape[dim]);
		}
	}
}

/* Classes in the order of their first elements; items in that of their numbers. False:
 * too many classes. */
static bool sort_classes(struct stack_part *part)
{
	struct stack_class *class = NULL;
	qsort(part->items, part->item_count, sizeof *part->items, compare_items);
	FSDP_EACH(i, part->item_count, item, &part->items[i]) {
		if (i == 0 || compare_classes_of(item - 1, item) != 0) {
			if (part->class_count == CLASSES_MOST)
				return false;
			class = &part->classes[part->class_count++];
			*class = (struct stack_class){
				.records = item->records,
				.record_count = item->count,
				.first = item->number,
				.reference = FSDP_NONE,
			};
		}
		class->count++;
		item->class_index = class->first;
	}
	FSDP_SORT(part->classes, part->class_count, FSDP_BY(part->classes, first));
	qsort(part->items, part->item_count, sizeof *part->items, compare_numbers);
	for (uint32_t i = 0; i < part->item_count; i++)
		for (uint32_t k = 0; k < part->class_count; k++)
			if (part->items[i].class_index == part->classes[k].first) {
				part->items[i].class_index = k;
				break;
			}
	return true;
}

/* Marks what is above these, and themselves; answers how many were not marked yet. */
static uint32_t stamp_above(struct stack_part *part, uint32_t member, uint32_t *nodes)
{
	uint32_t count = 0;
	for (; member != 0 && part->stamps[member] != part->stamp;
		member = above_of(part, member)) {
		part->stamps[member] = part->stamp;
		if (nodes != NULL)
			nodes[count] = member;
		count++;
	}
	return count;
}

static void find_nodes(struct stack_part *part, struct stack_class *class)
{
	uint32_t count = 0;
	part->stamp++;
	for (uint32_t i = 0; i < class->record_count; i++)
		count += stamp_above(part, class->records[i].member, NULL);
	class->nodes = MODEL_TAKE(part->model, class->nodes, count);
	if (class->nodes == NULL)
		return;
	part->stamp++;
	for (uint32_t i = 0; i < class->record_count; i++)
		class->node_count += stamp_above(
			part, class->records[i].member, class->nodes + class->node_count);
	FSDP_SORT(class->nodes, class->node_count, FSDP_BY_VALUE(class->nodes));
}

/* False: only one class, or too many. */
static bool find_classes(struct stack_part *part)
{
	struct model *model = part->model;
	uint32_t count = part->item_count;
	hash_items(part);
	if (count < 2 || !sort_classes(part) || part->class_count < 2)
		return false;
	part->kin = MODEL_TAKE(model, part->kin, count);
	part->is_in = MODEL_TAKE(model, part->is_in, count);
	for (uint32_t i = 0; i < part->class_count; i++)
		find_nodes(part, &part->classes[i]);
	return true;
}

/* Whether it has this member, or anything of this module. */
static bool has_node(const struct stack_class *class, uint32_t node)
{
	return fsdp_find_sorted(class->nodes, class->node_count, node) <
	       class->node_count;
}

/* Members that both have. */
static uint32_t count_common(const struct stack_class *a, const struct stack_class *b)
{
	uint32_t common = 0;
	for (uint32_t i = 0, k = 0; i < a->record_count && k < b->record_count;) {
		int order = compare_record(&a->records[i], &b->records[k]);
		common += order == 0;
		i += order <= 0;
		k += order >= 0;
	}
	return common;
}

/* The class that it should be like: the most similar of the larger ones, then the largest
 * of these. */
static void find_reference(struct stack_part *part, struct stack_class *class)
{
	uint64_t best_common = 0, best_all = 1;
	FSDP_EACH(i, part->class_count, other, &part->classes[i]) {
		uint64_t common, all;
		if (other->count <= class->count || other->count < 2)
			continue;
		common = count_common(class, other);
		all = (uint64_t) class->record_count + other->record_count - common;
		if (common * 2 < all && common < class->record_count)
			continue;
		if (class->reference != FSDP_NONE &&
			(common * best_all < best_common * all ||
				(common * best_all == best_common * all &&
					other->count <=
						part->classes[class->reference].count)))
			continue;
		class->reference = i;
		best_common = common;
		best_all = all;
	}
}

/* ---- what a class lacks of another one ---- */

static int compare_lacks(const void *left, const void *right)
{
	const struct lack *a = left, *b = right;
	if (a->above != b->above)
		return a->above < b->above ? -1 : 1;
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->leaf != b->leaf)
		return a->leaf < b->leaf ? -1 : 1;
	return compare_record(a->like, b->like);
}

/* Names of `like` that `class` lacks, by group; the additional names of `class` are
 * stamped. */
static struct lack *find_lacks(struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like, uint32_t *ret_count, uint32_t *ret_extra)
{
	struct lack *lacks = MODEL_TAKE(part->model, lacks, like->record_count);
	uint32_t i = 0, k = 0;
	*ret_count = *ret_extra = 0;
	if (lacks == NULL)
		return NULL;
	part->stamp++;
	while (i < class->record_count || k < like->record_count) {
		const struct name_record *ours = &class->records[i];
		const struct name_record *theirs = &like->records[k];
		int order = i == class->record_count  ? 1
			    : k == like->record_count ? -1
						      : compare_record(ours, theirs);
		if (order < 0) {
			stamp_above(part, ours->member, NULL);
			++*ret_extra;
		} else if (order > 0) {
			uint32_t group = theirs->member, above = above_of(part, group);
			while (above != 0 && !has_node(class, above)) {
				group = above;
				above = above_of(part, group);
			}
			lacks[(*ret_count)++] = (struct lack){ group, above,
				above_of(part, theirs->member), theirs };
		}
		i += order <= 0;
		k += order >= 0;
	}
	qsort(lacks, *ret_count, sizeof *lacks, compare_lacks);
	return lacks;
}

/* Classes that have something of the group, in elements. */
static uint32_t count_having(
	const struct stack_part *part, const struct lack_group *group)
{
	uint32_t have = 0;
	for (uint32_t i = 0; i < part->class_count; i++)
		if (has_node(&part->classes[i], group->lacks->group))
			have += part->classes[i].count;
	return have;
}

/* Of every element of the class. */
static void report_group(struct stack_part *part, const struct lack_group *group)
{
	struct model *model = part->model;
	uint32_t count = (uint32_t)fsdp_min(group->count, FSDP_AFFECTED_KEPT);
	const struct name_record **like = MODEL_TAKE(model, like, count);
	struct hole hole = {
		.stack = part->stack,
		.group = group->lacks->group,
		.like = like,
		.count = group->count,
		.have = count_having(part, group),
		.of = part->item_count,
	};
	for (uint32_t i = 0; i < count; i++)
		like[i] = group->lacks[i].like;
	for (uint32_t i = 0; i < part->item_count; i++) {
		hole.element = part->items[i].number;
		if (&part->classes[part->items[i].class_index] == group->class)
			fsdp_complete_report_gone(model, &hole);
	}
}

/* Reports each group of members that `class` lacks and `like` has, if it is a hole. */
static void check_lacks(struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like, hole_test is_hole)
{
	struct lack_group group = { .class = class, .like = like };
	uint32_t count, extra, above = FSDP_NONE;
	struct lack *lacks = find_lacks(part, class, like, &count, &extra);
	for (uint32_t at = 0; at < count && part->groups < GROUPS_MOST;
		at += group.count, part->groups++) {
		group.lacks = &lacks[at];
		if (group.lacks->above != above) {
			above = group.lacks->above;
			group.leaves = 0;
			for (uint32_t i = at; i < count && lacks[i].above == above; i++)
				group.leaves +=
					i == at || lacks[i].leaf != lacks[i - 1].leaf;
		}
		group.has_extra =
			above == 0 ? extra > 0 : part->stamps[above] == part->stamp;
		for (group.count = 0; at + group.count < count &&
				      lacks[at + group.count].group == lacks[at].group;)
			group.count++;
		if (is_hole(part, &group))
			report_group(part, &group);
	}
}

/* Elements of the classes of `are_kin`, and whether they lack the group. */
static struct layer_set make_set(struct stack_part *part, const struct lack_group *group)
{
	struct layer_set set = { part->stack, part->kin, part->is_in, 0, 0 };
	FSDP_EACH(i, part->item_count, index, part->items[i].class_index) {
		if (!part->are_kin[index])
			continue;
		part->kin[set.kin_count] = part->items[i].number;
		part->is_in[set.kin_count] =
			!has_node(&part->classes[index], group->lacks->group);
		set.count += part->is_in[set.kin_count++];
	}
	return set;
}

/* Whether the group is the end of a list: its number is higher than all that the class
 * has. */
static bool is_tail(const struct stack_part *part, const struct lack_group *group)
{
	uint32_t number, other, above = group->lacks->above;
	if (!fsdp_complete_is_number(member_segment(part, group->lacks->group), &number))
		return false;
	FSDP_EACH(i, group->class->node_count, node, group->class->nodes[i])
		if (above_of(part, node) == above &&
			fsdp_complete_is_number(member_segment(part, node), &other) &&
			other > number)
			return false;
	return true;
}

/* ---- counted stacks: what the reference has ---- */

static bool is_lost(struct stack_part *part, const struct lack_group *group)
{
	const struct stack *stack = part->stack;
	uint32_t number = group->class->first;
	uint64_t like = group->like->count;
	/* Another kind of layer, or the first one of a model that is known. */
	if ((group->has_extra &&
		    (group->leaves > 1 || like < 3 || like * 2 < part->item_count)) ||
		(number == 0 && group->class->count == 1 &&
			fsdp_complete_first_lacks(
				part->model, member_segment(part, group->lacks->group))))
		return false;
	/* Of lists that are longer in less than half of the layers each may end
	 * elsewhere. */
	if (is_tail(part, group) &&
		(uint64_t)count_having(part, group) * 2 < part->item_count)
		return false;
	struct layer_set set = make_set(part, group);
	/* A single element at either end often differs: there it takes more to say so. */
	if (set.count == 1 && like * 2 <= part->item_count &&
		(number == stack->elements[0].number || number == stack->length - 1))
		return false;
	return (uint64_t)set.count * 4 <= set.kin_count &&
	       !fsdp_complete_is_explained(part->model, &set);
}

static void check_class(struct stack_part *part, const struct stack_class *class)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		part->are_kin[i] = i == class->reference ||
				   part->classes[i].reference == class->reference;
	check_lacks(part, class, &part->classes[class->reference], is_lost);
}

/* ---- a bias that lost its weight ---- */

/* Whether the element stores the inputs of the weight instead: weight_norm and
 * spectral_norm keep them below parametrizations. */
static bool is_computed(
	struct stack_part *part, const struct stack_class *class, uint32_t above)
{
	uint32_t name = fsdp_names_find(
		&part->model->members, above, FSDP_SPAN("parametrizations.weight"));
	return name != FSDP_NONE && has_node(class, name);
}

/* A bias without its weight, where another element has both. */
static void check_bias(struct stack_part *part, const struct stack_class *class)
{
	for (uint32_t i = 0; i < class->record_count; i++)
		part->counts[above_of(part, class->records[i].member)]++;
	for (uint32_t i = 0; i < class->record_count; i++) {
		uint32_t bias = class->records[i].member, above = above_of(part, bias);
		struct lack_group group = { .class = class, .count = 1, .leaves = 1 };
		struct lack lack = { .group = FSDP_NONE };
		if (part->counts[above] == 1 &&
			fsdp_span_is(member_segment(part, bias), "bias") &&
			!is_computed(part, class, above))
			lack.group = fsdp_names_find_child(
				&part->model->members, above, FSDP_SPAN("weight"));
		for (uint32_t k = 0; lack.group != FSDP_NONE && k < part->class_count;
			k++) {
			group.like = &part->classes[k];
			if (!has_node(group.like, lack.group) ||
				!has_node(group.like, bias))
				continue;
			for (uint32_t n = 0; n < group.like->record_count; n++)
				if (group.like->records[n].member == lack.group)
					lack.like = &group.like->records[n];
			group.lacks = &lack;
			if (lack.like != NULL)
				report_group(part, &group);
			break;
		}
	}
	for (uint32_t i = 0; i < class->record_count; i++)
		part->counts[above_of(part, class->records[i].member)] = 0;
}

/* ---- counted stacks without a majority ---- */

static bool is_not_configured(struct stack_part *part, const struct lack_group *group)
{
	memset(part->are_kin, true, sizeof part->are_kin);
	struct layer_set set = make_set(part, group);
	return !fsdp_complete_is_configured(part->model, &set);
}

/* Two layers of one kind of the list `layer_types`: one has all of the other's. */
static bool are_of_one_kind(const struct stack_part *part, const uint32_t *kinds,
	const struct stack_class *class, uint32_t other)
{
	for (uint32_t i = 0; i < part->item_count; i++)
		if (part->items[i].class_index == other &&
			kinds[part->items[i].number] == kinds[class->first])
			return true;
	return false;
}

static void check_kinds(struct stack_part *part, const struct stack_class *class)
{
	const uint32_t *kinds =
		fsdp_complete_layer_kinds(part->model, part->stack->length);
	if (kinds == NULL || class->count != 1 || class->reference != FSDP_NONE)
		return;
	for (uint32_t i = 0; i < part->class_count; i++)
		if (&part->classes[i] != class &&
			count_common(class, &part->classes[i]) == class->record_count &&
			are_of_one_kind(part, kinds, class, i)) {
			check_lacks(part, class, &part->classes[i], is_not_configured);
			break;
		}
}

/* That every other element has all of it, and that nothing else is in its place. */
static bool all_others_have(struct stack_part *part, const struct lack_group *group)
{
	for (uint32_t i = 0; i < group->count; i++)
		if (part->counts[group->lacks[i].like->member] + 1 != part->item_count)
			return false;
	return !group->has_extra && is_not_configured(part, group);
}

/* An element inside that lacks what every other one has. */
static void check_inner(struct stack_part *part, const struct stack_class *class)
{
	const struct stack *stack = part->stack;
	const struct stack_class *like = NULL;
	if (class->count != 1 || part->item_count < 3 ||
		class->first == stack->elements[0].number ||
		class->first == stack->length - 1)
		return;
	for (uint32_t i = 0; i < part->class_count; i++)
		if (&part->classes[i] != class &&
			(like == NULL || part->classes[i].count > like->count))
			like = &part->classes[i];
	if (like != NULL)
		check_lacks(part, class, like, all_others_have);
}

static void count_members(struct stack_part *part, bool forget)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		FSDP_EACH(k, part->classes[i].record_count, count,
			&part->counts[part->classes[i].records[k].member])
			*count = forget ? 0 : *count + part->classes[i].count;
}

/* Of two layers: what one lacks inside of a child that it has. */
static bool is_inside(struct stack_part *part, const struct lack_group *group)
{
	return above_of(part, group->lacks->group) != 0 &&
	       !fsdp_span_begins(
		       member_segment(part, group->lacks->group), FSDP_SPAN("relative_"));
}

static void check_two(struct stack_part *part)
{
	const struct stack_class *a = &part->classes[0], *b = &part->classes[1];
	uint32_t common = count_common(a, b);
	if (part->stack->tower != TOWER_MAIN)
		return;
	if (common == a->record_count)
		check_lacks(part, a, b, is_inside);
	else if (common == b->record_count)
		check_lacks(part, b, a, is_inside);
}

/* ---- stacks whose length no configuration gives ---- */

/*
 * Stages, blocks and the items of an nn.Sequential differ by design in names and widths,
 * so a majority decides nothing. An element is compared only with elements that are equal
 * to each other in all names and shapes, and that differ from it only by the defect. What
 * is known of an element that is like others:
 */
enum {
	LACKS = 1 << 0,    /* members that the others have */
	CHANGED = 1 << 1,  /* shapes */
	ONE = 1 << 2,      /* one tensor is all the difference */
	LEAF = 1 << 3,     /* in one module, or in all of the element */
	PIECE = 1 << 4,    /* one rank's piece explains each shape */
	END = 1 << 5,      /* it is the first or the last */
	INWARD = 1 << 6,   /* there, other tensors of it have the width that is changed */
	INNER = 1 << 7,    /* the stack is inside another one */
	PART = 1 << 8,     /* only one child of each element is compared */
	FLAT = 1 << 9,     /* elements have no children */
	FEW = 1 << 10,     /* the stack is short */
	SOME = 1 << 11,    /* the others are not all others, … */
	MINOR = 1 << 12,   /* … or less than half of the stack */
	MANY = 1 << 13,    /* more than a third are so */
	SEVERAL = 1 << 14, /* it is not the only one */
	EXPLAINED = 1 << 15,
	NEIGHBOR_DIFFERS =
		1 << 16, /* the element that reads or makes the width differs too */
};

/* When it is a hole, or a piece: at an end, what makes or reads a width is not in the
 * stack, and a last block often has less. */
static const struct {
	unsigned needs, forbids;
} defects[] = {
	{ LACKS, CHANGED | END | MINOR | MANY | EXPLAINED },
	{ LACKS | ONE | END, CHANGED | INNER | PART | FEW | SOME | SEVERAL },
	{ CHANGED | PIECE | LEAF,
		LACKS | PART | FLAT | END | MINOR | MANY | EXPLAINED | NEIGHBOR_DIFFERS },
	{ CHANGED | PIECE | ONE | INWARD,
		LACKS | INNER | PART | FLAT | FEW | SOME | SEVERAL },
};

/* An element against another one that has all its names. */
struct stack_likeness {
	const struct stack_class *class, *like;
	const struct name_record *ours, *theirs; /* the first changed one */
	uint32_t missing, changed;
	bool in_leaf, are_pieces;
	uint32_t ranks, dim; /* of the pieces */
};

static void add_changed(const struct stack_part *part, struct stack_likeness *likeness,
	const struct name_record *ours, const struct name_record *theirs)
{
	struct fsdp_tensor tensor = tensor_at(part->model, ours->tensor);
	struct fsdp_tensor due = tensor_at(part->model, theirs->tensor);
	uint32_t dim = 0, ranks = 0;
	if (fsdp_is_same_shape(&tensor, &due))
		return;
	if (tensor.dtype == due.dtype) {
		ranks = fsdp_complete_ranks_of(&tensor, &due, &dim);
		if (ranks <= 1)
			ranks = tensor.dims == 1
					? fsdp_complete_ranks_of(&due, &tensor, &dim)
					: 0;
	}
	if (likeness->changed++ == 0) {
		likeness->ours = ours;
		likeness->theirs = theirs;
		likeness->ranks = ranks;
		likeness->dim = dim;
	}
	likeness->are_pieces &=
		ranks > 1 && ranks == likeness->ranks && dim == likeness->dim;
	likeness->in_leaf &=
		above_of(part, ours->member) == above_of(part, likeness->ours->member);
}

/* False: a name is missing from the other one. */
static bool compare_with(const struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like, struct stack_likeness *ret)
{
	uint32_t i = 0;
	*ret = (struct stack_likeness){
		.class = class, .like = like, .in_leaf = true, .are_pieces = true
	};
	if (class->record_count > like->record_count)
		return false;
	for (uint32_t k = 0; k < like->record_count; k++) {
		bool is_same = i < class->record_count &&
			       class->records[i].member == like->records[k].member;
		if (is_same)
			add_changed(part, ret, &class->records[i], &like->records[k]);
		ret->missing += !is_same;
		i += is_same;
	}
	return i == class->record_count;
}

/* The class that it differs least from; false: none. */
static bool find_like(const struct stack_part *part, const struct stack_class *class,
	struct stack_likeness *ret)
{
	struct stack_likeness other;
	bool found = false;
	FSDP_EACH(i, part->class_count, like, &part->classes[i]) {
		if (like->count < 2 || like->count <= class->count ||
			!compare_with(part, class, like, &other))
			continue;
		if (!found || other.missing + other.changed < ret->missing + ret->changed)
			*ret = other;
		found = true;
	}
	return found;
}

/* Whether the width that is changed is one that other tensors inside of the element have:
 * of the first one what it makes, of the last one what it reads. */
static bool is_inward(const struct stack_part *part,
	const struct stack_likeness *likeness, bool is_first)
{
	struct fsdp_tensor due = tensor_at(part->model, likeness->theirs->tensor);
	return due.dims == 1 || (due.dims == 2 && (likeness->dim == 0) == is_first);
}

static unsigned facts_at(
	const struct stack_part *part, const struct stack_likeness *likeness)
{
	unsigned facts = 0;
	for (uint32_t i = 0; i < part->item_count; i++) {
		bool is_first = i == 0, is_end = is_first || i + 1 == part->item_count;
		uint32_t beside = likeness->dim == 0 ? i + 1 : i - 1;
		if (&part->classes[part->items[i].class_index] != likeness->class)
			continue;
		if (is_end)
			facts |= END;
		if (is_end && likeness->changed > 0 &&
			is_inward(part, likeness, is_first))
			facts |= INWARD;
		if (!is_end && part->classes[part->items[beside].class_index].count < 2)
			facts |= NEIGHBOR_DIFFERS;
	}
	return facts;
}

static unsigned facts_of(struct stack_part *part, const struct stack_likeness *likeness)
{
	const struct stack_class *class = likeness->class;
	struct layer_set set = { part->stack, part->kin, part->is_in, 0, 0 };
	unsigned facts = facts_at(part, likeness);
	uint32_t all = class->count + likeness->like->count;
	FSDP_EACH(i, part->item_count, of, &part->classes[part->items[i].class_index]) {
		if (of != class && of != likeness->like)
			continue;
		part->kin[set.kin_count] = part->items[i].number;
		part->is_in[set.kin_count++] = of == class;
	}
	set.count = class->count;
	facts |= likeness->missing > 0 ? LACKS : 0;
	facts |= likeness->changed > 0 ? CHANGED : 0;
	facts |= likeness->missing + likeness->changed == 1 ? ONE : 0;
	facts |= likeness->in_leaf || likeness->changed == class->record_count ? LEAF : 0;
	facts |= likeness->are_pieces ? PIECE : 0;
	facts |= part->stack->is_inner ? INNER : 0;
	facts |= !part->is_whole ? PART : 0;
	facts |= !part->stack->is_deep ? FLAT : 0;
	facts |= part->item_count < FLAT_LEAST ? FEW : 0;
	facts |= all < part->item_count ? SOME : 0;
	facts |= (uint64_t)likeness->like->count * 2 < part->item_count ? MINOR : 0;
	facts |= (uint64_t) class->count * 3 > all ? MANY : 0;
	facts |= class->count > 1 ? SEVERAL : 0;
	facts |= fsdp_complete_is_explained(part->model, &set) ? EXPLAINED : 0;
	return facts;
}

/* A block of fewer layers is another kind of block, unless there are many blocks and all
 * others have it; lists of experts are equally long. */
static bool is_hole(struct stack_part *part, const struct lack_group *group)
{
	return !is_tail(part, group) || part->is_uniform ||
	       fsdp_span_is(member_segment(part, group->lacks->above), "experts");
}

static bool is_hole_inside(struct stack_part *part, const struct lack_group *group)
{
	return group->lacks->above != 0 && is_hole(part, group);
}

static void check_alike(struct stack_part *part, const struct stack_likeness *likeness)
{
	const struct stack_class *class = likeness->class, *like = likeness->like;
	unsigned facts = facts_of(part, likeness);
	part->is_uniform = (facts & (SOME | FEW)) == 0;
	for (size_t i = 0; i < FSDP_COUNT(defects); i++) {
		if ((facts & defects[i].needs) != defects[i].needs ||
			(facts & defects[i].forbids) != 0)
			continue;
		if ((facts & LACKS) != 0)
			check_lacks(part, class, like,
				(facts & END) != 0 ? is_hole_inside : is_hole);
		for (uint32_t k = 0; (facts & LACKS) == 0 && k < class->record_count;
			k++) {
			struct fsdp_tensor due =
				tensor_at(part->model, like->records[k].tensor);

			fsdp_complete_check_shape(
				part->model, class->records[k].tensor, &due);
		}
		return;
	}
}

/* ---- all stacks ---- */

static void check_classes(struct stack_part *part)
{
	const struct stack *stack = part->stack;
	bool is_short_list = !stack->is_deep && part->item_count < FLAT_LEAST;
	struct stack_likeness likeness = { 0 };
	for (uint32_t i = 0; part->is_whole && i < part->class_count; i++)
		check_bias(part, &part->classes[i]);
	if (is_short_list)
		return;
	if (!stack->is_counted) {
		for (uint32_t i = 0; i < part->class_count; i++)
			if (find_like(part, &part->classes[i], &likeness))
				check_alike(part, &likeness);
		return;
	}
	if (part->is_whole && part->item_count == 2)
		check_two(part);
	for (uint32_t i = 0; i < part->class_count; i++)
		find_reference(part, &part->classes[i]);
	for (uint32_t i = 0; i < part->class_count; i++)
		if (part->classes[i].reference != FSDP_NONE)
			check_class(part, &part->classes[i]);
	if (part->is_whole && stack->is_deep) {
		/* Elements are compared by the kinds of the configuration, and by the
		 * names that all others have. */
		for (uint32_t i = 0; i < part->class_count; i++)
			check_kinds(part, &part->classes[i]);
		count_members(part, false);
		for (uint32_t i = 0; i < part->class_count; i++)
			check_inner(part, &part->classes[i]);
		count_members(part, true);
	}
}

static void check_items(
	struct stack_part *part, struct stack_item *items, uint32_t count, bool is_whole)
{
	part->items = items;
	part->item_count = count;
	part->is_whole = is_whole;
	part->is_uniform = false;
	part->class_count = part->groups = 0;
	if (find_classes(part))
		check_classes(part);
	fsdp_arena_reset(&part->model->work);
}

static int compare_children(const void *left, const void *right)
{
	const struct stack_item *a = left, *b = right;
	if (a->records->child != b->records->child)
		return a->records->child < b->records->child ? -1 : 1;
	return compare_numbers(a, b);
}

/* Once more, of each child the elements that have it. */
static void check_children(struct stack_part *part, struct stack_item *items)
{
	const struct stack *stack = part->stack;
	uint32_t count = 0, end;
	FSDP_EACH(i, stack->record_count, record, &stack->records[i]) {
		if (record->child == record->member)
			continue;
		/* A leaf that also has children was skipped. */
		if (i == 0 || record[-1].element != record->element ||
			record[-1].child != record->child ||
			record[-1].child == record[-1].member)
			items[count++] = (struct stack_item){ .records = record,
				.number = record->element };
		items[count - 1].count++;
	}
	qsort(items, count, sizeof *items, compare_children);
	for (uint32_t at = 0; at < count; at = end) {
		uint32_t child = items[at].records->child;
		for (end = at; end < count && items[end].records->child == child; end++)
			;
		check_items(part, items + at, end - at, false);
	}
}

void fsdp_complete_check_members(struct model *model)
{
	size_t members = model->members.list.count;
	struct stack_part *part = MODEL_KEEP(model, part, 0);
	struct stack_item *items;
	uint32_t most = 0;
	for (size_t i = 0; i < model->stack_count; i++)
		if (model->stacks[i].record_count > most)
			most = model->stacks[i].record_count;
	items = MODEL_KEEP(model, items, most);
	part->model = model;
	part->hasher = fsdp_hasher_new();
	part->stamps = MODEL_KEEP(model, part->stamps, members);
	part->counts = MODEL_KEEP(model, part->counts, members);
	for (size_t i = 0; i < model->stack_count; i++) {
		const struct stack *stack = part->stack = &model->stacks[i];
		for (uint32_t k = 0; k < stack->element_count; k++)
			items[k] = (struct stack_item){
				.records = stack->elements[k].records,
				.count = stack->elements[k].count,
				.number = stack->elements[k].number,
			};
		check_items(part, items, stack->element_count, true);
		if (stack->is_deep)
			check_children(part, items);
	}
}
