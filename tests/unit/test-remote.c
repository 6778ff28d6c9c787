/* SPDX-License-Identifier: Apache-2.0 */
#include "store-setup.h"

#include <sys/socket.h>
#include <unistd.h>

#include "io/directory.h"

/*
 * What the helper sends is written before it is asked, for the numbers of requests are
 * known: 1 is HELLO, 2 the root, and then one each for a list or a read.
 */
struct talk {
	struct setup setup;
	int ends[2];
	struct fsdp_remote *remote;
	unsigned char bytes[8192];
	size_t size;
};

enum { OK = 128, ROOT_IS, ENTRIES, DATA, END, FAIL };

static void put(struct talk *talk, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		talk->bytes[talk->size++] = (unsigned char)(number >> (8 * i));
}

static void put_text(struct talk *talk, const char *text)
{
	put(talk, strlen(text), 2);
	memcpy(talk->bytes + talk->size, text, strlen(text));
	talk->size += strlen(text);
}

static void begin_frame(struct talk *talk, uint32_t id, unsigned kind)
{
	talk->size = 4;
	put(talk, id, 4);
	put(talk, kind, 1);
}

static void send_as(struct talk *talk, uint64_t size)
{
	size_t end = talk->size;
	talk->size = 0;
	put(talk, size, 4);
	assert_int_equal(write(talk->ends[1], talk->bytes, end), (ssize_t)end);
}

static void send_frame(struct talk *talk)
{
	send_as(talk, talk->size - 4);
}

static void put_entry(struct talk *talk, unsigned kind, uint32_t number, uint64_t size,
	const char *name)
{
	put(talk, kind, 1);
	put(talk, number, 4);
	put(talk, size, 8);
	put(talk, 0, 8);
	put_text(talk, name);
	put(talk, 0, 1);
}

static void begin(struct talk *talk)
{
	setup_init(&talk->setup);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, talk->ends), 0);
	begin_frame(talk, 1, OK);
	send_frame(talk);
	assert_true(fsdp_remote_new(talk->ends[0], NULL, 0, NULL, &talk->remote, NULL));
}

static void done(struct talk *talk)
{
	fsdp_remote_free(talk->remote);
	close(talk->ends[1]);
	setup_done(&talk->setup);
}

/* A root with one file, and its list. */
static void add_sized(struct talk *talk, const char *name, uint64_t size)
{
	begin_frame(talk, 2, ROOT_IS);
	put(talk, 2, 1);
	send_frame(talk);
	begin_frame(talk, 3, ENTRIES);
	put_entry(talk, 0, 0, size, name);
	send_frame(talk);
	begin_frame(talk, 3, END);
	send_frame(talk);
	assert_true(fsdp_remote_add(talk->remote, "s3://b/run", "s3://b/run"));
}

static void add_root(struct talk *talk, const char *name)
{
	add_sized(talk, name, 10);
}

static void put_data(
	struct talk *talk, uint32_t id, uint32_t file, uint64_t offset, const char *text)
{
	begin_frame(talk, id, DATA);
	put(talk, file, 4);
	put(talk, offset, 8);
	memcpy(talk->bytes + talk->size, text, strlen(text));
	talk->size += strlen(text);
	send_frame(talk);
}

static bool open_root(struct talk *talk, struct fsdp_dir *dir)
{
	return fsdp_dir_open(talk->remote, "s3://b/run", &talk->setup.arena,
		&talk->setup.limits, dir, &talk->setup.error);
}

static void a_file_is_listed_and_read_once(void **state)
{
	(void)state;
	struct talk talk;
	struct fsdp_dir dir;
	struct fsdp_source source;
	char bytes[11] = "";
	begin(&talk);
	add_root(&talk, "a");
	assert_true(open_root(&talk, &dir));
	assert_int_equal(fsdp_dir_count(&dir), 1);
	assert_int_equal(fsdp_dir_entry(&dir, 0)->size, 10);
	assert_true(fsdp_dir_source(&dir, FSDP_SPAN("a"), &source, &talk.setup.error));
	put_data(&talk, 4, 0, 0, "01234");
	put_data(&talk, 4, 0, 5, "56789");
	begin_frame(&talk, 4, END);
	send_frame(&talk);
	assert_true(fsdp_source_read(&source, 0, bytes, 10, &talk.setup.error));
	assert_string_equal(bytes, "0123456789");
	/* From what is kept. */
	assert_true(fsdp_source_read(&source, 8, bytes, 2, &talk.setup.error));
	assert_memory_equal(bytes, "89", 2);
	assert_false(fsdp_source_read(&source, 8, bytes, 3, &talk.setup.error));
	setup_expect(&talk.setup, FSDP_ERROR_DAMAGED, "FI1004");
	assert_int_equal(fsdp_remote_kind(talk.remote, "s3://b/run"), FSDP_REMOTE_FOLDER);
	assert_int_equal(fsdp_remote_kind(talk.remote, "s3://b/run/a"), FSDP_REMOTE_FILE);
	assert_int_equal(
		fsdp_remote_kind(talk.remote, "s3://b/run/.."), FSDP_REMOTE_NOTHING);
	assert_int_equal(fsdp_remote_kind(talk.remote, "s3://b"), FSDP_REMOTE_NOTHING);
	assert_int_equal(fsdp_remote_kind(talk.remote, "s3://c"), FSDP_REMOTE_LOCAL);
	fsdp_dir_close(&dir);
	done(&talk);
}

