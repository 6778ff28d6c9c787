/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows digests: for people and sha256sum as lines, for programs as records.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/hash/hash.h"
#include "session/session.h"

/* ---- for programs ---- */

#define CHECK struct hash_check
static const struct record hash_check_record = OBJECT_RECORD(CHECK, "digest_check",
	"What a list of digests and the checkpoint say about each other.",
	{ "matched", COUNT_AT(CHECK, matched), .always = true,
		ABOUT("Number of digests that are as listed.") },
	{ "mismatched", LIST_AT(CHECK, mismatched, mismatched_count, record_texts),
		.always = true, ABOUT("What has another digest than listed.") },
	{ "missing", LIST_AT(CHECK, missing, missing_count, record_texts), .always = true,
		ABOUT("Listed, but missing.") },
	{ "unlisted", LIST_AT(CHECK, unlisted, unlisted_count, record_texts),
		.always = true, ABOUT("Present, but not listed.") });

#define HASHING struct hashing
static bool has_part(struct subject of)
{
	return ((const struct hashing *)of.object)->partial.parts != 0;
}

static bool has_check(struct subject of)
{
	return ((const struct hashing *)of.object)->compared;
}

const struct record hash_record = OBJECT_RECORD(HASHING, "digests",
	"Digests of files or of tensors.",
	{ "kind", WORD_AT(HASHING, word), .always = true,
		WORDS("stored", "logical", "names"), ABOUT("What was digested.") },
	{ "files", ITEMS(hashed_file_record), ABOUT("With `--stored`: files, by path.") },
	{ "tensors", ITEMS(hashed_tensor_record),
		ABOUT("With `--logical` and `--names`: tensors, by name.") },
	{ "digest", TEXT_AT(HASHING, digest),
		ABOUT("SHA-256 of the list, which has one line per file (`SHA256`, two spaces, `PATH`) or tensor (`SHA256 DTYPE SHAPE NAME`; `DTYPE SHAPE NAME` with `--names`). Absent if a digest is missing.") },
	{ "partial", OBJECT_AT(HASHING, partial, partial_record), .has = has_part,
		ABOUT("With `--part`: which part this is.") },
	{ "check", OBJECT_AT(HASHING, check, hash_check_record), .has = has_check,
		ABOUT("With `--check`: the comparison.") });

static void show_rows(struct hashing *hashing)
{
	bool files = hashing->kind == HASH_STORED;
	const struct table like = { .key = files ? "files" : "tensors",
		.main = true,
		.machine_only = true,
		.view = hashing->partial.parts != 0 ? PARTIAL_VIEW : PARTIAL_NONE };
	struct out *out = hashing->run->out;
	struct record_table table;
	struct hash_row row;

	record_table_init(
		&table, &like, files ? &hashed_file_record : &hashed_tensor_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; i < hashing->row_count; i++) {
		hash_row(hashing, i, &row);
		out_records_row(out, &table, &row);
	}
	out_table_end(out);
}

static bool is_escaped(struct text name)
{
	return memchr(name.data, '\\', name.size) != NULL ||
	       memchr(name.data, '\n', name.size) != NULL ||
	       memchr(name.data, '\r', name.size) != NULL;
}

/* As sha256sum does: a backslash in front, and "\\", "\n" and "\r" in the name. */
static void put_escaped(struct out *out, struct text name)
{
	for (size_t i = 0; i < name.size; i++) {
		char byte = name.data[i];
		struct text text = { &name.data[i], 1 };
		if (byte == '\\')
			text = text_of("\\\\");
		else if (byte == '\n')
			text = text_of("\\n");
		else if (byte == '\r')
			text = text_of("\\r");
		out_verbatim(out, text);
	}
}

static void show_line(struct out *out, const struct hash_row *row)
{
	bool escaped = is_escaped(row->name);

	if (!row->known)
		return;
	if (escaped)
		out_verbatim(out, text_of("\\"));
	out_verbatim(out, row->digits);
	out_verbatim(out, text_of("  "));
	if (escaped)
		put_escaped(out, row->name);
	else
		out_verbatim(out, row->name);
	out_verbatim(out, text_of("\n"));
}

/* The last segment of the path that was typed. */
static struct text title_of(const struct run *run)
{
	struct text path = text_of(run->path);

	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	return text_last(path, '/');
}

static void show_whole(struct hashing *hashing)
{
	struct out *out = hashing->run->out;
	size_t count = hashing->row_count;

	if (hashing->kind == HASH_STORED || hashing->digest.data == NULL)
		return;
	out_line_begin(out, NULL);
	out_line_text(out, "sha256:%s  ", hashing->digest.data);
	out_line_name(out, title_of(hashing->run));
	out_line_text(
		out, " (%zu tensor%s, %s)", count, count == 1 ? "" : "s", hashing->word);
	out_line_end(out);
}

static void show_names(
	struct out *out, const struct text *names, size_t count, const char *what)
{
	for (size_t i = 0; i < count; i++) {
		out_line_begin(out, NULL);
		out_line_name(out, names[i]);
		out_line_text(out, ": %s", what);
		out_line_end(out);
	}
}

static void show_check(struct hashing *hashing)
{
	const struct hash_check *check = &hashing->check;
	struct out *out = hashing->run->out;
	const char *what = hashing->kind == HASH_STORED ? "file" : "tensor";
	uint64_t total = check->matched + check->mismatched_count + check->missing_count;

	show_names(out, check->mismatched, check->mismatched_count, "digest mismatch");
	show_names(out, check->missing, check->missing_count, "missing");
	out_line_begin(out, NULL);
	out_line_name(out, title_of(hashing->run));
	if (hashing->partial.parts != 0)
		out_line_text(out, ", part %" PRIu64 " of %" PRIu64,
			hashing->partial.part, hashing->partial.parts);
	out_line_text(out, ": %" PRIu64 " of %" PRIu64 " listed %ss match",
		check->matched, total, what);
	if (check->unlisted_count > 0)
		out_line_text(out, "; %zu %s%s not listed", check->unlisted_count, what,
			check->unlisted_count == 1 ? " is" : "s are");
	out_line_end(out);
}

static void show_lines(struct hashing *hashing)
{
	struct hash_row row;

	if (hashing->compared) {
		show_check(hashing);
		return;
	}
	for (size_t i = 0; hashing->kind != HASH_NAMES && i < hashing->row_count; i++) {
		hash_row(hashing, i, &row);
		show_line(hashing->run->out, &row);
	}
	show_whole(hashing);
}

void hash_show(struct hashing *hashing)
{
	out_fields(hashing->run->out, &hash_record, (struct subject){ NULL, hashing });
	show_rows(hashing);
	show_lines(hashing);
}
