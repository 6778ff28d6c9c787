/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of files, of tensors, and of all tensors together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fsdp/elements.h>

#include "args/select.h"
#include "shared/part-result.h"
#include "shared/shown-names.h"
#include "shared/tensor-reading.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"
#include "render/writer.h"
#include "session/session.h"

/*
 * What `hash` works with.
 */
struct hash_options {
	bool stored, logical, names, trust_store;
	const char *check; /* a file */
};

enum hash_kind { HASH_STORED, HASH_LOGICAL, HASH_NAMES };

/* A file, or a tensor; as it is shown. */
struct hash_row {
	struct text name;
	const char *dtype;
	const int64_t *shape;
	uint32_t dims;
	uint64_t bytes;
	bool known; /* its digest */
	unsigned char sha256[FSDP_DIGEST_BYTES];
	struct text digits; /* absent: none */
	char buffer[HEX_ROOM];
	int64_t room[FSDP_DIMS_MAX]; /* of the shape of a joined one */
	unsigned listed;             /* of a part: enum listed */
	uint32_t number;             /* of a part: its place; UINT32_MAX: no part */
};

struct hash_check {
	uint64_t matched;
	struct text *mismatched, *missing, *unlisted;
	size_t mismatched_count, missing_count, unlisted_count;
};

enum listed { LISTED_UNREAD, LISTED_SAME, LISTED_OTHER, LISTED_NOT };

struct hashing {
	struct run *run;
	const struct hash_options *options;
	enum hash_kind kind;
	const char *word; /* of the kind */
	struct selection *selection;
	struct name_buffer *name;
	bool selects;
	uint32_t *tensors; /* that are selected */
	size_t tensor_count;
	struct fsdp_digests *digests;
	struct fsdp_manifest *manifest;
	size_t row_count;
	struct part_facts partial;
	const struct joined_parts *joined; /* rows of parts, instead of digests */
	unsigned char whole[FSDP_DIGEST_BYTES];
	struct text
		digest; /* of all tensors, as digits; absent: a tensor has no digest */
	char digits[HEX_ROOM];
	bool compared;
	struct hash_check check; /* if it was */
	uint8_t *listed;         /* of each row: enum listed */
	bool *seen;              /* of each line of the list: what it names is there */
	int status;
};

/* ---- the rows of files and of tensors with their digests ---- */

#define ROW struct hash_row
static const char *listed_name(unsigned listed)
{
	static const char *const names[] = { [LISTED_SAME] = "matched",
		[LISTED_OTHER] = "mismatched",
		[LISTED_NOT] = "unlisted" };

	return names[listed];
}

#define OF_PART                                                                              \
	{ "listed", ENUM_AT(ROW, listed, listed_name), PART_ALONE,                           \
		WORDS("matched", "mismatched", "unlisted"),                                  \
		ABOUT("Of a part with `--check`: what the list has of it.") },               \
	{                                                                                    \
		"number", ID_AT(ROW, number), PART_ALONE,                                    \
			ABOUT("Of a part: position of the row among the rows of all parts.") \
	}
static const struct record hashed_file_record = OBJECT_RECORD(ROW, "hashed_file",
	"A file.",
	{ "path", NAME_AT(ROW, name), ALWAYS("Path relative to the opened directory.") },
	{ "bytes", BYTES_AT(ROW, bytes), ALWAYS("Its size.") },
	{ "sha256", TEXT_AT(ROW, digits),
		ABOUT("SHA-256 of the file; absent when it could not be read.") },
	OF_PART);

static const struct record hashed_tensor_record = OBJECT_RECORD(ROW, "hashed_tensor",
	"A tensor.",
	{ "name", NAME_AT(ROW, name),
		ALWAYS("Name as shown: clean, or as stored with `--raw`.") },
	{ "dtype", WORD_AT(ROW, dtype), ALWAYS("Element type as torch spells it.") },
	{ "shape", SHAPE_AT(ROW, shape, dims), ALWAYS("Global shape.") },
	{ "bytes", BYTES_AT(ROW, bytes), ALWAYS("Bytes of the full tensor.") },
	{ "sha256", TEXT_AT(ROW, digits),
		ABOUT("SHA-256 of all elements in C order of the global shape, little-endian. Absent with `--names`, and when they could not be read.") },
	OF_PART);

