/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a stream of JSON tokens: strictly, where jansson must agree about what is
 * JSON, and leniently with going on after whatever is wrong. The first byte says how many
 * bytes come at a time, which must make no difference.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/num.h"
#include "syntax/json-template.h"

struct stream {
	struct fsdp_span bytes;
	size_t at, step;
};

static const struct fsdp_span keys[] = { FSDP_SPAN_INIT("ph"), FSDP_SPAN_INIT("ts"),
	{ 0 } };

static void require(bool good)
{
	if (!good)
		abort();
}

static bool refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct stream *stream = context;
	(void)ret_error;
	*ret_size = (size_t)fsdp_min(
		fsdp_min(size, stream->bytes.size - stream->at), stream->step);
	if (*ret_size != 0)
		memcpy(buffer, stream->bytes.data + stream->at, *ret_size);
	stream->at += *ret_size;
	return true;
}

static void look_at(const struct fsdp_json_token *token, uint64_t *digest)
{
	*digest = (*digest ^ token->kind ^ token->offset << 4) * 0x9e3779b97f4a7c15u;
	if (token->kind != FSDP_SCAN_KEY && token->kind != FSDP_SCAN_TEXT)
		return;
	unsigned char *text = malloc(token->span.size + 1);
	size_t size = fsdp_json_text(token->span, text);
	require(size <= token->span.size);
	require(!token->escaped || fsdp_json_text_is(token, fsdp_span(text, size)));
	*digest ^= size;
	free(text);
}

static const struct fsdp_span inner_keys[] = { FSDP_SPAN_INIT("a") };
static const struct fsdp_json_wanted wanted = {
	.keys = keys,
	.inner = inner_keys,
	.key_count = 2,
	.inner_count = 1,
	.inner_of = 1,
};
static const struct fsdp_json_wanted wanted_members = {
	.keys = keys,
	.key_count = 2,
	.members = true,
	.list_count = 1,
};

/* What the quick way says of a value is what the tokens say. */
static void compare(
	const struct fsdp_json_value *value, const struct fsdp_json_value *other)
{
	bool nested = other->kind == FSDP_SCAN_OBJECT || other->kind == FSDP_SCAN_ARRAY;
	require(value->kind == other->kind);
	if (value->kind == FSDP_SCAN_END || nested)
		return;
	require(value->escaped == other->escaped);
	require(value->span.size == other->span.size &&
		memcmp(value->span.data, other->span.data, other->span.size) == 0);
}

/* Reads an object by tokens again, which must take it. */
static void check(const struct fsdp_json_quick *quick, struct fsdp_span object)
{
	struct fsdp_json_value values[2] = { { 0 }, { 0 } };
	struct fsdp_limits limits;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	unsigned char *copy = calloc(1, object.size + FSDP_WINDOW_PADDING);
	memcpy(copy, object.data, object.size);
	fsdp_limits_init(&limits);
	fsdp_json_scan_over(&scan, fsdp_span(copy, object.size), &limits);
	require(fsdp_json_scan_next(&scan, &token, NULL));
	while (fsdp_json_scan_next(&scan, &token, NULL) && token.kind == FSDP_SCAN_KEY) {
		int place = fsdp_json_text_is(&token, keys[0])   ? 0
			    : fsdp_json_text_is(&token, keys[1]) ? 1
								 : -1;
		require(fsdp_json_scan_next(&scan, &token, NULL));
		if (place >= 0)
			values[place] = (struct fsdp_json_value){ token.kind,
				token.escaped, token.span };
		require(fsdp_json_scan_skip(&scan, &token, NULL));
	}
	require(token.kind == FSDP_SCAN_OBJECT_END);
	compare(&quick->values[0], &values[0]);
	compare(&quick->values[1], &values[1]);
	free(copy);
}

/* A list of counts, between brackets: what the quick way says of it. */
static void check_list(struct fsdp_json_scan *scan, const struct fsdp_json_list *list)
{
	struct fsdp_json_token token;
	int64_t count;
	for (size_t i = 0; i < list->size; i++) {
		require(fsdp_json_scan_next(scan, &token, NULL));
		require(token.kind == FSDP_SCAN_NUMBER &&
			fsdp_decimal_integer(token.span, &count) &&
			list->counts[i] == (uint64_t)count);
	}
	require(fsdp_json_scan_next(scan, &token, NULL) &&
		token.kind == FSDP_SCAN_ARRAY_END);
}

