/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "pickle-show.h"

/*
 * Folding must not be seen from outside: a family that writes each value down as text
 * when it is folded, and shows that text wherever the number stands, gets what a reading
 * without folds gets. In these streams c.call is folded when called, b.build when built.
 */
struct family {
	char **texts;
	size_t count;
	unsigned asked;
	unsigned decline; /* bit n: the n-th question is answered no */
	bool fail;
};

static const char *text_of_number(void *context, uint32_t number)
{
	const struct family *family = context;
	assert_true(number < family->count);
	return family->texts[number];
}

static void give_up(const struct family *family, struct fsdp_pickle *pickle)
{
	struct fsdp_error *error = NULL;
	if (!family->fail)
		return;
	fsdp_fail(&error, FSDP_ERROR_INTERNAL, 7, "the family gives up");
	fsdp_pickle_leave(pickle, error);
}

static bool fold(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct family *family = context;
	assert_int_equal(call->state == FSDP_REF_NONE, call->row->when == FSDP_FOLD_CALL);
	give_up(family, pickle);
	if ((family->decline >> family->asked++ % 32 & 1) != 0)
		return false;
	struct text text = { 0 };
	struct show to = { pickle, &text, text_of_number, family };
	show(&to, call->callable);
	show(&to, call->arguments);
	if (call->state != FSDP_REF_NONE) {
		text_add(&text, "^");
		show(&to, call->state);
	}
	*ret_number = (uint32_t)family->count;
	family->texts =
		realloc(family->texts, (family->count + 1) * sizeof *family->texts);
	family->texts[family->count++] = text.data;
	return true;
}

static bool fold_persistent(
	void *context, struct fsdp_pickle *pickle, fsdp_ref id, uint32_t *ret_number)
{
	struct family *family = context;
	struct text text = { 0 };
	struct show to = { pickle, &text, text_of_number, family };
	text_add(&text, "pid:");
	show(&to, id);
	*ret_number = (uint32_t)family->count;
	family->texts =
		realloc(family->texts, (family->count + 1) * sizeof *family->texts);
	family->texts[family->count++] = text.data;
	return true;
}

static const struct fsdp_fold folds[] = {
	{ "c", "call", FSDP_FOLD_CALL, fold, 0 },
	{ "b", "build", FSDP_FOLD_BUILD, fold, 0 },
	{ "family.*", "prefixed", FSDP_FOLD_CALL, fold, 1 },
	{ "family.inner", "prefixed", FSDP_FOLD_CALL, fold, 2 },
};

static void family_done(struct family *family)
{
	for (size_t i = 0; i < family->count; i++)
		free(family->texts[i]);
	free(family->texts);
}

static void read_folding(
	struct reading *reading, struct family *family, const void *data, size_t size)
{
	reading_init(reading);
	reading->options.folds = folds;
	reading->options.fold_count = sizeof folds / sizeof *folds;
	reading->options.fold_persistent = fold_persistent;
	reading->options.context = family;
	reading_run(reading, data, size);
}

static char *text_of(const struct reading *reading, struct family *family)
{
	struct text text = { 0 };
	struct show to = { reading->pickle, &text, text_of_number, family };
	show(&to, fsdp_pickle_top(reading->pickle));
	return text.data;
}

static void expect_folded(
	const void *data, size_t size, unsigned decline, const char *expected)
{
	struct family family = { .decline = decline };
	struct reading reading;
	read_folding(&reading, &family, data, size);
	if (!reading.good)
		fail_msg("%s", fsdp_error_message(reading.error));
	char *text = text_of(&reading, &family);
	assert_string_equal(text, expected);
	free(text);
	reading_done(&reading);
	family_done(&family);
}

struct game {
	size_t size;
	const char *stream, *text;
};

#define GAME(stream, text)                       \
	{                                        \
		sizeof(stream) - 1, stream, text \
	}

#define CALL "cc\ncall\n"
#define BUILD "cb\nbuild\n"

