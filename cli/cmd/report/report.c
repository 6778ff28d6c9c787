/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a page about a checkpoint, a recording, or two checkpoints: collects the documents of
 * other commands and fills the template.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/report/report.h"
#include "session/diagnostics.h"
#include "session/session.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum {
	PIECES_MOST = 20000,
	WORDS_MOST = 8,
	LANES_BYTES_MOST = 32 << 20,
	REPLAY_BYTES_MOST = 1 << 20
};

struct report_options {
	struct texts traces; /* --trace */
};

static const struct option_row OPTIONS[] = {
	{ "trace", 0, OPTION_LIST, "FILE", offsetof(struct report_options, traces),
		.help = "a trace of the run, or a directory of them" },
	{ NULL },
};

/* ---- documents ---- */

enum inputs_of { OF_CHECKPOINT, OF_OTHER, OF_BOTH, OF_TRACES };

/* Its key on the page, and the command line that makes it. */
static const struct page_document {
	const char *key, *words[3], *format;
	enum inputs_of inputs;
} documents[REPORT_KEYS] = {
	[REPORT_INFO] = { "info", { "info" }, "json", OF_CHECKPOINT },
	[REPORT_INFO_A] = { "info_a", { "info" }, "json", OF_OTHER },
	[REPORT_AUDIT] = { "audit", { "audit" }, "json", OF_CHECKPOINT },
	[REPORT_AUDIT_A] = { NULL, { "audit" }, "json", OF_OTHER },
	[REPORT_AUDIT_HF] = { NULL, { "audit", "--for=hf" }, "json", OF_CHECKPOINT },
	[REPORT_REPLAY] = { "replay", { "replay" }, "json", OF_TRACES },
	[REPORT_DIFF] = { "diff", { "diff" }, "json", OF_BOTH },
	[REPORT_TREE] = { "tree", { "tree" }, "json", OF_CHECKPOINT },
	[REPORT_LS] = { "ls", { "ls" }, "json", OF_CHECKPOINT },
	[REPORT_LS_A] = { "ls_a", { "ls" }, "json", OF_OTHER },
	[REPORT_PIECES] = { "pieces",
		{ "ls", "-l", "--columns=name,rank,offsets,sizes,file,missing" }, "json",
		OF_CHECKPOINT },
	[REPORT_BY_RANK] = { "by_rank", { "ls", "--by=rank,role" }, "json",
		OF_CHECKPOINT },
	[REPORT_LANES] = { "lanes", { "replay" }, "chrome", OF_TRACES },
};

/* A page that is sent to others names no directory above these two. */
static bool shorten(struct text *text, const char *path)
{
	struct text name = report_short(text_of(path));
	size_t size = strlen(path);
	const char *at = text->data, *next;
	struct writer to;

	if (name.data == path || !writer_init(&to, NULL))
		return name.data == path;
	size = (size_t)(name.data - path) + name.size;
	for (; (next = memmem(at, text->size - (size_t)(at - text->data), path, size)) !=
		NULL;
		at = next + size) {
		writer_put(&to, at, (size_t)(next - at));
		writer_put(&to, name.data, name.size);
	}
	writer_put(&to, at, text->size - (size_t)(at - text->data));
	free((char *)(uintptr_t)text->data);
	*text = (struct text){ to.data, to.size };
	return to.error == 0;
}

/* Of a long recording the list of collectives is omitted: a page shows only their number. A line
 * of JSON begins nowhere within a text. */
static void drop_collectives(struct text *text)
{
	static const char first[] = "\n\"collectives\":[", last[] = "],\n\"dumps\":";
	char *from = memmem(text->data, text->size, first, strlen(first)), *to;
	size_t left;

	if (text->size <= REPLAY_BYTES_MOST || from == NULL)
		return;
	from += strlen(first);
	left = text->size - (size_t)(from - text->data);
	to = memmem(from, left, last, strlen(last));
	if (to == NULL)
		return;
	memmove(from, to, left - (size_t)(to - from));
	text->size -= (size_t)(to - from);
}

static bool make_document(struct report *report, enum report_key key)
{
	const struct page_document *document = &documents[key];
	const struct common_options *common = report->run->common;
	bool is_trace = document->inputs == OF_TRACES;
	size_t count = 0, size = 0;
	const char **words = calloc(WORDS_MOST + common->limits.count +
					    report->trace_count + report->path_count,
		sizeof *words);
	struct text *text = &report->texts[key];
	bool good = true;

	if (words == NULL)
		return false;
	words[count++] = "fsdp-inspect";
	for (size_t i = 0; i < COUNT_OF(document->words) && document->words[i] != NULL;
		i++)
		words[count++] = document->words[i];
	words[count++] = "-o";
	words[count++] = document->format;
	for (size_t i = 0; i < common->limits.count; i++) {
		words[count++] = "--limit";
		words[count++] = common->limits.items[i];
	}
	if (common->plan != NULL && document->inputs == OF_CHECKPOINT) {
		words[count++] = "--plan";
		words[count++] = common->plan;
	}
	words[count++] = "--";
	if (document->inputs == OF_OTHER || document->inputs == OF_BOTH)
		words[count++] = report->other;
	for (size_t i = 0;
		document->inputs != OF_OTHER && !is_trace && i < report->path_count; i++)
		words[count++] = report->paths[i];
	for (size_t i = 0; is_trace && i < report->trace_count; i++)
		words[count++] = report->traces[i];
	text->data = run_document(report->run, document->format,
		(char **)(uintptr_t)words, (int)count, &size);
	text->size = size;
	free(words);
	if (key == REPORT_REPLAY && text->data != NULL)
		drop_collectives(text);
	for (size_t i = 0; good && text->data != NULL && i < report->run->path_count; i++)
		good = shorten(text, report->run->paths[i]);
	for (size_t i = 0; good && text->data != NULL && i < report->trace_count; i++)
		good = shorten(text, report->traces[i]);
	return good && text->data != NULL;
}

