/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "pickle-show.h"

#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Reads, expects nothing, and gives the value as text (to be freed). */
static char *text_of(struct reading *reading)
{
	struct text text = { 0 };
	struct show to = { .pickle = reading->pickle, .text = &text };
	show(&to, fsdp_pickle_top(reading->pickle));
	return text.data;
}

static void expect_text(const void *data, size_t size, const char *expected)
{
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, data, size);
	if (!reading.good)
		fail_msg("%s", fsdp_error_message(reading.error));
	char *text = text_of(&reading);
	assert_string_equal(text, expected);
	free(text);
	reading_done(&reading);
}

#define EXPECT(literal, expected) expect_text(literal, sizeof(literal) - 1, expected)

/* The reading fails under this rule, at this offset. */
static void expect_failure(
	const void *data, size_t size, const char *rule, uint64_t offset)
{
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, data, size);
	assert_false(reading.good);
	assert_non_null(reading.pickle);
	assert_string_equal(fsdp_error_rule(reading.error), rule);
	assert_int_equal(fsdp_error_offset(reading.error), offset);
	reading_done(&reading);
}

#define FAILS(literal, rule, offset) \
	expect_failure(literal, sizeof(literal) - 1, rule, offset)

/* It can be read, and there is so much to say about it under this rule. */
static void expect_finding(const void *data, size_t size, const char *rule, size_t count,
	enum fsdp_severity severity)
{
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, data, size);
	if (!reading.good)
		fail_msg("%s", fsdp_error_message(reading.error));
	assert_int_equal(reading_found(&reading, rule), count);
	assert_int_equal(reading.findings.list.count, count);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_finding *finding =
			fsdp_vec_at(&reading.findings.list, i);
		assert_int_equal(finding->severity, severity);
	}
	reading_done(&reading);
}

#define FINDS(literal, rule, count, severity) \
	expect_finding(literal, sizeof(literal) - 1, rule, count, severity)
#define FINDS_NOTHING(literal) FINDS(literal, "FI3016", 0, FSDP_NOTE)

/* ---- truth from elsewhere ---- */

static char *summary(char *text)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	size_t size = strlen(text);
	if (size <= 4000)
		return text;
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	snprintf(text, 100, "%zu bytes, %016llx", size, (unsigned long long)sum);
	return text;
}

static const struct {
	const char *name;
	size_t size;
	const char *data, *text;
} streams[] = {
#define PICKLE_CASE(name, size, data, text) { name, size, data, text },
#include "pickle-cases.def"
#undef PICKLE_CASE
};

#define ORDERED "ccollections\nOrderedDict\n"

/* What a mapping is called with becomes its items, if a reader asks for that: Python 2
 * pickled every OrderedDict so. */
static void a_mapping_has_the_pairs_it_is_called_with(void **state)
{
	static const struct {
		const char *stream, *text;
	} cases[] = {
		{ ORDERED "(((lVa\naI1\na(lVb\naI2\nattR.",
			"<collections.OrderedDict>((['a',1,],['b',2,],),)" },
		{ ORDERED "((l(lVa\naI1\naa(lVb\naI2\naatR.",
			"<collections.OrderedDict>([['a',1,],['b',2,],],)+'a':1,+'b':2," },
		{ ORDERED "((l(Va\nI1\ntatRVc\nI3\ns.",
			"<collections.OrderedDict>([('a',1,),],)+'a':1,+'c':3," },
		{ ORDERED "((l(lVa\naI1\naaVbc\natR.",
			"<collections.OrderedDict>([['a',1,],'bc',],)" },
		{ "ccollections\nCounter\n((dVa\nI2\nstR.",
			"<collections.Counter>({'a':2,},)+'a':2," },
		{ "ccollections\ndefaultdict\n(c__builtin__\nlist\n(dVa\nI2\nstR.",
			"<collections.defaultdict>(<builtins.list>,{'a':2,},)+'a':2," },
		{ "ccollections\nsomething\n((l(lVa\naI1\naatR.",
			"<collections.something>([['a',1,],],)" },
		/* __new__ of a dict takes no items. */
		{ "\x80\x02" ORDERED "(l(lVa\naI1\naa\x85\x81.",
			"<collections.OrderedDict>([['a',1,],],)" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct reading reading;
		reading_init(&reading);
		reading.options.fills = true;
		reading_run(&reading, cases[i].stream, strlen(cases[i].stream));
		if (!reading.good)
			fail_msg("%s", fsdp_error_message(reading.error));
		char *text = text_of(&reading);
		assert_string_equal(text, cases[i].text);
		free(text);
		reading_done(&reading);
	}
}

/* Each of these 24 is made of the list that holds the one before twice. */
static void mappings_that_share_their_pairs_are_not_unfolded(void **state)
{
	static const char ONE[] =
		"(lp1\n(lVa\nag0\naa(lVb\nag0\naa0" ORDERED "(g1\ntRp0\n0";
	char stream[24 * sizeof ONE + 16] = "Np0\n0";
	struct reading reading;
	(void)state;
	for (size_t i = 0; i < 24; i++)
		strcat(stream, ONE);
	strcat(stream, "g0\n.");
	reading_init(&reading);
	reading.options.fills = true;
	reading_run(&reading, stream, strlen(stream));
	assert_true(reading.good);
	assert_int_equal(
		fsdp_pickle_count(reading.pickle, fsdp_pickle_top(reading.pickle)), 2);
	assert_true(reading.budget.used < 1 << 22);
	reading_done(&reading);
}

/* LONG writes what does not fit as text; the table has it as bytes. */
static void pickles_read_as_cpython_reads_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
		struct reading reading;
		reading_init(&reading);
		reading_run(&reading, streams[i].data, streams[i].size);
		if (!reading.good)
			fail_msg("%s: %s", streams[i].name,
				fsdp_error_message(reading.error));
		assert_int_equal(fsdp_pickle_length(reading.pickle), streams[i].size);
		char *text = summary(text_of(&reading));
		if (strstr(text, "written") == NULL && strcmp(text, streams[i].text) != 0)
			fail_msg("%s:\n%s\n%s", streams[i].name, text, streams[i].text);
		free(text);
		reading_done(&reading);
	}
}

/* Of what is tried from memory each room takes a third. */
static bool is_of_room(size_t number)
{
	return reading_room == 0 || number % 3 == reading_room / 7 % 3;
}

/* Walks the opcodes of the cases: of the same place in the same opcode only the first are
 * chosen, so many of each that they are of several cases. */
struct choice {
	unsigned most, seen[256][16];
	uint64_t begin, end; /* of the opcode at hand */
};

