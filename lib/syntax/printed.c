/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds printed models among the lines of a log, and chooses one.
 *
 * The lines of each rank are a stream of their own. A head that ends with `CLASS(` begins
 * a model once a first child stands below it; from then on the line that may come next is
 * known by its depth. What has another shape is of something else. A line that has the
 * shape of a model's, but does not fit where a second head stood inside of a model, shows
 * that two are mixed.
 */
#include <stdlib.h>

#include "base/table.h"
#include "syntax/printed.h"

enum {
	HEADS = 4,            /* of one stream that wait for a first child … */
	HEAD_LINES = 9,       /* … for so many lines */
	HEAD_BYTES = 512,     /* before and in a head */
	SKIPPED_MOST = 64,    /* lines of something else, one after the other */
	RANKS_MOST = 1 << 20, /* beyond, a mark is none */
};

struct printed_head {
	unsigned char bytes[HEAD_BYTES];
	uint16_t before, class_size; /* bytes */
	uint64_t line, waited;
};

/* A model while its lines come. */
struct printed_found {
	struct fsdp_arena arena;
	struct fsdp_span class_name, margin;
	struct fsdp_vec lines; /* struct fsdp_printed_line */
	uint64_t line;
	uint32_t rank, level, skipped;
	bool has_fsdp;
	bool is_suspect; /* it began inside of another one that did not end */
	bool is_complete;
};

struct printed_stream {
	struct printed_head heads[HEADS]; /* the newest first */
	size_t head_count;
	uint32_t rank;
	struct printed_found *open; /* or NULL */
	struct printed_found
		*late; /* complete and suspect, until a head or the end, or NULL */
};

struct fsdp_printed {
	struct fsdp_arena arena;
	struct fsdp_vec streams;   /* struct printed_stream * */
	struct fsdp_table by_rank; /* of streams with a mark */
	struct printed_stream *unmarked;
	struct printed_found *best;
	uint64_t line;
	bool is_interleaved, out_of_memory;
};

/* ---- models that were found ---- */

static void found_free(struct printed_found *found)
{
	if (found == NULL)
		return;
	fsdp_arena_done(&found->arena);
	free(found);
}

static struct printed_found *found_new(struct fsdp_printed *printed,
	const struct printed_stream *stream, const struct printed_head *head,
	struct fsdp_span margin)
{
	struct printed_found *found = calloc(1, sizeof *found);
	if (found == NULL)
		return NULL;
	fsdp_arena_init_lean(&found->arena, printed->arena.budget);
	fsdp_vec_init(&found->lines, &found->arena, sizeof(struct fsdp_printed_line));
	found->class_name = fsdp_arena_copy(
		&found->arena, fsdp_span(head->bytes + head->before, head->class_size));
	found->margin = fsdp_arena_copy(&found->arena, margin);
	found->line = head->line;
	found->rank = stream->rank;
	found->level = 1;
	found->has_fsdp = fsdp_printed_is_fsdp(found->class_name);
	if (found->class_name.data != NULL && found->margin.data != NULL)
		return found;
	found_free(found);
	return NULL;
}

static uint32_t rank_of(const struct printed_found *found)
{
	return found->rank != FSDP_NONE ? found->rank : 0;
}

/* Whether a model is to be taken rather than the other. */
static bool is_better(const struct printed_found *one, const struct printed_found *other)
{
	if (other == NULL || one->is_complete != other->is_complete)
		return other == NULL || one->is_complete;
	if (rank_of(one) != rank_of(other))
		return rank_of(one) < rank_of(other);
	return one->line > other->line;
}

/* Takes it over. */
static void offer(struct fsdp_printed *printed, struct printed_found *found)
{
	if (found != NULL && found->has_fsdp && is_better(found, printed->best)) {
		struct printed_found *before = printed->best;
		printed->best = found;
		found = before;
	}
	found_free(found);
}

