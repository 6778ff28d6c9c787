/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements with the same members, and what one class of them lacks of another.
 */
#include <stdlib.h>

#include "analysis/checks/complete.h"
#include "analysis/shapes.h"

/* A stack of more kinds, or with more differences, is a design that is not known. */
enum { FSDP_CLASSES_MOST = 64, FSDP_GROUPS_MOST = 1024 };

/* A flat stack of fewer elements is not judged, and one that is not counted not at its
 * ends. */
enum { FSDP_FLAT_LEAST = 6 };

/* An element, or the part of it in one child. */
struct stack_item {
	const struct fsdp_complete_record *records;
	uint32_t count, number;
	uint32_t class_index;
	uint64_t hash;
	uint64_t shapes; /* hash of all shapes, where they make classes */
};

/* Elements with the same members; in a stack that is not counted, of the same shapes. */
struct stack_class {
	const struct fsdp_complete_record *records; /* of one of them */
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
	struct fsdp_complete *complete;
	const struct fsdp_complete_stack *stack;
	struct stack_item *items; /* ascending by number */
	uint32_t item_count;
	bool is_whole;   /* items are elements, and not only a child of each */
	bool is_uniform; /* there are many, and all but one class are alike */
	struct stack_class classes[FSDP_CLASSES_MOST];
	uint32_t class_count;
	uint32_t groups;                 /* looked at */
	bool are_kin[FSDP_CLASSES_MOST]; /* classes that a set is made of */
	uint32_t *kin;                   /* room for a set: of all items, … */
	bool *is_in;                     /* … and whether they are in it */
};

/* A member that an element of a class lacks. */
struct lack {
	uint32_t group; /* the topmost module that it has nothing of, … */
	uint32_t above; /* … and its parent */
	uint32_t leaf;  /* the module that owns the tensor */
	const struct fsdp_complete_record *like;
};

/* A run of what is lacking with one group. */
struct lack_group {
	const struct stack_class *class, *like;
	const struct lack *lacks;
	uint32_t count;
	uint32_t leaves; /* modules whose tensors are lacking in the same place */
	bool has_extra;  /* another name is at this place */
};

static inline uint32_t fsdp_class_above(const struct stack_part *part, uint32_t member)
{
	return fsdp_names_at(&part->complete->members, member)->parent;
}

static inline struct fsdp_span fsdp_class_segment(
	const struct stack_part *part, uint32_t member)
{
	return fsdp_names_segment(&part->complete->members, member);
}

/* Sorts the elements into classes. False: only one class, too many, or out of memory. */
bool fsdp_classes_find(struct stack_part *part);

/* Whether a class has this member, or anything of this module. */
bool fsdp_class_has(const struct stack_class *class, uint32_t node);

/* Members that both have. */
uint32_t fsdp_class_common(const struct stack_class *a, const struct stack_class *b);

/* Finds the class that it should be like: the most similar of the larger ones, then the
 * largest of these. */
void fsdp_class_refer(struct stack_part *part, struct stack_class *class);

/* Reports each group of members that `class` lacks and `like` has, if `is_meant` agrees. */
void fsdp_class_judge(struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like,
	bool (*is_meant)(struct stack_part *, const struct lack_group *));

/* The elements of the classes that are kin, and which of them lack the group. */
void fsdp_class_set(struct stack_part *part, const struct lack_group *group,
	struct fsdp_complete_set *ret);

/* Elements that have something of the group. */
uint32_t fsdp_class_count_having(
	const struct stack_part *part, const struct lack_group *group);

/* Raises the finding of every element of the class. */
void fsdp_class_tell(struct stack_part *part, const struct lack_group *group);

/* Whether the group is the end of a list: its number is higher than all that the class has. */
bool fsdp_class_is_tail(const struct stack_part *part, const struct lack_group *group);

/* Checks a stack whose length the configuration does not give. */
void fsdp_class_judge_alike(struct stack_part *part);

