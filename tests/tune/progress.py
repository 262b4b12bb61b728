# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the output of `tegula tune`, and of `run` with a search, on a terminal: one line, rewritten in place,
with the number of candidates, the best time and the time left. The line disappears at the end.

    progress.py TEGULA
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

COLUMNS = 72
KERNEL = """
kernel scale(x: f32[R, N], y: f32[R, N]) tune BN = 64 | 128 | 256 | 512, BR = 1 | 2 | 4 {
    parallel r in R by BR, n in N by BN { y[r, n] = 2 * x[r, n]; }
}
"""


def on_terminal(command, folder, **env):
    """The command's output to a terminal, and to a pipe on its standard output. None: the time did not
    suffice for any result, on a busy machine."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    with tempfile.TemporaryFile("w+") as out:
        run = subprocess.Popen(command, cwd=folder, stdout=out, stderr=slave, stdin=slave,
                               env=os.environ | {"TG_CACHE": "off"} | env)
        os.close(slave)
        said = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
        if run.wait() and b"the time was up before the first result" in said:
            return None
        assert run.wait() == 0, said.decode()
        out.seek(0)
        return said.decode(), out.read()


def with_enough_time(command, folder, seconds, **env):
    """The output and the environment of a search that had time to show candidates; a busy machine needs more.
    command: by the seconds; env: texts of values by the seconds."""
    while True:
        now = {name: value(seconds) for name, value in env.items()}
        answer = on_terminal(command(seconds), folder, **now)
        if seconds > 200 or (answer and answer[0].count("\r\x1b[K") > 5 and ", best " in answer[0]):
            return *answer, now
        seconds *= 4


def lines_of(said):
    """Each state of the line. The last one is empty."""
    parts = said.split("\r\x1b[K")
    assert parts[0] == "" and parts[-1] == "", "something else is written to the terminal: " + said
    assert "\n" not in said, "the line is not rewritten in place: " + said
    for part in parts:
        assert len(part) < COLUMNS, f"'{part}' is wider than the terminal"
    return parts[1:-1]


def check(tegula, folder, options, has_end):
    def command(seconds):
        budget = ["--budget", str(seconds)] if has_end else []
        return [tegula, "tune", "k.teg", "-d", "R=64", "-d", "N=2048", *options, *budget]

    said, out, _ = with_enough_time(command, folder, 4)
    assert "best: B" in out and "\x1b" not in out, out
    check_lines(said, has_end)


def check_lines(said, has_end):
    found = []
    for line in lines_of(said):
        m = re.match(r"(\d+) of (\d+) candidates(?:, (\d+) s left)?(?:, best ([\d.]+) [mu]?s)?", line)
        assert m, f"'{line}'"
        found.append((int(m[1]), int(m[2]), m[4] and float(m[4]), m[3] and int(m[3])))
    assert len(found) > 3, found
    assert all(a[0] <= b[0] for a, b in zip(found, found[1:])), "candidates get fewer"
    assert found[-1][0] >= 2 and found[-1][0] <= found[-1][1]
    assert found[-1][2] and found[-1][2] > 0, "no best time: " + said
    if has_end:
        left = [f[3] for f in found]
        assert None not in left and left == sorted(left, reverse=True), left
    else:
        assert all(f[3] is None for f in found), "a search without an end has no time left: " + said


def check_run(tegula, folder):
    """`run` searches once if TG_TUNE says so, and refuses an unknown mode."""
    command = [tegula, "run", "k.teg", "--arg", "x=rand(64,2048)"]
    said, out = on_terminal(command, folder, TG_TUNE="background")
    assert said == "" and "y: f32" in out, said + out
    said, out, env = with_enough_time(lambda seconds: command, folder, 4, TG_TUNE=lambda seconds: "block",
                                      TG_TUNE_BUDGET_MS=lambda seconds: str(1000 * seconds),
                                      TG_CACHE=lambda seconds: os.path.join(folder, str(seconds)))
    check_lines(said, True)
    assert "y: f32" in out and "ran" in out, out
    won = re.search(r"BN=\d+ BR=\d+", out)[0]
    for mode in "block", "exhaustive", "background":
        said, out = on_terminal(command, folder, **(env | {"TG_TUNE": mode}))
        assert said == "" and won in out, mode + ": " + said + out
    explained = subprocess.run([tegula, "explain", *command[2:]], cwd=folder, text=True,
                               capture_output=True, check=True, env=os.environ | env | {"TG_TUNE": ""})
    assert "tuned on" in explained.stdout and won in explained.stdout, explained.stdout
    refused = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False,
                             env=os.environ | env | {"TG_TUNE": "bogus"})
    assert refused.returncode == 1 and not refused.stdout, refused.stdout
    assert "'bogus' is none of off, strict, block, background, exhaustive" in refused.stderr, refused.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "k.teg"), "w", encoding="utf-8") as f:
            f.write(KERNEL)
        check(sys.argv[1], folder, [], True)
        check(sys.argv[1], folder, ["--mode", "exhaustive", "--set", "BR=1"], False)
        check_run(sys.argv[1], folder)


main()
