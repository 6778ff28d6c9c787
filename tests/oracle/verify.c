/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bytes of a checkpoint say, as lines for tests:
 *
 *	verify headers|data|values JOBS PATH [MANIFEST]
 *
 *	finding	ID	SEVERITY	FILE	OFFSET	TENSOR	MESSAGE
 *	scope	FILES	BYTES	READ	COVERED	WITHOUT	UNREFERENCED
 *	status	ID	WORD
 *	values	NAME	COUNT	NAN	+INF	-INF	ZEROS	SUBNORMALS	MIN	MAX	SUM	SQUARES	DIGEST
 *	open	MESSAGE     it could not be opened; status 2
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/audit.h>

#include "audit/checking.h"

static void print_span(struct fsdp_span span)
{
	for (size_t i = 0; i < span.size; i++)
		putchar(span.data[i] < ' ' ? '?' : span.data[i]);
	putchar('\t');
}

static void print_finding(const struct fsdp_finding *finding)
{
	printf("finding\t%s\t%s\t", finding->rule->id,
		fsdp_severity_name(finding->severity));
	print_span(finding->file);
	printf("%" PRId64 "\t", (int64_t)finding->offset);
	print_span(finding->tensor);
	print_span(finding->message);
	putchar('\n');
}

static void print_findings(const struct fsdp_verify *verify)
{
	for (size_t i = 0; i < fsdp_verify_finding_count(verify); i++)
		print_finding(fsdp_verify_finding(verify, i));
}

/* What the checks of values add. */
static void print_checks(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_verify *verify)
{
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena, kept;
	struct fsdp_limits limits;
	struct fsdp_findings findings;
	fsdp_arena_init(&arena, &budget);
	fsdp_arena_init(&kept, &budget);
	fsdp_limits_init(&limits);
	fsdp_findings_init(&findings, &kept, &limits);
	struct fsdp_checking checking = { .checkpoint = checkpoint,
		.family = "",
		.verify = verify,
		.findings = &findings,
		.arena = &arena,
		.name = { .arena = &arena } };
	fsdp_check_values.run(&checking);
	for (size_t i = 0; i < findings.list.count; i++)
		print_finding(fsdp_vec_at(&findings.list, i));
	fsdp_arena_done(&arena);
	fsdp_arena_done(&kept);
}

static void print_statuses(const struct fsdp_verify *verify)
{
	struct fsdp_rule_result result;
	for (size_t i = 0; i < fsdp_rule_count(); i++)
		if (fsdp_verify_result(verify, i, &result))
			printf("status\t%s\t%s\n", result.rule->id,
				result.reason != FSDP_REASON_NONE
					? fsdp_rule_reason_name(result.reason)
					: fsdp_rule_status_name(result.status));
}

static void print_values(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_verify *verify)
{
	char name[4096];
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_verify_values values = fsdp_verify_values(verify, i);
		size_t size = fsdp_name_write(checkpoint,
			fsdp_tensor(checkpoint, i).raw_name, name, sizeof name);
		if (!values.known)
			continue;
		printf("values\t%.*s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
		       "\t%" PRIu64 "\t%" PRIu64
		       "\t%.17g\t%.17g\t%.17g\t%.17g\t%016" PRIx64 "%016" PRIx64
		       "-%" PRIx64 "\t%d\n",
			(int)size, name, values.count, values.nan, values.pos_inf,
			values.neg_inf, values.zeros, values.subnormals, values.min,
			values.max, values.sum, values.squares, values.digest[0],
			values.digest[1], values.layout, values.constant);
	}
}

int main(int argc, char **argv)
{
	struct fsdp_verify_options options = { .size = sizeof options };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_verify *verify = NULL;
	struct fsdp_error *error = NULL;
	if (argc < 4)
		return 64;
	while (options.level < FSDP_LEVEL_ANY &&
		strcmp(argv[1], fsdp_level_name(options.level)) != 0)
		options.level++;
	options.jobs = (unsigned)atoi(argv[2]);
	options.manifest_path = argc > 4 ? argv[4] : NULL;
	const char *paths[] = { argv[3] };
	bool good = fsdp_checkpoint_open(paths, 1, NULL, &checkpoint, &error) &&
		    fsdp_verify_new(checkpoint, &options, &verify, &error);
	if (good) {
		struct fsdp_verify_coverage scope = fsdp_verify_coverage(verify);
		print_findings(verify);
		print_checks(checkpoint, verify);
		printf("scope\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
		       "\t%" PRIu64 "\t%" PRIu64 "\n",
			scope.files, scope.bytes, scope.bytes_read,
			scope.bytes_with_digest, scope.payload_without,
			scope.unreferenced);
		print_statuses(verify);
		print_values(checkpoint, verify);
	} else {
		printf("open\t%s\n", fsdp_error_message(error));
	}
	fsdp_error_free(error);
	fsdp_verify_free(verify);
	fsdp_checkpoint_free(checkpoint);
	return good ? 0 : 2;
}
