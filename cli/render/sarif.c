/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes findings as SARIF 2.1.0: one run, the worst findings first, all rules in its
 * driver. A check that could not run is a notification, and then the run was not
 * successful.
 */
#include <stdlib.h>
#include <string.h>

#include "render/writer.h"
#include "render/output-functions.h"
#include "render/record.h"

/*
 * What outputs that show findings alone have in common: they take the head, and write
 * all at the end.
 */
struct findings_out {
	struct out base;
	struct writer stream;
	struct out_header header;
	size_t count; /* findings in the sorted list */
};

/* The path by which the user finds a file of an input, in two pieces with a slash
 * between. Without a directory only the file. */
struct place_of_file {
	struct text folder, file;
};

static struct findings_out *findings_out_of(struct out *out)
{
	return (struct findings_out *)out;
}

/* Its pointers stay valid until the end. */
static void findings_out_begin(struct out *out, const struct out_header *header)
{
	findings_out_of(out)->header = *header;
}

/* Pointers to findings, sorted; `count` says how many. The note of what was not evaluated
 * (FI9006 of no file) is omitted: it is about the audit. */
static const struct finding **findings_out_sorted(struct findings_out *findings,
	const struct out_footer *footer, int (*compare)(const void *, const void *))
{
	const struct finding **sorted = memory_new(footer->finding_count, sizeof *sorted);

	for (size_t i = 0; i < footer->finding_count; i++)
		if (footer->findings[i].file.data != NULL ||
			strcmp(footer->findings[i].rule, "FI9006") != 0)
			sorted[findings->count++] = &footer->findings[i];
	qsort(sorted, findings->count, sizeof *sorted, compare);
	return sorted;
}

static bool ends_with(struct text text, struct text end)
{
	return text.size >= end.size &&
	       memcmp(text.data + text.size - end.size, end.data, end.size) == 0 &&
	       (text.size == end.size || text.data[text.size - end.size - 1] == '/');
}

static struct place_of_file findings_out_place(
	const struct findings_out *findings, uint32_t input, struct text file)
{
	struct place_of_file place = { .file = file };

	if (input >= findings->header.input_count)
		return place;
	place.folder = findings->header.inputs[input].path;
	while (place.folder.size > 1 && place.folder.data[place.folder.size - 1] == '/')
		place.folder.size--;
	/* The input is that file, or nothing in it is meant. */
	if (file.data == NULL || file.size == 0 || ends_with(place.folder, file))
		return (struct place_of_file){ .file = place.folder };
	return place;
}

/* Services show fewer, and refuse files with more. */
enum { RESULTS_MOST = 25000 };

static const char *const levels[] = {
	[SEVERITY_NOTE] = "note",
	[SEVERITY_WARNING] = "warning",
	[SEVERITY_ERROR] = "error",
};

/* ---- members ---- */

static void write_text(struct writer *to, struct text text)
{
	write_json_string(to, text.data != NULL ? text.data : "", text.size);
}

static void write_word(struct writer *to, const char *key, const char *word)
{
	writer_char(to, '"');
	writer_text(to, key);
	writer_text(to, "\":");
	write_text(to, text_of(word));
}

/* "key":{"text":"…"} */
static void write_message(struct writer *to, const char *key, struct text text)
{
	writer_char(to, '"');
	writer_text(to, key);
	writer_text(to, "\":{\"text\":");
	write_text(to, text);
	writer_char(to, '}');
}

/* ---- places ---- */

static void write_uri_part(struct writer *to, struct text text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~/";
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < text.size; i++) {
		unsigned char byte = (unsigned char)text.data[i];

		if (byte != '\0' && strchr(plain, byte) != NULL) {
			writer_char(to, (char)byte);
			continue;
		}
		writer_char(to, '%');
		writer_char(to, digits[byte >> 4]);
		writer_char(to, digits[byte & 15]);
	}
}

