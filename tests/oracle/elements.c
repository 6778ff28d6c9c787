/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elements PATH [PLAN]: the elements of every tensor of a checkpoint, as the library
 * assembles them. A line "ok BYTES NAME" or "no 0 NAME: WHY", the name in hexadecimal,
 * then the bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

static void die(const struct fsdp_error *error)
{
	fprintf(stderr, "%s\n", fsdp_error_message(error));
	exit(fsdp_error_code(error) == FSDP_ERROR_UNSUPPORTED ? 3 : 2);
}

static void print_head(const struct fsdp_checkpoint *checkpoint, const char *word,
	size_t size, uint32_t name)
{
	char text[4096];
	size_t length = fsdp_name_write(checkpoint, name, text, sizeof text);

	printf("%s %zu ", word, size);
	for (size_t i = 0; i < length && i < sizeof text; i++)
		printf("%02x", (unsigned char)text[i]);
}

static unsigned char *gather(
	struct fsdp_elements *elements, size_t *ret_size, struct fsdp_error **ret_error)
{
	unsigned char *all = NULL;
	struct fsdp_span bytes;

	*ret_size = 0;
	while (fsdp_elements_next(elements, &bytes, ret_error)) {
		if (bytes.size == 0)
			return all != NULL ? all : malloc(1);
		all = realloc(all, *ret_size + bytes.size);
		memcpy(all + *ret_size, bytes.data, bytes.size);
		*ret_size += bytes.size;
	}
	free(all);
	return NULL;
}

static void print_tensor(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_locator *locator, uint32_t i)
{
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.resolve = true,
	};
	struct fsdp_elements *elements = NULL;
	struct fsdp_error *error = NULL;
	uint32_t name = fsdp_tensor(checkpoint, i).raw_name;
	unsigned char *bytes = NULL;
	size_t size = 0;

	if (fsdp_elements_open(locator, i, &options, &elements, &error))
		bytes = gather(elements, &size, &error);
	print_head(checkpoint, bytes != NULL ? "ok" : "no", size, name);
	printf("%s%s\n", bytes != NULL ? "" : ": ",
		bytes != NULL ? "" : fsdp_error_message(error));
	if (bytes != NULL)
		fwrite(bytes, 1, size, stdout);
	free(bytes);
	fsdp_elements_close(elements);
	fsdp_error_free(error);
}

int main(int count, char **arguments)
{
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_locator *locator = NULL;
	struct fsdp_error *error = NULL;
	const char *path = count > 1 ? arguments[1] : "";
	const struct fsdp_options options = {
		.size = sizeof options,
		.plan_path = count > 2 ? arguments[2] : NULL,
	};

	if (!fsdp_checkpoint_open(&path, 1, &options, &checkpoint, &error) ||
		!fsdp_locator_new(checkpoint, &locator, &error))
		die(error);
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++)
		print_tensor(checkpoint, locator, i);
	fsdp_locator_free(locator);
	fsdp_checkpoint_free(checkpoint);
	return 0;
}
