/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `export` says to people.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/export/export.h"
#include "render/writer.h"
#include "session/session.h"

/* "4 files and an index" */
static void put_files(struct exporting *exporting)
{
	size_t count = exporting->facts.file_count;

	if (exporting->file != NULL || count == 1)
		return;
	out_line_text(exporting->run->out, " in %zu files and an index", count - 1);
}

/* Tensors skipped for one reason; tied tensors that share data are printed elsewhere. */
static void put_left(struct exporting *exporting, enum fsdp_export_why why,
	const char *what, bool *some)
{
	uint64_t count = exporting->facts.left_tensors[why];
	char size[HUMAN_ROOM];

	if (count == 0)
		return;
	out_line_text(exporting->run->out, "%s%" PRIu64 " %s (%s)", *some ? ", " : "",
		count, what,
		out_bytes(exporting->run->out, exporting->facts.left_bytes[why], size));
	*some = true;
}

static void tell_left(struct exporting *exporting)
{
	struct out *out = exporting->run->out;
	size_t values = fsdp_value_count(exporting->run->checkpoint);
	bool some = false;

	if (exporting->facts.left_count ==
			exporting->facts.left_tensors[FSDP_EXPORT_TIED] &&
		values == 0)
		return;
	out_line_begin(out, "skipped");
	put_left(exporting, FSDP_EXPORT_ROLE,
		"tensors that are not parameters or buffers", &some);
	put_left(exporting, FSDP_EXPORT_SELECTED, "not selected", &some);
	put_left(exporting, FSDP_EXPORT_UNSUPPORTED, "that the format cannot store",
		&some);
	put_left(exporting, FSDP_EXPORT_INCOMPLETE, "incomplete", &some);
	put_left(exporting, FSDP_EXPORT_UNMAPPED, "not in the map", &some);
	if (values > 0)
		out_line_text(out, "%s%zu value%s", some ? ", " : "", values,
			values == 1 ? "" : "s");
	out_line_end(out);
}

/* One line per tie, at most a few. */
static void tell_ties(struct exporting *exporting)
{
	enum { SHOWN = 3 };
	struct run *run = exporting->run;
	uint64_t count = exporting->facts.left_tensors[FSDP_EXPORT_TIED], told = 0;

	for (size_t i = 0; i < exporting->facts.left_count && told < SHOWN; i++) {
		struct fsdp_export_left left = fsdp_export_left(exporting->plan, i);
		struct fsdp_tensor tensor;
		if (left.why != FSDP_EXPORT_TIED)
			continue;
		tensor = fsdp_tensor(run->checkpoint, left.source);
		out_line_begin(run->out, told++ == 0 ? "tied" : "");
		out_line_name(run->out,
			tensor_shown_name(run, &exporting->buffers.name, &tensor));
		out_line_text(run->out, " is tied to ");
		out_line_name(run->out,
			text_of_span(
				fsdp_export_tensor(exporting->plan, left.same_as).name));
		out_line_text(run->out, "; stored once");
		out_line_end(run->out);
	}
	if (count > told)
		out_line(run->out, "", "and %" PRIu64 " more", count - told);
}

static void tell_names(struct exporting *exporting)
{
	const struct fsdp_export_facts *facts = &exporting->facts;
	struct out *out = exporting->run->out;

	if (facts->cleaned == 0 && facts->stripped.size == 0)
		return;
	out_line_begin(out, "names");
	if (facts->stripped.size > 0) {
		out_line_text(out, "removed prefix \"");
		out_line_name(out, text_of_span(facts->stripped));
		out_line_text(out, ".\"");
	}
	if (facts->cleaned > 0)
		out_line_text(out, "%s%" PRIu64 " without wrapper segments",
			facts->stripped.size > 0 ? "; " : "", facts->cleaned);
	out_line_end(out);
}

static size_t count_prefixed(const struct exporting *exporting, const char *prefix)
{
	size_t size = strlen(prefix), count = 0;

	for (size_t i = 0; i < exporting->tensor_count; i++) {
		struct fsdp_span name = fsdp_export_tensor(exporting->plan, i).name;
		count += name.size > size && memcmp(name.data, prefix, size) == 0;
	}
	return count;
}