static bool read_document(
	struct report *report, enum report_key key, struct fsdp_error **ret_error)
{
	if (!make_document(report, key))
		return false;
	if (key >= REPORT_PARSED)
		return true;
	if (!fsdp_document_parse(
		    span_of_text(report->texts[key]), &report->documents[key], ret_error))
		return false;
	report->data[key] =
		fsdp_document_get(fsdp_document_root(report->documents[key]), "data");
	return true;
}

static bool read_documents(struct report *report, const enum report_key *keys,
	size_t count, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < count; i++)
		if (!read_document(report, keys[i], ret_error))
			return false;
	return true;
}
#define READ_DOCUMENTS(report, ret_error, ...)                                        \
	read_documents(report, (const enum report_key[]){ __VA_ARGS__ },              \
		sizeof((enum report_key[]){ __VA_ARGS__ }) / sizeof(enum report_key), \
		ret_error)

/* ---- the page ---- */

/* A block per document, so that the script reads what it needs. */
static bool write_data(const struct report *report, struct writer *to)
{
	struct writer packed;
	bool good = writer_init(&packed, NULL);

	for (size_t i = 0; good && i < REPORT_KEYS; i++) {
		packed.size = 0;
		if (report->texts[i].data == NULL || documents[i].key == NULL)
			continue;
		good = html_data(&packed, report->texts[i]) && packed.error == 0;
		if (good)
			HTML_FILL(to, "data", { "key", text_of(documents[i].key) },
				{ "text", { packed.data, packed.size } });
	}
	writer_done(&packed);
	return good;
}

static bool write_page(const struct report *report)
{
	struct writer data, page;
	bool good = writer_init(&data, NULL);

	good = writer_init(&page, NULL) && good;
	good = good && write_data(report, &data) && data.error == 0 &&
	       report_write(report, (struct text){ data.data, data.size }, &page);
	if (good)
		out_verbatim(report->run->out, (struct text){ page.data, page.size });
	writer_done(&data);
	writer_done(&page);
	return good;
}

/* A path that begins with the short name of an input, as it was typed. */
static struct text restore_path(const struct report *report, struct fsdp_span path)
{
	const struct {
		const char *const *items;
		size_t count;
	} typed[] = { { report->run->paths, report->run->path_count },
		{ report->traces, report->trace_count } };

	for (size_t i = 0; i < COUNT_OF(typed); i++)
		for (size_t k = 0; k < typed[i].count; k++) {
			struct text name = report_short(text_of(typed[i].items[k]));

			if (text_is(text_of_span(path), name))
				return text_of(typed[i].items[k]);
		}
	return text_of_span(path);
}

/* What another command could not read is an error of this one. */
static void report_errors(struct report *report, enum report_key key)
{
	struct collected *collected = report->run->collected;
	struct fsdp_document_value errors =
		fsdp_document_get(fsdp_document_root(report->documents[key]), "errors");

	for (size_t i = 0; i < errors.count; i++) {
		struct fsdp_document_value error = fsdp_document_item(errors, i);
		struct failure *failure = collected_failure(collected, "format");

		if (failure == NULL)
			return;
		failure->path = collected_copy(collected,
			restore_path(report, fsdp_document_get(error, "path").text));
		failure->message = collected_copy(collected,
			text_of_span(fsdp_document_get(error, "message").text));
		failure->hint = collected_copy(
			collected, text_of_span(fsdp_document_get(error, "hint").text));
	}
	if (errors.count > 0)
		report->status = report->data[key].kind == FSDP_DOCUMENT_OBJECT
					 ? STATUS_PARTIAL
					 : STATUS_FAILED;
}

static bool read_recordings(struct report *report, struct fsdp_error **ret_error)
{
	if (!READ_DOCUMENTS(report, ret_error, REPORT_REPLAY, REPORT_LANES))
		return false;
	if (report->texts[REPORT_LANES].size > LANES_BYTES_MOST) {
		free((char *)(uintptr_t)report->texts[REPORT_LANES].data);
		report->texts[REPORT_LANES] = (struct text){ 0 };
	}
	report_errors(report, REPORT_REPLAY);
	return true;
}

