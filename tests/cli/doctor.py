#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tegula doctor, in environments with and without faults.

    tests/cli/doctor.py --tegula build/bin/tegula --source . --cuda fake_cuda.so

A row of CASES has variables, the exit code, a finding (section, name, state) and a pattern of its text and
advice. The table of variables must name each that the sources read, and the guides each that is for users.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GONE = "/nowhere/at-all.so"
CASES = [
    ({}, 0, ("versions", "tegula", "ok"), r"^\d+\.\d+\.\d+, compiler [0-9a-f]{12}"),
    ({}, 0, ("versions", "LLVM", "ok"), r"^\d+\.\d+\.\d+, in /"),
    ({}, 0, ("devices", "cpu", "ok"), r"\d+ threads, level (base|v3|v4|amx): \w.*runs kernels"),
    ({}, 0, ("cache", "folder", "ok"), r"CACHE, of \w+, mode 0700, \d+ entries, .* of at most 1024 MiB, writable"),
    ({"TG_LEVEL": "base"}, 0, ("devices", "cpu", "ok"), r"level base"),
    ({"TG_FAULT": "abort", "TG_COMPILE": "process"}, 1, ("devices", "cpu", "problem"), r"cannot run kernels: .+please report"),
    ({"TG_CUDA_LIBRARY": GONE}, 1, ("devices", "GPUs", "problem"), r"cannot be loaded.*correct or unset TG_CUDA"),
    ({"TG_CUDA_LIBRARY": GONE}, 1, ("environment", "TG_CUDA_LIBRARY", "problem"), r"cannot be used \(No such file"),
    ({"TG_CUDA_LIBRARY": "FAKE", "FAKE_CUDA_DEVICES": "90,80"}, 0, ("devices", "cuda:0", "ok"),
     r"compute capability 9\.0, \d+ SMs, code for sm_90a"),
    ({"TG_CUDA_LIBRARY": "FAKE", "FAKE_CUDA_DEVICES": "90,80"}, 0, ("devices", "cuda:1", "ok"), r"code for sm_80"),
    ({"TG_CUDA_LIBRARY": "FAKE", "FAKE_CUDA_DEVICES": "90,80"}, 0, ("devices", "driver", "ok"), r"of CUDA 1\d\.\d"),
    ({"TG_CUDA_LIBRARY": "FAKE", "FAKE_CUDA_DEVICES": "61"}, 1, ("devices", "cuda:0", "problem"),
     r"no code runs on it.*`tegula targets`"),
    ({"TG_PTXAS": GONE}, 1, ("tools", "ptxas", "absent"), r"not found; nvJitLink"),
    ({"TG_COMGR": "", "TG_LLD": ""}, 0, ("tools", "comgr", "absent"), r"not found; lld"),
    ({"TG_COMGR": "", "TG_LLD": ""}, 0, ("tools", "lld", "absent"), r"not found; comgr"),
    ({"TG_CACHE": "off"}, 0, ("cache", "folder", "absent"), r"every process compiles"),
    ({"TG_CACHE": "OPEN"}, 1, ("cache", "folder", "problem"), r"OPEN: .*other users may write.*set TG_CACHE"),
    ({"TG_CACHE": "FILE"}, 1, ("cache", "folder", "problem"), r"compiled kernels are not kept"),
    ({"TG_CACHE": None, "HOME": None}, 1, ("cache", "folder", "problem"), r"neither HOME nor.*set HOME"),
    ({"TG_CACHE_SIZE": "many"}, 1, ("cache", "folder", "problem"), r"not a size like 512M"),
    ({"TG_CACHE_SIZE": "many"}, 1, ("environment", "TG_CACHE_SIZE", "problem"), r"'many' is not a size"),
    ({"TG_CACHE_SIZE": "4M"}, 0, ("cache", "folder", "ok"), r"of at most 4 MiB"),
    ({"TG_TUNE": "of"}, 1, ("environment", "TG_TUNE", "problem"), r"'of' is none of off strict"),
    ({"TG_TUNE_SHARE": "101"}, 1, ("environment", "TG_TUNE_SHARE", "problem"), r"not a percentage"),
    ({"TG_TUNE_BUDGET_MS": "soon"}, 1, ("environment", "TG_TUNE_BUDGET_MS", "problem"), r"not a time"),
    ({"TG_COMM_TIMEOUT_MS": "1.5"}, 1, ("environment", "TG_COMM_TIMEOUT_MS", "problem"), r"not a whole number"),
    ({"CUDA_HOME": "FILE"}, 1, ("environment", "CUDA_HOME", "problem"), r"is no folder"),
    ({"TG_RANK_KEY": "open sesame"}, 0, ("environment", "TG_RANK_KEY", "ok"), r"\(hidden\)"),
    ({"TG_CACHES": "off"}, 1, ("environment", "TG_CACHES", "problem"), r"did you mean TG_CACHE\?"),
    ({"TG_NOTHING_LIKE_IT": "1"}, 1, ("environment", "TG_NOTHING_LIKE_IT", "problem"), r"reads no variable.*unset it"),
    ({}, 0, ("environment", "variables", "ok"), r"none that Tegula reads"),
]
# A variable that is for tests, or set by other programs, is in no guide.
READ = re.compile(r'(?:secure_getenv|read_env_number|set_in)\("(TG_\w+)"|\.variable = "(TG_\w+)"|VARIABLE "(TG_\w+)"')
ROW = re.compile(r'(?m)^VARIABLE\("(\w+)", \w+, .*, "(.*)"\)$')