static void fill_tensor(struct hashing *hashing, uint32_t index, struct hash_row *row)
{
	struct run *run = hashing->run;
	struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, index);

	row->name = tensor_shown_name(run, hashing->name, &tensor);
	row->dtype = dtype_name(tensor.dtype);
	row->shape = tensor.shape;
	row->dims = tensor.dims;
	row->bytes = tensor.bytes;
}

/* Fills a row, whose texts are valid until the next one. */
static void hash_row(struct hashing *hashing, size_t index, struct hash_row *ret_row)
{
	*ret_row = (struct hash_row){ .number = UINT32_MAX };
	if (hashing->joined != NULL) {
		struct fsdp_document_value from = hashing->joined->rows[index];
		struct fsdp_document_value shape = fsdp_document_get(from, "shape");

		/* As a part has it. */
		part_result_read(hashing->kind == HASH_STORED ? &hashed_file_record
							      : &hashed_tensor_record,
			from, ret_row, NULL);
		for (; ret_row->dims < shape.count && ret_row->dims < FSDP_DIMS_MAX;
			ret_row->dims++)
			ret_row->room[ret_row->dims] =
				fsdp_document_item(shape, ret_row->dims).integer;
		ret_row->shape = ret_row->room;
		ret_row->known = hex_bytes(ret_row->digits, ret_row->sha256);
		ret_row->number = UINT32_MAX;
	} else if (hashing->digests != NULL) {
		struct fsdp_digest digest = fsdp_digest(hashing->digests, index);

		if (hashing->kind == HASH_STORED) {
			ret_row->name = text_of_span(digest.path);
			ret_row->bytes = digest.bytes;
		} else {
			fill_tensor(hashing, digest.tensor, ret_row);
		}
		ret_row->known = digest.error == NULL;
		ret_row->listed =
			hashing->listed != NULL ? hashing->listed[index] : LISTED_UNREAD;
		memcpy(ret_row->sha256, digest.sha256, sizeof digest.sha256);
		if (hashing->partial.parts != 0)
			ret_row->number = (uint32_t)digest.position;
	} else
		fill_tensor(hashing, hashing->tensors[index], ret_row);
	ret_row->digits = ret_row->known ? hex_text(ret_row->sha256, ret_row->buffer)
					 : (struct text){ NULL, 0 };
}

/* ---- compares digests with a list of them ---- */

static void keep(
	struct hashing *hashing, struct text **list, size_t *count, struct text name)
{
	*list = run_grown(hashing->run, *list, *count, sizeof **list);
	(*list)[(*count)++] = text_copy(name);
}

/* Something of this name is there, in this part or another. */
static void hash_see(struct hashing *hashing, struct fsdp_span name)
{
	const struct fsdp_manifest *manifest = hashing->manifest;

	for (size_t i = fsdp_manifest_find(manifest, name);
		i < fsdp_manifest_count(manifest) &&
		text_is(text_of_span(fsdp_manifest_entry(manifest, i).name),
			text_of_span(name));
		i++)
		hashing->seen[i] = true;
}

/* One of the lines of this name has its digest: any may be meant. */
static enum listed compare_row(const struct hashing *hashing, const struct hash_row *row)
{
	const struct fsdp_manifest *manifest = hashing->manifest;
	size_t first = fsdp_manifest_find(manifest, span_of_text(row->name));

	for (size_t i = first; row->known && i < fsdp_manifest_count(manifest); i++) {
		struct fsdp_manifest_entry entry = fsdp_manifest_entry(manifest, i);

		if (!text_is(text_of_span(entry.name), row->name))
			break;
		if (memcmp(entry.sha256, row->sha256, sizeof entry.sha256) == 0)
			return LISTED_SAME;
	}
	return first == fsdp_manifest_count(manifest) ? LISTED_NOT
	       : row->known                           ? LISTED_OTHER
						      : LISTED_UNREAD; /* was reported */
}

