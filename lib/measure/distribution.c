/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins what runs of numbers come to, without loss where they lie close together.
 *
 * Origin: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing
 * sample variances", 1979.
 */
#include <math.h>

#include <fsdp/statistics.h>

uint64_t fsdp_distribution_finite(const struct fsdp_distribution *numbers)
{
	return numbers->count - numbers->nan - numbers->pos_inf - numbers->neg_inf;
}

static void join_finite(
	struct fsdp_distribution *numbers, const struct fsdp_distribution *more)
{
	double before = (double)fsdp_distribution_finite(numbers);
	double behind = (double)fsdp_distribution_finite(more);
	double apart = more->mean - numbers->mean, all = before + behind;
	numbers->min = more->min < numbers->min ? more->min : numbers->min;
	numbers->max = more->max > numbers->max ? more->max : numbers->max;
	numbers->squares += more->squares + apart * apart * (before / all * behind);
	numbers->mean += apart * (behind / all);
}

void fsdp_distribution_join(
	struct fsdp_distribution *numbers, const struct fsdp_distribution *more)
{
	if (fsdp_distribution_finite(numbers) == 0) {
		numbers->min = more->min;
		numbers->max = more->max;
		numbers->mean = more->mean;
		numbers->squares = more->squares;
	} else if (fsdp_distribution_finite(more) != 0) {
		join_finite(numbers, more);
	}
	numbers->count += more->count;
	numbers->nan += more->nan;
	numbers->pos_inf += more->pos_inf;
	numbers->neg_inf += more->neg_inf;
	numbers->zeros += more->zeros;
}

double fsdp_distribution_deviation(const struct fsdp_distribution *numbers)
{
	uint64_t finite = fsdp_distribution_finite(numbers);
	return finite != 0 ? sqrt(numbers->squares / (double)finite) : 0;
}