/* Paths as they were typed are relative to the working directory of the program. */
static void write_artifact(struct writer *to, const struct place_of_file *place)
{
	struct text first = place->folder.data != NULL ? place->folder : place->file;
	bool absolute = first.size > 0 && first.data[0] == '/';

	writer_text(to, "\"artifactLocation\":{\"uri\":\"");
	if (absolute)
		writer_text(to, "file://");
	if (place->folder.data != NULL) {
		write_uri_part(to, place->folder);
		writer_char(to, '/');
	}
	write_uri_part(to, place->file);
	writer_char(to, '"');
	if (!absolute)
		writer_text(to, ",\"uriBaseId\":\"%SRCROOT%\"");
	writer_char(to, '}');
}

/* ---- results ---- */

static void write_result(
	struct findings_out *findings, size_t rules, const struct finding *finding)
{
	struct writer *to = &findings->stream;
	struct place_of_file place =
		findings_out_place(findings, finding->input, finding->file);
	const struct text names[] = { finding->tensor, finding->module, finding->member };

	writer_char(to, '{');
	write_word(to, "ruleId", finding->rule);
	writer_text(to, ",\"ruleIndex\":");
	/* Rules are in order of ids. */
	size_t low = 0, high = rules;
	struct rule_text rule;
	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		findings->header.rule(middle, &rule);
		if (strcmp(rule.id, finding->rule) <= 0)
			low = middle;
		else
			high = middle;
	}
	writer_count(to, low);
	writer_char(to, ',');
	write_word(to, "level", levels[finding->severity]);
	writer_char(to, ',');
	write_message(to, "message", finding->message);
	writer_text(to, ",\"locations\":[{\"physicalLocation\":{");
	write_artifact(to, &place);
	/* Of a member the offsets do not count from the start of the file. */
	if (finding->offset <= INT64_MAX && finding->member.data == NULL) {
		writer_text(to, ",\"region\":{\"byteOffset\":");
		writer_count(to, finding->offset);
		if (finding->length <= INT64_MAX) {
			writer_text(to, ",\"byteLength\":");
			writer_count(to, finding->length);
		}
		writer_char(to, '}');
	}
	writer_char(to, '}');
	static const char *const kinds[] = { "variable", "module", "resource" };
	bool some = false;
	for (size_t i = 0; i < 3; i++) {
		if (names[i].data == NULL)
			continue;
		writer_text(to, some ? "," : ",\"logicalLocations\":[");
		writer_text(to, "{\"fullyQualifiedName\":");
		write_text(to, names[i]);
		writer_char(to, ',');
		write_word(to, "kind", kinds[i]);
		writer_char(to, '}');
		some = true;
	}
	if (some)
		writer_char(to, ']');
	writer_text(to, "}],\"partialFingerprints\":{");
	write_word(to, "fsdpInspect/v1", finding->fingerprint);
	writer_char(to, '}');
	if (finding->rank != UINT32_MAX) {
		writer_text(to, ",\"properties\":{\"rank\":");
		writer_count(to, finding->rank);
		writer_char(to, '}');
	}
	writer_char(to, '}');
}

/* ---- rules ---- */

/* How many there are. */
static size_t write_tool(struct findings_out *findings)
{
	struct writer *to = &findings->stream;
	struct rule_text rule;
	size_t count = 0;

	writer_text(to, "\"tool\":{\"driver\":{");
	write_word(to, "name", "fsdp-inspect");
	writer_char(to, ',');
	write_word(to, "semanticVersion", findings->header.version);
	writer_text(to, ",\n\"rules\":[");
	while (findings->header.rule != NULL && findings->header.rule(count, &rule)) {
		writer_text(to, count++ > 0 ? ",\n" : "\n");
		writer_char(to, '{');
		write_word(to, "id", rule.id);
		writer_char(to, ',');
		write_word(to, "name", rule.slug);
		writer_char(to, ',');
		write_message(to, "shortDescription", text_of(rule.title));
		writer_char(to, ',');
		write_message(to, "fullDescription", text_of(rule.cause));
		writer_char(to, ',');
		write_message(to, "help", text_of(rule.fix));
		writer_text(to, ",\"defaultConfiguration\":{");
		write_word(to, "level", levels[rule.severity]);
		writer_text(to, "},\"properties\":{\"tags\":[");
		write_text(to, text_of(rule.category));
		writer_text(to, rule.security != NULL ? ",\"security\"]" : "]");
		if (rule.security != NULL) {
			writer_char(to, ',');
			write_word(to, "security-severity", rule.security);
		}
		writer_text(to, "}}");
	}
	writer_text(to, "]}}");
	return count;
}

