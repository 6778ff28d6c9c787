/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is reported next to an answer: inputs, findings, failures and notes; the order in
 * which people see findings, the lines on standard error, and the answer to a wrong
 * command line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The plain functions, old as they are: those that replaced them load a provider and take
 * memory for each digest, and crash in there when there is none left. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <fsdp/error.h>

#include "render/writer.h"
#include "render/out.h"
#include "render/record.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- Collects what is reported in addition to an answer ---- */

void collected_line(struct collected *collected, struct texts *texts, const char *format,
	va_list arguments)
{
	char *line = memory_vformat(format, arguments);

	/* Of several checkpoints, or by a command and here: once is enough. */
	for (size_t i = 0; texts == &collected->notes && i < texts->count; i++)
		if (strcmp(texts->items[i], line) == 0)
			return;
	texts_add(texts, line);
}

void collected_note(struct collected *collected, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	collected_line(collected, &collected->notes, format, arguments);
	va_end(arguments);
}

/* ---- inputs ---- */

uint32_t collected_input(struct collected *collected, const char *path, const char *kind)
{
	struct input_record *inputs =
		memory_grown(collected->inputs, collected->input_count, sizeof *inputs);

	collected->inputs = inputs;
	inputs[collected->input_count] = (struct input_record){
		.id = (uint32_t)collected->input_count,
		.path = text_of(path),
		.kind = kind,
		.status = -1,
	};
	return (uint32_t)collected->input_count++;
}

void collected_base(
	struct collected *collected, size_t input, const char *base, const char *opened)
{
	if (input >= collected->input_count)
		return;
	if (base != NULL)
		collected->inputs[input].base = text_new(base);
	if (opened != NULL)
		collected->inputs[input].opened = text_new(opened);
}

void collected_recognised(struct collected *collected, size_t first, size_t count,
	const char *format, int status)
{
	for (size_t i = first; i < first + count && i < collected->input_count; i++) {
		collected->inputs[i].format = format;
		collected->inputs[i].status = status;
	}
}

/* ---- failures ---- */

struct failure *collected_failure(struct collected *collected, const char *code)
{
	struct failure *failure;

	collected->failures = memory_grown(
		collected->failures, collected->failure_count, sizeof *failure);
	failure = &collected->failures[collected->failure_count++];
	*failure = (struct failure){
		.code = code, .input = UINT32_MAX, .offset = UINT64_MAX
	};
	return failure;
}

struct failure *collected_fail(struct collected *collected, const char *code,
	const char *hint, const char *format, ...)
{
	struct failure *failure = collected_failure(collected, code);
	va_list arguments;

	va_start(arguments, format);
	failure->message = text_of(memory_vformat(format, arguments));
	va_end(arguments);
	failure->hint = text_new(hint);
	return failure;
}

static const char *const usual_hints[FSDP_ERROR_CODE_COUNT] = {
	[FSDP_ERROR_DAMAGED] = "copy this file again, or use an earlier one",
	[FSDP_ERROR_UNSUPPORTED] = "see fsdp-inspect(1) for the formats that are read",
};

struct text collected_hint(const char *code)
{
	for (size_t i = 0; i < FSDP_ERROR_CODE_COUNT; i++)
		if (strcmp(fsdp_error_code_name((enum fsdp_error_code)i), code) == 0)
			return text_of(usual_hints[i]);
	return (struct text){ 0 };
}

void collected_error(
	struct collected *collected, const struct fsdp_error *error, uint32_t input)
{
	if (error == NULL || fsdp_error_code(error) == FSDP_ERROR_MEMORY)
		memory_fail();
	struct failure *failure = collected_failure(
		collected, fsdp_error_code_name(fsdp_error_code(error)));
	failure->input = input;
	failure->rule = fsdp_error_rule(error);
	failure->limit = fsdp_error_limit(error);
	failure->kind = fsdp_error_kind(error);
	failure->path = text_new(fsdp_error_path(error));
	failure->member = text_new(fsdp_error_member(error));
	failure->offset = fsdp_error_offset(error);
	failure->message = text_new(fsdp_error_message(error));
	failure->hint = text_new(fsdp_error_hint(error));
	if (failure->hint.data == NULL)
		failure->hint = collected_hint(failure->code);
}

