/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories that Hugging Face's libraries write: reads the index with the files of
 * one model, and names them as children. hf-config.c reads the configuration.
 *
 *	*.safetensors.index.json  {"metadata": {"total_size": n, …},
 *	*.bin.index.json           "weight_map": {"<tensor>": "<file>"}}
 *	model-00001-of-00005.safetensors, …         its files; without it by their names
 *	model.safetensors, pytorch_model.bin        one file, with config.json
 *	diffusion_pytorch_model.safetensors         the same, of diffusers
 *	adapter_model.safetensors, adapter_model.bin  with adapter_config.json; or both
 *	                                            of either pair without it
 *
 * Origin: huggingface_hub/serialization (2.4), transformers/modeling_utils.py (5.23),
 * peft (0.21); files of them.
 */
#include "base/num.h"
#include "formats/format.h"
#include "syntax/json-template.h"
#include "syntax/json-tree.h"

#include <stdio.h>

/* ---- the download cache ---- */

/*
 * The download cache of the Hugging Face hub: finds the revision that its main branch is
 * at, else the only one. Its directory is opened instead of the cache.
 *
 *	models--<org>--<name>/refs/<branch>           text: a revision
 *	                      snapshots/<revision>/…  links to ../../blobs/<hex>
 *	                      blobs/<hex>             the files
 *	                      blobs/<hex>.incomplete  one that is still on its way
 *
 * Origin: huggingface_hub/file_download.py (2.4).
 */

enum { REVISION_MOST = 256 };

static enum fsdp_sign recognize_hub_cache(const struct fsdp_look *look)
{
	const struct fsdp_folder *folder = look->folder;
	return folder != NULL &&
			       fsdp_folder_has(
				       folder, "snapshots", FSDP_ENTRY_DIRECTORY) &&
			       (fsdp_folder_has(folder, "blobs", FSDP_ENTRY_DIRECTORY) ||
				       fsdp_folder_has(
					       folder, "refs", FSDP_ENTRY_DIRECTORY))
		       ? FSDP_SIGN_SURE
		       : FSDP_SIGN_NONE;
}

/* Content of refs/main: the name of a directory; empty if it is none. */
static struct fsdp_span main_revision(
	const struct fsdp_folder *folder, struct fsdp_arena *arena)
{
	struct fsdp_span text = { 0 };
	struct fsdp_source source;
	if (!fsdp_folder_has(folder, "refs", FSDP_ENTRY_DIRECTORY) ||
		!fsdp_folder_source(folder, FSDP_SPAN("refs/main"), &source, NULL) ||
		source.size > REVISION_MOST ||
		!fsdp_source_read_all(&source, 0, source.size, arena, &text, NULL))
		return (struct fsdp_span){ 0 };
	while (text.size != 0 && text.data[text.size - 1] <= ' ')
		text.size--;
	return text.size != 0 && fsdp_name_is_safe(text) &&
			       memchr(text.data, '/', text.size) == NULL
		       ? text
		       : (struct fsdp_span){ 0 };
}

/* The snapshot called so, else the only one. *ret_is_named: it is called so. */
static bool choose(const struct fsdp_folder *snapshots, struct fsdp_span revision,
	struct fsdp_span *ret_name, bool *ret_is_named, struct fsdp_error **ret_error)
{
	struct fsdp_candidates found = { .count = 0 };
	*ret_is_named = false;
	for (size_t i = 0; i < snapshots->count && !*ret_is_named; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(snapshots, i);
		if (entry.kind != FSDP_ENTRY_DIRECTORY)
			continue;
		fsdp_candidates_add(&found, &entry);
		*ret_is_named = fsdp_span_equal(entry.name, revision);
	}
	*ret_name = found.last.name;
	if (!*ret_is_named && found.count == 0) {
		fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			"this download cache has no snapshot");
		return fsdp_error_add_hint(ret_error, "download it again");
	}
	return *ret_is_named || found.count == 1 ||
	       fsdp_candidates_fail(
		       &found, "snapshots, none of them in refs/main", ret_error);
}

static bool leads_to(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_lead *ret_lead, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = reading->model->arena;
	struct fsdp_span revision = main_revision(folder, arena), name;
	struct fsdp_dir dir;
	struct fsdp_folder snapshots;
	bool is_named;
	/* What a broken download left: it may be a file that a snapshot lacks. */
	struct fsdp_dir blob_dir;
	struct fsdp_folder blobs;
	if (fsdp_folder_open_child(folder, FSDP_SPAN("blobs"), reading->model->arena,
		    reading->limits, &blob_dir, &blobs, NULL)) {
		FSDP_EACH(i, blobs.count, entry, fsdp_folder_entry(&blobs, i))
			if (entry.kind == FSDP_ENTRY_FILE &&
				fsdp_span_ends(entry.name, FSDP_SPAN(".incomplete")))
				fsdp_find(&reading->model->findings,
					FSDP_RULE_COMMIT_LEFTOVER,
					FSDP_PLACE(.file = entry.name,
						.fix = "download it again"),
					"blob of an unfinished download");
		fsdp_dir_close(&blob_dir);
	}
	if (!fsdp_folder_open_child(folder, FSDP_SPAN("snapshots"), arena,
		    reading->limits, &dir, &snapshots, ret_error))
		return false;
	bool chosen = choose(&snapshots, revision, &name, &is_named, ret_error);
	fsdp_dir_close(&dir);
	if (!chosen)
		return false;
	size_t size = sizeof "snapshots/" - 1 + name.size;
	char *path = fsdp_arena_take(arena, size + 1, 1);
	snprintf(path, size + 1, "snapshots/%s", (const char *)name.data);
	ret_lead->path = fsdp_span(path, size);
	ret_lead->why = is_named ? "from refs/main" : "the only one";
	return true;
}

const struct fsdp_family fsdp_family_hub_cache = {
	.name = "hub-cache",
	.title = "download cache",
	.recognize = recognize_hub_cache,
	.leads_to = leads_to,
};

/* ---- directories of a model ---- */

/* Files with their total number in their names. */
struct split {
	struct fsdp_span stem; /* "model" */
	uint32_t of, count;
	bool is_bin;
};

/* A file that is not there or could not be read, and the tensors it should hold. */
struct absent {
	struct fsdp_span name;
	uint32_t number;
	bool is_link;
	struct fsdp_span *tensors;
	size_t tensor_count, kept;
};

struct hf {
	struct fsdp_reading *reading;
	const struct fsdp_folder *folder;
	struct fsdp_span index;      /* name of the index; empty: none */
	const struct single *single; /* one file, or NULL */
	bool is_bin;
	struct split
		split; /* without an index: the files by their names; count 0: none */

