/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors mapped by small maps: what comes out, and of which elements it is made.
 */
#include <stdio.h>

#include "folder-setup.h"

#include "base/error.h"
#include "base/arena.h"
#include "checkpoint/model.h"
#include "naming/naming.h"

enum { ITEMS_MOST = 32, DIMS_MOST = FSDP_DIMS_MAX, MADE_MOST = 128 << 10 };

/* ---- what goes in ---- */

struct setup {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_map *map;
	char words[1024];
	struct fsdp_mapped items[ITEMS_MOST];
	int64_t shapes[ITEMS_MOST][DIMS_MOST];
	size_t count;
};

/* `rows` are those of "tensors", with ' in place of ". */
static void open_map(struct setup *setup, const char *rows)
{
	char text[4096], path[512];
	struct fsdp_error *error = NULL;
	int size = snprintf(text, sizeof text,
		"{'fsdp_inspect_map': 1, 'sizes': {'kv': ['groups']}, 'tensors': [%s]}",
		rows);
	assert_in_range(size, 1, (int)sizeof text - 1);
	for (char *at = text; (at = strchr(at, '\'')) != NULL;)
		*at = '"';
	folder_write("map.json", text, (size_t)size);
	folder_path("map.json", path);
	if (!fsdp_map_open(NULL, path, NULL, 0, &setup->map, &error))
		fail_msg("%s", fsdp_error_message(error));
}

/* "name:2x3", of a rank "name:2x3@1", of another dtype "name:2x3@1!bfloat16". */
static void add_item(struct setup *setup, char *word)
{
	struct fsdp_mapped *item = &setup->items[setup->count];
	int64_t *shape = setup->shapes[setup->count];
	char *form = strchr(word, ':'), *dtype = strchr(word, '!'),
	     *rank = strchr(word, '@');
	*item = (struct fsdp_mapped){
		.name = fsdp_span(word, (size_t)(form - word)),
		.tensor = (uint32_t)setup->count++,
		.dtype = fsdp_dtype_find(
			fsdp_span_text(dtype != NULL ? dtype + 1 : "float32")),
		.shape = shape,
		.numel = 1,
		.own = rank != NULL,
	};
	if (rank != NULL)
		item->rank = (uint32_t)strtoul(rank + 1, NULL, 10);
	for (char *end = form; *end == ':' || *end == 'x'; item->dims++) {
		if (strchr("0123456789", end[1]) == NULL || end[1] == '\0')
			break;
		shape[item->dims] = strtoll(end + 1, &end, 10);
		item->numel *= (uint64_t)shape[item->dims];
	}
}

/* ---- what comes out ---- */

struct text {
	char *at, *end;
};

static void put(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct text *text, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	int size = vsnprintf(text->at, (size_t)(text->end - text->at), format, list);
	va_end(list);
	assert_in_range(size, 0, text->end - text->at - 1);
	text->at += size;
}

/* Runs of elements of one tensor: "3:4+2", the fifth and sixth element of tensor 3. */
struct runs {
	struct text *text;
	uint32_t tensor;
	uint64_t first, count, numel;
};

static void end_run(struct runs *runs)
{
	if (runs->count == 1)
		put(runs->text, " %u:%llu", runs->tensor, FSDP_LLU(runs->first));
	else if (runs->count != 0)
		put(runs->text, " %u:%llu+%llu", runs->tensor, FSDP_LLU(runs->first),
			FSDP_LLU(runs->count));
	runs->count = 0;
}

static void put_run(struct runs *runs, uint32_t tensor, uint64_t first, uint64_t count)
{
	if (tensor != runs->tensor || first != runs->first + runs->count)
		end_run(runs);
	if (runs->count == 0)
		runs->first = first;
	runs->tensor = tensor;
	runs->count += count;
	runs->numel += count;
}

static void put_turn(struct runs *runs, const struct fsdp_block *block, uint64_t turn)
{
	uint64_t before = runs->numel;
	for (size_t i = 0; i < block->count; i++) {
		const struct fsdp_strand *strand = &block->strands[i];
		for (uint64_t k = 0; k < strand->counts[0]; k++)
			for (uint64_t n = 0; n < strand->counts[1]; n++)
				put_run(runs, strand->tensor,
					strand->first + turn * strand->step +
						k * strand->steps[0] +
						n * strand->steps[1],
					strand->run);
	}
	assert_int_equal(runs->numel - before, block->turn_numel);
}