static bool choose(struct choice *choice, size_t number, size_t at)
{
	struct fsdp_span argument,
		stream = fsdp_span(streams[number].data, streams[number].size);
	if (at == 0)
		choice->end = 0;
	if (at >= choice->end) {
		choice->begin = choice->end;
		fsdp_pickle_next_opcode(stream, &choice->end, &argument, NULL);
	}
	size_t place = at - (size_t)choice->begin;
	unsigned char opcode = (unsigned char)streams[number].data[choice->begin];
	return choice->seen[opcode][place < 16 ? place : 15]++ < choice->most;
}

/* Prefixes of every case are damaged, and never more is read than is there. */
static void a_prefix_is_never_whole(void **state)
{
	struct choice choice = { .most = 24 };
	(void)state;
	for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
		size_t end = streams[i].size < 700 ? streams[i].size : 700;
		for (size_t size = 0; size < end; size++) {
			struct reading reading;
			if (!choose(&choice, i, size) || !is_of_room(size))
				continue;
			reading_init(&reading);
			reading_run(&reading, streams[i].data, size);
			assert_false(reading.good);
			assert_string_equal(fsdp_error_rule(reading.error), "FI3014");
			free(text_of(&reading));
			reading_done(&reading);
		}
	}
}

/* ---- arguments ---- */

static void each_argument_may_be_cut(void **state)
{
	(void)state;
	static const unsigned char tail[16] = "\x03\x00\x00\x00\x00\x00\x00\x00xyz.....";
	for (unsigned code = 0; code < 256; code++) {
		const struct fsdp_pickle_opcode *row = fsdp_pickle_opcode((uint8_t)code);
		unsigned char stream[18] = { 0x4e, (unsigned char)code };
		memcpy(stream + 2, tail, 16);
		if (row == NULL) {
			expect_failure(stream, 2, "FI3013", 1);
			continue;
		}
		if (row->argument == FSDP_ARGUMENT_NONE)
			continue;
		uint64_t offset = 1;
		struct fsdp_span argument;
		fsdp_pickle_next_opcode(fsdp_span(stream, 18), &offset, &argument, NULL);
		size_t whole = row->argument >= FSDP_ARGUMENT_LINE ? 10 : (size_t)offset;
		for (size_t size = 2; size < whole; size++)
			expect_failure(stream, size, "FI3014", 1);
	}
}

static void a_declared_length_is_compared_before_it_is_believed(void **state)
{
	(void)state;
	static const char *const counted[] = { "\x8c", "U", "C", "\x8a", "X", "T", "B",
		"\x8b", "\x8d", "\x8e", "\x96" };
	for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
		size_t width = i < 4 ? 1 : i < 8 ? 4 : 8;
		for (unsigned length = 0; length < 5; length++) {
			unsigned char stream[16] = { (unsigned char)counted[i][0],
				(unsigned char)length };
			memcpy(stream + 1 + width, "abc.", 4);
			/* 3 bytes and STOP; 4 swallow STOP; 5 are not there */
			size_t size = 1 + width + 4;
			if (length < 4) {
				stream[1 + width + length] = '.';
				struct reading reading;
				reading_init(&reading);
				reading_run(&reading, stream, 1 + width + length + 1);
				assert_true(reading.good);
				reading_done(&reading);
			} else {
				expect_failure(stream, size, "FI3014",
					length == 4 ? 1 + width + 4 : 0);
			}
		}
		unsigned char largest[16];
		memset(largest, 0xff, sizeof largest);
		largest[0] = (unsigned char)counted[i][0];
		expect_failure(largest, sizeof largest, "FI3014", 0);
	}
	FAILS("T\x00\x00\x00\x80.", "FI3014", 0);
	FAILS("\x8b\xff\xff\xff\xff.", "FI3014", 0);
	FAILS("\x8d\x00\x00\x00\x00\x00\x00\x00\x40"
	      "ab.",
		"FI3014", 0);
}

static void numbers_as_text(void **state)
{
	(void)state;
	EXPECT("I01\n.", "True");
	EXPECT("I00\n.", "False");
	EXPECT("I1\n.", "1");
	EXPECT("I-9223372036854775808\n.", "-9223372036854775808");
	EXPECT("I9223372036854775808\n.", "written'9223372036854775808'");
	EXPECT("L-9223372036854775809L\n.", "written'-9223372036854775809'");
	EXPECT("L12L\n.", "12");
	EXPECT("L12\n.", "12");
	FINDS("I0x1f\n.", "FI3016", 1, FSDP_NOTE);
	EXPECT("I017\n.", "15");
	FAILS("I\n.", "FI3013", 0);
	FAILS("I1_0\n.", "FI3013", 0);
	FAILS("I 1\n.", "FI3013", 0);
	FAILS("I1 \n.", "FI3013", 0);
	FAILS("I1L\n.", "FI3013", 0);
	FAILS("I--1\n.", "FI3013", 0);
	FAILS("I089\n.", "FI3013", 0);
	FAILS("L017\n.", "FI3013", 0);
	FAILS("I0x\n.", "FI3013", 0);
	EXPECT("F1.5\n.", "float:3ff8000000000000");
	EXPECT("F-1e-3\n.", "float:bf50624dd2f1a9fc");
	EXPECT("F.5\n.", "float:3fe0000000000000");
	EXPECT("F-inf\n.", "float:fff0000000000000");
	EXPECT("F-0.0\n.", "float:8000000000000000");
	EXPECT("F0.1\n.", "float:3fb999999999999a");
	EXPECT("F1.\n.", "float:3ff0000000000000");
	EXPECT("F1e400\n.", "float:7ff0000000000000");
	EXPECT("F1e-99999999999999999999\n.", "float:0000000000000000");
	EXPECT("F4.9406564584124654e-324\n.", "float:0000000000000001");
	EXPECT("F0."
	       "00000000000000000000000000000000000000000000000000000000000000000001e68\n"
	       ".",
		"float:3ff0000000000000");
	EXPECT("FInfinity\n.", "float:7ff0000000000000");
	FAILS("F\n.", "FI3013", 0);
	FAILS("F1,5\n.", "FI3013", 0);
	FAILS("F0x1p3\n.", "FI3013", 0);
	FAILS("F1e\n.", "FI3013", 0);
	FAILS("F1.5 \n.", "FI3013", 0);
	FAILS("F.\n.", "FI3013", 0);
}

static void numbers_as_bytes(void **state)
{
	(void)state;
	EXPECT("\x8a\x00.", "0");
	EXPECT("\x8a\x01\xff.", "-1");
	EXPECT("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", "9223372036854775807");
	EXPECT("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00.", "9223372036854775807");
	EXPECT("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.",
		"big'%ff%ff%ff%ff%ff%ff%ff%ff%00'");
	EXPECT("\x8b\x02\x00\x00\x00\x00\x80.", "-32768");
	EXPECT("J\xff\xff\xff\x7f.", "2147483647");
	EXPECT("J\x00\x00\x00\x80.", "-2147483648");
	FINDS("G\x7f\xf8\x00\x00\x00\x00\x00\x00.", "FI3016", 1, FSDP_NOTE);
}