void collected_own_error(
	struct collected *collected, struct fsdp_error *error, uint32_t input)
{
	if (error != NULL)
		memory_owns(error, release_error);
	collected_error(collected, error, input);
}

bool collected_has_failure(
	const struct collected *collected, const char *code, const char *message)
{
	FOR_EACH(i, collected->failure_count, failure, &collected->failures[i])
		if (failure->path.data == NULL && strcmp(failure->code, code) == 0 &&
			strcmp(failure->message.data, message) == 0)
			return true;
	return false;
}

/* ---- findings ---- */

bool is_plain_path(struct text path)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%";
	size_t size = 0;

	while (size < path.size && path.data[size] != '\0' &&
		strchr(plain, path.data[size]) != NULL)
		size++;
	return size > 0 && size == path.size && path.data[0] != '-';
}

const char *path_to_paste(const char *path)
{
	return is_plain_path(text_of(path)) ? path : "PATH";
}

enum severity collected_severity(enum fsdp_severity severity)
{
	switch (severity) {
	case FSDP_ERROR:
		return SEVERITY_ERROR;
	case FSDP_WARNING:
		return SEVERITY_WARNING;
	case FSDP_NOTE:
	case FSDP_SEVERITY_COUNT:
		break;
	}
	return SEVERITY_NOTE;
}

static void feed(SHA256_CTX *digest, struct text text)
{
	if (text.size != 0)
		SHA256_Update(digest, text.data, text.size);
	SHA256_Update(digest, "", 1);
}

/*
 * What stays the same of a finding when offsets, numbers and wording change: the first 16
 * hex digits of SHA-256 over rule, file, member, tensor and rank, each ended by a zero
 * byte and empty when absent.
 */
static void fingerprint_set(struct finding *finding)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[SHA256_DIGEST_LENGTH];
	char rank[16] = "";
	SHA256_CTX digest;

	if (finding->rank != UINT32_MAX)
		snprintf(rank, sizeof rank, "%u", (unsigned)finding->rank);
	SHA256_Init(&digest);
	feed(&digest, text_of(finding->rule));
	feed(&digest, finding->file);
	feed(&digest, finding->member);
	feed(&digest, finding->tensor);
	feed(&digest, text_of(rank));
	SHA256_Final(bytes, &digest);
	for (size_t i = 0; i < 8; i++) {
		finding->fingerprint[2 * i] = digits[bytes[i] >> 4];
		finding->fingerprint[2 * i + 1] = digits[bytes[i] & 15];
	}
	finding->fingerprint[16] = '\0';
}

void collected_finding(struct collected *collected, const struct finding *finding)
{
	struct finding *findings = memory_grown(
		collected->findings, collected->finding_count, sizeof *findings);

	collected->findings = findings;
	findings[collected->finding_count] = *finding;
	fingerprint_set(&findings[collected->finding_count++]);
}

bool finding_is_open(const struct finding *finding)
{
	return strcmp(finding->rule, "FI9006") == 0 ||
	       strcmp(finding->rule, "FI4008") == 0 ||
	       (strcmp(finding->rule, "FI3018") == 0 &&
		       finding->severity >= SEVERITY_WARNING);
}

/* Whether it is here, after a space. */
static bool is_word_at(struct text text, size_t at, const char *word)
{
	size_t size = strlen(word);

	return at > 0 && text.data[at - 1] == ' ' && size <= text.size - at &&
	       memcmp(text.data + at, word, size) == 0 &&
	       (size == text.size - at || text.data[at + size] == ' ' ||
		       text.data[at + size] == '/');
}

/* A command that ends in DIR is about the directory of the file, one that ends in
 * CHECKPOINT about what was named, unless that was several files. */