static void put_mapped(struct text *text, const struct fsdp_mapped *mapped)
{
	struct runs runs = { .text = text };
	put(text, "%.*s", FSDP_TEXT(mapped->name));
	for (uint32_t i = 0; i < mapped->dims; i++)
		put(text, "%c%lld", i == 0 ? ' ' : 'x', (long long)mapped->shape[i]);
	if (mapped->blocks == NULL)
		put(text, " %u%s", mapped->tensor, mapped->own ? " own" : "");
	for (size_t i = 0; i < mapped->block_count; i++)
		for (uint64_t turn = 0; turn < mapped->blocks[i].turns; turn++)
			put_turn(&runs, &mapped->blocks[i], turn);
	end_run(&runs);
	if (mapped->blocks != NULL)
		assert_int_equal(runs.numel, mapped->numel);
	put(text, "\n");
}

/* What becomes of items, a line each, or why not. */
static const char *mapped_by(const char *rows, const char *items, bool strict, bool back,
	char out[static MADE_MOST])
{
	static const struct fsdp_named_size given[] = {
		{ FSDP_SPAN_INIT("heads"), 4 },
		{ FSDP_SPAN_INIT("groups"), 2 },
		{ FSDP_SPAN_INIT("wide"), 4 },
		{ FSDP_SPAN_INIT("odd"), 3 },
	};
	const struct fsdp_map_sizes sizes = {
		.given = given,
		.given_count = FSDP_COUNT(given),
	};
	struct fsdp_limits limits;
	struct setup setup = { 0 };
	struct text text = { out, out + MADE_MOST };
	struct fsdp_error *error = NULL;
	struct fsdp_mapped *list;
	size_t count;
	fsdp_limits_init(&limits);
	fsdp_budget_init(&setup.budget, &limits);
	fsdp_budget_give(&setup.budget, 1 << 20);
	fsdp_arena_init(&setup.arena, &setup.budget);
	open_map(&setup, rows);
	setup.map->tables[0].back = back;
	snprintf(setup.words, sizeof setup.words, "%s", items);
	for (char *word = strtok(setup.words, " "); word != NULL;
		word = strtok(NULL, " "))
		add_item(&setup, word);
	if (fsdp_mapping_apply(setup.map, &sizes, setup.items, setup.count, strict,
		    &setup.arena, &list, &count, &error))
		for (size_t i = 0; i < count; i++)
			put_mapped(&text, &list[i]);
	else
		put(&text, "%s\n", fsdp_error_message(error));
	if (text.at == out)
		put(&text, "nothing\n");
	fsdp_error_free(error);
	fsdp_map_free(setup.map);
	fsdp_arena_done(&setup.arena);
	return out;
}

static void expect(const char *rows, const char *items, const char *expected)
{
	char out[MADE_MOST];
	assert_string_equal(mapped_by(rows, items, true, false, out), expected);
}

static void expect_lenient(const char *rows, const char *items, const char *expected)
{
	char out[MADE_MOST];
	assert_string_equal(mapped_by(rows, items, false, false, out), expected);
}

static void expect_back(const char *rows, const char *items, const char *expected)
{
	char out[MADE_MOST];
	assert_string_equal(mapped_by(rows, items, true, true, out), expected);
}

static void expect_lenient_back(const char *rows, const char *items, const char *expected)
{
	char out[MADE_MOST];
	assert_string_equal(mapped_by(rows, items, false, true, out), expected);
}

/* ---- slices of ranks ---- */

static const char *const of_ranks =
	"{'from': 'r', 'to': 'R', 'ranks': 0}, {'from': 'c', 'to': 'C', 'ranks': 1},"
	"{'from': 's', 'to': 'S', 'ranks': 'same'}, {'from': 'u', 'to': 'U'},"
	"{'from': 'w{i}', 'to': 'W{i}', 'ranks': 'wide'}, {'from': 'd', 'drop': true},"
	"{'from': 'q', 'to': 'R', 'ranks': 0, 'rotary': 'heads'},"
	"{'from': 'qs', 'to': 'QS', 'ranks': 'same', 'rotary': 'groups'},"
	"{'from': 'qc', 'to': 'QC', 'ranks': 1, 'rotary': 'heads'},"
	"{'from': 'l', 'to': 'L{i}', 'ranks': 0}, {'from': 'rc', 'to': 'R', 'ranks': 1}";

