/* SPDX-License-Identifier: Apache-2.0 */
#include "store-setup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/directory.h"

/* Every test works in a folder of its own, with a secret beside it. */
static char root[] = "/tmp/fsdp-dir-XXXXXX";
static int home;

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int enter(void **state)
{
	(void)state;
	memcpy(root, "/tmp/fsdp-dir-XXXXXX", sizeof root);
	if (mkdtemp(root) == NULL)
		return -1;
	home = open(".", O_PATH);
	if (chdir(root) != 0 || mkdir("in", 0700) != 0)
		return -1;
	write_file("secret", "secret");
	return 0;
}

static void remove_all(int fd)
{
	DIR *stream = fdopendir(fd);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(stream), entry->d_name, 0) == 0)
			continue;
		remove_all(openat(dirfd(stream), entry->d_name, O_RDONLY | O_DIRECTORY));
		unlinkat(dirfd(stream), entry->d_name, AT_REMOVEDIR);
	}
	closedir(stream);
}

static int leave(void **state)
{
	(void)state;
	remove_all(open(root, O_RDONLY | O_DIRECTORY));
	int status = fchdir(home) != 0 || rmdir(root) != 0;
	close(home);
	return status;
}

static size_t open_descriptors(void)
{
	size_t count = 0;
	for (int fd = 0; fd < 512; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static bool open_in(struct setup *setup, struct fsdp_dir *dir)
{
	return fsdp_dir_open(
		NULL, "in", &setup->arena, &setup->limits, dir, &setup->error);
}

/* What a name reads as; "" if it is refused, and then the error stays. */
static const char *text_of(
	struct setup *setup, const struct fsdp_dir *dir, const char *name)
{
	static char text[64];
	struct fsdp_source source;
	memset(text, 0, sizeof text);
	if (fsdp_dir_source(dir, fsdp_span_text(name), &source, &setup->error))
		assert_true(fsdp_source_read(&source, 0, text,
			source.size < 63 ? (size_t)source.size : 63, &setup->error));
	return text;
}

static void expect_refused(struct setup *setup, const struct fsdp_dir *dir,
	const char *name, const char *rule)
{
	assert_string_equal(text_of(setup, dir, name), "");
	assert_non_null(setup->error);
	assert_string_equal(fsdp_error_rule(setup->error), rule);
	assert_non_null(fsdp_error_path(setup->error));
	fsdp_error_free(setup->error);
	setup->error = NULL;
}

static enum fsdp_entry_kind kind_of(const struct fsdp_dir *dir, const char *name)
{
	const struct fsdp_entry *entry = fsdp_dir_find(dir, fsdp_span_text(name));
	assert_non_null(entry);
	return entry->kind;
}

static void entries_are_listed_in_order(void **state)
{
	(void)state;
	size_t before = open_descriptors();
	struct setup setup;
	setup_init(&setup);
	write_file("in/b", "bb");
	write_file("in/a", "a");
	write_file("in/a-", "");
	write_file("in/\377\n", "odd");
	assert_int_equal(mkdir("in/Z", 0700), 0);
	struct fsdp_dir dir;
	assert_true(open_in(&setup, &dir));
	const char *const names[] = { "Z", "a", "a-", "b", "\377\n" };
	assert_int_equal(fsdp_dir_count(&dir), 5);
	for (size_t i = 0; i < 5; i++) {
		assert_true(fsdp_span_is(fsdp_dir_entry(&dir, i)->name, names[i]));
		assert_ptr_equal(fsdp_dir_find(&dir, fsdp_span_text(names[i])),
			fsdp_dir_entry(&dir, i));
	}
	assert_null(fsdp_dir_find(&dir, FSDP_SPAN("c")));
	assert_null(fsdp_dir_find(&dir, FSDP_SPAN("")));
	assert_int_equal(fsdp_dir_entry(&dir, 3)->size, 2);
	assert_int_equal(kind_of(&dir, "Z"), FSDP_ENTRY_DIRECTORY);
	assert_int_equal(kind_of(&dir, "a"), FSDP_ENTRY_FILE);
	assert_string_equal(text_of(&setup, &dir, "b"), "bb");
	assert_string_equal(text_of(&setup, &dir, "\377\n"), "odd");
	expect_refused(&setup, &dir, "Z", "FI3065");
	fsdp_dir_close(&dir);
	fsdp_dir_close(&dir);
	setup_done(&setup);
	assert_int_equal(open_descriptors(), before);
}

static void what_is_not_there_is_said_so(void **state)
{
	(void)state;
	size_t before = open_descriptors();
	struct setup setup;
	setup_init(&setup);
	struct fsdp_dir dir;
	struct fsdp_source source;
	assert_false(fsdp_dir_open(
		NULL, "absent", &setup.arena, &setup.limits, &dir, &setup.error));
	assert_string_equal(fsdp_error_message(setup.error), "no such file");
	assert_string_equal(fsdp_error_path(setup.error), "absent");
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	assert_false(fsdp_dir_open(
		NULL, "secret", &setup.arena, &setup.limits, &dir, &setup.error));
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	assert_false(fsdp_file_open(NULL, "absent", &source, &setup.error));
	assert_string_equal(fsdp_error_message(setup.error), "no such file");
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	assert_false(fsdp_file_open(NULL, "in", &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_NOT_A_CHECKPOINT, "FI3065");
	assert_true(open_in(&setup, &dir));
	assert_false(fsdp_dir_source(&dir, FSDP_SPAN("absent"), &source, &setup.error));
	assert_string_equal(fsdp_error_message(setup.error), "no such file");
	assert_string_equal(fsdp_error_path(setup.error), "in/absent");
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	assert_false(
		fsdp_dir_source(&dir, FSDP_SPAN("absent/file"), &source, &setup.error));
	assert_string_equal(fsdp_error_message(setup.error), "no such file");
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	assert_false(fsdp_dir_open_child(
		&dir, "absent", &setup.arena, &setup.limits, &dir, &setup.error));
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	fsdp_dir_close(&dir);
	setup_done(&setup);
	assert_int_equal(open_descriptors(), before);
}

static void names_of_content_are_judged(void **state)
{
	(void)state;
	static const char *const safe[] = { "a", "a/b", "...", "a..b", ".a", "a b",
		"\xc3\xa4", "ab:c", "1:", "a/.b/..c" };
	static const char *const unsafe[] = { "", ".", "..", "/", "/a", "a/", "a//b",
		"a/./b", "a/../b", "../a", "a/..", "a\\b", "c:a", "C:", "a\n", "a\033",
		"a\177" };
	for (size_t i = 0; i < sizeof safe / sizeof *safe; i++)
		if (!fsdp_name_is_safe(fsdp_span_text(safe[i])))
			fail_msg("refused: %s", safe[i]);
	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
		if (fsdp_name_is_safe(fsdp_span_text(unsafe[i])))
			fail_msg("taken: %s", unsafe[i]);
	assert_false(fsdp_name_is_safe(FSDP_SPAN("a\0b")));
	char name[4097];
	memset(name, 'a', sizeof name);
	assert_true(fsdp_name_is_safe(fsdp_span(name, 4096)));
	assert_false(fsdp_name_is_safe(fsdp_span(name, 4097)));

	struct setup setup;
	setup_init(&setup);
	struct fsdp_dir dir;
	assert_true(open_in(&setup, &dir));
	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
		expect_refused(&setup, &dir, unsafe[i], "FI3064");
	expect_refused(&setup, &dir, "../secret", "FI3064");
	struct fsdp_source source;
	assert_false(fsdp_dir_source(&dir, fsdp_span(name, 4096), &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	memset(name, '/', 4096);
	for (size_t i = 0; i < 4096; i += 2)
		name[i] = 'a';
	name[4095] = 'a';
	assert_false(fsdp_dir_source(&dir, fsdp_span(name, 4096), &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	fsdp_dir_close(&dir);
	setup_done(&setup);
}

static void links_are_followed_inside_only(void **state)
{
	(void)state;
	size_t before = open_descriptors();
	struct setup setup;
	setup_init(&setup);
	char absolute[256];
	write_file("in/file", "inside");
	assert_int_equal(mkdir("in/sub", 0700), 0);
	assert_int_equal(mkdir("in/sub/deep", 0700), 0);
	write_file("in/sub/deep/file", "deep");
	assert_int_equal(symlink("file", "in/plain"), 0);
	assert_int_equal(symlink("./sub/../file", "in/crooked"), 0);
	assert_int_equal(symlink("sub/deep/file", "in/down"), 0);
	assert_int_equal(symlink("../../file", "in/sub/deep/up"), 0);
	assert_int_equal(symlink("../../../secret", "in/sub/deep/out"), 0);
	assert_int_equal(symlink("../secret", "in/out"), 0);
	assert_int_equal(symlink("../in/file", "in/round"), 0);
	assert_int_equal(symlink("plain", "in/twice"), 0);
	assert_int_equal(symlink("loop", "in/loop"), 0);
	assert_int_equal(symlink("nowhere", "in/nowhere"), 0);
	assert_int_equal(symlink("/etc/passwd", "in/etc"), 0);
	assert_int_equal(symlink("sub", "in/folder"), 0);
	assert_int_equal(symlink("folder/deep/file", "in/through"), 0);
	assert_int_equal(symlink("..", "in/parent"), 0);
	assert_int_equal(symlink(".", "in/self"), 0);
	snprintf(absolute, sizeof absolute, "%s/in/file", root);
	assert_int_equal(symlink(absolute, "in/absolute"), 0);
	snprintf(absolute, sizeof absolute, "%s/in/../secret", root);
	assert_int_equal(symlink(absolute, "in/absolute-out"), 0);
	snprintf(absolute, sizeof absolute, "%s/inn", root);
	assert_int_equal(symlink(absolute, "in/beside"), 0);

	struct fsdp_dir dir, child;
	assert_true(open_in(&setup, &dir));
	static const char *const inside[] = { "plain", "crooked", "absolute" };
	for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
		assert_int_equal(kind_of(&dir, inside[i]), FSDP_ENTRY_FILE);
		assert_int_equal(fsdp_dir_find(&dir, fsdp_span_text(inside[i]))->size, 6);
		assert_string_equal(text_of(&setup, &dir, inside[i]), "inside");
	}
	assert_string_equal(text_of(&setup, &dir, "down"), "deep");
	static const char *const outside[] = { "out", "round", "twice", "loop", "nowhere",
		"etc", "through", "parent", "self", "absolute-out", "beside" };
	for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
		assert_int_equal(kind_of(&dir, outside[i]), FSDP_ENTRY_LINK_OUTSIDE);
		expect_refused(&setup, &dir, outside[i], "FI3065");
		assert_false(fsdp_dir_open_child(
			&dir, outside[i], &setup.arena, &setup.limits, &child, NULL));
	}
	assert_int_equal(kind_of(&dir, "folder"), FSDP_ENTRY_LINK_DIRECTORY);

	assert_string_equal(text_of(&setup, &dir, "sub/deep/file"), "deep");
	assert_string_equal(text_of(&setup, &dir, "sub/deep/up"), "inside");
	expect_refused(&setup, &dir, "sub/deep/out", "FI3065");
	expect_refused(&setup, &dir, "folder/deep/file", "FI3065");
	expect_refused(&setup, &dir, "file/file", "FI3065");
	expect_refused(&setup, &dir, "sub/deep", "FI3065");

	assert_true(fsdp_dir_open_child(
		&dir, "folder", &setup.arena, &setup.limits, &child, &setup.error));
	assert_string_equal(child.below, "sub");
	assert_string_equal(text_of(&setup, &child, "deep/up"), "inside");
	struct fsdp_dir deep;
	assert_true(fsdp_dir_open_child(
		&child, "deep", &setup.arena, &setup.limits, &deep, &setup.error));
	assert_string_equal(deep.path, "in/folder/deep");
	assert_string_equal(deep.below, "sub/deep");
	fsdp_dir_close(&dir);
	fsdp_dir_close(&child);
	assert_int_equal(kind_of(&deep, "up"), FSDP_ENTRY_FILE);
	assert_int_equal(kind_of(&deep, "out"), FSDP_ENTRY_LINK_OUTSIDE);
	assert_string_equal(text_of(&setup, &deep, "up"), "inside");
	fsdp_dir_close(&deep);
	setup_done(&setup);
	assert_int_equal(open_descriptors(), before);
}

static void links_of_a_download_cache_are_followed(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	char hex[65], text[128];
	assert_int_equal(mkdir("blobs", 0700), 0);
	assert_int_equal(mkdir("snapshots", 0700), 0);
	assert_int_equal(rmdir("in"), 0);
	assert_int_equal(mkdir("snapshots/rev", 0700), 0);
	assert_int_equal(mkdir("snapshots/rev/sub", 0700), 0);
	assert_int_equal(symlink("snapshots/rev", "in"), 0);
	memset(hex, 'a', 64);
	hex[64] = '\0';
	snprintf(text, sizeof text, "blobs/%s", hex);
	write_file(text, "blob");
	snprintf(text, sizeof text, "../../blobs/%s", hex);
	assert_int_equal(symlink(text, "in/model"), 0);
	snprintf(text, sizeof text, "../../../blobs/%s", hex);
	assert_int_equal(symlink(text, "in/sub/model"), 0);
	assert_int_equal(symlink(text, "in/too-far"), 0);
	snprintf(text, sizeof text, "../../blobs/%.63s", hex);
	assert_int_equal(symlink(text, "in/short"), 0);
	snprintf(text, sizeof text, "../../blobs/%.40s", hex);
	assert_int_equal(symlink(text, "in/absent"), 0);
	snprintf(text, sizeof text, "../../blobs/../blobs/%s", hex);
	assert_int_equal(symlink(text, "in/crooked"), 0);
	assert_int_equal(symlink("../../secret", "in/secret"), 0);
	memset(hex, 'b', 64);
	snprintf(text, sizeof text, "blobs/%s", hex);
	assert_int_equal(symlink("../secret", text), 0);
	snprintf(text, sizeof text, "../../blobs/%s", hex);
	assert_int_equal(symlink(text, "in/link-to-link"), 0);
	memset(hex, 'c', 64);
	snprintf(text, sizeof text, "blobs/%s", hex);
	assert_int_equal(mkdir(text, 0700), 0);
	snprintf(text, sizeof text, "../../blobs/%s", hex);
	assert_int_equal(symlink(text, "in/folder"), 0);

	struct fsdp_dir dir;
	assert_true(open_in(&setup, &dir));
	assert_int_equal(kind_of(&dir, "model"), FSDP_ENTRY_FILE);
	assert_string_equal(text_of(&setup, &dir, "model"), "blob");
	assert_string_equal(text_of(&setup, &dir, "sub/model"), "blob");
	static const char *const outside[] = { "too-far", "short", "crooked", "secret",
		"link-to-link", "folder" };
	for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
		assert_int_equal(kind_of(&dir, outside[i]), FSDP_ENTRY_LINK_OUTSIDE);
		expect_refused(&setup, &dir, outside[i], "FI3065");
	}
	assert_int_equal(kind_of(&dir, "absent"), FSDP_ENTRY_LINK_BROKEN);
	expect_refused(&setup, &dir, "absent", "FI1001");
	fsdp_dir_close(&dir);
	setup_done(&setup);
}

static void special_files_are_never_opened(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	assert_int_equal(mkfifo("in/pipe", 0600), 0);
	assert_int_equal(mkdir("in/sub", 0700), 0);
	assert_int_equal(mkfifo("in/sub/pipe", 0600), 0);
	assert_int_equal(symlink("pipe", "in/link"), 0);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "in/socket" };
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	close(fd);
	struct fsdp_dir dir;
	assert_true(open_in(&setup, &dir));
	static const char *const names[] = { "pipe", "link", "socket" };
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(kind_of(&dir, names[i]), FSDP_ENTRY_SPECIAL);
		expect_refused(&setup, &dir, names[i], "FI3065");
	}
	expect_refused(&setup, &dir, "sub/pipe", "FI3065");
	struct fsdp_source source;
	assert_false(fsdp_file_open(NULL, "in/pipe", &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_NOT_A_CHECKPOINT, "FI3065");
	fsdp_dir_close(&dir);
	setup_done(&setup);
}

static void what_the_user_names_is_followed(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	assert_int_equal(symlink("../secret", "in/link"), 0);
	struct fsdp_source source;
	assert_true(fsdp_file_open(NULL, "in/link", &source, &setup.error));
	assert_int_equal(source.size, 6);
	close(source.fd);
	setup_done(&setup);
}

static void a_link_is_read_if_it_fits(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_dir dir;
	char text[10] = "123456789";
	assert_int_equal(symlink("../secret", "in/link"), 0);
	write_file("in/file", "file");
	assert_true(open_in(&setup, &dir));
	assert_false(fsdp_dir_link(&dir, FSDP_SPAN("link"), text, 8));
	assert_false(fsdp_dir_link(&dir, FSDP_SPAN("link"), text, 9));
	assert_int_equal(text[9], '\0');
	assert_true(fsdp_dir_link(&dir, FSDP_SPAN("link"), text, 10));
	assert_string_equal(text, "../secret");
	assert_false(fsdp_dir_link(&dir, FSDP_SPAN("file"), text, sizeof text));
	assert_false(fsdp_dir_link(&dir, FSDP_SPAN("none"), text, sizeof text));
	fsdp_dir_close(&dir);
	setup_done(&setup);
}

static void one_folder_may_have_two_names(void **state)
{
	(void)state;
	assert_int_equal(mkdir("other", 0700), 0);
	assert_int_equal(symlink("in", "link"), 0);
	assert_true(fsdp_dir_is_same("in", "in"));
	assert_true(fsdp_dir_is_same("in", "./in/"));
	assert_true(fsdp_dir_is_same("in", "link"));
	assert_false(fsdp_dir_is_same("in", "other"));
	assert_false(fsdp_dir_is_same("in", "absent"));
	assert_false(fsdp_dir_is_same("absent", "in"));
}

static void few_descriptors_are_open_at_a_time(void **state)
{
	(void)state;
	size_t before = open_descriptors();
	struct setup setup;
	setup_init(&setup);
	char name[32];
	assert_int_equal(mkdir("in/sub", 0700), 0);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "in/%s%d", i % 2 == 0 ? "" : "sub/", i);
		write_file(name, name);
	}
	struct fsdp_dir dir, child;
	assert_true(open_in(&setup, &dir));
	assert_true(fsdp_dir_open_child(
		&dir, "sub", &setup.arena, &setup.limits, &child, &setup.error));
	struct fsdp_source first, last = { 0 };
	assert_true(fsdp_dir_source(&dir, FSDP_SPAN("0"), &first, &setup.error));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 200; i++) {
			int size = snprintf(name, sizeof name, "%d", i);
			assert_true(fsdp_dir_source(i % 2 == 0 ? &dir : &child,
				fsdp_span(name, (size_t)size), &last, &setup.error));
			assert_true(open_descriptors() <= before + 64 + 3);
		}
	}
	for (int i = 136; i < 200; i++) {
		int size = snprintf(name, sizeof name, "%d", i);
		struct fsdp_source again;
		assert_true(fsdp_dir_source(i % 2 == 0 ? &dir : &child,
			fsdp_span(name, (size_t)size), &again, &setup.error));
	}
	assert_int_equal(open_descriptors(), before + 64 + 3);

	struct rlimit limit, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = before + 64 + 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_string_equal(text_of(&setup, &dir, "2"), "in/2");
	none.rlim_cur = 10;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 100; i++)
		(void)text_of(&setup, &dir, "sub/3");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fsdp_dir_close(&child);
	fsdp_dir_close(&dir);
	setup_done(&setup);
	assert_int_equal(open_descriptors(), before);
}

