/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The download cache of the Hugging Face hub: finds the revision that its main branch is
 * at, else the only one there is. The folder of that is opened in place of the cache.
 *
 *	models--<org>--<name>/refs/<branch>           text: a revision
 *	                      snapshots/<revision>/…  links to ../../blobs/<hex>
 *	                      blobs/<hex>             the files
 *	                      blobs/<hex>.incomplete  one that is still on its way
 *
 * Origin: huggingface_hub/file_download.py (2.4).
 */
#include <stdio.h>

#include "format/format.h"

enum { REVISION_MOST = 256 };

static enum fsdp_sign recognise(const struct fsdp_look *look)
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

/* What refs/main says: the name of a folder; empty if it says nothing of the kind. */
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

/* What a broken download left: it may be a file that a snapshot lacks. */
static void judge_blobs(struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	struct fsdp_dir dir;
	struct fsdp_folder blobs;
	if (!fsdp_folder_open_child(folder, FSDP_SPAN("blobs"), reading->model->arena,
		    reading->limits, &dir, &blobs, NULL))
		return;
	for (size_t i = 0; i < blobs.count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(&blobs, i);
		if (entry.kind == FSDP_ENTRY_FILE &&
			fsdp_span_ends(entry.name, FSDP_SPAN(".incomplete")))
			fsdp_find(&reading->model->findings, FSDP_RULE_COMMIT_LEFTOVER,
				FSDP_PLACE(.file = entry.name),
				"a download that did not end left this behind in blobs");
	}
	fsdp_dir_close(&dir);
}

/* The snapshot called so, else the only one. *ret_told: it is called so. */
static bool choose(const struct fsdp_folder *snapshots, struct fsdp_span revision,
	struct fsdp_span *ret_name, bool *ret_told, struct fsdp_error **ret_error)
{
	struct fsdp_candidates found = { .count = 0 };
	*ret_told = false;
	for (size_t i = 0; i < snapshots->count && !*ret_told; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(snapshots, i);
		if (entry.kind != FSDP_ENTRY_DIRECTORY)
			continue;
		fsdp_candidates_add(&found, &entry);
		*ret_told = fsdp_span_equal(entry.name, revision);
	}
	*ret_name = found.last.name;
	if (!*ret_told && found.count == 0) {
		fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			"this download cache holds no snapshot");
		return fsdp_error_add_hint(ret_error, "download it again");
	}
	return *ret_told || found.count == 1 ||
	       fsdp_candidates_fail(
		       &found, "snapshots, and refs/main names none of them", ret_error);
}

static bool leads_to(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_lead *ret_lead, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = reading->model->arena;
	struct fsdp_span revision = main_revision(folder, arena), name;
	struct fsdp_dir dir;
	struct fsdp_folder snapshots;
	bool told;
	judge_blobs(reading, folder);
	if (!fsdp_folder_open_child(folder, FSDP_SPAN("snapshots"), arena,
		    reading->limits, &dir, &snapshots, ret_error))
		return false;
	bool chosen = choose(&snapshots, revision, &name, &told, ret_error);
	if (chosen) {
		size_t size = sizeof "snapshots/" - 1 + name.size;
		char *path = fsdp_arena_take(arena, size + 1, 1);
		if (path != NULL)
			snprintf(path, size + 1, "snapshots/%s", (const char *)name.data);
		ret_lead->path = fsdp_span(path, path != NULL ? size : 0);
		ret_lead->why = told ? "as refs/main says" : "the only one";
		chosen = path != NULL || fsdp_arena_fail(arena, ret_error);
	}
	fsdp_dir_close(&dir);
	return chosen;
}

const struct fsdp_family fsdp_family_hub_cache = {
	.name = "hub-cache",
	.title = "download cache",
	.recognise = recognise,
	.leads_to = leads_to,
};
