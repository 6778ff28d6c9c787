/* SPDX-License-Identifier: Apache-2.0 */
#include "store-setup.h"

#include "io/directory.h"

static void add(struct setup *setup, struct fsdp_vec *packed, const char *name)
{
	struct fsdp_packed *member = fsdp_vec_push(packed);
	assert_non_null(member);
	struct fsdp_span copy = fsdp_arena_copy(&setup->arena, fsdp_span_text(name));
	assert_non_null(copy.data);
	*member = (struct fsdp_packed){
		.name = copy, .source = fsdp_source_memory(copy), .offset = packed->count
	};
}

static void make(struct setup *setup, const char *const *names, size_t count,
	struct fsdp_vec *packed, struct fsdp_folder *folder)
{
	fsdp_vec_init(packed, &setup->arena, sizeof(struct fsdp_packed));
	for (size_t i = 0; i < count; i++)
		add(setup, packed, names[i]);
	assert_true(fsdp_folder_of_packed(folder, packed, &setup->arena, &setup->error));
}

static void expect(const struct fsdp_folder *folder, size_t index, const char *name,
	enum fsdp_entry_kind kind)
{
	struct fsdp_entry entry = fsdp_folder_entry(folder, index);
	assert_true(fsdp_span_is(entry.name, name));
	assert_int_equal(entry.kind, kind);
}

static bool open_child(struct setup *setup, const struct fsdp_folder *folder,
	const char *name, struct fsdp_folder *child)
{
	struct fsdp_dir dir;
	fsdp_error_free(setup->error);
	setup->error = NULL;
	return fsdp_folder_open_child(folder, fsdp_span_text(name), &setup->arena,
		&setup->limits, &dir, child, &setup->error);
}

/* What stands around "a/" in the order of bytes is none of it. */
static void a_folder_below_has_its_members(void **state)
{
	(void)state;
	static const char *const names[] = { "r/b", "r/a/y", "r/a0", "r/a-/z", "r/a-b",
		"r/a/x/2", "r/a", "r/a/x/1", "r/aa/1", "r/a/-" };
	struct setup setup;
	struct fsdp_vec packed;
	struct fsdp_folder root, a, x;
	setup_init(&setup);
	make(&setup, names, sizeof names / sizeof *names, &packed, &root);
	assert_int_equal(root.count, 7);
	expect(&root, 2, "a-", FSDP_ENTRY_DIRECTORY);
	assert_true(open_child(&setup, &root, "a", &a));
	assert_int_equal(a.count, 3);
	expect(&a, 0, "-", FSDP_ENTRY_FILE);
	expect(&a, 1, "x", FSDP_ENTRY_DIRECTORY);
	expect(&a, 2, "y", FSDP_ENTRY_FILE);
	assert_int_equal(fsdp_folder_offset(&a, FSDP_SPAN("y")), 2);
	assert_true(open_child(&setup, &a, "x", &x));
	assert_int_equal(x.count, 2);
	expect(&x, 0, "1", FSDP_ENTRY_FILE);
	assert_false(open_child(&setup, &root, "b", &x));
	assert_false(open_child(&setup, &root, "c", &x));
	assert_false(open_child(&setup, &root, "", &x));
	setup_done(&setup);
}

/* Many folders are opened one by one: each is found by halving. */
static void many_folders_are_found(void **state)
{
	(void)state;
	enum { FOLDERS = 20000 };
	struct setup setup;
	struct fsdp_vec packed;
	struct fsdp_folder root, child;
	char name[32];
	setup_init(&setup);
	fsdp_vec_init(&packed, &setup.arena, sizeof(struct fsdp_packed));
	for (unsigned i = 0; i < FOLDERS; i++) {
		snprintf(name, sizeof name, "%05u/file", i * 7919 % FOLDERS);
		add(&setup, &packed, name);
	}
	assert_true(fsdp_folder_of_packed(&root, &packed, &setup.arena, &setup.error));
	assert_int_equal(root.count, FOLDERS);
	for (unsigned i = 0; i < FOLDERS; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(&root, i);
		snprintf(name, sizeof name, "%05u", i);
		assert_true(fsdp_span_is(entry.name, name));
		assert_true(open_child(&setup, &root, name, &child));
		assert_int_equal(child.below, 1);
	}
	setup_done(&setup);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_below_has_its_members),
		cmocka_unit_test(many_folders_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