static void texts_of_protocol_0(void **state)
{
	(void)state;
	EXPECT("S'a\\'b\\\\c\\n\\x41\\101\\q'\n.", "'a%27b%5cc%0aAA%5cq'");
	EXPECT("S\"a'b\"\n.", "'a%27b'");
	EXPECT("S''\n.", "''");
	FAILS("S'\n.", "FI3013", 0);
	FAILS("Sab\n.", "FI3013", 0);
	FAILS("S'a\"\n.", "FI3013", 0);
	FAILS("S'\\x4'\n.", "FI3013", 0);
	FAILS("S'\\'\n.", "FI3013", 0);
	EXPECT("Va\\u20ac\xe9\n.", "'a%e2%82%ac%c3%a9'");
	EXPECT("V\\\\u0041\n.", "'%5c%5cu0041'");
	EXPECT("V\\U0001f600\\\n.", "'%f0%9f%98%80%5c'");
	FAILS("V\\u20a\n.", "FI3013", 0);
	FAILS("V\\U00110000\n.", "FI3013", 0);
	FINDS("X\x02\x00\x00\x00\xc3\x28.", "FI3016", 1, FSDP_NOTE);
	FINDS("X\x03\x00\x00\x00\xed\xa0\x80.", "FI3016", 1, FSDP_NOTE);
	FINDS_NOTHING("X\x03\x00\x00\x00\xe2\x82\xac.");
}

/* ---- stack, marks, memo ---- */

static void what_is_missing_is_a_failure_and_reading_goes_on(void **state)
{
	(void)state;
	FAILS("a.", "FI3013", 0);
	FAILS(".", "FI3013", 0);
	FAILS("0N.", "FI3013", 0);
	FAILS("(.", "FI3013", 1);
	FAILS("t.", "FI3013", 0);
	FAILS("](a.", "FI3013", 2);
	FAILS("(e.", "FI3013", 1);
	FAILS("R.", "FI3013", 0);
	FAILS("o.", "FI3013", 0);
	FAILS("(o.", "FI3013", 1);
	FAILS("ic\nd\n.", "FI3013", 0);
	/* The call without a class is one value, above what was there. */
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, "N(o\x86.", 5);
	assert_false(reading.good);
	char *pair = text_of(&reading);
	assert_string_equal(pair, "(None,nothing(),)");
	free(pair);
	reading_done(&reading);
	/* What cannot be a key is none in a list. */
	FINDS("(]Nd.", "FI3010", 1, FSDP_ERROR);
	FINDS("(]\x91.", "FI3010", 1, FSDP_ERROR);
	FINDS_NOTHING("(]l.");
	FINDS_NOTHING("(N]d.");
	/* POP of a mark, which Python allows where nothing stands behind it. */
	EXPECT("N(0.", "None");
	FAILS("(N0.", "FI3013", 3);
	FAILS("(N00.", "FI3013", 4);
	static const char stream[] = "aRbuecos\nsystem\n(X\x01\x00\x00\x00xtR.";
	reading_init(&reading);
	reading_run(&reading, stream, sizeof stream - 1);
	assert_false(reading.good);
	assert_int_equal(fsdp_error_offset(reading.error), 0);
	assert_int_equal(fsdp_pickle_global_count(reading.pickle), 1);
	const struct fsdp_pickle_global *global = fsdp_pickle_global(reading.pickle, 0);
	assert_true(fsdp_span_is(global->name, "system"));
	assert_int_equal(global->offset, 5);
	assert_int_equal(global->uses, FSDP_USE_CALLED);
	char *text = text_of(&reading);
	assert_string_equal(text, "<os.system>('x',)");
	free(text);
	reading_done(&reading);
}

static void an_import_before_the_cut_is_listed(void **state)
{
	(void)state;
	static const char stream[] =
		"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R\x8c\xf0...";
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, stream, sizeof stream - 1);
	assert_false(reading.good);
	assert_string_equal(fsdp_error_rule(reading.error), "FI3014");
	assert_int_equal(fsdp_pickle_global_count(reading.pickle), 1);
	char *text = text_of(&reading);
	assert_string_equal(text, "<os.system>('x',)");
	free(text);
	reading_done(&reading);
}

static void pops_and_doubles(void **state)
{
	(void)state;
	EXPECT("NK\x01"
	       "0.",
		"None");
	EXPECT("N(K\x01K\x02"
	       "1.",
		"None");
	EXPECT("N(0.", "None");
	EXPECT("]2K\x01"
	       "a0.",
		"[1,]");
	FINDS("NN0.", "FI3016", 1, FSDP_WARNING);
	FINDS("NN.", "FI3016", 1, FSDP_NOTE);
	FINDS("(N.", "FI3016", 1, FSDP_NOTE);
}

static void memo_slots(void **state)
{
	(void)state;
	EXPECT("]q\x00h\x00\x86.", "([],[],)");
	EXPECT("K\x07r\xff\xff\xff\xffj\xff\xff\xff\xff\x86.", "(7,7,)");
	EXPECT("K\x07p4294967295\nj\xff\xff\xff\xff\x86.", "(7,7,)");
	EXPECT("K\x07p3\ng3\n\x86.", "(7,7,)");
	EXPECT("K\x01q\x00K\x02q\x00h\x00\x87.", "(1,2,2,)");
	/* MEMOIZE takes the number of filled slots, whatever their numbers are. */
	EXPECT("K\x01\x94K\x02\x94h\x01h\x00\x86.", "(2,1,)");
	EXPECT("K\x05q\x05K\x06\x94h\x01h\x05\x86\x87.", "(5,6,(6,5,),)");
	EXPECT("K\x00q\x05K\x01q\x05K\x02q\x07K\x03\x94(h\x02h\x05h\x07t.", "(3,1,2,)");
	EXPECT("K\x00r\xff\xff\xff\xffK\x01r\xff\xff\xff\xffK\x02q\x09K\x03\x94("
	       "h\x02h\x09t.",
		"(3,2,)");
	/* Python 2 counts from one. */
	EXPECT("]q\x01K\x01q\x02"
	       "ah\x01h\x02\x87.",
		"([1,],[1,],1,)");
	FAILS("h\x00.", "FI3013", 0);
	FAILS("g-7\n.", "FI3013", 0);
	FAILS("Np4294967296\n.", "FI3013", 1);
	FAILS("Np\n.", "FI3013", 1);
	FAILS("Np1x\n.", "FI3013", 1);
	FAILS("Nj\xf0\xff\xff\xff.", "FI3013", 1);
	FAILS("NpO\n.", "FI3013", 1);
}

