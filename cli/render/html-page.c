/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a page that are always the same. Digests of the styles stand in its policy,
 * which allows nothing else; a test in pictures.bats keeps them right.
 */
#include "render/html-page.h"

/* clang-format off */
static const char *const head[] = {
	"<!DOCTYPE html>",
	"<html lang=\"en\">",
	"<head>",
	"<meta charset=\"utf-8\">",
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-0NAN23Ch0K2dk11idkd8SMXByuJ1X9N0vsrFQsLyqms=' 'sha256-hLphYW5nJ9Vdg2EarKdZ4Ty81IfN6Fi++2zSny3F1iA='; base-uri 'none'; form-action 'none'\">",
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
};

static const char *const style[] = {
	"<style>",
	":root { color-scheme: light dark; --ink: #1c2126; --back: #fff; --line: #d4d9de; --dim: #59636e; --accent: #1f6feb }",
	"@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --back: #16191d; --line: #3a424b; --dim: #9aa5b1; --accent: #6ea8fe } }",
	"body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 76rem; margin: 0 auto; padding: 1rem }",
	"h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.15rem; margin-top: 2rem }",
	"dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem } dt { color: var(--dim) } dd { margin: 0; overflow-wrap: anywhere }",
	"p { margin: .3rem 0; overflow-wrap: anywhere; white-space: pre-wrap } .inputs { list-style: none; margin: .3rem 0; padding: 0; font-weight: 600; overflow-wrap: anywhere } pre, table, .parts { font-family: ui-monospace, monospace; font-size: .85rem }",
	".wide { overflow-x: auto; margin: .6rem 0 } .wide:focus-visible, summary:focus-visible { outline: 2px solid var(--accent) }",
	"table { border-collapse: collapse } th, td { text-align: left; padding: .15rem .7rem .15rem 0; border-bottom: 1px solid var(--line); vertical-align: top }",
	"th { color: var(--dim) } td.n, th.n, span.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } span.n { display: inline-block; min-width: 5.5rem }",
	".parts details, .parts p { margin: 0 0 0 1.1rem } summary { cursor: pointer } meter { width: 7rem; vertical-align: middle } .kind { color: var(--dim) }",
	"caption { text-align: left; color: var(--dim); padding: .3rem 0 } a { color: var(--accent) }",
	".zoom { display: none; margin: .6rem 0 } .zoom:target, .zoom:last-child { display: block } .zoom:target ~ .zoom:last-child { display: none }",
	".icicle { display: block; width: 100%; min-width: 40rem } .icicle text { font: 12px ui-monospace, monospace; fill: #1c2126; pointer-events: none } .icicle a:focus-visible rect { stroke: var(--ink); stroke-width: 2 }",
	".t0 { fill: #b9d3f5 } .t1 { fill: #bfe3d0 } .t2 { fill: #f3dfb5 } .t3 { fill: #e3d2f0 } .u { stroke: var(--accent); stroke-width: 1.5 }",
	"td[class*=\" h\"] { padding-left: .4rem; print-color-adjust: exact } .h1, .h2 { background: #3b7dd818 } .h3, .h4 { background: #3b7dd830 } .h5, .h6 { background: #3b7dd84d } .h7 { background: #3b7dd866 } .h8 { background: #3b7dd880 }",
	".error { color: #cf222e } .warning { color: #9a6700 } .note { color: var(--dim) }",
	"@media (prefers-color-scheme: dark) { .error { color: #ff8f87 } .warning { color: #e3b341 } }",
	"@media (max-width: 40rem) { dl { grid-template-columns: 1fr } dt { margin-top: .4rem } meter { width: 3rem } }",
	"@media print { body { max-width: none; padding: 0 } .wide { overflow: visible } }",
	"</style>",
	"</head>",
	"<body>",
};
/* clang-format on */

static void put_lines(struct writer *to, const char *const *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		writer_text(to, lines[i]);
		writer_char(to, '\n');
	}
}

void html_page_head(struct writer *to)
{
	put_lines(to, head, sizeof head / sizeof *head);
}

void html_page_style(struct writer *to)
{
	put_lines(to, style, sizeof style / sizeof *style);
}