static void refuse(struct fsdp_printed *printed, struct printed_found **found)
{
	printed->is_interleaved |= (*found)->has_fsdp;
	found_free(*found);
	*found = NULL;
}

/* ---- lines of a model ---- */

static size_t count_blanks(struct fsdp_span text)
{
	size_t count = 0;
	while (count < text.size && text.data[count] == ' ')
		count++;
	return count;
}

enum printed_shape { SHAPE_NONE, SHAPE_MODEL, SHAPE_FITS };

/* Whether a line has the shape of a model's, and the depth of that which comes next. */
static enum printed_shape shape_of(const struct printed_found *found,
	struct fsdp_span line, struct fsdp_printed_line *ret_line)
{
	struct fsdp_span text;
	if (!fsdp_printed_strip(line, found->margin, &text))
		return SHAPE_NONE;
	size_t blanks = count_blanks(text);
	struct fsdp_span rest = fsdp_span(text.data + blanks, text.size - blanks);
	*ret_line = (struct fsdp_printed_line){ .level = found->level };
	ret_line->is_end = fsdp_span_is(rest, ")");
	if (!ret_line->is_end && !fsdp_printed_child(rest, &ret_line->child))
		return SHAPE_NONE;
	size_t level = found->level - (ret_line->is_end ? 1 : 0);
	return blanks == 2 * level ? SHAPE_FITS : SHAPE_MODEL;
}

static bool keep_line(struct printed_found *found, struct fsdp_printed_line line)
{
	struct fsdp_printed_child *child = &line.child;
	if (!line.is_end) {
		child->name = fsdp_arena_copy(&found->arena, child->name);
		child->class_name = fsdp_arena_copy(&found->arena, child->class_name);
		if (child->name.data == NULL || child->class_name.data == NULL)
			return false;
		found->has_fsdp |= fsdp_printed_is_fsdp(child->class_name);
		found->level += child->is_open;
	} else {
		found->level--;
	}
	found->skipped = 0;
	found->is_complete = found->level == 0;
	return fsdp_vec_add(&found->lines, &line);
}

/* A line for the open model. *ret_taken: it was one of its lines. False: out of memory. */
static bool take_for_open(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span text, bool *ret_taken)
{
	struct printed_found *found = stream->open;
	struct fsdp_printed_line line;
	enum printed_shape shape = shape_of(found, text, &line);
	*ret_taken = shape == SHAPE_FITS;
	if (shape == SHAPE_MODEL && found->is_suspect) {
		refuse(printed, &stream->open);
	} else if (shape != SHAPE_FITS) {
		if (++found->skipped <= SKIPPED_MOST)
			return true;
		stream->open = NULL;
		offer(printed, found);
	} else if (!keep_line(found, line)) {
		return false;
	} else if (found->is_complete) {
		stream->open = NULL;
		if (found->is_suspect)
			stream->late = found;
		else
			offer(printed, found);
	}
	return true;
}

/* A suspect model is proven to be one of two that are mixed when lines of the other
 * follow. */
static void judge_late(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span text)
{
	struct fsdp_printed_line line;
	if (shape_of(stream->late, text, &line) != SHAPE_NONE)
		refuse(printed, &stream->late);
}

/* ---- heads ---- */

static void push_head(struct printed_stream *stream, struct fsdp_span before,
	struct fsdp_span class_name, uint64_t line)
{
	struct printed_head *head = &stream->heads[0];
	if (before.size + class_name.size > HEAD_BYTES)
		return;
	if (stream->head_count < HEADS)
		stream->head_count++;
	memmove(head + 1, head, (stream->head_count - 1) * sizeof *head);
	memcpy(head->bytes, before.data, before.size);
	memcpy(head->bytes + before.size, class_name.data, class_name.size);
	head->before = (uint16_t)before.size;
	head->class_size = (uint16_t)class_name.size;
	head->line = line;
	head->waited = 0;
}