/* A bias that lost its weight, in a stack of any kind. */
void fsdp_class_judge_bias(struct stack_part *part, const struct stack_class *class);

/* Two elements that only differ in what one lacks. */
void fsdp_class_judge_two(struct stack_part *part);

/* Elements without a majority: compared by the kinds of the configuration, and by the names that all others have. */
void fsdp_class_judge_few(struct stack_part *part);

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

/*
 * Checks stacks whose length no configuration gives. Stages, blocks and the items of an nn.Sequential differ by design
 * in names and widths, so a majority decides nothing. An element is compared only with elements that are equal to each
 * other in all names and shapes, and that differ from it only by the defect.
 */

/* What is known of an element that is like others. */
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
	ODD_BESIDE = 1 << 16, /* the element that reads or makes the width differs too */
};

/* When it is a hole, or a piece: at an end, what makes or reads a width is not in the
 * stack, and a last block often has less. */
static const struct {
	unsigned needs, forbids;
} rows[] = {
	{ LACKS, CHANGED | END | MINOR | MANY | EXPLAINED },
	{ LACKS | ONE | END, CHANGED | INNER | PART | FEW | SOME | SEVERAL },
	{ CHANGED | PIECE | LEAF,
		LACKS | PART | FLAT | END | MINOR | MANY | EXPLAINED | ODD_BESIDE },
	{ CHANGED | PIECE | ONE | INWARD,
		LACKS | INNER | PART | FLAT | FEW | SOME | SEVERAL },
};

/* An element against another one that has all its names. */
struct stack_likeness {
	const struct stack_class *class, *like;
	const struct fsdp_complete_record *ours, *theirs; /* the first changed one */
	uint32_t missing, changed;
	bool in_leaf, are_pieces;
	uint32_t ranks, dim; /* of the pieces */
};

static struct fsdp_tensor tensor_of(
	const struct stack_part *part, const struct fsdp_complete_record *record)
{
	return fsdp_tensor(part->complete->checkpoint, record->tensor);
}

/* How the shape is derived from the expected one; 0: no such relation. */
static uint32_t piece_of(const struct fsdp_tensor *tensor, const struct fsdp_tensor *due,
	uint32_t *ret_dim)
{
	uint32_t ranks = fsdp_complete_ranks_of(tensor, due, ret_dim);

	if (ranks > 1 || tensor->dims != 1)
		return ranks > 1 ? ranks : 0;
	return fsdp_complete_ranks_of(due, tensor, ret_dim);
}

static void add_changed(const struct stack_part *part, struct stack_likeness *likeness,
	const struct fsdp_complete_record *ours,
	const struct fsdp_complete_record *theirs)
{
	struct fsdp_tensor tensor = tensor_of(part, ours), due = tensor_of(part, theirs);
	uint32_t dim = 0, ranks;

	if (fsdp_is_same_shape(&tensor, &due))
		return;
	ranks = tensor.dtype == due.dtype ? piece_of(&tensor, &due, &dim) : 0;
	if (likeness->changed++ == 0) {
		likeness->ours = ours;
		likeness->theirs = theirs;
		likeness->ranks = ranks;
		likeness->dim = dim;
	}
	likeness->are_pieces &=
		ranks > 1 && ranks == likeness->ranks && dim == likeness->dim;
	likeness->in_leaf &= fsdp_class_above(part, ours->member) ==
			     fsdp_class_above(part, likeness->ours->member);
}

