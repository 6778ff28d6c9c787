/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include "render/record.h"

struct call {
	int64_t number;
	struct text name;
};

struct thing {
	bool good;
	uint32_t id, flags, dims;
	uint64_t count, bytes;
	int64_t rank, ns, pair[2];
	const char *word;
	struct text name;
	const int64_t *shape;
	const struct call *calls;
	size_t call_count;
	uint32_t few;
	int maybe;
	double number;
	struct call inner;
	const struct call *elsewhere;
};

static const struct thing nothing = { .id = UINT32_MAX,
	.count = UINT64_MAX,
	.bytes = UINT64_MAX,
	.rank = INT64_MIN,
	.ns = INT64_MIN,
	.maybe = -1,
	.pair = { 7, INT64_MIN } };

static const struct column call_fields[] = {
	{ "name", NAME_AT(struct call, name) },
	{ "number", INTEGER_AT(struct call, number) },
};
static const struct record call = RECORD(struct call, call_fields, NULL, NULL);
static const struct record pair = RECORD_OF(RECORD_TUPLE, struct call,
	{ NULL, NAME_AT(struct call, name) }, { NULL, INTEGER_AT(struct call, number) });

static struct value get_twice(struct subject of)
{
	const struct thing *thing = of.object;

	(*(unsigned *)of.context)++;
	return value_count(thing->count * 2);
}

static bool is_good(struct subject of)
{
	return ((const struct thing *)of.object)->good;
}

/* As many as count says, made one by one. */
static const void *each_number(struct subject of, size_t i, void *room)
{
	int64_t *number = room;

	*number = (int64_t)i * 10;
	return i < ((const struct thing *)of.object)->count ? number : NULL;
}

static const struct column thing_fields[] = {
	{ "name", NAME_AT(struct thing, name), .sort = SORT_ROW },
	{ "good", BOOL_AT(struct thing, good) },
	{ "id", ID_AT(struct thing, id), .null = true },
	{ "odd", FLAG_AT(struct thing, flags, 4) },
	{ "count", COUNT_AT(struct thing, count), .sort = SORT_SHOWN },
	{ "bytes", BYTES_AT(struct thing, bytes), .sort = SORT_SHOWN, .reads = true },
	{ "rank", INTEGER_AT(struct thing, rank), .machine_only = 1, .sort = SORT_MEMBER,
		.sort_at = offsetof(struct thing, id) },
	{ "ns", NS_AT(struct thing, ns), .label = "took ms" },
	{ "word", WORD_AT(struct thing, word) },
	{ "shape", SHAPE_AT(struct thing, shape, dims), IF_SET(struct thing, shape) },
	{ "twice", GET(FIELD_COUNT, get_twice), .machine_only = 2, .text_only = 1 },
	{ NULL, FIELDS_AT(struct thing, inner, call) },
};
static const struct record thing = RECORD(struct thing, thing_fields, NULL, NULL);

static struct value find_name(struct subject of, uint32_t id)
{
	(void)of;
	return value_word(id == 2 ? "two" : "another");
}

/* The call that an id stands for, made in room. */
static const void *find_call(struct subject of, size_t id, void *room)
{
	struct call *made = room;

	(void)of;
	*made = (struct call){ (int64_t)id, { "made", 4 } };
	return made;
}

static bool is_bad(struct subject of)
{
	return !is_good(of);
}

static const struct record id =
	RECORD_OF(RECORD_OBJECT, struct thing, { "id", ID_AT(struct thing, id) });
static const struct record id_or_call =
	RECORD_OF(RECORD_ONE_OF, struct thing, { NULL, OBJECT(id), .has = is_good },
		{ NULL, OBJECT_AT(struct thing, inner, call), .has = is_bad });

static const void *each_up_to(struct subject of, size_t i, void *room)
{
	uint32_t end = *(const uint32_t *)of.object;
	int64_t *number = room;

	*number = (int64_t)i;
	return end != UINT32_MAX && i < end ? number : NULL;
}

static const void *find_thing(struct subject of, size_t i, void *room)
{
	struct thing *made = room;

	(void)of;
	*made = nothing;
	made->good = i == 0;
	made->id = 7;
	return made;
}

static const struct column made_fields[] = {
	{ "found", FOUND_AT(struct thing, id, FIELD_TEXT, find_name) },
	{ "made", MADE_AT(struct thing, id, find_call, call), .null = true },
	{ "up_to_id", EACH_AT(struct thing, id, each_up_to, record_integers) },
	{ "found_few", EACH_OF(struct thing, few, find_thing, id) },
	{ "few", LIST_AT(struct thing, calls, few, pair) },
	{ "by_name", MAP_AT(struct thing, calls, few, call) },
	{ "if_word", OBJECT(id), IF_SET(struct thing, word), .null = true },
	{ "maybe", MAYBE_AT(struct thing, maybe) },
	{ "number", NUMBER_AT(struct thing, number), IF_SET(struct thing, word) },
	{ "for_people", BOOL_AT(struct thing, good), .text_only = EVERY_VIEW },
	{ "things", EACH_ITEM(struct thing, call_count, find_thing, id_or_call) },
	{ "elsewhere", ROWS(call) },
	{ "items_elsewhere", ITEMS(call) },
};
static const struct record made = RECORD(struct thing, made_fields, NULL, NULL);