static void count_row(struct hashing *hashing, enum listed listed, struct text name)
{
	struct hash_check *check = &hashing->check;

	check->matched += listed == LISTED_SAME;
	if (listed == LISTED_OTHER)
		keep(hashing, &check->mismatched, &check->mismatched_count, name);
	else if (listed == LISTED_NOT)
		keep(hashing, &check->unlisted, &check->unlisted_count, name);
}

/* Compares rows with the list. */
static void hash_compare(struct hashing *hashing)
{
	const struct fsdp_manifest *manifest = hashing->manifest;

	hashing->listed =
		run_memory(hashing->run, hashing->row_count, sizeof *hashing->listed);
	hashing->compared = true;
	for (size_t i = 0; i < hashing->row_count; i++) {
		struct hash_row row;

		hash_row(hashing, i, &row);
		hashing->listed[i] = (uint8_t)compare_row(hashing, &row);
		count_row(hashing, (enum listed)hashing->listed[i], row.name);
	}
	FOR_EACH(i, hashing->tensor_count, tensor,
		fsdp_tensor(hashing->run->checkpoint, hashing->tensors[i]))
		hash_see(hashing, span_of_text(tensor_shown_name(
					  hashing->run, hashing->name, &tensor)));
	for (size_t i = 0; i < fsdp_manifest_count(manifest); i++) {
		struct fsdp_manifest_entry entry = fsdp_manifest_entry(manifest, i);
		/* A line about what was not selected does not count. */
		bool is_meant =
			selection_is_all(hashing->selection) ||
			(hashing->kind == HASH_LOGICAL &&
				selection_is_by_name(hashing->selection) &&
				selection_takes_name(hashing->selection, entry.name));

		if (!hashing->seen[i] && is_meant)
			keep(hashing, &hashing->check.missing,
				&hashing->check.missing_count, text_of_span(entry.name));
	}
}

/* ---- output: lines like those of sha256sum, or records ---- */

#define CHECK struct hash_check
static const struct record hash_check_record = OBJECT_RECORD(CHECK, "digest_check",
	"Result of the comparison of a list of digests with the checkpoint.",
	{ "matched", COUNT_AT(CHECK, matched),
		ALWAYS("Number of digests that are as listed.") },
	{ "mismatched", LIST_AT(CHECK, mismatched, mismatched_count, record_texts),
		ALWAYS("Names whose digest differs from the listed one.") },
	{ "missing", LIST_AT(CHECK, missing, missing_count, record_texts),
		ALWAYS("Listed, but missing.") },
	{ "unlisted", LIST_AT(CHECK, unlisted, unlisted_count, record_texts),
		ALWAYS("Present, but not listed.") });

#define HASHING struct hashing
static const struct record hash_record = OBJECT_RECORD(HASHING, "digests",
	"Digests of files or of tensors.",
	{ "kind", WORD_AT(HASHING, word), .always = true,
		WORDS("stored", "logical", "names"), ABOUT("Kind of the digests.") },
	{ "files", ITEMS(hashed_file_record), ABOUT("With `--stored`: files, by path.") },
	{ "tensors", ITEMS(hashed_tensor_record),
		ABOUT("With `--logical` and `--names`: tensors, by name.") },
	{ "digest", TEXT_AT(HASHING, digest),
		ABOUT("SHA-256 of the list, which has one line per file (`SHA256`, two spaces, `PATH`) or tensor (`SHA256 DTYPE SHAPE NAME`; `DTYPE SHAPE NAME` with `--names`). Absent if a digest is missing.") },
	{ "partial", OBJECT_AT(HASHING, partial, partial_record),
		IF_SET(HASHING, partial.parts),
		ABOUT("With `--part`: which part this is.") },
	{ "check", OBJECT_AT(HASHING, check, hash_check_record),
		IF_SET(HASHING, compared), ABOUT("With `--check`: the comparison.") });

