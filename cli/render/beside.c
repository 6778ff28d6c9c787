/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands beside every answer: findings, failures, and how much was left out. An
 * output that shows them walks these records.
 */
#include "render/record.h"

static const char *severity_name(unsigned severity)
{
	static const char *const names[] = { "note", "warning", "error" };

	return names[severity];
}

static struct value get_fingerprint(struct subject of)
{
	return value_word(((const struct finding *)of.object)->fingerprint);
}

#define FINDING struct finding
const struct record finding_record = RECORD_OF(RECORD_OBJECT, FINDING,
	{ "rule", WORD_AT(FINDING, rule) }, { "slug", WORD_AT(FINDING, slug) },
	{ "severity", ENUM_AT(FINDING, severity, severity_name) },
	{ "input", ID_AT(FINDING, input) }, { "file", TEXT_AT(FINDING, file) },
	{ "member", TEXT_AT(FINDING, member) }, { "offset", COUNT_AT(FINDING, offset) },
	{ "length", COUNT_AT(FINDING, length) }, { "tensor", TEXT_AT(FINDING, tensor) },
	{ "module", TEXT_AT(FINDING, module) }, { "rank", ID_AT(FINDING, rank) },
	{ "message", TEXT_AT(FINDING, message) }, { "next", TEXT_AT(FINDING, next) },
	{ "fingerprint", GET(FIELD_WORD, get_fingerprint) });

#define FAILURE struct failure
const struct record failure_record = RECORD_OF(RECORD_OBJECT, FAILURE,
	{ "code", WORD_AT(FAILURE, code) }, { "rule", WORD_AT(FAILURE, rule) },
	{ "input", ID_AT(FAILURE, input) }, { "path", TEXT_AT(FAILURE, path) },
	{ "member", TEXT_AT(FAILURE, member) }, { "offset", COUNT_AT(FAILURE, offset) },
	{ "limit", WORD_AT(FAILURE, limit) }, { "message", TEXT_AT(FAILURE, message) },
	{ "hint", TEXT_AT(FAILURE, hint) });

#define OMISSION struct omission
const struct record omission_record = RECORD_OF(RECORD_OBJECT, OMISSION,
	{ "rule", WORD_AT(OMISSION, rule) }, { "file", TEXT_AT(OMISSION, file) },
	{ "count", COUNT_AT(OMISSION, count) });