/* Files of recordings, or a directory of them, which info does not read. */
static bool is_recording(const struct report *report)
{
	static const char command[] = "fsdp-inspect replay ";
	struct fsdp_document_value errors = fsdp_document_get(
		fsdp_document_root(report->documents[REPORT_INFO]), "errors");
	struct text hint = text_of_span(
		fsdp_document_get(fsdp_document_item(errors, 0), "hint").text);

	return fsdp_document_get(report->data[REPORT_INFO], "recordings").count > 0 ||
	       (hint.size > strlen(command) &&
		       memcmp(hint.data, command, strlen(command)) == 0);
}

/* A page is about one checkpoint. False: refuse() was called. */
static bool is_one(struct report *report, enum report_key key, const char *path)
{
	size_t below = fsdp_document_get(report->data[key], "below").count;

	if (below == 0)
		return true;
	report->is_refused = refuse(report->run,
		"give one of them: fsdp-inspect info lists them, latest names the newest",
		"%s contains %zu checkpoints, and a page is about one", path, below);
	return false;
}

/* A good checkpoint of a known architecture, in another format than from_pretrained() reads. */
static bool is_exportable(const struct report *report)
{
	struct fsdp_document_value kind = fsdp_document_get(
					   report->data[REPORT_INFO], "kind"),
				   audit = report->data[REPORT_AUDIT],
				   loader = fsdp_document_item(
					   fsdp_document_get(audit, "loaders"), 0);

	return fsdp_document_get(kind, "looks_like").text.size > 0 &&
	       text_is(text_of_span(fsdp_document_get(audit, "verdict").text),
		       text_of("good")) &&
	       !text_is(text_of_span(fsdp_document_get(loader, "loader").text),
		       text_of("hf"));
}

static bool read_all(struct report *report, struct fsdp_error **ret_error)
{
	struct fsdp_document_value counts;

	if (!read_document(report, REPORT_INFO, ret_error))
		return false;
	if (is_recording(report)) {
		report->traces = report->paths;
		report->trace_count = report->path_count;
		return read_recordings(report, ret_error);
	}
	if (!is_one(report, REPORT_INFO, report->paths[0]))
		return true;
	if (!read_document(report, REPORT_AUDIT, ret_error))
		return false;
	counts = fsdp_document_get(report->data[REPORT_AUDIT], "counts");
	if (report->data[REPORT_INFO].kind != FSDP_DOCUMENT_OBJECT) {
		if (fsdp_document_get(counts, "error").integer == 0)
			report_errors(report, REPORT_INFO);
		return true;
	}
	counts = fsdp_document_get(report->data[REPORT_INFO], "counts");
	if (!READ_DOCUMENTS(report, ret_error, REPORT_TREE, REPORT_LS))
		return false;
	if (fsdp_document_get(counts, "pieces").integer <= PIECES_MOST &&
		!read_document(report, REPORT_PIECES, ret_error))
		return false;
	if (report->other != NULL)
		return read_document(report, REPORT_INFO_A, ret_error) &&
		       (!is_one(report, REPORT_INFO_A, report->other) ||
			       READ_DOCUMENTS(report, ret_error, REPORT_AUDIT_A,
				       REPORT_LS_A, REPORT_DIFF));
	if (is_exportable(report) && !read_document(report, REPORT_AUDIT_HF, ret_error))
		return false;
	if (fsdp_document_get(report->data[REPORT_INFO], "world_size").integer > 1 &&
		!read_document(report, REPORT_BY_RANK, ret_error))
		return false;
	return report->trace_count == 0 || read_recordings(report, ret_error);
}

static bool run_report(struct run *run, struct fsdp_error **ret_error)
{
	const struct report_options *options = run->options;
	struct report report = { .run = run,
		.paths = run->paths,
		.path_count = run->path_count,
		.traces = (const char *const *)options->traces.items,
		.trace_count = options->traces.count };
	bool good;

	if (run->path_count == 2 && run_checkpoints(run) == 2) {
		report.other = report.paths++[0];
		report.path_count = 1;
	}
	good = read_all(&report, ret_error);
	if (good && !report.is_refused)
		run_begin(run, report.status);
	if (good && !report.is_refused && report.status != STATUS_FAILED)
		good = write_page(&report);
	for (size_t i = 0; i < REPORT_PARSED; i++)
		fsdp_document_free(report.documents[i]);
	for (size_t i = 0; i < REPORT_KEYS; i++)
		free((char *)(uintptr_t)report.texts[i].data);
	return good;
}

const struct command command_report = {
	.name = "report",
	.group = GROUP_LOOK,
	.summary = "write one HTML page about a checkpoint or recordings",
	.synopsis = "[--trace=FILE]... [-o html=FILE] CHECKPOINT [CHECKPOINT]",
	.examples = { "report -o html=step-1000.html step-1000/",
		"report --trace=traces/ -o html=run.html step-1000/",
		"report -o html=changes.html step-1000/ step-2000/" },
	.options = OPTIONS,
	.options_size = sizeof(struct report_options),
	.shapes = SHAPE_PAGE,
	.output = "html",
	.inputs = INPUTS_RUNS,
	.run = run_report,
};
