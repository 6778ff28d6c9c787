#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""browse in a terminal of tmux's: what it shows, what keys do, how it leaves the terminal. Prints TAP.

browse.py BINARY [NO_ANSWER]    NO_ANSWER: a library to be preloaded, with which threads read nothing;
                                without it BINARY is built with sanitizers
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import terminals

BINARY = os.path.abspath(sys.argv[1])
NO_ANSWER = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata")
DEMO = os.path.realpath(os.path.join(TESTDATA, "demo", "step-1234"))
PATIENCE = int(os.environ.get("PATIENCE", 120))  # seconds after which something never comes
HOSTILE = ["a\x1b[31mred", "b\x07\x00bell", "c\u202ertl", "d\u05d0\u05d1", "e\u5bbd\u5bbd" * 60, "f\u0301\u200b", "g\x9b31m", "h\\n"]


class Terminal:
    """A shell in a window of its own tmux."""

    def __init__(self, folder, columns=100, rows=30):
        self.socket = os.path.join(folder, "tmux")
        self.columns, self.rows = columns, rows
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color",
                       "TMPDIR": folder}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "LD_LIBRARY_PATH"):
            if name in os.environ:
                environment[name] = os.environ[name]
        self.environment = environment
        self.call("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "/bin/bash --norc --noprofile")
        self.wait(lambda: self.shown().strip() != "")

    def call(self, *words):
        return subprocess.run(["tmux", "-u", "-S", self.socket, *words], env=self.environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def shown(self):
        return self.call("capture-pane", "-p")

    def lines(self):
        return self.shown().split("\n")

    def keys(self, *keys):
        self.call("send-keys", *keys)

    def wait(self, condition):
        """Until it holds; what is on the screen then. What never holds is a failure."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "this never came, but:\n" + self.shown()
            time.sleep(0.02)
        return self.shown()

    def type(self, line):
        self.keys("-l", line)
        self.keys("Enter")

    def see(self, text):
        return self.wait(lambda: text in self.shown())

    def see_line(self, pattern):
        return self.wait(lambda: any(re.search(pattern, line) for line in self.lines()))

    def browse(self, words, before=""):
        self.type(f"clear; stty -g > before; echo here it was; {before}{BINARY} browse {words}; "
                  "echo status $?; stty -g > after")
        self.see("q: quit")

    def close(self):
        """The shell ends with it, and then nothing is written into its folder."""
        shell = self.call("display-message", "-p", "#{pane_pid}").strip()
        self.call("kill-server")
        while os.path.exists(f"/proc/{shell}"):
            time.sleep(0.02)


def answer(*words):
    done = subprocess.run([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8"})
    return done.stdout.decode()


def entries(shown):
    """Names of the list, in its order, and the line under the cursor's details."""
    lines = shown.split("\n")
    rows = lines[3:next((i for i, line in enumerate(lines) if line.startswith("-----")), len(lines))]
    return [re.sub(r"^.*?[0-9] +(?=[/(]| \S)", "", row).strip() for row in rows if row.strip()]


def details(terminal):
    lines = terminal.lines()
    start = next((i for i, line in enumerate(lines) if line.startswith("-----")), len(lines) - 1)
    return lines[start + 1:]


def left_as_it_was(terminal, folder, status):
    terminal.see(f"status {status}")
    terminal.wait(lambda: os.path.exists(os.path.join(folder, "after")) and
                  os.path.getsize(os.path.join(folder, "after")) > 0)
    before, after = (open(os.path.join(folder, name), encoding="ascii").read() for name in ("before", "after"))
    assert before == after, (before, after)
    terminal.see("here it was")
    os.remove(os.path.join(folder, "after"))


def process_of(terminal):
    shell = terminal.call("display-message", "-p", "#{pane_pid}").strip()
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as stream:
                if name.isdigit() and stream.read().rsplit(")", 1)[1].split()[1] == shell:
                    return int(name)
        except OSError:  # it has ended
            pass
    raise AssertionError("the shell runs nothing")


# ---- what it shows ----


def shows_what_tree_does(terminal, folder):
    """The modules of tree --sizes, in the order of their bytes."""
    modules = json.loads(answer("tree", "--sizes", "--json", DEMO))["data"]["modules"]
    top = [m for m in modules if m.get("parent") == 0]
    top.sort(key=lambda m: (-m["bytes"], m["name"]))
    terminal.browse(DEMO)
    found = entries(terminal.shown())
    assert [name.split("[")[0] for name in found if not name.startswith("/(")] == ["/" + m["name"] for m in top], found
    text = answer("tree", "--sizes", "--full", "--no-fold", DEMO).split("\n")
    for module in top:
        said = next(line for line in text if re.search(rf" {module['name']}\[", line)).split()
        row = next(line for line in terminal.lines() if "/" + module["name"] + "[" in line)
        assert " ".join(said[1:4]) in " ".join(row.split()).replace(" %", "%").replace("%", " %"), (said, row)
        assert " ".join(said[5:7]) in row, (said, row)
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


def keys_move_and_sort(terminal, folder):
    terminal.browse(DEMO)
    terminal.keys("n")
    terminal.see("by name")
    names = entries(terminal.shown())
    assert names[0].startswith("/blocks"), names
    terminal.see_line("^blocks")
    terminal.keys("j")
    terminal.see_line("^embed")
    terminal.keys("Down")
    terminal.see_line("^head")
    terminal.keys("k", "Up")
    terminal.see_line("^blocks")
    terminal.keys("n")
    terminal.see("by name, reversed")
    terminal.see_line("^blocks")
    terminal.keys("End")
    terminal.see_line(r"^\(optimizer states\)")
    terminal.keys("Home")
    terminal.see_line("^norm")
    terminal.keys("p")
    terminal.see("by pieces")
    terminal.keys("s")
    terminal.see("by bytes")
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


def keys_go_in_and_out(terminal, folder):
    terminal.browse(DEMO)
    terminal.keys("n")
    terminal.see("by name")
    for enter, leave in (("Enter", "Left"), ("l", "h"), ("Right", "BSpace")):
        terminal.keys(enter)
        terminal.wait(lambda: terminal.lines()[1].startswith("blocks["))
        terminal.keys(enter)
        terminal.wait(lambda: terminal.lines()[1].startswith("blocks.0["))
        terminal.keys(leave)
        terminal.wait(lambda: terminal.lines()[1].startswith("blocks["))
        terminal.keys(leave)
        terminal.wait(lambda: terminal.lines()[1].startswith("(root)"))
        terminal.see_line("^blocks")
    terminal.keys("h", "j", "Enter")
    terminal.wait(lambda: terminal.lines()[1].startswith("embed["))
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


def values_are_those_of_show(terminal, folder):
    shown = json.loads(answer("show", "--json", "--values=3", DEMO, "model.embed.weight"))
    values = shown["data"]["items"][0]["elements"]
    values = values["values"] if isinstance(values, dict) else values
    terminal.browse(DEMO)
    terminal.keys("n", "j", "Enter")
    terminal.see_line(r"^model\.embed\.weight")
    line = terminal.see_line("^values -?[0-9]")
    found = re.search("^values (.*)$", line, re.M).group(1).split()[:3]
    assert [float(v) for v in found] == values[:3], (found, values)
    assert "pieces rank 0 [0:7,0:4] in __0_0.distcp" in line, line
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


def help_is_left_by_any_key(terminal, folder):
    terminal.browse(DEMO)
    terminal.keys("?")
    terminal.see("out of this module")
    terminal.keys("q")
    terminal.wait(lambda: "out of this module" not in terminal.shown())
    terminal.see_line("BYTES +SHARE")
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


def unknown_keys_do_nothing(terminal, folder):
    terminal.browse(DEMO)
    before = terminal.shown()
    terminal.keys("F5", "F12", "M-x", "IC", "DC", "C-Up", "Escape", "\u00e4", "0")
    terminal.keys("?")
    terminal.see("out of this module")
    terminal.keys("Escape")
    terminal.wait(lambda: terminal.shown() == before)
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


# ---- how large it is ----


def resizes(terminal, folder):
    terminal.browse(DEMO)
    for columns, rows in ((60, 20), (30, 8), (7, 3), (1, 1), (180, 50), (terminal.columns, terminal.rows)):
        terminal.call("resize-window", "-x", str(columns), "-y", str(rows))
        if rows > 4 and columns > 30:
            terminal.wait(lambda: "by bytes" in terminal.lines()[rows - 1])
        elif rows > 4:
            terminal.wait(lambda: "parameters" in terminal.lines()[rows - 1])
        for line in terminal.lines():
            assert len(line) <= columns, (columns, line)
    terminal.see("?: help   q: quit")
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


def long_file(folder, count=60):
    """Tensors t00, t01 and so on, each with one element more than the one before."""
    header, offset = {}, 0
    for i in range(count):
        header[f"t{i:02}"] = {"dtype": "F32", "shape": [i + 1], "data_offsets": [offset, offset + 4 * (i + 1)]}
        offset += 4 * (i + 1)
    text = json.dumps(header).encode()
    path = os.path.join(folder, "long.safetensors")
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + b"\0" * offset)
    return path


def pages_are_as_long_as_the_list(terminal, folder):
    names = [f"t{i:02}" for i in reversed(range(60))]
    terminal.browse(long_file(folder))

    def on_page(first, count, cursor):
        def listed():
            return [line.split()[-1] for line in terminal.lines() if line[9:11] == " B"]

        terminal.see(f"; {cursor + 1} of 60")
        terminal.wait(lambda: listed() == names[first:first + count])

    on_page(0, 19, 0)
    terminal.keys("NPage")
    on_page(1, 19, 19)
    terminal.keys("NPage")
    on_page(20, 19, 38)
    terminal.keys("k")
    on_page(20, 19, 37)
    terminal.keys("PPage")
    on_page(18, 19, 18)
    terminal.keys("i")
    terminal.wait(lambda: not any(line.startswith("-----") for line in terminal.lines()))
    on_page(18, 26, 18)
    terminal.keys("NPage")
    on_page(19, 26, 44)
    terminal.keys("NPage")
    on_page(34, 26, 59)
    terminal.keys("i", "Home")
    terminal.wait(lambda: any(line.startswith("-----") for line in terminal.lines()))
    on_page(0, 19, 0)
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


COLUMNS = {  # width -> what the rows of the first and the eleventh tensor end with
    100: "  3.3 % [####################]                  1  t59|  2.7 % [#################   ]                  1  t49",
    99: "  3.3 % [########]                  1  t59|  2.7 % [####### ]                  1  t49",
    76: "  3.3 % [########]                  1  t59|  2.7 % [####### ]                  1  t49",
    75: "  3.3 %                  1  t59|  2.7 %                  1  t49",
    60: "  3.3 %                  1  t59|  2.7 %                  1  t49",
    59: "  3.3 %       1  t59|  2.7 %       1  t49",
    50: "  3.3 %       1  t59|  2.7 %       1  t49",
    49: "  3.3 %  t59|  2.7 %  t49",
    40: "  3.3 %  t59|  2.7 %  t49",
    39: " t59| t49",
}


def columns_follow_the_width(terminal, folder):
    terminal.browse(long_file(folder))
    for columns, rows in COLUMNS.items():
        first, eleventh = rows.split("|")

        def fits(height, count):
            lines = terminal.lines()
            return len([line for line in lines if line[9:11] == " B"]) == count and lines[3].endswith(" B " + first) \
                and lines[2].index("NAME") == lines[3].index("t59") and (count < 11 or lines[13].endswith(" B " + eleventh)) \
                and lines[height - 1].startswith(" 1.8 k parameters")

        for height, count in ((15, 11), (16, 5)):
            terminal.call("resize-window", "-x", str(columns), "-y", str(height))
            terminal.wait(lambda height=height, count=count: fits(height, count))
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


# ---- how it ends ----


def signals_leave_the_terminal_as_it_was(terminal, folder):
    terminal.browse(DEMO)
    terminal.keys("C-c")
    terminal.see("here it was")
    terminal.type("clear")  # bash left the line when its command was interrupted
    # Sanitizers have handlers of their own for crashes.
    crashes = () if NO_ANSWER is None else (signal.SIGSEGV, signal.SIGABRT)
    for number in (signal.SIGTERM, signal.SIGHUP, *crashes):
        terminal.browse(DEMO)
        os.kill(process_of(terminal), number)
        left_as_it_was(terminal, folder, 128 + number)


def stops_and_goes_on(terminal, folder):
    terminal.browse(DEMO)
    terminal.keys("C-z")
    terminal.see("Stopped")
    terminal.type("clear; stty -g > stopped")
    stopped = os.path.join(folder, "stopped")
    terminal.wait(lambda: os.path.exists(stopped) and os.path.getsize(stopped) > 0)
    with open(stopped, encoding="ascii") as now, open(os.path.join(folder, "before"), encoding="ascii") as before:
        assert now.read() == before.read()
    terminal.type("fg")
    terminal.see("q: quit")
    terminal.keys("j")
    terminal.see("2 of 5")
    terminal.keys("q")
    terminal.wait(lambda: "q: quit" not in terminal.shown())
    os.remove(os.path.join(folder, "after"))  # of the line that went on when it was stopped
    terminal.type("clear; stty -g > after; echo status 0; echo here it was")
    left_as_it_was(terminal, folder, 0)


# ---- what files and disks do ----


def hostile_file(folder):
    """Names that would steer a terminal; in JSON they are well-formed."""
    header, offset = {}, 0
    for name in HOSTILE:
        header[name + ".w"] = {"dtype": "F32", "shape": [1], "data_offsets": [offset, offset + 4]}
        offset += 4
    text = json.dumps(header).encode()
    path = os.path.join(folder, "hostile.safetensors")
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + b"\0" * offset)
    return path