/* What one thread asks for must close nothing that another one reads. */
static void those_that_share_open_files_of_their_own(void **state)
{
	(void)state;
	enum { SHARES = 20, FILES = 100 };
	size_t before = open_descriptors();
	struct setup setup;
	setup_init(&setup);
	char name[32];
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof name, "in/%d", i);
		write_file(name, name);
	}
	struct fsdp_dir dir, shares[SHARES];
	struct fsdp_source held, source;
	char text[8] = "";
	assert_true(open_in(&setup, &dir));
	assert_true(fsdp_dir_source(&dir, FSDP_SPAN("7"), &held, &setup.error));
	for (int i = 0; i < SHARES; i++)
		assert_true(fsdp_dir_share(&dir, &shares[i], &setup.error));
	for (int i = 0; i < SHARES; i++)
		for (int k = 0; k < FILES; k++) {
			snprintf(name, sizeof name, "in/%d", k);
			assert_string_equal(text_of(&setup, &shares[i], name + 3), name);
		}
	assert_true(open_descriptors() <= before + 3 + 1 + 512 + SHARES);
	assert_true(fsdp_dir_source(&shares[0], FSDP_SPAN("7"), &source, &setup.error));
	assert_int_not_equal(source.fd, held.fd);
	for (int i = 0; i < SHARES; i++)
		fsdp_dir_close(&shares[i]);
	assert_int_equal(open_descriptors(), before + 3);
	assert_true(fsdp_source_read(&held, 0, text, 4, &setup.error));
	assert_string_equal(text, "in/7");
	fsdp_dir_close(&dir);
	setup_done(&setup);
	assert_int_equal(open_descriptors(), before);
}

