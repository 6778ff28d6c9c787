/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_TENSOR_ROW_H
#define SHARED_TENSOR_ROW_H

#include <fsdp/analysis.h>
#include <fsdp/trace.h>

#include "args/parse.h"
#include "shared/stored-values.h"
#include "render/record.h"

/*
 * The objects *tensor*, *piece* and *value* of the machine outputs, and the columns that
 * they are in tables: described once, so that ls, ls -l and show cannot drift apart. A
 * new field is a row of tensor-row.c, and the number of rows here.
 */
/* Views of the tables that show them. */
enum tensor_view {
	VIEW_PLAIN,
	VIEW_RANKS, /* of tensors that are some ranks' own */
	VIEW_FOLDED,
	VIEW_PIECES, /* a row a piece: ls -l */
	VIEW_COPIES, /* of the pieces of one tensor, which may be copies */
};
#define IN(view) (1u << (view))
#define HIDDEN .machine_only = EVERY_VIEW /* from people, unless they ask for it */

extern const struct record tensor_record, piece_record, entry_record;

/* Meaning of these fields in all records. */
#define RANK_ABOUT "Rank that wrote it."
#define FILE_ABOUT "File that contains it, as a path below the root."
#define REQUIRES_GRAD_ABOUT "Whether it requires gradients, as recorded."
#define PIECE_FILE_ABOUT \
	FILE_ABOUT " Absent, as are offset and length, when damage hides the place."
#define OFFSET_ABOUT \
	"Byte where its first element begins, counted from the start of the file; 0 when it is empty."
#define LENGTH_ABOUT \
	"Bytes from its first element to the end of its last, as stored; 0 when it is empty."

/* Where the texts and lists of one row live until the next one. All zero is empty. */
struct row_buffers {
	struct name_buffer name, raw, alias, module, unit, text, member, param, state;
	struct path_part *parts;
	size_t part_size;
	struct text inferred[5];
	struct json_tokens json;
	char rows[128];
};

/* The context of these records. */
struct row_context {
	const struct run *run;
	struct row_buffers *buffers;
	struct text joined; /* of several tensors, instead of their own names; --fold */
};

static inline const struct run *run_of(struct subject of)
{
	return ((const struct row_context *)of.context)->run;
}

static inline const struct fsdp_checkpoint *checkpoint_of(struct subject of)
{
	return run_of(of)->checkpoint;
}

static inline struct row_buffers *buffers_of(struct subject of)
{
	return ((const struct row_context *)of.context)->buffers;
}

/* What was learned about a piece from its container. */
struct place_facts {
	uint64_t offset, length; /* FSDP_UNKNOWN: not located */
	uint64_t storage_offset, storage_bytes;
	uint64_t item_offset, item_length; /* of a zip member */
	struct fsdp_span storage;
	const char *method;
	const int64_t *strides; /* of the run; NULL: contiguous */
	uint32_t dims;
	uint32_t flags; /* as in struct fsdp_place */
};

extern const struct place_facts place_unknown;

/* The object of a piece: its data in the container, if it was found, else the facts of
 * its tensor. Ends of ranges are inclusive. */
struct piece_facts {
	const struct fsdp_tensor *tensor;
	struct fsdp_piece piece;
	struct place_facts place;
	const int64_t *offsets, *sizes; /* of its box, maybe the full tensor; NULL: no
					   box */
	uint32_t dims;
	const int64_t *strides; /* NULL: contiguous */
	uint32_t stride_dims;
	/* Of a run that has elements; else FSDP_UNKNOWN. */
	uint64_t param_start, param_end, flat_start, flat_end;
	uint32_t replica; /* fsdp_replicas, from the caller; FSDP_NONE: no copy */
};
struct piece_facts piece_facts(const struct fsdp_tensor *tensor,
	const struct fsdp_piece *piece, const struct place_facts *place);

void place_facts_copy(
	struct run *run, struct place_facts *facts, const struct fsdp_place *place);

/* The name that is shown: clean, or as stored under --raw. */
struct text tensor_shown_name(const struct run *run, struct name_buffer *buffer,
	const struct fsdp_tensor *tensor);

