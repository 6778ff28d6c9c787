/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what a page says without a script: verdict, summary, cards, findings, loaders, values.
 * All of it is taken from the documents; names and messages are escaped.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/report/report.h"
#include "render/writer.h"
#include "session/session.h"

enum { ITEMS_MOST = 20, NAMES_MOST = 30, VALUES_MOST = 200, DEPTH_MOST = 8 };

typedef struct fsdp_document_value value;

struct text report_short(const char *path)
{
	size_t size = strlen(path), begin;
	unsigned slashes = 0;

	while (size > 1 && path[size - 1] == '/')
		size--;
	for (begin = size; begin > 0; begin--) {
		slashes += path[begin - 1] == '/';
		if (slashes == 2)
			break;
	}
	return (struct text){ path + begin, size - begin };
}

/* "counts.parameters" of a value. */
static value find(value of, const char *path)
{
	char key[64];

	for (size_t used; *path != '\0'; path += used + (path[used] == '.')) {
		used = strcspn(path, ".");
		snprintf(key, sizeof key, "%.*s", (int)used, path);
		of = fsdp_document_get(of, key);
	}
	return of;
}

static bool is_text(value of, const char *text)
{
	return of.text.data != NULL && text_is(text_of_span(of.text), text_of(text));
}

static void put(struct writer *to, value text)
{
	html_text(to, text_of_span(text.text));
}