/* As sha256sum does: of a name with such characters a backslash in front, and "\\", "\n"
 * and "\r". */
static void print_sum(struct out *out, const struct hash_row *row)
{
	static const char *const escapes[] = {
		['\\'] = "\\\\", ['\n'] = "\\n", ['\r'] = "\\r"
	};
	struct text name = row->name;
	bool escaped = memchr(name.data, '\\', name.size) != NULL ||
		       memchr(name.data, '\n', name.size) != NULL ||
		       memchr(name.data, '\r', name.size) != NULL;

	out_verbatim(out, text_of(escaped ? "\\" : ""));
	out_verbatim(out, row->digits);
	out_verbatim(out, text_of("  "));
	for (size_t i = 0; escaped && i < name.size; i++) {
		unsigned char byte = (unsigned char)name.data[i];

		out_verbatim(out,
			byte < sizeof escapes / sizeof *escapes && escapes[byte] != NULL
				? text_of(escapes[byte])
				: (struct text){ &name.data[i], 1 });
	}
	if (!escaped)
		out_verbatim(out, name);
	out_verbatim(out, text_of("\n"));
}

static void show_lines(struct hashing *hashing)
{
	struct hash_row row;
	struct out *out = hashing->run->out;
	size_t count = hashing->row_count;
	uint64_t total;

	if (hashing->compared) {
		const struct hash_check *check = &hashing->check;
		const char *what = hashing->kind == HASH_STORED ? "file" : "tensor";
		total = check->matched + check->mismatched_count + check->missing_count;
		for (size_t i = 0; i < check->mismatched_count; i++)
			out_values_line(out, NULL, "{}: digest mismatch",
				value_name(check->mismatched[i]));
		for (size_t i = 0; i < check->missing_count; i++)
			out_values_line(
				out, NULL, "{}: missing", value_name(check->missing[i]));
		out_values_line(out, NULL,
			"{}[, part {} of {}]: {} of {} listed {}s match[; {} {}{} not listed]",
			value_name(text_of(hashing->run->path)),
			hashing->partial.parts != 0 ? value_count(hashing->partial.part)
						    : value_absent(),
			value_count(hashing->partial.parts), value_count(check->matched),
			value_count(total), value_word(what),
			value_some(check->unlisted_count), value_word(what),
			value_word(check->unlisted_count == 1 ? " is" : "s are"));
		return;
	}
	for (size_t i = 0; hashing->kind != HASH_NAMES && i < hashing->row_count; i++) {
		hash_row(hashing, i, &row);
		if (row.known)
			print_sum(out, &row);
	}
	if (hashing->kind == HASH_STORED || hashing->digest.data == NULL)
		return;
	/* The last segment of the path that was typed. */
	struct text path = text_of(hashing->run->path);
	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	out_values_line(out, NULL, "sha256:{}  {} ({} tensor{s}, {})",
		value_text(hashing->digest), value_name(text_last(path, '/')),
		value_count(count), value_word(hashing->word));
}

static void hash_show(struct hashing *hashing)
{
	out_fields(hashing->run->out, &hash_record, (struct subject){ NULL, hashing });
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
	show_lines(hashing);
}