/* Which of the folds are declined makes no difference to what is seen. */
static void folding_is_not_seen_from_outside(void **state)
{
	(void)state;
	static const struct game games[] = {
		GAME(CALL "K\1\x85R.", "<c.call>(1,)"),
		GAME(BUILD ")\x81}b.", "<b.build>()^{}"),
		GAME("(" CALL "K\1\x85RK\2lK\3ic\ncall\n.", "nothing"),
		/* folded inside folded, both ways */
		GAME(CALL "](" CALL "K\1\x85R" CALL "K\2\x85Re\x85R.",
			"<c.call>([<c.call>(1,),<c.call>(2,),],)"),
		GAME(BUILD ")\x81}(K\1" CALL "N\x85RK\2" BUILD ")\x81]bub.",
			"<b.build>()^{1:<c.call>(None,),2:<b.build>()^[],}"),
		/* a list inside what is folded is read again afterwards */
		GAME("]" CALL "](K\1K\2eq\5\x85Rah\5a.", "[<c.call>([1,2,],),[1,2,],]"),
		/* the same, deep inside */
		GAME("]" CALL "]](X\1\0\0\0xK\2eq\5a\x85Rah\5a.",
			"[<c.call>([['x',2,],],),['x',2,],]"),
		/* an old list from the memo, given something new inside what is folded */
		GAME("]q\1" CALL "h\1](K\1K\2ea\x85R\x86.",
			"([[1,2,],],<c.call>([[1,2,],],),)"),
		GAME("]q\1" CALL "h\1](K\1K\2ea\x85R]h\1\x87.",
			"(<c.call>([[1,2,],],),[],[[1,2,],],)"),
		/* the old list sits below on the stack, doubled */
		GAME("]" CALL "1](.", "nothing"),
		GAME("]2](X\1\0\0\0xX\1\0\0\0yea" CALL "\x85\x86.", "nothing"),
		/* a dict is given a key while it is an argument */
		GAME("}q\1" CALL "h\1X\1\0\0\0k](NNes\x85Rh\1\x86.",
			"(<c.call>({'k':[None,None,],},),{'k':[None,None,],},)"),
		/* a list inside a list of the memo is reached by doubling */
		GAME("]]q\1a" CALL "h\1(](K\1e](K\2ee\x85Rh\1\x87.",
			"([[[1,],[2,],],],<c.call>([[1,],[2,],],),[[1,],[2,],],)"),
		/* the folded value itself is memoized */
		GAME(CALL "K\1\x85Rq\1h\1h\1\x87.",
			"(<c.call>(1,),<c.call>(1,),<c.call>(1,),)"),
		GAME(BUILD ")\x81}bq\1h\1\x86.", "(<b.build>()^{},<b.build>()^{},)"),
		/* Python memoizes an instance before its state: all see the built one */
		GAME(BUILD ")\x81q\1}X\1\0\0\0aK\7sbh\1\x86.",
			"(<b.build>()^{'a':7,},<b.build>()^{'a':7,},)"),
		GAME("]" BUILD ")\x81q\1}X\1\0\0\0aK\7sbah\1a.",
			"[<b.build>()^{'a':7,},<b.build>()^{'a':7,},]"),
		/* a reference made before BUILD */
		GAME(BUILD ")\x81q\1]h\1aq\2"
			   "0}b]h\2ah\1a\x86.",
			"(<b.build>()^{},[[<b.build>()^{},],<b.build>()^{},],)"),
		/* a tuple of arguments that comes from the memo */
		GAME(CALL "K\1K\2\x86q\1R" CALL "h\1R\x86.",
			"(<c.call>(1,2,),<c.call>(1,2,),)"),
		/* texts that name a global lie below what is kept */
		GAME("\x80\4]\x8c\1c\x94\x8c\4call\x94\x93\x8c\1x\x94\x85Rah\0ah\2a.",
			"[<c.call>('x',),'c','x',]"),
		/* persistent ids */
		GAME("]X\1\0\0\0xq\1X\1\0\0\0y\x86Qah\1a.", "[pid:('x','y',),'x',]"),
		GAME("Px\nPy\n\x86.", "(pid:'x',pid:'y',)"),
		GAME(CALL "Px\n\x85R.", "<c.call>(pid:'x',)"),
		/* long argument lists */
		GAME(CALL "(K\1K\2K\3K\4K\5tR.", "<c.call>(1,2,3,4,5,)"),
		GAME("(cc\ncall\nK\1K\2K\3K\4o.", "<c.call>(1,2,3,4,)"),
		GAME("(K\1K\2K\3K\4ic\ncall\n.", "<c.call>(1,2,3,4,)"),
		GAME("(ic\ncall\n.", "<c.call>()"),
		/* a class of the table that is only a value */
		GAME("cc\ncall\ncb\nbuild\n\x86.", "(<c.call>,<b.build>,)"),
		/* never built: stays a call */
		GAME(BUILD ")\x81.", "<b.build>()"),
		/* numbers that need a cell */
		GAME("]J\xff\xff\xff\x7fq\1a" CALL "J\0\0\0\x80\x85Rah\1a.",
			"[2147483647,<c.call>(-2147483648,),2147483647,]"),
	};
	for (size_t i = 0; i < sizeof games / sizeof *games; i++) {
		struct reading plain;
		reading_init(&plain);
		reading_run(&plain, games[i].stream, games[i].size);
		struct family none = { 0 };
		char *text = text_of(&plain, &none);
		bool good = plain.good;
		if (strcmp(games[i].text, "nothing") != 0)
			assert_string_equal(text, games[i].text);
		reading_done(&plain);
		for (unsigned decline = 0; good && decline < 16; decline++)
			expect_folded(games[i].stream, games[i].size, decline, text);
		free(text);
	}
}

