#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every run test on a GPU, by both code generators, and the library's kernels under the sanitizer.

    tests/gpu/check.py --root BUNDLE --out DIR [--budget 480] [--stages smoke,host,ranks,run,sanitize]

The case files are split into parts that run side by side. A part that crashes or hangs does not stop the
others. When the budget is spent, running parts are ended and the remaining ones are listed. DIR gets
summary.md, summary.json and logs.tar.gz. Exit code 0: everything ran and passed; 77: everything else
passed, but the sanitizer stage was requested and there is no compute-sanitizer; 1: a failure, or a
sanitizer log without a summary.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

TOOLS = ("memcheck", "racecheck", "synccheck")
PASSED = re.compile(r"^(\d+) of (\d+) runs passed", re.M)
FAILED = re.compile(r"^FAIL (.*)$", re.M)
FOUND = re.compile(r"^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", re.M)
SKIPPED = 77  # exit code, as of autotools and ctest
PART_BYTES = 2000  # approximate size of a part of a case file


@dataclasses.dataclass
class Job:
    """A process. `group` is its row in the summary, `weight` an estimate of its length."""

    group: str
    name: str
    command: list
    environment: dict
    limit: float
    weight: float = 0
    seconds: float = 0
    state: str = "not run"  # or passed, failed, no runs, took too long, out of time
    passed: int = 0
    total: int = 0
    failures: list = dataclasses.field(default_factory=list)


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--root", required=True, help="the unpacked bundle, or a tree with --tegula")
    p.add_argument("--tegula", help="the program (default: ROOT/bin/tegula)")
    p.add_argument("--out", required=True)
    p.add_argument("--target", default="cuda")
    p.add_argument("--codegens", default="nvptx,nvvm", help="code generators, with commas")
    p.add_argument("--stages", default="smoke,host,ranks,run,sanitize")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--budget", type=float, default=480, help="seconds for everything")
    p.add_argument("--limit", type=float, default=20, help="seconds for one run")
    p.add_argument("--each", type=int, default=2, help="cases of a kernel under the sanitizer")
    p.add_argument("--files", default="", help="only case files whose name holds this text")
    p.add_argument("--sanitizer", default=shutil.which("compute-sanitizer") or "")
    return p.parse_args()


# ---- jobs ----------------------------------------------------------------------------------------


def case_files(o, pattern="*.py"):
    folder = pathlib.Path(o.root, "tests/run")
    files = [f for f in sorted(folder.glob(pattern)) if f.stem not in ("run", "harness", "batch", "turns")]
    return [f for f in files if o.files in f.stem]


def run_command(o, program, file, *more):
    runner = pathlib.Path(o.root, "tests/run/run.py")
    return [
        sys.executable,
        str(runner),
        "--tegula",
        str(program),
        "--target",
        o.target,
        *more,
        str(file),
    ]


def run_jobs(o):
    for codegen in o.codegens.split(","):
        for file in case_files(o):
            size = file.stat().st_size
            parts = max(1, round(size / PART_BYTES))
            for i in range(parts):
                command = run_command(
                    o, o.tegula, file, "--limit", str(o.limit), "--part", f"{i + 1}/{parts}"
                )
                name = f"{codegen}-{file.stem}-{i + 1}"
                yield Job(codegen, name, command, {"TG_CODEGEN": codegen}, o.budget, size / parts)


def wrapper(o, tool, folder):
    """A program that is tegula under a tool of the sanitizer; run.py takes it for tegula. Findings go to the
    log only, since an exit code would look like that of a case that is meant to fail."""
    path = pathlib.Path(folder, f"tegula-{tool}")
    log = pathlib.Path(o.logs, f"{tool}-%p.log")
    path.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = run ] || exec {o.tegula} "$@"\n'
        f'exec {o.sanitizer} --tool {tool} --log-file {log} --error-exitcode 0 {o.tegula} "$@"\n'
    )
    path.chmod(0o755)
    return path


def sanitize_jobs(o, folder):
    if not o.sanitizer:
        return
    for tool in TOOLS:
        program = wrapper(o, tool, folder)
        for file in case_files(o, "std_*.py"):
            more = ["--limit", str(4 * o.limit), "--each", str(o.each)]
            # The sanitizer is hundreds of times slower than the kernel. Its log is named by the process.
            yield Job(
                tool,
                f"{tool}-{file.stem}",
                run_command(o, program, file, *more),
                {},
                o.budget / 2,
                file.stat().st_size,
            )


