/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a page about a checkpoint, a recording, or two checkpoints: collects the
 * documents of other commands and fills the template.
 */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fsdp/document.h>

#include "args/parse.h"
#include "render/out.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* The documents of other commands that a page is made of. */
enum report_key {
	REPORT_INFO,
	REPORT_INFO_A,
	REPORT_AUDIT,
	REPORT_AUDIT_A,
	REPORT_AUDIT_HF, /* what an export would be loaded by */
	REPORT_REPLAY,
	REPORT_DIFF,
	REPORT_PARSED, /* those above are parsed, too */
	REPORT_TREE = REPORT_PARSED,
	REPORT_LS,
	REPORT_LS_A,
	REPORT_PIECES,
	REPORT_BY_RANK,
	REPORT_LANES,
	REPORT_KEYS
};

struct report {
	struct run *run;
	const char *const *paths; /* of the checkpoint; of two the second */
	size_t path_count;
	const char *other;         /* of two checkpoints the first, or NULL */
	const char *const *traces; /* recordings */
	size_t trace_count;
	int status;
	char here[PATH_MAX];            /* what "." is called */
	struct text texts[REPORT_KEYS]; /* absent: it was not made */
	struct fsdp_document *documents[REPORT_PARSED];
	struct fsdp_document_value data[REPORT_PARSED]; /* its `data` */
};

/* ---- page without a script: the words are here, the markup is in
 * data/report-blocks.html ---- */

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { ITEMS_MOST = 20, NAMES_MOST = 30, VALUES_MOST = 200, PAIRS_MOST = 4000 };
enum { PIECES_MOST = 20000, WORDS_MOST = 8 };
enum { LANES_BYTES_MOST = 32 << 20, REPLAY_BYTES_MOST = 1 << 20 };

typedef struct fsdp_document_value json;

/* What is being written. The writers are for texts that are not complete yet. */
struct page {
	const struct report *report;
	struct writer words, detail, chip, item, content, inner;
};

static struct text text_in(const struct writer *from)
{
	return (struct text){ from->data, from->size };
}

static struct writer *begin(struct writer *to)
{
	to->size = 0;
	return to;
}

/* The last two components of a path: its name on the page. */
static struct text report_short(struct text path)
{
	size_t start;
	unsigned slashes = 0;

	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	for (start = path.size; start > 0; start--) {
		slashes += path.data[start - 1] == '/';
		if (slashes == 2)
			break;
	}
	return (struct text){ path.data + start, path.size - start };
}

static struct text report_name(const struct report *report, const char *path)
{
	struct text name = report_short(text_of(path));

	return text_is(name, text_of(".")) ? report_short(text_of(report->here)) : name;
}

/* ---- fields of documents ---- */

static bool is_text(json of, const char *text)
{
	return of.text.data != NULL && text_is(text_of_span(of.text), text_of(text));
}

static bool is_part(json of, const char *text)
{
	return of.text.data != NULL &&
	       memmem(of.text.data, of.text.size, text, strlen(text)) != NULL;
}

/* Of the stored values the one with this name, or with a name that ends so. */
static json find_value(json info, struct text name, bool is_end)
{
	json values = fsdp_document_get(info, "values");

	for (size_t i = 0; i < values.count; i++) {
		json item = fsdp_document_item(values, i);
		struct fsdp_span own = fsdp_document_get(item, "name").text;

		if (own.size >= name.size && (is_end || own.size == name.size) &&
			memcmp(own.data + own.size - name.size, name.data, name.size) ==
				0)
			return item;
	}
	return (json){ 0 };
}

/* "cost.0.mean_ns": keys of objects and numbers of items; in a list of objects also the
 * `key` of one. "=lr" is a stored value, "~.lr" the first whose name ends so. */
static json find_field(json of, struct text path)
{
	char key[64];

	if (path.size > 0 && (path.data[0] == '=' || path.data[0] == '~'))
		return fsdp_document_get(
			find_value(of, (struct text){ path.data + 1, path.size - 1 },
				path.data[0] == '~'),
			"value");
	for (size_t at = 0, end; at < path.size; at = end + 1) {
		json list = of;

		for (end = at; end < path.size && path.data[end] != '.';)
			end++;
		snprintf(key, sizeof key, "%.*s", (int)(end - at), path.data + at);
		if (list.kind != FSDP_DOCUMENT_LIST)
			of = fsdp_document_get(of, key);
		else if (isdigit((unsigned char)key[0]))
			of = fsdp_document_item(list, strtoul(key, NULL, 10));
		else
			for (size_t i = 0; of = fsdp_document_item(list, i),
				    i < list.count &&
					    !is_text(fsdp_document_get(of, "key"), key);)
				i++;
	}
	return of;
}

static json find(json of, const char *path)
{
	return find_field(of, text_of(path));
}

static struct text text_at(json of, const char *path)
{
	return text_of_span(find(of, path).text);
}

/* 12,345 files */
static void write_count(struct writer *to, int64_t number, struct text noun)
{
	char digits[24];
	int size = snprintf(digits, sizeof digits, "%" PRId64, number);

	for (int i = 0; i < size; i++) {
		if (i > 0 && (size - i) % 3 == 0)
			writer_char(to, ',');
		writer_char(to, digits[i]);
	}
	writer_char(to, ' ');
	writer_put(to, noun.data, noun.size);
	if (number != 1)
		writer_char(to, 's');
}

/* A text, a number, or the items of a list. False: it has nothing to write. */
static bool write_plain(struct writer *to, json at, const char *between)
{
	if (at.kind == FSDP_DOCUMENT_TEXT)
		writer_put(to, (const char *)at.text.data, at.text.size);
	else if (at.kind == FSDP_DOCUMENT_INTEGER)
		writer_integer(to, at.integer);
	else if (at.kind == FSDP_DOCUMENT_REAL)
		writer_number(to, at.real);
	for (size_t i = 0; at.kind == FSDP_DOCUMENT_LIST && i < at.count; i++) {
		writer_text(to, i > 0 ? between : "");
		write_plain(to, fsdp_document_item(at, i), between);
	}
	return at.kind == FSDP_DOCUMENT_INTEGER || at.kind == FSDP_DOCUMENT_REAL ||
	       at.text.size > 0 || (at.kind == FSDP_DOCUMENT_LIST && at.count > 0);
}

static const char *title_of(json word)
{
	static const char *const titles[][2] = { { "LORA", "LoRA" }, { "fsdp1", "FSDP1" },
		{ "fsdp2", "FSDP2" }, { "fsdp1_or_fsdp2", "FSDP" },
		{ "sharded", "SHARDED" }, { "full", "FULL" }, { "local", "LOCAL" } };

	for (size_t i = 0; i < COUNT_OF(titles); i++)
		if (is_text(word, titles[i][0]))
			return titles[i][1];
	return NULL;
}

