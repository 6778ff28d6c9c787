/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the folder of a DeepSpeed run to the checkpoint that its tag file names, and
 * notes which others there are.
 *
 *	latest             the tag, a folder
 *	latest_universal   the tag of the universal form
 *
 * Origin: deepspeed/runtime/engine.py, checkpoint/ds_to_universal.py (0.19.8).
 */
#include <stdio.h>

#include "base/num.h"
#include "format/deepspeed/deepspeed-reading.h"

enum { TAG_BYTES = 256 };

/* Tags that DeepSpeed, Lightning and Accelerate choose. */
static const char *const tags[] = { "global_step#", "checkpoint", "pytorch_model",
	"pytorch_model_#" };

static bool names_a_tag(const struct fsdp_folder *folder)
{
	for (size_t i = 0; i < FSDP_COUNT(tags); i++)
		if (fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, tags[i]))
			return true;
	return false;
}

/* The only folder of a step, whatever points elsewhere. */
static bool find_only_step(const struct fsdp_folder *folder, struct fsdp_entry *ret_entry)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	size_t count = 0;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind != FSDP_ENTRY_DIRECTORY ||
			!fsdp_pattern_takes(entry.name, "global_step#", numbers))
			continue;
		*ret_entry = entry;
		count++;
	}
	return count == 1;
}

bool fsdp_deepspeed_has_tags(const struct fsdp_folder *folder)
{
	struct fsdp_entry only;
	bool scripted = fsdp_folder_has(folder, "zero_to_fp32.py", FSDP_ENTRY_FILE);
	if (fsdp_folder_has(folder, "latest_universal", FSDP_ENTRY_FILE) ||
		(scripted && find_only_step(folder, &only)))
		return true;
	/* Other run folders have a file of this name too. */
	return fsdp_folder_has(folder, "latest", FSDP_ENTRY_FILE) &&
	       (scripted || names_a_tag(folder));
}

/* A file that names the folder of a tag. */
struct pointer {
	const char *name;
	struct fsdp_span tag;
	struct fsdp_entry entry;
	bool is_there, leads;
};

static bool read_pointer(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	const char *name, struct pointer *ret_pointer, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_span tag;
	*ret_pointer = (struct pointer){
		.name = name,
		.is_there = fsdp_folder_has(folder, name, FSDP_ENTRY_FILE),
	};
	if (!ret_pointer->is_there)
		return true;
	if (!fsdp_folder_source(folder, fsdp_span_text(name), &source, ret_error) ||
		!fsdp_source_read_all(&source, 0, fsdp_min(source.size, TAG_BYTES),
			reading->model->arena, &tag, ret_error))
		return false;
	while (tag.size != 0 &&
		(tag.data[tag.size - 1] == '\n' || tag.data[tag.size - 1] == ' '))
		tag.size--;
	ret_pointer->tag = tag;
	ret_pointer->leads = fsdp_folder_find(folder, tag, &ret_pointer->entry);
	return true;
}

/* Which tag is read. One that was converted too is two checkpoints. */
static void note_tag(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	const struct pointer *chosen, const struct pointer *other)
{
	struct fsdp_name_list others = { .count = 0 };
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	struct fsdp_span name = chosen->entry.name, rest = other->entry.name;
	char text[400] = "";
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			fsdp_pattern_takes(entry.name, "global_step#", numbers) &&
			!fsdp_span_equal(entry.name, name) &&
			!(other->leads && fsdp_span_equal(entry.name, rest)))
			fsdp_name_list_add(&others, entry.name);
	}
	if (other->leads && !fsdp_span_equal(name, rest))
		snprintf(text, sizeof text, "; %s names a checkpoint of its own: %.*s",
			other->name, FSDP_TEXT_MOST(rest, 255));
	fsdp_reading_note(reading, "opened %.*s, as %s says%s%s%s%s", FSDP_TEXT(name),
		chosen->name, others.count != 0 ? " (also there: " : "",
		fsdp_name_list_text(&others), others.count != 0 ? ")" : "", text);
}

/* That a file names a tag which is not there, and what was opened: less bad if another
 * file names that. */
static void say_dangling(struct fsdp_reading *reading, const struct pointer *pointer,
	struct fsdp_span opened, enum fsdp_severity severity)
{
	char next[200];
	snprintf(next, sizeof next,
		"copy what it names; if the one that was read is meant, write this into it: %.*s",
		FSDP_TEXT_MOST(opened, 64));
	fsdp_find(&reading->model->findings, FSDP_RULE_TRACKER_STALE,
		FSDP_PLACE(.file = fsdp_span_text(pointer->name), .next = next,
			.severity = (int)severity + 1),
		"the file names %.*s, which is not there; %.*s was read",
		FSDP_TEXT(pointer->tag), FSDP_TEXT_MOST(opened, 64));
}

/* That none names a tag, without which DeepSpeed loads nothing. */
static void say_absent(struct fsdp_reading *reading, struct fsdp_span opened)
{
	fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
		FSDP_PLACE(.file = FSDP_SPAN("latest"), .severity = FSDP_WARNING + 1,
			.next = "copy it, or name the tag when loading"),
		"the file that names the tag is not there, and DeepSpeed loads nothing without it; %.*s was read",
		FSDP_TEXT_MOST(opened, 64));
}

static bool enter_tag(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	const struct pointer *chosen, const struct pointer *other,
	struct fsdp_error **ret_error)
{
	struct fsdp_span name = chosen->entry.name;
	note_tag(reading, folder, chosen, other);
	if (other->is_there && !other->leads)
		say_dangling(reading, other, name, FSDP_WARNING);
	return fsdp_reading_add_child(reading, name, FSDP_NONE, ret_error) != NULL;
}

bool fsdp_deepspeed_enter_tag(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, struct fsdp_error **ret_error)
{
	struct pointer latest, universal;
	struct fsdp_entry entry;
	if (!read_pointer(reading, folder, "latest", &latest, ret_error) ||
		!read_pointer(reading, folder, "latest_universal", &universal, ret_error))
		return false;
	if (latest.leads)
		return enter_tag(reading, folder, &latest, &universal, ret_error);
	if (universal.leads)
		return enter_tag(reading, folder, &universal, &latest, ret_error);
	const struct pointer *pointer = latest.is_there ? &latest : &universal;
	if (find_only_step(folder, &entry)) {
		if (pointer->is_there)
			say_dangling(reading, pointer, entry.name, FSDP_ERROR);
		else
			say_absent(reading, entry.name);
		return fsdp_reading_add_child(
			       reading, entry.name, FSDP_NONE, ret_error) != NULL;
	}
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1011", FSDP_UNKNOWN,
		"%s names %.*s, which is not there", pointer->name,
		FSDP_TEXT(pointer->tag));
}