def smoke_jobs(o):
    """Whether the GPU works at all."""
    files = [f for f in case_files(o, "*.py") if f.stem in ("std_softmax", "std_matmul")]
    for codegen in o.codegens.split(","):
        for file in files:
            command = run_command(o, o.tegula, file, "--limit", "60", "--each", "1")
            yield Job(
                "smoke", f"smoke-{codegen}-{file.stem}", command, {"TG_CODEGEN": codegen}, 120
            )


def host_jobs(o):
    """The host's work before the GPU can start: compiling, and a warm launch."""
    bench = o.root / "bench/gpu"
    compiling = [sys.executable, str(bench / "compile.py"), "--tegula", str(o.tegula), "--target"]
    yield Job("host", "host-compile", [*compiling, o.target, "--runs", "5"], {}, 120)
    program = pathlib.Path(o.logs, "launch")
    build = (
        f"cc -O2 {bench}/launch.c -I {o.root}/include -L {o.root}/lib -ltegula -ldl -o {program}"
    )
    run = f"LD_LIBRARY_PATH={o.root}/lib {program}"
    yield Job("host", "host-launch", ["sh", "-c", f"{build} && {run}"], {}, 60)
    if (o.root / "tests/gpu/gpu_real").is_file():  # a program of a bundle: streams, graphs, errors, times
        yield Job("host", "host-runtime", [str(o.root / "tests/gpu/gpu_real")], {}, 60)


def ranks_jobs(o):
    """Ranks with a GPU each, if there are several."""
    if len(device().splitlines()) < 2:
        return
    if (o.root / "tests/gpu/comm_gpu").is_file():
        yield Job("ranks", "ranks-runtime", [str(o.root / "tests/gpu/comm_gpu")], {}, 60)
    yield Job("ranks", "ranks-kernels", [sys.executable, str(o.root / "tests/gpu/ranks.py"), "--times"], {}, 180)


# ---- running them --------------------------------------------------------------------------------


def end(process):
    """Ends a job and the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_job(o, job, deadline):
    started = time.monotonic()
    limit = min(job.limit, deadline - started)
    if limit <= 0:
        job.state = "out of time"
        return
    path = pathlib.Path(o.logs, job.name + ".log")
    with open(path, "w") as log:
        print(" ".join(job.command), file=log, flush=True)
        process = subprocess.Popen(
            job.command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"TG_TUNE": "off", **os.environ, **job.environment},
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=limit)
            job.state = "failed" if code else "passed"
        except subprocess.TimeoutExpired:
            end(process)
            job.state = "took too long" if limit == job.limit else "out of time"
    job.seconds = time.monotonic() - started
    text = path.read_text(errors="replace")
    for passed, total in PASSED.findall(text):
        job.passed, job.total = int(passed), int(total)
    job.failures = FAILED.findall(text)
    if job.state == "failed" and not job.failures and PASSED.search(text) and not job.total:
        job.state = "no runs"  # all of the file's cases are for other targets
    elif job.state == "failed" and not job.failures:
        job.failures = text.strip().split("\n")[-3:]


def run_all(o, jobs, deadline):
    """Runs jobs side by side, the longest first."""
    waiting = sorted(jobs, key=lambda j: j.weight)
    lock = threading.Lock()

    def go_on():
        while True:
            with lock:
                if not waiting:
                    return
                job = waiting.pop()
            run_job(o, job, deadline)
            print(
                f"{job.state:14} {job.seconds:6.1f} s {job.passed}/{job.total} {job.name}",
                flush=True,
            )

    threads = [threading.Thread(target=go_on) for _ in range(max(1, o.jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return jobs


# ---- results -------------------------------------------------------------------------------------


@dataclasses.dataclass
class Findings:
    """A sanitizer tool's findings in the logs of its processes."""

    logs: int = 0
    errors: int = 0
    where: list = dataclasses.field(default_factory=list)  # logs with errors
    cut: list = dataclasses.field(default_factory=list)  # logs without a summary, whose result is unknown

    def clean(self):
        return self.logs > 0 and not self.errors and not self.cut

    def __str__(self):
        text = f"{self.errors} errors in {self.logs} logs"
        text += f": {', '.join(self.where[:8])}" if self.where else ""
        if self.cut:
            text += f"; FAILED: {len(self.cut)} without a summary: {', '.join(self.cut[:8])}"
        return text if self.logs else "FAILED: it wrote no log"


