/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a line of a log says of a printed model.
 */
#include "base/num.h"
#include "syntax/printed.h"

/* Of a name in Python, which may have letters of any script. */
static bool begins_word(unsigned char c)
{
	return c == '_' || c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool continues_word(unsigned char c)
{
	return begins_word(c) || fsdp_is_digit(c);
}

static struct fsdp_span behind(struct fsdp_span text, size_t size)
{
	return fsdp_span(text.data + size, text.size - size);
}

static size_t count_digits(struct fsdp_span text)
{
	size_t count = 0;
	while (count < text.size && fsdp_is_digit(text.data[count]))
		count++;
	return count;
}

/* A number of at most 18 digits; how many it has, 0: none. */
static size_t take_number(struct fsdp_span text, uint64_t *ret_number)
{
	size_t count = count_digits(text);
	if (count > 18)
		return 0;
	*ret_number = 0;
	for (size_t i = 0; i < count; i++)
		*ret_number = *ret_number * 10 + (uint64_t)(text.data[i] - '0');
	return count;
}

/* ---- children ---- */

/* `CLASS(`. */
static bool take_class(struct fsdp_span text, struct fsdp_printed_child *child)
{
	size_t size = 0;
	while (size < text.size && continues_word(text.data[size]))
		size++;
	if (size == 0 || size == text.size || !begins_word(text.data[0]) ||
		text.data[size] != '(')
		return false;
	child->class_name = fsdp_span(text.data, size);
	child->is_open = size + 1 == text.size;
	return true;
}

/* `N x CLASS(`. */
static bool take_run(struct fsdp_span text, struct fsdp_printed_child *child)
{
	size_t digits = count_digits(text);
	return digits != 0 && fsdp_span_begins(behind(text, digits), FSDP_SPAN(" x ")) &&
	       take_class(behind(text, digits + 3), child);
}

/* The bounds of "0-31". */
static bool take_bounds(struct fsdp_printed_child *child)
{
	size_t digits = take_number(child->name, &child->first);
	if (digits == 0 || digits == child->name.size || child->name.data[digits] != '-')
		return false;
	struct fsdp_span rest = behind(child->name, digits + 1);
	digits = take_number(rest, &child->last);
	return digits != 0 && digits == rest.size && child->first <= child->last;
}

/* PyTorch takes no name with a dot, and no empty one. */
static bool is_name(struct fsdp_span name)
{
	return name.size != 0 && memchr(name.data, '.', name.size) == NULL &&
	       memchr(name.data, '\0', name.size) == NULL;
}

/* A name may hold brackets and colons: it ends at the first "): " that a class follows. */
bool fsdp_printed_child(struct fsdp_span text, struct fsdp_printed_child *ret_child)
{
	static const char end[] = "): ";
	const unsigned char *at = text.data, *stop = text.data + text.size;
	if (text.size == 0 || text.data[0] != '(')
		return false;
	while ((at = memmem(at, (size_t)(stop - at), end, sizeof end - 1)) != NULL) {
		struct fsdp_printed_child child = {
			.name = fsdp_span(text.data + 1, (size_t)(at - text.data) - 1)
		};
		struct fsdp_span rest = behind(text, (size_t)(at - text.data) + 3);
		bool run = take_run(rest, &child);
		at++;
		if (!run && !take_class(rest, &child))
			continue;
		child.is_run = run && take_bounds(&child);
		*ret_child = child;
		return is_name(child.name);
	}
	return false;
}

/* Where the two blanks in front of a child are, or NULL. */
static const unsigned char *find_child(struct fsdp_span line)
{
	static const char begin[] = "  (";
	const unsigned char *at = line.data, *stop = line.data + line.size;
	struct fsdp_printed_child child;
	for (; line.size != 0 &&
		(at = memmem(at, (size_t)(stop - at), begin, sizeof begin - 1)) != NULL;
		at++)
		if (fsdp_printed_child(
			    fsdp_span(at + 2, (size_t)(stop - at) - 2), &child))
			return at;
	return NULL;
}

/* ---- heads and margins ---- */

bool fsdp_printed_head(
	struct fsdp_span line, struct fsdp_span *ret_before, struct fsdp_span *ret_class)
{
	struct fsdp_printed_child child;
	if (line.size < 2 || line.data[line.size - 1] != '(')
		return false;
	size_t begin = line.size - 1;
	while (begin != 0 && continues_word(line.data[begin - 1]))
		begin--;
	while (begin < line.size - 1 && !begins_word(line.data[begin]))
		begin++;
	if (begin == line.size - 1 || fsdp_printed_child(line, &child) ||
		find_child(line) != NULL)
		return false;
	*ret_before = fsdp_span(line.data, begin);
	*ret_class = fsdp_span(line.data + begin, line.size - 1 - begin);
	return true;
}

bool fsdp_printed_alike(struct fsdp_span a, struct fsdp_span b)
{
	while (a.size != 0 && b.size != 0) {
		size_t digits = count_digits(a), others = count_digits(b);
		if ((digits != 0) != (others != 0) ||
			(digits == 0 && a.data[0] != b.data[0]))
			return false;
		a = behind(a, digits != 0 ? digits : 1);
		b = behind(b, others != 0 ? others : 1);
	}
	return a.size == 0 && b.size == 0;
}

static bool is_blank(struct fsdp_span text)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] != ' ' && text.data[i] != '\t')
			return false;
	return true;
}

