/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_MODEL_REPR_H
#define FSDP_SYNTAX_MODEL_REPR_H

#include "base/arena.h"
#include "base/error.h"

/*
 * A model as print() shows it, found among the lines of a log: torch.nn.Module.__repr__
 * writes a head line `CLASS(`, two blanks a level, and a child as `(NAME): CLASS(...)`,
 * closed on its line or by a `)` at its own depth. Equal neighbors are one line,
 * `(0-31): 32 x CLASS(`.
 *
 * Before each line may be a prefix of a logger or a launcher: nothing, blanks, the same
 * text except for its digits, or the mark of a rank. Terminal colors are dropped,
 * lines of something else are skipped. Of several models that hold FSDP the last complete
 * one counts, of several ranks the lowest.
 */

/* Whether classes of this name are what FSDP makes of others: FullyShardedDataParallel,
 * or FSDP and a capital after it. */
bool fsdp_printed_is_fsdp(struct fsdp_span class_name);

/* A module, after its parent. */
struct fsdp_printed_module {
	uint32_t parent;       /* FSDP_NONE: it is the root */
	struct fsdp_span name; /* its own, without those above; empty: the root */
	struct fsdp_span class_name;
};

struct fsdp_printed_model {
	struct fsdp_vec modules; /* struct fsdp_printed_module, in order of the print */
	uint32_t rank;           /* that the lines are marked with, or FSDP_NONE */
	uint64_t line;           /* of its head; the first is 1 */
	bool is_cut;             /* the log ends inside */
};

struct fsdp_printed;

/* NULL: out of memory. */
struct fsdp_printed *fsdp_printed_new(struct fsdp_budget *budget);

/* NULL is fine. */
void fsdp_printed_free(struct fsdp_printed *printed);

/* The next line, without its end. It is written to. What is kept is copied. False: out of
 * memory. */
bool fsdp_printed_take(struct fsdp_printed *printed, unsigned char *line, size_t size);

/*
 * After the last line: the model, with runs written out. Its texts live as long as
 * `printed`, the rest is in the arena. Fails with the kind `no_model` without a model,
 * with `interleaved` if the lines of two are mixed without a mark.
 */
bool fsdp_printed_end(struct fsdp_printed *printed, struct fsdp_arena *arena,
	struct fsdp_printed_model *ret_model, struct fsdp_error **ret_error);

#endif