static struct text fix_of(
	struct collected *collected, struct text fix, uint32_t input, struct text file)
{
	static const char ANY[] = "CHECKPOINT";
	bool any = fix.size > sizeof ANY &&
		   is_word_at(fix, fix.size - (sizeof ANY - 1), ANY);
	const char *word = any ? ANY : "DIR";
	const struct input_record *record =
		input < collected->input_count ? &collected->inputs[input] : NULL;
	size_t word_size = strlen(word), kept = fix.size - word_size;
	struct writer command;
	struct text path;

	if (record == NULL || fix.size <= word_size || !is_word_at(fix, kept, word) ||
		memmem(fix.data, kept, "fsdp-inspect ", 13) == NULL)
		return fix;
	path = record->base.data != NULL && !any ? record->base : record->path;
	/* Without a base the name of a file begins at what was named. */
	while (file.size > 0 && file.data[file.size - 1] != '/')
		file.size--;
	if (record->base.data == NULL && !any && file.size > 1)
		path = text_of(memory_format("%.*s/%.*s", (int)path.size, path.data,
			(int)file.size - 1, file.data));
	while (path.size > 1 && path.data[path.size - 1] == '/')
		path.size--;
	if (!is_plain_path(path) ||
		(any ? collected->input_count > 1 : !path_is_folder(path.data)))
		return fix;
	writer_init(&command, NULL);
	for (size_t i = 0; i < fix.size;) {
		bool is_path = is_word_at(fix, i, word);

		writer_put(&command, is_path ? path.data : fix.data + i,
			is_path ? path.size : 1);
		i += is_path ? word_size : 1;
	}
	writer_char(&command, '\0');
	return text_of(command.data);
}

void collected_report(struct collected *collected, const char *rule, struct finding about,
	const char *fix, const char *format, ...)
{
	const struct fsdp_rule *row = fsdp_rule_find(rule);
	va_list arguments;

	va_start(arguments, format);
	about.message = text_of(memory_vformat(format, arguments));
	va_end(arguments);
	about.file = text_copy(about.file);
	about.tensor = text_copy(about.tensor);
	about.rule = row->id;
	about.slug = row->slug;
	about.offset = about.length = about.affected_bytes = UINT64_MAX;
	about.rank = UINT32_MAX;
	if (fix == NULL || *fix != '\0')
		about.fix = fix_of(collected, text_new(fix != NULL ? fix : row->fix),
			about.input, about.file);
	collected_finding(collected, &about);
}

void collected_found(struct collected *collected, const struct fsdp_finding *from,
	uint32_t input, bool copy)
{
	struct finding finding = {
		.rule = from->rule->id,
		.slug = from->rule->slug,
		.severity = collected_severity(from->severity),
		.input = input,
		.file = text_of_span(from->file),
		.member = text_of_span(from->member),
		.tensor = text_of_span(from->tensor),
		.module = text_of_span(from->module),
		.offset = from->offset,
		.length = from->length,
		.rank = from->rank,
		.affected_count = from->affected_count,
		.affected_bytes = from->affected_bytes,
		.message = text_of_span(from->message),
		.fix = text_of_span(from->fix),
	};
	struct text *const texts[] = { &finding.file, &finding.member, &finding.tensor,
		&finding.module, &finding.message, &finding.fix };

	for (size_t i = 0; copy && i < sizeof texts / sizeof *texts; i++)
		*texts[i] = text_copy(*texts[i]);
	finding.fix = fix_of(collected, finding.fix, input, finding.file);
	if (from->affected_kept > 0) {
		struct text *names = memory_new(from->affected_kept, sizeof *names);

		for (size_t i = 0; i < from->affected_kept; i++) {
			names[i] = text_of_span(from->affected[i]);
			if (copy)
				names[i] = text_copy(names[i]);
		}
		finding.affected = names;
		finding.affected_kept = from->affected_kept;
	}
	collected_finding(collected, &finding);
}

