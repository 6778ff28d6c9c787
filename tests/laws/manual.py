#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual: lint-clean, a page a command, every option in its page and back.

manual.py [ROOT [BINARY [MADE]]]: with the command at hand, its own tables (commands --json)
are compared with the OPTIONS of the pages, as mandoc shows them. MADE is the folder of the
pages that the build makes.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import law


def pages(root):
    return [p for p in law.tracked(root) if re.fullmatch(r"man/.*\.[1-9]", p)]


def place(root, page, made=None):
    """Of a page: as the build made it, if it did."""
    name = os.path.join(made, os.path.basename(page)) if made else ""
    return name if os.path.exists(name) else os.path.join(root, page)


def lint(root, made=None):
    found = pages(root)
    if not found:
        return []
    result = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning"] + [place(root, p, made) for p in found],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    # Our own pages refer to each other before they are installed; the newest date wins.
    lines = [w for w in result.stdout.splitlines() if w.strip()]
    said = [re.sub(r"^mandoc: ", "", w).removeprefix(root + "/") for w in lines]
    return said + nested_quotes(root, found, made)


def nested_quotes(root, found, made):
    """Of two quotes on one line the second lies inside the first, and both end at its end."""
    return [
        f"{path}:{number}: a quote inside of another"
        for path in found for number, line in enumerate(law.text("", place(root, path, made)).split("\n"), 1)
        if re.match(r"\.(?:Pq )?(?:Ql|Dq|Sq) .* (?:Ql|Dq|Sq) ", line)
    ]


def options_of(root, page, made):
    """Long names that the page's OPTIONS section explains (not those it mentions)."""
    shown = subprocess.run(
        ["mandoc", "-T", "ascii", "-O", "width=200,indent=5", place(root, page, made)],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout
    shown = re.sub(r".\x08", "", shown)
    names, inside = set(), False
    for line in shown.splitlines():
        if re.match(r"\S", line):
            inside = line.strip() in ("OPTIONS", "SELECTORS")
        elif inside and re.match(r" {1,5}-", line):
            tag = re.split(r"\s{3,}", line.strip())[0]
            names |= set(re.findall(r"(?<![\w-])--([a-z0-9][a-z0-9-]*)", tag))
    return names


def drift(root, commands, made=None):
    """Differences between the tables of the command and its pages."""
    main_page = "man/fsdp-inspect.1"
    broken = []
    if not os.path.exists(os.path.join(root, main_page)):
        return [f"{main_page} is missing"]
    everywhere = options_of(root, main_page, made)
    known = set()
    for command in commands:
        page = f"man/fsdp-inspect-{command['name']}.1"
        table = {option["name"] for option in command["options"]}
        broken += [f"{command['name']} --{option['name']}: its help has more than 60 characters"
                   for option in command["options"] if len(option.get("help", "")) > 60]
        known |= table
        if not os.path.exists(os.path.join(root, page)):
            broken.append(f"{page} is missing")
            continue
        explained = options_of(root, page, made)
        for name in sorted(table - explained - everywhere):
            broken.append(f"{page}: --{name} is not explained")
        for name in sorted(explained - table - everywhere):
            broken.append(f"{page}: explains --{name}, which {command['name']} does not have")
    # The common options are in the tables only if a row such as --help is.
    if "help" in known:
        for name in sorted(everywhere - known):
            broken.append(f"{main_page}: explains --{name}, which no command has")
    return broken


def codes(root):
    """Reasons of loaders: audit(1) explains each code once."""
    table = "lib/loaders/reason-codes.def"
    if not os.path.exists(os.path.join(root, table)):
        return []
    listed = re.findall(r'^FSDP_LOAD_CODE\(\w+, "([a-z-]+)"', law.text(root, table), re.M)
    page = law.text(root, "man/fsdp-inspect-audit.1").partition(".Va code ,")[2].partition(".El")[0]
    told = re.findall(r"^\.It Cm ([a-z-]+)$", page, re.M)
    return [f"{table}: audit(1) does not explain {code}" for code in listed if told.count(code) != 1] + \
        [f"audit(1): {code} is not in {table}" for code in told if code not in listed]


def tables(binary):
    out = subprocess.run([binary, "commands", "--json"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)["data"]["commands"]


def check(root, binary=None, made=None):
    broken = lint(root, made) + codes(root)
    if binary:
        broken += drift(root, tables(binary), made)
    return broken


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else law.ROOT
    if not shutil.which("mandoc") or not pages(root):
        print("no mandoc, or no manual yet")
        return law.SKIP
    return law.verdict(check(root, *sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