static struct fsdp_span class_of(const struct printed_head *head)
{
	return fsdp_span(head->bytes + head->before, head->class_size);
}

/* Those that wait too long are no heads. */
static void age_heads(struct printed_stream *stream)
{
	for (size_t i = 0; i < stream->head_count; i++)
		if (++stream->heads[i].waited > HEAD_LINES) {
			stream->head_count = i;
			break;
		}
}

/* The head whose first child this line is, or NULL: one whose class is of FSDP, else the
 * newest. */
static const struct printed_head *find_head(const struct printed_stream *stream,
	struct fsdp_span line, struct fsdp_span *ret_margin)
{
	const struct printed_head *newest = NULL;
	for (size_t i = 0; i < stream->head_count; i++) {
		const struct printed_head *head = &stream->heads[i];
		struct fsdp_span margin;
		if (!fsdp_printed_margin(
			    line, fsdp_span(head->bytes, head->before), &margin))
			continue;
		*ret_margin = margin;
		if (fsdp_printed_is_fsdp(class_of(head)))
			return head;
		if (newest == NULL)
			newest = head;
	}
	return newest;
}

/* Whether another head like this one waits: two ranks print at once. */
static bool is_doubled(
	const struct printed_stream *stream, const struct printed_head *one)
{
	for (size_t i = 0; i < stream->head_count; i++)
		if (&stream->heads[i] != one &&
			fsdp_span_equal(class_of(&stream->heads[i]), class_of(one)))
			return true;
	return false;
}

/* *ret_begun: the line is the first child of a head. False: out of memory. */
static bool begin(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span line, bool *ret_begun)
{
	struct fsdp_span margin;
	const struct printed_head *head = find_head(stream, line, &margin);
	*ret_begun = head != NULL;
	if (head == NULL)
		return true;
	struct printed_found *found = found_new(printed, stream, head, margin);
	if (found == NULL)
		return false;
	found->is_suspect = stream->open != NULL || is_doubled(stream, head);
	offer(printed, stream->open);
	stream->open = found;
	stream->head_count = 0;
	return true;
}

/* Inside of a model only what stands at its margin and is called like a class is a head:
 * warnings quote lines of code. */
static bool is_head_within(const struct printed_found *open, struct fsdp_span before,
	struct fsdp_span class_name)
{
	struct fsdp_span rest;
	return class_name.data[0] >= 'A' && class_name.data[0] <= 'Z' &&
	       fsdp_printed_strip(before, open->margin, &rest) && rest.size == 0;
}

static void take_head(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span line)
{
	struct fsdp_span before, class_name;
	if (!fsdp_printed_head(line, &before, &class_name) ||
		(stream->open != NULL &&
			!is_head_within(stream->open, before, class_name)))
		return;
	offer(printed, stream->late);
	stream->late = NULL;
	push_head(stream, before, class_name, printed->line);
}

/* ---- lines of a log ---- */

static struct printed_stream *add_stream(struct fsdp_printed *printed, uint32_t rank)
{
	struct printed_stream *stream = FSDP_TAKE(&printed->arena, stream, 1);
	if (stream == NULL || !fsdp_vec_add(&printed->streams, &stream))
		return NULL;
	stream->rank = rank;
	if (rank == FSDP_NONE)
		printed->unmarked = stream;
	else if (!fsdp_table_set(
			 &printed->by_rank, rank, (uint32_t)printed->streams.count - 1))
		return NULL;
	return stream;
}

static struct printed_stream *find_stream(
	struct fsdp_printed *printed, struct fsdp_span *line)
{
	struct fsdp_span rest;
	uint32_t rank;
	if (!fsdp_printed_rank(*line, &rank, &rest) || rank >= RANKS_MOST)
		return printed->unmarked != NULL ? printed->unmarked
						 : add_stream(printed, FSDP_NONE);
	*line = rest;
	uint32_t index = fsdp_table_get(&printed->by_rank, rank);
	return index != FSDP_NONE
		       ? *(struct printed_stream **)fsdp_vec_at(&printed->streams, index)
		       : add_stream(printed, rank);
}