static void failures_have_words_of_their_own(void **state)
{
	(void)state;
	struct talk talk;
	struct fsdp_dir dir;
	struct fsdp_source source;
	char bytes[10];
	begin(&talk);
	add_root(&talk, "a.x");
	assert_true(open_root(&talk, &dir));
	assert_true(fsdp_dir_source(&dir, FSDP_SPAN("a.x"), &source, &talk.setup.error));
	begin_frame(&talk, 4, FAIL);
	put(&talk, 7, 1);
	put_text(&talk, "");
	send_frame(&talk);
	assert_false(fsdp_source_read(&source, 0, bytes, 10, &talk.setup.error));
	setup_expect(&talk.setup, FSDP_ERROR_DAMAGED, "FI2004");
	/* It is asked for anew. */
	put_data(&talk, 5, 0, 0, "0123456789");
	begin_frame(&talk, 5, END);
	send_frame(&talk);
	assert_true(fsdp_source_read(&source, 0, bytes, 10, &talk.setup.error));
	fsdp_dir_close(&dir);
	done(&talk);
}

static void names_that_lead_elsewhere_end_the_connection(void **state)
{
	(void)state;
	static const char *const names[] = { "../x", "x/y", "..", "", "a/./b" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct talk talk;
		struct fsdp_dir dir;
		begin(&talk);
		add_root(&talk, names[i]);
		assert_false(open_root(&talk, &dir));
		setup_expect(&talk.setup, FSDP_ERROR_SYSTEM, NULL);
		done(&talk);
	}
}

/* Each is the only thing that is wrong. */
static void bytes_that_nobody_asked_for_end_the_connection(void **state)
{
	(void)state;
	for (int fault = 0; fault < 9; fault++) {
		struct talk talk;
		struct fsdp_dir dir;
		struct fsdp_source source;
		char bytes[10];
		begin(&talk);
		add_root(&talk, "a");
		assert_true(open_root(&talk, &dir));
		assert_true(fsdp_dir_source(
			&dir, FSDP_SPAN("a"), &source, &talk.setup.error));
		switch (fault) {
		case 0: /* another request */
			put_data(&talk, 9, 0, 0, "0123456789");
			break;
		case 1: /* another file */
			put_data(&talk, 4, 1, 0, "0123456789");
			break;
		case 2: /* not the next byte */
			put_data(&talk, 4, 0, 1, "123456789");
			break;
		case 3: /* more than there is */
			put_data(&talk, 4, 0, 0, "0123456789a");
			break;
		case 4: /* a byte twice */
			put_data(&talk, 4, 0, 0, "01234");
			put_data(&talk, 4, 0, 0, "01234");
			break;
		case 5: /* an end that is too early */
			put_data(&talk, 4, 0, 0, "01234");
			begin_frame(&talk, 4, END);
			send_frame(&talk);
			break;
		case 6: /* a frame that is too long */
			begin_frame(&talk, 4, DATA);
			send_as(&talk, (1 << 20) + 65);
			break;
		case 7: /* one that is cut */
			begin_frame(&talk, 4, DATA);
			send_as(&talk, 500);
			shutdown(talk.ends[1], SHUT_WR);
			break;
		default: /* and none at all */
			shutdown(talk.ends[1], SHUT_WR);
			break;
		}
		assert_false(fsdp_source_read(&source, 0, bytes, 10, &talk.setup.error));
		setup_expect(&talk.setup, FSDP_ERROR_SYSTEM, NULL);
		/* Nothing is read any more. */
		assert_false(fsdp_source_read(&source, 0, bytes, 10, &talk.setup.error));
		setup_expect(&talk.setup, FSDP_ERROR_SYSTEM, NULL);
		fsdp_dir_close(&dir);
		done(&talk);
	}
}

static void what_was_announced_needs_no_further_request(void **state)
{
	(void)state;
	struct talk talk;
	struct fsdp_dir dir;
	struct fsdp_source source;
	char bytes[10];
	begin(&talk);
	add_root(&talk, "config.json");
	put_data(&talk, 4, 0, 0, "0123456789");
	begin_frame(&talk, 4, END);
	send_frame(&talk);
	assert_true(open_root(&talk, &dir));
	assert_true(fsdp_dir_source(
		&dir, FSDP_SPAN("config.json"), &source, &talk.setup.error));
	assert_true(fsdp_source_read(&source, 2, bytes, 3, &talk.setup.error));
	assert_memory_equal(bytes, "234", 3);
	fsdp_dir_close(&dir);
	done(&talk);
}

static void end_at(const struct fsdp_limit_setting *limit)
{
	struct talk talk;
	struct fsdp_dir dir;
	struct fsdp_source source;
	static char bytes[100000];
	setup_init(&talk.setup);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, talk.ends), 0);
	begin_frame(&talk, 1, OK);
	send_frame(&talk);
	assert_true(fsdp_remote_new(talk.ends[0], limit, 1, NULL, &talk.remote, NULL));
	add_sized(&talk, "a.x", 100000);
	assert_true(open_root(&talk, &dir));
	assert_true(fsdp_dir_source(&dir, FSDP_SPAN("a.x"), &source, &talk.setup.error));
	assert_false(
		fsdp_source_read(&source, 0, bytes, sizeof bytes, &talk.setup.error));
	setup_expect(&talk.setup, FSDP_ERROR_LIMIT, "FI9001");
	fsdp_dir_close(&dir);
	done(&talk);
}

static void a_limit_ends_reading(void **state)
{
	(void)state;
	const struct fsdp_limit_setting both[] = { { "remote-requests", 1 },
		{ "remote-bytes", 1 } };
	for (size_t i = 0; i < 2; i++)
		end_at(&both[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_listed_and_read_once),
		cmocka_unit_test(failures_have_words_of_their_own),
		cmocka_unit_test(names_that_lead_elsewhere_end_the_connection),
		cmocka_unit_test(bytes_that_nobody_asked_for_end_the_connection),
		cmocka_unit_test(what_was_announced_needs_no_further_request),
		cmocka_unit_test(a_limit_ends_reading),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