def findings(o, jobs):
    """tool -> Findings, for the tools that started."""
    out = {}
    for tool in TOOLS:
        if not any(j.group == tool for j in jobs):
            continue
        found = out[tool] = Findings()
        for path in sorted(pathlib.Path(o.logs).glob(f"{tool}-[0-9]*.log")):
            summaries = FOUND.findall(path.read_text(errors="replace"))
            errors = sum(int(a or b) for a, b in summaries)
            found.logs += 1
            found.errors += errors
            found.where += [path.name] if errors else []
            found.cut += [] if summaries else [path.name]
    return out


def nothing_ran(jobs):
    """Whether a group of jobs has no runs, or no jobs."""
    ran = {j.group for j in jobs if j.state != "no runs"}
    return not jobs or any(j.group not in ran for j in jobs)


def unsanitized(o):
    """Whether the sanitizer stage was requested but is unavailable."""
    return "sanitize" in o.stages.split(",") and not o.sanitizer


def row(group, jobs):
    passed, total = sum(j.passed for j in jobs), sum(j.total for j in jobs)
    odd = [j for j in jobs if j.state not in ("passed", "failed")]
    notes = ", ".join(f"{j.name}: {j.state}" for j in odd[:12])
    seconds = sum(j.seconds for j in jobs)
    return f"| {group} | {passed} of {total} | {len(jobs) - len(odd)} of {len(jobs)} | {seconds:.0f} | {notes} |"


def summary(o, jobs, seconds):
    lines = [
        f"{device()}; {seconds:.0f} s",
        "",
        "| what | runs passed | parts that ended | seconds of processes | |",
        "|---|---|---|---|---|",
    ]
    groups = {}
    for j in jobs:
        groups.setdefault(j.group, []).append(j)
    lines += [row(g, js) for g, js in groups.items()]
    lines += [f"\n{tool}: {found}" for tool, found in findings(o, jobs).items()]
    if unsanitized(o):
        lines.append("\nsanitize: skipped: no compute-sanitizer")
    for j in groups.get("host", []):
        path = pathlib.Path(o.logs, j.name + ".log")
        said = path.read_text(errors="replace").strip().split("\n")[1:] if path.exists() else []
        lines += ["", f"{j.name}: {j.state}"] + said[-8:]
    failures = [f"- {j.group}: {f}" for j in jobs for f in j.failures]
    lines += ["", f"{len(failures)} failures"] + failures[:60]
    return "\n".join(lines) + "\n"


def device():
    command = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return "no GPU is known"


def save(o, jobs, text):
    pathlib.Path(o.out, "summary.md").write_text(text)
    records = [{k: v for k, v in dataclasses.asdict(j).items() if k != "environment"} for j in jobs]
    pathlib.Path(o.out, "summary.json").write_text(json.dumps(records, indent=1) + "\n")
    with tarfile.open(pathlib.Path(o.out, "logs.tar.gz"), "w:gz") as tar:
        tar.add(o.logs, "logs")


def stages(o, deadline):
    """Runs the jobs of all stages. Stops after a smoke test in which nothing passed."""
    wanted, done = o.stages.split(","), []
    if "smoke" in wanted:
        done += run_all(o, list(smoke_jobs(o)), deadline)
        if not any(j.passed for j in done):
            return done
    if "host" in wanted:
        alone = argparse.Namespace(**{**vars(o), "jobs": 1})
        done += run_all(alone, list(host_jobs(o)), deadline)
    if "ranks" in wanted:
        alone = argparse.Namespace(**{**vars(o), "jobs": 1})
        done += run_all(alone, list(ranks_jobs(o)), deadline)
    if "run" in wanted:
        # The sanitizer gets a third of the time.
        until = deadline - (o.budget / 3 if "sanitize" in wanted and o.sanitizer else 0)
        done += run_all(o, list(run_jobs(o)), until)
    if "sanitize" in wanted:
        done += run_all(o, list(sanitize_jobs(o, o.logs)), deadline)
    return done


def main():
    o = options()
    o.root = pathlib.Path(o.root).resolve()
    o.tegula = pathlib.Path(o.tegula).resolve() if o.tegula else o.root / "bin/tegula"
    o.out = pathlib.Path(o.out).resolve()
    o.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tegula-check-") as o.logs:
        jobs = stages(o, started + o.budget)
        text = summary(o, jobs, time.monotonic() - started)
        save(o, jobs, text)
        bad = not all(found.clean() for found in findings(o, jobs).values())
    print(text)
    if bad or nothing_ran(jobs) or any(j.state not in ("passed", "no runs") for j in jobs):
        return 1
    return SKIPPED if unsanitized(o) else 0


if __name__ == "__main__":
    sys.exit(main())
