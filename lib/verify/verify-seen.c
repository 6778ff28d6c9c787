/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a part saw of the numbers of tensors, of which each may have pieces in files of
 * several parts: piece by piece, so that those of all parts add up as in one pass.
 */
#include "verify/verify-private.h"

enum {
	SEEN_COUNTED = 1 << 0,
	SEEN_SAMPLED = 1 << 1, /* not all bytes are in its trait */
	SEEN_ODD = 1 << 2,     /* it is read by its elements */
};

/* ---- one part ---- */

static uint64_t bits_of(double number)
{
	uint64_t bits;
	memcpy(&bits, &number, sizeof bits);
	return bits;
}

static double number_of(uint64_t bits)
{
	double number;
	memcpy(&number, &bits, sizeof number);
	return number;
}

static void keep(struct fsdp_verify *verify, const struct fsdp_verify_seen *seen)
{
	if (verify->options.parts == 0 || verify->foreign)
		return;
	if (!fsdp_vec_add(&verify->seen, seen))
		verify->findings.lost = true;
}

void fsdp_verify_keep_odd(struct fsdp_verify *verify, uint32_t piece)
{
	const struct fsdp_verify_seen seen = { .piece = piece, .how = SEEN_ODD };
	keep(verify, &seen);
}

void fsdp_verify_keep_seen(struct fsdp_verify *verify, const struct fsdp_pass_view *view,
	const struct fsdp_pass_result *result)
{
	const struct fsdp_moments *m = &result->moments;
	const struct fsdp_verify_seen seen = {
		.piece = view->owner,
		.how = (view->counted ? SEEN_COUNTED : 0) |
		       (fsdp_verify_is_sampled(view) ? SEEN_SAMPLED : 0),
		.words = { view->tag, result->sample.words[0], result->sample.words[1],
			m->count, m->nan, m->pos_inf, m->neg_inf, m->zeros, m->subnormals,
			m->bad_index, bits_of(m->min), bits_of(m->max), bits_of(m->sum),
			bits_of(m->squares), m->summed },
	};
	keep(verify, &seen);
}

size_t fsdp_verify_seen_count(const struct fsdp_verify *verify)
{
	return verify->seen.count;
}

struct fsdp_verify_seen fsdp_verify_seen(const struct fsdp_verify *verify, size_t index)
{
	if (index >= verify->seen.count)
		return (struct fsdp_verify_seen){ .piece = FSDP_NONE };
	return *(const struct fsdp_verify_seen *)fsdp_vec_at(&verify->seen, index);
}

/* ---- all parts ---- */

static void take(struct fsdp_verify *verify, const struct fsdp_verify_seen *seen)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	const uint64_t *words = seen->words;
	struct fsdp_pass_view view = {
		.tag = words[0],
		.end = (seen->how & SEEN_SAMPLED) != 0 ? FSDP_SAMPLE_BYTES + 1 : 0,
		.owner = seen->piece,
		.counted = (seen->how & SEEN_COUNTED) != 0,
	};
	struct fsdp_pass_result result = {
		.sample = { { words[1], words[2] } },
		.moments = { .count = words[3],
			.nan = words[4],
			.pos_inf = words[5],
			.neg_inf = words[6],
			.zeros = words[7],
			.subnormals = words[8],
			.bad_index = words[9],
			.min = number_of(words[10]),
			.max = number_of(words[11]),
			.sum = number_of(words[12]),
			.squares = number_of(words[13]),
			.summed = words[14] },
	};
	if (seen->piece >= model->pieces.count ||
		!fsdp_verify_is_counted(verify, seen->piece))
		return;
	uint32_t tensor = fsdp_model_piece(model, seen->piece)->tensor;
	if ((seen->how & SEEN_ODD) != 0)
		verify->numbers[tensor].odd = true;
	else
		fsdp_verify_add_numbers(verify, &view, &result);
}

bool fsdp_verify_take_seen(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	if (!fsdp_verify_find_copies(verify, ret_error) ||
		!fsdp_verify_begin_values(verify, ret_error))
		return false;
	for (size_t i = 0; i < verify->options.seen_count; i++)
		take(verify, &verify->options.seen[i]);
	return fsdp_verify_judge_values(verify, ret_error);
}