/* Of "=truncated" the items that are so, of "=dtype" the pairs that differ in that, of
 * "bytes" the sum. */
static int64_t count_items(json list, const char *name)
{
	int64_t count = 0;

	for (size_t i = 0; i < list.count; i++) {
		json item = fsdp_document_item(list, i), what = find(item, "what");

		count += find(item, name).integer;
		for (size_t k = 0; k < what.count; k++)
			count += is_text(fsdp_document_item(what, k), name);
	}
	return count;
}

/* A field in one of its forms. False: it is absent, or a number that is 0. */
static bool write_form(struct writer *to, json of, json at, struct text form)
{
	int64_t number = at.kind == FSDP_DOCUMENT_LIST ? (int64_t)at.count : at.integer;
	double real = at.kind == FSDP_DOCUMENT_REAL ? at.real : (double)at.integer,
	       payload = (double)count_items(find(of, "bytes.by_role"), "bytes"),
	       mean = (double)find(of, "balance.mean_bytes").integer;
	char room[HUMAN_ROOM], line[64], name[32];
	const char *text = line;
	bool is_whole = count_items(find(of, "files"), "missing") +
				count_items(find(of, "files"), "truncated") ==
			0;

	if (form.data[0] == '=') {
		snprintf(name, sizeof name, "%.*s", (int)form.size - 1, form.data + 1);
		number = count_items(at, name);
	} else if (text_is(form, text_of("steps"))) {
		int64_t rank = find(at, "0.rank").integer;

		number = 0;
		for (size_t i = 0; i < at.count; i++)
			number += find(fsdp_document_item(at, i), "rank").integer == rank;
		form = text_of("# step");
	} else if (text_is(form, text_of("stored"))) {
		number = count_items(at, "missing");
		number = number > 0 ? (int64_t)at.count - number : 0;
	}
	if (text_is(form, text_of("short")) && at.text.size > 0) {
		/* "DCP" of "PyTorch distributed checkpoint (DCP)", "PEFT adapter" of
		 * "PEFT adapter (…)". */
		struct text title = text_of_span(at.text);
		const char *open = memchr(title.data, '(', title.size);
		size_t before = open != NULL ? (size_t)(open - title.data) : 0;

		if (before > 1 && title.size > before + 2 &&
			isupper((unsigned char)open[2]))
			writer_put(to, open + 1, title.size - before - 2);
		else
			writer_put(to, title.data, before > 1 ? before - 1 : title.size);
		return true;
	}
	if (text_is(form, text_of("+")) ||
		(text_is(form, text_of("title")) && title_of(at) == NULL))
		return write_plain(to, at, form.data[0] == '+' ? " + " : ", ");
	if (text_is(form, text_of("title")))
		text = title_of(at);
	else if (text_is(form, text_of("present")) && at.kind == FSDP_DOCUMENT_OBJECT)
		text = "present";
	else if (text_is(form, text_of("stop")) && at.text.size > 0)
		text = ". ";
	else if (text_is(form, text_of("percent")) &&
		 (at.kind == FSDP_DOCUMENT_REAL || at.kind == FSDP_DOCUMENT_INTEGER))
		snprintf(line, sizeof line, "%.0f %%", real);
	else if (number == 0 ||
		 (number == 1 && (text_is(form, text_of("ranks")) ||
					 text_is(form, text_of("others")))))
		return false;
	else if (text_is(form, text_of("others")))
		snprintf(line, sizeof line, "%" PRId64, number - 1);
	else if (text_is(form, text_of("bytes")) ||
		 (text_is(form, text_of("rest")) && is_whole &&
			 number > find(of, "bytes.on_disk").integer / 100))
		text = human_bytes((uint64_t)number, HUMAN_BINARY, room);
	else if (text_is(form, text_of("elements")))
		text = human_elements((uint64_t)number, room);
	else if (text_is(form, text_of("ms")))
		snprintf(line, sizeof line, "%.2f ms", real / 1e6);
	else if (text_is(form, text_of("items")) || text_is(form, text_of("stored")) ||
		 form.data[0] == '=')
		snprintf(line, sizeof line, "%" PRId64, number);
	else if (text_is(form, text_of("share")) && payload > 0)
		snprintf(line, sizeof line, "%.0f %%", 100 * real / payload);
	else if (text_is(form, text_of("even")) || text_is(form, text_of("none")))
		text = form.data[0] == 'e' ? "even" : "none";
	else if (text_is(form, text_of("nearly")) && real <= 1.0005 * mean &&
		 find(of, "balance.even").integer == 0)
		text = "nearly even";
	else if (text_is(form, text_of("above")) && real > 1.0005 * mean && mean > 0)
		snprintf(line, sizeof line, "%.1f %%", 100 * (real / mean - 1));
	else if (text_is(form, text_of("ranks")) || form.data[0] == '#') {
		write_count(to, number,
			form.data[0] == '#'
				? (struct text){ form.data + 2, form.size - 2 }
				: text_of("rank"));
		text = "";
	} else
		return false;
	writer_text(to, text);
	return true;
}

/* Writes a pattern: {path} is a field as it is, {path:form} in one of the forms above.
 * What is in [] is skipped if one of its fields cannot be written; [a|b] then is b. */
static bool write_words(struct writer *to, json of, const char *pattern, size_t size)
{
	const char *end = pattern + size;
	bool good = true;

	while (pattern < end) {
		const char *close = *pattern == '[' || *pattern == '{'
					    ? strchr(pattern, *pattern == '[' ? ']' : '}')
					    : pattern;
		size_t inner = (size_t)(close - pattern - 1), before = to->size;
		const char *part = memchr(pattern, *pattern == '[' ? '|' : ':',
			close > pattern ? inner : 0);
		size_t first = part != NULL ? (size_t)(part - pattern - 1) : inner;

		if (close == pattern) {
			writer_char(to, *pattern);
		} else if (*pattern == '{') {
			json at = find_field(of, (struct text){ pattern + 1, first });
			good &= part == NULL ? write_plain(to, at, ", ")
					     : write_form(to, of, at,
						       (struct text){ part + 1,
							       inner - first - 1 });
		} else if (!write_words(to, of, pattern + 1, first)) {
			to->size = before;
			if (part != NULL &&
				!write_words(to, of, part + 1, inner - first - 1))
				to->size = before;
		}
		pattern = close + 1;
	}
	return good;
}

static void write_html_text(struct writer *to, json of, const char *pattern)
{
	write_words(to, of, pattern, strlen(pattern));
}

/* Of two checkpoints those that both have and that differ. Without a page they are only
 * counted. */
