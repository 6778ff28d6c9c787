/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the args of a collective say of it.
 */
#include "base/num.h"
#include "trace/kineto-comm.h"
#include "trace/types.h"

/* A text or number as a word; 0: neither. */
static bool keep(struct fsdp_kineto_words *words, const struct fsdp_json_value *value,
	uint32_t *ret_word)
{
	struct fsdp_span text;
	*ret_word = 0;
	if (value->kind != FSDP_SCAN_TEXT && value->kind != FSDP_SCAN_NUMBER)
		return true;
	return fsdp_kineto_words_read(words, value, &text) &&
	       fsdp_kineto_words_find(words, FSDP_KINETO_GROUPS, text, ret_word) != NULL;
}

/* Each collective has another one, so a plain number is not kept as a text. */
static bool keep_seq(struct fsdp_vec *seqs, struct fsdp_kineto_words *words,
	const struct fsdp_json_value *value, uint32_t *ret_seq)
{
	int64_t number;
	uint32_t id;
	bool plain = value->kind == FSDP_SCAN_NUMBER && value->span.size < 10 &&
		     (value->span.data[0] > '0' || value->span.size == 1);
	if (plain && fsdp_decimal_integer(value->span, &number) && number >= 0) {
		*ret_seq = FSDP_COMM_NUMBER | (uint32_t)number;
		return true;
	}
	if (!keep(words, value, &id))
		return false;
	*ret_seq = 0;
	if (id == 0)
		return true;
	struct fsdp_span *seq = fsdp_vec_push(seqs);
	if (seq == NULL)
		return false;
	*seq = fsdp_kineto_words_text(words, id);
	*ret_seq = (uint32_t)seqs->count;
	return true;
}

/* Very many collectives have the same group and size: these are looked up as a word. */
static bool keep_sort(struct fsdp_vec *sorts, struct fsdp_kineto_words *words,
	const struct fsdp_kineto_args *args, uint32_t *ret_sort)
{
	int64_t group_size = FSDP_ABSENT;
	uint32_t group, description, ranks, id;
	fsdp_kineto_integer(&args->group_size, &group_size);
	if (!keep(words, &args->group, &group) ||
		!keep(words, &args->description, &description) ||
		!keep(words, &args->ranks, &ranks))
		return false;
	int64_t key[] = { group_size, group, description, ranks };
	uint32_t *index = fsdp_kineto_words_find(words, FSDP_KINETO_SORTS,
		fsdp_span((const unsigned char *)key, sizeof key), &id);
	if (index == NULL)
		return false;
	if (*index == 0) {
		struct fsdp_comm_sort *sort = fsdp_vec_push(sorts);
		if (sort == NULL)
			return false;
		*sort = (struct fsdp_comm_sort){ .group_size = group_size };
		if (group != 0)
			sort->group = fsdp_kineto_words_text(words, group);
		if (description != 0)
			sort->description = fsdp_kineto_words_text(words, description);
		if (ranks != 0)
			sort->ranks = fsdp_kineto_words_text(words, ranks);
		*index = (uint32_t)sorts->count;
	}
	*ret_sort = *index - 1;
	return true;
}

static int64_t bytes_of(const struct fsdp_json_value *elements, unsigned size)
{
	int64_t count, bytes;
	if (size == 0 || !fsdp_kineto_integer(elements, &count) || count < 0 ||
		__builtin_mul_overflow(count, (int64_t)size, &bytes))
		return FSDP_ABSENT;
	return bytes;
}

bool fsdp_kineto_describe(struct fsdp_collectives *all, struct fsdp_kineto_words *words,
	const struct fsdp_kineto_args *args, struct fsdp_comm *comm,
	int64_t *ret_bytes_out)
{
	struct fsdp_span dtype = { 0 };
	if (args->dtype.kind == FSDP_SCAN_TEXT &&
		!fsdp_kineto_words_read(words, &args->dtype, &dtype))
		return false;
	unsigned size = fsdp_element_size(dtype);
	comm->bytes = bytes_of(&args->in_elements, size);
	*ret_bytes_out = bytes_of(&args->out_elements, size);
	if (comm->type == FSDP_TIME_ALL_GATHER)
		comm->bytes = *ret_bytes_out;
	return keep_seq(&all->seqs, words, &args->seq, &comm->seq) &&
	       keep_sort(&all->sorts, words, args, &comm->sort);
}