	/* of the index */
	struct fsdp_source_rest rest;
	struct fsdp_json_walk json;
	struct fsdp_names files;  /* that the map names; id - 1 is their number */
	struct fsdp_table mapped; /* by raw name of a tensor: number of its file */
	struct fsdp_vec map;      /* uint32_t: names of tensors in its order */
	struct fsdp_vec absent;   /* struct absent: files that it names in vain */

	struct fsdp_json_quick *quick; /* entries that are written like one before */

	int misplaced; /* severity of what the index only misplaces; 0: the rule's own */
	uint64_t total_size;     /* UINT64_MAX: absent, or no integer */
	uint64_t repeated_bytes; /* of tensors that an earlier file contains */
	bool has_map, lacks_some, is_of_other_save;
	struct split other; /* of is_of_other_save: the files that are present */
	bool is_renamed;    /* absent files are present under other names */
	struct listed_file {
		size_t listed,
			found;   /* tensors: in the index, and of these in the file */
		size_t of_other; /* its tensors that the index has in `other` */
		uint32_t other;  /* the first file that it has one in; 0: unknown */
	} * listed;              /* by number of a file */
};

/* ---- recognizing ---- */

/* "model.safetensors.index.json"; a variant is before either of the last words. */
static bool is_index(struct fsdp_span name, const char *kind)
{
	char middle[32];
	snprintf(middle, sizeof middle, "%s.index.", kind);
	return fsdp_span_ends(name, FSDP_SPAN(".json")) &&
	       memmem(name.data, name.size, middle, strlen(middle)) != NULL;
}

/* The weights that go with a configuration. */
static const struct single {
	const char *file, *beside, *family, *title;
} singles[] = {
	{ "model.safetensors", "config.json", "hf-safetensors",
		"Hugging Face model (safetensors)" },
	{ "pytorch_model.bin", "config.json", "hf-bin", "Hugging Face model (.bin)" },
	{ "adapter_model.safetensors", "adapter_config.json", "peft-adapter",
		"PEFT adapter (safetensors)" },
	{ "adapter_model.bin", "adapter_config.json", "peft-adapter",
		"PEFT adapter (.bin)" },
	{ "diffusion_pytorch_model.safetensors", "config.json", "hf-safetensors",
		"Diffusers model (safetensors)" },
	{ "diffusion_pytorch_model.bin", "config.json", "hf-bin",
		"Diffusers model (.bin)" },
};

/* What diffusers calls its weights. */
#define DIFFUSERS "diffusion_pytorch_model."

static bool is_of_diffusers(const char *name)
{
	return strncmp(name, DIFFUSERS, strlen(DIFFUSERS)) == 0;
}

static bool has_file(const struct fsdp_folder *folder, const char *name)
{
	return fsdp_folder_has(folder, name, FSDP_ENTRY_FILE);
}

static const struct single *find_single(const struct fsdp_folder *folder)
{
	for (size_t i = 0; i < FSDP_COUNT(singles); i++)
		if (has_file(folder, singles[i].file) &&
			has_file(folder, singles[i].beside))
			return &singles[i];
	return NULL;
}

/* The only index of the directory; of a variant and the plain one the plain one counts.
 */
static struct fsdp_span find_index(const struct fsdp_folder *folder)
{
	static const char *const names[] = { "model.safetensors.index.json",
		DIFFUSERS "safetensors.index.json", "pytorch_model.bin.index.json",
		DIFFUSERS "bin.index.json" };
	const struct single *single = find_single(folder);
	struct fsdp_span found = { 0 };
	for (size_t i = 0; i < FSDP_COUNT(names); i++) {
		/* Downloads without *.bin leave their index, and loaders take the other
		 * weights. diffusers takes a .bin file before an index of such files. */
		if (single != NULL && ((i == 2 && single == &singles[0]) ||
					      (i == 3 && is_of_diffusers(single->file))))
			return found;
		if (fsdp_folder_has(folder, names[i], FSDP_ENTRY_FILE))
			return fsdp_span_text(names[i]);
	}
	for (size_t i = 0; i < folder->count && found.data == NULL; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE &&
			(is_index(entry.name, ".safetensors") ||
				is_index(entry.name, ".bin")))
			found = entry.name;
	}
	return found;
}

/* "stem-00001-of-00005.safetensors" */
static bool parse_split(
	struct fsdp_span name, struct split *ret_split, uint32_t *ret_number)
{
	static const char *const patterns[] = { "-#-of-#.safetensors", "-#-of-#.bin" };
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0; i < 2; i++) {
		for (size_t at = name.size; at-- > 1;) {
			if (name.data[at] != '-' ||
				!fsdp_pattern_takes(
					fsdp_span(name.data + at, name.size - at),
					patterns[i], numbers))
				continue;
			*ret_split = (struct split){
				.stem = fsdp_span(name.data, at),
				.of = numbers[1],
				.is_bin = i == 1,
			};
			*ret_number = numbers[0];
			return true;
		}
	}
	return false;
}

static bool is_of_split(
	const struct split *split, struct fsdp_span name, uint32_t *ret_number)
{
	struct split own;
	return parse_split(name, &own, ret_number) && own.of == split->of &&
	       own.is_bin == split->is_bin && fsdp_span_equal(own.stem, split->stem);
}

/* The files of the first such name that say they belong together. */
static struct split find_split(const struct fsdp_folder *folder)
{
	struct split found = { .count = 0 }, own;
	uint32_t number;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE)
			continue;
		if (found.count == 0 && parse_split(entry.name, &own, &number))
			found = own;
		found.count += found.stem.data != NULL &&
			       is_of_split(&found, entry.name, &number);
	}
	return found;
}

/* Without a configuration the names show that two files are one model in two formats;
 * loaders take one. */
static const struct single *find_pair(const struct fsdp_folder *folder)
{
	for (size_t i = 0; i + 1 < FSDP_COUNT(singles); i += 2)
		if (has_file(folder, singles[i].file) &&
			has_file(folder, singles[i + 1].file))
			return &singles[i];
	return NULL;
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	return find_index(look->folder).data != NULL ? FSDP_SIGN_SURE
	       : find_single(look->folder) != NULL   ? FSDP_SIGN_LIKELY
	       : find_split(look->folder).count != 0 || find_pair(look->folder) != NULL
		       ? FSDP_SIGN_WEAK
		       : FSDP_SIGN_NONE;
}

/* ---- the index ---- */