static void slices_are_joined(void **state)
{
	(void)state;
	/* Rows one behind the other, by rank and not by place. */
	expect(of_ranks, "r:2x3@1 r:2x3@0", "R 4x3 1:0+6 0:0+6\n");
	expect(of_ranks, "r:2@2 r:2@0 r:2@1", "R 6 1:0+2 2:0+2 0:0+2\n");
	expect(of_ranks, "r:1x2x2@0 r:1x2x2@1", "R 2x2x2 0:0+4 1:0+4\n");
	expect(of_ranks, "c:2x3@1 c:2x3@0", "C 2x6 1:0+3 0:0+3 1:3+3 0:3+3\n");
	expect(of_ranks, "c:3x1@0 c:3x1@1 c:3x1@2",
		"C 3x3 0:0 1:0 2:0 0:1 1:1 2:1 0:2 1:2 2:2\n");
	/* Of what all have the first is taken, of any form. */
	expect(of_ranks, "s:5@1 s:5@0", "S 5 1\n");
	expect(of_ranks, "s:@0 s:@1", "S 0\n");
	expect(of_ranks, "s:0x2@0 s:0x2@1", "S 0x2 0\n");
	/* By the columns of the whole. */
	expect(of_ranks, "w1:3x4@0 w1:3x4@1", "W1 6x4 0:0+12 1:0+12\n");
	expect(of_ranks, "w12:1x2@0 w12:1x2@1", "W12 1x4 0:0+2 1:0+2\n");
	/* What is joined stands where the slice of rank 0 stood. */
	expect(of_ranks, "s:1@1 c:1x1@0 r:1@0 c:1x1@1 s:1@0 r:1@1",
		"C 1x2 1:0 3:0\nR 2 2:0 5:0\nS 1 4\n");
	expect(of_ranks, "d:3@0 d:4@1 r:1@0 r:1@1", "R 2 2:0 3:0\n");
	expect(of_ranks, "d:3@0 d:4@1", "nothing\n");
	/* Heads of a rank are its share of all. */
	expect(of_ranks, "q:8x1@0 q:8x1@1",
		"R 16x1 0:0 0:2 0:1 0:3+2 0:6 0:5 0:7 1:0 1:2 1:1 1:3+2 1:6 1:5 1:7\n");
	expect(of_ranks, "q:4x1@0 q:4x1@1 q:4x1@2 q:4x1@3",
		"R 16x1 0:0 0:2 0:1 0:3 1:0 1:2 1:1 1:3 2:0 2:2 2:1 2:3 3:0 3:2 3:1 3:3\n");
	expect(of_ranks, "q:8x1@0 r:8x1@1",
		"R 16x1 0:0 0:2 0:1 0:3+2 0:6 0:5 0:7 1:0+8\n");
	expect(of_ranks, "r:8x1@0 q:8x1@1",
		"R 16x1 0:0+8 1:0 1:2 1:1 1:3+2 1:6 1:5 1:7\n");
	expect(of_ranks, "qs:8@0 qs:8@1", "QS 8 0:0 0:2 0:1 0:3+2 0:6 0:5 0:7\n");
	/* Layers apart, each joined. */
	expect(of_ranks, "l:2x2x2@0 l:2x2x2@1",
		"L0 4x2 0:0+4 1:0+4\nL1 4x2 0:4+4 1:4+4\n");
	/* Beside what is no slice. */
	expect(of_ranks, "u:7 r:1@0 r:1@1", "U 7 0\nR 2 1:0 2:0\n");
	expect(of_ranks, "r:7 c:1x1@0 c:1x1@1", "R 7 0\nC 1x2 1:0 2:0\n");
	/* One rank has all. */
	expect(of_ranks, "r:7@0 c:1x2@0 w0:2x4@0 u:3@0 q:16x1@0",
		"R does not have one slice per rank\n");
	expect(of_ranks, "r:7@0 c:1x2@0 w0:2x4@0 u:3@0 s:@0",
		"R 7 0\nC 1x2 1\nW0 2x4 2\nU 3 3 own\nS 4\n");
	expect(of_ranks, "q:16x1@0",
		"R 16x1 0:0 0:2 0:1 0:3+2 0:6 0:5 0:7+2 0:10 0:9 0:11+2 0:14 0:13 0:15\n");
}