static size_t write_value_rows(
	const struct report *report, struct page *page, struct writer *to)
{
	json values = find(report->data[REPORT_INFO], "values"),
	     before = report->data[REPORT_INFO_A];
	bool is_pair = report->other != NULL;
	size_t count = 0;

	if (is_pair && values.count > PAIRS_MOST)
		return 0;
	for (size_t i = 0; i < values.count; i++) {
		json item = fsdp_document_item(values, i);
		struct text name = text_at(item, "name"), text = text_at(item, "text"),
			    old = is_pair ? text_at(find_value(before, name, false),
						    "text")
					  : (struct text){ 0 };

		if ((is_pair && (old.data == NULL || text_is(old, text))) ||
			count++ >= VALUES_MOST || page == NULL)
			continue;
		writer_put(begin(&page->words), old.data, old.size);
		writer_text(&page->words, is_pair ? " → " : "");
		writer_put(&page->words, text.data, text.size);
		HTML_FILL(
			to, "value", { "name", name }, { "text", text_in(&page->words) });
	}
	return count;
}

/* ---- the head ---- */

static const struct page_verdict {
	const char *word, *badge, *icon, *color;
} verdicts[] = { { "partial", "PARTIAL", "!", "8a5200" },
	{ "good", "GOOD", "✓", "0a6b4d" }, { "bad", "BAD", "✕", "b3241c" },
	{ "equal", "EQUAL", "✓", "0a6b4d" }, { "different", "DIFFERENT", "!", "8a5200" },
	{ "recording", "RECORDING", "●", "475a6e" } };

static const struct page_verdict *verdict_of(const struct report *report)
{
	json verdict = find(report->data[REPORT_AUDIT], "verdict"),
	     diff = report->data[REPORT_DIFF];
	size_t changes = find(diff, "only_a").count + find(diff, "only_b").count +
			 find(diff, "renamed").count + find(diff, "changed").count;

	if (diff.kind == FSDP_DOCUMENT_OBJECT)
		changes += write_value_rows(report, NULL, NULL);
	return &verdicts[diff.kind == FSDP_DOCUMENT_OBJECT ? (changes > 0 ? 4 : 3)
			 : is_text(verdict, "good")        ? 1
			 : is_text(verdict, "bad")         ? 2
			 : verdict.text.data == NULL       ? 5
							   : 0];
}

static void write_chip(struct writer *to, const char *level, struct text words)
{
	static const char *const icons[][2] = { { "error", "✕" }, { "refuses", "✕" },
		{ "warning", "!" }, { "differs", "!" }, { "loads", "✓" } };
	const char *icon = "i";

	for (size_t i = 0; i < COUNT_OF(icons); i++)
		if (strcmp(icons[i][0], level) == 0)
			icon = icons[i][1];
	HTML_FILL(to, "chip", { "level", text_of(level) }, { "icon", text_of(icon) },
		{ "text", words });
}

/* Of several files of one directory that. */
static struct text name_of(const struct report *report)
{
	struct text path = text_of(report->paths[0]);

	if (report->path_count > 1)
		for (size_t i = path.size; i > 1; i--)
			if (path.data[i - 1] == '/')
				return report_short((struct text){ path.data, i - 1 });
	return report_name(report, report->paths[0]);
}

static void write_title(struct page *page, struct writer *to)
{
	const struct report *report = page->report;
	struct text name = name_of(report), other;

	if (report->other != NULL) {
		other = report_name(report, report->other);
		writer_put(to, other.data, other.size);
		writer_text(to, " → ");
	}
	writer_put(to, name.data, name.size);
}

/* Next to the data of a document. */
static json find_root(const struct report *report, enum report_key key, const char *name)
{
	const struct fsdp_document *document = report->documents[key];

	return document == NULL ? (json){ 0 }
				: fsdp_document_get(fsdp_document_root(document), name);
}

static int compare_names(const void *one, const void *other)
{
	return text_compare(text_of_span(*(const struct fsdp_span *)one),
		text_of_span(*(const struct fsdp_span *)other));
}

/* Affected names that are tensors of the checkpoint, not values, nor tensors that are
 * missing. 0: they are not all listed. */
static int64_t count_affected(const struct report *report, json finding)
{
	json affected = find(finding, "affected"), tensors;
	struct run *run = report->run;
	struct fsdp_document *ls;
	struct fsdp_span *names;
	int64_t count = 0;

	if (report->texts[REPORT_LS].data == NULL ||
		(int64_t)affected.count != find(finding, "affected_count").integer)
		return 0;
	run_must(run, fsdp_document_parse(
			      span_of_text(report->texts[REPORT_LS]), &ls, &run->error));
	run_owns(run, ls, release_document);
	tensors = find(fsdp_document_root(ls), "data.tensors");
	names = run_memory(run, tensors.count, sizeof *names);
	for (size_t i = 0; i < tensors.count; i++)
		names[i] = find(fsdp_document_item(tensors, i), "name").text;
	qsort(names, tensors.count, sizeof *names, compare_names);
	FOR_EACH(i, affected.count, name, fsdp_document_item(affected, i).text)
		count += bsearch(&name, names, tensors.count, sizeof *names,
				 compare_names) != NULL;
	return count;
}

/* The first error, and how much it affects. */
static bool summarize_error(const struct report *report, struct writer *to)
{
	json findings = find_root(report, REPORT_AUDIT, "findings"),
	     info = report->data[REPORT_INFO], finding;
	int64_t count, tensors = find(info, "counts.tensors").integer;
	double payload = (double)find(info, "bytes.payload").integer;
	char share[32];

	for (size_t i = 0; finding = fsdp_document_item(findings, i),
		    finding.kind == FSDP_DOCUMENT_OBJECT;
		i++) {
		double lost = (double)find(finding, "affected_bytes").integer;
		struct text tensor = text_at(finding, "tensor"),
			    message = text_at(finding, "message");
		bool is_named =
			tensor.size > 0 && find(finding, "affected_count").integer <= 1 &&
			memmem(message.data, message.size, tensor.data, tensor.size) ==
				NULL;

		if (!is_text(find(finding, "severity"), "error"))
			continue;
		write_html_text(to, finding,
			is_named ? "[{file}, ]{tensor}: {message}."
				 : "[{file}: ]{message}.");
		if (!is_named && find(finding, "file").text.size == 0)
			to->data[0] = (char)toupper((unsigned char)to->data[0]);
		count = count_affected(report, finding);
		if (is_named && count == 0)
			return true;
		if (count > 0 && tensors > 0) {
			snprintf(share, sizeof share, " %" PRId64 " of ", count);
			writer_text(to, share);
			write_count(to, tensors, text_of("tensor"));
			writer_text(to, count == 1 ? " is affected" : " are affected");
		} else {
			write_html_text(to, finding,
				"[ Affected: {affected.0}][ and {affected_count:others} more]");
		}
		write_html_text(to, finding, "[: {affected_bytes:bytes}]");
		if (lost > 0 && lost <= payload) {
			snprintf(share, sizeof share, ", %.*f %% of the bytes",
				1000 * lost < payload ? 2 : 1, 100 * lost / payload);
			writer_text(to, share);
		}
		if (count > 0 || find(finding, "affected_count").integer > 0)
			writer_char(to, '.');
		return true;
	}
	return false;
}