/* What is made here: digits, and our own words and markup. */
static void say(struct writer *to, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void say(struct writer *to, const char *format, ...)
{
	char line[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	writer_text(to, line);
}

/* 12,345 files */
static void count(struct writer *to, int64_t number, const char *noun)
{
	char digits[24];
	int size = snprintf(digits, sizeof digits, "%" PRId64, number);

	for (int i = 0; i < size; i++) {
		if (i > 0 && (size - i) % 3 == 0)
			writer_char(to, ',');
		writer_char(to, digits[i]);
	}
	say(to, " %s%s", noun, number == 1 ? "" : "s");
}

static const char *bytes(value number, char room[HUMAN_ROOM])
{
	return human_bytes((uint64_t)number.integer, HUMAN_BINARY, room);
}

static void chip(struct writer *to, const char *level, int64_t number, const char *word)
{
	static const char *const icons[][2] = { { "error", "✕" }, { "refuses", "✕" },
		{ "warning", "!" }, { "differs", "!" }, { "loads", "✓" } };
	const char *icon = "i";

	for (size_t i = 0; i < sizeof icons / sizeof *icons; i++)
		if (strcmp(icons[i][0], level) == 0)
			icon = icons[i][1];
	say(to, "<span class=\"chip is-%s\"><span aria-hidden=\"true\">%s</span> ", level,
		icon);
	if (number >= 0)
		count(to, number, word);
	else
		writer_text(to, word);
	writer_text(to, "</span>\n");
}

/* ---- the head ---- */

static const char *verdict_of(const struct report *report)
{
	value verdict = find(report->data[REPORT_AUDIT], "verdict");
	value diff = report->data[REPORT_DIFF];

	if (diff.kind == FSDP_DOCUMENT_OBJECT)
		return find(diff, "only_a").count + find(diff, "only_b").count +
					       find(diff, "renamed").count +
					       find(diff, "changed").count ==
				       0
			       ? "equal"
			       : "different";
	return is_text(verdict, "good")  ? "good"
	       : is_text(verdict, "bad") ? "bad"
	       : verdict.text.data       ? "partial"
					 : "recording";
}

static void put_title(const struct report *report, struct writer *to)
{
	if (report->other != NULL) {
		html_text(to, report_short(report->other));
		writer_text(to, " → ");
	}
	html_text(to, report_short(report->paths[0]));
}

static value findings_of(const struct report *report)
{
	return fsdp_document_get(
		report->documents[REPORT_AUDIT] != NULL
			? fsdp_document_root(report->documents[REPORT_AUDIT])
			: (value){ 0 },
		"findings");
}

static void put_message(struct writer *to, value finding)
{
	value file = find(finding, "file");

	if (file.text.size > 0) {
		put(to, file);
		writer_text(to, ": ");
	}
	put(to, find(finding, "message"));
}

static void summarize_findings(const struct report *report, struct writer *to)
{
	value findings = findings_of(report),
	      scope = find(report->data[REPORT_AUDIT], "scope");
	char room[HUMAN_ROOM];

	for (size_t i = 0; i < findings.count; i++) {
		value finding = fsdp_document_item(findings, i);
		value affected = find(finding, "affected_count"),
		      lost = find(finding, "lost_bytes");

		if (!is_text(find(finding, "severity"), "error"))
			continue;
		put_message(to, finding);
		writer_text(to, ". ");
		if (affected.integer > 0) {
			count(to, affected.integer, "name");
			writer_text(to,
				affected.integer == 1 ? " is affected" : " are affected");
			if (lost.integer > 0)
				say(to, ": %s", bytes(lost, room));
			writer_char(to, '.');
		}
		return;
	}
	if (strcmp(verdict_of(report), "good") != 0) {
		writer_text(to, "Some checks could not run.");
		return;
	}
	writer_text(to, "All ");
	count(to, find(scope, "files").integer, "file");
	writer_text(to, " are present and all ");
	count(to, find(scope, "tensors").integer, "tensor");
	writer_text(to, " are complete. Contents were not read.");
}

static void summarize_changes(value diff, struct writer *to)
{
	count(to, (int64_t)find(diff, "changed").count, "tensor");
	say(to,
		" changed, %zu missing, %zu unexpected, %zu renamed, %" PRId64
		" equal in name, shape and dtype. Contents were not compared.",
		find(diff, "only_a").count, find(diff, "only_b").count,
		find(diff, "renamed").count, find(diff, "same").integer);
}

static void summarize_recording(value replay, struct writer *to)
{
	value cost = fsdp_document_item(find(replay, "cost"), 0),
	      straggler = find(replay, "matching.straggler");

	if (straggler.kind == FSDP_DOCUMENT_INTEGER)
		say(to,
			"The other ranks wait for rank %" PRId64
			" during %.0f %% of the time. Compare its input, clock rate and load.",
			straggler.integer, find(cost, "waiting_percent").real);
	else
		say(to, "Compute takes %.0f %% of the steps, exposed communication %.0f %%, idle %.0f %%.",
			find(cost, "compute_percent").real,
			find(cost, "exposed_percent").real,
			find(cost, "idle_percent").real);
}

static void write_header(const struct report *report, struct writer *to)
{
	static const char *const levels[] = { "error", "warning" };
	const char *verdict = verdict_of(report);
	value diff = report->data[REPORT_DIFF], replay = report->data[REPORT_REPLAY],
	      counts = find(report->data[REPORT_AUDIT], "counts"),
	      straggler = find(replay, "matching.straggler");
	int64_t told = 0;

	say(to, "<div class=\"chips\"><span class=\"badge\"><span aria-hidden=\"true\">%s</span> ",
		strcmp(verdict, "good") == 0 || strcmp(verdict, "equal") == 0 ? "✓"
		: strcmp(verdict, "bad") == 0                                 ? "✕"
		: strcmp(verdict, "recording") == 0                           ? "●"
									      : "!");
	for (const char *c = verdict; *c != '\0'; c++)
		writer_char(to, (char)toupper((unsigned char)*c));
	writer_text(to, "</span>\n");
	for (size_t i = 0; i < 4 && report->other != NULL; i++) {
		static const char *const kinds[][3] = { { "changed", "changed",
								"warning" },
			{ "renamed", "renamed", "warning" },
			{ "only_a", "missing", "error" },
			{ "only_b", "unexpected", "note" } };
		size_t number = find(diff, kinds[i][0]).count;
		char words[64];

		snprintf(words, sizeof words, "%zu %s", number, kinds[i][1]);
		if (number > 0)
			chip(to, kinds[i][2], -1, words);
	}
	for (size_t i = 0; i < 2 && report->other == NULL; i++) {
		int64_t number = find(counts, levels[i]).integer;
		if (number > 0)
			chip(to, levels[i], number, levels[i]);
		told += number;
	}
	if (counts.kind == FSDP_DOCUMENT_OBJECT && report->other == NULL && told == 0)
		writer_text(to, "<span>no errors, no warnings</span>\n");
	if (straggler.kind == FSDP_DOCUMENT_INTEGER)
		say(to,
			"<span class=\"chip is-warning\"><span aria-hidden=\"true\">!</span> straggler: rank %" PRId64
			"</span>\n",
			straggler.integer);
	writer_text(to, "</div>\n<h1>");
	put_title(report, to);
	writer_text(to, "</h1>\n<p class=\"summary\">");
	if (report->other != NULL)
		summarize_changes(diff, to);
	else if (counts.kind == FSDP_DOCUMENT_OBJECT)
		summarize_findings(report, to);
	else
		summarize_recording(replay, to);
	writer_text(to, "</p>");
}

/* ---- cards ---- */

static void open_card(struct writer *to, const char *label)
{
	say(to, "<div><dt>%s</dt><dd>", label);
}

static void close_card(struct writer *to)
{
	writer_text(to, "</dd></div>\n");
}

#define DETAIL "</dd><dd>"

/* The text of a stored value of this name, or of the first that ends so. */
static value value_of(value info, const char *name, bool is_end)
{
	value values = find(info, "values");

	for (size_t i = 0; i < values.count; i++) {
		value item = fsdp_document_item(values, i);
		struct fsdp_span own = find(item, "name").text;
		size_t size = strlen(name);

		if (own.size >= size && (is_end || own.size == size) &&
			memcmp(own.data + own.size - size, name, size) == 0)
			return find(item, "text");
	}
	return (value){ 0 };
}

/* Of the tensors of a role. */
static value role_of(value info, const char *role)
{
	value roles = find(info, "bytes.by_role");

	for (size_t i = 0; i < roles.count; i++)
		if (is_text(find(fsdp_document_item(roles, i), "key"), role))
			return fsdp_document_item(roles, i);
	return (value){ 0 };
}

static void write_model_cards(const struct report *report, struct writer *to)
{
	value info = report->data[REPORT_INFO], kind = find(info, "kind");
	value root = fsdp_document_item(find(report->data[REPORT_ROOT], "modules"), 0);
	value types = find(report->data[REPORT_TYPES], "groups"),
	      class_name = find(root, "class"), layers = find(kind, "layers"),
	      parameters = role_of(info, "param");
	char room[HUMAN_ROOM];
	bool begun = false;

	if (parameters.kind != FSDP_DOCUMENT_OBJECT)
		return;
	open_card(to, "Parameters");
	say(to, "%s" DETAIL,
		human_elements((uint64_t)find(info, "counts.parameters").integer, room));
	if (value_of(info, "config.architecture", false).text.size > 0)
		class_name = value_of(info, "config.architecture", false);
	if (class_name.text.size > 0)
		put(to, class_name);
	else if (find(kind, "looks_like").text.size > 0) {
		put(to, find(kind, "looks_like"));
		writer_text(to, "-like");
	}
	if (class_name.text.size > 0 || find(kind, "looks_like").text.size > 0)
		writer_text(to, ", ");
	if (layers.integer > 0) {
		count(to, layers.integer, "layer");
		writer_text(to, ", ");
	}
	count(to, find(parameters, "tensors").integer, "tensor");
	close_card(to);
	open_card(to, "Dtype");
	for (size_t i = 0; i < types.count; i++) {
		value type = fsdp_document_item(types, i);
		if (!is_text(find(type, "key"), "param"))
			continue;
		writer_text(to, begun ? " + " : "");
		put(to, find(type, "second_key"));
		begun = true;
	}
	say(to, DETAIL "%s", bytes(find(parameters, "bytes"), room));
	close_card(to);
}

static void write_save_cards(value info, struct writer *to)
{
	value lr = value_of(info, ".lr", true), fsdp = find(info, "kind.fsdp"),
	      state_dict = find(info, "kind.state_dict"),
	      world = find(info, "world_size"),
	      cut = fsdp_document_item(
		      find(fsdp_document_item(find(info, "sharding"), 0), "cuts"), 0);

	if (find(info, "step").kind == FSDP_DOCUMENT_INTEGER) {
		open_card(to, "Step");
		say(to, "%" PRId64, find(info, "step").integer);
		if (lr.text.size > 0) {
			writer_text(to, DETAIL "lr ");
			put(to, lr);
		}
		close_card(to);
	}
	if (world.integer > 1 || fsdp.text.size > 0) {
		open_card(to, "Saved by");
		if (is_text(fsdp, "fsdp1") || is_text(fsdp, "fsdp2"))
			say(to, "FSDP%c × %" PRId64, fsdp.text.data[4], world.integer);
		else
			count(to, world.integer, "rank");
		writer_text(to, DETAIL);
		if (state_dict.text.size > 0) {
			put(to, state_dict);
			writer_text(to, " state dict");
		}
		if (cut.kind == FSDP_DOCUMENT_OBJECT)
			say(to, "%ssharded on dim %" PRId64,
				state_dict.text.size > 0 ? ", " : "",
				find(cut, "dim").integer);
		close_card(to);
	}
}

static const char *optimizer_name(value kind)
{
	static const char *const names[][2] = { { "adam_or_adamw", "Adam(W)" },
		{ "adam", "Adam" }, { "adamw", "AdamW" }, { "sgd", "SGD" },
		{ "adafactor", "Adafactor" }, { "lion", "Lion" },
		{ "rmsprop", "RMSprop" }, { "adagrad", "Adagrad" } };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (is_text(kind, names[i][0]))
			return names[i][1];
	return "present";
}

static void write_size_cards(const struct report *report, value info, struct writer *to)
{
	value optimizer = find(info, "optimizer"),
	      per_rank = find(info, "per_rank.stored_bytes"),
	      balance = find(info, "balance"), disk = find(info, "bytes.on_disk"),
	      left = find(info, "bytes.unaccounted"),
	      payload = find(info, "bytes.payload"), world = find(info, "world_size");
	char room[HUMAN_ROOM];
	double mean = (double)find(balance, "mean_bytes").integer;

	if (optimizer.kind == FSDP_DOCUMENT_OBJECT) {
		open_card(to, "Optimizer");
		say(to, "%s" DETAIL "%s", optimizer_name(find(optimizer, "kind")),
			bytes(find(optimizer, "bytes"), room));
		if (payload.integer > 0)
			say(to, ", %.0f %% of the bytes",
				100.0 * (double)find(optimizer, "bytes").integer /
					(double)payload.integer);
		close_card(to);
	}
	if (world.integer > 1 && per_rank.integer > 0) {
		open_card(to, "Per rank");
		say(to, "%s" DETAIL, bytes(per_rank, room));
		if (mean <= 0 || find(balance, "even").integer != 0)
			writer_text(to, "even");
		else
			say(to, "rank %" PRId64 ": %.1f %% above the mean",
				find(balance, "rank").integer,
				100.0 * ((double)find(balance, "bytes").integer / mean -
						1));
		close_card(to);
	}
	if (world.integer <= 1 && find(info, "format.title").text.size > 0) {
		open_card(to, "Format");
		put(to, find(info, "format.title"));
		close_card(to);
	}
	open_card(to, "On disk");
	say(to, "%s" DETAIL, bytes(disk, room));
	count(to, find(info, "counts.files").integer, "file");
	if (strcmp(verdict_of(report), "bad") != 0)
		say(to, ", %s unreferenced",
			left.integer == 0 ? "no bytes are" : bytes(left, room));
	close_card(to);
}

static void write_adapter_card(value info, struct writer *to)
{
	static const char *const parts[][2] = { { " r ", "adapter_config.r" },
		{ ", alpha ", "adapter_config.lora_alpha" },
		{ DETAIL, "adapter_config.target_modules" },
		{ "; base ", "adapter_config.base_model_name_or_path" } };
	value type = value_of(info, "adapter_config.peft_type", false);

	if (type.text.size == 0)
		return;
	open_card(to, "Adapter");
	writer_text(to, is_text(type, "'LORA'") ? "LoRA" : "");
	if (!is_text(type, "'LORA'"))
		put(to, type);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		value text = value_of(info, parts[i][1], false);
		if (text.text.size == 0)
			continue;
		writer_text(to, parts[i][0]);
		put(to, text);
	}
	close_card(to);
}

static void write_time_cards(value replay, struct writer *to)
{
	static const char *const shares[][2] = { { "Compute", "compute_percent" },
		{ "Exposed communication", "exposed_percent" },
		{ "Idle", "idle_percent" } };
	value cost = fsdp_document_item(find(replay, "cost"), 0),
	      ranks = find(replay, "ranks"), by = find(replay, "matching.by");

	if (find(cost, "steps").integer > 0) {
		open_card(to, "Step time");
		say(to, "%.2f ms" DETAIL "%.2f to %.2f ms",
			(double)find(cost, "mean_ns").integer / 1e6,
			(double)find(cost, "min_ns").integer / 1e6,
			(double)find(cost, "max_ns").integer / 1e6);
		close_card(to);
	}
	for (size_t i = 0; i < 3; i++) {
		value number = find(cost, shares[i][1]);
		if (number.kind != FSDP_DOCUMENT_REAL &&
			number.kind != FSDP_DOCUMENT_INTEGER)
			continue;
		open_card(to, shares[i][0]);
		say(to, "%.0f %%",
			number.kind == FSDP_DOCUMENT_REAL ? number.real
							  : (double)number.integer);
		close_card(to);
	}
	open_card(to, "Ranks");
	say(to, "%zu" DETAIL, ranks.count);
	put(to, find(fsdp_document_item(ranks, 0), "backend"));
	close_card(to);
	if (find(replay, "collectives").count > 0) {
		open_card(to, "Collectives");
		say(to, "%zu" DETAIL "%s", find(replay, "collectives").count,
			by.text.size > 0 ? "matched by " : "");
		put(to, by);
		close_card(to);
	}
}

static void write_change_cards(const struct report *report, struct writer *to)
{
	static const char *const lists[][2] = { { "Changed", "changed" },
		{ "Renamed", "renamed" }, { "Missing", "only_a" },
		{ "Unexpected", "only_b" } };
	value diff = report->data[REPORT_DIFF], before = report->data[REPORT_INFO_A],
	      after = report->data[REPORT_INFO];
	char room[HUMAN_ROOM], other[HUMAN_ROOM];

	open_card(to, "Equal");
	say(to, "%" PRId64, find(diff, "same").integer);
	close_card(to);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		value list = find(diff, lists[i][1]), first = fsdp_document_item(list, 0);
		if (list.count == 0)
			continue;
		open_card(to, lists[i][0]);
		say(to, "%zu" DETAIL, list.count);
		put(to, first.text.data != NULL                 ? first
			: find(first, "name").text.data != NULL ? find(first, "name")
								: find(first, "b"));
		close_card(to);
	}
	open_card(to, "Parameters");
	say(to, "%s" DETAIL "before %s",
		human_elements((uint64_t)find(after, "counts.parameters").integer, room),
		human_elements(
			(uint64_t)find(before, "counts.parameters").integer, other));
	close_card(to);
	open_card(to, "Size");
	say(to, "%s" DETAIL "before %s", bytes(find(after, "bytes.payload"), room),
		bytes(find(before, "bytes.payload"), other));
	close_card(to);
}

