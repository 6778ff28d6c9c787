/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a tensor, which come from its pieces one by one.
 */
#include "base/mix.h"
#include "verify/verify-private.h"

/* A tied tensor that has no bytes of its own is looked at under its other name. */
static bool shares_bytes(
	const struct fsdp_verify *verify, const struct fsdp_piece_record *piece)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	uint32_t alias = fsdp_model_tensor(model, piece->tensor)->alias;
	if (alias == FSDP_NONE)
		return false;
	const struct fsdp_tensor_record *other = fsdp_model_tensor(model, alias);
	return other->piece_count != 0 &&
	       fsdp_model_piece(model, other->first_piece)->extent == piece->extent;
}

bool fsdp_verify_is_counted(const struct fsdp_verify *verify, uint32_t piece)
{
	return verify->numbers != NULL &&
	       (verify->is_copy == NULL || !verify->is_copy[piece]) &&
	       !shares_bytes(verify, fsdp_model_piece(&verify->checkpoint->model, piece));
}

/* Whether more bytes lie there than are looked at for a trait. */
static bool is_sampled(const struct fsdp_pass_view *view)
{
	return view->end - view->begin > FSDP_SAMPLE_BYTES;
}

void fsdp_verify_add_numbers(struct fsdp_verify *verify,
	const struct fsdp_pass_view *view, const struct fsdp_pass_result *result)
{
	uint32_t index = view->owner;
	uint64_t layout = view->tag;
	const struct fsdp_piece_record *piece =
		fsdp_model_piece(&verify->checkpoint->model, index);
	struct fsdp_numbers *numbers = &verify->numbers[piece->tensor];
	bool first = numbers->seen++ == 0;
	if (view->counted && first)
		numbers->moments = result->moments;
	else if (view->counted)
		fsdp_moments_join(&numbers->moments, &result->moments);
	if (view->counted && numbers->bad_piece == FSDP_NONE &&
		result->moments.bad_index != FSDP_UNKNOWN) {
		numbers->bad_piece = index;
		numbers->moments.bad_index = result->moments.bad_index;
	}
	/* Pieces come in the order of their files, so that order must not count. */
	numbers->trait.words[0] +=
		fsdp_mix(result->sample.words[0] ^ layout, FSDP_VERIFY_MIX_A);
	numbers->trait.words[1] +=
		fsdp_mix(result->sample.words[1] ^ layout, FSDP_VERIFY_MIX_B);
	numbers->sampled |= is_sampled(view);
	numbers->layout += layout;
}

bool fsdp_verify_is_known(const struct fsdp_verify *verify, uint32_t tensor)
{
	const struct fsdp_numbers *numbers = &verify->numbers[tensor];
	return numbers->due != 0 && numbers->seen == numbers->due &&
	       fsdp_moments_takes(
		       fsdp_model_tensor(&verify->checkpoint->model, tensor)->dtype);
}