/* The largest loss of a run, as a sentence. */
static void summarize_run(json cost, struct writer *to)
{
	size_t before = to->size;

	write_html_text(to, cost,
		"[{loss.sentence}|no GPU kernels are recorded: compute and idle time are unknown].");
	if (to->size > before)
		to->data[before] = (char)toupper((unsigned char)to->data[before]);
}

static bool has_runs(const struct report *report)
{
	return find(report->data[REPORT_REPLAY], "cost").count > 1;
}

static void write_summary(struct page *page, struct writer *to)
{
	const struct report *report = page->report;
	json audit = report->data[REPORT_AUDIT];

	if (report->other != NULL)
		write_html_text(to, report->data[REPORT_DIFF],
			"[{changed:# tensor}|0 tensors] changed, [{only_a:items}|0] missing, [{only_b:items}|0] unexpected, [{renamed:items} renamed, ]{same} equal in name, shape and dtype. Contents were not compared.");
	else if (audit.kind != FSDP_DOCUMENT_OBJECT) {
		if (has_runs(report))
			write_html_text(to, report->data[REPORT_REPLAY],
				"{cost:# run} of {ranks:# recording}: each run has its own section.");
		else
			summarize_run(find(report->data[REPORT_REPLAY], "cost.0"), to);
	} else if (summarize_error(report, to))
		return;
	else if (strcmp(verdict_of(report)->word, "good") != 0)
		writer_text(to,
			"Some checks could not run: fsdp-inspect audit --checks lists them.");
	else if (find(audit, "scope.files").integer == 1)
		write_html_text(to, audit,
			"The file is complete: {scope.tensors:# tensor}. Contents were not read.");
	else
		write_html_text(to, audit,
			"All {scope.files:# file} are present and all {scope.tensors:# tensor} are complete. Contents were not read.");
}

static void write_chips(struct page *page, struct writer *to)
{
	static const struct {
		const char *level, *pattern;
		enum report_key key;
	} chips[] = { { "warning", "{changed:items} changed", REPORT_DIFF },
		{ "warning", "{renamed:items} renamed", REPORT_DIFF },
		{ "error", "{only_a:items} missing", REPORT_DIFF },
		{ "note", "{only_b:items} unexpected", REPORT_DIFF },
		{ "error", "{counts.error:# error}", REPORT_AUDIT },
		{ "warning", "{counts.warning:# warning}", REPORT_AUDIT },
		{ "warning", "straggler: rank {cost.0.straggler}", REPORT_REPLAY } };

	const struct report *report = page->report;
	json audit = report->other != NULL ? (json){ 0 } : report->data[REPORT_AUDIT];
	size_t values = report->other != NULL ? write_value_rows(report, NULL, NULL) : 0;

	for (size_t i = 0; i < COUNT_OF(chips); i++) {
		struct writer *words = begin(&page->words);
		json of =
			chips[i].key == REPORT_AUDIT ? audit : report->data[chips[i].key];

		if (chips[i].key == REPORT_REPLAY && audit.count > 0 && to->size == 0)
			HTML_FILL(to, "line",
				{ "text", text_of("no errors, no warnings") });
		if (!(chips[i].key == REPORT_REPLAY && has_runs(report)) &&
			write_words(
				words, of, chips[i].pattern, strlen(chips[i].pattern)))
			write_chip(to, chips[i].level, text_in(words));
	}
	if (values > 0) {
		write_count(begin(&page->words), (int64_t)values, text_of("value"));
		writer_text(&page->words, " changed");
		write_chip(to, "warning", text_in(&page->words));
	}
}

/* ---- cards ---- */

/* A card whose value cannot be written does not exist. */
enum { OF_RUN = REPORT_KEYS };
static const struct card {
	const char *label, *value, *detail;
	unsigned key;   /* or OF_RUN: what a step costs, in each run */
	bool is_before; /* the detail is of the first of two checkpoints */
	bool is_else;   /* only if the card before it does not exist */
} cards[] = {
	{ "Parameters", "{counts.parameters:elements}",
		"[{kind.class}, |{kind.looks_like}-like, ][{kind.layers:# layer}, ]{bytes.by_role.param.tensors:# tensor}",
		REPORT_INFO },
	{ "Dtype", "{kind.dtypes:+}", "{bytes.by_role.param.bytes:bytes}", REPORT_INFO },
	{ "Adapter",
		"{adapter.type:title}[ r {adapter.rank:items}][, alpha {adapter.alpha}]",
		"[{adapter.target_modules}][; base {adapter.base_model}]", REPORT_INFO },
	{ "Step", "{step}", "[lr {~.lr}]", REPORT_INFO },
	{ "Saved by", "{kind.fsdp:title} × {world_size}",
		"[{kind.strategy}, ][{kind.state_dict:title} state dict][, sharded on dim {sharding.0.cuts.0.dim}]",
		REPORT_INFO },
	{ "Saved by", "{world_size:ranks}",
		"[{kind.state_dict:title} state dict, sharded on dim {sharding.0.cuts.0.dim}|{format.title}]",
		REPORT_INFO, .is_else = true },
	{ "Format", "{format.title:short}", "", REPORT_INFO, .is_else = true },
	{ "Optimizer", "[{optimizer.title}|{optimizer:present}]",
		"{optimizer.bytes:bytes}[, {optimizer.bytes:share} of the bytes]",
		REPORT_INFO },
	{ "Optimizer", "{counts.tensors:none}", "no states are stored", REPORT_INFO,
		.is_else = true },
	{ "Per rank", "{per_rank.stored_bytes:bytes}",
		"[{balance.even:even}][rank {balance.rank}: {balance.bytes:above} above the mean][{balance.bytes:nearly}]",
		REPORT_INFO },
	{ "On disk", "{bytes.on_disk:bytes}",
		"[{files:stored} of ]{counts.files:# file}[, {files:=truncated} truncated][, {bytes.unaccounted:bytes} unreferenced|, no unreferenced bytes][, {bytes.records:rest} headers and metadata]",
		REPORT_INFO },
	{ "Equal", "{same}", "in name, shape and dtype", REPORT_DIFF },
	{ "Changed", "{changed:items}",
		"[{changed:=dtype} with another dtype. ][{changed:=shape} with another shape. ][{changed:=role} with another role.]",
		REPORT_DIFF },
	{ "Renamed", "{renamed:items}", "{renamed.0.b}[ and {renamed:others} more]",
		REPORT_DIFF },
	{ "Missing", "{only_a:items}", "{only_a.0}[ and {only_a:others} more]",
		REPORT_DIFF },
	{ "Unexpected", "{only_b:items}", "{only_b.0}[ and {only_b:others} more]",
		REPORT_DIFF },
	{ "Parameters", "{counts.parameters:elements}",
		"before {counts.parameters:elements}", REPORT_INFO, .is_before = true },
	{ "Size", "{bytes.payload:bytes}", "before {bytes.payload:bytes}", REPORT_INFO,
		.is_before = true },
	{ "Ranks", "{world_size:ranks}", "before [{world_size:ranks}|1 rank]",
		REPORT_INFO, .is_before = true },
	{ "Step time", "{mean_ns:ms}", "{min_ns:ms} to {max_ns:ms} over all ranks",
		OF_RUN },
	{ "Compute", "{compute_percent:percent}", "of the steps", OF_RUN },
	{ "Exposed communication", "{exposed_percent:percent}", "of the steps", OF_RUN },
	{ "Idle", "{idle_percent:percent}", "of the steps", OF_RUN },
	{ "Straggler", "rank {straggler}", "[others wait {waiting_percent:percent}]",
		OF_RUN },
	{ "Ranks", "{ranks:items}", "[{ranks.0.backend}, ][{steps:steps}]",
		REPORT_REPLAY },
	{ "Collectives", "{collectives:items}", "[matched by {matching.by}]",
		REPORT_REPLAY },
};