/* False: a name is missing from the other one. */
static bool compare(const struct stack_part *part, const struct stack_class *class,
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

	for (uint32_t i = 0; i < part->class_count; i++) {
		const struct stack_class *like = &part->classes[i];

		if (like->count < 2 || like->count <= class->count ||
			!compare(part, class, like, &other))
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
	struct fsdp_tensor due = tensor_of(part, likeness->theirs);

	return due.dims == 1 || (due.dims == 2 && (likeness->dim == 0) == is_first);
}

static unsigned facts_at(
	const struct stack_part *part, const struct stack_likeness *likeness)
{
	unsigned facts = 0;

	for (uint32_t i = 0; i < part->item_count; i++) {
		bool is_first = i == 0, is_end = is_first || i + 1 == part->item_count;

		if (&part->classes[part->items[i].class_index] != likeness->class)
			continue;
		if (is_end)
			facts |= END;
		if (is_end && likeness->changed > 0 &&
			is_inward(part, likeness, is_first))
			facts |= INWARD;
		if (!is_end &&
			part->classes[part->items[likeness->dim == 0 ? i + 1 : i - 1]
					      .class_index]
					.count < 2)
			facts |= ODD_BESIDE;
	}
	return facts;
}

static unsigned facts_of(struct stack_part *part, const struct stack_likeness *likeness)
{
	const struct stack_class *class = likeness->class;
	struct fsdp_complete_set set = { part->stack, part->kin, part->is_in, 0, 0 };
	unsigned facts = facts_at(part, likeness);
	uint32_t all = class->count + likeness->like->count;

	for (uint32_t i = 0; i < part->item_count; i++) {
		const struct stack_class *of = &part->classes[part->items[i].class_index];

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
	facts |= part->item_count < FSDP_FLAT_LEAST ? FEW : 0;
	facts |= all < part->item_count ? SOME : 0;
	facts |= (uint64_t)likeness->like->count * 2 < part->item_count ? MINOR : 0;
	facts |= (uint64_t) class->count * 3 > all ? MANY : 0;
	facts |= class->count > 1 ? SEVERAL : 0;
	facts |= fsdp_complete_is_explained(part->complete, &set) ? EXPLAINED : 0;
	return facts;
}

bool fsdp_class_is_tail(const struct stack_part *part, const struct lack_group *group)
{
	uint32_t number, other, above = group->lacks->above;

	if (!fsdp_complete_is_number(
		    fsdp_class_segment(part, group->lacks->group), &number))
		return false;
	for (uint32_t i = 0; i < group->class->node_count; i++) {
		uint32_t node = group->class->nodes[i];

		if (fsdp_class_above(part, node) == above &&
			fsdp_complete_is_number(fsdp_class_segment(part, node), &other) &&
			other > number)
			return false;
	}
	return true;
}

/* A block of fewer layers is another kind of block, unless there are many blocks and all
 * others have it; lists of experts are equally long. */
static bool is_hole(struct stack_part *part, const struct lack_group *group)
{
	return !fsdp_class_is_tail(part, group) || part->is_uniform ||
	       fsdp_span_is(fsdp_class_segment(part, group->lacks->above), "experts");
}

static bool is_hole_inside(struct stack_part *part, const struct lack_group *group)
{
	return group->lacks->above != 0 && is_hole(part, group);
}

static void tell_pieces(struct stack_part *part, const struct stack_likeness *likeness)
{
	const struct stack_class *class = likeness->class;

	for (uint32_t i = 0; i < class->record_count; i++) {
		struct fsdp_tensor due = tensor_of(part, &likeness->like->records[i]);

		fsdp_complete_judge_shape(part->complete, class->records[i].tensor, &due);
	}
}

static void judge(struct stack_part *part, const struct stack_likeness *likeness)
{
	unsigned facts = facts_of(part, likeness);

	part->is_uniform = (facts & (SOME | FEW)) == 0;
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		if ((facts & rows[i].needs) != rows[i].needs ||
			(facts & rows[i].forbids) != 0)
			continue;
		if ((facts & LACKS) != 0)
			fsdp_class_judge(part, likeness->class, likeness->like,
				(facts & END) != 0 ? is_hole_inside : is_hole);
		else
			tell_pieces(part, likeness);
		return;
	}
}

void fsdp_class_judge_alike(struct stack_part *part)
{
	struct stack_likeness likeness = { 0 };

	if (!part->stack->is_deep && part->item_count < FSDP_FLAT_LEAST)
		return;
	for (uint32_t i = 0; i < part->class_count && !part->complete->failed; i++)
		if (find_like(part, &part->classes[i], &likeness))
			judge(part, &likeness);
}

/*
 * What is known where no majority shows how elements should be.
 */

/* A single tensor that another class has. */
static void lose_tensor(struct stack_part *part, const struct stack_class *class,
	const struct stack_class *like, uint32_t member)
{
	struct lack_group group = {
		.class = class, .like = like, .count = 1, .leaves = 1
	};
	struct lack lack = { .group = member };

	for (uint32_t i = 0; i < like->record_count; i++)
		if (like->records[i].member == member)
			lack.like = &like->records[i];
	group.lacks = &lack;
	if (lack.like != NULL)
		fsdp_class_tell(part, &group);
}

/* Whether the element stores the inputs of the weight instead: weight_norm and spectral_norm keep them below
 * parametrizations. */
static bool is_computed(
	struct stack_part *part, const struct stack_class *class, uint32_t above)
{
	const struct fsdp_names *members = &part->complete->members;
	uint32_t name =
		fsdp_names_find_child(members, above, FSDP_SPAN("parametrizations"));

	name = name != FSDP_NONE
		       ? fsdp_names_find_child(members, name, FSDP_SPAN("weight"))
		       : FSDP_NONE;
	for (uint32_t i = 0; name != FSDP_NONE && i < class->record_count; i++)
		for (uint32_t at = class->records[i].member; at != 0 && at != FSDP_NONE;
			at = fsdp_names_at(members, at)->parent)
			if (at == name)
				return true;
	return false;
}

/* A bias that lost its weight, where another element has both. */
void fsdp_class_judge_bias(struct stack_part *part, const struct stack_class *class)
{
	struct fsdp_complete *complete = part->complete;

	for (uint32_t i = 0; i < class->record_count; i++)
		complete->counts[fsdp_class_above(part, class->records[i].member)]++;
	for (uint32_t i = 0; i < class->record_count && !complete->failed; i++) {
		uint32_t bias = class->records[i].member,
			 above = fsdp_class_above(part, bias);
		uint32_t weight;

		if (complete->counts[above] != 1 ||
			!fsdp_span_is(fsdp_class_segment(part, bias), "bias") ||
			is_computed(part, class, above))
			continue;
		weight = fsdp_names_find_child(
			&complete->members, above, FSDP_SPAN("weight"));
		for (uint32_t k = 0; weight != FSDP_NONE && k < part->class_count; k++)
			if (fsdp_class_has(&part->classes[k], weight) &&
				fsdp_class_has(&part->classes[k], bias)) {
				lose_tensor(part, class, &part->classes[k], weight);
				break;
			}
	}
	for (uint32_t i = 0; i < class->record_count; i++)
		complete->counts[fsdp_class_above(part, class->records[i].member)] = 0;
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

/* That the configuration does not say so. */
static bool is_not_configured(struct stack_part *part, const struct lack_group *group)
{
	struct fsdp_complete_set set;
	memset(part->are_kin, true, sizeof part->are_kin);
	fsdp_class_set(part, group, &set);
	return !fsdp_complete_is_configured(part->complete, &set);
}

static void judge_kinds(struct stack_part *part, const struct stack_class *class)
{
	const uint32_t *kinds =
		fsdp_complete_layer_kinds(part->complete, part->stack->length);

	if (kinds == NULL || class->count != 1 || class->reference != FSDP_NONE)
		return;
	for (uint32_t i = 0; i < part->class_count; i++)
		if (&part->classes[i] != class &&
			fsdp_class_common(class, &part->classes[i]) ==
				class->record_count &&
			are_of_one_kind(part, kinds, class, i)) {
			fsdp_class_judge(
				part, class, &part->classes[i], is_not_configured);
			break;
		}
}

/* That every other element has all of it, and that nothing else is in its place. */
static bool all_others_have(struct stack_part *part, const struct lack_group *group)
{
	for (uint32_t i = 0; i < group->count; i++)
		if (part->complete->counts[group->lacks[i].like->member] + 1 !=
			part->item_count)
			return false;
	return !group->has_extra && is_not_configured(part, group);
}

/* An element inside that lacks what every other one has. */
static void judge_inner(struct stack_part *part, const struct stack_class *class)
{
	const struct fsdp_complete_stack *stack = part->stack;
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
		fsdp_class_judge(part, class, like, all_others_have);
}

/* Of two layers: what one lacks inside of a child that it has. */
static bool is_inside(struct stack_part *part, const struct lack_group *group)
{
	return fsdp_class_above(part, group->lacks->group) != 0 &&
	       !fsdp_span_begins(fsdp_class_segment(part, group->lacks->group),
		       FSDP_SPAN("relative_"));
}

void fsdp_class_judge_two(struct stack_part *part)
{
	const struct stack_class *a = &part->classes[0], *b = &part->classes[1];
	uint32_t common = fsdp_class_common(a, b);

	if (part->stack->tower != FSDP_COMPLETE_MAIN)
		return;
	if (common == a->record_count)
		fsdp_class_judge(part, a, b, is_inside);
	else if (common == b->record_count)
		fsdp_class_judge(part, b, a, is_inside);
}

static void count_members(const struct stack_part *part, bool forget)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		for (uint32_t k = 0; k < part->classes[i].record_count; k++) {
			uint32_t *count =
				&part->complete
					 ->counts[part->classes[i].records[k].member];

			*count = forget ? 0 : *count + part->classes[i].count;
		}
}

void fsdp_class_judge_few(struct stack_part *part)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		judge_kinds(part, &part->classes[i]);
	count_members(part, false);
	for (uint32_t i = 0; i < part->class_count; i++)
		judge_inner(part, &part->classes[i]);
	count_members(part, true);
}