static void write_cards(const struct report *report, struct writer *to)
{
	value info = report->data[REPORT_INFO], replay = report->data[REPORT_REPLAY];

	writer_text(to, "<dl class=\"cards\">\n");
	if (report->other != NULL)
		write_change_cards(report, to);
	else if (find(info, "counts").kind == FSDP_DOCUMENT_OBJECT) {
		write_model_cards(report, to);
		write_adapter_card(info, to);
		write_save_cards(info, to);
		write_size_cards(report, info, to);
	}
	if (replay.kind == FSDP_DOCUMENT_OBJECT)
		write_time_cards(replay, to);
	writer_text(to, "</dl>");
}

/* ---- findings ---- */

static bool is_alike(value one, value other)
{
	return text_is(text_of_span(find(one, "rule").text),
		       text_of_span(find(other, "rule").text)) &&
	       text_is(text_of_span(find(one, "next").text),
		       text_of_span(find(other, "next").text));
}

static void write_finding(value findings, size_t first, struct writer *to)
{
	value finding = fsdp_document_item(findings, first),
	      affected = find(finding, "affected"), tensor = find(finding, "tensor");
	char level[16];
	size_t more = 0;

	snprintf(level, sizeof level, "%.*s", (int)find(finding, "severity").text.size,
		(const char *)find(finding, "severity").text.data);
	say(to, "<div class=\"finding is-%s\"><p>", level);
	chip(to, level, -1, level);
	writer_text(to, "<b>");
	put_message(to, finding);
	writer_text(to, "</b></p>\n");
	for (size_t i = first + 1; i < findings.count; i++)
		more += is_alike(finding, fsdp_document_item(findings, i));
	if (more > 0) {
		say(to, "<details><summary>and %zu more of this kind</summary><ul>",
			more);
		for (size_t i = first + 1, shown = 0;
			i < findings.count && shown < ITEMS_MOST; i++) {
			if (!is_alike(finding, fsdp_document_item(findings, i)))
				continue;
			writer_text(to, "<li>");
			put_message(to, fsdp_document_item(findings, i));
			writer_text(to, "</li>\n");
			shown++;
		}
		if (more > ITEMS_MOST)
			say(to, "<li>%zu more</li>", more - ITEMS_MOST);
		writer_text(to, "</ul></details>\n");
	}
	if (affected.count > 1) {
		writer_text(to, "<details><summary>");
		count(to, find(finding, "affected_count").integer, "name");
		writer_text(to, " are affected</summary><ul>");
		for (size_t i = 0; i < affected.count && i < NAMES_MOST; i++) {
			writer_text(to, "<li class=\"mono\">");
			put(to, fsdp_document_item(affected, i));
			writer_text(to, "</li>\n");
		}
		if (affected.count > NAMES_MOST)
			writer_text(to, "<li>search the table for “affected”</li>");
		writer_text(to, "</ul></details>\n");
	} else if (tensor.text.size > 0) {
		writer_text(to, "<p class=\"mono\">");
		put(to, tensor);
		writer_text(to, "</p>\n");
	}
	if (find(finding, "next").text.size > 0) {
		writer_text(to, "<p><b>Fix:</b> ");
		put(to, find(finding, "next"));
		writer_text(to, "</p>\n");
	}
	writer_text(to, "<p class=\"rule\">");
	put(to, find(finding, "rule"));
	writer_char(to, ' ');
	put(to, find(finding, "slug"));
	writer_text(to, "</p></div>\n");
}