/* False: it has no value. */
static bool write_card(struct page *page, const struct card *card, json of, json before,
	struct writer *to)
{
	struct writer *value = begin(&page->words), *detail = begin(&page->detail);

	if (!write_words(value, of, card->value, strlen(card->value)) || value->size == 0)
		return false;
	write_html_text(detail, card->is_before ? before : of, card->detail);
	HTML_FILL(to, "card", { "label", text_of(card->label) },
		{ "value", text_in(value) }, { "detail", text_in(detail) });
	return true;
}

/* Those of a run, or all others. */
static void write_run_cards(struct page *page, json cost, struct writer *to)
{
	for (size_t i = 0; i < COUNT_OF(cards); i++)
		if (cards[i].key == OF_RUN)
			write_card(page, &cards[i], cost, cost, to);
}

static void write_cards(struct page *page, struct writer *to)
{
	const struct report *report = page->report;
	json replay = report->data[REPORT_REPLAY];
	bool is_made = false;

	if (!has_runs(report))
		write_run_cards(page, find(replay, "cost.0"), to);
	FOR_EACH(i, COUNT_OF(cards), card, &cards[i]) {
		/* Of two checkpoints those of a comparison, of several runs none of both.
		 */
		if (card->key == OF_RUN || (card->is_else && is_made) ||
			(card->key == REPORT_REPLAY && has_runs(report)) ||
			(card->key == REPORT_INFO &&
				card->is_before != (report->other != NULL)))
			continue;
		is_made = write_card(page, card, report->data[card->key],
			report->data[REPORT_INFO_A], to);
	}
}

/* ---- findings ---- */

static bool is_alike(json one, json other)
{
	return text_is(text_at(one, "rule"), text_at(other, "rule")) &&
	       text_is(text_at(one, "fix"), text_at(other, "fix"));
}

/* A list that is closed, under a title. */
static void write_list(struct page *page, size_t left, const char *where)
{
	char more[96];

	if (left > 0) {
		snprintf(more, sizeof more, "%zu more%s", left, where);
		HTML_FILL(&page->item, "item", { "text", text_of(more) });
	}
	HTML_FILL(&page->content, "list", { "title", text_in(&page->detail) },
		{ "items", text_in(&page->item) });
}

/* One finding, and those that have its rule and its fix. */
static void write_finding(
	struct page *page, json findings, size_t first, struct writer *to)
{
	json finding = fsdp_document_item(findings, first),
	     affected = find(finding, "affected"), fix = find(finding, "fix");
	struct writer *content = begin(&page->content), *detail;
	size_t more = 0;
	char level[16];

	begin(&page->item);
	for (size_t i = first + 1; i < findings.count; i++) {
		if (!is_alike(finding, fsdp_document_item(findings, i)))
			continue;
		if (more++ < ITEMS_MOST) {
			struct writer *words = begin(&page->words);

			write_html_text(words, fsdp_document_item(findings, i),
				"[{file}: ]{message}");
			HTML_FILL(&page->item, "item", { "text", text_in(words) });
		}
	}
	detail = begin(&page->detail);
	if (more > 0) {
		writer_text(detail, "and ");
		writer_count(detail, more);
		writer_text(detail, " more of this kind");
		write_list(page, more > ITEMS_MOST ? more - ITEMS_MOST : 0, "");
	}
	begin(&page->item);
	detail = begin(&page->detail);
	for (size_t i = 0; i < affected.count && i < NAMES_MOST; i++)
		HTML_FILL(&page->item, "item", { "class", text_of("mono") },
			{ "text", text_of_span(fsdp_document_item(affected, i).text) });
	write_html_text(detail, finding, "{affected_count:# name} are affected");
	if (affected.count > 1)
		write_list(page,
			affected.count > NAMES_MOST ? affected.count - NAMES_MOST : 0,
			": search the table for “affected”");
	else if (find(finding, "tensor").text.size > 0)
		HTML_FILL(content, "line", { "class", text_of("mono") },
			{ "text", text_at(finding, "tensor") });
	if (fix.text.size > 0)
		HTML_FILL(content, "fix", { "text", text_of_span(fix.text) });
	snprintf(level, sizeof level, "%.*s", (int)find(finding, "severity").text.size,
		(const char *)find(finding, "severity").text.data);
	write_chip(begin(&page->chip), level, text_of(level));
	write_html_text(begin(&page->words), finding, "[{file}: ]{message}");
	write_html_text(begin(&page->detail), finding, "{rule} {slug}");
	HTML_FILL(to, "finding", { "level", text_of(level) },
		{ "chip", text_in(&page->chip) }, { "message", text_in(&page->words) },
		{ "content", text_in(content) }, { "rule", text_in(&page->detail) });
}

static size_t write_level(
	struct page *page, json findings, const char *level, struct writer *to)
{
	size_t count = 0;

	for (size_t i = 0; i < findings.count; i++) {
		json finding = fsdp_document_item(findings, i);
		bool is_first = is_text(find(finding, "severity"), level);

		for (size_t k = 0; k < i && is_first; k++)
			is_first = !is_alike(finding, fsdp_document_item(findings, k));
		if (is_first)
			write_finding(page, findings, i, to);
		count += is_first;
	}
	return count;
}

static bool has_section(const struct report *report)
{
	json counts = find(report->data[REPORT_AUDIT], "counts");

	return find(counts, "error").integer + find(counts, "warning").integer > 0;
}

/* ---- sections; `inner` is their content, written before ---- */

