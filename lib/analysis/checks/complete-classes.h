/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ANALYSIS_COMPLETE_CLASSES_H
#define FSDP_ANALYSIS_COMPLETE_CLASSES_H

#include "analysis/checks/complete.h"

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

/* ---- complete-classes.c ---- */

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

/* ---- complete-members.c ---- */

/* The elements of the classes that are kin, and which of them lack the group. */
void fsdp_class_set(struct stack_part *part, const struct lack_group *group,
	struct fsdp_complete_set *ret);

/* Elements that have something of the group. */
uint32_t fsdp_class_count_having(
	const struct stack_part *part, const struct lack_group *group);

/* Raises the finding of every element of the class. */
void fsdp_class_tell(struct stack_part *part, const struct lack_group *group);

/* ---- complete-alike.c ---- */

/* Whether the group is the end of a list: its number is higher than all that the class has. */
bool fsdp_class_is_tail(const struct stack_part *part, const struct lack_group *group);

/* Checks a stack whose length the configuration does not give. */
void fsdp_class_judge_alike(struct stack_part *part);

/* ---- complete-few.c ---- */

/* A bias that lost its weight, in a stack of any kind. */
void fsdp_class_judge_bias(struct stack_part *part, const struct stack_class *class);

/* Two elements that only differ in what one lacks. */
void fsdp_class_judge_two(struct stack_part *part);

/* Elements without a majority: compared by the kinds of the configuration, and by the names that all others have. */
void fsdp_class_judge_few(struct stack_part *part);

#endif
