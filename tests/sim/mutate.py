"""The mutation test: kernels run by the simulator without one barrier, fence or wait at a time.

Usage: mutate.py --tegula PROGRAM [--target sim:sm_90a] [-k TEXT] [--least PERCENT]
Runs the cases of stdlib_cases.py. A barrier, fence or wait is noticed if its absence leads to a
failure or to other results. Prints those that are not, and the share of those that are.
"""
import argparse
import collections
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import stdlib_cases  # noqa: E402


def lines(o):
    """Of `tegula run --batch`."""
    for file, kernel, args, sets in stdlib_cases.CASES:
        words = [str(stdlib_cases.STDLIB / (file + ".teg")), "--kernel", kernel, "--target", o.target,
                 "--quiet"]
        for arg in args:
            words += ["--arg", arg]
        for one in sets:
            words += ["--set", one]
        if o.k in kernel:
            yield shlex.join(words)


def run(o, folder):
    """The simulator appends a line for each barrier, fence and wait of each launch to the log."""
    log, batch = folder / "log", folder / "batch"
    batch.write_text("\n".join(lines(o)) + "\n")
    env = dict(os.environ, TG_SIM_CHECK="1", TG_SIM_MUTATE=str(log))
    done = subprocess.run([o.tegula, "run", "--batch", str(batch)], capture_output=True, text=True,
                          env=env)
    text, failed = [], done.returncode < 0
    for line in done.stdout.splitlines():
        text.append(line)
        if not line.startswith("@@ "):
            continue
        if line.split()[2] != "0":
            failed = True
            print("\n".join(text))
        text = []
    return failed, log.read_text().splitlines() if log.exists() else []


def outcomes(log):
    """What became of each place: (version of a function, number) to outcomes, and what it is."""
    places, names = collections.defaultdict(set), {}
    for line in log:
        for what in ("noticed", "unnoticed", "not reached"):
            if line.startswith(what + " "):
                function, number, position, name = line[len(what) + 1:].split(" ")[:4]
                places[function, int(number)].add(what)
                names[function, int(number)] = f"{pathlib.Path(position).name} {name}"
    return places, names


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--target", default="sim:sm_90a")
    p.add_argument("-k", default="", help="only kernels whose name holds this text")
    p.add_argument("--least", type=float, default=0.0, help="fail below this share, in percent")
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        failed, log = run(o, pathlib.Path(folder))
    for file, kernel in stdlib_cases.missing():
        failed = True
        print(f"no case of {file}.{kernel}")
    places, names = outcomes(log)
    tried = {k for k, v in places.items() if v != {"not reached"}}
    noticed = {k for k in tried if "noticed" in places[k]}
    for k in sorted(tried - noticed):
        print("unnoticed:", *k, names[k])
    share = 100 * len(noticed) / max(len(tried), 1)
    print(f"{len(noticed)} of {len(tried)} barriers, fences and waits are noticed: {share:.1f} %")
    return failed or share < o.least


if __name__ == "__main__":
    sys.exit(main())