/* Those of the audit, and lines that other commands print as notes. */
static void write_notes(struct page *page, struct writer *to)
{
	struct writer *inner = &page->inner;
	static const enum report_key keys[] = { REPORT_INFO, REPORT_REPLAY };
	json findings = find_root(page->report, REPORT_AUDIT, "findings"), lines;
	size_t notes = page->report->other == NULL
			       ? write_level(page, findings, "note", begin(inner))
			       : 0;

	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		lines = find_root(page->report, keys[i], "notes");
		write_chip(begin(&page->chip), "note", text_of("note"));
		for (size_t k = 0; k < lines.count; k++)
			HTML_FILL(inner, "finding", { "level", text_of("note") },
				{ "chip", text_in(&page->chip) },
				{ "message",
					text_of_span(
						fsdp_document_item(lines, k).text) });
		notes += lines.count;
	}
	begin(&page->words);
	if (notes == 0)
		return;
	write_count(&page->words, (int64_t)notes, text_of("note"));
	HTML_FILL(to, "details", { "title", text_in(&page->words) },
		{ "content", text_in(inner) });
}

static void write_findings(struct page *page, struct writer *to)
{
	struct writer *inner = &page->inner;
	json findings = find_root(page->report, REPORT_AUDIT, "findings");
	struct writer notes;

	begin(inner);
	if (page->report->other != NULL) {
		/* Of two checkpoints only the commands that show them. */
		const struct report *report = page->report;
		const struct {
			const char *path;
			json counts;
		} audits[] = {
			{ report->other, find(report->data[REPORT_AUDIT_A], "counts") },
			{ report->paths[0], find(report->data[REPORT_AUDIT], "counts") }
		};

		FOR_EACH(i, COUNT_OF(audits), name, report_name(report, audits[i].path)) {
			write_html_text(begin(&page->words), audits[i].counts,
				"[{error:# error}: ][{warning:# warning}: ]");
			writer_text(begin(&page->detail), "fsdp-inspect audit ");
			writer_put(&page->detail, name.data, name.size);
			if (page->words.size > 0)
				HTML_FILL(inner, "command",
					{ "before", text_in(&page->words) },
					{ "command", text_in(&page->detail) });
		}
	} else if (has_section(page->report)) {
		writer_init(&notes, NULL);
		write_notes(page, &notes);
		begin(inner);
		write_level(page, findings, "error", inner);
		write_level(page, findings, "warning", inner);
		writer_put(inner, notes.data, notes.size);
		writer_done(&notes);
	}
	if (inner->size > 0)
		HTML_FILL(to, "section", { "title", text_of("Findings") },
			{ "content", text_in(inner) });
}

/* Of several runs. The script adds its sections below each. */
static void write_runs(struct page *page, struct writer *to)
{
	struct writer *inner = &page->inner;
	json replay = page->report->data[REPORT_REPLAY], costs = find(replay, "cost"),
	     ranks = find(replay, "ranks"),
	     inputs = find_root(page->report, REPORT_REPLAY, "inputs");

	for (size_t i = 0; has_runs(page->report) && i < costs.count; i++) {
		json cost = fsdp_document_item(costs, i), first = { 0 };
		int64_t count = 0;
		char more[32];

		for (size_t k = 0; k < ranks.count; k++) {
			json rank = fsdp_document_item(ranks, k);

			if (find(rank, "run").integer != find(cost, "run").integer)
				continue;
			if (count++ == 0)
				first = fsdp_document_item(
					inputs, (size_t)find(rank, "input").integer);
		}
		write_run_cards(page, cost, begin(inner));
		summarize_run(cost, begin(&page->content));
		write_html_text(begin(&page->detail), cost, "Run {run}");
		write_count(begin(&page->words), count, text_of("rank"));
		write_html_text(&page->words, first, ": {path}");
		snprintf(more, sizeof more, " and %" PRId64 " more", count - 1);
		writer_text(&page->words, count > 1 ? more : "");
		HTML_FILL(to, "run", { "title", text_in(&page->detail) },
			{ "files", text_in(&page->words) },
			{ "summary", text_in(&page->content) },
			{ "cards", text_in(inner) });
	}
}

static void write_loaders(struct page *page, struct writer *to)
{
	struct writer *inner = &page->inner;
	static const char *const words[][2] = { { "not_judged", "not judged" },
		{ "loads", "loads" }, { "differs", "loads with differences" },
		{ "refuses", "refuses" } };
	json loaders = find(page->report->data[REPORT_AUDIT], "loaders");
	struct text name = name_of(page->report);

	begin(inner);
	for (size_t i = 0; page->report->other == NULL && i < loaders.count; i++) {
		json loader = fsdp_document_item(loaders, i),
		     fix = find(loader, "reasons.0.way_out");
		size_t word = 0;

		for (size_t k = 0; k < COUNT_OF(words); k++)
			if (is_text(find(loader, "verdict"), words[k][0]))
				word = k;
		write_chip(begin(&page->chip), words[word][0], text_of(words[word][1]));
		begin(&page->content);
		write_html_text(begin(&page->words), loader,
			"[{reasons.0.way_out}|to compare names and shapes]:");
		write_html_text(begin(&page->detail), loader,
			"fsdp-inspect audit --for={loader} --expect=MODEL ");
		writer_put(&page->detail, name.data, name.size);
		if (word == 0 &&
			(is_part(fix, "--expect") ||
				is_part(find(loader, "reasons.0.message"), "--expect")))
			HTML_FILL(&page->content, "command",
				{ "before", text_in(&page->words) },
				{ "command", text_in(&page->detail) });
		else if (fix.text.size > 0)
			HTML_FILL(&page->content, "fix",
				{ "text", text_of_span(fix.text) });
		write_html_text(begin(&page->words), loader, "{library} {version}");
		HTML_FILL(inner, "loader", { "chip", text_in(&page->chip) },
			{ "name", text_at(loader, "title") },
			{ "version", text_in(&page->words) },
			{ "reason", text_at(loader, "reasons.0.message") },
			{ "fix", text_in(&page->content) });
	}
	/* What reads the checkpoint after an export, if that is all it needs. */
	json loader = find(page->report->data[REPORT_AUDIT_HF], "loaders.0");
	json fix = find(loader, "reasons.0.way_out");
	if (is_part(fix, " export ")) {
		write_chip(begin(&page->chip), "note", text_of("after export"));
		write_html_text(begin(&page->words), loader, "{library} {version}");
		HTML_FILL(inner, "loader", { "chip", text_in(&page->chip) },
			{ "name", text_at(loader, "title") },
			{ "version", text_in(&page->words) },
			{ "reason", text_of_span(fix.text) });
	}
	if (inner->size > 0)
		HTML_FILL(to, "section", { "title", text_of("Loaders") },
			{ "content", text_in(inner) });
}