static const struct fsdp_json_wanted wanted = { .members = true };
static void report(const struct hf *hf, enum fsdp_rule_index rule, const char *what)
{
	fsdp_find(&hf->reading->model->findings, rule,
		FSDP_PLACE(.file = hf->index, .offset = hf->json.token.offset), "%s",
		what);
}

/* A file of the map, seen for the first time. A path that leaves the directory or is of
 * another kind is never opened. */
static void add_file(struct hf *hf, struct fsdp_span name, uint32_t number)
{
	struct fsdp_findings *findings = &hf->reading->model->findings;
	struct fsdp_entry entry;
	char room[FSDP_SHOWN];
	bool fits = fsdp_span_ends(
		name, hf->is_bin ? FSDP_SPAN(".bin") : FSDP_SPAN(".safetensors"));
	if (!fsdp_name_is_safe(name) || !fits) {
		fsdp_find(findings, FSDP_RULE_PATH_ESCAPE,
			FSDP_PLACE(.file = hf->index, .offset = hf->json.token.offset),
			"the index names the file %s, which %s", fsdp_shown(name, room),
			fits ? "is not a plain name"
			     : "is not of the format in the index");
		return;
	}
	bool found = fsdp_folder_find(hf->folder, name, &entry);
	if ((!found && memchr(name.data, '/', name.size) == NULL) ||
		(found && entry.kind == FSDP_ENTRY_LINK_BROKEN)) {
		struct absent absent = {
			.name = name, .number = number, .is_link = found
		};
		fsdp_vec_append(&hf->absent, &absent);
		return;
	}
	fsdp_reading_add_child(hf->reading, name, FSDP_NONE);
}

static void map_tensor(struct hf *hf, struct fsdp_span key, uint32_t number)
{
	struct fsdp_model *model = hf->reading->model;
	uint32_t name, raw_name;
	fsdp_build_names(model, 0, key, false, &name, &raw_name);
	fsdp_vec_append(&hf->map, &raw_name);
	if (fsdp_table_get(&hf->mapped, raw_name) != FSDP_NONE)
		fsdp_find(&model->findings, FSDP_RULE_SAFETENSORS_JSON,
			FSDP_PLACE(.file = hf->index, .offset = hf->json.token.offset,
				.tensor = key),
			"weight_map lists the tensor twice; readers use the first or the last");
	(void)fsdp_table_set(&hf->mapped, raw_name, number);
}

/* False: the next entry is nothing plain or names a new file, and nothing happened. */
static bool read_alike(struct hf *hf)
{
	struct fsdp_json_member entry;
	if (!fsdp_json_quick_member(hf->quick, &hf->json.scan, NULL, &entry))
		return false;
	if (*entry.meaning == 0) {
		uint32_t number = fsdp_names_find_child(&hf->files, 0, entry.text);
		if (number == FSDP_NONE)
			return false;
		*entry.meaning = number;
	}
	fsdp_json_quick_accept(&hf->json.scan, &entry);
	/* Findings are at the file, as if it had been read as a token. */
	hf->json.token.offset =
		fsdp_json_scan_offset(&hf->json.scan, entry.text.data - 1);
	map_tensor(hf, entry.key, *entry.meaning);
	return true;
}

static void read_entry(struct hf *hf)
{
	struct fsdp_arena *scratch = hf->reading->scratch;
	struct fsdp_json_token *token = &hf->json.token;
	struct fsdp_span key = fsdp_json_text_copy(token, scratch);
	fsdp_json_walk_next(&hf->json);
	if (token->kind != FSDP_SCAN_TEXT) {
		report(hf, FSDP_RULE_SAFETENSORS_JSON,
			"weight_map has no file name here");
		fsdp_json_walk_skip(&hf->json);
		return;
	}
	struct fsdp_span file = fsdp_json_text_copy(token, scratch);
	size_t known = hf->files.list.count;
	while (fsdp_span_begins(file, FSDP_SPAN("./")))
		file = fsdp_span(file.data + 2, file.size - 2);
	uint32_t number = fsdp_names_child(&hf->files, 0, file);
	if (hf->files.list.count != known)
		add_file(hf, file, number);
	map_tensor(hf, key, number);
}

static void read_map(struct hf *hf)
{
	fsdp_json_walk_next(&hf->json);
	if (hf->json.token.kind != FSDP_SCAN_OBJECT) {
		report(hf, FSDP_RULE_SAFETENSORS_JSON, "weight_map is not a JSON object");
		fsdp_json_walk_skip(&hf->json);
		return;
	}
	hf->has_map = true;
	for (;;) {
		if (read_alike(hf))
			continue;
		if (!fsdp_json_walk_more(&hf->json))
			return;
		read_entry(hf);
	}
}

static void read_total(struct hf *hf)
{
	struct fsdp_json_token *token = &hf->json.token;
	int64_t size;
	fsdp_json_walk_next(&hf->json);
	if (token->kind == FSDP_SCAN_NUMBER && fsdp_decimal_integer(token->span, &size) &&
		size >= 0) {
		hf->total_size = (uint64_t)size;
		return;
	}
	/* Older writers count bool as an eighth of a byte. */
	if (token->kind != FSDP_SCAN_NUMBER)
		report(hf, FSDP_RULE_INDEX_TOTALS, "total_size is not a number");
	fsdp_json_walk_skip(&hf->json);
}

/* A writer's own key; texts may be two names of one tensor. */
static void read_note(struct hf *hf)
{
	struct fsdp_model *model = hf->reading->model;
	struct fsdp_json_token *token = &hf->json.token;
	struct fsdp_span key = fsdp_json_text_copy(token, model->arena);
	fsdp_json_walk_next(&hf->json);
	if (token->kind == FSDP_SCAN_TEXT)
		fsdp_build_declared(model, key, fsdp_json_text_copy(token, model->arena));
	else
		fsdp_json_walk_skip(&hf->json);
}

static void read_metadata(struct hf *hf)
{
	fsdp_json_walk_next(&hf->json);
	if (hf->json.token.kind != FSDP_SCAN_OBJECT) {
		fsdp_json_walk_skip(&hf->json);
		return;
	}
	while (fsdp_json_walk_more(&hf->json)) {
		bool total = fsdp_json_text_is(&hf->json.token, FSDP_SPAN("total_size"));
		(total ? read_total : read_note)(hf);
	}
}