/*
 * Members that an element lacks and its siblings have. Layers differ on purpose, too: by
 * kind, by a list of the configuration, by a rule. What sets of members there are, and
 * which of them are alike, is learned from the stack itself.
 */

static bool is_other_kind(const struct stack_part *part, const struct lack_group *group)
{
	return group->has_extra &&
	       (group->leaves > 1 || group->like->count < 3 ||
		       (uint64_t)group->like->count * 2 < part->item_count);
}

/* A single element at either end often differs: there it takes more to say so. */
static bool may_differ(const struct stack_part *part, const struct lack_group *group,
	const struct fsdp_complete_set *set)
{
	const struct fsdp_complete_stack *stack = part->stack;
	uint32_t number = group->class->first;

	return set->count == 1 &&
	       (number == stack->elements[0].number || number == stack->length - 1) &&
	       (uint64_t)group->like->count * 2 <= part->item_count;
}

static bool is_hole_members(struct stack_part *part, const struct lack_group *group)
{
	struct fsdp_complete_set set;

	if (is_other_kind(part, group) ||
		(group->class->first == 0 && group->class->count == 1 &&
			fsdp_complete_first_lacks(part->complete,
				fsdp_class_segment(part, group->lacks->group))))
		return false;
	/* Of lists that are longer in less than half of the layers each may end elsewhere. */
	if (fsdp_class_is_tail(part, group) &&
		(uint64_t)fsdp_class_count_having(part, group) * 2 < part->item_count)
		return false;
	fsdp_class_set(part, group, &set);
	return (uint64_t)set.count * 4 <= set.kin_count &&
	       !may_differ(part, group, &set) &&
	       !fsdp_complete_is_explained(part->complete, &set);
}