class Place:
    def __init__(self, options, folder):
        self.options = options
        self.words = {"CACHE": folder / "CACHE", "OPEN": folder / "OPEN", "FILE": folder / "FILE",
                      "FAKE": options.cuda.resolve()}
        self.words["OPEN"].mkdir()
        self.words["OPEN"].chmod(0o777)
        self.words["FILE"].write_text("")

    def run(self, variables, *words):
        env = {n: v for n, v in os.environ.items()
               if n in ("PATH", "HOME") or n.startswith(("ASAN_", "UBSAN_", "LSAN_"))}
        env["TG_CACHE"] = "CACHE"
        for name, value in variables.items():
            env.pop(name, None)
            if value is not None:
                env[name] = value
        if variables == {}:  # nothing is set: the cache is below HOME
            del env["TG_CACHE"]
            env["HOME"] = str(self.words["CACHE"].parent)
        env = {name: str(self.words.get(value, value)) for name, value in env.items()}
        return subprocess.run([self.options.tegula, "doctor", *words], env=env, capture_output=True, text=True)

    def case_fault(self, variables, code, key, pattern):
        r = self.run(variables, "--json")
        try:
            report = json.loads(r.stdout)
        except ValueError as error:
            return f"no JSON ({error}): {r.stdout[:200]}{r.stderr[:200]}"
        found = [f for f in report["findings"] if (f["section"], f["name"], f["state"]) == key]
        if r.returncode != code:
            problems = [f for f in report["findings"] if f["state"] == "problem"]
            return f"exit {r.returncode}: {problems}"
        texts = [" ".join((f["text"], f.get("advice", ""))) for f in found]
        pattern = pattern.replace("CACHE,", r"(CACHE|\.cache/tegula),")
        if len(texts) != 1 or not re.search(pattern, texts[0], re.S):
            return f"/{pattern}/ is not in {texts or report['findings']}"
        if report["problems"] != sum(f["state"] == "problem" for f in report["findings"]):
            return "the number of problems is wrong"
        return None


def text_faults(place):
    """The text has the findings of the JSON, with a mark and advice."""
    r = place.run({"TG_CACHES": "off"})
    for pattern in (r"(?m)^devices\n  ok  cpu ", r"(?m)^  !!  TG_CACHES +Tegula reads no variable",
                    r"(?m)^ +-> did you mean TG_CACHE\?$", r"\n1 problem\n$"):
        if not re.search(pattern, r.stdout):
            yield f"text: /{pattern}/ is not in {r.stdout}"
    if not place.run({}).stdout.endswith("\nno problem\n"):
        yield f"text without a problem: {place.run({}).stdout}"
    try:
        json.loads(place.run({"TG_NOTHING_\udcff": "1"}, "--json").stdout)
    except ValueError as error:
        yield f"a name that is not UTF-8 makes bad JSON: {error}"
    if "open sesame" in place.run({"TG_RANK_KEY": "open sesame"}).stdout:
        yield "the secret of ranks is printed"


def table_faults(source):
    rows = dict(ROW.findall((source / "tools/tegula/doctor/variables.def").read_text()))
    read = set()
    for folder in ("backends", "cache", "driver", "frontend", "ir", "lang", "passes", "runtime", "tools"):
        for path in (source / folder).rglob("*.[ch]"):
            read |= {next(filter(None, names)) for names in READ.findall(path.read_text())}
    yield from (f"variables.def has no row of {name}" for name in sorted(read - set(rows)))
    own = {name for name in rows if name.startswith("TG_")}
    yield from (f"variables.def has {name}, which nothing reads" for name in sorted(own - read))
    guides = "".join(p.read_text() for p in (source / "docs").rglob("*.md"))
    for name in sorted(own):
        if name not in guides and not rows[name].startswith(("for tests", "set in")):
            yield f"no guide names {name}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cuda", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.tegula = options.tegula.resolve()
    bad = list(table_faults(options.source))
    with tempfile.TemporaryDirectory(prefix="tegula-doctor-") as folder:
        place = Place(options, pathlib.Path(folder))
        bad += text_faults(place)
        for case in CASES:
            fault = place.case_fault(*case)
            if fault:
                bad.append(f"{case[0]} {case[2]}: {fault}")
    print("\n".join(bad))
    print(f"{len(CASES)} cases, {len(bad)} problems")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
