/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More of the window, and what both readers of JSON note of a text.
 */
#include "base/num.h"
#include "syntax/json-bytes.h"
#include "syntax/json-internal.h"

enum fetched fsdp_json_more(struct fsdp_json_scan *scan)
{
	enum { LOOK_BACK = 128 }; /* what a resync looks at before a brace */
	if (scan->window.ended)
		return FETCHED_NONE;
	size_t from = (size_t)fsdp_min(scan->mark, scan->hold);
	from = from > LOOK_BACK ? from - LOOK_BACK : 0;
	size_t before = scan->window.size - from;
	bool good = fsdp_window_more(&scan->window, from, scan->error);
	scan->at -= from;
	scan->mark -= from;
	if (scan->hold != SIZE_MAX)
		scan->hold -= from;
	return !good                        ? FETCHED_FAILED
	       : scan->window.size > before ? FETCHED_SOME
					    : FETCHED_NONE;
}

int fsdp_json_peek_slowly(struct fsdp_json_scan *scan, bool forget)
{
	for (;;) {
		const unsigned char *from = scan->window.bytes + scan->at;
		scan->at += (size_t)(find_not_blank(from) - from);
		if (scan->at < scan->window.size)
			return scan->window.bytes[scan->at];
		scan->at = scan->window.size;
		if (forget)
			scan->mark = scan->at;
		enum fetched fetched = fsdp_json_more(scan);
		if (fetched != FETCHED_SOME)
			return fetched == FETCHED_NONE ? PEEK_END : PEEK_FAILED;
	}
}

void fsdp_json_odd(struct fsdp_json_scan *scan, enum fsdp_json_oddity oddity)
{
	scan->oddities[oddity]++;
	scan->oddity_sum++;
}

void fsdp_json_text_marks(struct fsdp_span text, struct text_marks *marks)
{
	*marks = (struct text_marks){ 0 };
	for (size_t i = 0; i < text.size; i++) {
		unsigned char c = text.data[i];
		marks->high |= c & 0x80;
		marks->control |= c < 0x20;
		if (c != '\\')
			continue;
		marks->escaped = true;
		/* What is behind the text can be read and is a quote. */
		size_t escape = escape_size(text.data + i);
		marks->bad_escape |= escape == 0 || escape > text.size - i;
		i += escape == 0 ? 1 : escape - 1;
	}
}
