/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Megatron-core writes beside the files of DCP, and what it says of other files
 * (layout.c reads the rest).
 *
 *	metadata.json   written last: {"sharded_backend": …, "common_backend": …}
 *	common.pt       values that all ranks share, if there is a common_backend
 *	integrity.json  {"algorithm": "sha256", "files": {name: digest}}
 *
 * Origin: megatron/core/dist_checkpointing (0.16, 0.19).
 */
#include "format/layout-megatron.h"

#include "syntax/json-tree.h"

enum { DOCUMENT_BYTES = 1 << 20 };

#define COMMIT "metadata.json"
#define COMMON "common.pt"
#define INTEGRITY "integrity.json"

/* NULL: it is not there, or no document, which is reported. */
static const struct fsdp_json *read_document(
	struct fsdp_reading *reading, const struct fsdp_folder *folder, const char *name)
{
	struct fsdp_error *error = NULL;
	struct fsdp_source source;
	struct fsdp_span bytes;
	const struct fsdp_json *root = NULL;
	if (!fsdp_folder_has(folder, name, FSDP_ENTRY_FILE))
		return NULL;
	if (!fsdp_folder_source(folder, fsdp_span_text(name), &source, &error) ||
		source.size > DOCUMENT_BYTES ||
		!fsdp_source_read_all(
			&source, 0, source.size, reading->scratch, &bytes, &error) ||
		!fsdp_json_read(bytes, reading->limits, reading->scratch, &root, &error))
		root = NULL;
	if (root == NULL)
		fsdp_find(&reading->model->findings,
			error == NULL || fsdp_error_code(error) == FSDP_ERROR_DAMAGED
				? FSDP_RULE_TRUNCATED_FILE
				: FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = fsdp_span_text(name)),
			"this is not a complete JSON document: %s",
			error != NULL ? fsdp_error_message(error) : "it is too large");
	fsdp_error_free(error);
	return root;
}

static void judge_integrity(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, const struct fsdp_json *files)
{
	char room[FSDP_SHOWN];
	for (uint32_t i = 0; fsdp_json_is(files, FSDP_JSON_OBJECT) && i < files->count;
		i++) {
		struct fsdp_span name = files->items[i].key;
		struct fsdp_entry entry;
		if (fsdp_name_is_safe(name) && fsdp_folder_find(folder, name, &entry))
			continue;
		fsdp_find(&reading->model->findings, FSDP_RULE_MEGATRON_OBJECTS,
			FSDP_PLACE(.file = FSDP_SPAN(INTEGRITY)),
			"it lists %s, which is not there", fsdp_shown(name, room));
	}
}

void fsdp_layout_judge_megatron(
	struct fsdp_reading *reading, const struct fsdp_folder *folder)
{
	const struct fsdp_json *commit = read_document(reading, folder, COMMIT);
	if (!fsdp_folder_has(folder, COMMIT, FSDP_ENTRY_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_UNCOMMITTED_SAVE,
			FSDP_PLACE(.file = { 0 }),
			COMMIT ", which is written last, is not there");
	if (fsdp_json_get(commit, "common_backend") != NULL &&
		!fsdp_folder_has(folder, COMMON, FSDP_ENTRY_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = FSDP_SPAN(COMMON)),
			COMMIT
			" says that there is a file of values that all ranks share");
	judge_integrity(reading, folder,
		fsdp_json_get(read_document(reading, folder, INTEGRITY), "files"));
}