def hostile_names_are_escaped(terminal, folder):
    path = hostile_file(folder)
    terminal.browse(path)
    terminal.keys("n")
    screen = terminal.see("by name")
    names = [name.removesuffix(".w") for name in answer("ls", "-o", "text", path).split("\n")[1:]]
    names = [re.split(r"\.w ", name)[0] for name in names if ".w " in name]
    assert len(names) == len(HOSTILE), names
    for name in names:
        # tmux leaves out what it cannot show, and long names are cut.
        wanted = "/" + name if len(name) < 40 else "/" + name[:10]
        assert wanted in screen, (wanted, screen)
    raw = terminal.call("capture-pane", "-p", "-e")
    assert "\x1b[31m" not in raw
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


def unreadable_values_are_reported(terminal, folder):
    """The metadata is sound, and the files of the elements are empty."""
    path = os.path.join(folder, "cut")
    shutil.copytree(DEMO, path)
    for name in os.listdir(path):
        if name.endswith(".distcp"):
            open(os.path.join(path, name), "wb").close()
    terminal.browse(path)
    terminal.keys("n", "j", "Enter")
    terminal.see("values cannot be read: ")
    terminal.keys("q")
    terminal.see("status ")
    terminal.wait(lambda: os.path.getsize(os.path.join(folder, "after")) > 0 if
                  os.path.exists(os.path.join(folder, "after")) else False)
    os.remove(os.path.join(folder, "after"))


