/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LS_H
#define LS_H

#include <fsdp/analysis.h>

#include "part/tensor-row.h"

/*
 * Lists tensors, their pieces, sums over them, or values for `ls`. Each is a table of the rows in a struct listing;
 * ls-table.c has the common parts.
 */
struct ls_options {
	bool pieces;
	struct texts by; /* one word, or two */
	bool fold;
	bool values, objects; /* two names of one thing */
};

/* Of --by, in the order of enum fsdp_sums_by; NULL ends. */
extern const char *const BY_WORDS[];

/* What one run of this command has at hand. */
struct listing {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct ls_options *options;
	struct selection *selection;
	struct row_buffers buffers;
	struct record_table table;
	uint32_t *rows; /* tensors; under -l pieces; groups; or values */
	size_t row_count;
	size_t position; /* of the row that is shown */
	bool wide;       /* more is shown than text shows by itself */
	bool tells_rank; /* names are local to a rank: the rank is needed to separate them */

	/* Places of one-piece tensors, or of the rows under -l; NULL: not known. */
	struct {
		uint64_t offset, length;
	} * spots;
	struct place_facts *places;
	struct fsdp_replicas *replicas;
	uint32_t *copies;        /* numbers of all pieces; NULL: no copies */
	struct state_of *states; /* of all tensors; NULL: not asked for */
	bool *stored; /* ranks with a piece in a file that is there; NULL: all */

	/* The object of the row that is shown. */
	struct listed_tensor {
		struct fsdp_tensor tensor;
		uint64_t tensors, pieces;
		bool shared;         /* its bytes are another tensor's, too */
		uint32_t rank, file; /* of the only piece */
		uint32_t shown_rank; /* text prints it only for names local to a rank */
		uint64_t offset, length;
		struct state_of state;
	} tensor;
	struct listed_piece {
		struct fsdp_tensor tensor;
		struct piece_facts facts;
		struct state_of state;
	} piece;
	struct listed_group {
		struct fsdp_group group;
		struct value keys[2], shown[2];
		char percent[16]; /* of the bytes of all */
		bool missing;     /* all its pieces are in missing files */
	} group;
	struct fsdp_value value;

	/* Groups: by one word, else by two. */
	enum fsdp_sums_by by[2];
	size_t by_count;
	struct fsdp_sums *sums;
	struct fsdp_crossed *crossed;

	uint64_t tensors, numel, bytes;
	struct fsdp_total total;
	char same[320]; /* omitted from the rows, since all have it; "": nothing */
	int status;
};

static inline bool lists_values(const struct ls_options *options)
{
	return options->values || options->objects;
}

/* False: out of memory. */
bool listing_take_tensors(struct listing *listing, struct fsdp_error **ret_error);
void listing_done(struct listing *listing);

/* Decides the status, says what was not there, and begins the answer. */
void listing_begin(struct listing *listing);
void listing_show_total(struct listing *listing);

/* What the rows are, and how they are shown. */
struct list {
	const struct record *answer; /* its first field is the list */
	row_function *object_of;
	/* Locates the rows: NULL, or called only if locations are printed. */
	bool (*locate)(struct listing *listing, struct fsdp_error **ret_error);
	bool locates_sorted; /* facts are kept in the order of the rows */
	/* With --fold: the first rows, joined. NULL: --fold has none of this kind. */
	bool (*emit_folded)(struct listing *listing, size_t head);
	/* Chooses what people see by what the first rows hold. NULL: it is always the
	 * same. */
	void (*suit)(struct listing *listing, size_t head);
};

/* False: out of memory, or *ret_error. */
bool listing_show(struct listing *listing, const struct list *list, unsigned view,
	struct fsdp_error **ret_error);

/* The rows of each kind, for listing_show. False as above. */
bool list_tensors(struct listing *listing, struct fsdp_error **ret_error);
bool list_pieces(struct listing *listing, struct fsdp_error **ret_error);
bool list_groups(struct listing *listing, struct fsdp_error **ret_error);
bool list_values(struct listing *listing, struct fsdp_error **ret_error);

/* Whether groups are asked for: by words, or by the beginnings of names. */
bool lists_groups(const struct ls_options *options, const struct select_options *select);

/* A group, and its second key if it has one. */
size_t listing_group_count(const struct listing *listing);
struct fsdp_group listing_group(
	const struct listing *listing, size_t index, uint32_t *ret_second);
/* Its first key (which is 0) or second (1), and how people see it. Valid until the next
 * of the same. */
struct value listing_key(
	struct listing *listing, size_t which, uint32_t key, struct value *ret_shown);

/* The answer of each kind: its first field is the list. */
extern const struct record tensor_list_record, piece_list_record, group_list_record,
	value_list_record;
extern const struct record total_record;

#define LIST_OF(name, about, key, record, key_about)                      \
	OBJECT_RECORD(struct listing, name, about,                        \
		{ key, ITEMS(record), .always = true, ABOUT(key_about) }, \
		{ "total", OBJECT(total_record), .always = true })

#endif