static void far_slots_are_found_again(void **state)
{
	(void)state;
	unsigned char stream[20000];
	size_t size = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t slot = i * UINT32_C(2654435761);
		stream[size++] = 'M';
		stream[size++] = (unsigned char)i;
		stream[size++] = (unsigned char)(i >> 8);
		stream[size++] = 'r';
		memcpy(stream + size, &slot, 4);
		size += 4;
		stream[size++] = '0';
	}
	stream[size++] = '(';
	for (uint32_t i = 1000; i-- > 0;) {
		uint32_t slot = i * UINT32_C(2654435761);
		stream[size++] = 'j';
		memcpy(stream + size, &slot, 4);
		size += 4;
	}
	stream[size++] = 'l';
	stream[size++] = '.';
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, stream, size);
	assert_true(reading.good);
	for (uint32_t i = 0; i < 1000; i++) {
		int64_t number;
		fsdp_ref item = fsdp_pickle_item(
			reading.pickle, fsdp_pickle_top(reading.pickle), i);
		assert_true(fsdp_pickle_integer(reading.pickle, item, &number));
		assert_int_equal(number, 999 - i);
	}
	reading_done(&reading);
}

/* ---- findings ---- */

static void wrong_targets(void **state)
{
	(void)state;
	FINDS(")K\x01"
	      "a.",
		"FI3010", 1, FSDP_ERROR);
	FINDS("K\x01(K\x01K\x02u.", "FI3010", 1, FSDP_ERROR);
	FINDS("]K\x01K\x02s.", "FI3010", 1, FSDP_ERROR);
	FINDS("}(K\x01\x90.", "FI3010", 1, FSDP_ERROR);
	FINDS("(K\x01"
	      "d.",
		"FI3010", 1, FSDP_ERROR);
	FINDS("}(K\x01u.", "FI3010", 1, FSDP_ERROR);
	FINDS("}]K\x01s.", "FI3010", 1, FSDP_ERROR);
	FINDS("cfoo\nBar\nK\x01K\x02s.", "FI3010", 1, FSDP_ERROR);
	/* What an object takes only its class tells. */
	FINDS("cfoo\nBar\n)RK\x01K\x02s.", "FI3010", 0, FSDP_NOTE);
	FINDS("ccollections\ndeque\n)R(K\x01"
	      "e.",
		"FI3010", 0, FSDP_NOTE);
	FINDS_NOTHING("ccollections\nOrderedDict\n)R(K\x01K\x02u.");
	FINDS_NOTHING("ccollections\nCounter\n)RK\x01K\x02s.");
	FINDS_NOTHING("ccollections\ndefaultdict\n)RK\x01K\x02s.");
	EXPECT("]K\x01K\x02s.", "[1:2,]"); /* wrong, but seen */
}

/* What the opcode wants, and what is known of those who ask for it. */
static void says_of_target(const char *data, const char *end)
{
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, data, strlen(data));
	assert_int_equal(reading.findings.list.count, 1);
	const struct fsdp_finding *finding = fsdp_vec_at(&reading.findings.list, 0);
	size_t size = finding->message.size, tail = strlen(end);
	assert_true(size > tail);
	assert_memory_equal(finding->message.data + size - tail, end, tail);
	reading_done(&reading);
}

static void wrong_targets_are_named(void **state)
{
	(void)state;
	says_of_target(
		"]K\x01K\x02s.", "is not a dict (CVE-2026-24747 in torch before 2.10)");
	says_of_target("}(K\x01\x90.", "is not a set");
	says_of_target(")K\x01"
		       "a.",
		"is not a list");
}

static void states(void **state)
{
	(void)state;
	EXPECT("ca\nB\n)\x81}b.", "<a.B>()^{}");
	FINDS("ca\nB\n)\x81}b}b.", "FI3008", 1, FSDP_WARNING);
	EXPECT("ca\nB\n)\x81K\x01"
	       "bK\x02"
	       "bK\x03"
	       "b.",
		"<a.B>()^1^2^3");
	FINDS("ca\nB\n}b.", "FI3008", 1, FSDP_ERROR);
	FINDS("}}b.", "FI3008", 1, FSDP_ERROR);
	EXPECT("ca\nB\n)}\x92.", "<a.B>(){}");
	EXPECT("(ca\nB\nK\x01K\x02o.", "<a.B>(1,2,)");
	EXPECT("(ca\nB\no.", "<a.B>()");
	EXPECT("(K\x01K\x02K\x03K\x04ia\nB\n.", "<a.B>(1,2,3,4,)");
	EXPECT("Px\n.", "pid:'x'");
	EXPECT("K\x01Q.", "pid:1");
}

static void protocols_and_frames(void **state)
{
	(void)state;
	FINDS_NOTHING("\x80\x02N.");
	FINDS("N\x80\x02"
	      "0\x80\x02N.",
		"FI3016", 3, FSDP_WARNING);
	FINDS("\x80\x06N.", "FI3016", 1, FSDP_ERROR);
	FINDS("\x80\x02\x8c\x01x.", "FI3016", 1, FSDP_WARNING);
	FINDS("\x80\x03I1\n.", "FI3016", 1, FSDP_WARNING);
	FINDS("\x80\x02"
	      "F1\n.",
		"FI3016", 1, FSDP_WARNING);
	FINDS_NOTHING("\x80\x02I140178894849152\n.");
	FINDS_NOTHING("I1\n.");
	FINDS_NOTHING("\x95\x02\x00\x00\x00\x00\x00\x00\x00N.");
	FINDS_NOTHING("\x95\x00\x00\x00\x00\x00\x00\x00\x00N.");
	FINDS_NOTHING("\x95\x01\x00\x00\x00\x00\x00\x00\x00N.");
	FINDS("\x95\x03\x00\x00\x00\x00\x00\x00\x00N.", "FI3017", 1, FSDP_ERROR);
	FINDS("\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", "FI3017", 1, FSDP_ERROR);
	FINDS("\x95\x02\x00\x00\x00\x00\x00\x00\x00\x8c\x01x.", "FI3017", 1, FSDP_ERROR);
	FINDS("\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x95\x02\x00\x00\x00\x00\x00\x00\x00N"
	      ".",
		"FI3017", 1, FSDP_ERROR);
	FINDS("\x82\x2a.", "FI3006", 1, FSDP_ERROR);
	FINDS("NN\x93.", "FI3006", 1, FSDP_ERROR);
	FINDS("C\x02os\x8c\x01x\x93.", "FI3006", 1, FSDP_ERROR);
	FINDS("\x97\x98.", "FI3013", 2, FSDP_ERROR);
}

