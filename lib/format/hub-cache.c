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

bool fsdp_hub_is_cache(const struct fsdp_folder *folder)
{
	return fsdp_folder_has(folder, "snapshots", FSDP_ENTRY_DIRECTORY) &&
	       (fsdp_folder_has(folder, "blobs", FSDP_ENTRY_DIRECTORY) ||
		       fsdp_folder_has(folder, "refs", FSDP_ENTRY_DIRECTORY));
}

/* What refs/main says: the name of a folder; empty if it says nothing of the kind. */
struct fsdp_span fsdp_hub_revision(
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