static void judge_class(struct stack_part *part, const struct stack_class *class)
{
	for (uint32_t i = 0; i < part->class_count; i++)
		part->are_kin[i] = i == class->reference ||
				   part->classes[i].reference == class->reference;
	fsdp_class_judge(part, class, &part->classes[class->reference], is_hole_members);
}

static void judge_classes(struct stack_part *part)
{
	const struct fsdp_complete_stack *stack = part->stack;
	bool is_whole = part->is_whole;

	for (uint32_t i = 0; is_whole && i < part->class_count; i++)
		fsdp_class_judge_bias(part, &part->classes[i]);
	if (!stack->is_counted)
		fsdp_class_judge_alike(part);
	if (!stack->is_counted || (!stack->is_deep && part->item_count < FSDP_FLAT_LEAST))
		return;
	if (is_whole && part->item_count == 2)
		fsdp_class_judge_two(part);
	for (uint32_t i = 0; i < part->class_count; i++)
		fsdp_class_refer(part, &part->classes[i]);
	for (uint32_t i = 0; i < part->class_count && !part->complete->failed; i++)
		if (part->classes[i].reference != FSDP_NONE)
			judge_class(part, &part->classes[i]);
	if (is_whole && stack->is_deep)
		fsdp_class_judge_few(part);
}