#define AT(member) offsetof(struct hash_options, member)
static const struct option_row OPTIONS[] = {
	{ "stored", 0, OPTION_FLAG, NULL, AT(stored),
		.help = "hash each file as stored, like sha256sum (default)" },
	{ "logical", 0, OPTION_FLAG, NULL, AT(logical),
		.help = "hash elements: equal for every sharding and format" },
	{ "names", 0, OPTION_FLAG, NULL, AT(names),
		.help = "hash names, dtypes and shapes; read headers only" },
	{ "trust-store", 0, OPTION_FLAG, NULL, AT(trust_store),
		.help = "print the SHA-256 that the Hub lists, without reading" },
	{ "check", 0, OPTION_TEXT, "FILE", AT(check),
		.help = "compare with the digests in this file" },
	{ NULL },
};

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether a file of the directory is the one being written or compared. */
static bool is_own(const struct hashing *hashing, struct fsdp_span path)
{
	const struct run *run = hashing->run;
	const char *base = fsdp_checkpoint_base(run->checkpoint);
	struct stat file, other;
	char full[4096];
	int size = snprintf(full, sizeof full, "%s/%.*s", base != NULL ? base : run->path,
		(int)path.size, (const char *)path.data);

	if (size < 0 || (size_t)size >= sizeof full)
		return false;
	if (helper_kind(full) != FSDP_REMOTE_LOCAL)
		return hashing->options->check != NULL &&
		       strcmp(hashing->options->check, full) == 0;
	if (stat(full, &file) != 0)
		return false;
	return (fstat(STDOUT_FILENO, &other) == 0 && is_same(&file, &other)) ||
	       (hashing->options->check != NULL &&
		       stat(hashing->options->check, &other) == 0 &&
		       is_same(&file, &other));
}

static bool takes_file(void *context, struct fsdp_span path)
{
	struct hashing *hashing = context;
	bool taken =
		selection_takes_file(hashing->selection, path) && !is_own(hashing, path);

	if (taken && hashing->manifest != NULL)
		hash_see(hashing, path);
	return taken;
}

/* ---- digest of all tensors ---- */

/* There is none if a row has none. */
static void digest_all(struct hashing *hashing)
{
	struct fsdp_digester **digester = digester_of_run(hashing->run);
	bool all = true;
	struct hash_row row;

	for (size_t i = 0; i < hashing->row_count; i++) {
		hash_row(hashing, i, &row);
		all &= row.known || hashing->kind == HASH_NAMES;
		digest_list_add(*digester, &(struct digest_line){
						   .digits = row.digits,
						   .dtype = row.dtype,
						   .shape = row.shape,
						   .dims = row.dims,
						   .name = row.name,
					   });
	}
	digester_end(digester, hashing->whole);
	/* Partial results have no total digest. */
	if (all && hashing->partial.parts == 0)
		hashing->digest = hex_text(hashing->whole, hashing->digits);
}

RELEASE(release_digests, fsdp_digests_free)
RELEASE(release_manifest, fsdp_manifest_free)

static void read_bytes(struct hashing *hashing)
{
	struct run *run = hashing->run;
	struct fsdp_recording_progress progress = { 0 };
	const struct fsdp_digests_options options = {
		.size = sizeof options,
		.tensors = hashing->tensors,
		.tensor_count = hashing->tensor_count,
		.takes_file = takes_file,
		.takes_context = hashing,
		.listed = hashing->manifest,
		.trust_store = hashing->options->trust_store,
		.part = run->common->part_number,
		.parts = run->common->part_count,
		.jobs = jobs_wanted(run->common),
		.progress = reading_progress,
		.progress_context = &progress,
	};

	progress_begin(run->common, &progress);
	bool good = hashing->kind == HASH_STORED
			    ? fsdp_digests_of_files(run->checkpoint, &options,
				      &hashing->digests, &run->error)
			    : fsdp_digests_of_tensors(run->checkpoint, &options,
				      &hashing->digests, &run->error);
	run_interrupted(run, progress_end());
	run_must(run, good);
	run_owns(run, hashing->digests, release_digests);
}

