/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how a download cache of the Hugging Face hub is laid out, and which revision in
 * it is meant. Reads no checkpoint: the door enters what is named here.
 *
 *	models--<org>--<name>/refs/<branch>           text: a revision
 *	                      snapshots/<revision>/…  links to ../../blobs/<hex>
 *	                      blobs/<hex>             the files
 *	                      blobs/<hex>.incomplete  one that is still on its way
 *
 * Origin: huggingface_hub/file_download.py (2.4).
 */
#include "format/format.h"

enum { REVISION_MOST = 256 };

static bool has_folder(const struct fsdp_folder *folder, const char *name)
{
	struct fsdp_entry entry;
	return fsdp_folder_find(folder, fsdp_span_text(name), &entry) &&
	       entry.kind == FSDP_ENTRY_DIRECTORY;
}

bool fsdp_hub_is_cache(const struct fsdp_folder *folder)
{
	return has_folder(folder, "snapshots") &&
	       (has_folder(folder, "blobs") || has_folder(folder, "refs"));
}

/* What refs/main says: the name of a folder; empty if it says nothing of the kind. */
struct fsdp_span fsdp_hub_revision(
	const struct fsdp_folder *folder, struct fsdp_arena *arena)
{
	struct fsdp_span text = { 0 };
	struct fsdp_source source;
	if (!has_folder(folder, "refs") ||
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
void fsdp_hub_judge(const struct fsdp_folder *blobs, struct fsdp_findings *findings)
{
	for (size_t i = 0; i < blobs->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(blobs, i);
		if (entry.kind == FSDP_ENTRY_FILE &&
			fsdp_span_ends(entry.name, FSDP_SPAN(".incomplete")))
			fsdp_find(findings, FSDP_RULE_COMMIT_LEFTOVER,
				FSDP_PLACE(.file = entry.name),
				"a download that did not end left this behind in blobs");
	}
}