/* Whether the finding stands for itself: one like it was not written before. */
static bool is_first(value findings, size_t index)
{
	value finding = fsdp_document_item(findings, index);

	for (size_t i = 0; i < index; i++)
		if (is_alike(finding, fsdp_document_item(findings, i)))
			return false;
	return true;
}

static size_t write_level(value findings, const char *level, struct writer *to)
{
	size_t written = 0;

	for (size_t i = 0; i < findings.count; i++) {
		if (!is_text(find(fsdp_document_item(findings, i), "severity"), level) ||
			!is_first(findings, i))
			continue;
		if (to != NULL)
			write_finding(findings, i, to);
		written++;
	}
	return written;
}

static void write_notes(value findings, struct writer *to)
{
	size_t notes = write_level(findings, "note", NULL);

	if (notes == 0)
		return;
	say(to, "<details><summary>%zu note%s</summary>\n", notes, notes == 1 ? "" : "s");
	write_level(findings, "note", to);
	writer_text(to, "</details>\n");
}

static bool has_section(value findings)
{
	return write_level(findings, "error", NULL) +
		       write_level(findings, "warning", NULL) >
	       0;
}

static void write_findings(const struct report *report, struct writer *to)
{
	value findings = findings_of(report);

	if (!has_section(findings))
		return;
	writer_text(to, "<section><h2>Findings</h2>\n");
	write_level(findings, "error", to);
	write_level(findings, "warning", to);
	write_notes(findings, to);
	writer_text(to, "</section>");
}