static void write_values(struct page *page, struct writer *to)
{
	struct writer *inner = &page->inner;
	bool is_pair = page->report->other != NULL;
	size_t count = write_value_rows(page->report, page, begin(inner));

	if (count == 0)
		return;
	HTML_FILL(begin(&page->content), "values", { "values", text_in(inner) });
	begin(&page->words);
	if (count > VALUES_MOST) {
		write_count(&page->words, (int64_t)count - VALUES_MOST,
			text_of("more value"));
		HTML_FILL(&page->content, "command", { "before", text_in(&page->words) },
			{ "command", text_of(is_pair ? "fsdp-inspect diff --values"
						     : "fsdp-inspect ls --values") });
		begin(&page->words);
	}
	write_count(&page->words, (int64_t)count, text_of("value"));
	writer_text(&page->words, is_pair      ? " changed"
				  : count == 1 ? " that is not a tensor"
					       : " that are not tensors");
	if (is_pair)
		HTML_FILL(begin(inner), "line", { "text", text_in(&page->words) });
	else
		HTML_FILL(begin(inner), "details", { "title", text_in(&page->words) },
			{ "content", text_in(&page->content) });
	if (is_pair)
		writer_put(inner, page->content.data, page->content.size);
	HTML_FILL(to, "section", { "title", text_of("Values") },
		{ "content", text_in(inner) });
}

static void write_footer(struct page *page, struct writer *to)
{
	const struct report *report = page->report;
	json checks = find(report->data[REPORT_AUDIT], "checks"),
	     info = fsdp_document_root(report->documents[REPORT_INFO]);
	struct writer *words = begin(&page->words), *command = begin(&page->detail);
	int64_t passed = 0, waiting = 0;

	for (size_t i = 0; i < checks.count; i++) {
		json check = fsdp_document_item(checks, i);
		passed += is_text(find(check, "status"), "passed");
		waiting += is_text(find(check, "reason"), "needs_data") ||
			   is_text(find(check, "reason"), "needs_values");
	}
	if (report->other != NULL) {
		struct text other = report_name(report, report->other);

		writer_text(words, "Contents:");
		writer_text(command, "fsdp-inspect diff --values ");
		writer_put(command, other.data, other.size);
		writer_char(command, ' ');
	} else if (passed > 0) {
		write_count(words, passed, text_of("check"));
		writer_text(words, " passed, ");
		writer_count(words, (uint64_t)waiting);
		writer_text(words, " need the contents:");
		writer_text(command, "fsdp-inspect audit --data ");
	}
	if (words->size > 0) {
		struct text name = name_of(report);

		writer_put(command, name.data, name.size);
		HTML_FILL(to, "command", { "before", text_in(words) },
			{ "command", text_in(command) });
	}
	if (report->trace_count > 0) {
		writer_text(begin(command), "fsdp-inspect replay -o chrome=run.json");
		FOR_EACH(i, report->trace_count, trace,
			report_short(text_of(report->traces[i]))) {
			writer_char(command, ' ');
			writer_put(command, trace.data, trace.size);
		}
		HTML_FILL(to, "command", { "before", text_of("Kernels, for Perfetto:") },
			{ "command", text_in(command) });
	}
	if (!has_section(report) && report->other == NULL)
		write_notes(page, to);
	write_html_text(begin(words), info,
		"[{data.format.title}][, torch {data.format.torch_guess}][{data.format.title:stop}]Written by fsdp-inspect {tool.version}; this page loads nothing from the network.");
	HTML_FILL(to, "line", { "text", text_in(words) });
}

static const struct {
	const char *field;
	void (*write)(struct page *page, struct writer *to);
} parts[] = { { "title", write_title }, { "summary", write_summary },
	{ "chips", write_chips }, { "cards", write_cards },
	{ "findings", write_findings }, { "runs", write_runs },
	{ "loaders", write_loaders }, { "values", write_values },
	{ "footer", write_footer } };

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
	[REPORT_INFO_A] = { NULL, { "info" }, "json", OF_OTHER },
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
static void shorten(struct text *text, const char *path)
{
	struct text name = report_short(text_of(path));
	size_t size = strlen(path);
	const char *at = text->data, *next;
	struct writer to;

	if (name.data == path)
		return;
	writer_init(&to, NULL);
	size = (size_t)(name.data - path) + name.size;
	for (; (next = memmem(at, text->size - (size_t)(at - text->data), path, size)) !=
		NULL;
		at = next + size) {
		writer_put(&to, at, (size_t)(next - at));
		writer_put(&to, name.data, name.size);
	}
	writer_put(&to, at, text->size - (size_t)(at - text->data));
	memory_free((char *)(uintptr_t)text->data);
	*text = (struct text){ to.data, to.size };
}

static void make_document(struct report *report, enum report_key key)
{
	const struct page_document *document = &documents[key];
	struct run *run = report->run;
	const struct common_options *common = run->common;
	bool is_trace = document->inputs == OF_TRACES;
	size_t count = 0;
	const char **words = run_memory(run,
		WORDS_MOST + common->limits.count + report->trace_count +
			report->path_count,
		sizeof *words);
	struct text *text = &report->texts[key];

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
	*text = run_document(
		run, document->format, (char **)(uintptr_t)words, (int)count);
	if (key == REPORT_REPLAY) {
		/* Of a long recording the list of collectives is omitted: a page shows
		 * only their number. A line of JSON begins nowhere within a text. */
		static const char first[] = "\n\"collectives\":[",
				  last[] = "],\n\"dumps\":";
		char *from = memmem(text->data, text->size, first, strlen(first)), *to;
		size_t left = from == NULL ? 0 : text->size - (size_t)(from - text->data);

		to = from == NULL ? NULL : memmem(from, left, last, strlen(last));
		if (text->size > REPLAY_BYTES_MOST && to != NULL) {
			from += strlen(first);
			memmove(from, to, text->size - (size_t)(to - text->data));
			text->size -= (size_t)(to - from);
		}
	}
	for (size_t i = 0; i < run->path_count; i++)
		shorten(text, run->paths[i]);
	for (size_t i = 0; i < report->trace_count; i++)
		shorten(text, report->traces[i]);
}

static void read_document(struct report *report, enum report_key key)
{
	struct run *run = report->run;

	make_document(report, key);
	if (key >= REPORT_PARSED)
		return;
	run_must(run, fsdp_document_parse(span_of_text(report->texts[key]),
			      &report->documents[key], &run->error));
	report->data[key] = find_root(report, key, "data");
}

/* A block per document, so that the script reads what it needs. */
static void write_data(struct page *page, struct writer *to)
{
	const struct text *texts = page->report->texts;

	for (size_t i = 0; i < REPORT_KEYS; i++) {
		if (texts[i].data == NULL || documents[i].key == NULL)
			continue;
		html_data(begin(&page->inner), texts[i]);
		HTML_FILL(to, "data", { "key", text_of(documents[i].key) },
			{ "text", text_in(&page->inner) });
	}
}