/* ---- notifications ---- */

static void write_skipped(struct writer *to, uint64_t count, const char *why)
{
	writer_text(to, "{\"level\":\"note\",\"message\":{\"text\":\"");
	writer_count(to, count);
	writer_text(to, why);
	writer_text(to, "\"}}");
}

static uint64_t omitted(const struct out_footer *footer)
{
	uint64_t count = 0;

	for (size_t i = 0; i < footer->omission_count; i++)
		count += footer->omissions[i].count;
	return count;
}

static void write_invocation(struct writer *to, const struct provenance *provenance,
	const struct out_footer *footer)
{
	const char *comma = "\n";

	writer_text(to, ",\n\"invocations\":[{\"executionSuccessful\":");
	writer_text(to, footer->failure_count == 0 ? "true" : "false");
	if (provenance != NULL) {
		writer_text(to, ",\"arguments\":[");
		for (size_t i = 0; i < provenance->argument_count; i++) {
			writer_text(to, i > 0 ? "," : "");
			write_text(to, provenance->arguments[i]);
		}
		writer_text(to, "],\"machine\":");
		write_text(to, provenance->host);
		writer_text(to, ",\"startTimeUtc\":");
		write_text(to, provenance->started);
	}
	writer_text(to, ",\"exitCode\":");
	writer_integer(to, footer->status);
	writer_text(to, ",\"toolExecutionNotifications\":[");
	for (size_t i = 0; i < footer->failure_count; i++, comma = ",\n") {
		writer_text(to, comma);
		writer_text(to, "{\"level\":\"error\",");
		write_message(to, "message", footer->failures[i].message);
		if (footer->failures[i].rule != NULL) {
			writer_text(to, ",\"descriptor\":{");
			write_word(to, "id", footer->failures[i].rule);
			writer_char(to, '}');
		}
		if (footer->failures[i].path.data != NULL) {
			struct place_of_file place = { .file = footer->failures[i].path };

			writer_text(to, ",\"locations\":[{\"physicalLocation\":{");
			write_artifact(to, &place);
			writer_text(to, "}}]");
		}
		writer_char(to, '}');
	}
	if (footer->finding_count > RESULTS_MOST) {
		writer_text(to, comma);
		write_skipped(to, footer->finding_count - RESULTS_MOST,
			" further findings are not shown here: the worst come first");
		comma = ",\n";
	}
	if (omitted(footer) > 0) {
		writer_text(to, comma);
		write_skipped(to, omitted(footer),
			" further findings were only counted: the limit is findings");
	}
	writer_text(to, "]}]");
}

/* ---- the document ---- */

static void end(struct out *out, const struct out_footer *footer)
{
	struct findings_out *findings = findings_out_of(out);
	struct writer *to = &findings->stream;

	writer_text(to,
		"{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{");
	size_t rules = write_tool(findings);
	write_invocation(to, findings->header.provenance, footer);
	writer_text(to, ",\"columnKind\":\"unicodeCodePoints\"");
	const struct finding **sorted =
		findings_out_sorted(findings, footer, compare_findings);
	size_t count = findings->count < RESULTS_MOST ? findings->count : RESULTS_MOST;

	writer_text(&findings->stream, ",\n\"results\":[");
	for (size_t i = 0; i < count; i++) {
		writer_text(&findings->stream, i > 0 ? ",\n" : "\n");
		write_result(findings, rules, sorted[i]);
	}
	writer_char(&findings->stream, ']');
	writer_text(to, "}]}\n");
	writer_flush(to);
}

static void start(struct out *out, FILE *stream, const struct looks *looks)
{
	(void)stream;
	findings_out_of(out)->stream.ascii = looks->seven_bits;
}

const struct out_functions sarif_functions = {
	.size = sizeof(struct findings_out),
	.writers = { offsetof(struct findings_out, stream) },
	.start = start,
	.begin = findings_out_begin,
	.end = end,
};
