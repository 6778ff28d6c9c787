/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: the table of rules, and what is kept and counted for each rule and file.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/finding.h"
#include "base/names.h"
#include "base/num.h"

static const struct fsdp_rule rules[] = {
#define FSDP_RULE(                                                                    \
	index, id, slug, severity, category, level, subject, title, cause, fix)       \
	{ id, slug, FSDP_##severity, category, FSDP_LEVEL_##level, title, cause, fix, \
		FSDP_SCOPE_##subject },
#include "base/rules.def"
#undef FSDP_RULE
};

/* Of a place that a file chose, no more than this is kept and compared. */
enum { PLACE_MAX = 4096 };

/* How many findings of one rule in one file were made; `kept` of them are stored. */
struct rule_tally {
	struct fsdp_span file;
	uint32_t rule;
	uint64_t made, kept;
	struct fsdp_span
		*joined; /* names of tensors that the last one that is kept is about … */
	size_t joined_count; /* … so many */
	struct fsdp_finding *last;
};

const char *fsdp_severity_name(enum fsdp_severity severity)
{
	static const char *const names[] = { "note", "warning", "error" };
	return (size_t)severity < FSDP_SEVERITY_COUNT ? names[severity] : "error";
}

const char *fsdp_level_name(enum fsdp_level level)
{
	static const char *const names[] = { "quick", "headers", "data", "values",
		"any" };
	return (size_t)level < FSDP_LEVEL_COUNT ? names[level] : "any";
}

const char *fsdp_finding_scope_name(enum fsdp_finding_scope subject)
{
	return subject == FSDP_SCOPE_TENSORS ? "tensors" : "rest";
}

const char *fsdp_rule_status_name(enum fsdp_rule_status status)
{
	static const char *const names[] = { "passed", "failed", "not_applicable",
		"not_evaluated" };
	return (size_t)status < FSDP_STATUS_COUNT ? names[status] : "not_evaluated";
}

const char *fsdp_rule_reason_name(enum fsdp_rule_reason reason)
{
	static const char *const names[] = { NULL, "needs_headers", "needs_data",
		"needs_values", "needs_plan", "needs_config", "no_crc", "no_digest",
		"limit", "unreadable", "unsupported", "unlike" };
	return (size_t)reason < FSDP_REASON_COUNT ? names[reason] : "unlike";
}

size_t fsdp_rule_count(void)
{
	return FSDP_RULE_COUNT;
}

const struct fsdp_rule *fsdp_rule(size_t index)
{
	return index < FSDP_RULE_COUNT ? &rules[index] : NULL;
}

const struct fsdp_rule *fsdp_rule_find(const char *id_or_slug)
{
	for (size_t i = 0; i < FSDP_RULE_COUNT; i++)
		if (strcmp(rules[i].id, id_or_slug) == 0 ||
			strcmp(rules[i].slug, id_or_slug) == 0)
			return &rules[i];
	return NULL;
}

void fsdp_findings_init(struct fsdp_findings *findings, struct fsdp_arena *arena,
	const struct fsdp_limits *limits)
{
	*findings = (struct fsdp_findings){
		.arena = arena,
		.ceiling = fsdp_limit(limits, FSDP_LIMIT_FINDINGS),
	};
	fsdp_vec_init(&findings->list, arena, sizeof(struct fsdp_finding));
	fsdp_vec_init(&findings->tallies, arena, sizeof(struct rule_tally));
	fsdp_seed(findings->seeds);
}

static struct fsdp_span keep(struct fsdp_findings *findings, struct fsdp_span span)
{
	if (span.data == NULL)
		return span;
	struct fsdp_span copy = fsdp_arena_copy(findings->arena, span);
	if (copy.data == NULL)
		findings->lost = true;
	return copy;
}

/* A file chooses its name, and so would it choose its slot without the secret words. */
static size_t hash_place(
	const struct fsdp_findings *findings, uint32_t rule, struct fsdp_span file)
{
	const uint64_t *seeds = findings->seeds;
	uint64_t hash = fsdp_mix(seeds[0] ^ rule, seeds[1] ^ file.size), rest = 0;
	for (; file.size >= 8; file = fsdp_span(file.data + 8, file.size - 8))
		hash = fsdp_mix(hash ^ fsdp_load_eight(file.data), seeds[1]);
	if (file.size != 0)
		memcpy(&rest, file.data, file.size);
	hash = fsdp_mix(hash ^ rest ^ seeds[0], seeds[1]);
	return (size_t)(hash ^ (hash >> 32));
}