static void judge_part(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, struct stack_item *items, uint32_t count,
	bool is_whole)
{
	struct stack_part part = {
		.complete = complete,
		.stack = stack,
		.items = items,
		.item_count = count,
		.is_whole = is_whole,
	};

	if (fsdp_classes_find(&part))
		judge_classes(&part);
	fsdp_complete_step_done(complete);
}

static void judge_whole(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	struct stack_item *items =
		FSDP_TAKE(&complete->items, items, stack->element_count);

	if (items == NULL) {
		complete->failed = true;
		return;
	}
	for (uint32_t i = 0; i < stack->element_count; i++)
		items[i] = (struct stack_item){
			.records = stack->elements[i].records,
			.count = stack->elements[i].count,
			.number = stack->elements[i].number,
		};
	judge_part(complete, stack, items, stack->element_count, true);
	fsdp_arena_reset(&complete->items);
}

static int compare_children(const void *left, const void *right)
{
	const struct stack_item *a = left, *b = right;

	if (a->records->child != b->records->child)
		return a->records->child < b->records->child ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

static uint32_t find_children(
	const struct fsdp_complete_stack *stack, struct stack_item *items)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < stack->record_count; i++) {
		const struct fsdp_complete_record *record = &stack->records[i];

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
	return count;
}

/* Once more, of each child the elements that have it. */
static void judge_children(
	struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	struct stack_item *items =
		FSDP_TAKE(&complete->items, items, stack->record_count);
	uint32_t count, end;

	if (items == NULL) {
		complete->failed = true;
		return;
	}
	count = find_children(stack, items);
	qsort(items, count, sizeof *items, compare_children);
	for (uint32_t at = 0; at < count && !complete->failed; at = end) {
		uint32_t child = items[at].records->child;

		for (end = at; end < count && items[end].records->child == child; end++)
			;
		judge_part(complete, stack, items + at, end - at, false);
	}
	fsdp_arena_reset(&complete->items);
}

void fsdp_complete_judge_members(struct fsdp_complete *complete)
{
	size_t members = complete->members.list.count;

	complete->hasher = fsdp_hasher_new();
	fsdp_arena_init(&complete->items, complete->arena->budget);
	complete->stamps = FSDP_TAKE(complete->arena, complete->stamps, members);
	complete->counts = FSDP_TAKE(complete->arena, complete->counts, members);
	complete->failed |= complete->stamps == NULL || complete->counts == NULL;
	for (size_t i = 0; i < complete->stack_count && !complete->failed; i++) {
		judge_whole(complete, &complete->stacks[i]);
		if (complete->stacks[i].is_deep && !complete->failed)
			judge_children(complete, &complete->stacks[i]);
	}
	fsdp_arena_done(&complete->items);
}