/* ---- loaders, values, foot ---- */

static void write_loaders(const struct report *report, struct writer *to)
{
	static const char *const words[][2] = { { "loads", "loads" },
		{ "differs", "loads with differences" }, { "refuses", "refuses" } };
	value loaders = find(report->data[REPORT_AUDIT], "loaders");

	if (loaders.count == 0 || report->other != NULL)
		return;
	writer_text(to, "<section><h2>Loaders</h2>\n");
	for (size_t i = 0; i < loaders.count; i++) {
		value loader = fsdp_document_item(loaders, i),
		      reason = fsdp_document_item(find(loader, "reasons"), 0),
		      verdict = find(loader, "verdict"), fix = find(reason, "way_out");
		const char *const *word = NULL;

		for (size_t k = 0; k < sizeof words / sizeof *words; k++)
			if (is_text(verdict, words[k][0]))
				word = words[k];
		writer_text(to, "<div class=\"loader\"><div>");
		chip(to, word != NULL ? word[0] : "not_judged", -1,
			word != NULL ? word[1] : "not judged");
		writer_text(to, "</div><div><b>");
		put(to, find(loader, "loader"));
		writer_text(to, "</b> <span class=\"soft\">");
		put(to, find(loader, "library"));
		writer_char(to, ' ');
		put(to, find(loader, "version"));
		writer_text(to, "</span></div><div>");
		put(to, find(reason, "message"));
		if (fix.text.size > 0) {
			writer_text(to, " <b>Fix:</b> ");
			put(to, fix);
		}
		writer_text(to, "</div></div>\n");
	}
	writer_text(to, "</section>");
}