static bool grow_slots(struct fsdp_findings *findings)
{
	size_t count = findings->slot_count == 0 ? 64 : findings->slot_count * 2;
	uint32_t *slots = FSDP_TAKE(findings->arena, slots, count);
	if (slots == NULL)
		return false;
	for (size_t i = 0; i < findings->tallies.count; i++) {
		const struct rule_tally *tally = fsdp_vec_at(&findings->tallies, i);
		size_t slot =
			hash_place(findings, tally->rule, tally->file) & (count - 1);
		while (slots[slot] != 0)
			slot = (slot + 1) & (count - 1);
		slots[slot] = (uint32_t)i + 1;
	}
	findings->slots = slots;
	findings->slot_count = count;
	return true;
}

static struct rule_tally *add_tally(
	struct fsdp_findings *findings, enum fsdp_rule_index rule, struct fsdp_span file)
{
	struct rule_tally *tally = fsdp_vec_push(&findings->tallies);
	if (tally == NULL) {
		findings->lost = true;
		return NULL;
	}
	*tally = (struct rule_tally){ .file = keep(findings, file), .rule = rule };
	return tally;
}

static struct rule_tally *find_tally(
	struct fsdp_findings *findings, enum fsdp_rule_index rule, struct fsdp_span file)
{
	if (findings->tallies.count * 2 >= findings->slot_count &&
		!grow_slots(findings)) {
		findings->lost = true;
		return NULL;
	}
	size_t mask = findings->slot_count - 1;
	size_t slot = hash_place(findings, rule, file) & mask;
	for (; findings->slots[slot] != 0; slot = (slot + 1) & mask) {
		struct rule_tally *tally =
			fsdp_vec_at(&findings->tallies, findings->slots[slot] - 1);
		if (tally->rule == rule && fsdp_span_equal(tally->file, file))
			return tally;
	}
	struct rule_tally *added = add_tally(findings, rule, file);
	if (added != NULL)
		findings->slots[slot] = (uint32_t)findings->tallies.count;
	return added;
}

static struct fsdp_span shorten(struct fsdp_span span)
{
	if (span.size > PLACE_MAX)
		span.size = PLACE_MAX;
	return span;
}

