/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements with the same members, and what one class of them lacks of another.
 */
#include <stdlib.h>

#include "analysis/checks/complete-classes.h"

/* ---- classes ---- */

static int compare_record(
	const struct fsdp_complete_record *a, const struct fsdp_complete_record *b)
{
	if (a->child != b->child)
		return a->child < b->child ? -1 : 1;
	return a->member < b->member ? -1 : a->member > b->member;
}

static int compare_items(const void *left, const void *right)
{
	const struct stack_item *a = left, *b = right;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->shapes != b->shapes)
		return a->shapes < b->shapes ? -1 : 1;
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	for (uint32_t i = 0; i < a->count; i++) {
		int order = compare_record(&a->records[i], &b->records[i]);

		if (order != 0)
			return order;
	}
	return a->number < b->number ? -1 : a->number > b->number;
}

static bool have_same_members(const struct stack_item *a, const struct stack_item *b)
{
	struct stack_item other = *b;

	other.number = a->number;
	return compare_items(a, &other) == 0;
}

static int compare_item_numbers(const void *left, const void *right)
{
	const struct stack_item *a = left, *b = right;

	return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_classes(const void *left, const void *right)
{
	const struct stack_class *a = left, *b = right;

	return a->first < b->first ? -1 : a->first > b->first;
}

static uint64_t hash_shapes(const struct stack_part *part, const struct stack_item *item)
{
	struct fsdp_hasher hasher = part->complete->hasher;
	uint64_t hash = hasher.seed;

	for (uint32_t i = 0; i < item->count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(part->complete->checkpoint, item->records[i].tensor);

		hash = fsdp_hash_more(&hasher, hash, tensor.dims);
		for (uint32_t k = 0; k < tensor.dims; k++)
			hash = fsdp_hash_more(&hasher, hash, (uint64_t)tensor.shape[k]);
	}
	return hash;
}

static void hash_items(struct stack_part *part)
{
	struct fsdp_hasher hasher = part->complete->hasher;

	for (uint32_t i = 0; i < part->item_count; i++) {
		struct stack_item *item = &part->items[i];

		item->hash = hasher.seed;
		for (uint32_t k = 0; k < item->count; k++)
			item->hash = fsdp_hash_more(
				&hasher, item->hash, item->records[k].member);
		if (!part->stack->is_counted)
			item->shapes = hash_shapes(part, item);
	}
}

/* Sets class_index to the first number of the class. False: too many classes. */
static bool find_classes(struct stack_part *part)
{
	struct stack_class *class = NULL;

	qsort(part->items, part->item_count, sizeof *part->items, compare_items);
	for (uint32_t i = 0; i < part->item_count; i++) {
		struct stack_item *item = &part->items[i];

		if (i == 0 || !have_same_members(item - 1, item)) {
			if (part->class_count == FSDP_CLASSES_MOST)
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
	return true;
}

/* Classes in the order of their first elements; items in that of their numbers. */
static void order_classes(struct stack_part *part)
{
	qsort(part->classes, part->class_count, sizeof *part->classes, compare_classes);
	qsort(part->items, part->item_count, sizeof *part->items, compare_item_numbers);
	for (uint32_t i = 0; i < part->item_count; i++)
		for (uint32_t k = 0; k < part->class_count; k++)
			if (part->items[i].class_index == part->classes[k].first) {
				part->items[i].class_index = k;
				break;
			}
}

static int compare_ids(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* Marks what is above these, and themselves; answers how many were not marked yet. */
static uint32_t stamp_above(struct stack_part *part, uint32_t member, uint32_t *nodes)
{
	struct fsdp_complete *complete = part->complete;
	uint32_t count = 0;

	for (; member != 0 && complete->stamps[member] != complete->stamp;
		member = fsdp_class_above(part, member)) {
		complete->stamps[member] = complete->stamp;
		if (nodes != NULL)
			nodes[count] = member;
		count++;
	}
	return count;
}

static void find_nodes(struct stack_part *part, struct stack_class *class)
{
	struct fsdp_complete *complete = part->complete;
	uint32_t count = 0;

	complete->stamp++;
	for (uint32_t i = 0; i < class->record_count; i++)
		count += stamp_above(part, class->records[i].member, NULL);
	class->nodes = FSDP_COMPLETE_TAKE(complete, class->nodes, count);
	if (class->nodes == NULL) {
		complete->failed = true;
		return;
	}
	complete->stamp++;
	for (uint32_t i = 0; i < class->record_count; i++)
		class->node_count += stamp_above(
			part, class->records[i].member, class->nodes + class->node_count);
	qsort(class->nodes, class->node_count, sizeof *class->nodes, compare_ids);
}

bool fsdp_classes_find(struct stack_part *part)
{
	struct fsdp_complete *complete = part->complete;
	uint32_t count = part->item_count;

	hash_items(part);
	if (count < 2 || !find_classes(part) || part->class_count < 2)
		return false;
	order_classes(part);
	part->kin = FSDP_COMPLETE_TAKE(complete, part->kin, count);
	part->is_in = FSDP_COMPLETE_TAKE(complete, part->is_in, count);
	complete->failed |= part->kin == NULL || part->is_in == NULL;
	for (uint32_t i = 0; i < part->class_count && !complete->failed; i++)
		find_nodes(part, &part->classes[i]);
	return !complete->failed;
}

/* Whether it has this member, or anything of this module. */
bool fsdp_class_has(const struct stack_class *class, uint32_t node)
{
	return fsdp_find_sorted(class->nodes, class->node_count, node) <
	       class->node_count;
}

uint32_t fsdp_class_common(const struct stack_class *a, const struct stack_class *b)
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

/* The most similar of the larger classes, then the largest of these. */
void fsdp_class_refer(struct stack_part *part, struct stack_class *class)
{
	uint64_t best_common = 0, best_all = 1;

	for (uint32_t i = 0; i < part->class_count; i++) {
		const struct stack_class *other = &part->classes[i];
		uint64_t common, all;

		if (other->count <= class->count || other->count < 2)
			continue;
		common = fsdp_class_common(class, other);
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

static uint32_t group_of(
	const struct stack_part *part, const struct stack_class *class, uint32_t member)
{
	uint32_t parent = fsdp_class_above(part, member);

	while (parent != 0 && !fsdp_class_has(class, parent)) {
		member = parent;
		parent = fsdp_class_above(part, member);
	}
	return member;
}

static void add_lack(const struct stack_part *part, const struct stack_class *class,
	const struct fsdp_complete_record *like, struct lack *lack)
{
	lack->group = group_of(part, class, like->member);
	lack->above = fsdp_class_above(part, lack->group);
	lack->leaf = fsdp_class_above(part, like->member);
	lack->like = like;
}

/* Names of `like` that `class` lacks, by group; the additional names of `class` are stamped. */
static struct lack *find_lacks(struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like, uint32_t *ret_count, uint32_t *ret_extra)
{
	struct fsdp_complete *complete = part->complete;
	struct lack *lacks = FSDP_COMPLETE_TAKE(complete, lacks, like->record_count);
	uint32_t i = 0, k = 0;

	*ret_count = *ret_extra = 0;
	if (lacks == NULL) {
		complete->failed = true;
		return NULL;
	}
	complete->stamp++;
	while (i < class->record_count || k < like->record_count) {
		const struct fsdp_complete_record *ours = &class->records[i];
		const struct fsdp_complete_record *theirs = &like->records[k];
		int order = i == class->record_count  ? 1
			    : k == like->record_count ? -1
						      : compare_record(ours, theirs);

		if (order < 0) {
			stamp_above(part, ours->member, NULL);
			++*ret_extra;
		} else if (order > 0) {
			add_lack(part, class, theirs, &lacks[(*ret_count)++]);
		}
		i += order <= 0;
		k += order >= 0;
	}
	qsort(lacks, *ret_count, sizeof *lacks, compare_lacks);
	return lacks;
}

/* Modules that own what is lacking in the same place as the first one. */
static uint32_t count_leaves(const struct lack *lacks, uint32_t count)
{
	uint32_t leaves = 0;

	for (uint32_t i = 0; i < count && lacks[i].above == lacks->above; i++)
		leaves += i == 0 || lacks[i].leaf != lacks[i - 1].leaf;
	return leaves;
}

static uint32_t take_group(const struct stack_part *part, const struct lack *lacks,
	uint32_t count, uint32_t extra, struct lack_group *group)
{
	if (group->lacks == NULL || group->lacks->above != lacks->above)
		group->leaves = count_leaves(lacks, count);
	group->lacks = lacks;
	group->has_extra = lacks->above == 0 ? extra > 0
					     : part->complete->stamps[lacks->above] ==
						       part->complete->stamp;
	group->count = 0;
	while (group->count < count && lacks[group->count].group == lacks->group)
		group->count++;
	return group->count;
}

void fsdp_class_judge(struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like,
	bool (*is_meant)(struct stack_part *, const struct lack_group *))
{
	struct lack_group group = { .class = class, .like = like };
	uint32_t count, extra;
	struct lack *lacks = find_lacks(part, class, like, &count, &extra);

	for (uint32_t at = 0;
		at < count && part->groups < FSDP_GROUPS_MOST && !part->complete->failed;
		part->groups++) {
		at += take_group(part, lacks + at, count - at, extra, &group);
		if (is_meant(part, &group))
			fsdp_class_tell(part, &group);
	}
}

static void tell(struct stack_part *part, const struct lack_group *group, uint32_t number,
	uint32_t have)
{
	struct fsdp_complete *complete = part->complete;
	uint32_t count = (uint32_t)fsdp_min(group->count, FSDP_AFFECTED_KEPT);
	const struct fsdp_complete_record **like =
		FSDP_COMPLETE_TAKE(complete, like, count);
	struct fsdp_complete_hole hole = {
		.stack = part->stack,
		.element = number,
		.group = group->lacks->group,
		.like = like,
		.count = group->count,
		.have = have,
		.of = part->item_count,
	};

	if (like == NULL) {
		complete->failed = true;
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		like[i] = group->lacks[i].like;
	fsdp_complete_tell_gone(complete, &hole);
}

uint32_t fsdp_class_count_having(
	const struct stack_part *part, const struct lack_group *group)
{
	uint32_t have = 0;

	for (uint32_t i = 0; i < part->class_count; i++)
		if (fsdp_class_has(&part->classes[i], group->lacks->group))
			have += part->classes[i].count;
	return have;
}

/* Of every element of the class. */
void fsdp_class_tell(struct stack_part *part, const struct lack_group *group)
{
	uint32_t index = (uint32_t)(group->class - part->classes);
	uint32_t have = fsdp_class_count_having(part, group);

	for (uint32_t i = 0; i < part->item_count && !part->complete->failed; i++)
		if (part->items[i].class_index == index)
			tell(part, group, part->items[i].number, have);
}

/* Elements of the classes of `kin`, and whether they lack the group. */
void fsdp_class_set(struct stack_part *part, const struct lack_group *group,
	struct fsdp_complete_set *ret)
{
	*ret = (struct fsdp_complete_set){ part->stack, part->kin, part->is_in, 0, 0 };
	for (uint32_t i = 0; i < part->item_count; i++) {
		uint32_t index = part->items[i].class_index;

		if (!part->are_kin[index])
			continue;
		part->kin[ret->kin_count] = part->items[i].number;
		part->is_in[ret->kin_count] =
			!fsdp_class_has(&part->classes[index], group->lacks->group);
		ret->count += part->is_in[ret->kin_count++];
	}
}