static void other_slices_are_refused(void **state)
{
	(void)state;
	static const char *const lacks = "R does not have one slice per rank\n";
	expect(of_ranks, "r:1@1", lacks);
	expect(of_ranks, "r:1@0 c:1x1@0 c:1x1@1", lacks);
	expect(of_ranks, "r:1@0 r:1@2", lacks);
	expect(of_ranks, "r:1@0 r:1@0", lacks);
	expect(of_ranks, "r:1@1 r:1@1", lacks);
	expect(of_ranks, "r:1@0 r:1@0 r:1@2", lacks);
	expect(of_ranks, "r:1@0 r:1@1 r:1@1", lacks);
	expect(of_ranks, "s:1@0 s:1@2", "S does not have one slice per rank\n");
	static const char *const other = "R has another form in another rank\n";
	expect(of_ranks, "r:2@0 r:2@1!bfloat16", other);
	expect(of_ranks, "r:2@0 r:3@1", other);
	expect(of_ranks, "r:2@0 r:2x1@1", other);
	expect(of_ranks, "r:2x1@0 r:2x1@1 r:2x2@2", other);
	expect(of_ranks, "r:2@0 r:3@1 r:2@2", other);
	expect(of_ranks, "r:@0 r:1@1", other);
	expect(of_ranks, "r:1x1@0 rc:1x1@1", other);
	expect(of_ranks, "s:1@0 s:2@1", "S has another form in another rank\n");
	static const char *const cannot = "C cannot be joined by the map\n";
	expect(of_ranks, "c:2@0 c:2@1", cannot);
	expect(of_ranks, "c:2x1x1@0 c:2x1x1@1", cannot);
	expect(of_ranks, "c:2x0@0 c:2x0@1", cannot);
	expect(of_ranks, "r:@0 r:@1", "R cannot be joined by the map\n");
	expect(of_ranks, "r:0x2@0 r:0x2@1", "R cannot be joined by the map\n");
	expect(of_ranks, "qc:8x1@0 qc:8x1@1", "QC cannot be joined by the map\n");
	/* Up to 2^63 - 1 elements. */
	expect(of_ranks, "c:1x4611686018427387904@0 c:1x4611686018427387904@1",
		"C is larger than any tensor\n");
	expect(of_ranks, "c:1x9223372036854775807@0 c:1x9223372036854775807@1",
		"C is larger than any tensor\n");
	expect(of_ranks, "c:1x4611686018427387903@0 c:1x4611686018427387903@1",
		"C 1x9223372036854775806 0:0+4611686018427387903 1:0+4611686018427387903\n");
	char large[512] = "", joined[512], *at = large;
	for (int rank = 0; rank < 7; rank++)
		at += sprintf(at, "c:1x1317624576693539401@%d ", rank);
	at = joined + sprintf(joined, "C 1x9223372036854775807");
	for (int rank = 0; rank < 7; rank++)
		at += sprintf(at, " %d:0+1317624576693539401", rank);
	strcpy(at, "\n");
	expect(of_ranks, large, joined);
	/* Each file of a rank is needed to know the columns. */
	expect(of_ranks, "w0:3x2@0",
		"w0 has 2 columns in each rank (ranks: 1) and needs 4 in all: files of ranks are missing\n");
	expect(of_ranks, "w0:3x1@0 w0:3x1@1",
		"w0 has 1 columns in each rank (ranks: 2) and needs 4 in all: files of ranks are missing\n");
	expect(of_ranks, "w0:3x3@0 w0:3x3@1",
		"w0 has 3 columns in each rank (ranks: 2) and needs 4 in all: files of ranks are missing\n");
	expect(of_ranks, "w0:3x0@0 w0:3x0@1",
		"w0 has 0 columns in each rank (ranks: 2) and needs 4 in all: files of ranks are missing\n");
	expect(of_ranks, "w0:4@0 w0:4@1 w0:4@2 w0:4@3",
		"w0 has 0 columns in each rank (ranks: 4) and needs 4 in all: files of ranks are missing\n");
	expect(of_ranks, "w0:4@0 w0:4@1",
		"w0 has 0 columns in each rank (ranks: 2) and needs 4 in all: files of ranks are missing\n");
	/* Heads that ranks do not share evenly, and what no row says. */
	expect(of_ranks, "q:8x1@0 q:8x1@1 q:8x1@2",
		"q cannot be split by the map: its rows cannot be divided\n");
	expect(of_ranks, "u:3@0 u:3@1", "the map does not define how ranks share u\n");
	expect_lenient(of_ranks, "u:3@0 u:3@1", "u 3 0 own\nu 3 1 own\n");
	expect_lenient(of_ranks, "w0:3x2@0 x:1@0", "w0 3x2 0 own\nx 1 1 own\n");
}

/* ---- whole tensors ---- */

static const char *const of_wholes =
	"{'from': 'a{i}.{j}', 'to': 'A{j}.{i}'}, {'from': 'gone', 'drop': true},"
	"{'from': 'g{i}', 'to': ['G{i}q', 'G{i}k', 'G{i}v'], 'groups': 'kv',"
	" 'parts': ['heads/kv', 1, 1]},"
	"{'from': 'o', 'to': 'O', 'groups': 2, 'parts': [1, 2]},"
	"{'from': 't', 'to': 'T', 'transpose': true},"
	"{'from': 'tp', 'to': 'TP', 'groups': 2, 'parts': [1, 1], 'transpose': true},"
	"{'from': 'two', 'to': ['X', 'Y'], 'transpose': true},"
	"{'from': 'st', 'to': 'S{i}'}, {'from': 'st{i}', 'to': 'S{i}.{j}'},"
	"{'from': 'both', 'to': 'B{i}.{j}'}, {'from': 'e', 'to': 'E{i}', 'stack': 2},"
	"{'from': 'et', 'to': 'ET{i}', 'stack': 'kv', 'transpose': true},"
	"{'from': 'q', 'to': 'Q', 'rotary': 'heads'},"
	"{'from': 'm', 'to': ['M{i}x', 'M{i}y']},"
	"{'from': 'odd', 'to': 'ODD', 'rotary': 'odd'},"
	"{'from': 'em', 'to': 'EM{i}', 'stack': 4096}, {'from': 'en', 'to': 'EN{i}', 'stack': 4097},"
	"{'from': 'big', 'to': 'BIG', 'groups': 4294967296, 'parts': [4294967295, 1]},"
	"{'from': 'n', 'to': 'N', 'rotary': 'nowhere'},"
	"{'from': '{i}.x', 'to': '{i}.X'}, {'from': 'z{', 'to': 'Z{i'}, {'from': 'y{k}{i)', 'to': 'Y{j{'}";