static const struct column nested_fields[] = {
	{ "calls", LIST_AT(struct thing, calls, call_count, call) },
	{ "pairs", LIST_AT(struct thing, calls, call_count, pair) },
	{ "by_name", MAP_AT(struct thing, calls, call_count, call) },
	{ "pair", ARRAY_AT(struct thing, pair, record_integers_or_null) },
	{ "each", EACH(each_number, record_integers) },
	{ "inner", OBJECT_AT(struct thing, inner, call), .has = is_good, .null = true },
	{ "left_out", OBJECT_AT(struct thing, inner, call), .has = is_good },
	{ NULL, POINTED_AT(struct thing, elsewhere, call) },
};
static const struct record nested = RECORD(struct thing, nested_fields, NULL, NULL);

static void assert_object(
	const struct record *record, const struct thing *object, const char *expected)
{
	struct out_header header = header_of("x");
	struct out_footer footer = { 0 };
	struct capture capture;
	unsigned asked = 0;

	capture_open(&capture, "json", (struct looks){ 0 });
	header.bare = true;
	out_begin(capture.out, &header);
	out_fields(capture.out, record, (struct subject){ &asked, object });
	out_end(capture.out, &footer);
	assert_captured(&capture, expected);
}

static void an_object_has_each_field(void **state)
{
	static const int64_t shape[] = { 2, 3 };
	struct thing one = { .good = true,
		.id = 5,
		.flags = 6,
		.dims = 2,
		.count = 4,
		.bytes = 8,
		.rank = -1,
		.ns = 1500,
		.word = "w",
		.name = TEXT("a"),
		.shape = shape,
		.inner = { 9, TEXT("in") } };

	(void)state;
	assert_object(&thing, &one,
		"{\n\"name\":\"a\",\n\"good\":true,\n\"id\":5,\n\"odd\":true,\n\"count\":"
		"4,\n"
		"\"bytes\":8,\n\"rank\":-1,\n\"ns\":1500,\n\"word\":\"w\",\n\"shape\":[2,"
		"3],\n"
		"\"twice\":8,\n\"name\":\"in\",\n\"number\":9}\n");
}

static void what_is_absent_is_left_out_or_null(void **state)
{
	(void)state;
	assert_object(&thing, &nothing,
		"{\n\"good\":false,\n\"id\":null,\n\"twice\":18446744073709551614,\n"
		"\"number\":0}\n");
}

static void hostile_names_are_keys_and_values(void **state)
{
	static const struct call calls[] = {
		{ 1, { "a\"\x1b[2J\xff", 7 } },
		{ INT64_MIN, { "", 0 } },
	};
	struct thing one = nothing;

	(void)state;
	one.calls = calls;
	one.call_count = 2;
	one.count = 3;
	one.elsewhere = &calls[1];
	assert_object(&nested, &one,
		"{\n\"calls\":[\n{\"name\":\"a\\\"\\u001b[2J\xef\xbf\xbd\",\"name_b64\":"
		"\"YSIbWzJK/w==\",\"number\":1},\n{\"name\":\"\"}],\n"
		"\"pairs\":[\n[\"a\\\"\\u001b[2J\xef\xbf\xbd\",1],\n[\"\"]],"
		"\n"
		"\"by_name\":{\n\"a\\\"\\u001b[2J\xef\xbf\xbd\":1},\n"
		"\"pair\":[\n7,\nnull],\n\"each\":[\n0,\n10,\n20],\n\"inner\":null,\n"
		"\"name\":\"\"}\n");
}

static void what_is_made_is_an_object(void **state)
{
	static const struct call calls[] = { { 1, { "a", 1 } }, { 2, { "b", 1 } } };
	struct thing one = nothing;

	(void)state;
	one.calls = calls;
	one.few = 1;
	one.call_count = 2;
	assert_object(&made, &one,
		"{\n\"made\":null,\n\"up_to_id\":[],\n\"found_few\":[\n{\"id\":7}],\n\"few\":[\n[\"a\",1]],\n\"by_name\":{\n\"a\":1},\n"
		"\"if_word\":null,\n\"things\":[\n{\"id\":7},\n{\"number\":0}]}\n");
	one.id = 2;
	one.word = "w";
	one.number = 0.5;
	one.maybe = 0;
	one.few = 0;
	one.call_count = 0;
	assert_object(&made, &one,
		"{\n\"found\":\"two\",\n\"made\":{\"name\":\"made\",\"number\":2},\n"
		"\"up_to_id\":[\n0,\n1],\n\"found_few\":[],\n\"few\":[],\n\"by_name\":{},\n\"if_word\":{\"id\":2},\n\"maybe\":false,\n\"number\":0.5,\n\"things\":[]}\n");
}