/* Names that suffer, the first ones of them. */
static const struct fsdp_span *keep_affected(
	struct fsdp_findings *findings, const struct fsdp_place_of *place, size_t count)
{
	struct fsdp_span *affected = FSDP_TAKE(findings->arena, affected, count);
	if (affected == NULL) {
		findings->lost = true;
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		affected[i] = keep(findings, shorten(place->affected[i]));
	return affected;
}

/* The file's path from the root on. */
static struct fsdp_span from_root(
	const struct fsdp_findings *findings, struct fsdp_span file, char *room)
{
	struct fsdp_span below = findings->below;
	file = shorten(file);
	if (file.size == 0 || below.size == 0 || below.size > PLACE_MAX ||
		fsdp_span_begins(file, below))
		return file;
	memcpy(room, below.data, below.size);
	memcpy(room + below.size, file.data, file.size);
	return fsdp_span(room, below.size + file.size);
}

/* A cause that several tensors share is one finding: the last one of its rule and file
 * has the same text, and both are about one tensor and no more. */
static bool joins_last(struct fsdp_findings *findings, struct rule_tally *tally,
	const struct fsdp_place_of *place, const struct fsdp_finding *finding)
{
	struct fsdp_finding *last = tally->last;
	size_t count = tally->joined_count;
	if (last == NULL || place->tensor.size == 0 || last->tensor.size == 0 ||
		last->module.size + last->member.size > 0 ||
		place->module.size + place->member.size > 0 ||
		(last->offset & place->offset & last->affected_bytes) != FSDP_UNKNOWN ||
		place->affected_bytes != FSDP_UNKNOWN || place->affected_count > 1 ||
		(last->affected_count > 1 && count == 0) || place->rank != last->rank ||
		finding->severity != last->severity ||
		!fsdp_span_equal(finding->message, last->message) ||
		!fsdp_span_equal(finding->fix, last->fix))
		return false;
	if (count == 0)
		count = 1;
	/* They double. */
	if (count < FSDP_AFFECTED_KEPT && (count & (count - 1)) == 0) {
		struct fsdp_span *names = FSDP_TAKE(findings->arena, names, 2 * count);
		if (names == NULL) {
			findings->lost = true;
			return true;
		}
		names[0] = last->tensor;
		if (count > 1)
			memcpy(names, tally->joined, count * sizeof *names);
		tally->joined = names;
	}
	if (count < FSDP_AFFECTED_KEPT)
		tally->joined[count] = keep(findings, shorten(place->tensor));
	tally->joined_count = count + 1;
	last->affected = tally->joined;
	last->affected_count = tally->joined_count;
	last->affected_kept = fsdp_min(tally->joined_count, FSDP_AFFECTED_KEPT);
	return true;
}

const char *fsdp_shown(struct fsdp_span text, char room[FSDP_SHOWN])
{
	size_t at = 0;
	for (size_t i = 0; i < text.size && at < FSDP_SHOWN - 5; i++) {
		if (text.data[i] != '\0') {
			room[at++] = (char)text.data[i];
			continue;
		}
		memcpy(room + at, "\\x00", 4);
		at += 4;
	}
	room[at] = '\0';
	return room;
}

const char *fsdp_shown_box(const int64_t *offsets, const int64_t *sizes, uint32_t dims,
	char room[FSDP_SHOWN])
{
	enum { LONGEST = 48 }; /* of one dimension, with the bracket */
	size_t at = 0;
	for (uint32_t i = 0; i < dims && at + LONGEST < FSDP_SHOWN; i++)
		at += (size_t)snprintf(room + at, FSDP_SHOWN - at, "%s%lld:%lld",
			i == 0 ? "[" : ", ", (long long)offsets[i],
			(long long)(offsets[i] + sizes[i]));
	snprintf(room + at, FSDP_SHOWN - at, "]");
	return room;
}

static void find_list(struct fsdp_findings *findings, enum fsdp_rule_index rule,
	const struct fsdp_place_of *place, const char *format, va_list arguments)
{
	char room[2 * PLACE_MAX], text[1024];
	int size = vsnprintf(text, sizeof text, format, arguments);
	size_t affected_kept = place->affected_count < FSDP_AFFECTED_KEPT
				       ? place->affected_count
				       : FSDP_AFFECTED_KEPT;
	struct rule_tally *tally =
		find_tally(findings, rule, from_root(findings, place->file, room));
	struct fsdp_finding finding = {
		.rule = &rules[rule],
		.severity = place->severity == 0
				    ? rules[rule].severity
				    : (enum fsdp_severity)(place->severity - 1),
		.offset = place->offset,
		.length = place->length,
		.rank = place->rank,
		.affected_kept = affected_kept,
		.affected_count = place->affected_count,
		.affected_bytes = place->affected_bytes,
		.message = fsdp_span(
			text, fsdp_min(size < 0 ? 0 : (size_t)size, sizeof text - 1)),
		.fix = place->fix != NULL && *place->fix == '\0'
			       ? (struct fsdp_span){ 0 }
			       : fsdp_span_text(place->fix != NULL ? place->fix
								   : rules[rule].fix),
	};
	if (tally == NULL || joins_last(findings, tally, place, &finding))
		return;
	tally->made++;
	if (tally->kept >= findings->ceiling)
		return;
	tally->last = fsdp_vec_push(&findings->list);
	if (tally->last == NULL) {
		findings->lost = true;
		return;
	}
	tally->kept++;
	tally->joined_count = 0;
	finding.file = tally->file;
	finding.member = keep(findings, shorten(place->member));
	finding.tensor = keep(findings, shorten(place->tensor));
	finding.module = keep(findings, shorten(place->module));
	if (affected_kept > 0)
		finding.affected = keep_affected(findings, place, affected_kept);
	finding.message = keep(findings, finding.message);
	finding.fix = keep(findings, finding.fix);
	*tally->last = finding;
}

void fsdp_find_list(struct fsdp_findings *findings, enum fsdp_rule_index rule,
	const struct fsdp_place_of *place, const char *format, va_list arguments)
{
	/* The text may be of an error that the caller has to free. */
	fsdp_arena_hold(findings->arena);
	find_list(findings, rule, place, format, arguments);
	fsdp_arena_resume(findings->arena);
}

void fsdp_find(struct fsdp_findings *findings, enum fsdp_rule_index rule,
	const struct fsdp_place_of *place, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fsdp_find_list(findings, rule, place, format, arguments);
	va_end(arguments);
}

size_t fsdp_findings_omitted_count(const struct fsdp_findings *findings)
{
	size_t count = 0;
	FSDP_ITEMS(const struct rule_tally, tally, &findings->tallies)
		count += tally->made > tally->kept;
	return count;
}

struct fsdp_omitted fsdp_findings_omitted(
	const struct fsdp_findings *findings, size_t index)
{
	FSDP_ITEMS(const struct rule_tally, tally, &findings->tallies)
		if (tally->made > tally->kept && index-- == 0)
			return (struct fsdp_omitted){ &rules[tally->rule], tally->file,
				tally->made - tally->kept };
	return (struct fsdp_omitted){ 0 };
}
