#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain technical English: the phrases below are not in README.md, NEWS.md, doc/ and public headers; in the manual, in
messages and in other comments each has a ceiling that may only fall (prose.json). A sentence of a page has at most 25
words, a line of README.md 120 characters, and no sample of three lines is in two pages.
Subjects of commits since SINCE are `area: verb object`, at most 72 characters; where git or that commit is missing, they are
not checked.

prose.py [ROOT]           checks
prose.py --update [ROOT]  lowers the ceilings to what is there now
"""

import bisect
import itertools
import json
import os
import re
import subprocess
import sys

import law

CEILINGS = "tests/laws/prose.json"
# A phrase, and what to write instead.
PHRASES = [(re.compile(phrase, re.MULTILINE), instead) for phrase, instead in (
    (r"\blies?\b", "is, is stored"),
    (r"\bbeside\b", "next to, with, in addition to"),
    (r"\bbehind\b", "after"),
    (r"\bin front of\b", "before"),
    (r", (of|for|from|to|in|by|with|at) which\b|\bof (which|whom)\b", "two sentences"),
    (r"\b(is|are|was|were) no (?!longer|more|less|other)\w+", "is not a"),
    (r"\b(has|have|had) not\b(?! been)", "does not have"),
    (r"\bso (have|has|do|does|did|is|are|was)\b", "the subject by name"),
    (r"\bnot (a )?proof\b", "what is true"),
    (r"^such as\b|such as:", "example:"),
    (r"\btells?\b|\btold\b(?! apart)", "shows, prints, contains"),
    (r"\b(file|name|index|plan|metadata|configuration|header|log|dump)s? (says?|knows?|wants?|asks?)\b", "has, lists, contains"),
    (r"(?<!not )(?<!not_)\bjudg(e[sd]?|ing|ements?)\b", "check"),
    (r"(^|[.:;,] )there (is|are|was|were)\b", "the subject first"),
    (r"\banew\b", "again"),
    (r"\bodd(ly|ity|ities)?\b(?! (number|length|count))", "unusual, or the defect"),
    (r"\bway out\b", "fix"),
    (r"\b(is|are|was|were) (left out|passed over)\b|\bleaves? (it |them )?out\b", "skipped, omitted"),
    (r"\bone (behind|after|before|beside) the other\b", "in order, concatenated"),
    (r"\bwhat (it|they|that|one) (is|are|has|have|holds?|was|does|tells?|says?)\b", "a noun"),
    (r"\bof none\b|\bnone (is|of \d+ is|of them is)\b", "without; no N is"),
    (r"\bfor ever\b|\bwithout a word\b|\bwhat became of\b", "permanent; without a warning; result of"),
    (r"\b(the|as a) whole\b", "full, complete"),
    (r"\b(ranks|they) part\b", "diverge"),
    (r"\b(row|line|one|file|place|object) for each\b", "per"),
    (r"\bnothing (tells|says|knows|is known(?! of the others))\b", "unknown"),
    (r"\bgoes? on\b|\bbegins? anew\b", "continues; restarts"),
    (r"\bmade up\b|\bcomes? of\b|\bunfolds?\b|\bworks? out\b|\bworked out\b", "results from, expands, computes"),
    (r"\bbut for\b", "except"),
    (r"\bdoors?\b|\brooms\b|\bthe house\b", "public API, modules, architecture"),
    (r"\bstands?\b(?! for| out)", "is, is located"),
    (r"\b(believes?|understands?|wants?|knows?)\b", "has, supports, requires"),
    (r"\bfolders?\b", "directory"),
    (r"\bleave .{1,24} out\b|\bleft out\b|\bpasse[sd] over\b", "skip, omit"),
    (r"\bbreaks? off\b|\bcut (off|short)\b", "truncated, interrupted"),
    (r"\w*(colour|behaviour|neighbour|licence)|\w+(gn|al|tial|nt|im|rn)is(e[ds]?|ing|ation)\b", "the American spelling"),
)]
# What other programs and formats call it.
NAMES = re.compile(r"`[^`]*`|\"[^\"]*\"|\]\([^)]*\)")
PARTS = re.compile(r"/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
AREAS = ("manual", "messages", "comments")
STRICT = re.compile(r"(?:README|NEWS|SECURITY|CONTRIBUTING)\.md|(?:doc|contrib)/.*\.md")
SINCE = "b288510f"
SUBJECT = re.compile(r"[\w, /.-]+: (?!(say|tell|let|ask|know|hold|leave|take|pin|notice|judge|keep|hand|lay|see)\b)[a-z].*[^.]")


def subjects(root):
    """Lines about commits since SINCE; a shallow clone and a release do not have it."""
    if not os.path.exists(os.path.join(root, ".git")):
        return []
    try:
        log = subprocess.run(["git", "-C", root, "log", "--no-merges", "--format=%h %s", f"{SINCE}..HEAD"], capture_output=True, text=True,
                             check=False)
    except OSError:
        return []
    commits = [line.partition(" ") for line in log.stdout.splitlines()] if log.returncode == 0 else []
    return [f"commit {name}: '{subject}': write `area: verb object` with a verb as in CONTRIBUTING.md, at most 72 characters"
            for name, _, subject in commits if len(subject) > 72 or not SUBJECT.fullmatch(subject)]


def prose(root, path):
    """(line, text) of what people read: no samples, no code, no names of options."""
    if path.endswith(".md"):
        fenced = False
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            fenced ^= line.startswith("```")
            if not fenced and not line.startswith(("    ", "```")):
                yield number, NAMES.sub("", line)
    elif path.startswith("man/"):
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            if not line.startswith((".", "\t", "  ")):
                yield number, line


def areas(root, path):
    """(area, line, text) of the prose in a file."""
    if STRICT.fullmatch(path) or re.fullmatch(r"man/.*\.[1-9]", path):
        for number, text in prose(root, path):
            yield "manual" if path.startswith("man/") else "pages", number, text
    elif path.startswith(("cli/", "lib/")) and path.endswith((".c", ".h", ".def")):
        source, number, at = law.text(root, path), 1, 0
        for found in PARTS.finditer(source):
            text = found.group()
            number, at = number + source.count("\n", at, found.start()), found.start()
            if text.startswith("/*") or " " in text:
                area = "messages" if text[0] == '"' else "pages" if path.startswith("lib/include/") else "comments"
                yield area, number, " ".join(text.strip('"').split())


def hits(root):
    """(area, phrase, line) of each phrase that is found. All texts are one, in small letters, with a line for each."""
    texts = [(path, *one) for path in law.tracked(root) for one in areas(root, path)]
    small = [text.lower() if len(text.lower()) == len(text) else text for _, _, _, text in texts]
    starts = list(itertools.accumulate((len(text) + 1 for text in small), initial=0))
    joined = "\n".join(small)
    for phrase, instead in PHRASES:
        for found in phrase.finditer(joined):
            place = bisect.bisect(starts, found.start()) - 1
            path, area, number, text = texts[place]
            said = text[found.start() - starts[place]:found.end() - starts[place]].strip()
            yield area, phrase.pattern, f"{path}:{number}: '{said}': write {instead}"


def samples(root):
    """(line, page:number) of all samples, without blank lines; a line of dots is a cut."""
    for path in law.tracked(root):
        if not (STRICT.fullmatch(path) or re.fullmatch(r"man/.*\.[1-9]|contrib/.*\.md", path)):
            continue
        inside = False
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            inside ^= line.startswith(("```", ".Bd", ".Ed"))
            if inside and line.strip() and not line.startswith((".", "```")):
                yield line.strip(), f"{path}:{number}"
            elif not inside or line.startswith("..."):
                yield "", f"{path}:{number}"


def repeated(root):
    """Samples of three lines that two pages have."""
    lines, places, broken = list(samples(root)), {}, []
    for i in range(len(lines) - 2):
        window = tuple(line for line, _ in lines[i:i + 3])
        place = lines[i][1]
        first = places.setdefault(window, place)
        if all(window) and first.partition(":")[0] != place.partition(":")[0]:
            broken.append(f"{place}: the same sample as {first}")
    return broken


def count(root):
    """What is strict, and how often each phrase is found elsewhere."""
    counts, strict = {area: {} for area in AREAS}, []
    for area, phrase, line in hits(root):
        if area == "pages":
            strict.append(line)
        else:
            counts[area][phrase] = counts[area].get(phrase, 0) + 1
    return counts, strict


def check(root):
    counts, broken = count(root)
    path = os.path.join(root, CEILINGS)
    ceilings = json.loads(law.text(root, CEILINGS)) if os.path.exists(path) else {}
    for area, found in counts.items():
        most = ceilings.get(area, {})
        broken += [f"{area}: {number} times /{phrase}/, at most {most.get(phrase, 0)}"
                   for phrase, number in sorted(found.items()) if number > most.get(phrase, 0)]
    for path in (path for path in law.tracked(root) if path.endswith(".md") and not path.startswith("testdata/")):
        for number, line in enumerate(law.text(root, path).split("\n"), 1):
            if path == "README.md" and len(line) > 120:
                broken.append(f"{path}:{number}: {len(line)} characters, at most 120")
        text = "\n".join(line for _, line in prose(root, path) if not line.startswith(("|", "#")))
        broken += [f"{path}: more than 25 words: {' '.join(sentence.split())[:60]}"
                   for sentence in re.split(r"[.:;?!](?:\s|\*\*|$)|\n\n|\n(?:\*|-|\d+\.) | \u00b7\s", text) if len(sentence.split()) > 25]
    return broken + repeated(root) + subjects(root)


def main():
    words = [word for word in sys.argv[1:] if word != "--update"]
    root = words[0] if words else law.ROOT
    if "--update" in sys.argv:
        path = os.path.join(root, CEILINGS)
        old = json.loads(law.text(root, CEILINGS)) if os.path.exists(path) else None
        counts = {area: {phrase: number if old is None else min(number, old[area].get(phrase, 0)) for phrase, number in sorted(found.items())}
                  for area, found in count(root)[0].items()}
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(counts, stream, indent=1)
            stream.write("\n")
    return law.verdict(check(root))


if __name__ == "__main__":
    sys.exit(main())