/* A stream of a hundred runs that are written alike; the bytes of one may be others. */
static size_t make_runs(unsigned char *stream, size_t at, const char *bytes, size_t size)
{
	static const char run[] = "]\x94(K\x01K\x02K\x03K\x04K\x05"
				  "eh\x01\x86\x94\x8c\x04text\x94\x86";
	size_t end = 0;
	memcpy(stream, "\x80\x04(N\x94N\x94", 7);
	end += 7;
	for (size_t i = 0; i < 100; i++, end += sizeof run - 1)
		memcpy(stream + end, run, sizeof run - 1);
	memcpy(stream + end, "l.", 2);
	end += 2;
	memcpy(stream + at, bytes, size);
	return end;
}

enum { RUN = 26, RUNS_BEGIN = 7 };

/* What is taken at once is judged like what is taken one by one. */
static void runs_that_are_written_alike(void **state)
{
	(void)state;
	unsigned char stream[4096];
	size_t late = RUNS_BEGIN + 60 * RUN, size = make_runs(stream, 0, "", 0);
	assert_int_equal(size, RUNS_BEGIN + 100 * RUN + 2);
	expect_finding(stream, size, "FI3016", 0, FSDP_NOTE);

	/* a text that is not UTF-8, an opcode that is none, a slot that is empty */
	size = make_runs(stream, late + 20, "\xc3\x28", 2);
	expect_finding(stream, size, "FI3016", 1, FSDP_NOTE);
	size = make_runs(stream, late + 3, "\x00", 1);
	expect_failure(stream, size, "FI3013", late + 3);
	size = make_runs(stream, late + 15, "\xf0", 1);
	expect_failure(stream, size, "FI3013", late + 14);
	/* a text that swallows the rest, and one that swallows more */
	size = make_runs(stream, late + 19, "\x05", 1);
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, stream, size);
	assert_int_equal(fsdp_pickle_length(reading.pickle), size);
	reading_done(&reading);
	size = make_runs(stream, RUNS_BEGIN + 99 * RUN + 19, "\xff", 1);
	expect_failure(stream, size, "FI3014", RUNS_BEGIN + 99 * RUN + 18);
	/* cut anywhere in the last ones */
	size = make_runs(stream, 0, "", 0);
	for (size_t cut = size - 3 * RUN; cut < size; cut++) {
		reading_init(&reading);
		reading_run(&reading, stream, cut);
		assert_false(reading.good);
		assert_string_equal(fsdp_error_rule(reading.error), "FI3014");
		reading_done(&reading);
	}
}

/* A frame that ends inside of such a run, at each of its bytes. */
static void frames_end_in_runs(void **state)
{
	(void)state;
	unsigned char stream[4096], framed[4096];
	size_t size = make_runs(stream, 0, "", 0), crossed = 0;
	for (size_t end = size - 2 * RUN; end < size - RUN; end++) {
		struct reading reading;
		uint64_t inside = end - 2;
		memcpy(framed, stream, 2);
		framed[2] = FSDP_OP_FRAME;
		for (size_t i = 0; i < 8; i++)
			framed[3 + i] = (unsigned char)(inside >> 8 * i);
		memcpy(framed + 11, stream + 2, size - 2);
		reading_init(&reading);
		reading_run(&reading, framed, size + 9);
		assert_true(reading.good);
		size_t found = reading_found(&reading, "FI3017");
		assert_int_equal(reading.findings.list.count, found);
		crossed += found;
		reading_done(&reading);
	}
	/* Inside of: five K, h, and a text of four with its count. */
	assert_int_equal(crossed, 5 + 1 + 5);
}

static void what_follows_stop(void **state)
{
	(void)state;
	FINDS("N.x", "FI3015", 1, FSDP_WARNING);
	FINDS("N.cos\nsystem\n.", "FI3015", 1, FSDP_ERROR);
	FINDS_NOTHING("N.\0\0\0\0");
	struct reading reading;
	reading_init(&reading);
	reading.options.may_trail = true;
	reading_run(&reading, "N.cos\nsystem\n.", 14);
	assert_true(reading.good);
	assert_int_equal(reading.findings.list.count, 0);
	assert_int_equal(fsdp_pickle_length(reading.pickle), 2);
	reading_done(&reading);
}

static void names_of_globals(void **state)
{
	(void)state;
	FINDS("c\nx\n.", "FI3011", 1, FSDP_ERROR);
	FINDS("cos\n\n.", "FI3011", 1, FSDP_ERROR);
	FINDS("cos\r\nx\n.", "FI3011", 1, FSDP_ERROR);
	FINDS("cos\nx y\n.", "FI3011", 1, FSDP_ERROR);
	FINDS("\x8c\x03o\ns\x8c\x01x\x93.", "FI3011", 1, FSDP_ERROR);
	FINDS("\x8c\x02\xc3\xa9\x8c\x01x\x93.", "FI3011", 1, FSDP_ERROR);
	FINDS("\x8c\x03o\0s\x8c\x01x\x93.", "FI3011", 1, FSDP_ERROR);
	FINDS_NOTHING("ctorch._utils\n_rebuild_tensor_v2\n.");
	FAILS("cos\nx", "FI3014", 0);
	EXPECT("c__builtin__\nxrange\n.", "<builtins.range>");
	EXPECT("c__builtin__\neval\n.", "<builtins.eval>");
	EXPECT("\x80\x02"
	       "ccopy_reg\n_reconstructor\n.",
		"<copyreg._reconstructor>");
	EXPECT("\x80\x03"
	       "c__builtin__\neval\n.",
		"<__builtin__.eval>");
}

static void globals_are_listed_once_with_their_uses(void **state)
{
	(void)state;
	static const char good[] = "(ca\nB\nq\x01)Rca\nB\n)\x81h\x01"
				   "cc\nD\n0ce\nF\n)Rc__builtin__\nset\nt.";
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, good, sizeof good - 1);
	assert_true(reading.good);
	static const struct {
		const char *module, *written;
		uint8_t uses;
		uint64_t offset;
	} expected[] = {
		{ "a", "a", FSDP_USE_CALLED | FSDP_USE_BUILT | FSDP_USE_VALUE, 1 },
		{ "c", "c", FSDP_USE_VALUE, 19 },
		{ "e", "e", FSDP_USE_CALLED, 25 },
		{ "builtins", "__builtin__", FSDP_USE_VALUE, 32 },
	};
	assert_int_equal(fsdp_pickle_global_count(reading.pickle), 4);
	for (size_t i = 0; i < 4; i++) {
		const struct fsdp_pickle_global *global =
			fsdp_pickle_global(reading.pickle, i);
		assert_true(fsdp_span_is(global->module, expected[i].module));
		assert_true(fsdp_span_is(global->written_module, expected[i].written));
		assert_int_equal(global->uses, expected[i].uses);
		assert_int_equal(global->offset, expected[i].offset);
		assert_int_equal(global->via, FSDP_OP_GLOBAL);
		assert_int_equal(global->fold_row, -1);
	}
	assert_null(fsdp_pickle_global(reading.pickle, 4));
	reading_done(&reading);
}