static void read_index(void *context)
{
	struct hf *hf = context;
	fsdp_json_walk_next(&hf->json);
	if (hf->json.token.kind != FSDP_SCAN_OBJECT) {
		struct fsdp_error *error = NULL;
		fsdp_fail(&error, FSDP_ERROR_DAMAGED, hf->json.token.offset,
			"the index is not a JSON object");
		fsdp_model_leave(hf->reading->model, error);
	}
	while (fsdp_json_walk_more(&hf->json)) {
		if (fsdp_json_text_is(&hf->json.token, FSDP_SPAN("weight_map")))
			read_map(hf);
		else if (fsdp_json_text_is(&hf->json.token, FSDP_SPAN("metadata")))
			read_metadata(hf);
		else
			fsdp_json_walk_skip(&hf->json);
	}
	fsdp_json_walk_next(&hf->json);
}

/* Of the number of a tensor's file: the tensor was met, more than once. */
#define SEEN (UINT32_C(1) << 31)
#define TWICE (UINT32_C(1) << 30)

static struct fsdp_span name_of(const struct hf *hf, uint32_t name)
{
	struct fsdp_model *model = hf->reading->model;
	return fsdp_model_name(model, name, hf->reading->scratch);
}

/* The tensors of absent files. Counted first, so that they take no more room than the
 * map. */
static void list_lost(struct hf *hf)
{
	struct fsdp_arena *scratch = hf->reading->scratch;
	/* For each file the number of its absent one, plus one. */
	uint32_t *of = FSDP_TAKE(scratch, of, hf->files.list.count + 1);
	for (uint32_t i = 0; i < hf->absent.count; i++)
		of[((const struct absent *)fsdp_vec_at(&hf->absent, i))->number] = i + 1;
	for (size_t turn = 0; turn < 2; turn++) {
		for (size_t i = 0; i < hf->map.count; i++) {
			uint32_t name = *(const uint32_t *)fsdp_vec_at(&hf->map, i);
			uint32_t file = of[fsdp_table_get(&hf->mapped, name) & ~SEEN];
			struct absent *absent =
				file > 0 ? fsdp_vec_at(&hf->absent, file - 1) : NULL;
			if (absent == NULL)
				continue;
			if (turn == 0)
				absent->tensor_count++;
			else if (absent->kept < FSDP_AFFECTED_KEPT)
				absent->tensors[absent->kept++] = name_of(hf, name);
		}
		for (size_t i = 0; turn == 0 && i < hf->absent.count; i++) {
			struct absent *absent = fsdp_vec_at(&hf->absent, i);
			absent->tensors = FSDP_TAKE(scratch, absent->tensors,
				fsdp_min(absent->tensor_count, FSDP_AFFECTED_KEPT) + 1);
		}
	}
}

#define MAKE_INDEX "fsdp-inspect export --index-only DIR"
/* Only an index of safetensors can be made. */
static const char *make_anew(const struct hf *hf)
{
	return fsdp_span_is(hf->index, "model.safetensors.index.json")
		       ? "mv -n DIR/model.safetensors.index.json DIR/index.json.old && " MAKE_INDEX
	       : fsdp_span_is(hf->index, DIFFUSERS "safetensors.index.json")
		       ? "mv -n DIR/" DIFFUSERS
			 "safetensors.index.json DIR/index.json.old && " MAKE_INDEX
		       : "";
}

/* All files of another count than those that the index names are there: it is that of
 * another save. Or as many of another name: they were renamed. */
static bool find_other_save(struct hf *hf, struct split *ret_split)
{
	enum { TRIED_MOST = 16 };
	struct split named;
	uint32_t number;
	size_t tried = 0;
	for (size_t i = 0; i < hf->folder->count && tried < TRIED_MOST; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(hf->folder, i);
		if (!parse_split(entry.name, ret_split, &number) || number > 1 ||
			ret_split->is_bin != hf->is_bin)
			continue;
		tried++;
		FSDP_EACH(k, hf->folder->count, other, fsdp_folder_entry(hf->folder, k))
			ret_split->count += other.kind == FSDP_ENTRY_FILE &&
					    is_of_split(ret_split, other.name, &number) &&
					    number >= 1 && number <= ret_split->of;
		const struct absent *absent = fsdp_vec_at(&hf->absent, 0);
		if (ret_split->count == ret_split->of &&
			parse_split(absent->name, &named, &number) &&
			(named.of != ret_split->of) ==
				fsdp_span_equal(named.stem, ret_split->stem)) {
			hf->is_renamed = named.of == ret_split->of;
			return true;
		}
	}
	return false;
}

static void report_absent(struct hf *hf)
{
	const struct single *single = find_single(hf->folder);
	bool is_ignored;
	if (hf->absent.count == 0)
		return;
	if (hf->reading->children.count == 0 && single != NULL &&
		strncmp(single->file, "adapter", 7) != 0) {
		is_ignored = fsdp_span_begins(hf->index, fsdp_span_text(single->file)) &&
			     !is_of_diffusers(single->file);
		fsdp_find(&hf->reading->model->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = hf->index,
				.severity = is_ignored ? FSDP_WARNING + 1 : 0,
				.fix = "move the index out of the directory"),
			"the index belongs to another save: the files that it lists (%zu) are missing, and %s is present, which %s",
			hf->absent.count, single->file,
			is_ignored
				? "transformers loads; loaders that read the index first refuse it"
				: "loaders open only without this index");
		hf->single = single;
		return;
	}
	hf->is_of_other_save =
		hf->reading->children.count == 0 && find_other_save(hf, &hf->other);
	const struct absent *first = fsdp_vec_at(&hf->absent, 0);
	if (hf->is_of_other_save ||
		(hf->reading->children.count == 0 &&
			fsdp_find_download(hf->folder, first->name, &is_ignored).size ==
				0))
		return; /* the error says it */
	list_lost(hf);
	FSDP_ITEMS(const struct absent, absent, &hf->absent)
		hf->is_renamed |= fsdp_report_missing(&hf->reading->model->findings,
			hf->folder,
			*FSDP_PLACE(.file = absent->name, .affected = absent->tensors,
				.affected_count = absent->tensor_count),
			absent->is_link, "the index");
}

/* Names the index in an error. A new one can be made where all shards are present. */
static bool fail_index(const struct hf *hf, struct fsdp_error **ret_error)
{
	struct split split = find_split(hf->folder);
	if (ret_error != NULL && *ret_error != NULL &&
		fsdp_error_code(*ret_error) == FSDP_ERROR_DAMAGED) {
		fsdp_error_add_rule(ret_error, "FI1025");
		if (split.count > 0 && split.count == split.of &&
			fsdp_error_hint(*ret_error) == NULL && *make_anew(hf) != '\0')
			fsdp_error_add_hint(ret_error, "%s", make_anew(hf));
	}
	return fsdp_error_add_path(ret_error, (const char *)hf->index.data);
}