void collected_omitted(struct collected *collected, const struct fsdp_omitted *from,
	uint32_t input, bool copy)
{
	struct omission *omissions = memory_grown(
		collected->omissions, collected->omission_count, sizeof *omissions);
	struct text file = text_of_span(from->file);

	collected->omissions = omissions;
	omissions[collected->omission_count++] = (struct omission){
		.rule = from->rule->id,
		.input = input,
		.file = copy ? text_copy(file) : file,
		.count = from->count,
	};
}

void collected_checkpoint(struct collected *collected,
	const struct fsdp_checkpoint *checkpoint, uint32_t input, bool copy)
{
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		collected_found(collected, fsdp_finding(checkpoint, i), input, copy);
	FOR_EACH(i, fsdp_omitted_count(checkpoint), omitted, fsdp_omitted(checkpoint, i))
		collected_omitted(collected, &omitted, input, copy);
}

/*
 * The table of rules for outputs, which do not use the library; and how severe a
 * service should take those about safety.
 */

/* Rules from one id to another, both included. */
static const struct {
	const char *first, *last;
	const char *score;
} scores[] = {
	{ "FI3001", "FI3002", "9.0" }, /* code that runs when it is loaded */
	{ "FI3004", "FI3014", "9.0" },
	{ "FI3015", "FI3017", "8.0" }, /* readers disagree what is there */
	{ "FI3019", "FI3019", "6.5" }, /* bombs */
	{ "FI3040", "FI3042", "8.0" },
	{ "FI3043", "FI3043", "8.5" }, /* paths that lead out */
	{ "FI3044", "FI3051", "8.0" },
	{ "FI3053", "FI3053", "6.5" },
	{ "FI3054", "FI3060", "8.0" },
	{ "FI3061", "FI3063", "9.0" },
	{ "FI3064", "FI3065", "8.5" },
	{ "FI3066", "FI3066", "9.0" },
	{ "FI3067", "FI3068", "8.0" },
};

bool catalogue_rule(size_t index, struct rule_text *ret_rule)
{
	const struct fsdp_rule *rule = fsdp_rule(index);

	if (rule == NULL)
		return false;
	*ret_rule = (struct rule_text){
		.id = rule->id,
		.slug = rule->slug,
		.category = rule->category,
		.severity = collected_severity(rule->severity),
		.title = rule->title,
		.cause = rule->cause,
		.fix = rule->fix,
	};
	for (size_t i = 0; i < sizeof scores / sizeof *scores; i++)
		if (strcmp(scores[i].first, rule->id) <= 0 &&
			strcmp(rule->id, scores[i].last) <= 0)
			ret_rule->security = scores[i].score;
	return true;
}

bool rule_is_limit(const struct fsdp_rule *rule)
{
	return strcmp(rule->category, "limits") == 0;
}

/* ---- Fingerprints of findings. Only this file of the command uses libcrypto ---- */

const char *fingerprint_library_version(void)
{
#ifdef STATIC_LIBRARIES
	/* The same by then; to ask links all of it into the program, ten times its size.
	 */
	return OPENSSL_VERSION_STR;
#else
	return OpenSSL_version(OPENSSL_VERSION_STRING);
#endif
}

/* ---- Prints findings for people, up to a number per rule ---- */

static const char margin[] = "  ";

void findings_sort(struct finding *findings, size_t count)
{
	const struct finding **sorted = memory_new(count, sizeof *sorted);
	struct finding *copy = memory_new(count, sizeof *copy);

	for (size_t i = 0; i < count; i++) {
		copy[i] = findings[i];
		sorted[i] = &copy[i];
	}
	qsort(sorted, count, sizeof *sorted, compare_findings);
	for (size_t i = 0; i < count; i++)
		findings[i] = *sorted[i];
	memory_free(sorted);
	memory_free(copy);
}

/* ---- one finding ---- */

static void print_name(struct out *out, struct text name)
{
	if (name.data == NULL || name.size == 0)
		return;
	out_line_name(out, name);
	out_line_text(out, ": ");
}

static bool is_of_name(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c == '.';
}