/* The table of globals grows; what was in it is found again, also behind that. */
static void many_globals_are_listed_once(void **state)
{
	(void)state;
	enum { COUNT = 300 };
	char stream[2 * COUNT * 16 + 2];
	size_t size = 0;
	stream[size++] = '(';
	for (unsigned i = 0; i < 2 * COUNT; i++)
		size += (size_t)snprintf(
			stream + size, sizeof stream - size, "cm\nn%u\n", i % COUNT);
	memcpy(stream + size, "t.", 2);
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, stream, size + 2);
	assert_true(reading.good);
	assert_int_equal(fsdp_pickle_global_count(reading.pickle), COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		char name[16];
		snprintf(name, sizeof name, "n%u", i);
		assert_true(
			fsdp_span_is(fsdp_pickle_global(reading.pickle, i)->name, name));
	}
	reading_done(&reading);
}

static void keys_that_stand_twice(void **state)
{
	(void)state;
	FINDS("}(X\x01\x00\x00\x00"
	      "aK\x01X\x01\x00\x00\x00"
	      "aK\x02u.",
		"FI3016", 1, FSDP_WARNING);
	FINDS("}(K\x01NK\x02NK\x01Nu.", "FI3016", 1, FSDP_WARNING);
	FINDS("}(K\x01N\x88Nu.", "FI3016", 1, FSDP_WARNING); /* True == 1 */
	FINDS_NOTHING("}(K\x01NX\x01\x00\x00\x00"
		      "1NK\x02Nu.");
	unsigned char stream[4096] = "}(";
	size_t size = 2;
	for (unsigned i = 0; i < 500; i++) {
		stream[size++] = 'M';
		stream[size++] = (unsigned char)(i == 499 ? 7 : i);
		stream[size++] = (unsigned char)(i == 499 ? 0 : i >> 8);
		stream[size++] = 'N';
	}
	memcpy(stream + size, "u.", 2);
	expect_finding(stream, size + 2, "FI3016", 1, FSDP_WARNING);
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, "}(X\1\0\0\0aK\1X\1\0\0\0aK\2u.", 20);
	int64_t number = 0;
	fsdp_ref last =
		fsdp_pickle_get(reading.pickle, fsdp_pickle_top(reading.pickle), "a");
	assert_true(fsdp_pickle_integer(reading.pickle, last, &number));
	assert_int_equal(number, 2);
	reading_done(&reading);
}

/* ---- growth ---- */

static unsigned char *repeated(const char *unit, size_t times, size_t *ret_size)
{
	size_t size = strlen(unit);
	unsigned char *bytes = malloc(size * times + 16);
	for (size_t i = 0; i < times; i++)
		memcpy(bytes + i * size, unit, size);
	*ret_size = size * times;
	return bytes;
}

static void lists_in_lists(void **state)
{
	(void)state;
	static const struct {
		size_t levels;
		size_t findings;
	} cases[] = { { 9999, 0 }, { 10000, 0 }, { 10001, 1 }, { 300000, 1 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t size;
		unsigned char *stream = repeated("]", cases[i].levels, &size);
		stream = realloc(stream, size * 2 + 1);
		memset(stream + size, 'a', size - 1);
		stream[size * 2 - 1] = '.';
		expect_finding(stream, size * 2, "FI3019", cases[i].findings, FSDP_ERROR);
		free(stream);
	}
	size_t size;
	unsigned char *stream = repeated("\x85", 300000, &size);
	memmove(stream + 1, stream, size);
	stream[0] = 'N';
	stream[size + 1] = '.';
	expect_finding(stream, size + 2, "FI3019", 1, FSDP_ERROR);
	free(stream);
}

static void many_items_of_a_list(void **state)
{
	(void)state;
	size_t size;
	unsigned char *stream = repeated("K\x01"
					 "a",
		100001, &size);
	stream[0] = ']';
	memmove(stream + 1, stream + 3, size - 3);
	size -= 2;
	stream[size++] = '.';
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, stream, size);
	assert_true(reading.good);
	assert_int_equal(
		fsdp_pickle_count(reading.pickle, fsdp_pickle_top(reading.pickle)),
		100000);
	/* 24 bytes of cells for each byte, at the very most */
	assert_true(
		fsdp_pickle_identity_bound(reading.pickle) * UINT64_C(16) < 24 * size);
	reading_done(&reading);
	free(stream);
}

static void shared_lists_are_not_unfolded(void **state)
{
	(void)state;
	/* each level holds the one before ten times */
	unsigned char stream[8192] = "]q\0";
	size_t size = 3;
	for (unsigned level = 0; level < 30; level++) {
		stream[size++] = ']';
		stream[size++] = '(';
		for (int i = 0; i < 10; i++) {
			stream[size++] = 'h';
			stream[size++] = (unsigned char)level;
		}
		stream[size++] = 'e';
		stream[size++] = 'q';
		stream[size++] = (unsigned char)(level + 1);
		stream[size] = '.';
		struct reading reading;
		reading_init(&reading);
		reading_run(&reading, stream, size + 1);
		assert_true(reading.good);
		assert_int_equal(reading_found(&reading, "FI3019"), level >= 7);
		reading_done(&reading);
	}
}

/* A long text that is the key of many pairs is looked at once: once a pair would be four
 * million million bytes. */
static void shared_keys_are_not_compared_again_and_again(void **state)
{
	enum { LENGTH = 1 << 22, PAIRS = 1 << 18, HEAD = 5 + LENGTH };
	unsigned char *stream = malloc(HEAD + 5 + 3 * PAIRS + 2);
	size_t size = HEAD;
	(void)state;
	assert_non_null(stream);
	memcpy(stream, "X\0\0\x40\0", 5);
	memset(stream + 5, 'k', LENGTH);
	memcpy(stream + size, "q\0000}(", 5);
	size += 5;
	for (int i = 0; i < PAIRS; i++, size += 3)
		memcpy(stream + size, "h\0N", 3);
	memcpy(stream + size, "u.", 2);
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading, stream, size + 2);
	assert_true(reading.good);
	assert_true(reading_found(&reading, "FI3016") > 0);
	reading_done(&reading);
	free(stream);
}