def a_disk_that_never_answers_stops_nothing(terminal, folder):
    terminal.browse("--no-sandbox " + DEMO, before=f"LD_PRELOAD={NO_ANSWER} ")
    terminal.keys("n", "j", "Enter")
    terminal.see("values are being read")
    terminal.keys("Left", "k")
    terminal.see_line("^blocks")
    terminal.keys("Enter", "Enter", "End", "Enter")
    terminal.see("values are being read")
    terminal.keys("q")
    left_as_it_was(terminal, folder, 0)


# ---- where it is not shown ----


def needs_a_terminal(_terminal, _folder):
    for words, environment in (([], {}), (["--json"], {})):
        done = subprocess.run([BINARY, "browse", *words, DEMO], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, **environment})
        assert done.returncode == 2, done
        assert "\x1b" not in done.stdout, done
        assert "tree --sizes" in done.stderr or words, done


def needs_a_terminal_that_can_move(terminal, folder):
    for kind, why in (("dumb", "cursor can be moved"), ("nosuch", "TERM names")):
        terminal.type(f"clear; stty -g > before; echo here it was; TERM={kind} {BINARY} browse {DEMO}; "
                      "echo status $?; stty -g > after")
        left_as_it_was(terminal, folder, 2)
        assert why in terminal.shown(), terminal.shown()
        assert "tree --sizes" in terminal.shown()


