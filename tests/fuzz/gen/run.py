"""Runs programs on executors, many in a process, and compares them with the interpreter."""

import dataclasses
import os
import shlex

import numpy as np

from gen.data import difference  # finds tests/run, too
from batch import run_lines

# A program that exceeds a GPU's resources has not failed.
TOO_LARGE = ("bytes of shared memory of a CTA", "have to fit whole")
LEVELS = (None, "base", None, "v3", None, "v4")  # highest level of a CPU


@dataclasses.dataclass
class Failure:
    target: str
    kind: str  # must stay the same during reduction
    text: str
    line: str


class Runner:
    def __init__(self, tegula, targets, folder):
        self.tegula, self.targets, self.folder = tegula, targets, folder
        self.env = {**os.environ, "TG_CACHE": "off", "TG_TUNE": "off"}

    def lines(self, program, key, targets):
        """A line of a batch for each target."""
        source = program.source()
        file = self.folder / f"{key}.teg"
        file.write_text(source)
        out = []
        for k, t in enumerate(targets):
            words = [str(file), "-k", "k", "--target", t, "--quiet", *program.words()]
            words += [w for only, *flag in program.flags if only in ("", t) for w in flag]
            for o in program.written():
                base = ".base" if o.whole else ""
                words += ["--out", f"{o.name}{base}={self.folder}/{key}_{k}-{o.name}.npy"]
            out.append(shlex.join(words))
        return out

    def batch(self, lines, perturb):
        """(exit code, text) of each line."""
        # This byte fills new heap memory, and so arenas and workspaces. In every other batch,
        # uninitialised memory holds NaNs before each launch.
        env = {**self.env, "MALLOC_PERTURB_": str(perturb)}
        if perturb & 1:
            env["TG_FILL"] = "nan"
        level = LEVELS[perturb % len(LEVELS)]
        if level:
            env["TG_LEVEL"] = level
        return run_lines(self.tegula, lines, self.folder, env=env)

    def check(self, programs, targets=None, keys=None):
        """For each program, the targets that it ran on and its failures."""
        targets = targets or self.targets
        lines, each = [], 1 + len(targets)
        keys = keys or [str(p.number) for p in programs]
        for p, key in zip(programs, keys):
            lines += self.lines(p, key, ["interp", *targets])
        results = self.batch(lines, programs[0].number * 37 % 255 + 1)
        out = []
        for i, (p, key) in enumerate(zip(programs, keys)):
            part = slice(i * each, i * each + each)
            out.append(self.judge(p, key, ["interp", *targets], lines[part], results[part]))
        for f in self.folder.glob("*_*-o*.npy"):
            f.unlink()
        return out

    def judge(self, program, key, targets, lines, results):
        ran, failures = [], []
        expected = {}
        for k, (target, line, (code, text)) in enumerate(zip(targets, lines, results)):
            if code and any(t in text for t in TOO_LARGE):
                continue
            if code:
                failures.append(Failure(target, signature(code, text), f"exit code {code}\n{text}", line))
                if k == 0:
                    break
                continue
            got = self.outputs(program, f"{key}_{k}")
            if any(a is None for a in got.values()):
                failures.append(Failure(target, "no output", text, line))
                break
            if k == 0:
                expected = got
                continue
            bad = [f"{o.name}: {d}" for o in program.written() if (d := difference(expected[o.name], got[o.name], o))]
            if bad:
                failures.append(Failure(target, "differs", "\n".join(bad), line))
            else:
                ran.append(target)
        return ran, failures

    def outputs(self, program, key):
        out = {}
        for o in program.written():
            path = self.folder / f"{key}-{o.name}.npy"
            out[o.name] = np.load(path) if path.exists() else None
            path.unlink(missing_ok=True)
        return out


def signature(code, text):
    """The message without names and numbers."""
    lines = [w for w in text.splitlines() if "error" in w or "internal" in w or "ICE" in w] or text.splitlines()[-1:]
    first = lines[0].split("error:")[-1] if lines else ""
    return f"{code} " + "".join(c for c in first if not c.isdigit())[:60]
