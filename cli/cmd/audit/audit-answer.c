/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of audit: verdicts, and the checks that were made.
 */
#include <stdlib.h>

#include "cmd/audit/audit.h"
#include "session/diagnostics.h"
#include "session/session.h"

void audit_done(struct audit *audit)
{
	for (size_t i = 0; i < audit->count; i++) {
		free(audit->judgements[i].checks);
		free(audit->judgements[i].digests_from);
		loading_done(&audit->judgements[i].loading);
	}
	free(audit->judgements);
	levels_done(&audit->levels);
	expectation_done(&audit->expected);
	expectation_done(&audit->merged);
	fsdp_map_free(audit->map);
	typed_names_done(&audit->sizes);
	selection_free(audit->ignored);
}

/* Of several checkpoints each check says whose it is. */
static void tell_inputs(struct audit *audit)
{
	for (size_t i = 0; audit->count > 1 && i < audit->count; i++)
		for (size_t k = 0; k < audit->judgements[i].check_count; k++)
			audit->judgements[i].checks[k].input = audit->judgements[i].input;
}

static const char *why_skipped(const struct check *check)
{
	if (check->status == CHECK_OFF)
		return "off";
	return check->status == FSDP_STATUS_NOT_EVALUATED
		       ? fsdp_rule_reason_name((enum fsdp_rule_reason)check->reason)
		       : NULL;
}

/* For outputs that show findings alone. */
static bool hand_out_checks(const struct audit *audit, struct collected *collected)
{
	size_t each = audit->count > 0 ? audit->judgements[0].check_count : 0;
	struct check_result *to = calloc(audit->count * each + 1, sizeof *to);

	if (to == NULL)
		return false;
	collected->checks = to;
	collected->fail_on = audit->fail_on;
	collected->never_fails = audit->never_fails;
	for (size_t i = 0; i < audit->count; i++)
		for (size_t k = 0; k < audit->judgements[i].check_count; k++) {
			const struct check *check = &audit->judgements[i].checks[k];

			to[collected->check_count++] = (struct check_result){
				.input = audit->judgements[i].input,
				.rule = check->rule,
				.slug = check->slug,
				.skipped = why_skipped(check),
				.left_out = check->status == FSDP_STATUS_NOT_APPLICABLE,
				.findings = check->findings,
			};
		}
	return true;
}

bool audit_answer(struct audit *audit, struct run *run)
{
	int status = STATUS_GOOD;

	if (!findings_sort(run->collected->findings, run->collected->finding_count) ||
		!hand_out_checks(audit, run->collected))
		return false;
	for (size_t i = 0; i < audit->count; i++)
		status = status_worse(status, audit->judgements[i].status);
	tell_inputs(audit);
	run_begin(run, status);
	audit_data(audit, run->out);
	return audit_text(audit, run);
}