/* Reads a member by tokens, which must find the same in it. */
static void check_member(
	const struct fsdp_json_member *member, const struct fsdp_json_list *list)
{
	const unsigned char *begin = member->key.data - 1;
	size_t size = (size_t)(member->end - begin);
	unsigned char *copy = calloc(1, size + 2 + FSDP_WINDOW_PADDING);
	static const enum fsdp_json_token_kind kinds[] = { FSDP_SCAN_OBJECT,
		FSDP_SCAN_KEY, FSDP_SCAN_OBJECT, FSDP_SCAN_KEY, FSDP_SCAN_KEY,
		FSDP_SCAN_OBJECT_END, FSDP_SCAN_OBJECT_END, FSDP_SCAN_END };
	struct fsdp_limits limits;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	*copy = '{';
	memcpy(copy + 1, begin, size);
	copy[1 + size] = '}';
	fsdp_limits_init(&limits);
	fsdp_json_scan_over(&scan, fsdp_span(copy, size + 2), &limits);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		require(fsdp_json_scan_next(&scan, &token, NULL));
		require(token.kind == kinds[i]);
		if (i == 1)
			require(fsdp_span_equal(token.span, member->key));
		if (i != 3 && i != 4)
			continue;
		bool is_list = fsdp_json_text_is(&token, keys[0]);
		require(fsdp_json_scan_next(&scan, &token, NULL));
		if (is_list)
			check_list(&scan, list);
		else
			require(fsdp_span_equal(token.span, member->text));
	}
	free(copy);
}

/* The members of an object, for as long as each is plain. */
static void try_members(
	const struct fsdp_json_scan *scan, struct fsdp_json_quick *members)
{
	struct fsdp_json_scan ahead = *scan;
	struct fsdp_json_list list;
	struct fsdp_json_member member;
	while (fsdp_json_quick_member(members, &ahead, &list, &member)) {
		check_member(&member, &list);
		fsdp_json_quick_accept(&ahead, &member);
	}
}

/* Passes over an object, at once if that can be. */
static void pass(struct fsdp_json_scan *scan, struct fsdp_json_token *token,
	struct fsdp_json_quick *quick, struct fsdp_error **error)
{
	size_t at = scan->at;
	if (quick != NULL && fsdp_json_quick_object(quick, scan)) {
		check(quick, fsdp_span(scan->window.bytes + at - 1, scan->at - at + 1));
		token->kind = FSDP_SCAN_OBJECT_END;
	} else if (!fsdp_json_scan_skip(scan, token, error)) {
		require(*error != NULL);
	}
}

/* False: not JSON. */
static bool read_all(
	struct fsdp_span bytes, size_t step, bool lenient, bool quick, uint64_t *digest)
{
	struct stream stream = { bytes, 0, step };
	struct fsdp_limits limits;
	struct fsdp_json_scan scan;
	struct fsdp_json_token token = { .kind = FSDP_SCAN_NULL };
	struct fsdp_error *error = NULL;
	struct fsdp_json_quick *shapes = quick ? fsdp_json_quick_new(&wanted) : NULL;
	struct fsdp_json_quick *members =
		quick ? fsdp_json_quick_new(&wanted_members) : NULL;
	bool good = true, found = true;
	fsdp_limits_init(&limits);
	require(fsdp_json_scan_init(&scan, refill, &stream, &limits, NULL));
	scan.lenient = lenient;
	scan.event_keys = keys;
	scan.depth_limit = FSDP_SCAN_DEPTH; /* more than jansson has */
	while (good && found && token.kind != FSDP_SCAN_END) {
		good = fsdp_json_scan_next(&scan, &token, &error);
		require(good == (error == NULL) && (!lenient || good));
		if (good)
			look_at(&token, digest);
		if (good && token.kind == FSDP_SCAN_OBJECT && scan.depth == 2)
			pass(&scan, &token, shapes, &error);
		good = error == NULL;
		if (good && members != NULL)
			try_members(&scan, members);
		if (token.kind == FSDP_SCAN_CUT)
			break;
		if (token.kind == FSDP_SCAN_ARRAY && scan.depth <= 2)
			scan.events_depth = scan.depth;
		if (token.kind == FSDP_SCAN_BAD)
			require(scan.events_depth != 0
					? fsdp_json_scan_resync(&scan, &found, &error)
					: fsdp_json_scan_seek(
						  &scan, FSDP_SPAN("e"), &found, &error));
	}
	fsdp_json_quick_free(shapes);
	fsdp_json_quick_free(members);
	fsdp_json_scan_done(&scan);
	fsdp_error_free(error);
	return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	size_t step = data[0] == 0 ? 1 : data[0];
	struct fsdp_span bytes = fsdp_span(data + 1, size - 1);
	uint64_t digests[6] = { 0 };
	bool good = read_all(bytes, SIZE_MAX, false, false, &digests[0]);
	require(read_all(bytes, step, false, false, &digests[1]) == good);
	require(read_all(bytes, SIZE_MAX, false, true, &digests[2]) == good);
	read_all(bytes, SIZE_MAX, true, false, &digests[3]);
	read_all(bytes, step, true, false, &digests[4]);
	read_all(bytes, SIZE_MAX, true, true, &digests[5]);
	require(digests[0] == digests[1] && digests[0] == digests[2]);
	require(digests[3] == digests[4] && digests[3] == digests[5]);

	/* jansson wants UTF-8 and numbers that fit; what it takes, we take too. But it
	 * loses a zero byte behind a number. */
	if (bytes.size != 0 && memchr(bytes.data, 0, bytes.size) != NULL)
		return 0;
	json_t *document = json_loadb((const char *)bytes.data, bytes.size,
		JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	require(document == NULL || good);
	json_decref(document);
	return 0;
}