TESTS = [shows_what_tree_does, keys_move_and_sort, keys_go_in_and_out, values_are_those_of_show,
         help_is_left_by_any_key, unknown_keys_do_nothing, resizes,
         pages_are_as_long_as_the_list, columns_follow_the_width, signals_leave_the_terminal_as_it_was,
         stops_and_goes_on, hostile_names_are_escaped, unreadable_values_are_reported,
         a_disk_that_never_answers_stops_nothing, needs_a_terminal, needs_a_terminal_that_can_move]


def why_not(test):
    """A reason to skip it, or None."""
    if test is needs_a_terminal:
        return None
    told = subprocess.run([BINARY, "browse", DEMO], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False).stderr
    if "is not built into this program" in told:
        return "built without ncurses"
    if shutil.which("tmux") is None:
        return "no tmux"
    if why := terminals.missing():
        return why
    if test is a_disk_that_never_answers_stops_nothing and NO_ANSWER is None:
        return "sanitizers want to be loaded first"
    return None


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        name = test.__name__.replace("_", " ")
        reason = why_not(test)
        if reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="fsdp-inspect-") as folder:
            os.chdir(folder)
            terminal = None
            try:
                terminal = Terminal(folder) if test is not needs_a_terminal else None
                test(terminal, folder)
                print(f"ok {number} - {name}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError, KeyError, IndexError, StopIteration) as error:
                failed += 1
                print(f"not ok {number} - {name}")
                print("\n".join("# " + line for line in f"{type(error).__name__}: {error}".split("\n")), flush=True)
            finally:
                os.chdir("/")
                if terminal is not None:
                    terminal.close()
    sys.exit(1 if failed else 0)


main()