static bool open_index(struct hf *hf, struct fsdp_error **ret_error)
{
	struct fsdp_reading *reading = hf->reading;
	fsdp_table_init(&hf->mapped, reading->scratch);
	fsdp_vec_init(&hf->map, reading->scratch, sizeof(uint32_t));
	fsdp_vec_init(&hf->absent, reading->scratch, sizeof(struct absent));
	(void)fsdp_names_init(&hf->files, reading->scratch);
	uint64_t limit = fsdp_limit(reading->limits, FSDP_LIMIT_JSON_BYTES);
	struct fsdp_source *source = &hf->rest.source;
	if (!fsdp_folder_source(hf->folder, hf->index, source, ret_error))
		return false;
	if (source->size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_JSON_BYTES, limit);
	hf->rest.end = source->size;
	fsdp_build_file(reading->model, hf->index, source->size, FSDP_NONE);
	hf->json.arena = reading->model->arena;
	hf->json.error = &reading->model->error;
	if (!fsdp_json_scan_init(&hf->json.scan, fsdp_source_refill, &hf->rest,
		    reading->limits, ret_error))
		return false;
	/* What is in the window does not stay there. */
	struct fsdp_names *names = &reading->model->names;
	struct fsdp_arena *copies = names->copies;
	names->copies = reading->model->arena;
	hf->quick = fsdp_json_quick_new(&wanted);
	bool read = hf->quick != NULL ? fsdp_model_try(reading->model, reading->scratch,
						read_index, hf, ret_error)
				      : fsdp_fail_memory(ret_error);
	fsdp_json_quick_free(hf->quick);
	names->copies = copies;
	fsdp_json_scan_done(&hf->json.scan);
	if (!read)
		return fail_index(hf, ret_error);
	report_absent(hf);
	return true;
}

/* ---- the index against what the files hold ---- */

static const struct fsdp_file_record *file_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	if (tensor->piece_count == 0)
		return NULL;
	const struct fsdp_piece_record *piece =
		fsdp_model_piece(model, tensor->first_piece);
	if (piece->extent == FSDP_NONE)
		return NULL;
	return fsdp_model_file(model, fsdp_model_extent(model, piece->extent)->file);
}

/* The number in the index of a file of the directory, or FSDP_NONE. */
static uint32_t number_of(const struct hf *hf, struct fsdp_span path)
{
	struct fsdp_span below = hf->reading->model->findings.below;
	if (!fsdp_span_begins(path, below))
		return FSDP_NONE;
	return fsdp_names_find_child(
		&hf->files, 0, fsdp_span(path.data + below.size, path.size - below.size));
}

/* Counts for each file of the index its listed tensors, and those that it contains; marks
 * those that are there. */
static void count_listed(struct hf *hf)
{
	const struct fsdp_model *model = hf->reading->model;
	hf->listed =
		FSDP_TAKE(hf->reading->scratch, hf->listed, hf->files.list.count + 1);
	for (size_t i = 0; i < hf->map.count; i++)
		hf->listed[fsdp_table_get(&hf->mapped,
				   *(const uint32_t *)fsdp_vec_at(&hf->map, i))]
			.listed++;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		const struct fsdp_file_record *file = file_of(model, tensor);
		uint32_t mapped = fsdp_table_get(&hf->mapped, tensor->raw_name), actual;
		if (file == NULL || mapped == FSDP_NONE)
			continue;
		/* It has a place in the table already, so this needs no memory. */
		(void)fsdp_table_set(&hf->mapped, tensor->raw_name,
			mapped | SEEN | ((mapped & SEEN) != 0 ? TWICE : 0));
		mapped &= ~(SEEN | TWICE);
		actual = number_of(hf, file->path);
		if (actual == mapped)
			hf->listed[mapped].found++;
		else if (actual != FSDP_NONE) {
			if (hf->listed[actual].other == 0)
				hf->listed[actual].other = mapped;
			hf->listed[actual].of_other += hf->listed[actual].other == mapped;
		}
	}
}

/* Whether a file has none of its tensors in the index, but those of another: it is that
 * shard under this name. Of a file with one tensor, only the name may be wrong. */
static bool is_other_shard(const struct hf *hf, uint32_t number)
{
	const struct listed_file *file = &hf->listed[number == FSDP_NONE ? 0 : number];
	return number != FSDP_NONE && file->found == 0 && file->other != 0 &&
	       (file->listed > 1 || file->of_other == hf->listed[file->other].listed);
}

/* Actual file of a tensor, and its file in the index. */
static void check_tensor(struct hf *hf, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_model *model = hf->reading->model;
	const struct fsdp_file_record *file = file_of(model, tensor);
	uint32_t mapped = fsdp_table_get(&hf->mapped, tensor->raw_name);
	if (file == NULL)
		return;
	if (mapped == FSDP_NONE) {
		struct fsdp_span name = name_of(hf, tensor->name);
		fsdp_find(&model->findings, FSDP_RULE_INDEX_UNINDEXED,
			FSDP_PLACE(.file = file->path, .tensor = name),
			"the index does not name %.*s", FSDP_TEXT_MOST(name, 256));
		return;
	}
	if (is_other_shard(hf, number_of(hf, file->path)))
		return;
	/* The mark is for the first one. */
	(void)fsdp_table_set(&hf->mapped, tensor->raw_name, mapped & ~SEEN);
	struct fsdp_span said = fsdp_names_segment(&hf->files, mapped & ~(SEEN | TWICE));
	bool again = !(mapped & SEEN);
	if (!again && ((mapped & TWICE) || fsdp_span_ends(file->path, said)))
		return;
	if (again)
		hf->repeated_bytes += fsdp_model_bytes(model, tensor);
	struct fsdp_span name = name_of(hf, tensor->name);
	bool lists = hf->misplaced != 0 && !again;
	fsdp_find(&model->findings, FSDP_RULE_INDEX_MISPLACED,
		FSDP_PLACE(.file = file->path, .tensor = name,
			.severity = lists ? hf->misplaced : 0,
			.fix = lists && !hf->lacks_some ? make_anew(hf) : NULL),
		again ? "'%.*s' is stored in this file and in another one; the index lists it in %.*s"
		      : "'%.*s' is stored in this file; the index lists it in %.*s",
		FSDP_TEXT_MOST(name, 256), FSDP_TEXT_MOST(said, 256));
}

