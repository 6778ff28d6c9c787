/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads lines of sha256sum.
 */
#include "base/characters.h"
#include "syntax/sha256-line.h"

bool fsdp_sha256_digits(
	struct fsdp_span text, unsigned char ret_sha256[FSDP_SHA256_DIGEST])
{
	if (text.size < FSDP_SHA256_HEX)
		return false;
	const unsigned char *at = text.data, *end = at + text.size;
	for (size_t i = 0; i < FSDP_SHA256_DIGEST; i++) {
		uint32_t byte;
		if (!fsdp_hex_take(&at, end, 2, &byte))
			return false;
		ret_sha256[i] = (unsigned char)byte;
	}
	return true;
}

bool fsdp_sha256_line_next(struct fsdp_span *text, struct fsdp_span *ret_line)
{
	if (text->size == 0)
		return false;
	struct fsdp_span line = fsdp_span_first(*text, '\n');
	size_t skip = line.size < text->size ? line.size + 1 : line.size;
	*text = fsdp_span(text->data + skip, text->size - skip);
	if (fsdp_span_ends(line, FSDP_SPAN("\r")))
		line.size--;
	*ret_line = line;
	return true;
}

bool fsdp_sha256_line_read(struct fsdp_span line, struct fsdp_sha256_line *ret_line)
{
	ret_line->escaped = fsdp_span_begins(line, FSDP_SPAN("\\"));
	if (ret_line->escaped)
		line = fsdp_span(line.data + 1, line.size - 1);
	if (line.size < FSDP_SHA256_HEX + 3 ||
		!fsdp_sha256_digits(line, ret_line->sha256) ||
		line.data[FSDP_SHA256_HEX] != ' ' ||
		(line.data[FSDP_SHA256_HEX + 1] != ' ' &&
			line.data[FSDP_SHA256_HEX + 1] != '*'))
		return false;
	ret_line->name = fsdp_span(
		line.data + FSDP_SHA256_HEX + 2, line.size - FSDP_SHA256_HEX - 2);
	return true;
}

struct fsdp_span fsdp_sha256_unescape(
	const struct fsdp_sha256_line *line, unsigned char *room)
{
	struct fsdp_span name = line->name;
	size_t size = 0;
	for (size_t i = 0; i < name.size; i++) {
		unsigned char byte = name.data[i];
		if (line->escaped && byte == '\\' && i + 1 < name.size) {
			i++;
			byte = name.data[i] == 'n'   ? '\n'
			       : name.data[i] == 'r' ? '\r'
						     : name.data[i];
		}
		room[size++] = byte;
	}
	name = fsdp_span(room, size);
	while (fsdp_span_begins(name, FSDP_SPAN("./")))
		name = fsdp_span(name.data + 2, name.size - 2);
	return name;
}
