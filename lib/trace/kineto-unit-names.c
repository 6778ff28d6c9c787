/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the names of FSDP's units among the annotations of a trace.
 */
#include "base/names.h"
#include "trace/event.h"
#include "trace/kineto-input.h"
#include "trace/kineto-unit.h"
#include "trace/kineto-unit-names.h"

struct finding_names {
	struct fsdp_arena *arena;
	struct fsdp_names seen;
	struct fsdp_vec *names;
	bool kinds[FSDP_UNIT_KINDS];
};

bool fsdp_trace_is_json(struct fsdp_span head)
{
	head = fsdp_trace_without_mark(head);
	if (head.size == 0 || (head.data[0] != '{' && head.data[0] != '['))
		return false;
	struct fsdp_span rest =
		fsdp_trace_without_mark(fsdp_span(head.data + 1, head.size - 1));
	if (head.data[0] == '[')
		return rest.size == 0 || rest.data[0] == '{' || rest.data[0] == ']';
	return rest.size == 0 || rest.data[0] == '"' || rest.data[0] == '}';
}

/* Whether an annotation of this kind says which unit it is of. */
static bool names_unit(enum fsdp_kineto_unit_kind kind)
{
	return kind > FSDP_UNIT_NONE && kind < FSDP_UNIT_STATION;
}

static bool add(struct finding_names *finding, struct fsdp_span unit)
{
	unsigned char *clean = fsdp_arena_take(finding->arena, unit.size + 1, 1);
	if (clean == NULL)
		return false;
	struct fsdp_span name = fsdp_span(clean, fsdp_kineto_unit_clean(unit, clean));
	size_t known = finding->seen.list.count;
	if (fsdp_names_child(&finding->seen, 0, name) == FSDP_NONE)
		return false;
	return finding->seen.list.count == known || fsdp_vec_add(finding->names, &name);
}

static bool take_text(struct finding_names *finding, const struct fsdp_json_token *token)
{
	static const char *const begins[] = { "FSDP::", "FullyShardedDataParallel." };
	struct fsdp_span text = token->span;
	if (!fsdp_span_begins(text, fsdp_span_text(begins[0])) &&
		!fsdp_span_begins(text, fsdp_span_text(begins[1])))
		return true;
	if (token->escaped) {
		unsigned char *decoded =
			fsdp_arena_take(finding->arena, text.size + 1, 1);
		if (decoded == NULL)
			return false;
		text = fsdp_span(decoded, fsdp_json_text(text, decoded));
	}
	struct fsdp_kineto_unit_note note = fsdp_kineto_unit_read(text);
	finding->kinds[note.kind] = true;
	return !names_unit(note.kind) || add(finding, note.unit);
}

/* Up to the end, or to what is not JSON. */
static bool scan_names(struct finding_names *finding, struct fsdp_json_scan *scan,
	struct fsdp_error **ret_error)
{
	struct fsdp_json_token token;
	bool is_name = false;
	for (;;) {
		if (!fsdp_json_scan_next(scan, &token, ret_error))
			return false;
		if (token.kind == FSDP_SCAN_END || token.kind == FSDP_SCAN_BAD ||
			token.kind == FSDP_SCAN_CUT)
			return true;
		if (is_name && token.kind == FSDP_SCAN_TEXT &&
			!take_text(finding, &token))
			return fsdp_arena_fail(finding->arena, ret_error);
		is_name = token.kind == FSDP_SCAN_KEY &&
			  fsdp_json_text_is(&token, FSDP_SPAN("name"));
	}
}

static bool fail_none(const struct finding_names *finding, struct fsdp_error **ret_error)
{
	bool fsdp1 = false, fsdp2 = false;
	for (int i = FSDP_UNIT_NONE + 1; i < FSDP_UNIT_KINDS; i++) {
		fsdp2 |= finding->kinds[i] && i < FSDP_UNIT1_FORWARD;
		fsdp1 |= finding->kinds[i] && i >= FSDP_UNIT1_FORWARD;
	}
	fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN, "%s",
		fsdp2 ? "the units in this trace have no names: PyTorch writes them since 2.5"
		: fsdp1 ? "FSDP1 writes no names of units into traces"
			: "no annotation of FSDP is in this trace");
	fsdp_error_add_kind(ret_error, "no_units");
	return fsdp_error_add_hint(ret_error,
		"give a log in which the model was printed, or export a plan: fsdp-inspect help plan");
}

bool fsdp_trace_unit_names(struct fsdp_stream *stream, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_vec *ret_names,
	struct fsdp_error **ret_error)
{
	struct finding_names finding = { .arena = arena, .names = ret_names };
	struct fsdp_json_scan scan = { 0 };
	bool has_mark;
	fsdp_vec_init(ret_names, arena, sizeof(struct fsdp_span));
	if (!fsdp_names_init(&finding.seen, arena))
		return fsdp_arena_fail(arena, ret_error);
	bool good =
		fsdp_json_scan_init(&scan, fsdp_stream_refill, stream, limits, ret_error);
	scan.lenient = true;
	good = good && fsdp_kineto_pass_mark(&scan, &has_mark, ret_error) &&
	       scan_names(&finding, &scan, ret_error);
	fsdp_json_scan_done(&scan);
	if (good && !finding.kinds[FSDP_UNIT_ALL_GATHER])
		return fail_none(&finding, ret_error);
	return good;
}