/* The path of a file from the root on, and the names of its tensors. */
static void keep_file(struct hf *hf, const struct absent *absent)
{
	struct fsdp_model *model = hf->reading->model;
	struct fsdp_span below = model->findings.below;
	struct fsdp_unread *unread = fsdp_vec_push(&model->unread);
	struct fsdp_span *names = FSDP_TAKE(model->arena, names, absent->kept + 1);
	unsigned char *path =
		fsdp_arena_take(model->arena, below.size + absent->name.size + 1, 1);
	if (below.size > 0)
		memcpy(path, below.data, below.size);
	memcpy(path + below.size, absent->name.data, absent->name.size);
	for (size_t i = 0; i < absent->kept; i++) {
		names[i] = fsdp_arena_copy(model->arena, absent->tensors[i]);
	}
	*unread = (struct fsdp_unread){
		.file = fsdp_span(path, below.size + absent->name.size),
		.names = names,
		.kept = absent->kept,
		.count = absent->tensor_count,
	};
}

/* Only the map lists the tensors of unreadable files. */
static void keep_unread(struct hf *hf, const bool *opened)
{
	struct fsdp_entry entry;
	hf->absent.count = 0;
	for (uint32_t i = 1; i < hf->files.list.count; i++) {
		struct absent absent = { .name = fsdp_names_segment(&hf->files, i),
			.number = i };
		if (!opened[i] && fsdp_folder_find(hf->folder, absent.name, &entry))
			fsdp_vec_append(&hf->absent, &absent);
	}
	if (hf->absent.count > 0)
		list_lost(hf);
	for (size_t i = 0; i < hf->absent.count; i++)
		keep_file(hf, fsdp_vec_at(&hf->absent, i));
}

/* Whether all files are there, and have none of their listed tensors. */
static bool is_of_other_names(const struct hf *hf, const bool *opened)
{
	for (uint32_t i = 1; i < hf->files.list.count; i++)
		if (!opened[i] || hf->listed[i].found > 0 || hf->listed[i].other != 0)
			return false;
	return hf->map.count > 1 && hf->reading->model->tensors.count > 1;
}

static void check_map(struct hf *hf)
{
	struct fsdp_model *model = hf->reading->model;
	size_t files = hf->files.list.count;
	bool *opened = fsdp_arena_take(hf->reading->scratch, files + 1, 1);
	/* Files of the map that were opened; tensors of others are not reported again. */
	FSDP_EACH(i, model->files.count, number,
		number_of(hf, fsdp_model_file(model, i)->path))
		if (number != FSDP_NONE && !fsdp_model_file(model, i)->is_listed)
			opened[number] = true;
	for (uint32_t i = 1; i < files; i++)
		hf->lacks_some |= !opened[i];
	/* transformers takes the names of files from the index, and from these all that
	 * is there. */
	if (has_file(hf->folder, "config.json"))
		hf->misplaced = FSDP_WARNING + 1;
	keep_unread(hf, opened);
	count_listed(hf);
	for (uint32_t i = 1; i < files; i++) {
		const struct listed_file *file = &hf->listed[i];
		char fix[FSDP_WORD_MAX];
		if (!opened[i] || !is_other_shard(hf, i))
			continue;
		struct fsdp_span name = fsdp_names_segment(&hf->files, i),
				 other = fsdp_names_segment(&hf->files, file->other);
		const struct listed_file *twin = &hf->listed[file->other];
		if (is_other_shard(hf, file->other) && twin->other == i &&
			file->of_other == twin->listed &&
			twin->of_other == file->listed) {
			snprintf(fix, sizeof fix, "exchange the names of %.*s and %.*s",
				FSDP_TEXT_MOST(name, 80), FSDP_TEXT_MOST(other, 80));
			if (i < file->other)
				fsdp_find(&model->findings, FSDP_RULE_INDEX_MISPLACED,
					FSDP_PLACE(.file = name, .fix = fix,
						.severity = hf->misplaced),
					"this file and %.*s are exchanged: each contains the tensors that the index lists in the other one",
					FSDP_TEXT(other));
			continue;
		}
		fsdp_find(&model->findings, FSDP_RULE_INDEX_MISSING,
			FSDP_PLACE(.file = name,
				.fix = "copy this file again from where the model was saved"),
			"file is another shard: all tensors that the index lists here (%zu) are missing, and it contains tensors of %.*s",
			file->listed, FSDP_TEXT(other));
	}
	if (is_of_other_names(hf, opened)) {
		fsdp_find(&model->findings, FSDP_RULE_INDEX_MISSING,
			FSDP_PLACE(.file = hf->index, .fix = make_anew(hf),
				.severity = hf->misplaced),
			"the files have none of the %zu names in the index, but %zu other tensors",
			hf->map.count, model->tensors.count);
		return;
	}
	for (size_t i = 0; i < hf->map.count; i++) {
		uint32_t name = *(const uint32_t *)fsdp_vec_at(&hf->map, i);
		uint32_t number = fsdp_table_get(&hf->mapped, name);
		if ((number & SEEN) || !opened[number])
			continue;
		hf->lacks_some = true;
		if (is_other_shard(hf, number))
			continue;
		struct fsdp_span file = fsdp_names_segment(&hf->files, number);
		struct fsdp_span tensor = name_of(hf, name);
		fsdp_find(&model->findings, FSDP_RULE_INDEX_MISSING,
			FSDP_PLACE(.file = file, .tensor = tensor),
			"%.*s is missing (listed in the index)",
			FSDP_TEXT_MOST(tensor, 256));
	}
	for (size_t i = 0; i < model->tensors.count; i++)
		check_tensor(hf, fsdp_model_tensor(model, i));
}

/* Files that are numbered like those that the index names, and are not in it: loaders do
 * not open them. */
static void check_unnamed(struct hf *hf)
{
	struct fsdp_span file = fsdp_names_segment(&hf->files, 1), first = { 0 };
	struct fsdp_span stale = { 0 };
	struct split split, own;
	uint32_t number;
	size_t count = 0, here = 0, others = 0;
	if (hf->reading->named || hf->files.list.count < 2 ||
		!parse_split(file, &split, &number))
		return;
	FSDP_EACH(i, hf->folder->count, entry, fsdp_folder_entry(hf->folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE ||
			!parse_split(entry.name, &own, &number) ||
			own.is_bin != split.is_bin ||
			!fsdp_span_equal(own.stem, split.stem))
			continue;
		if (own.of != split.of) {
			if (fsdp_names_find_child(&hf->files, 0, entry.name) ==
					FSDP_NONE &&
				others++ == 0)
				stale = entry.name;
			continue;
		}
		here++;
		if (fsdp_names_find_child(&hf->files, 0, entry.name) == FSDP_NONE &&
			count++ == 0)
			first = entry.name;
	}
	if (others > 0)
		fsdp_find(&hf->reading->model->findings, FSDP_RULE_ORPHAN_FILE,
			FSDP_PLACE(.file = stale),
			others == 1
				? "file is not in the index: it belongs to a save with another number of files"
				: "%zu files are not in the index (first: this one): they belong to a save with another number of files",
			others);
	if (count > 0)
		fsdp_find(&hf->reading->model->findings, FSDP_RULE_INDEX_UNINDEXED,
			FSDP_PLACE(.file = first,
				.fix = here == split.of ? make_anew(hf) : "",
				.severity = FSDP_ERROR + 1),
			"the index lists %zu of %zu such files and omits %zu, this one first: loaders do not open them",
			here - count, here, count);
}

