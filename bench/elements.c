/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-elements CHECKPOINT: puts every tensor together and says the sum of all bytes,
 * taken as 64-bit words.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <fsdp/elements.h>

static uint64_t add_up(struct fsdp_span bytes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i + 8 <= bytes.size; i += 8) {
		uint64_t word;
		memcpy(&word, bytes.data + i, 8);
		sum += word;
	}
	return sum;
}

static bool add_tensor(struct fsdp_locator *locator, uint32_t tensor, uint64_t *sum,
	struct fsdp_error **ret_error)
{
	struct fsdp_elements *elements;
	struct fsdp_span bytes = { NULL, 1 };
	bool good = fsdp_elements_open(locator, tensor, NULL, &elements, ret_error);

	if (!good)
		return false;
	while (good && bytes.size != 0) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (good)
			*sum += add_up(bytes);
	}
	fsdp_elements_close(elements);
	return good;
}

int main(int count, char **arguments)
{
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_locator *locator = NULL;
	struct fsdp_error *error = NULL;
	const char *path = count > 1 ? arguments[1] : "";
	uint64_t sum = 0;
	bool good = fsdp_checkpoint_open(&path, 1, NULL, &checkpoint, &error) &&
		    fsdp_locator_new(checkpoint, &locator, &error);

	for (uint32_t i = 0; good && i < fsdp_tensor_count(checkpoint); i++)
		good = add_tensor(locator, i, &sum, &error);
	if (good)
		printf("%" PRIu64 "\n", sum);
	else
		fprintf(stderr, "%s\n", fsdp_error_message(error));
	fsdp_locator_free(locator);
	fsdp_checkpoint_free(checkpoint);
	fsdp_error_free(error);
	return good ? 0 : 1;
}