/* As a word of its own, not as a part of another name. */
static bool is_in(struct text name, struct text sentence)
{
	const char *at = sentence.data, *end = sentence.data + sentence.size;

	while ((at = memmem(at, (size_t)(end - at), name.data, name.size)) != NULL) {
		const char *behind = at + name.size;

		if ((at == sentence.data || !is_of_name(at[-1])) &&
			(behind == end || !is_of_name(*behind)))
			return true;
		at++;
	}
	return false;
}

struct text finding_tensor(const struct finding *finding)
{
	return finding->tensor.size == 0 || is_in(finding->tensor, finding->message)
		       ? (struct text){ 0 }
		       : finding->tensor;
}

/* A finding, or the first of several that differ only in their file. */
struct fold {
	const struct finding *first, *last;
	size_t count;
};

bool finding_starts_with_file(const struct finding *finding)
{
	size_t size = finding->file.size;

	return size > 0 && finding->message.size > size &&
	       memcmp(finding->message.data, finding->file.data, size) == 0 &&
	       finding->message.data[size] == ' ';
}

/* The pickle in a zip by torch.save is not named, unless the zip is wrong. */
static void print_file(struct out *out, const struct fold *fold)
{
	static const char PICKLE[] = "data.pkl";
	struct text member = fold->first->member;

	if (fold->count == 1) {
		if (!finding_starts_with_file(fold->first))
			print_name(out, fold->first->file);
		if (member.size < strlen(PICKLE) ||
			strncmp(fold->first->slug, "zip", 3) == 0 ||
			strncmp(fold->first->slug, "crc", 3) == 0 ||
			memcmp(member.data + member.size - strlen(PICKLE), PICKLE,
				strlen(PICKLE)) != 0)
			print_name(out, member);
		return;
	}
	out_line_name(out, fold->first->file);
	out_line_text(out, " and %zu more file%s (-v): ", fold->count - 1,
		fold->count == 2 ? "" : "s");
}

/* "affected: layers.0.{wq, wk, wv} and 2 more (5 of 42 tensors, 128.0 KiB)" */
static void print_lost(
	struct out *out, const struct finding *finding, const struct findings_view *view)
{
	size_t shown = finding->affected_kept, prefix, end, dots = 0;

	/* The message may be of the one name already. */
	if (!view->lost || shown == 0 ||
		(finding->affected_count == 1 && finding->affected_bytes == UINT64_MAX &&
			is_in(finding->affected[0], finding->message)))
		return;
	if (shown > FINDINGS_SHOWN && !view->all)
		shown = FINDINGS_SHOWN;
	out_line_begin(out, NULL);
	out_line_text(out, "%saffected: ", margin);
	/* Length of the longest prefix of three names or more that ends at a dot; 0:
	 * none. */
	prefix = shown > 2 ? finding->affected[0].size : 0;
	for (size_t i = 1; i < shown && prefix > 0; i++) {
		size_t same = 0;

		while (same < prefix && same < finding->affected[i].size &&
			finding->affected[i].data[same] ==
				finding->affected[0].data[same])
			same++;
		prefix = same;
	}
	/* The last two modules of a name are worth reading together. */
	for (end = finding->affected[0].size; end > 0 && dots < 3; end--)
		dots += finding->affected[0].data[end - 1] == '.';
	if (prefix > end)
		prefix = dots == 3 ? end + 1 : 0;
	while (prefix > 0 && finding->affected[0].data[prefix - 1] != '.')
		prefix--;
	if (prefix > 0) {
		out_line_name(out, (struct text){ finding->affected[0].data, prefix });
		out_line_text(out, "{");
	}
	FOR_EACH(i, shown, name, finding->affected[i]) {
		out_line_text(out, "%s", i > 0 ? ", " : "");
		out_line_name(
			out, (struct text){ name.data + prefix, name.size - prefix });
	}
	out_line_text(out, "%s", prefix > 0 ? "}" : "");
	if (shown < finding->affected_count)
		out_line_text(
			out, " and %" PRIu64 " more", finding->affected_count - shown);
	/* Of names that the checkpoint may not have: "(3 names)" */
	bool stored = finding->affected_bytes != UINT64_MAX &&
		      view->names >= finding->affected_count;
	if (stored)
		out_values(out, " ({} of {} {}{s}", value_count(finding->affected_count),
			value_count(view->names),
			value_word(view->names > view->tensors ? "name" : "tensor"));
	else
		out_values(out, " ({} name{s}", value_count(finding->affected_count));
	if (finding->affected_bytes != UINT64_MAX) {
		out_line_text(out, ", ");
		out_line_value(out, value_bytes(finding->affected_bytes));
	}
	out_line_text(out, ")");
	out_line_end(out);
}