static void a_file_that_changed_is_told(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	write_file("in/file", "one");
	struct fsdp_dir dir;
	assert_true(open_in(&setup, &dir));
	assert_string_equal(text_of(&setup, &dir, "file"), "one");
	write_file("in/file", "longer");
	expect_refused(&setup, &dir, "file", "FI2004");
	unlink("in/file");
	assert_int_equal(symlink("../secret", "in/file"), 0);
	fsdp_dir_close(&dir);

	assert_true(open_in(&setup, &dir));
	unlink("in/file");
	write_file("in/file", "one");
	expect_refused(&setup, &dir, "file", "FI3065");
	fsdp_dir_close(&dir);

	assert_true(open_in(&setup, &dir));
	unlink("in/file");
	assert_int_equal(symlink("../secret", "in/file"), 0);
	expect_refused(&setup, &dir, "file", "FI3065");
	unlink("in/file");
	assert_int_equal(mkfifo("in/file", 0600), 0);
	expect_refused(&setup, &dir, "file", "FI3065");
	fsdp_dir_close(&dir);
	setup_done(&setup);
}

static void many_entries_are_bounded_and_quick(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	char name[32];
	for (int i = 0; i < 2500; i++) {
		snprintf(name, sizeof name, "in/__%d_0.distcp", i * 7919 % 2500);
		close(open(name, O_CREAT | O_WRONLY, 0600));
	}
	struct fsdp_dir dir;
	assert_true(fsdp_limits_set(&setup.limits, "files", 2499));
	size_t before = open_descriptors();
	assert_false(open_in(&setup, &dir));
	assert_string_equal(fsdp_error_limit(setup.error), "files");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	assert_int_equal(open_descriptors(), before);
	assert_true(fsdp_limits_set(&setup.limits, "files", 2500));
	assert_true(open_in(&setup, &dir));
	assert_int_equal(fsdp_dir_count(&dir), 2500);
	for (size_t i = 1; i < 2500; i++)
		assert_true(fsdp_span_compare(fsdp_dir_entry(&dir, i - 1)->name,
				    fsdp_dir_entry(&dir, i)->name) < 0);
	fsdp_dir_close(&dir);
	setup_done(&setup);
}

static void a_list_without_files_opens_none(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_dir dir = { .arena = &setup.arena, .fd = -1 };
	struct fsdp_source source;
	assert_false(fsdp_dir_source(&dir, FSDP_SPAN("a"), &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_USAGE, NULL);
	fsdp_dir_close(&dir);
	setup_done(&setup);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		TEST(entries_are_listed_in_order),
		TEST(what_is_not_there_is_said_so),
		TEST(names_of_content_are_judged),
		TEST(links_are_followed_inside_only),
		TEST(links_of_a_download_cache_are_followed),
		TEST(special_files_are_never_opened),
		TEST(what_the_user_names_is_followed),
		TEST(a_link_is_read_if_it_fits),
		TEST(one_folder_may_have_two_names),
		TEST(few_descriptors_are_open_at_a_time),
		TEST(those_that_share_open_files_of_their_own),
		TEST(a_file_that_changed_is_told),
		TEST(many_entries_are_bounded_and_quick),
		TEST(a_list_without_files_opens_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
