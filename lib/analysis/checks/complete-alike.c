/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks stacks whose length no configuration gives. Stages, blocks and the items of an nn.Sequential differ by design
 * in names and widths, so a majority decides nothing. An element is compared only with elements that are equal to each
 * other in all names and shapes, and that differ from it only by the defect.
 */
#include "analysis/checks/complete-classes.h"
#include "analysis/shapes.h"

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
