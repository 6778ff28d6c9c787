/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which version this is and what is inside it.
 */
#include <fsdp/version.h>

#include "front/command.h"
#include "run/fingerprint.h"
#include "run/sandbox.h"

/* Libraries of the command itself. Those that cannot say at run time which they are were
 * asked when this was built; each has a stable ABI. */
static struct fsdp_library own_library(size_t index)
{
	const struct fsdp_library libraries[] = {
		{ "libcrypto", fingerprint_library_version() },
		{ "pcre2", PCRE2_VERSION },
		{ "popt", POPT_VERSION },
		{ "utf8proc", UTF8PROC_VERSION },
	};

	if (index < sizeof libraries / sizeof *libraries)
		return libraries[index];
	return (struct fsdp_library){ NULL, NULL };
}

static void emit_library(struct out *out, struct fsdp_library library)
{
	out_object_begin(out, NULL);
	out_field(out, "name", value_word(library.name));
	out_field(out, "version", value_word(library.version));
	out_object_end(out);
	out_line(out, library.name, "%s", library.version);
}

static bool run_version(struct run *run, struct fsdp_error **ret_error)
{
	struct text features[2];
	size_t feature_count = 0;
	struct fsdp_library library;

	(void)ret_error;
	if (sandbox_built() & SANDBOX_CALLS)
		features[feature_count++] = text_of("seccomp");
	if (sandbox_built() & SANDBOX_FILES)
		features[feature_count++] = text_of("landlock");
	run_begin(run, STATUS_GOOD);
	out_line(run->out, NULL, "fsdp-inspect %s", fsdp_version());
	out_line(run->out, "features", "%s%s%s",
		feature_count > 0 ? features[0].data : "none",
		feature_count > 1 ? ", " : "", feature_count > 1 ? features[1].data : "");
	out_line(run->out, "locks", "%s", sandbox_text(run->locks));
	out_field(run->out, "version", value_word(fsdp_version()));
	out_field(run->out, "features", value_texts(features, feature_count));
	out_array_begin(run->out, "libraries");
	for (size_t i = 0; (library = fsdp_library(i)).name != NULL; i++)
		emit_library(run->out, library);
	for (size_t i = 0; (library = own_library(i)).name != NULL; i++)
		emit_library(run->out, library);
	out_array_end(run->out);
	return true;
}

const struct command command_version = {
	.name = "version",
	.group = GROUP_ABOUT,
	.summary = "version, features, libraries",
	.synopsis = "",
	.examples = { "version", "version --json" },
	.shapes = SHAPE_FACTS,
	.output = "text",
	.inputs = INPUTS_NONE,
	.run = run_version,
};