/* ---- all of a rule ---- */

/* Ranks of a set often say the same. Each member is called after its file. */
static bool joins(const struct fold *fold, const struct finding *finding)
{
	const struct finding *first = fold->first;

	return finding->severity == SEVERITY_NOTE && finding->file.size > 0 &&
	       first->file.size > 0 && !text_is(fold->last->file, finding->file) &&
	       first->input == finding->input &&
	       (first->member.size > 0) == (finding->member.size > 0) &&
	       first->tensor.size + finding->tensor.size == 0 &&
	       first->affected_count + finding->affected_count == 0 &&
	       text_is(first->message, finding->message) &&
	       text_is(first->fix, finding->fix);
}

/* What is shown of a group; *ret_left counts the others. */
static size_t fold_group(const struct finding *const *group, size_t count,
	const struct findings_view *view, struct fold *folds, size_t *ret_left)
{
	size_t shown = 0;

	*ret_left = 0;
	for (size_t i = 0; i < count; i++) {
		size_t at = view->all ? shown : 0;

		while (at < shown && !joins(&folds[at], group[i]))
			at++;
		if (at < shown) {
			folds[at].last = group[i];
			folds[at].count++;
		} else if (view->all || shown < FINDINGS_SHOWN) {
			folds[shown++] = (struct fold){ group[i], group[i], 1 };
		} else {
			++*ret_left;
		}
	}
	return shown;
}

static void print_rule(struct out *out, const struct finding *const *group, size_t count,
	const struct findings_view *view, struct fold *folds)
{
	uint64_t omitted = 0;
	FOR_EACH(i, view->omission_count, omission, &view->omissions[i])
		if (strcmp(omission->rule, group[0]->rule) == 0 &&
			(view->input == UINT32_MAX || view->input == omission->input))
			omitted += omission->count;
	size_t left, shown = fold_group(group, count, view, folds, &left);

	FOR_EACH(i, shown, finding, folds[i].first) {
		out_line_begin(out, NULL);
		out_line_painted(out, severity_name(finding->severity));
		out_line_text(out, ": ");
		if (view->inputs != NULL)
			print_name(out, view->inputs[finding->input].path);
		print_file(out, &folds[i]);
		if (view->lost && finding->affected_kept == 0)
			print_name(out, finding_tensor(finding));
		out_line_name(out, finding->message);
		out_line_text(out, " ");
		out_line_keep(out, true);
		out_line_text(out, "[%s %s]", finding->rule, finding->slug);
		out_line_keep(out, false);
		out_line_end(out);
		print_lost(out, finding, view);
		/* One next step for a row of findings that share it. */
		if (i + 1 == shown || !text_is(finding->fix, folds[i + 1].first->fix)) {
			if (finding->fix.data != NULL && finding->fix.size != 0) {
				out_line_begin(out, NULL);
				out_line_text(out, "%sfix: ", margin);
				out_line_name(out, finding->fix);
				out_line_end(out);
			}
		}
	}
	if (left > 0)
		out_line(out, NULL, "%sand %zu more %s%s of %s (-v shows all)", margin,
			left, severity_name(group[0]->severity), left == 1 ? "" : "s",
			group[0]->rule);
	if (omitted > 0)
		out_line(out, NULL,
			"%sand %" PRIu64
			" more %s%s of %s, only counted (--limit findings)",
			margin, omitted, severity_name(group[0]->severity),
			omitted == 1 ? "" : "s", group[0]->rule);
}