bool fsdp_printed_margin(
	struct fsdp_span line, struct fsdp_span before, struct fsdp_span *ret_margin)
{
	const unsigned char *child = find_child(line);
	if (child == NULL)
		return false;
	*ret_margin = fsdp_span(line.data, (size_t)(child - line.data));
	return is_blank(*ret_margin) || fsdp_printed_alike(before, *ret_margin);
}

bool fsdp_printed_strip(
	struct fsdp_span line, struct fsdp_span margin, struct fsdp_span *ret_text)
{
	if (is_blank(margin)) {
		size_t size = margin.size < line.size ? margin.size : line.size;
		if (!is_blank(fsdp_span(line.data, size)))
			return false;
		*ret_text = behind(line, size);
		return true;
	}
	while (margin.size != 0) {
		size_t digits = count_digits(margin), others = count_digits(line);
		if ((digits != 0) != (others != 0) || line.size == 0 ||
			(digits == 0 && margin.data[0] != line.data[0]))
			return false;
		margin = behind(margin, digits != 0 ? digits : 1);
		line = behind(line, others != 0 ? others : 1);
	}
	*ret_text = line;
	return true;
}

/* ---- around a line ---- */

/* How many bytes a colour has that begins here, or 0. */
static size_t count_colour(struct fsdp_span text)
{
	size_t size = 2;
	if (text.size < 3 || text.data[0] != 0x1b || text.data[1] != '[')
		return 0;
	while (size < text.size &&
		(fsdp_is_digit(text.data[size]) || text.data[size] == ';'))
		size++;
	if (size == text.size || !begins_word(text.data[size]) ||
		text.data[size] >= 0x80 || text.data[size] == '_')
		return 0;
	return size + 1;
}

size_t fsdp_printed_plain(unsigned char *line, size_t size)
{
	size_t to = 0;
	if (size != 0 && memchr(line, 0x1b, size) != NULL) {
		for (size_t at = 0; at < size;) {
			size_t colour = count_colour(fsdp_span(line + at, size - at));
			if (colour == 0)
				line[to++] = line[at];
			at += colour != 0 ? colour : 1;
		}
		size = to;
	}
	while (size != 0 && line[size - 1] == '\r')
		size--;
	return size;
}

bool fsdp_printed_rank(
	struct fsdp_span line, uint32_t *ret_rank, struct fsdp_span *ret_rest)
{
	struct fsdp_span rest;
	uint64_t rank;
	if (!fsdp_span_behind(line, "[", &rest))
		return false;
	if (!fsdp_span_behind(rest, "rank", &rest))
		(void)fsdp_span_behind(rest, "default", &rest);
	size_t digits = take_number(rest, &rank);
	if (digits == 0 || rank >= FSDP_NONE ||
		!fsdp_span_behind(behind(rest, digits), "]:", &rest))
		return false;
	*ret_rank = (uint32_t)rank;
	*ret_rest = rest;
	return true;
}

bool fsdp_printed_is_fsdp(struct fsdp_span class_name)
{
	struct fsdp_span rest;
	return fsdp_span_is(class_name, "FullyShardedDataParallel") ||
	       (fsdp_span_behind(class_name, "FSDP", &rest) && rest.size != 0 &&
		       rest.data[0] >= 'A' && rest.data[0] <= 'Z');
}