struct text entry_shown_name(const struct run *run, struct name_buffer *buffer,
	const struct fsdp_value *value);

/* As Python would print it; "..." of what was not read. */
struct text entry_shown_text(struct name_buffer *buffer, const struct fsdp_value *value);

/* The class that is shown: what fully_shard replaced, or as stored under --raw. */
const char *module_shown_class(const struct run *run, const struct fsdp_module *module);

/* For ENUM_AT. */
const char *dtype_name(unsigned dtype);

/* For FOUND_AT: the name of the module of a unit. */
struct value find_unit_module(struct subject of, uint32_t unit);

/* For FOUND_AT: the path of a file, the name of a tensor as it is shown. */
struct value find_file(struct subject of, uint32_t file);
struct value find_tensor(struct subject of, uint32_t tensor);

/* Whose state a tensor is: index of its parameter, and where its key is in its name. */
struct state_of {
	uint32_t param; /* FSDP_NONE: not a state, or not of a parameter */
	uint32_t tensor;
	size_t key_offset, key_size;
	bool is_inferred; /* the parameter */
};
extern const struct record param_state_record;

/* A list of the run by index of tensor; NULL where no tensor is of an optimizer. */
struct state_of *states_of_all(struct run *run);

/* A tensor as it is shown: a state has the module and the unit of its parameter. */
struct fsdp_tensor tensor_of_owner(const struct fsdp_checkpoint *checkpoint,
	const struct state_of *states, uint32_t index, struct state_of *ret_state);

/* What the sums of a group are. */
#define GROUP_TENSORS_ABOUT "Number of tensors with a part in it."
#define GROUP_PIECES_ABOUT "Number of pieces in it."
#define GROUP_BYTES_ABOUT "Bytes of these pieces."

/* What the tensors of a group have in common, by its key; null for FSDP_NONE. The text
 * lives in buffer. raw: names as stored. */
struct value group_key(const struct fsdp_checkpoint *checkpoint, enum fsdp_group_key by,
	uint32_t key, struct name_buffer *buffer, bool raw);

/*
 * --columns, --sort and --head for any table of records: they speak of columns by name,
 * and columns have the names of JSON fields.
 */

/* Takes --columns; "all" is every column of the machine-readable outputs. Refuses a
 * column that is unknown. */
void choose_columns(struct run *run, struct record_table *table);

/* Whether something that costs reads is shown or sorted by. */
bool columns_read(const struct run *run, const struct record_table *table);

/* The object of a row, until the next call; *ret_order is what SORT_ROW goes by. */
typedef const void *row_function(void *context, uint32_t row, uint32_t *ret_order);

/*
 * Puts rows in the order of -S, --sort and -r; rows that are equal stay as they are.
 * usual: the default key; NULL: rows stay. Refuses a column that is unknown or cannot be
 * sorted by.
 */
void sort_rows(struct run *run, const struct record_table *table, const char *usual,
	row_function *object_of, void *context, uint32_t *rows, size_t row_count);

/* How many of `count` rows --head leaves. */
size_t head_of(const struct run *run, size_t count);

/*
 * The step of the run in which a checkpoint was saved.
 */

/* Opens with the values that contain it, and no others. */
void steps_only(struct fsdp_options *options);

/* As the checkpoint says itself, or FSDP_ABSENT; the epoch too, unless it is NULL.
 * `overview` is of the same checkpoint. False: out of memory. */
void step_inside(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_overview *overview, int64_t *ret_step, int64_t *ret_epoch);

/* From the name of a directory or file ("step-1000"), or FSDP_ABSENT. */
int64_t step_of_path(const char *path);

/* Step of the opened checkpoint: from its values, else from its name. */
int64_t step_of_run(const struct run *run, const struct fsdp_kind *kind);

/* Of enum fsdp_sharding_api: "fsdp2"; NULL: unknown. */
const char *flavour_word(unsigned flavour);
#define FLAVOUR_WORDS WORDS("fsdp1", "fsdp2", "fsdp1_or_fsdp2")

#endif
