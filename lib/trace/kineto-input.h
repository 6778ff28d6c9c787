/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_INPUT_H
#define FSDP_TRACE_KINETO_INPUT_H

#include "base/arena.h"
#include "io/stream.h"
#include "syntax/json-template.h"
#include "trace/collectives.h"
#include "trace/kineto-words.h"

/* An event: what its members say. `args` is the span of the object. */
enum { FSDP_KINETO_VALUES = 8, FSDP_KINETO_ARGS = 11 };

struct fsdp_kineto_event {
	union {
		struct {
			struct fsdp_json_value ph, cat, name, ts, dur, pid, tid, args;
		};
		struct fsdp_json_value values[FSDP_KINETO_VALUES];
	};
};

/* What the args of a kernel, a copy or a call of the runtime say. */
struct fsdp_kineto_args {
	union {
		struct {
			struct fsdp_json_value collective, correlation, kind, group, seq,
				group_size, dtype, in_elements, out_elements, description,
				ranks;
		};
		struct fsdp_json_value values[FSDP_KINETO_ARGS];
	};
};

/*
 * The JSON of a trace as tokens and events. What is not JSON is read as well as can be
 * (json-scan.h); nearly all events are plain and are read in one go (json-template.h).
 */
struct fsdp_kineto_input {
	const struct fsdp_limits *limits;
	struct fsdp_error **error;
	struct fsdp_json_scan scan;
	struct fsdp_json_quick *quick;
	bool quick_args;            /* the args of the event are in `quick` */
	struct fsdp_json_scan args; /* of an event that was not read in one go */
};

/* False: out of memory; the caller makes the error. Those of reading go to *error. */
bool fsdp_kineto_input_init(struct fsdp_kineto_input *input,
	const struct fsdp_limits *limits, struct fsdp_error **error);
void fsdp_kineto_input_done(struct fsdp_kineto_input *input);

/* Begins with the stream, for each pass. *ret_mark: a byte order mark was there, and is
 * passed. False: *error is made. */
bool fsdp_kineto_input_open(
	struct fsdp_kineto_input *input, struct fsdp_stream *stream, bool *ret_mark);

/* As in json-scan.h. False: *error is made. */
bool fsdp_kineto_next(struct fsdp_kineto_input *input, struct fsdp_json_token *token);
bool fsdp_kineto_skip(struct fsdp_kineto_input *input, struct fsdp_json_token *token);

static inline bool fsdp_kineto_is_broken(const struct fsdp_json_token *token)
{
	return token->kind == FSDP_SCAN_BAD || token->kind == FSDP_SCAN_CUT;
}

/* Passes a byte order mark, if what is to be read begins with one. */
bool fsdp_kineto_pass_mark(
	struct fsdp_json_scan *scan, bool *ret_mark, struct fsdp_error **ret_error);

enum fsdp_kineto_found {
	FSDP_KINETO_WHOLE,
	FSDP_KINETO_RECOVERED, /* with errors, or without its end */
	FSDP_KINETO_LOST       /* *ret_event means nothing */
};

/* An event behind its brace; *token becomes the last one of it, or what is broken. The
 * event is valid until it is released. False: *error is made. */
bool fsdp_kineto_read_event(struct fsdp_kineto_input *input,
	struct fsdp_json_token *token, struct fsdp_kineto_event *ret_event,
	enum fsdp_kineto_found *ret_found);
void fsdp_kineto_release_event(struct fsdp_kineto_input *input);

/* What the value of `args` says; what is absent is of the kind FSDP_SCAN_END. For another
 * event than the last one, clear `quick_args` before. */
void fsdp_kineto_read_args(struct fsdp_kineto_input *input,
	const struct fsdp_json_value *value, struct fsdp_kineto_args *ret_args);

/* The correlation alone. False: there is none. */
bool fsdp_kineto_read_correlation(struct fsdp_kineto_input *input,
	const struct fsdp_json_value *value, int64_t *ret_correlation);

/* Whether the args may name a collective. */
bool fsdp_kineto_may_name(
	const struct fsdp_kineto_input *input, const struct fsdp_json_value *value);

/* A number, or a text that is one. False: neither. */
bool fsdp_kineto_integer(const struct fsdp_json_value *value, int64_t *ret_value);

/*
 * Begins (B) that wait for their ends (E): a stack for each thread. Their texts are
 * copied, for the window moves on.
 */
struct fsdp_kineto_open {
	struct fsdp_kineto_open *below;
	size_t size;
	struct fsdp_kineto_event
		event; /* without `ph` and `dur`; its texts lie behind it */
};

struct fsdp_kineto_opens {
	struct fsdp_budget *budget; /* begins count, as they are no arena's */
	struct fsdp_vec stacks;     /* struct fsdp_kineto_open *: the top */
};

/* The list of stacks lies in the arena. */
void fsdp_kineto_opens_init(struct fsdp_kineto_opens *opens, struct fsdp_arena *arena);

/* *stack is kept by the caller for each thread and 0 at first. False: out of memory. */
bool fsdp_kineto_opens_begin(struct fsdp_kineto_opens *opens, uint32_t *stack,
	const struct fsdp_kineto_event *event);

/* The last begin of a thread, or NULL. Free it. */
struct fsdp_kineto_open *fsdp_kineto_opens_end(
	struct fsdp_kineto_opens *opens, uint32_t stack);
void fsdp_kineto_opens_free(
	struct fsdp_kineto_opens *opens, struct fsdp_kineto_open *open);

/* Frees all begins that are still open, and counts them. */
uint64_t fsdp_kineto_opens_forget(struct fsdp_kineto_opens *opens);

/* Fills in what the args of a collective say of it: bytes, seq and sort, of which the lists
 * of `all` keep what is shared. *ret_bytes_out are the bytes if it turns out to be an
 * all-gather. False: out of memory. */
bool fsdp_kineto_describe(struct fsdp_collectives *all, struct fsdp_kineto_words *words,
	const struct fsdp_kineto_args *args, struct fsdp_comm *comm,
	int64_t *ret_bytes_out);

#endif
