#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Messages are plain: no riddle of the list below, one literal each, and a hint names what works: a
command, an option that some command has, a topic of help or a page of the manual."""

import re

import law

# What is not said, and what is said instead.
RIDDLES = [
    (r"loose values?", "value"),
    (r"bytes unaccounted", "bytes that nothing refers to"),
    (r"kept by rank", "stored by rank"),
    (r"most on rank", "rank N holds N % more than the mean"),
    (r"several (dims|dtypes)", "which"),
    (r"only leads? to", "opened X, the only checkpoint in Y"),
    (r"no tensors? (was|were) selected", "nothing matches PATTERN"),
    (r"in this version", "unknown command: WORD"),
    (r"which was opened", "opened X, the only checkpoint in Y"),
    (r"marks were inferred|unit borders", "FULLY SHARDED is a guess here"),
    (r"from device kernels", "timed on the GPU"),
    (r"locks of the kernel|do not lock the process", "sandbox"),
    (r"as it should be", "treat every warning as a failure"),
    (r"^(least|half)$|least, half", "min, p50, p95, max"),
    (r"each ended by a zero byte", "NUL-terminated"),
    (r"characters of our own", "draw with ASCII only"),
    (r"(elements|pieces?|strips?|one|bytes|[0-9]) an? (rank|piece|line|byte)\b", "per rank"),
    (r"one [a-z.]+ a (rank|piece|line)\b", "per rank"),
    (r"some ?body|nobody|who ?ever", "who it is"),
    (r"is the business of|minds? its own", "what happens"),
]
# Of messages alone: pages tell of objects of JSON and of Python, too.
MESSAGES = RIDDLES + [(r"[(:] ?man fsdp-inspect", "fsdp-inspect help TOPIC, which is there without the pages"),
                      (r"(?<!Python )(?<!and )(?<!-)\bobjects\b", "values, tensors or files"),
                      (r"(?<=[a-z:( ])(?<!_in )(?<!, )\\\"%[.0-9]*\*?s\\\"", "it in single quotes")]
# Of messages that are no page: it may not be installed.
PAGE = re.compile(r"(^|[^,] )man fsdp-inspect|fsdp-inspect-[a-z]+\([157]\)")
PAGES = ("man/", "doc/", "README.md")
# Pages of text have a line of source for each of theirs.
LONG = re.compile(r"^(cli/commands/help|cli/commands/completion|cli/args/help-topics|lib/base/.*\.def)")
COMMAND = re.compile(r"\bfsdp-inspect ([a-z][a-z-]*)((?: +(?:--?[a-z][\w-]*|[a-z]+))*)")
SHORT = re.compile(r"\(([a-z]+)((?: --[a-z][a-z-]*)+)\)")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NO_CODE = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<line>^[ \t]*\#(?:/\*.*?\*/|\\\n|[^\n])*)
    |(?:L|u8?|U)?(?P<text>"(?:\\.|[^"\\])*")
    |'(?:\\.|[^'\\])*'""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def literals(source):
    """(line, text, the literal in front of it if that ends on an earlier line)"""
    before, number, counted = None, 1, 0
    for found in NO_CODE.finditer(source):
        if found.lastgroup != "text":
            before = before if found.lastgroup == "comment" else None
            continue
        number, counted = number + source.count("\n", counted, found.start()), found.start()
        text = found["text"][1:-1]
        if before is not None and COMMENT.sub("", source[before[2]:found.start()]).strip():
            before = None
        yield number, text, before[:2] if before is not None and before[0] != number else None
        before = (number, text, found.end())


def known(root):
    """Commands, options and topics that there are."""
    commands, options, topics = {"help"}, set(), set()
    for path in law.tracked(root):
        if path.startswith("cli/") and path.endswith(".c"):
            source = law.text(root, path)
            commands |= set(re.findall(r'^\t\.name = "([a-z]+)"', source, re.M))
            options |= set(re.findall(r'\{ "([a-z0-9][a-z0-9-]*)", (?:0|\'.\'), OPTION_', source))
            topics |= set(re.findall(r'\{ "([a-z]+)", (?:topic_\w+|[A-Z]+) \}', source))
        elif re.match(r"man/fsdp-inspect-[a-z]+\.[157]$", path):
            topics.add(path.split("-")[2].split(".")[0])
    return commands, options, topics


def wrong_hints(text, commands, options, topics):
    for command, rest in COMMAND.findall(text):
        if command not in commands:
            yield f"there is no command {command}"
        words = rest.split()
        if command == "help" and words and words[0] not in topics | commands | {"lists", "tells"}:
            yield f"there is no topic {words[0]}"
        for word in words:
            if word.startswith("--") and word[2:].split("=")[0] not in options:
                yield f"there is no option {word}"
    for command, rest in SHORT.findall(text):
        for word in rest.split() if command in commands else []:
            if word[2:] not in options:
                yield f"there is no option {word}"


def check(root):
    broken, (commands, options, topics) = [], known(root)
    riddles = [(re.compile(riddle), instead) for riddle, instead in RIDDLES]
    messages = [(re.compile(riddle), instead) for riddle, instead in MESSAGES]
    for path in law.tracked(root):
        if path.startswith(("cli/", "lib/")) and path.endswith((".c", ".h", ".def")):
            for number, text, before in literals(law.text(root, path)):
                if " " not in text:
                    continue
                broken += [f"{path}:{number}: \"{riddle.search(text).group()}\": say {instead}"
                           for riddle, instead in messages if riddle.search(text)]
                if PAGE.search(text) and not LONG.match(path):
                    broken.append(f"{path}:{number}: say fsdp-inspect help TOPIC, which is there without the pages")
                broken += [f"{path}:{number}: {wrong}" for wrong in wrong_hints(text, commands, options, topics)]
                # Words with underscores are lists of names.
                if before and " " in before[1] and "_" not in before[1] + text and "Storage" not in text and not LONG.match(path) and re.search(r"[a-z,;] ?$", before[1]):
                    broken.append(f"{path}:{number}: a message in two literals")
        elif path.startswith(PAGES):
            for number, line in enumerate(law.text(root, path).split("\n"), 1):
                broken += [f"{path}:{number}: \"{riddle.search(line).group()}\": say {instead}"
                           for riddle, instead in riddles if riddle.search(line)]
    return broken


if __name__ == "__main__":
    law.main(check)