/* Wrappers add these prefixes, and loaders refuse them; but a model may have a module of this name among others. */
static void tell_wrapped(struct exporting *exporting)
{
	static const struct {
		const char *prefix, *what;
		bool alone;
	} wrappers[] = { { "_orig_mod.", "compiled", false },
		{ "module.", "wrapped with DistributedDataParallel", true } };

	for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
		const char *prefix = wrappers[i].prefix;
		size_t count = count_prefixed(exporting, prefix);

		if (count == 0 || (wrappers[i].alone && count < exporting->tensor_count))
			continue;
		out_line(exporting->run->out, "names",
			"%s is the prefix of %zu name%s; a model that is not %s does not load %s: --strip=%.*s removes it",
			prefix, count, count == 1 ? "" : "s", wrappers[i].what,
			count == 1 ? "it" : "them", (int)strlen(prefix) - 1, prefix);
	}
}

/* What was typed and changed nothing is a slip, mostly. */
static void note_idle(struct exporting *exporting)
{
	const struct export_options *options = exporting->options;
	bool strips = strcmp(options->strip, "auto") != 0 &&
		      strcmp(options->strip, "none") != 0;

	if (strips && exporting->facts.stripped.size == 0 &&
		exporting->facts.cleaned == 0)
		run_note(exporting->run, "--strip=%s: no name begins so", options->strip);
	for (size_t i = 0; i < options->renames.count && i < 64; i++)
		if ((exporting->facts.idle_renames >> i & 1) != 0)
			run_note(exporting->run,
				"--rename=%s: no name is so, or begins so",
				options->renames.items[i]);
}

static void tell_companions(struct exporting *exporting)
{
	struct out *out = exporting->run->out;
	bool some = false;

	if (exporting->facts.companions == 0 && exporting->config == NULL)
		return;
	out_line_begin(out, "copied");
	if (exporting->facts.companions == 0)
		out_line_text(out, "nothing: no %s was found (--with-config)",
			exporting->options->adapter || is_adapter(exporting->run)
				? "adapter_config.json"
				: "config.json");
	for (size_t i = 0; fsdp_export_companion_name(i) != NULL; i++) {
		if ((exporting->facts.companions >> i & 1) == 0)
			continue;
		out_line_text(
			out, "%s%s", some ? ", " : "", fsdp_export_companion_name(i));
		some = true;
	}
	out_line_end(out);
}

static void tell_verified(struct exporting *exporting)
{
	struct out *out = exporting->run->out;

	if (exporting->facts.verified)
		out_line(out, "verified", "output read back, no differences");
	else
		out_line(out, "verified", "no: output was not read back");
}

static void tell_refused(struct exporting *exporting)
{
	const char *what = exporting->options->partial && !exporting->unmatched &&
					   exporting->torn != NULL
				   ? "nothing was written: no tensor is complete"
				   : "nothing was written";
	struct run *run = exporting->run;

	if (exporting->to_stdout) {
		run_note(run, "%s", what);
		return;
	}
	out_line(run->out, NULL, "%s", what);
	if (exporting->unmatched || (run->word_count > 0 && exporting->torn == NULL))
		return;
	if (exporting->torn != NULL && !exporting->options->partial)
		out_line(run->out, "next", "add --partial to write the complete tensors");
	out_line_begin(run->out, "next");
	out_line_text(run->out, "fsdp-inspect audit ");
	out_line_shell(run->out, text_of(run->path));
	out_line_end(run->out);
}

/* The source was found bad only while it was read. */
static void tell_damaged(struct exporting *exporting)
{
	struct run *run = exporting->run;

	if (exporting->to_stdout) {
		run_note(run, "drop what was written: it is not whole");
		return;
	}
	out_line(run->out, NULL, "nothing was written");
	out_line_begin(run->out, "next");
	out_line_text(run->out, "fsdp-inspect audit --data ");
	out_line_shell(run->out, text_of(run->path));
	out_line_end(run->out);
}