static void write_page(const struct report *report)
{
	const struct page_verdict *verdict = verdict_of(report);
	struct page page = { .report = report };
	struct writer texts[COUNT_OF(parts)] = { 0 }, to = { 0 }, data = { 0 };
	struct writer *const own[] = { &page.words, &page.detail, &page.chip, &page.item,
		&page.content, &page.inner, &to, &data };
	struct html_field fields[COUNT_OF(parts) + 6] = {
		{ "verdict", text_of(verdict->word) },
		{ "color", text_of(verdict->color) }, { "icon", text_of(verdict->icon) },
		{ "badge", text_of(verdict->badge) }
	};

	for (size_t i = 0; i < COUNT_OF(own); i++)
		writer_init(own[i], NULL);
	write_data(&page, &data);
	fields[4] = (struct html_field){ "data", text_in(&data) };
	for (size_t i = 0; i < COUNT_OF(parts); i++) {
		writer_init(&texts[i], NULL);
		parts[i].write(&page, &texts[i]);
		fields[5 + i] = (struct html_field){ parts[i].field, text_in(&texts[i]) };
	}
	html_fill(&to, "page", fields);
	out_verbatim(report->run->out, text_in(&to));
}

/* A path that begins with the short name of an input, as it was typed. */
static struct text restore_path(const struct report *report, struct fsdp_span path)
{
	size_t count = report->run->path_count;

	for (size_t i = 0; i < count + report->trace_count; i++) {
		const char *typed =
			i < count ? report->run->paths[i] : report->traces[i - count];

		if (text_is(text_of_span(path), report_short(text_of(typed))))
			return text_of(typed);
	}
	return text_of_span(path);
}

/* A file that another command could not read is an error here. */
static void report_errors(struct report *report, enum report_key key)
{
	struct collected *collected = report->run->collected;
	json errors = find_root(report, key, "errors");

	for (size_t i = 0; i < errors.count; i++) {
		json error = fsdp_document_item(errors, i);
		struct failure *failure = collected_failure(collected, "format");

		failure->path = text_copy(restore_path(report, find(error, "path").text));
		failure->message = text_copy(text_at(error, "message"));
		failure->hint = text_copy(text_at(error, "hint"));
	}
	if (errors.count > 0)
		report->status = report->data[key].kind == FSDP_DOCUMENT_OBJECT
					 ? STATUS_PARTIAL
					 : STATUS_FAILED;
}

static void read_recordings(struct report *report)
{
	read_document(report, REPORT_REPLAY);
	read_document(report, REPORT_LANES);
	if (report->texts[REPORT_LANES].size > LANES_BYTES_MOST) {
		memory_free((char *)(uintptr_t)report->texts[REPORT_LANES].data);
		report->texts[REPORT_LANES] = (struct text){ 0 };
	}
	report_errors(report, REPORT_REPLAY);
}

/* A page is about one checkpoint. */
static void check_one(const struct report *report, enum report_key key, const char *path)
{
	size_t below = find(report->data[key], "below").count;

	if (below > 0)
		run_refuse(report->run,
			"give one of them: fsdp-inspect info lists them, latest names the newest",
			"%s contains %zu checkpoints, but a report has one", path, below);
}

/* A good checkpoint of a known architecture, in another format than from_pretrained()
 * reads, but with its names: those of Meta and of Megatron are others, and GPT-2 has
 * other shapes. */
static bool is_exportable(const struct report *report)
{
	static const char *const others[] = { ".wq.", ".linear_qkv.", ".c_attn." };
	json audit = report->data[REPORT_AUDIT];

	for (size_t i = 0; i < COUNT_OF(others); i++)
		if (memmem(report->texts[REPORT_LS].data, report->texts[REPORT_LS].size,
			    others[i], strlen(others[i])) != NULL)
			return false;
	return find(report->data[REPORT_INFO], "kind.looks_like").text.size > 0 &&
	       is_text(find(audit, "verdict"), "good") &&
	       !is_text(find(audit, "loaders.0.loader"), "hf");
}

static void read_all(struct report *report)
{
	const json *info = &report->data[REPORT_INFO];

	read_document(report, REPORT_INFO);
	/* Files of recordings, or a directory of them, which info does not read. */
	if (find(*info, "recordings").count > 0 ||
		is_part(find(find_root(report, REPORT_INFO, "errors"), "0.hint"),
			"fsdp-inspect replay ")) {
		report->traces = report->paths;
		report->trace_count = report->path_count;
		read_recordings(report);
		return;
	}
	check_one(report, REPORT_INFO, report->paths[0]);
	read_document(report, REPORT_AUDIT);
	if (info->kind != FSDP_DOCUMENT_OBJECT) {
		if (find(report->data[REPORT_AUDIT], "counts.error").integer == 0)
			report_errors(report, REPORT_INFO);
		return;
	}
	read_document(report, REPORT_TREE);
	read_document(report, REPORT_LS);
	if (find(*info, "counts.pieces").integer <= PIECES_MOST)
		read_document(report, REPORT_PIECES);
	if (report->other != NULL) {
		read_document(report, REPORT_INFO_A);
		check_one(report, REPORT_INFO_A, report->other);
		read_document(report, REPORT_AUDIT_A);
		read_document(report, REPORT_LS_A);
		read_document(report, REPORT_DIFF);
		return;
	}
	if (is_exportable(report))
		read_document(report, REPORT_AUDIT_HF);
	if (find(*info, "world_size").integer > 1)
		read_document(report, REPORT_BY_RANK);
	if (report->trace_count > 0)
		read_recordings(report);
}

static void release_report(void *object)
{
	const struct report *report = object;

	for (size_t i = 0; i < REPORT_PARSED; i++)
		fsdp_document_free(report->documents[i]);
}

static void run_report(struct run *run)
{
	const struct report_options *options = run->options;
	struct report *report = run_memory(run, 1, sizeof *report);

	*report = (struct report){ .run = run,
		.paths = run->paths,
		.path_count = run->path_count,
		.traces = (const char *const *)options->traces.items,
		.trace_count = options->traces.count };
	run_owns(run, report, release_report);
	if (run_checkpoints(run) > 2)
		run_refuse(run, "one checkpoint, or two to compare",
			"report was given %zu checkpoints", run_checkpoints(run));
	for (size_t i = 0; i < run->path_count; i++)
		if (strcmp(run->paths[i], "-") == 0)
			run_refuse(run, "store standard input as a file",
				"report reads its input several times");
	if (getcwd(report->here, sizeof report->here) == NULL)
		report->here[0] = '\0';
	if (run->path_count == 2 && run_checkpoints(run) == 2) {
		report->other = report->paths++[0];
		report->path_count = 1;
	}
	read_all(report);
	run_begin(run, report->status);
	if (report->status != STATUS_FAILED)
		write_page(report);
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
	.perform = run_report,
};