static void wholes_are_cut(void **state)
{
	(void)state;
	expect(of_wholes, "a1.23:2x3 a0.0:", "A23.1 2x3 0\nA0.0 1\n");
	expect(of_wholes, "gone:3", "nothing\n");
	/* Of each of two groups two shares, one, and one. */
	expect(of_wholes, "g7:8x1",
		"G7q 4x1 0:0+2 0:4+2\nG7k 2x1 0:2 0:6\nG7v 2x1 0:3 0:7\n");
	expect(of_wholes, "g0:16x2",
		"G0q 8x2 0:0+8 0:16+8\nG0k 4x2 0:8+4 0:24+4\nG0v 4x2 0:12+4 0:28+4\n");
	expect(of_wholes, "g0:8", "G0q 4 0:0+2 0:4+2\nG0k 2 0:2 0:6\nG0v 2 0:3 0:7\n");
	expect(of_wholes, "o:6x2", "O 6x2 0:0+2 0:6+2 0:2+4 0:8+4\n");
	expect(of_wholes, "t:2x3", "T 3x2 0:0 0:3 0:1 0:4 0:2 0:5\n");
	expect(of_wholes, "t:3", "T 3 0\n");
	expect(of_wholes, "t:1x2x2", "T 1x2x2 0\n");
	expect(of_wholes, "tp:4x2", "TP 2x4 0:0 0:4 0:2 0:6 0:1 0:5 0:3 0:7\n");
	expect(of_wholes, "tp:4", "TP 4 0:0 0:2 0:1 0:3\n");
	expect(of_wholes, "two:4x2", "X 2x2 0:0 0:2 0:1 0:3\nY 2x2 0:4 0:6 0:5 0:7\n");
	/* Layers and experts. */
	expect(of_wholes, "st:2x3", "S0 3 0:0+3\nS1 3 0:3+3\n");
	expect(of_wholes, "st:2", "S0 0:0\nS1 0:1\n");
	expect(of_wholes, "st5:2x1", "S5.0 1 0:0\nS5.1 1 0:1\n");
	expect(of_wholes, "both:2x3x1",
		"B0.0 1 0:0\nB0.1 1 0:1\nB0.2 1 0:2\n"
		"B1.0 1 0:3\nB1.1 1 0:4\nB1.2 1 0:5\n");
	expect(of_wholes, "e:6x2", "E0 3x2 0:0+6\nE1 3x2 0:6+6\n");
	expect(of_wholes, "e:0x2", "E0 0x2\nE1 0x2\n");
	expect(of_wholes, "st:1x2!uint8", "S0 2 0:0+2\n");
	expect(of_wholes, "et:4x2", "ET0 2x2 0:0 0:2 0:1 0:3\nET1 2x2 0:4 0:6 0:5 0:7\n");
	expect(of_wholes, "m:2x4",
		"M0x 2 0:0+2\nM0y 2 0:2+2\nM1x 2 0:4+2\nM1y 2 0:6+2\n");
	/* Pairs of rows become two halves of a head. */
	expect(of_wholes, "q:24x1",
		"Q 24x1 0:0 0:2 0:4 0:1 0:3 0:5+2 0:8 0:10 0:7 0:9 0:11+2 0:14 0:16 0:13 0:15 "
		"0:17+2 0:20 0:22 0:19 0:21 0:23\n");
	expect(of_wholes, "q:16x2!bfloat16",
		"Q 16x2 0:0+2 0:4+2 0:2+2 0:6+4 0:12+2 0:10+2 0:14+4 0:20+2 0:18+2 0:22+4 "
		"0:28+2 0:26+2 0:30+2\n");
	/* As many layers as there may be. */
	char out[MADE_MOST];
	mapped_by(of_wholes, "em:4096", true, false, out);
	assert_int_equal(strncmp(out, "EM0 1 0:0\nEM1 1 0:1\n", 20), 0);
	assert_non_null(strstr(out, "\nEM4094 1 0:4094\nEM4095 1 0:4095\n"));
	/* Names are taken as they are, numbers too, and what is no {i} and no {j}. */
	expect(of_wholes, "z{:1 y{k}{i):1", "Z{i 1 0\nY{j{ 1 1\n");
	expect(of_wholes, "a01.2:1", "A2.01 1 0\n");
}