void findings_print(struct out *out, const struct findings_view *view)
{
	const struct finding **sorted = memory_new(view->count, sizeof *sorted);
	struct fold *folds = memory_new(view->count, sizeof *folds);
	size_t count = 0, begin = 0;

	for (size_t i = 0; i < view->count; i++)
		if (!view->findings[i].is_printed &&
			view->findings[i].severity >= view->least &&
			(view->input == UINT32_MAX ||
				view->findings[i].input == view->input) &&
			!(view->level_label && view->findings[i].file.data == NULL &&
				strcmp(view->findings[i].rule, "FI9006") == 0))
			sorted[count++] = &view->findings[i];
	qsort(sorted, count, sizeof *sorted, compare_findings);
	while (begin < count) {
		const struct finding *first = sorted[begin];
		size_t end = begin;

		while (end < count && sorted[end]->severity == first->severity &&
			strcmp(sorted[end]->rule, first->rule) == 0)
			end++;
		print_rule(out, sorted + begin, end - begin, view, folds);
		begin = end;
	}
	memory_free(sorted);
	memory_free(folds);
}

/*
 * Writes messages to stderr, wrapped on a terminal, up to a number per kind.
 */

enum { HANG = 4 }; /* of the second line of a message */

/* A message so far: it is wrapped when it is complete. */
struct message {
	const struct looks *looks;
	struct writer line;
};

static void begin(struct message *message, const struct looks *looks, const char *start)
{
	message->looks = looks;
	writer_init(&message->line, NULL);
	message->line.ascii = looks->seven_bits;
	writer_text(&message->line, start);
}

static void put(struct message *message, struct text text)
{
	if (text.data != NULL)
		escape_write(&message->line, text.data, text.size, ESCAPE_TEXT);
}

static void print_painted(struct message *message, const char *paint, const char *word)
{
	struct writer *line = &message->line;

	if (!message->looks->color) {
		writer_text(line, word);
		return;
	}
	writer_text(line, "\033[");
	writer_text(line, paint);
	writer_char(line, 'm');
	writer_text(line, word);
	writer_text(line, "\033[0m");
}

static void end(struct message *message)
{
	/* What is typed stays on one line: from the command's name to the next mark. */
	static const char NAME[] = "fsdp-inspect ";
	char *at = message->line.data, *end = message->line.data + message->line.size;
	struct writer lines;

	writer_init(&lines, NULL);
	while ((at = memmem(at, (size_t)(end - at), NAME, sizeof NAME - 1)) != NULL)
		for (; at < end && strchr(",;)", *at) == NULL; at++)
			if (*at == ' ')
				*at = WRAP_GLUE;
	wrap_write(&lines, message->line.data, message->line.size,
		(size_t)message->looks->width, HANG, 0);
	writer_char(&lines, '\n');
	fwrite(lines.data, 1, lines.size, stderr);
	writer_done(&lines);
	writer_done(&message->line);
}

static void print_message(const struct looks *looks, const char *title, struct text text)
{
	struct message message;

	begin(&message, looks, title);
	put(&message, text);
	end(&message);
}

void message_usage(const struct looks *looks, const struct usage *usage)
{
	print_message(looks, "error: ", text_of(usage->what));
	if (usage->hint[0] != '\0')
		print_message(looks, "  hint: ", text_of(usage->hint));
}

void message_note(const struct looks *looks, const char *note)
{
	struct message message;

	if (looks->verbosity < 0)
		return;
	begin(&message, looks, "");
	print_painted(&message, "36", "note:");
	writer_char(&message.line, ' ');
	put(&message, text_of(note));
	end(&message);
}

void message_reason(const struct looks *looks, const char *reason)
{
	print_message(looks, "note: ", text_of(reason));
}

void message_total(const struct looks *looks, const char *total)
{
	if (looks->verbosity >= 0)
		print_message(looks, "", text_of(total));
}