/* A state that is changed after its object was folded: the family saw it as it was. */
static void what_is_folded_stays_as_it_was(void **state)
{
	(void)state;
	static const char stream[] = "]q\1" CALL "h\1\x85Rh\1K\5a\x86\x86.";
	expect_folded(stream, sizeof stream - 1, 0, "([5,],(<c.call>([],),[5,],),)");
	static const char cycle[] = BUILD ")\x81q\1]h\1ab.";
	struct family family = { 0 };
	struct reading reading;
	read_folding(&reading, &family, cycle, sizeof cycle - 1);
	assert_true(reading.good);
	assert_string_equal(family.texts[0], "<b.build>()^[<b.build>(),]");
	assert_int_equal(
		fsdp_pickle_kind(reading.pickle, fsdp_pickle_top(reading.pickle)),
		FSDP_PICKLE_FOLDED);
	reading_done(&reading);
	family_done(&family);
}

static void expect_rule(const void *data, size_t size, const char *rule)
{
	struct family family = { 0 };
	struct reading reading;
	read_folding(&reading, &family, data, size);
	assert_true(reading.good);
	assert_int_equal(reading_found(&reading, rule), 1);
	reading_done(&reading);
	family_done(&family);
}

/* What comes after folding has no place to go; that is said, not hidden. */
static void late_additions_are_reported(void **state)
{
	(void)state;
	static const char late_state[] = CALL ")R}b.";
	static const char second_state[] = BUILD ")\x81}b}b.";
	static const char late_item[] = CALL ")RK\1K\2s.";
	static const char late_by_memo[] = BUILD ")\x81q\1}bh\1K\1K\2s\x86.";
	expect_rule(late_state, sizeof late_state - 1, "FI3008");
	expect_rule(second_state, sizeof second_state - 1, "FI3008");
	expect_rule(late_item, sizeof late_item - 1, "FI3010");
	expect_rule(late_by_memo, sizeof late_by_memo - 1, "FI3010");
}

static void items_or_keywords_keep_a_call_symbolic(void **state)
{
	(void)state;
	static const char items[] = BUILD ")\x81K\1K\2s}b.";
	expect_folded(items, sizeof items - 1, 0, "<b.build>()+1:2,^{}");
	static const char keywords[] = CALL ")}\x92.";
	expect_folded(keywords, sizeof keywords - 1, 0, "<c.call>(){}");
}

static void rows_match_by_name_or_by_the_beginning_of_a_module(void **state)
{
	(void)state;
	static const char stream[] =
		"cfamily.inner\nprefixed\nq\1cfamily.other\nprefixed\nq\2"
		"cfamily\nprefixed\nq\3c__builtin__\nset\n(lt.";
	struct family family = { 0 };
	struct reading reading;
	read_folding(&reading, &family, stream, sizeof stream - 1);
	static const int32_t rows[] = { 2, 2, -1, -1 };
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(
			fsdp_pickle_global(reading.pickle, i)->fold_row, rows[i]);
	reading_done(&reading);
	family_done(&family);
}

static void a_family_may_fail(void **state)
{
	(void)state;
	static const char stream[] = "cos\nsystem\n0" CALL ")R.";
	struct family family = { .fail = true };
	struct reading reading;
	read_folding(&reading, &family, stream, sizeof stream - 1);
	assert_false(reading.good);
	assert_int_equal(fsdp_error_code(reading.error), FSDP_ERROR_INTERNAL);
	assert_int_equal(fsdp_pickle_global_count(reading.pickle), 2);
	reading_done(&reading);
	/* damage before it is the lesser evil */
	static const char damaged[] = "a0" CALL ")R.";
	read_folding(&reading, &family, damaged, sizeof damaged - 1);
	assert_int_equal(fsdp_error_code(reading.error), FSDP_ERROR_INTERNAL);
	reading_done(&reading);
}

/* The machine's own memory for ten thousand folded records is that of the list. */
static void what_is_folded_is_forgotten(void **state)
{
	(void)state;
	static const char unit[] =
		"cb\nbuild\n)\x81}(X\1\0\0\0aK\1K\2\x86X\1\0\0\0bK\3ubr\0\0\0\0a";
	enum { RECORDS = 10000 };
	size_t one = sizeof unit - 1, size = 1;
	unsigned char *stream = malloc(one * RECORDS + 2);
	stream[0] = ']';
	for (uint32_t i = 0; i < RECORDS; i++, size += one) {
		memcpy(stream + size, unit, one);
		memcpy(stream + size + one - 5, &i, 4);
	}
	stream[size++] = '.';
	struct family family = { 0 };
	struct reading reading;
	read_folding(&reading, &family, stream, size);
	assert_true(reading.good);
	assert_int_equal(family.count, RECORDS);
	/* a reference in four bytes, in runs that double up to a thousand */
	assert_true(fsdp_pickle_identity_bound(reading.pickle) < RECORDS / 4 + 600);
	reading_done(&reading);
	family_done(&family);
	free(stream);
}

