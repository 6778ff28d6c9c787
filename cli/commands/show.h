/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOW_H
#define SHOW_H

#include <fsdp/analysis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "args/parse.h"
#include "shared/tensor-row.h"

/*
 * Which elements --values asks for: "8", the first eight, or slices as Python has them,
 * "0:8,-4:", of the elements in C order.
 */
enum { SLICES_MAX = 16 };

struct element_slices {
	size_t count;
	struct element_slice {
		bool has_start, has_end;
		int64_t start, end; /* negative: from the end on */
	} list[SLICES_MAX];
};

/* Elements, both inclusive. */
struct element_range {
	uint64_t start, end;
};

/* False: the text is not a list of slices, or has more than SLICES_MAX. */
bool slices_parse(const char *text, struct element_slices *ret_slices);

/* The ranges of a tensor with so many elements, without empty ones; together at most
 * `most` elements. *ret_cut: more exist. Returns the number of ranges. */
size_t slices_resolve(const struct element_slices *slices, uint64_t numel, uint64_t most,
	struct element_range ret_ranges[SLICES_MAX], bool *ret_cut);

/*
 * Map of one tensor to ranks, drawn with characters in 80 columns: a cell per part, in
 * the order of the tensor, with its ranks. Of many cells the middle is omitted. Drawn
 * from the pieces, not from the placement.
 */
struct picture;

/*
 * State of `show`. show.c parses the request and collects the facts, show-data.c
 * describes machine output, show-text.c prints text.
 */
struct show_options {
	const char *values; /* slices; NULL: none */
	bool whole, serve;
};

/* With --whole: the kind of the checkpoint, and all its contents. */
struct show_whole {
	struct fsdp_format format;
	struct fsdp_kind kind;
	uint32_t world_size;
	int64_t step;
	const char *files; /* files_state() */
};

/* What the elements that were read come to. */
struct element_stats {
	uint64_t count, nans, infinities;
	double min, max, mean; /* of those that are finite */
};

enum item_kind { ITEM_TENSOR, ITEM_VALUE, ITEM_MODULE };

/* One thing that was asked for, or a component of it. */
struct item {
	uint32_t index;
	enum item_kind is;
	const char *kind; /* its word */
	struct fsdp_value value;
	struct fsdp_tensor tensor;
	const struct piece_facts *pieces; /* those that are selected */
	size_t piece_count;
	bool copies;                   /* some hold the same part */
	const struct item *components; /* NULL: none */
	size_t component_count;
	const struct fsdp_state *states;
	size_t state_count;
	struct state_of owner;   /* of a state: its parameter */
	unsigned char *elements; /* for --values; NULL: none */
	size_t element_count;
	struct element_range ranges[SLICES_MAX]; /* which they are, in this order */
	size_t range_count;
	struct element_stats stats;
	bool has_stats; /* they are numbers, and there are some */

	struct fsdp_module module;
	struct fsdp_pivot *groups; /* of a module: what ranks hold of those below it */
	size_t group_count, tensor_count;
};

struct show {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct show_options *options;
	struct element_slices slices;
	struct selection *selection;
	struct row_buffers *buffers;
	struct item *items; /* their components follow them */
	size_t item_count;  /* with components */
	size_t wanted_count;
	struct show_whole whole;
	int status;
};

/* Of a struct show, which is its context as well. */
extern const struct record show_record;

/* States and other names of an item: for walks, and for people. */
struct item_state {
	uint32_t index;
	struct fsdp_tensor tensor;
	struct text key;
};

const void *find_state(struct subject of, size_t i, void *room);

/* Another name on the storage; then names that the file lists as the same tensor, without
 * data of their own. */
struct alias {
	struct text name;
	uint32_t tensor; /* on the storage */
	bool is_declared;
	size_t declared; /* so many, this one included */
};

const void *each_alias(struct subject of, size_t i, void *room);

/* All are read before the answer begins, whose head says whether that went well. */
void show_read_elements(struct show *show);

/* Answers requests for elements on standard input until it ends. A request is a line,
 * {"name": NAME, "start": FIRST, "stop": END}: elements of a tensor in C order, all if
 * both are absent; "files" is the output of --whole, and a changed file is an error. An
 * answer is frames on standard output: a length in digits, a line feed, that many bytes;
 * length 0 ends it. After a minus it is the length of an error, which ends it too: code,
 * rule, path, hint and message, a zero byte after each. */
void show_serve(struct show *show);

void print_item(struct show *show, const struct item *item);

/* All of them, for outputs of rows alone. */
void show_rows(struct show *show);

/* The module of this name, which the plan or the checkpoint may have given it. */
bool show_find_module(struct show *show, const char *word, uint32_t *ret_module);

/* Fills what an item holds of its module. */
void show_add_up_module(struct show *show, struct item *item);

void print_module_item(struct show *show, const struct item *item);

#endif