void message_out_of_memory(void)
{
	fputs("error: out of memory\n", stderr);
}

/* ---- failures ---- */

static void print_failure(
	const struct looks *looks, const struct failure *failure, bool partial)
{
	struct message message;
	bool skipped = partial && strcmp(failure->code, "unsupported") == 0;

	begin(&message, looks, skipped ? "warning: " : "error: ");
	if (failure->path.data != NULL) {
		put(&message, failure->path);
		writer_text(&message.line, ": ");
	}
	if (failure->member.data != NULL) {
		put(&message, failure->member);
		writer_text(&message.line, ": ");
	}
	if (failure->offset != UINT64_MAX && failure->offset != 0) {
		writer_text(&message.line, "offset ");
		writer_count(&message.line, failure->offset);
		writer_text(&message.line, ": ");
	}
	put(&message, failure->message);
	end(&message);
}

void message_failures(const struct looks *looks, const struct failure *failures,
	size_t count, bool partial)
{
	size_t begin = 0;

	while (begin < count) {
		const struct text hint = failures[begin].hint;
		size_t end = begin, shown;

		while (end < count &&
			text_is(failures[end].message, failures[begin].message))
			end++;
		shown = end - begin;
		if (shown > FINDINGS_SHOWN && looks->verbosity < 1)
			shown = FINDINGS_SHOWN;
		for (size_t i = begin; i < begin + shown; i++)
			print_failure(looks, &failures[i], partial);
		if (begin + shown < end)
			fprintf(stderr, "  and %zu more (-v shows all)\n",
				end - begin - shown);
		if (hint.data != NULL && hint.size > 0)
			print_message(looks,
				strcmp(failures[begin].code, "usage") == 0 ? "  hint: "
									   : "  fix: ",
				hint);
		begin = end;
	}
}

/* ---- findings ---- */

void message_findings(const struct looks *looks, const struct findings_view *view)
{
	struct out *out = out_new(out_format_find("text"), stderr, looks);

	findings_print(out, view);
	out_finish(out);
	out_free(out);
}

/* ---- Errors of the command line for programs ---- */

/* The format that a word asks for, or NULL. */
static const char *format_of(const char *word, const char *next)
{
	if (strcmp(word, "--json") == 0 || strcmp(word, "--jsonl") == 0)
		return word + 2;
	if (strncmp(word, "--output=", 9) == 0)
		return word + 9;
	if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0)
		return next;
	return strncmp(word, "-o", 2) == 0 ? word + 2 : NULL;
}

/* Which of the two is asked for on standard output, and nothing else; NULL: none. The
 * line was not understood, so its words are looked at one by one. */
static const char *wanted(char *const *words)
{
	const char *wanted = NULL;

	for (size_t i = 0; words[i] != NULL && strcmp(words[i], "--") != 0; i++) {
		const char *format = format_of(words[i], words[i + 1]);

		/* Into a file. */
		if (format == NULL || strchr(format, '=') != NULL)
			continue;
		if (strcmp(format, "json") != 0 && strcmp(format, "jsonl") != 0)
			return NULL;
		wanted = format;
	}
	return wanted;
}

void write_usage_error(FILE *stream, char *const *words, const struct command *command,
	const struct usage *usage)
{
	const char *format = wanted(words);
	const struct looks looks = { 0 };
	const struct failure failure = { .code = "usage",
		.input = UINT32_MAX,
		.offset = UINT64_MAX,
		.message = text_of(usage->what),
		.hint = text_of(usage->hint[0] != '\0' ? usage->hint : NULL) };
	const struct out_header header = { .command = command != NULL ? command->name
								      : "usage",
		.version = fsdp_version(),
		.status = STATUS_FAILED };
	const struct out_footer footer = {
		.status = STATUS_FAILED, .failures = &failure, .failure_count = 1
	};

	if (format == NULL)
		return;
	struct out *out = out_new(out_format_find(format), stream, &looks);
	out_begin(out, &header);
	out_end(out, &footer);
	(void)out_finish(out);
	out_free(out);
}