static void long_keys_that_are_alike(void **state)
{
	enum { LENGTH = 300 };
	unsigned char stream[2 * (5 + LENGTH + 1) + 4] = "}(";
	(void)state;
	for (int differ = 0; differ < 2; differ++) {
		size_t size = 2;
		for (int i = 0; i < 2; i++) {
			memcpy(stream + size, "X\54\1\0\0", 5);
			memset(stream + size + 5, 'k', LENGTH);
			stream[size + 5 + 100] = (unsigned char)('k' + i * differ);
			stream[size + 5 + LENGTH] = 'N';
			size += 5 + LENGTH + 1;
		}
		memcpy(stream + size, "u.", 2);
		struct reading reading;
		reading_init(&reading);
		reading_run(&reading, stream, size + 2);
		assert_true(reading.good);
		assert_int_equal(reading_found(&reading, "FI3016"), !differ);
		reading_done(&reading);
	}
}

static void a_value_that_holds_itself(void **state)
{
	(void)state;
	FINDS("]q\0h\0a.", "FI3019", 1, FSDP_NOTE);
	FINDS("}q\0K\1h\0s.", "FI3019", 1, FSDP_NOTE);
	FINDS("](]q\0h\0ah\0e.", "FI3019", 1, FSDP_NOTE);
	FINDS("ca\nB\n)\x81q\0}K\1h\0sb.", "FI3019", 1, FSDP_NOTE);
	FINDS_NOTHING("]q\0h\0\x86.");
}

static void ceilings_on_both_sides(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		uint64_t value;
		const char *stream;
		bool good;
	} cases[] = {
		{ "pickle-stack", 3, "NNN\x87.", true },
		{ "pickle-stack", 2, "NNN\x87.", false },
		{ "pickle-marks", 2, "((tt.", true },
		{ "pickle-marks", 1, "((tt.", false },
		{ "pickle-bytes", 5, "NNN\x87.", true },
		{ "pickle-bytes", 4, "NNN\x87.", false },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct reading reading;
		reading_init(&reading);
		assert_true(
			fsdp_limits_set(&reading.limits, cases[i].name, cases[i].value));
		reading_run(&reading, cases[i].stream, strlen(cases[i].stream));
		assert_int_equal(reading.good, cases[i].good);
		if (!cases[i].good)
			assert_string_equal(
				fsdp_error_limit(reading.error), cases[i].name);
		reading_done(&reading);
	}
}

/* However little memory there is: an error, never a crash. */
static void memory_may_end_anywhere(void **state)
{
	(void)state;
	size_t size;
	unsigned char *stream = repeated("]q\1h\1aca\nB\n)R", 5000, &size);
	stream[size++] = '.';
	bool good = false;
	for (uint64_t ceiling = 0; !good; ceiling += (64 << 10) + ceiling / 16) {
		struct reading reading;
		reading_init(&reading);
		reading.options.findings = NULL;
		reading.budget.ceiling = ceiling;
		reading_run(&reading, stream, size);
		good = reading.good;
		if (!good)
			assert_int_equal(
				fsdp_error_code(reading.error), FSDP_ERROR_LIMIT);
		reading_done(&reading);
		assert_true(ceiling < UINT64_C(1) << 30);
	}
	free(stream);
}

/* ---- every byte may be another ---- */

static void every_byte_of_a_pickle_may_be_any_other(void **state)
{
	(void)state;
	static const char stream[] = "\x80\x02}q\x00(X\x01\x00\x00\x00"
				     "aq\x01"
				     "cc\nD\nq\x02)\x81q\x03}q\x04"
				     "h\x01K\x07sb(K\x01K\x02"
				     "eX\x01\x00\x00\x00"
				     "b]q\x05h\x03"
				     "ah\x05\x86u.";
	unsigned char bytes[sizeof stream - 1];
	for (size_t at = 0; at < sizeof bytes; at++)
		for (unsigned value = 0; value < 256; value++) {
			memcpy(bytes, stream, sizeof bytes);
			bytes[at] = (unsigned char)value;
			struct reading reading;
			if (!is_of_room(at + value))
				continue;
			reading_init(&reading);
			reading.limits.value[FSDP_LIMIT_PICKLE_DEPTH] = 64;
			reading_run(&reading, bytes, sizeof bytes);
			assert_int_equal(reading.good, reading.error == NULL);
			for (size_t i = 0; i < fsdp_pickle_global_count(reading.pickle);
				i++)
				assert_non_null(
					fsdp_pickle_global(reading.pickle, i)->name.data);
			reading_done(&reading);
		}
}