static void make_rows(struct hashing *hashing)
{
	const char *check = hashing->options->check;
	struct run *run = hashing->run;
	size_t unread = 0;

	if (check != NULL) {
		run_must(run, fsdp_manifest_open(run->remote, check, &hashing->manifest,
				      &run->error));
		run_owns(run, hashing->manifest, release_manifest);
		hashing->seen = run_memory(run, fsdp_manifest_count(hashing->manifest),
			sizeof *hashing->seen);
	}
	if (hashing->kind != HASH_STORED)
		hashing->tensors = reading_choose(
			run, hashing->selection, hashing->name, &hashing->tensor_count);
	hashing->selects = !selection_is_all(hashing->selection);
	/* What parts must have been asked alike: also the list that they compare with. */
	struct fsdp_digester *digester = fsdp_digester_new();
	unsigned char list[FSDP_DIGEST_BYTES];
	char request[96], digits[HEX_ROOM];
	run_must(run, digester != NULL);
	for (size_t i = 0;
		hashing->manifest != NULL && i < fsdp_manifest_count(hashing->manifest);
		i++) {
		struct fsdp_manifest_entry entry =
			fsdp_manifest_entry(hashing->manifest, i);
		fsdp_digester_add(digester, entry.sha256, sizeof entry.sha256);
		fsdp_digester_add(digester, entry.name.data, entry.name.size + 1);
	}
	fsdp_digester_end(digester, list);
	snprintf(request, sizeof request, "%s%s%s", hashing->word,
		hashing->manifest != NULL ? " check\n" : "",
		hashing->manifest != NULL ? hex_text(list, digits).data : "");
	partial_init(&hashing->partial, run, request, hashing->selection,
		hashing->tensors, hashing->tensor_count);
	hashing->row_count = hashing->tensor_count;
	if (hashing->kind == HASH_NAMES)
		return;
	read_bytes(hashing);
	hashing->row_count = fsdp_digest_count(hashing->digests);
	/* What could not be read leaves the answer partial. */
	FOR_EACH(i, hashing->row_count, digest, fsdp_digest(hashing->digests, i)) {
		struct hash_row row;

		if (digest.error == NULL)
			continue;
		hash_row(hashing, i, &row);
		/* The path of a file is in its error. */
		reading_failed(run,
			hashing->kind == HASH_STORED ? (struct text){ NULL, 0 }
						     : row.name,
			digest.error, &unread);
	}
	reading_failed_end(run, unread);
	if (unread > 0)
		hashing->status = status_worse(hashing->status, STATUS_PARTIAL);
}

static void check_inputs(struct hashing *hashing)
{
	const struct hash_check *check = &hashing->check;

	bool is_empty =
		hashing->selects && hashing->tensor_count == 0 && hashing->row_count == 0;

	if (is_empty && hashing->joined == NULL)
		print_no_match(hashing->run, NAMEABLE_TENSORS);
	if (is_empty && hashing->partial.parts == 0) {
		hashing->status = status_worse(hashing->status, STATUS_BAD);
		hashing->digest.data = NULL; /* of nothing */
	}
	if (check->mismatched_count > 0 || check->missing_count > 0)
		hashing->status = status_worse(hashing->status, STATUS_BAD);
	if (hashing->manifest != NULL &&
		fsdp_manifest_wrong_line(hashing->manifest) != 0) {
		run_failure(hashing->run, "damaged", NULL,
			"%s: line %" PRIu64 " is not a line of sha256sum",
			hashing->options->check,
			fsdp_manifest_wrong_line(hashing->manifest));
		hashing->status = status_worse(hashing->status, STATUS_PARTIAL);
	}
	if (hashing->selection != NULL)
		hashing->status = answer_selection_status(
			hashing->run, hashing->selection, hashing->status);
}

/* Why the request is rejected; NULL: it is not. */
static const char *objection(const struct run *run)
{
	const struct hash_options *options = run->options;
	const struct select_options *select = run->select;

	if (options->stored + options->logical + options->names > 1)
		return "--stored, --logical and --names exclude each other";
	if (run->common->part_count != 0 && options->names)
		return "--part cannot be used with --names";
	if (options->trust_store && (options->logical || options->names))
		return "--trust-store needs --stored";
	if (options->names && options->check != NULL)
		return "--names makes one digest: --check needs --stored or --logical";
	if (!options->logical && !options->names &&
		(select->globs.count > 0 || select->regexes.count > 0 ||
			select->dtypes.count > 0 || select->roles.count > 0 ||
			select->ranks != NULL || select->min_bytes != UINT64_MAX ||
			select->max_bytes != UINT64_MAX))
		return "digests of files are selected with --file only; other selectors need --logical or --names";
	return NULL;
}