static void other_wholes_are_refused(void **state)
{
	(void)state;
	static const char *const refused[] = { "g0:9x1", "g0:4x1", "g0:", "g0:0x4", "o:4",
		"st:", "st:0x3", "both:2", "e:3x1", "e:1", "e:", "st:4097x1",
		"st:2x2!quint4x2", "q:4x1", "q:12x1", "q:6x1", "q:0x1", "odd:4x1",
		"en:4097", "big:8" };
	for (size_t i = 0; i < FSDP_COUNT(refused); i++) {
		char why[256], kept[256], items[64];
		size_t name = strcspn(refused[i], ":");
		size_t shape = strcspn(refused[i] + name + 1, "!");
		snprintf(why, sizeof why,
			"%.*s cannot be split by the map: its rows cannot be divided\n",
			(int)name, refused[i]);
		expect(of_wholes, refused[i], why);
		/* It stays as it is, and nothing made of it is left over. */
		snprintf(items, sizeof items, "%s t:1", refused[i]);
		snprintf(kept, sizeof kept, "%.*s%s%.*s 0\nT 1 1\n", (int)name,
			refused[i], shape != 0 ? " " : "", (int)shape,
			refused[i] + name + 1);
		expect_lenient(of_wholes, items, kept);
	}
	expect(of_wholes, "t:1 other:1", "the map has no row for other\n");
	expect(of_wholes, "a1.x:1", "the map has no row for a1.x\n");
	expect(of_wholes, "a1.:1", "the map has no row for a1.\n");
	expect(of_wholes, "a1.2x:1", "the map has no row for a1.2x\n");
	expect(of_wholes, "t1:1", "the map has no row for t1\n");
	static const char *const unknown =
		"the map needs nowhere, which no configuration next to the checkpoint contains\n";
	expect(of_wholes, "n:2", unknown);
	expect_lenient(of_wholes, "n:2", unknown);
	char name[202], items[256], why[256];
	memset(name, 'x', 201);
	name[201] = '\0';
	snprintf(items, sizeof items, "%s:1", name);
	snprintf(why, sizeof why, "the map has no row for %.200s\n", name);
	expect(of_wholes, items, why);
}

static void parts_are_joined(void **state)
{
	(void)state;
	expect_back(of_wholes, "A23.1:2x3 A0.0:", "a1.23 2x3 0\na0.0 1\n");
	expect_back(of_wholes, "7.X:1 8.X:1", "7.x 1 0\n8.x 1 1\n");
	expect_back(of_wholes, "Z{i:1 Y{j{:1", "z{ 1 0\ny{k}{i) 1 1\n");
	/* In each group a share of each; the whole stands where the first part did. */
	expect_back(of_wholes, "G7v:2x1 T:1 G7q:4x1 G7k:2x1",
		"t 1 1\ng7 8x1 2:0+2 3:0 0:0 2:2+2 3:1 0:1\n");
	expect_back(of_wholes, "G0q:8x2 G0k:4x2 G0v:4x2 G1q:4 G1k:2 G1v:2",
		"g0 16x2 0:0+8 1:0+4 2:0+4 0:8+8 1:4+4 2:4+4\n"
		"g1 8 3:0+2 4:0 5:0 3:2+2 4:1 5:1\n");
	expect_back(of_wholes, "O:6x2", "o 6x2 0:0+2 0:4+4 0:2+2 0:8+4\n");
	expect_back(of_wholes, "T:3x2", "t 2x3 0:0 0:2 0:4 0:1 0:3 0:5\n");
	expect_back(of_wholes, "T:3", "t 3 0\n");
	expect_back(of_wholes, "TP:2x4", "tp 4x2 0:0 0:4 0:2 0:6 0:1 0:5 0:3 0:7\n");
	expect_back(of_wholes, "TP:4", "tp 4 0:0 0:2 0:1 0:3\n");
	expect_back(of_wholes, "Y:3x2 X:3x2",
		"two 4x3 1:0 1:2 1:4 1:1 1:3 1:5 0:0 0:2 0:4 0:1 0:3 0:5\n");
	/* Of those that have a number in common, too. */
	expect_back(of_wholes, "G0q:4 S0.0:2 G0k:2 S0.1:2 G0v:2",
		"g0 8 0:0+2 2:0 4:0 0:2+2 2:1 4:1\nst0 2x2 1:0+2 3:0+2\n");
	expect_back(of_wholes, "A1.5:1 A2.5:1 A2.6:1", "a5.1 1 0\na5.2 1 1\na6.2 1 2\n");
	/* Layers and experts, in any order. */
	expect_back(of_wholes, "S1:3 S0:3", "st 2x3 1:0+3 0:0+3\n");
	expect_back(of_wholes, "S0:3", "st 1x3 0:0+3\n");
	expect_back(
		of_wholes, "S5.1:1 S5.0:1 S4.0:2", "st5 2x1 1:0 0:0\nst4 1x2 2:0+2\n");
	expect_back(
		of_wholes, "S4.0:2 S5.1:1 S5.0:1", "st4 1x2 0:0+2\nst5 2x1 2:0 1:0\n");
	expect_back(of_wholes, "B1.2:1 B1.1:1 B1.0:1 B0.2:1 B0.1:1 B0.0:1",
		"both 2x3x1 5:0 4:0 3:0 2:0 1:0 0:0\n");
	expect_back(of_wholes, "E1:3x2 E0:3x2", "e 6x2 1:0+6 0:0+6\n");
	expect_back(
		of_wholes, "ET0:2x2 ET1:2x2", "et 4x2 0:0 0:2 0:1 0:3 1:0 1:2 1:1 1:3\n");
	expect_back(
		of_wholes, "M1y:2 M0x:2 M1x:2 M0y:2", "m 2x4 1:0+2 3:0+2 2:0+2 0:0+2\n");
	expect_back(of_wholes, "S10:1 S9:1 S8:1 S7:1 S6:1 S5:1 S4:1 S3:1 S2:1 S1:1 S0:1",
		"st 11x1 10:0 9:0 8:0 7:0 6:0 5:0 4:0 3:0 2:0 1:0 0:0\n");
	char large[512] = "", joined[512], *at = large;
	for (int layer = 0; layer < 7; layer++)
		at += sprintf(at, "S%d:1317624576693539401 ", layer);
	at = joined + sprintf(joined, "st 7x1317624576693539401");
	for (int layer = 0; layer < 7; layer++)
		at += sprintf(at, " %d:0+1317624576693539401", layer);
	strcpy(at, "\n");
	expect_back(of_wholes, large, joined);
	/* Two halves of a head become pairs of rows. */
	expect_back(of_wholes, "Q:24x1",
		"q 24x1 0:0 0:3 0:1 0:4 0:2 0:5+2 0:9 0:7 0:10 0:8 0:11+2 0:15 0:13 0:16 0:14 "
		"0:17+2 0:21 0:19 0:22 0:20 0:23\n");
	expect_back(of_wholes, "Q:16x2",
		"q 16x2 0:0+2 0:4+2 0:2+2 0:6+4 0:12+2 0:10+2 0:14+4 0:20+2 0:18+2 0:22+4 "
		"0:28+2 0:26+2 0:30+2\n");
}

