"""The mutation test: kernels run by the simulator without one barrier, fence or wait at a time.

Usage: mutate.py --tegula PROGRAM [--target sim:sm_90a] [-k TEXT] CASES.py...
Runs the cases of tests/run. A barrier, fence or wait is noticed if in some run its absence leads to
a failure or to other results. Prints those that are not, and the share of those that are.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

RUN = pathlib.Path(__file__).resolve().parent.parent / "run" / "run.py"


def run_cases(o, case, log):
    """The simulator appends a line for each barrier, fence and wait of each launch to `log`."""
    words = [sys.executable, str(RUN), "--tegula", o.tegula, "--target", o.target, case]
    if o.k:
        words += ["-k", o.k]
    env = dict(os.environ, TG_SIM_CHECK="1", TG_SIM_MUTATE=str(log))
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    print(pathlib.Path(case).name, done.stdout.strip().splitlines()[-1], flush=True)


def read(log):
    """What became of each place: (kernel, position, name) to the set of outcomes."""
    places = collections.defaultdict(set)
    for line in log.read_text().splitlines() if log.exists() else []:
        for what in ("noticed", "unnoticed", "not reached"):
            if line.startswith(what + " "):
                words = line[len(what) + 1:].split(" ")
                places[words[0], words[2], words[3]].add(what)
    return places


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--target", default="sim:sm_90a")
    p.add_argument("-k")
    p.add_argument("--least", type=float, default=0.0, help="fail below this share, in percent")
    p.add_argument("cases", nargs="+")
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        for case in o.cases:
            run_cases(o, case, log)
        places = read(log)
    tried = {k: v for k, v in places.items() if v != {"not reached"}}
    noticed = [k for k, v in tried.items() if "noticed" in v]
    for k in sorted(set(tried) - set(noticed)):
        print("unnoticed:", *k)
    share = 100 * len(noticed) / max(len(tried), 1)
    print(f"{len(noticed)} of {len(tried)} barriers, fences and waits are noticed: {share:.1f} %")
    return share < o.least


if __name__ == "__main__":
    sys.exit(main())