static bool take_line(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span line)
{
	bool taken = false;
	if (stream->head_count != 0 && !begin(printed, stream, line, &taken))
		return false;
	if (stream->open != NULL && !take_for_open(printed, stream, line, &taken))
		return false;
	if (taken)
		return true;
	age_heads(stream);
	if (stream->late != NULL)
		judge_late(printed, stream, line);
	take_head(printed, stream, line);
	return true;
}

bool fsdp_printed_take(struct fsdp_printed *printed, unsigned char *bytes, size_t size)
{
	printed->line++;
	struct fsdp_span line = fsdp_span(bytes, fsdp_printed_plain(bytes, size));
	struct printed_stream *stream = find_stream(printed, &line);
	if (stream == NULL || !take_line(printed, stream, line))
		printed->out_of_memory = true;
	return !printed->out_of_memory;
}

/* ---- the whole ---- */

struct fsdp_printed *fsdp_printed_new(struct fsdp_budget *budget)
{
	struct fsdp_printed *printed = calloc(1, sizeof *printed);
	if (printed == NULL)
		return NULL;
	fsdp_arena_init_lean(&printed->arena, budget);
	fsdp_vec_init(
		&printed->streams, &printed->arena, sizeof(struct printed_stream *));
	fsdp_table_init(&printed->by_rank, &printed->arena);
	return printed;
}

static struct printed_stream *stream_at(const struct fsdp_printed *printed, size_t index)
{
	return *(struct printed_stream **)fsdp_vec_at(&printed->streams, index);
}

void fsdp_printed_free(struct fsdp_printed *printed)
{
	if (printed == NULL)
		return;
	for (size_t i = 0; i < printed->streams.count; i++) {
		found_free(stream_at(printed, i)->open);
		found_free(stream_at(printed, i)->late);
	}
	found_free(printed->best);
	fsdp_arena_done(&printed->arena);
	free(printed);
}

static bool fail_interleaved(struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
		"the lines of two printed models are mixed, and nothing tells which line is of which");
	fsdp_error_add_kind(ret_error, "interleaved");
	return fsdp_error_add_hint(ret_error,
		"print the model on one rank only, or have the launcher mark each line with its rank (torchrun --tee 3)");
}

static bool fail_none(struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
		"no printed model with FSDP in it is in this log");
	fsdp_error_add_kind(ret_error, "no_model");
	return fsdp_error_add_hint(
		ret_error, "print(model) after FSDP has wrapped it, or export a plan");
}

static void end_streams(struct fsdp_printed *printed)
{
	for (size_t i = 0; i < printed->streams.count; i++) {
		struct printed_stream *stream = stream_at(printed, i);
		offer(printed, stream->late);
		offer(printed, stream->open);
		stream->late = stream->open = NULL;
	}
}

bool fsdp_printed_end(struct fsdp_printed *printed, struct fsdp_arena *arena,
	struct fsdp_printed_model *ret_model, struct fsdp_error **ret_error)
{
	if (printed->out_of_memory)
		return fsdp_arena_fail(&printed->arena, ret_error);
	end_streams(printed);
	const struct printed_found *best = printed->best;
	if (printed->is_interleaved && (best == NULL || !best->is_complete))
		return fail_interleaved(ret_error);
	if (best == NULL)
		return fail_none(ret_error);
	*ret_model = (struct fsdp_printed_model){
		.rank = best->rank, .line = best->line, .is_cut = !best->is_complete
	};
	struct fsdp_error *error = NULL;
	if (fsdp_printed_tree(
		    &best->lines, best->class_name, arena, &ret_model->modules, &error))
		return true;
	if (error == NULL)
		return fail_interleaved(ret_error);
	return fsdp_fail_with(ret_error, error);
}