static void opcodes_one_at_a_time(void **state)
{
	(void)state;
	static const char stream[] = "\x80\x02X\x01\x00\x00\x00"
				     "acos\nx\n.N";
	static const struct {
		const char *name;
		uint64_t next;
		const char *argument;
	} expected[] = { { "PROTO", 2, "\x02" }, { "BINUNICODE", 8, "a" },
		{ "GLOBAL", 14, "os\nx" }, { "STOP", 16, "" } };
	uint64_t offset = 0;
	struct fsdp_span argument, bytes = fsdp_span(stream, sizeof stream - 1);
	for (size_t i = 0; i < 4; i++) {
		const struct fsdp_pickle_opcode *row =
			fsdp_pickle_next_opcode(bytes, &offset, &argument, NULL);
		assert_non_null(row);
		assert_string_equal(row->name, expected[i].name);
		assert_true(fsdp_span_is(argument, expected[i].argument));
		assert_int_equal(offset, expected[i].next);
	}
	assert_null(fsdp_pickle_next_opcode(bytes, &offset, &argument, NULL));
	struct fsdp_error *error = NULL;
	offset = 0;
	assert_null(
		fsdp_pickle_next_opcode(FSDP_SPAN("X\x05"), &offset, &argument, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_DAMAGED);
	fsdp_error_free(error);
}

static void a_reference_from_nowhere_is_nothing(void **state)
{
	(void)state;
	struct reading reading;
	reading_init(&reading);
	reading_run(&reading,
		"]K\x01"
		"a.",
		5);
	for (uint32_t ref = 0; ref < 4096; ref++) {
		struct fsdp_pickle_iterator iterator = { .ref = ref << 8 | 0xf8 };
		fsdp_ref key, value;
		assert_false(fsdp_pickle_next(reading.pickle, &iterator, &key, &value));
		assert_int_equal(fsdp_pickle_kind(reading.pickle, iterator.ref),
			FSDP_PICKLE_NOTHING);
		assert_null(fsdp_pickle_span(reading.pickle, iterator.ref).data);
		assert_int_equal(fsdp_pickle_count(reading.pickle, iterator.ref), 0);
	}
	assert_int_equal(
		fsdp_pickle_kind(reading.pickle, FSDP_REF_NONE), FSDP_PICKLE_NOTHING);
	reading_done(&reading);
}

static void offsets_count_from_the_base(void **state)
{
	(void)state;
	struct reading reading;
	reading_init(&reading);
	reading.options.base = 1000;
	reading.options.member = FSDP_SPAN("archive/data.pkl");
	reading_run(&reading,
		")K\x01"
		"ah\x05.",
		7);
	assert_false(reading.good);
	assert_int_equal(fsdp_error_offset(reading.error), 1004);
	const struct fsdp_finding *finding = fsdp_vec_at(&reading.findings.list, 0);
	assert_int_equal(finding->offset, 1003);
	assert_true(fsdp_span_is(finding->member, "archive/data.pkl"));
	reading_done(&reading);
}

/* ---- a stream that changes ---- */

struct changing {
	const char *data;
	size_t size, calls, at;
	unsigned char with;
};

/* The first pass has parts of its own; from its last one on a byte is another. */
static bool read_changing(const void *context, uint64_t offset, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	struct changing *changing = (struct changing *)(uintptr_t)context;
	(void)ret_error;
	memcpy(buffer, changing->data + offset, size);
	if (offset == 0)
		changing->calls++;
	if (changing->calls > 1 && changing->at >= offset && changing->at - offset < size)
		((unsigned char *)buffer)[changing->at - offset] ^= changing->with;
	return true;
}

/* Nothing is believed of what the first pass saw: a sanitizer would tell. */
static void what_changes_between_the_passes_is_no_danger(void **state)
{
	(void)state;
	static const unsigned char flips[] = { 0x01, 0xff };
	struct choice choice = { .most = 16 };
	size_t changed = 0;
	if (reading_room != 0)
		return; /* it has a room of its own */
	for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
		size_t end = streams[i].size < 300 ? streams[i].size : 300;
		for (size_t k = 0; k < end * sizeof flips; k++) {
			if (k % sizeof flips == 0 &&
				!choose(&choice, i, k / sizeof flips)) {
				k++;
				continue;
			}
			struct changing changing = { streams[i].data, streams[i].size, 0,
				k / sizeof flips, flips[k % sizeof flips] };
			struct fsdp_pickle_parts parts = { read_changing, &changing,
				streams[i].size, 16 };
			struct reading reading;
			reading_init(&reading);
			reading.good = fsdp_pickle_read_parts(&parts, &reading.arena,
				&reading.options, &reading.pickle, &reading.error);
			changed += !reading.good &&
				   strcmp(fsdp_error_rule(reading.error), "FI2004") == 0;
			assert_non_null(reading.pickle);
			reading.bytes = NULL;
			reading_done(&reading);
		}
	}
	assert_true(changed > 100);
}

/* What an early STOP left on top would be cut off by what follows. */
static void stop_stays_where_it_was(void **state)
{
	(void)state;
	static const struct {
		size_t at;
		unsigned char with;
	} flips[] = { { 1, 'N' ^ '.' }, { 3, '.' ^ 'N' } };
	for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
		struct changing changing = { "NN0.", 4, 0, flips[i].at, flips[i].with };
		struct fsdp_pickle_parts parts = { read_changing, &changing, 4, 16 };
		struct reading reading;
		reading_init(&reading);
		assert_false(fsdp_pickle_read_parts(&parts, &reading.arena,
			&reading.options, &reading.pickle, &reading.error));
		assert_string_equal(fsdp_error_rule(reading.error), "FI2004");
		reading.bytes = NULL;
		reading_done(&reading);
	}
}

static bool read_nothing(const void *context, uint64_t offset, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	const uint64_t *from = context;
	memset(buffer, 'N', size);
	return offset < *from || fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, offset, "gone");
}

static void a_part_that_cannot_be_read_fails_where_it_is(void **state)
{
	(void)state;
	for (uint64_t from = 0; from < 64; from += 16) {
		struct fsdp_pickle_parts parts = { read_nothing, &from, 64, 16 };
		struct reading reading;
		reading_init(&reading);
		assert_false(fsdp_pickle_read_parts(&parts, &reading.arena,
			&reading.options, &reading.pickle, &reading.error));
		assert_int_equal(fsdp_error_code(reading.error), FSDP_ERROR_SYSTEM);
		assert_int_equal(fsdp_error_offset(reading.error), from);
		reading.bytes = NULL;
		reading_done(&reading);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pickles_read_as_cpython_reads_them),
		cmocka_unit_test(a_prefix_is_never_whole),
		cmocka_unit_test(each_argument_may_be_cut),
		cmocka_unit_test(a_declared_length_is_compared_before_it_is_believed),
		cmocka_unit_test(numbers_as_text),
		cmocka_unit_test(numbers_as_bytes),
		cmocka_unit_test(texts_of_protocol_0),
		cmocka_unit_test(what_is_missing_is_a_failure_and_reading_goes_on),
		cmocka_unit_test(an_import_before_the_cut_is_listed),
		cmocka_unit_test(what_changes_between_the_passes_is_no_danger),
		cmocka_unit_test(stop_stays_where_it_was),
		cmocka_unit_test(a_part_that_cannot_be_read_fails_where_it_is),
		cmocka_unit_test(pops_and_doubles),
		cmocka_unit_test(memo_slots),
		cmocka_unit_test(far_slots_are_found_again),
		cmocka_unit_test(wrong_targets),
		cmocka_unit_test(wrong_targets_are_named),
		cmocka_unit_test(states),
		cmocka_unit_test(protocols_and_frames),
		cmocka_unit_test(runs_that_are_written_alike),
		cmocka_unit_test(frames_end_in_runs),
		cmocka_unit_test(what_follows_stop),
		cmocka_unit_test(names_of_globals),
		cmocka_unit_test(globals_are_listed_once_with_their_uses),
		cmocka_unit_test(many_globals_are_listed_once),
		cmocka_unit_test(keys_that_stand_twice),
		cmocka_unit_test(lists_in_lists),
		cmocka_unit_test(many_items_of_a_list),
		cmocka_unit_test(shared_lists_are_not_unfolded),
		cmocka_unit_test(shared_keys_are_not_compared_again_and_again),
		cmocka_unit_test(long_keys_that_are_alike),
		cmocka_unit_test(a_value_that_holds_itself),
		cmocka_unit_test(ceilings_on_both_sides),
		cmocka_unit_test(a_mapping_has_the_pairs_it_is_called_with),
		cmocka_unit_test(mappings_that_share_their_pairs_are_not_unfolded),
		cmocka_unit_test(memory_may_end_anywhere),
		cmocka_unit_test(every_byte_of_a_pickle_may_be_any_other),
		cmocka_unit_test(opcodes_one_at_a_time),
		cmocka_unit_test(a_reference_from_nowhere_is_nothing),
		cmocka_unit_test(offsets_count_from_the_base),
	};
	return reading_run_all(tests, sizeof tests / sizeof *tests);
}