static void write_values(const struct report *report, struct writer *to)
{
	value values = find(report->data[REPORT_INFO], "values");

	if (values.count == 0 || report->other != NULL)
		return;
	writer_text(to, "<section><h2>Values</h2>\n<details><summary>");
	count(to, (int64_t)values.count, "value");
	writer_text(to,
		values.count == 1 ? " that is not a tensor" : " that are not tensors");
	writer_text(to, "</summary><dl class=\"values\">\n");
	for (size_t i = 0; i < values.count && i < VALUES_MOST; i++) {
		writer_text(to, "<dt class=\"mono\">");
		put(to, find(fsdp_document_item(values, i), "name"));
		writer_text(to, "</dt><dd class=\"mono\">");
		put(to, find(fsdp_document_item(values, i), "text"));
		writer_text(to, "</dd>\n");
	}
	writer_text(to, "</dl>");
	if (values.count > VALUES_MOST)
		say(to, "<p class=\"soft\">%zu more: fsdp-inspect ls --values</p>",
			values.count - VALUES_MOST);
	writer_text(to, "</details></section>");
}

static void write_footer(const struct report *report, struct writer *to)
{
	value checks = find(report->data[REPORT_AUDIT], "checks"),
	      findings = findings_of(report),
	      format = find(report->data[REPORT_INFO], "format"),
	      tool = fsdp_document_get(
		      fsdp_document_root(report->documents[REPORT_INFO]), "tool");
	int64_t passed = 0, waiting = 0;

	for (size_t i = 0; i < checks.count; i++) {
		value check = fsdp_document_item(checks, i);
		passed += is_text(find(check, "status"), "passed");
		waiting += is_text(find(check, "reason"), "needs_data") ||
			   is_text(find(check, "reason"), "needs_values");
	}
	if (report->other != NULL) {
		writer_text(to, "<p>Contents: <code>fsdp-inspect diff --values ");
		html_text(to, report_short(report->other));
		writer_char(to, ' ');
		html_text(to, report_short(report->paths[0]));
		writer_text(to, "</code></p>\n");
	} else if (checks.count > 0) {
		writer_text(to, "<p>");
		count(to, passed, "check");
		say(to,
			" passed, %" PRId64
			" need the contents: <code>fsdp-inspect audit --data ",
			waiting);
		html_text(to, report_short(report->paths[0]));
		writer_text(to, "</code></p>\n");
	}
	if (!has_section(findings) || report->other != NULL)
		write_notes(findings, to);
	writer_text(to, "<p>");
	if (find(format, "title").text.size > 0) {
		put(to, find(format, "title"));
		if (find(format, "torch_guess").text.size > 0) {
			writer_text(to, ", torch ");
			put(to, find(format, "torch_guess"));
		}
		writer_text(to, ". ");
	}
	if (report->trace_count > 0)
		writer_text(to,
			"Single kernels: <code>fsdp-inspect replay -o chrome=run.json</code>, then Perfetto. ");
	writer_text(to, "Written by fsdp-inspect ");
	put(to, find(tool, "version"));
	writer_text(to, "; this page loads nothing from the network.</p>");
}

void report_write(const struct report *report, struct writer parts[REPORT_PARTS])
{
	const char *verdict = verdict_of(report);

	put_title(report, &parts[REPORT_TITLE]);
	say(&parts[REPORT_TITLE], ": %s", verdict);
	writer_text(&parts[REPORT_COLOR],
		strcmp(verdict, "good") == 0 || strcmp(verdict, "equal") == 0 ? "0a6b4d"
		: strcmp(verdict, "bad") == 0                                 ? "b3241c"
		: strcmp(verdict, "recording") == 0                           ? "475a6e"
									      : "8a5200");
	writer_text(&parts[REPORT_VERDICT], verdict);
	write_header(report, &parts[REPORT_HEADER]);
	write_cards(report, &parts[REPORT_CARDS]);
	write_findings(report, &parts[REPORT_FINDINGS]);
	write_loaders(report, &parts[REPORT_LOADERS]);
	write_values(report, &parts[REPORT_VALUES]);
	write_footer(report, &parts[REPORT_FOOTER]);
}
