#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each law is shown small trees: ones that break it, which it must name by file and
line, and the nearest ones that do not, which it must let pass. Prints TAP."""

import json
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

import budgets
import formatting
import headers
import includes
import law
import links
import manual
import mutants
import prose
import provenance
import reach
import references
import rules
import samples
import schemas
import symbols
import tags
import messages
import words

# Of a case that is one empty file, testdata/a/b/f.
EMPTY_CASE = hashlib.sha256(f"a/b/f {hashlib.sha256(b'').hexdigest()}\n".encode()).hexdigest()
ROW = f"a/b\tnothing\thand\tApache-2.0\t{EMPTY_CASE}\n"
LATER = "/* TO" + "DO */\n"
EXAMPLE = "/**\n * A.\n *\n * Example (a):\n *\n" + " *     int b;\n" * 9 + " *\n * It prints:\n *\n *     1\n */\n"
MUTATED = "int a(int b)\n{\n\treturn b < 2;\n}\n"
CLANG_FORMAT = "---\nBasedOnStyle: LLVM\nIndentWidth: 8\n...\n"


def mdoc(name, *items):
    tags = "".join(f".It {item}\nIs explained.\n" for item in items)
    return (
        f".Dd November 21, 2026\n.Dt {name.upper()} 1\n.Os\n.Sh NAME\n.Nm {name}\n.Nd a page\n"
        f".Sh OPTIONS\n.Bl -tag -width Ds\n{tags}.El\n"
    )


MANUAL = {
    "man/fsdp-inspect.1": mdoc("fsdp-inspect", "Fl h , Fl -help"),
    "man/fsdp-inspect-ls.1": mdoc("fsdp-inspect-ls", "Fl d , Fl -depth Ns = Ns Ar N"),
}


def table(*names):
    return [{"name": "ls", "options": [{"name": name} for name in names]}]


def drift(*names):
    return lambda root: manual.drift(root, table(*names))


def schema(command="ls", end="x", **fields):
    """The smallest schema that is lawful, with more properties of data."""
    return json.dumps({
        "$schema": schemas.DRAFT,
        "$id": f"urn:fsdp-inspect:schema:{command}:1",
        "required": ["schema"],
        "properties": {
            "schema": {"const": f"fsdp-inspect.{command}"},
            "data": {"description": "d", "properties": {"end": {"$ref": "#/$defs/end"}, **fields}},
        },
        "$defs": {"end": {"description": end}},
    })


def documents(root):
    """The law of schemas about files that stand for what is printed."""
    return schemas.check({name: law.text(root, name) for name in sorted(os.listdir(root))})


def archive(root):
    """symbols.check of what root/x.c compiles to."""
    where = os.path.join(root, "x")
    subprocess.run(["cc", "-c", where + ".c", "-o", where + ".o"], check=True)
    subprocess.run(["ar", "rcs", where + ".a", where + ".o"], check=True)
    return symbols.check(where + ".a")


def linked(root):
    """links.check of all sources below root."""
    archives = []
    for folder in ("lib", "cli"):
        where = os.path.join(root, folder + ".a")
        for path in law.tracked(os.path.join(root, folder)):
            if path.endswith(".c"):
                made = os.path.join(root, path.replace("/", "_") + ".o")
                subprocess.run(["cc", "-c", os.path.join(root, folder, path), "-o", made], check=True)
                subprocess.run(["ar", "rcs", where, made], check=True)
                archives = [*archives, where] if where not in archives else archives
    return links.check(root, archives)


def need(*programs):
    return all(shutil.which(program) for program in programs)


BASE, ZIP = "lib/base/arena.h", "lib/io/zip.h"

# law, runs here, tree, what each line of the verdict begins with (none: it passes).
CASES = [
    ("includes", includes.check, True, {BASE: "", ZIP: '#include "base/arena.h"\n'}, []),
    ("includes", includes.check, True,
     {BASE: '\n#include "io/zip.h"\n', ZIP: ""}, ["lib/base/arena.h:2: base may not include io"]),
    ("includes", includes.check, True,
     {"lib/checkpoint/freeze.c": '#include "syntax/pickle.h"\n', "lib/syntax/pickle.h": ""},
     ["lib/checkpoint/freeze.c:1: model may not include syntax"]),
    ("includes", includes.check, True,
     {"lib/checkpoint/freeze.c": '#include "../syntax/pickle.h"\n', "lib/syntax/pickle.h": ""},
     ["lib/checkpoint/freeze.c:1: an include names its module"]),
    ("includes", includes.check, True,
     {"lib/formats/dcp/dcp.c": '#include "formats/zip.h"\n', "lib/formats/zip.h": ""},
     ["lib/formats/dcp/dcp.c:1: a part of lib/formats may not include another"]),
    ("includes", includes.check, True,
     {"lib/formats/dcp/dcp.c": '#include "formats/torch/torch.h"\n#include "formats/dcp/dcp.h"\n',
      "lib/formats/dcp/dcp.h": "", "lib/formats/torch/torch.h": ""}, []),
    ("includes", includes.check, True,
     {"lib/checkpoint/open.c": '#include "formats/format.h"\n#include <fsdp/model.h>\n', "lib/formats/format.h": ""}, []),
    ("includes", includes.check, True,
     {"lib/model/flat.h": "", "lib/trace/flat.h": "", "lib/include/fsdp/flat.h": ""},
     ["lib/trace/flat.h:1: lib/model/flat.h has this name already"]),
    ("includes", includes.check, True,
     {"lib/io/zip.c": "#include <fsdp/model.h>\n"}, ["lib/io/zip.c:1: io may not include model"]),
    ("includes", includes.check, True,
     {"lib/include/fsdp/a.h": '#include "base/arena.h"\n', BASE: ""},
     ["lib/include/fsdp/a.h:1: a public header"]),
    ("includes", includes.check, True,
     {"lib/aggregate/a.c": '#include <fsdp/model.h>\n#include "base/arena.h"\n#include "checkpoint/model.h"\n',
      "lib/checkpoint/model.h": "", BASE: ""},
     ["lib/aggregate/a.c:3: aggregate includes model through"]),
    ("includes", includes.check, True,
     {"lib/checkpoint/open.c": '#include "audit/a.h"\n', "lib/audit/a.h": ""},
     ["lib/checkpoint/open.c:1: checkpoint may not include audit"]),
    ("includes", includes.check, True,
     {"lib/audit/verify.c": '#include "checkpoint/checkpoint-private.h"\n#include "checkpoint/opening.h"\n',
      "lib/checkpoint/checkpoint-private.h": "", "lib/checkpoint/opening.h": "",
      "lib/checkpoint/open.c": '#include "audit/verify-private.h"\n', "lib/audit/verify-private.h": ""},
     ["lib/checkpoint/open.c:1: checkpoint may not include verify",
      "lib/audit/verify.c:2: verify may not include lib/checkpoint/opening.h of checkpoint"]),
    ("includes", includes.check, True,
     {"cli/main.c": '#include "base/arena.h"\n', BASE: ""}, ["cli/main.c:1: "]),
    ("includes", includes.check, True,
     {"cli/commands/ls.c": '#include "commands/info-answer.h"\n', "cli/commands/info-answer.h": ""},
     ["cli/commands/ls.c:1: a part of cli/commands may not include another"]),
    ("includes", includes.check, True,
     {"cli/args/input.c": '#include "session/session.h"\n', "cli/session/session.h": ""},
     ["cli/args/input.c:1: cli/args may not include cli/session"]),
    ("includes", includes.check, True,
     {"cli/main.c": '#include <fsdp/model.h>\n#include "render/out.h"\n#include "args/parse.h"\n',
      "cli/render/out.h": '#include <stdio.h>\n#include "render/shape.h"\n',
      "cli/render/shape.h": "", "cli/args/parse.h": ""}, []),
    ("includes", includes.check, True,
     {"cli/render/out.c": '#include <fsdp/model.h>\n#include "args/parse.h"\n', "cli/args/parse.h": ""},
     ["cli/render/out.c:1: cli/render includes", "cli/render/out.c:2: cli/render may not include cli/args"]),
    ("includes", includes.check, True,
     {"lib/io/directory.c": "#include <zlib.h>\n"}, ["lib/io/directory.c:1: zlib"]),
    ("includes", includes.check, True, {"lib/io/inflate.c": "#include <zlib.h>\n"}, []),
    ("includes", includes.check, True,
     {"cli/main.c": "#include <openssl/evp.h>\n# include <pthread.h>\n#include <curl/curl.h>\n"},
     ["cli/main.c:1: libcrypto", "cli/main.c:2: threads", "cli/main.c:3: <curl/curl.h> is in no row"]),
    ("headers", headers.check, need("cc", "c++"),
     {"lib/include/fsdp/a.h": EXAMPLE + "struct a { int b; };\n"},
     ["lib/include/fsdp/a.h alone with cc", "lib/include/fsdp/a.h alone with c++"]),
    ("headers", headers.check, need("cc", "c++"),
     {"lib/include/fsdp/a.h": EXAMPLE + "#ifndef A\n#define A\nint a(int new_one);\n#endif\n"}, []),
    ("headers", headers.check, need("cc", "c++"),
     {"lib/include/fsdp/a.h": EXAMPLE + "#ifndef A\n#define A\nint a(int new);\n#endif\n"},
     ["lib/include/fsdp/a.h alone with c++"]),
    ("headers", lambda root: list(headers.teaches(root, "lib/include/fsdp/a.h")), True,
     {"lib/include/fsdp/a.h": "/* A. */\n#ifndef A\n#define A /* B. */\n#endif\n"},
     ["lib/include/fsdp/a.h: 1 of 4 lines are comment", "lib/include/fsdp/a.h: its first comment has no example"]),
    ("headers", lambda root: list(headers.teaches(root, "lib/include/fsdp/a.h")), True,
     {"lib/include/fsdp/a.h": EXAMPLE.replace(" *     int b;\n", "", 2)},
     ["lib/include/fsdp/a.h: its example has 7 lines"]),
    ("headers", lambda root: [line for line in headers.check(root) if "public" in line], need("cc", "c++"),
     {f"lib/include/fsdp/{name}.h": EXAMPLE for name in "abcdefghijklmno"}, ["lib/include: 15 public headers"]),
    ("symbols", archive, need("cc", "nm", "ar"),
     {"x.c": '#include <stdio.h>\n#include <stdlib.h>\nvoid fsdp_a(void) { printf("%d", 1); exit(1); }\n'},
     ["x.o: the library may not use exit", "x.o: the library may not use printf"]),
    ("symbols", archive, need("cc", "nm", "ar"),
     {"x.c": "extern char *getenv(const char *);\nint execvp(const char *, char **);\n"
             'int fsdp_a(char **b) { return execvp(getenv("A"), b); }\n'},
     ["x.o: the library may not use execvp", "x.o: the library may not use getenv"]),
    ("symbols", archive, need("cc", "nm", "ar"),
     {"x.c": "int helper(void) { return 1; }\n"}, ["x.o: helper does not begin with fsdp_"]),
    ("symbols", archive, need("cc", "nm", "ar"),
     {"x.c": "#include <stdio.h>\nstatic int helper(char *a) { return snprintf(a, 4, \"%p\", (void *)a); }\n"
             "int fsdp_a(char *a) { return helper(a); }\n"}, []),
    ("manual", manual.lint, need("mandoc"), {"man/a.1": mdoc("a", "Fl b") + ".Bogus\n"}, ["man/a.1:"]),
    ("manual", manual.lint, need("mandoc"),
     {"man/a.1": mdoc("a", "Fl b") + ".Pq Ql c , Ql d .\n"}, ["man/a.1:"]),
    ("manual", manual.lint, need("mandoc"), {}, []),
    ("manual", drift("depth", "help"), need("mandoc"), MANUAL, []),
    ("manual", drift("depth", "help", "head"), need("mandoc"), MANUAL,
     ["man/fsdp-inspect-ls.1: --head is not explained"]),
    ("manual", drift("help"), need("mandoc"), MANUAL,
     ["man/fsdp-inspect-ls.1: explains --depth, which ls does not have"]),
    ("manual", drift(), need("mandoc"), {"man/fsdp-inspect.1": MANUAL["man/fsdp-inspect.1"]},
     ["man/fsdp-inspect-ls.1 is missing"]),
    ("mutants", mutants.check, True,
     {"lib/a.c": MUTATED, "tests/mutants.txt": "# why\n\nlib/a.c: return b < 2;\n\tb < 2 -> b <= 2\n\tb is never 2\n"}, []),
    ("mutants", mutants.check, True,
     {"lib/a.c": MUTATED, "tests/mutants.txt": "lib/a.c: return b < 2;\n\tb < 3 -> b <= 3\n\twhy\n"},
     ["tests/mutants.txt: there is no b < 3"]),
    *(("mutants", mutants.check, True,
       {"lib/a.c": f"int a(int b, int c)\n{{\n\t{code}\n}}\n", "tests/mutants.txt": f"lib/a.c: {code}\n\tb < c -> b <= c\n\twhy\n"},
       ["tests/mutants.txt: there is no b < c"] if equal else [])
      for code, equal in (("if (b != c) return b < c;", True), ("if (b) return b < c;", False),
                          ("return b < c ? c : b;", True), ("return b < c ? b : 0;", False),
                          ("if (b < c) b = c;", True), ("if (b < c) b = c; else c = 0;", False), ("if (b < c) c++;", False))),
    ("mutants", mutants.check, True,
     {"lib/a.c": "char *a(int b)\n{\n\treturn malloc(b + 1);\n}\n",
      "tests/mutants.txt": "lib/a.c: return malloc(b + 1);\n\t+ 1) -> + 2)\n\troom\n"},
     ["tests/mutants.txt: there is no + 1)"]),
    ("mutants", mutants.check, True,
     {"lib/a.c": MUTATED, "tests/mutants.txt": "lib/a.c: return b < 2;\n\tb < 2 -> b <= 2\n"},
     ["tests/mutants.txt: no reason for b < 2"]),
    ("provenance", provenance.check, True, {provenance.TABLE: provenance.HEAD + ROW, "testdata/a/b/f": ""}, []),
    ("provenance", provenance.check, True, {provenance.TABLE: provenance.HEAD + ROW, "testdata/a/b/f": "x"},
     [f"{provenance.TABLE}: the files of a/b are not those"]),
    ("provenance", provenance.check, True,
     {provenance.TABLE: provenance.HEAD + ROW, "testdata/a/b/f": "", "testdata/a/b/.g": ""},
     [f"{provenance.TABLE}: the files of a/b are not those"]),
    ("provenance", provenance.check, True,
     {provenance.TABLE: provenance.HEAD + ROW, "testdata/a/b/f": "", "testdata/a/c/f": ""},
     ["testdata/a/c/f: belongs to no case"]),
    ("provenance", provenance.check, True, {provenance.TABLE: provenance.HEAD + ROW, "testdata/README.md": ""},
     [f"{provenance.TABLE}: case a/b has no file"]),
    ("provenance", provenance.check, True,
     {provenance.TABLE: provenance.HEAD + ROW.replace("hand", ""), "testdata/a/b/f": ""},
     [f"{provenance.TABLE}: case a/b lacks"]),
    ("budgets", budgets.check, True,
     {budgets.BUDGETS: '{"lines": {"most": 5}, "files": {"most": 4}, "percent with one caller": {"most": 60},'
                       ' "private headers with one user": {"most": 0}}',
      "lib/a.c": '#include "a.h"\n#include "b.h"\nstatic void c(void)\n{\n}\nvoid a(void)\n{\n\tc();\n}\n',
      "lib/a.h": "void a(void);\n", "lib/b.h": "", "cli/a.c": '#include "b.h"\n'},
     [budgets.BUDGETS + ": lines: 11, at most 5", budgets.BUDGETS + ": private headers with one user: 2, at most 0"]),
    ("budgets", budgets.check, True,
     {budgets.BUDGETS: '{"lines": {"most": 6}, "percent with one caller": {"most": 50}}',
      "lib/a.c": "static void c(void)\n{\n}\nvoid a(void)\n{ c(); }\n", "tests/a.c": "\n\n"}, []),
    ("reach", reach.check, True,
     {"lib/include/fsdp/a.h": "void fsdp_a(void);\n",
      "lib/a.c": "#define B(c) fsdp_b(c)\nstatic void d(void)\n{\n\tfsdp_e();\n}\nvoid fsdp_a(void)\n{\n\td();\n}\n",
      "lib/b.c": "struct f {\n\tint g;\n};\nvoid fsdp_b(int c)\n{\n}\nvoid fsdp_e(void)\n{\n}\n"
                 "static void h(void)\n{\n}\nconst struct f i = { h };\n"}, []),
    ("reach", reach.check, True,
     {"lib/include/fsdp/a.h": "void fsdp_a(void);\n", "lib/b.h": "void fsdp_b(void);\n",
      "lib/a.c": "void fsdp_a(void)\n{\n}\nstatic void d(void)\n{\n\tfsdp_b();\n}\nvoid fsdp_b(void)\n{\n\tfsdp_b();\n}\n"},
     ["lib/a.c:8: nothing reaches fsdp_b"]),
    ("reach", reach.check, True,
     {"cli/main.c": "static void a(void)\n{\n\tb();\n}\nint main(void)\n{\n\ta();\n}\n",
      "cli/session/b.c": "/* a(); */\nvoid b(void)\n{\n}\nvoid a(void)\n{\n\tc(\"d\");\n}\n"},
     ["cli/session/b.c:5: nothing reaches a"]),
    ("reach", reach.check, True,
     {"cli/main.c": "static void tell_a(void)\n{\n}\nint main(void)\n{\n\ttell_a();\n}\n"},
     ["cli/main.c:1: tell_a begins with a verb that does not say what is done"]),
    ("references", references.check, True,
     {"lib/a.c": "/*\n * Knows a.c (see b.h). Origin: torch/c.h\n */\nint i; /* as io/d.c and not d.c does */\n",
      "lib/io/e.c": ""},
     ["lib/a.c:2: there is no b.h", "lib/a.c:4: there is no d.c", "lib/a.c:4: there is no io/d.c"]),
    ("references", references.check, True,
     {"lib/a.c": "/* io/b.h, b.h, NAME.c, <c.h>, d.pt */\nchar *e = \"f.c\";\n", "lib/io/b.h": "",
      "CONTRIBUTING.md": "| `cli/commands/NAME.c` | `lib/a.c` |\n"}, []),
    ("rules", rules.check, True,
     {rules.TABLE: "".join(f'FSDP_RULE({name}, "FI000{n}", "slug-{n}", ERROR, "{category}", HEADERS,\n' for n, (name, category) in
                           enumerate([("A_B", "one"), ("C", "one"), ("D", "one"), ("E", "one"), ("F", "recording")], 1)),
      "lib/a.c": 'f(FSDP_RULE_A_B, FSDP_RULE_E, FSDP_RULE_F); g("FI0002");', "tests/unit/a.c": 'FSDP_RULE_A_B FI0002 slug-3',
      "tests/pinned/rules.txt": "FI0004"},
     [rules.TABLE + ": nothing raises FI0003", rules.TABLE + ": no test names FI0004 slug-4"]),
    ("schemas", documents, True, {"ls": schema(), "info": schema("info", a={"description": "b"})}, []),
    ("schemas", documents, True, {"ls": schema("info")}, ["schema ls: wrong $id"]),
    ("schemas", documents, True, {"ls": schema(), "info": schema("info", "y")},
     ["schema ls: end is not as in schema info"]),
    ("schemas", documents, True,
     {"ls": schema(a={}, b={"$ref": "#/$defs/c"}, d={"description": "e", "additionalProperties": False})},
     ["schema ls: #/properties/data/properties/a has no description",
      "schema ls: #/properties/data/properties/b refers to #/$defs/c",
      "schema ls: #/properties/data/properties/d forbids unknown fields"]),
    ("schemas", documents, True, {"ls": '{"a": 1, "a": 2}'}, ["schema ls: the key a comes twice"]),
    ("tags", tags.check, True,
     {"lib/a.c": "struct a {\n\tenum b { C } d;\n};\n", "lib/io/e.c": "struct f { int b; };\nenum b { G };\n"},
     ["lib/io/e.c:2: b is defined in lib/a.c:2 already"]),
    ("tags", tags.check, True,
     {"lib/a.c": "struct b;\nstruct b { int c; };\nstatic struct b d = { 1 };\n", "lib/e.c": "struct b *f;\n"}, []),
    ("tags", tags.check, True,
     {"cli/commands/a.c": "struct b {\n\tint c;\n};\nstruct row {\n\tint c;\n};\nstruct cell {\n\tint c;\n};\n",
      "lib/a.c": "struct b {\n\tint c;\n};\nstruct cell {\n\tint c;\n};\n"},
     ["lib/a.c:1: b is defined in cli/commands/a.c:1 already", "cli/commands/a.c:4: row is defined once"]),
    ("messages", messages.check, True,
     {"lib/a.c": '\nchar *a = "12 bytes " "unaccounted";\nchar *b = "two bytes unaccounted";\n',
      "man/a.1": "the locks of the kernel\n"},
     ["lib/a.c:3: ", "man/a.1:1: "]),
    ("messages", messages.check, True,
     {"cli/a.c": 'say("no tensor was selected");\nsay("x is not in this version");\nsay("there is no tensor in it");\n'
                 'say("a.pt, which was opened");\nsay("least, half, most");\nsay("at least half of it");\n'
                 'say("3 objects in it");\nsay("3 Python objects");\nsay("lists and objects");\n'},
     ["cli/a.c:1: ", "cli/a.c:2: ", "cli/a.c:4: ", "cli/a.c:5: ", "cli/a.c:7: "]),
    ("messages", messages.check, True,
     {"cli/a.c": 'say("what is wrong with "\n    "it here");\nputs("one line\\n"\n     "another");\n'},
     ["cli/a.c:2: a message in two literals"]),
    ("messages", messages.check, True,
     {"cli/a.c": '\t.name = "ls",\nrow = { "values", 0, OPTION_FLAG };\ntopic = { "limits", topic_limits };\n'
                 'puts("run fsdp-inspect ls --values X");\nputs("run fsdp-inspect load X");\n'
                 'puts("see fsdp-inspect help limits");\nputs("see fsdp-inspect help riddles");\n'
                 'puts("and more (ls --values)");\nputs("and more (ls --objects)");\n'},
     ["cli/a.c:5: there is no command load", "cli/a.c:7: there is no topic riddles", "cli/a.c:9: there is no option --objects"]),
    ("messages", messages.check, True,
     {"cli/a.c": 'hint("man fsdp-inspect-policy");\nhint("see fsdp-inspect-plan(5)");\nputs("help X, man fsdp-inspect, or");\n',
      "cli/args/help-topics.c": 'text("The formats: the manual page fsdp-inspect-trace(5)");\n'},
     ["cli/a.c:1: say fsdp-inspect help", "cli/a.c:2: say fsdp-inspect help"]),
    ("prose", prose.check, True,
     {"README.md": "It lies in a `folder`.\n```\nfolders\n```\n" + 26 * "w " + "\n\n" + 121 * "x" + "\n", "man/a.1": "A folder and a folder.\n",
      "lib/a.c": '/* What it is,\n * is told. */\nputs("there is a folder");\n', "tests/laws/prose.json": '{"manual": {"\\\\bfolders?\\\\b": 1}}'},
     ["README.md:1: 'lies'", "manual: 2 times", "messages: 1 times", "messages: 1 times", "comments: 1 times", "comments: 1 times", "README.md:7: 121",
      "README.md: more than 25"]),
    ("words", words.check, True, {"lib/a.c": "\n" + LATER}, ["lib/a.c:2: a promise"]),
    ("words", words.check, True,
     {"scripts/a": "cd /wo" + "rk/x\n", "README.md": "see ../sha" + "red\n", "tests/a.py": "'../sha" + "red'\n"},
     ["README.md:1: a path", "scripts/a:1: a path"]),
    ("words", words.check, True,
     {"lib/a.c": "/* network/x, mktemp name.XXXXXX, TODOS */\n", "testdata/a/b": LATER}, []),
    ("words", words.check, True,
     {"lib/a.c": "/* Nobody waits. */\n", "cli/a.c": "/* It is told. */\n", "man/a.1": "Whoever\nwas said\n"},
     ["cli/a.c:1: say", "lib/a.c:1: say", "man/a.1:1: say", "man/a.1:2: say"]),
    ("words", words.check, True,
     {"lib/a.c": "/* They are told apart. */\n", "tests/a.py": "# somebody\n"}, []),
    ("words", words.check, True,
     {"tests/pinned/a.txt": "  1 file, 21 files, 0.1 files\n  1 more ranks\n", "doc/a.md": "there are 1 files\n",
      "tests/cli/a.py": "# 1 files\n"},
     ["doc/a.md:1: one thing", "tests/pinned/a.txt:2: one thing"]),
    ("samples", samples.check, True,
     {"tests/pinned/a.txt": "# a\n@ one x\n$ ls\n" + "> mkdir a\n" * 60 + "# b\n$ mkdir a\n# c\n$ " + "ls; " * 50 + "\n# d\n$ ls\n"
      + "> ls\n" * 300,
      "tests/pinned/samples/a.py": "@sample\ndef one(folder):\n\n@sample\ndef two(folder):\n\ndef three():\n"},
     ["tests/pinned/a.txt:3: 420", "tests/pinned/a.txt:67: a line", "tests/pinned/samples/a.py: no case has the sample two"]),
    ("formatting", formatting.check, formatting.formatter() is not None,
     {".clang-format": CLANG_FORMAT, "lib/a.c": "int a;\nint  b;\n"}, ["lib/a.c:2: "]),
    ("formatting", formatting.check, formatting.formatter() is not None,
     {".clang-format": CLANG_FORMAT, "lib/a.c": "int a;\nint b;\n"}, []),
    ("formatting", formatting.check, formatting.formatter() is not None,
     {".clang-format": CLANG_FORMAT.replace("...", "ColumnLimit: 90\nReflowComments: false\n..."),
      "lib/a.c": "/* " + "word " * 20 + "*/\nint a;\n", "lib/b.c": "/* " + "word " * 16 + "*/\n/*\n *\t" + "word " * 20 + "\n */\nint b;\n"},
     ["lib/a.c:1: a comment"]),
]


def plant(root, tree):
    for path, content in tree.items():
        where = os.path.join(root, path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "w", encoding="utf-8") as stream:
            stream.write(content)


def holds(said, wanted):
    return len(said) == len(wanted) and all(s.startswith(w) for s, w in zip(sorted(said), sorted(wanted)))


def main():
    print(f"1..{len(CASES)}")
    failed = 0
    for number, (name, check, here, tree, wanted) in enumerate(CASES, 1):
        what = f"{name} {'names ' + wanted[0] if wanted else 'lets pass ' + ' '.join(tree)}".rstrip()
        what = what.replace("#", "")
        if not here:
            print(f"ok {number} - {what} # SKIP its tool is not installed")
            continue
        with tempfile.TemporaryDirectory() as root:
            plant(root, tree)
            said = check(root)
        if holds(said, wanted):
            print(f"ok {number} - {what}")
        else:
            failed += 1
            print(f"not ok {number} - {what}")
            for line in said or ["(nothing)"]:
                print(f"#   said {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