static void empty_lists_are_empty(void **state)
{
	struct thing one = nothing;

	(void)state;
	one.count = 0;
	assert_object(&nested, &one,
		"{\n\"calls\":[],\n\"pairs\":[],\n\"by_name\":{},\n\"pair\":[\n7,\nnull],"
		"\n"
		"\"each\":[],\n\"inner\":null}\n");
}

/* ---- tables ---- */

static const struct table like = { .key = "things", .main = true };

/* A row of `nothing` but its name; chosen: columns by name, ended by NULL. */
static unsigned assert_table(const char *format, unsigned view, const char *const *chosen,
	bool reads, const char *expected)
{
	struct record_table table;
	struct thing one = nothing;
	struct capture capture;
	unsigned asked = 0;

	one.name = TEXT("\x1b=a,b");
	one.count = 3;
	one.ns = -1500500;
	record_table_init(&table, &like, &thing, &asked);
	table.table.view = view;
	for (size_t i = 0; chosen != NULL && chosen[i] != NULL; i++) {
		table.table.chosen = table.chosen;
		table.chosen[table.table.chosen_count++] =
			record_table_find(&table, chosen[i]);
	}
	capture_open(&capture, format, (struct looks){ 0 });
	assert_int_equal(out_table_reads(capture.out, &table), reads);
	out_records_begin(capture.out, &table);
	out_records_row(capture.out, &table, &one);
	out_table_end(capture.out);
	assert_captured(&capture, expected);
	return asked;
}

static void people_see_what_the_view_shows(void **state)
{
	(void)state;
	assert_int_equal(
		1, assert_table("text", 0, NULL, true,
			   "NAME      GOOD    ID  COUNT  TOOK MS  TWICE  NUMBER\n"
			   "\\x1b=a,b  no    none      3   -1.501      6       0\n"));
	assert_int_equal(
		0, assert_table("text", 1, (const char *const[]){ "count", "name", NULL },
			   false, "COUNT  NAME\n    3  \\x1b=a,b\n"));
}

static void programs_see_what_they_ask_for(void **state)
{
	static const char *const some[] = { "rank", "ns", "name", NULL };

	(void)state;
	assert_table(
		"csv", 0, some, false, "rank,ns,name\r\n,-1500500,\"\\x1b=a,b\"\r\n");
	assert_table("tsv", 0, some, false, "rank\tns\tname\n\t-1500500\t\\x1b=a,b\n");
	assert_table("name", 0, some, false, "\\x1b=a,b\n");
	/* text_only in view 0, which cells are like text. */
	assert_int_equal(
		1, assert_table("tsv", 0, (const char *const[]){ "twice", "id", NULL },
			   false, "twice\tid\n6\t\n"));
	assert_int_equal(
		1, assert_table("tsv", 1, (const char *const[]){ "twice", "bytes", NULL },
			   true, "twice\tbytes\n6\t\n"));
}

static void what_is_not_known_is_sorted_last(void **state)
{
	struct record_table table;
	struct thing one = nothing;
	unsigned asked = 0;

	(void)state;
	record_table_init(&table, &like, &thing, &asked);
	assert_int_equal(record_table_find(&table, "nowhere"), table.table.column_count);
	for (unsigned i = 0; i < 2; i++) {
		bool known = i == 1;
		one.id = known ? 4 : UINT32_MAX;
		one.count = known ? 6 : UINT64_MAX;
		assert_int_equal(known ? 6 : UINT64_MAX,
			record_table_key(
				&table, record_table_find(&table, "count"), &one, 1));
		assert_int_equal(known ? 4 : UINT64_MAX,
			record_table_key(
				&table, record_table_find(&table, "rank"), &one, 1));
		assert_int_equal(i, record_table_key(&table,
					    record_table_find(&table, "name"), &one, i));
	}
}

static void assert_tree(const char *format, const char *expected)
{
	const struct tree_node node = { .depth = 1, .name = TEXT("shown") };
	struct record_table table;
	struct thing one = nothing;
	struct capture capture;
	unsigned asked = 0;

	one.name = TEXT("told");
	record_table_init(&table, &like, &thing, &asked);
	table.table.chosen = (const size_t[]){ 0, 1 };
	table.table.chosen_count = 2;
	table.table.tree = true;
	capture_open(&capture, format, (struct looks){ 0 });
	out_records_begin(capture.out, &table);
	out_records_node(capture.out, &table, &node, &one);
	out_table_end(capture.out);
	assert_captured(&capture, expected);
}

static void a_node_is_a_row_for_programs(void **state)
{
	(void)state;
	assert_tree("csv", "name,good\r\ntold,false\r\n");
	assert_tree("text", "    shown\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_has_each_field),
		cmocka_unit_test(what_is_absent_is_left_out_or_null),
		cmocka_unit_test(hostile_names_are_keys_and_values),
		cmocka_unit_test(what_is_made_is_an_object),
		cmocka_unit_test(empty_lists_are_empty),
		cmocka_unit_test(people_see_what_the_view_shows),
		cmocka_unit_test(programs_see_what_they_ask_for),
		cmocka_unit_test(what_is_not_known_is_sorted_last),
		cmocka_unit_test(a_node_is_a_row_for_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