/* Whether an audit of the output can be compared with the checkpoint: all tensors, with their names and their bytes. */
static bool is_comparable(const struct exporting *exporting)
{
	const struct export_options *options = exporting->options;
	const struct run *run = exporting->run;
	const uint64_t *left = exporting->facts.left_tensors;

	return left[FSDP_EXPORT_UNSUPPORTED] == 0 && left[FSDP_EXPORT_INCOMPLETE] == 0 &&
	       exporting->file == NULL && exporting->named == NULL &&
	       selection_is_all(exporting->selection) && options->cast == NULL &&
	       options->map == NULL && options->renames.count == 0 &&
	       options->prefix == NULL && !options->adapter && !options->base &&
	       strcmp(run->path, "-") != 0 && run->path_count == 1;
}

/* Of copies the first one is written. */
static void tell_copied(struct exporting *exporting)
{
	struct out *out = exporting->run->out;

	if (exporting->copied == 0)
		return;
	out_line_begin(out, "copies");
	out_line_text(out,
		"%" PRIu64
		" tensors are replicated; exported the first copy; compare: fsdp-inspect audit --data ",
		exporting->copied);
	out_line_shell(out, text_of(exporting->run->path));
	out_line_end(out);
}

static void tell_next(struct exporting *exporting)
{
	struct out *out = exporting->run->out;

	if (!is_comparable(exporting))
		return;
	out_line_begin(out, "next");
	out_line_text(out, "fsdp-inspect audit --merged=");
	out_line_shell(out, text_of(exporting->options->out));
	out_line_text(out, " ");
	out_line_shell(out, text_of(exporting->run->path));
	out_line_end(out);
}

/* Standard output holds the tensors then. */
static void tell_on_stderr(struct exporting *exporting)
{
	char size[HUMAN_ROOM];

	run_note(exporting->run,
		"%zu tensor%s, %s written to standard output, not verified",
		exporting->facts.tensor_count,
		exporting->facts.tensor_count == 1 ? "" : "s",
		out_bytes(exporting->run->out, exporting->facts.tensor_bytes, size));
	if (exporting->copied > 0)
		run_note(exporting->run,
			"%" PRIu64 " tensor%s replicated; exported the first copy",
			exporting->copied, exporting->copied == 1 ? " is" : "s are");
}

static void tell_index(struct exporting *exporting)
{
	size_t files = exporting->facts.file_count;

	out_line(exporting->run->out, NULL, "%s: %zu tensor%s in %zu file%s",
		text_of_span(fsdp_export_file(exporting->plan, files - 1).name).data,
		exporting->facts.tensor_count,
		exporting->facts.tensor_count == 1 ? "" : "s", files - 1,
		files - 1 == 1 ? "" : "s");
}

void tell_export(struct exporting *exporting)
{
	struct out *out = exporting->run->out;
	char size[HUMAN_ROOM];

	if (exporting->damaged) {
		tell_damaged(exporting);
		return;
	}
	if (!exporting->written) {
		tell_refused(exporting);
		return;
	}
	if (exporting->options->index_only) {
		tell_index(exporting);
		return;
	}
	note_idle(exporting);
	if (exporting->to_stdout) {
		tell_on_stderr(exporting);
		return;
	}
	out_line_begin(out, NULL);
	out_line_name(out, text_of(exporting->options->out));
	out_line_text(out, ": %zu tensor%s, %s", exporting->facts.tensor_count,
		exporting->facts.tensor_count == 1 ? "" : "s",
		out_bytes(exporting->run->out, exporting->facts.tensor_bytes, size));
	put_files(exporting);
	out_line_end(out);
	tell_left(exporting);
	tell_names(exporting);
	tell_wrapped(exporting);
	tell_ties(exporting);
	tell_companions(exporting);
	if (exporting->options->cast != NULL)
		out_line(out, "cast",
			"to %s; %" PRIu64 " finite number%s became infinite",
			exporting->options->cast, exporting->facts.overflowed,
			exporting->facts.overflowed == 1 ? "" : "s");
	if (exporting->facts.as_unsigned)
		out_line(out, "dtype",
			"NumPy has no %s: unsigned integers of its width were written",
			dtype_name(fsdp_export_tensor(exporting->plan, 0).dtype));
	tell_copied(exporting);
	tell_verified(exporting);
	tell_next(exporting);
}
