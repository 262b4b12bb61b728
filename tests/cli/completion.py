#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Completion scripts and the manual page have each command and each option, and their shells accept them.

    tests/cli/completion.py --tegula build/bin/tegula

Bash completes some lines; zsh, fish and groff only read their files, where they are installed.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# The words before the cursor (the last one is incomplete), words that are offered, and one that is not.
LINES = [
    ("tegula ru", {"run"}, "tune"),
    ("tegula ''", {"run", "doctor", "completion", "help", "--version"}, "k.teg"),
    ("tegula help ar", {"arguments"}, "run"),
    ("tegula run --thr", {"--threads"}, "--jsonl"),
    ("tegula run -", {"--kernel", "-k", "--help"}, "--jsonl"),
    ("tegula run k", {"k.teg", "kernels"}, "k.txt"),
    ("tegula run k.teg --target cp", {"cpu"}, "k.teg"),
    ("tegula build k.teg -o k", {"k.teg", "k.txt", "kernels"}, "--output"),
    ("tegula run k.teg --arg k", set(), "k.teg"),
    ("tegula cache pr", {"prune"}, "path"),
    ("tegula completion ''", {"bash", "zsh", "fish"}, "run"),
    ("tegula targets k", set(), "k.teg"),
]


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


def options_of(tegula, command):
    """(letter or "", name) of each option in the help."""
    return re.findall(r"(?m)^  (?:    |-(\w), )--([a-z-]+) ", run(tegula, command, "--help").stdout)


def commands_of(tegula):
    return re.findall(r"(?m)^  ([a-z]+)  +\w", run(tegula, "help").stdout)


def bash_part(text, command):
    return re.search(rf"(?ms)^    {command}\)$(.*?);;$", text)[1]


def zsh_part(text, command):
    return re.search(rf"(?ms)^    {command}\)$(.*?);;$", text)[1]


def fish_part(text, command):
    return "\n".join(line for line in text.splitlines() if f"_from {command}'" in line)


def manual_part(text, command):
    return re.search(rf"(?ms)^\.SS tegula {command} (.*?)(?=^\.S)", text)[1].replace("\\-", "-")


# How each script writes an option's name and its letter.
SHELLS = {
    "bash": (bash_part, r"--{}[ ']", r" -{}[ ']"),
    "zsh": (zsh_part, r"'\*?--{}=?\[", r"'\*?-{}\+?\["),
    "fish": (fish_part, r" -l {} ", r" -s {} "),
    "man": (manual_part, r"\\fB--{}\\fR", r"\\fB-{}\\fR, "),
}


def script_faults(tegula, shell, text):
    part_of, name_form, letter_form = SHELLS[shell]
    for command in commands_of(tegula):
        part = part_of(text, command)
        found = options_of(tegula, command)
        for letter, name in found:
            for form, word in ((name_form, name), (letter_form, letter)):
                if word and not re.search(form.format(re.escape(word)), part):
                    yield f"{shell}: {command} lacks the option {word}"


def reader_faults(shell, path):
    readers = {"bash": ("bash", "-n"), "zsh": ("zsh", "-n"), "fish": ("fish", "-n"),
               "man": ("groff", "-man", "-Tutf8", "-ww", "-z")}
    reader = readers[shell]
    if not shutil.which(reader[0]):
        print(f"left out: {reader[0]} is not installed")
        return
    r = run(*reader, path)
    if r.returncode or r.stderr:
        yield f"{shell} does not accept it: {r.stderr[:300]}"


def offered(tegula, script, line, folder):
    """The words that bash offers for a line."""
    program = (f"source '{script}'; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
               'cd "$1"; _tegula; printf "%s\\n" "${COMPREPLY[@]}"')
    path = f"{tegula.parent}:{os.environ['PATH']}"
    return set(run("bash", "-c", program, "-", folder, env={**os.environ, "PATH": path}).stdout.split())


def line_faults(tegula, script, folder):
    (folder / "kernels").mkdir()
    for name in ("k.teg", "k.txt"):
        (folder / name).write_text("")
    for line, wanted, unwanted in LINES:
        words = offered(tegula, script, line, folder)
        if not wanted <= words or unwanted in words:
            yield f"bash offers {sorted(words)} for `{line}`"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", type=pathlib.Path, required=True)
    tegula = parser.parse_args().tegula.resolve()
    bad = []
    with tempfile.TemporaryDirectory(prefix="tegula-completion-") as temporary:
        folder = pathlib.Path(temporary)
        for shell in SHELLS:
            words = ("help", "man") if shell == "man" else ("completion", shell)
            path = folder / f"tegula.{shell}"
            path.write_text(run(tegula, *words, check=True).stdout)
            bad += script_faults(tegula, shell, path.read_text())
            bad += reader_faults(shell, path)
        if shutil.which("bash"):
            work = folder / "work"
            work.mkdir()
            bad += line_faults(tegula, folder / "tegula.bash", work)
    r = run(tegula, "completion", "tcsh")
    if r.returncode != 2 or "there are bash, zsh and fish" not in r.stderr:
        bad.append(f"completion tcsh: {r.returncode} {r.stderr}")
    print("\n".join(bad) or "all commands and options are there")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
