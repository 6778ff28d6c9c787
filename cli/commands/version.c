/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the version and the libraries inside.
 */
#include <fsdp/error.h>

#include "args/parse.h"
#include "render/record.h"
#include "session/diagnostics.h"
#include "session/session-private.h"

static struct value get_version(struct subject of)
{
	(void)of;
	return value_word(fsdp_version());
}

static struct value get_features(struct subject of)
{
	static const struct text names[] = { { "seccomp", 7 }, { "landlock", 8 } };
	size_t calls = (sandbox_built() & SANDBOX_CALLS) != 0,
	       files = (sandbox_built() & SANDBOX_FILES) != 0;

	(void)of;
	return value_texts(&names[1 - calls], calls + files);
}

/* Those of the library, then those of the command. What cannot say at run time which
 * version it is was asked when this was built; each has a stable ABI. */
static const void *each_library(struct subject of, size_t i, void *room)
{
	const struct fsdp_library own[] = {
		{ "libcrypto", fingerprint_library_version() },
		{ "pcre2", PCRE2_VERSION },
		{ "utf8proc", UTF8PROC_VERSION },
	};
	size_t count = fsdp_library_count();
	struct fsdp_library *library = room;

	(void)of;
	if (i >= count + sizeof own / sizeof *own)
		return NULL;
	*library = i < count ? fsdp_library(i) : own[i - count];
	return library;
}

#define LIBRARY struct fsdp_library
static const struct record library_record = OBJECT_RECORD(LIBRARY, NULL, "A library.",
	{ "name", WORD_AT(LIBRARY, name), ALWAYS("Its name.") },
	{ "version", WORD_AT(LIBRARY, version), ALWAYS("Its version.") });

static const struct record version_record = OBJECT_RECORD(struct run, NULL,
	"The program.",
	{ "version", GET(FIELD_WORD, get_version), ALWAYS("Its version.") },
	{ "features", GET(FIELD_TEXTS, get_features), ALWAYS("Features of this build.") },
	{ "libraries", EACH(each_library, library_record),
		ALWAYS("Libraries that it runs with.") });

static void run_version(struct run *run)
{
	const struct subject of = { NULL, run };
	struct value features = get_features(of);
	struct fsdp_library library;

	run_begin(run, STATUS_GOOD);
	out_line(run->out, NULL, "fsdp-inspect %s", fsdp_version());
	out_line_begin(run->out, "features");
	if (features.texts.count == 0)
		out_line_text(run->out, "none");
	out_line_value(run->out, features);
	out_line_end(run->out);
	out_line(run->out, "locks", "%s", sandbox_text(run->locks));
	for (size_t i = 0; each_library(of, i, &library) != NULL; i++)
		out_line(run->out, library.name, "%s", library.version);
	out_fields(run->out, &version_record, of);
}

const struct command command_version = {
	.name = "version",
	.group = GROUP_ABOUT,
	.summary = "print version, features and libraries",
	.synopsis = "",
	.examples = { "version", "version --json" },
	.shapes = SHAPE_FACTS,
	.answer = &version_record,
	.output = "text",
	.inputs = INPUTS_NONE,
	.perform = run_version,
};
