/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bytes of a file or of a folder say, and an audit with that: the first byte
 * says which level, and whether the others are a file or a list of files (tar.h). On
 * several threads the same is said as on one.
 */
#include <fsdp/audit.h>

#include "base/span.h"
#include "tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VALUES = 1, FOLDER = 2, JOBS = 3 };

static struct fsdp_verify *verify_on(
	const struct walk *walk, enum fsdp_level level, unsigned jobs)
{
	const struct fsdp_verify_options options = {
		.size = sizeof options, .level = level, .jobs = jobs
	};
	struct fsdp_verify *verify = NULL;
	struct fsdp_error *error = NULL;
	if (!fsdp_verify_new(walk->checkpoint, &options, &verify, &error)) {
		must(error != NULL && *fsdp_error_message(error) != '\0');
		fsdp_error_free(error);
		return NULL;
	}
	return verify;
}

static void compare_findings(
	struct walk *walk, const struct fsdp_verify *one, const struct fsdp_verify *many)
{
	size_t count = fsdp_verify_finding_count(one);
	must(count == fsdp_verify_finding_count(many));
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_finding *a = fsdp_verify_finding(one, i);
		const struct fsdp_finding *b = fsdp_verify_finding(many, i);
		must(a->rule == b->rule && a->offset == b->offset &&
			fsdp_span_equal(a->message, b->message));
		walk_span(walk, a->file);
		walk_span(walk, a->member);
		walk_span(walk, a->tensor);
	}
}

static void compare_values(const struct walk *walk, const struct fsdp_verify *one,
	const struct fsdp_verify *many)
{
	for (uint32_t i = 0; i < fsdp_tensor_count(walk->checkpoint); i++) {
		struct fsdp_verify_values a = fsdp_verify_values(one, i);
		struct fsdp_verify_values b = fsdp_verify_values(many, i);
		must(a.known == b.known && a.count == b.count && a.nan == b.nan &&
			a.zeros == b.zeros && a.digest[0] == b.digest[0] &&
			a.digest[1] == b.digest[1]);
		must(memcmp(&a.sum, &b.sum, sizeof a.sum) == 0 &&
			memcmp(&a.squares, &b.squares, sizeof a.squares) == 0);
		must(!a.known || a.finite == 0 || (a.min <= a.max && a.squares >= 0));
		must(a.finite + a.nan + a.pos_inf + a.neg_inf == a.count);
	}
}

static void walk_verify(struct walk *walk, enum fsdp_level level)
{
	struct fsdp_verify *one = verify_on(walk, level, 1);
	struct fsdp_verify *many = verify_on(walk, level, JOBS);
	must((one == NULL) == (many == NULL));
	if (one != NULL) {
		struct fsdp_verify_coverage scope = fsdp_verify_coverage(one);
		must(scope.bytes_read <= scope.bytes &&
			scope.bytes_with_digest <= scope.bytes_read);
		compare_findings(walk, one, many);
		compare_values(walk, one, many);
		walk_audit(walk, level, one);
	}
	fsdp_verify_free(one);
	fsdp_verify_free(many);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how = size != 0 ? data[0] : 0;
	struct walk walk = { 0 };
	struct walk_file file;
	if (size == 0)
		return 0;
	if ((how & FOLDER) != 0) {
		struct tar tar = tar_list(data + 1, size - 1);
		file = tar_file(&tar);
	} else {
		file = walk_file_new(data + 1, size - 1);
	}
	if (walk_begin(&walk, file.path, NULL, false)) {
		walk_verify(
			&walk, (how & VALUES) != 0 ? FSDP_LEVEL_VALUES : FSDP_LEVEL_DATA);
		fsdp_checkpoint_free(walk.checkpoint);
	}
	close(file.fd);
	return 0;
}