/* Bytes of all storages, each once, and of the tensors, which may be views of one. */
static void sum_bytes(
	const struct fsdp_model *model, uint64_t *ret_stored, uint64_t *ret_tensors)
{
	*ret_stored = *ret_tensors = 0;
	FSDP_EACH(i, model->extents.count, extent, fsdp_model_extent(model, i))
		if (!extent->is_record && extent->size != FSDP_UNKNOWN &&
			!fsdp_add(*ret_stored, extent->size, ret_stored))
			*ret_stored = UINT64_MAX;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i))
		if (!fsdp_add(*ret_tensors, fsdp_model_bytes(model, tensor), ret_tensors))
			*ret_tensors = UINT64_MAX;
}

/* Without headers the sizes of all files show whether they can have the tensors. */
static void check_sizes(const struct hf *hf)
{
	uint64_t sum = 0;
	struct fsdp_entry entry;
	if (hf->folder->copies == NULL || hf->total_size == UINT64_MAX || hf->is_bin)
		return;
	for (uint32_t i = 1; i < hf->files.list.count; i++)
		if (!fsdp_folder_find(
			    hf->folder, fsdp_names_segment(&hf->files, i), &entry) ||
			!fsdp_add(sum, entry.size, &sum))
			return;
	if (sum < hf->total_size)
		fsdp_find(&hf->reading->model->findings, FSDP_RULE_INDEX_TOTALS,
			FSDP_PLACE(.file = hf->index, .severity = FSDP_ERROR + 1,
				.fix = "copy the files again from where the model was saved"),
			"the files have %llu bytes together, fewer than the %llu of total_size: a file is truncated or of another save",
			FSDP_LLU(sum), FSDP_LLU(hf->total_size));
}

/* ---- files without an index ---- */

/* What lacks of the numbers that the names promise: the first one is named. */
static void check_split(const struct hf *hf, const bool *here)
{
	const struct split *split = &hf->split;
	struct fsdp_findings *findings = &hf->reading->model->findings;
	char name[FSDP_WORD_MAX];
	uint32_t first = 1;
	if (hf->reading->named) /* tensors were skipped on purpose */
		return;
	while (first <= split->count && here[first])
		first++;
	if (split->count != split->of) {
		snprintf(name, sizeof name, "%.*s-%05u-of-%05u.%s",
			FSDP_TEXT_MOST(split->stem, 64), first, split->of,
			split->is_bin ? "bin" : "safetensors");
		fsdp_find(findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = fsdp_span_text(name)),
			"%u of %u files are present; this is the first missing one",
			split->count, split->of);
	}
	snprintf(name, sizeof name, "%.*s.%s.index.json", FSDP_TEXT_MOST(split->stem, 64),
		split->is_bin ? "bin" : "safetensors");
	if (split->of > 1)
		fsdp_find(findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = fsdp_span_text(name),
				.fix = split->count != split->of ? NULL
				       : split->is_bin
					       ? "fsdp-inspect export --partial -o OUT DIR"
					       : MAKE_INDEX),
			"index file is missing (%u shard%s found)", split->count,
			split->count == 1 ? "" : "s");
}

static void read_split(struct hf *hf)
{
	struct fsdp_reading *reading = hf->reading;
	uint32_t number;
	bool *here = fsdp_arena_take(reading->scratch, hf->split.count + 2, 1);
	FSDP_EACH(i, hf->folder->count, entry, fsdp_folder_entry(hf->folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE ||
			!is_of_split(&hf->split, entry.name, &number))
			continue;
		if (number <= hf->split.count)
			here[number] = true;
		fsdp_reading_add_child(reading, entry.name, FSDP_NONE);
	}
	check_split(hf, here);
}

/* ---- the directory ---- */

static void note_others(const struct hf *hf, struct fsdp_span opened)
{
	static const char *const names[] = { "model.safetensors",
		"model.safetensors.index.json", "pytorch_model.bin",
		"pytorch_model.bin.index.json", "consolidated.safetensors",
		"consolidated.00.pth", "adapter_model.safetensors", "adapter_model.bin" };
	const bool is_adapter = fsdp_span_begins(opened, FSDP_SPAN("adapter_model."));
	struct fsdp_name_list others = { .count = 0 };
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (!fsdp_span_is(opened, names[i]) && has_file(hf->folder, names[i]) &&
			(strncmp(names[i], "adapter", 7) == 0) == is_adapter)
			fsdp_name_list_add(&others, fsdp_span_text(names[i]));
	if (others.count != 0)
		fsdp_reading_note(hf->reading, "opened %.*s (also there: %s)",
			FSDP_TEXT_MOST(opened, 128), fsdp_name_list_text(&others));
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct hf *hf = FSDP_TAKE(reading->scratch, hf, 1);
	hf->reading = reading;
	hf->folder = look->folder;
	hf->total_size = UINT64_MAX;
	hf->index = find_index(look->folder);
	reading->state = hf;
	hf->is_bin = is_index(hf->index, ".bin");
	if (hf->index.data == NULL)
		hf->single = find_single(look->folder);
	if (hf->index.data == NULL && hf->single == NULL) {
		hf->split = find_split(look->folder);
		hf->is_bin = hf->split.is_bin;
		if (hf->split.count == 0)
			hf->single = find_pair(look->folder);
	}
	if (hf->index.data != NULL || hf->single != NULL)
		note_others(hf, hf->single != NULL ? fsdp_span_text(hf->single->file)
						   : hf->index);
	if (hf->index.data != NULL && !open_index(hf, ret_error))
		return false;
	if (hf->single != NULL) {
		fsdp_reading_add_child(
			reading, fsdp_span_text(hf->single->file), FSDP_NONE);
		return true;
	}
	if (hf->index.data == NULL) {
		read_split(hf);
		return true;
	}
	if (!hf->has_map || reading->children.count == 0) {
		const struct absent *first =
			hf->absent.count > 0 ? fsdp_vec_at(&hf->absent, 0) : NULL;
		if (first == NULL)
			fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				!hf->has_map ? "the index has no weight_map"
				: hf->files.list.count < 2
					? "weight_map of the index is empty"
					: "all files that the index lists are missing");
		else if (hf->is_of_other_save)
			fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1001",
				FSDP_UNKNOWN,
				"%s: the %zu files that it lists (%.*s, …) are missing, and all %u files of another set are present (%.*s-*-of-%05u)",
				hf->is_renamed
					? "the files have other names than in the index"
					: "the index belongs to another save",
				hf->absent.count, FSDP_TEXT_MOST(first->name, 200),
				hf->other.of, FSDP_TEXT_MOST(hf->other.stem, 64),
				hf->other.of);
		else
			fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1001",
				FSDP_UNKNOWN,
				"all files that the index lists (%zu, first: %.*s) are %s",
				hf->absent.count, FSDP_TEXT_MOST(first->name, 200),
				first->is_link ? "dangling links" : "missing");
		if (first != NULL)
			fsdp_error_add_hint(ret_error, "%s",
				hf->is_of_other_save && *make_anew(hf) != '\0'
					? make_anew(hf)
				: hf->is_renamed
					? "rename the files to the names that the index lists"
				: first->is_link ? FSDP_LINK_FIX
						 : "copy the files that the index lists");
		return hf->absent.count > 0 ? fsdp_error_add_path(ret_error,
						      (const char *)hf->index.data)
					    : fail_index(hf, ret_error);
	}
	return true;
}