static void other_parts_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *items, *why, *kept;
	} refused[] = {
		{ "G0q:4 G0k:2",
			"G0q cannot be joined by the map: other parts of g{i} lack\n",
			"G0q 4 0\nG0k 2 1\n" },
		{ "G0k:2 G0v:2",
			"G0k cannot be joined by the map: other parts of g{i} lack\n",
			"G0k 2 0\nG0v 2 1\n" },
		{ "G0q:4 G0k:2 G0k:2",
			"G0q cannot be joined by the map: other parts of g{i} lack\n",
			"G0q 4 0\nG0k 2 1\nG0k 2 2\n" },
		{ "G0q:4 G0k:2 G1v:2",
			"G0q cannot be joined by the map: other parts of g{i} lack\n",
			"G0q 4 0\nG0k 2 1\nG1v 2 2\n" },
		{ "S0:1 S2:1", "S0 cannot be joined by the map: other parts of st lack\n",
			"S0 1 0\nS2 1 1\n" },
		{ "S0:1 S0:1 S2:1",
			"S0 cannot be joined by the map: other parts of st lack\n",
			"S0 1 0\nS0 1 1\nS2 1 2\n" },
		{ "S1:1 S1:1", "S1 cannot be joined by the map: other parts of st lack\n",
			"S1 1 0\nS1 1 1\n" },
		{ "B0.0:1 B0.0:1 B1.0:1 B1.1:1",
			"B0.0 cannot be joined by the map: other parts of both lack\n",
			"B0.0 1 0\nB0.0 1 1\nB1.0 1 2\nB1.1 1 3\n" },
		{ "B0.0:1 B0.1:1 B0.0:1 B1.1:1",
			"B0.0 cannot be joined by the map: other parts of both lack\n",
			"B0.0 1 0\nB0.1 1 1\nB0.0 1 2\nB1.1 1 3\n" },
		{ "S0:4611686018427387904 S1:4611686018427387904",
			"S0 cannot be split by the map: its rows cannot be divided\n",
			"S0 4611686018427387904 0\nS1 4611686018427387904 1\n" },
		{ "S0:9223372036854775807 S1:9223372036854775807 S2:9223372036854775807",
			"S0 cannot be split by the map: its rows cannot be divided\n",
			"S0 9223372036854775807 0\nS1 9223372036854775807 1\nS2 9223372036854775807 2\n" },
		{ "S1:1", "S1 cannot be joined by the map: other parts of st lack\n",
			"S1 1 0\n" },
		{ "S4096:1",
			"S4096 cannot be joined by the map: other parts of st lack\n",
			"S4096 1 0\n" },
		{ "B0.0:1 B0.1:1 B1.0:1",
			"B0.0 cannot be joined by the map: other parts of both lack\n",
			"B0.0 1 0\nB0.1 1 1\nB1.0 1 2\n" },
		{ "B0.0:1 B0.2:1 B1.0:1 B1.1:1",
			"B0.0 cannot be joined by the map: other parts of both lack\n",
			"B0.0 1 0\nB0.2 1 1\nB1.0 1 2\nB1.1 1 3\n" },
		{ "G0q:6 G0k:6 G0v:4",
			"G0q cannot be split by the map: its rows cannot be divided\n",
			"G0q 6 0\nG0k 6 1\nG0v 4 2\n" },
		{ "G0q:4 G0k:3 G0v:1",
			"G0k cannot be split by the map: its rows cannot be divided\n",
			"G0q 4 0\nG0k 3 1\nG0v 1 2\n" },
		{ "G0q:4 G0k:2 G0v:3",
			"G0q cannot be split by the map: its rows cannot be divided\n",
			"G0q 4 0\nG0k 2 1\nG0v 3 2\n" },
		{ "G0q:4x1 G0k:2x1 G0v:2x2",
			"G0v cannot be split by the map: its rows cannot be divided\n",
			"G0q 4x1 0\nG0k 2x1 1\nG0v 2x2 2\n" },
		{ "G0q:4x1 G0k:2x1 G0v:2",
			"G0v cannot be split by the map: its rows cannot be divided\n",
			"G0q 4x1 0\nG0k 2x1 1\nG0v 2 2\n" },
		{ "G0q:4 G0k:2!bfloat16 G0v:2",
			"G0k cannot be split by the map: its rows cannot be divided\n",
			"G0q 4 0\nG0k 2 1\nG0v 2 2\n" },
		{ "G0q:4 G0k:2 G0v:0",
			"G0v cannot be split by the map: its rows cannot be divided\n",
			"G0q 4 0\nG0k 2 1\nG0v 0 2\n" },
		{ "S0:2 S1:3",
			"S0 cannot be split by the map: its rows cannot be divided\n",
			"S0 2 0\nS1 3 1\n" },
		{ "S0:2x1 S1:2x2",
			"S0 cannot be split by the map: its rows cannot be divided\n",
			"S0 2x1 0\nS1 2x2 1\n" },
		{ "Q:12x1", "Q cannot be split by the map: its rows cannot be divided\n",
			"Q 12x1 0\n" },
		{ "other:1", "the map has no row for other\n", "other 1 0\n" },
		{ "S01:1", "the map has no row for S01\n", "S01 1 0\n" },
		{ "A1000000000.0:1", "the map has no row for A1000000000.0\n",
			"A1000000000.0 1 0\n" },
	};
	for (size_t i = 0; i < FSDP_COUNT(refused); i++) {
		expect_back(of_wholes, refused[i].items, refused[i].why);
		expect_lenient_back(of_wholes, refused[i].items, refused[i].kept);
	}
	expect_back(of_wholes, "A999999999.0:1", "a0.999999999 1 0\n");
	/* The layers are one more dimension, of at most 64. */
	char ones[2 * FSDP_DIMS_MAX], items[256], made[256];
	for (size_t i = 0; i < sizeof ones; i++)
		ones[i] = i % 2 == 0 ? '1' : 'x';
	snprintf(items, sizeof items, "S0:%.*s", 2 * FSDP_DIMS_MAX - 3, ones);
	snprintf(made, sizeof made, "st %.*s 0:0\n", 2 * FSDP_DIMS_MAX - 1, ones);
	expect_back(of_wholes, items, made);
	snprintf(items, sizeof items, "S0:%.*s", 2 * FSDP_DIMS_MAX - 1, ones);
	expect_back(of_wholes, items,
		"st cannot be split by the map: its rows cannot be divided\n");
	/* What fits is joined beside what does not. */
	expect_lenient_back(
		of_wholes, "x:1 S1:1 Q:12x1 S0:1", "x 1 0\nQ 12x1 2\nst 2x1 3:0 1:0\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			slices_are_joined, folder_begin, folder_end),
		cmocka_unit_test_setup_teardown(
			other_slices_are_refused, folder_begin, folder_end),
		cmocka_unit_test_setup_teardown(wholes_are_cut, folder_begin, folder_end),
		cmocka_unit_test_setup_teardown(
			other_wholes_are_refused, folder_begin, folder_end),
		cmocka_unit_test_setup_teardown(
			parts_are_joined, folder_begin, folder_end),
		cmocka_unit_test_setup_teardown(
			other_parts_are_refused, folder_begin, folder_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
