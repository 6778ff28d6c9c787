/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_HTML_PAGE_H
#define RENDER_HTML_PAGE_H

#include "render/writer.h"

/* What stands on each page before the title, and behind it up to the body. The policy in
 * the head names the styles by their digests and allows nothing else. */
void html_page_head(struct writer *to);
void html_page_style(struct writer *to);

#endif