/*
 * Modules of sentence-transformers after the model, each in a directory of its own:
 *
 *	modules.json   [{"path": "2_Dense", "type": "….Dense"}, …]
 *
 * Origin: sentence_transformers 6.2, whose load_torch_weights refuses a directory without
 * weights. Pooling and Normalize have none.
 */
static void check_modules(const struct hf *hf)
{
	struct fsdp_reading *reading = hf->reading;
	struct fsdp_error *error = NULL;
	const struct fsdp_json *root =
		fsdp_reading_document(reading, hf->folder, "modules.json", &error);
	if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
		fsdp_model_leave(reading->model, error);
	fsdp_error_free(error);
	FSDP_EACH(i, fsdp_json_items(root), module, &root->items[i]) {
		struct fsdp_span path = fsdp_json_get_text(module, "path");
		struct fsdp_span type = fsdp_json_get_text(module, "type");
		struct fsdp_folder folder;
		struct fsdp_dir dir;
		struct fsdp_entry entry;
		bool has_weights = fsdp_folder_find(hf->folder, path, &entry);
		if (path.size == 0 || memchr(path.data, '/', path.size) != NULL ||
			!fsdp_span_begins(type, FSDP_SPAN("sentence_transformers.")) ||
			!fsdp_span_is_any(fsdp_span_last(type, '.'),
				"Dense CNN LSTM LayerNorm WeightedLayerPooling"))
			continue;
		error = NULL;
		/* One that cannot be opened is unknown. */
		if (fsdp_folder_open_child(hf->folder, path, reading->scratch,
			    reading->limits, &dir, &folder, &error)) {
			has_weights = fsdp_folder_find(&folder,
					      FSDP_SPAN("model.safetensors"), &entry) ||
				      fsdp_folder_find(&folder,
					      FSDP_SPAN("pytorch_model.bin"), &entry);
			fsdp_dir_close(&dir);
		} else if (fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
			fsdp_model_leave(reading->model, error);
		}
		fsdp_error_free(error);
		if (!has_weights)
			fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = path),
				"directory has no weights (modules.json lists %.*s)",
				FSDP_TEXT_MOST(fsdp_span_last(type, '.'), 64));
	}
}

static void finish(struct fsdp_reading *reading)
{
	struct hf *hf = reading->state;
	const struct single *single = hf->single;
	struct fsdp_format *format = &hf->reading->model->format;
	bool sharded = single == NULL;
	*format = (struct fsdp_format){
		.family = !sharded     ? single->family
			  : hf->is_bin ? "hf-bin-sharded"
				       : "hf-safetensors-sharded",
		.title =
			!sharded ? single->title
			: hf->split.count != 0
				? (hf->is_bin ? "Hugging Face model (.bin, by names)"
					      : "Hugging Face model (safetensors, by names)")
			: hf->is_bin ? "Hugging Face model (.bin, by index)"
				     : "Hugging Face model (safetensors, by index)",
	};
	if (hf->index.data != NULL && single == NULL) {
		if (hf->is_bin && fsdp_span_begins(hf->index, FSDP_SPAN(DIFFUSERS)))
			fsdp_find(&hf->reading->model->findings, FSDP_RULE_LOADER_FAILS,
				FSDP_PLACE(.file = hf->index,
					.fix = "load it with use_safetensors=False, or: fsdp-inspect export -o OUT DIR"),
				"from_pretrained of diffusers looks only for an index of safetensors, and then for one file");
		check_map(hf);
		check_unnamed(hf);
		check_sizes(hf);
		struct fsdp_model *model = hf->reading->model;
		uint64_t sum, tensors;
		sum_bytes(model, &sum, &tensors);
		if (hf->total_size != UINT64_MAX && hf->total_size != sum &&
			hf->total_size != sum - hf->repeated_bytes &&
			hf->total_size != tensors && !hf->lacks_some) {
			if (tensors < sum)
				sum = tensors;
			fsdp_find(&model->findings, FSDP_RULE_INDEX_TOTALS,
				/* A new index would hide what is missing. */
				FSDP_PLACE(.file = hf->index,
					.fix = hf->total_size > sum ? "" : NULL),
				"total_size is %llu, the tensors have %llu bytes",
				FSDP_LLU(hf->total_size), FSDP_LLU(sum));
		}
	}
	check_modules(hf);
	fsdp_hf_config(reading, hf->folder);
}

static bool is_anchor(struct fsdp_span name)
{
	return is_index(name, "");
}

static bool is_rival(struct fsdp_span name)
{
	size_t i = 0;
	while (i < FSDP_COUNT(singles) && !fsdp_span_is(name, singles[i].file))
		i++;
	return i < FSDP_COUNT(singles);
}

static const char *const rankless[] = { "hf-bin", "hf-bin-sharded", "hf-safetensors",
	"hf-safetensors-sharded", "peft-adapter", NULL };

const struct fsdp_family fsdp_family_hugging_face = {
	.name = "hf-safetensors",
	.title = "Hugging Face model",
	.recognize = recognize,
	.read = read,
	.finish = finish,
	.is_anchor = is_anchor,
	.is_rival = is_rival,
	.one_is_enough = true,
	.rankless = rankless,
};