static void run_hash(struct run *run)
{
	const struct hash_options *options = run->options;
	struct row_buffers *buffers = run_memory(run, 1, sizeof *buffers);
	const char *what = objection(run);
	struct hashing hashing = { .run = run,
		.options = options,
		.name = &buffers->name,
		.kind = options->logical ? HASH_LOGICAL
			: options->names ? HASH_NAMES
					 : HASH_STORED };
	struct hash_row row;
	uint32_t character;

	hashing.word =
		(const char *const[]){ "stored", "logical", "names" }[hashing.kind];
	if (what != NULL)
		run_refuse(run, "fsdp-inspect help hash", "%s", what);
	hashing.selection = run_selection(run);
	make_rows(&hashing);
	digest_all(&hashing);
	if (hashing.manifest != NULL)
		hash_compare(&hashing);
	/* Of a part: JSON cannot hold a name that is not UTF-8, and merge digests names
	 * too. */
	for (size_t i = 0; hashing.partial.parts != 0 && i < hashing.row_count; i++) {
		hash_row(&hashing, i, &row);
		for (size_t at = 0; at < row.name.size;) {
			at += character_decode(
				row.name.data + at, row.name.size - at, &character);
			if (character == CHARACTER_NONE)
				run_refuse(run, "run hash without --part",
					"a name is not UTF-8, and a part cannot write it");
		}
	}
	check_inputs(&hashing);
	run_begin(run, hashing.status);
	if (hashing.status != STATUS_FAILED)
		hash_show(&hashing);
}

static void join(struct run *run, const struct joined_parts *joined)
{
	const struct part_facts *facts = &joined->results->facts;
	bool stored = strncmp(facts->request, "stored", 6) == 0;
	struct hashing hashing = { .run = run,
		.kind = stored ? HASH_STORED : HASH_LOGICAL,
		.word = stored ? "stored" : "logical",
		.selects = facts->selects,
		.joined = joined,
		.row_count = joined->count,
		.status = joined->status };

	digest_all(&hashing);
	if (hashing.digest.data == NULL)
		hashing.status = status_worse(hashing.status, STATUS_PARTIAL);
	if (strstr(facts->request, " check") != NULL) {
		/* What parts have compared. Each partial result lists the files missing
		 * in all. */
		struct fsdp_document_value missing = fsdp_document_get(
			fsdp_document_get(hashing.joined->results->data, "check"),
			"missing");
		struct hash_row row;

		hashing.compared = true;
		for (size_t i = 0; i < hashing.row_count; i++) {
			hash_row(&hashing, i, &row);
			count_row(&hashing, (enum listed)row.listed, row.name);
		}
		for (size_t i = 0; i < missing.count; i++)
			keep(&hashing, &hashing.check.missing,
				&hashing.check.missing_count,
				text_of_span(fsdp_document_item(missing, i).text));
	}
	check_inputs(&hashing);
	run_begin(run, hashing.status);
	hash_show(&hashing);
}

const struct command command_hash = {
	.name = "hash",
	.group = GROUP_BYTES,
	.summary = "print digests of files and tensors",
	.synopsis =
		"[--stored | --logical | --names] [--trust-store] [--check=FILE] [--part=K/N|auto] [SELECTORS] CHECKPOINT",
	.examples = { "hash release/ > release/SHA256SUMS",
		"hash --logical --role=param step-1000/",
		"hash --logical --check=release.sums step-1000/" },
	.exit_1 =
		"with --check: a digest differs, or a listed item is missing; or a selector matched nothing",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_columns, NULL },
	.answer = &hash_record,
	.shapes = SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_ONE,
	.shows_plan = true, /* it shows no module */
	.options_size = sizeof(struct hash_options),
	.join = join,
	.perform = run_hash,
};