/* ---- dicts ---- */

static bool fold_dict(
	void *context, struct fsdp_pickle *pickle, fsdp_ref dict, uint32_t *ret_number)
{
	struct family *family = context;
	give_up(family, pickle);
	if ((family->decline >> family->asked++ % 32 & 1) != 0)
		return false;
	return fold_persistent(context, pickle, dict, ret_number);
}

static void read_dicts(
	struct reading *reading, struct family *family, const void *data, size_t size)
{
	reading_init(reading);
	reading->options.fold_dict = fold_dict;
	reading->options.context = family;
	reading_run(reading, data, size);
}

/* As above; the text of a folded dict begins with "pid:". */
static void dicts_are_folded_where_they_are_filled(void **state)
{
	(void)state;
	static const struct game games[] = {
		GAME("}X\1\0\0\0kK\1s.", "pid:{'k':1,}"),
		GAME("].", "[]"),
		GAME("}.", "{}"),
		/* memoized before it is filled, as Python does it: all see the folded one
		 */
		GAME("]}q\1(X\1\0\0\0kK\1uah\1a.", "[pid:{'k':1,},pid:{'k':1,},]"),
		GAME("]}q\1]h\1aq\2"
		     "0(X\1\0\0\0kK\1uah\2a.",
			"[pid:{'k':1,},[pid:{'k':1,},],]"),
		/* one inside another */
		GAME("}(X\1\0\0\0k}X\1\0\0\0jK\2su.", "pid:{'k':pid:{'j':2,},}"),
		/* what it holds is read again afterwards */
		GAME("]}(X\1\0\0\0k](K\1K\2eq\5uah\5a.", "[pid:{'k':[1,2,],},[1,2,],]"),
		GAME("]}(X\1\0\0\0kq\4X\1\0\0\0vq\5uah\4ah\5a.",
			"[pid:{'k':'v',},'k','v',]"),
	};
	for (size_t i = 0; i < sizeof games / sizeof *games; i++) {
		struct family family = { 0 };
		struct reading reading;
		read_dicts(&reading, &family, games[i].stream, games[i].size);
		assert_true(reading.good);
		char *text = text_of(&reading, &family);
		assert_string_equal(text, games[i].text);
		free(text);
		reading_done(&reading);
		family_done(&family);
	}
}

static void a_dict_that_is_declined_stays(void **state)
{
	(void)state;
	static const char stream[] = "]}(X\1\0\0\0kK\1ua}(X\1\0\0\0kK\2ua.";
	struct family family = { .decline = 1 };
	struct reading reading;
	read_dicts(&reading, &family, stream, sizeof stream - 1);
	char *text = text_of(&reading, &family);
	assert_string_equal(text, "[{'k':1,},pid:{'k':2,},]");
	free(text);
	reading_done(&reading);
	family_done(&family);
	family = (struct family){ .fail = true };
	read_dicts(&reading, &family, stream, sizeof stream - 1);
	assert_false(reading.good);
	reading_done(&reading);
	family_done(&family);
}

/* No fold is asked again and again about a dict that grows. */
static void large_dicts_are_not_asked_about(void **state)
{
	(void)state;
	unsigned char stream[8192] = "}";
	size_t size = 1;
	for (unsigned i = 0; i <= FSDP_FOLD_PAIRS; i++) {
		const unsigned char pair[] = { 'K', (unsigned char)i, 'N' };
		if (i == 0)
			stream[size++] = '(';
		memcpy(stream + size, pair, sizeof pair);
		size += sizeof pair;
	}
	stream[size++] = 'u';
	stream[size++] = '.';
	struct family family = { 0 };
	struct reading reading;
	read_dicts(&reading, &family, stream, size);
	assert_true(reading.good);
	assert_int_equal(family.asked, 0);
	reading_done(&reading);
	family_done(&family);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folding_is_not_seen_from_outside),
		cmocka_unit_test(what_is_folded_stays_as_it_was),
		cmocka_unit_test(late_additions_are_reported),
		cmocka_unit_test(items_or_keywords_keep_a_call_symbolic),
		cmocka_unit_test(rows_match_by_name_or_by_the_beginning_of_a_module),
		cmocka_unit_test(a_family_may_fail),
		cmocka_unit_test(what_is_folded_is_forgotten),
		cmocka_unit_test(dicts_are_folded_where_they_are_filled),
		cmocka_unit_test(a_dict_that_is_declined_stays),
		cmocka_unit_test(large_dicts_are_not_asked_about),
	};
	return reading_run_all(tests, sizeof tests / sizeof *tests);
}
