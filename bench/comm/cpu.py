"""A matmul over ranks on CPUs, overlapped and not: each plan in turn, round after round, so that what
else the machine does meets all of them alike.

Usage: cpu.py --tegula PROGRAM [--ranks N] [--rounds N] [--size M,N,K]
"""
import argparse
import os
import re
import statistics
import subprocess

PLANS = [["plan=before"], ["plan=direct"], ["plan=pull", "chunks=4"], ["plan=push", "chunks=4"]]


def milliseconds(text):
    value, unit = re.search(r"ran ([0-9.]+) (us|ms|s) on", text).groups()
    return float(value) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]


def run(o, plan):
    """The median of some launches of the slower rank: it is rank 0 that tells, when all have ended."""
    m, n, k = o.size
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    command = ["oshrun", *root, "--oversubscribe", "-n", str(o.ranks), o.tegula, "run", "stdlib/comm.teg",
               "-k", "ag_gemm", "--comm", "openshmem", "--ranks", str(o.ranks), "--type", "T=f32",
               "-a", f"a=rand({o.ranks},{m},{k})", "-a", f"b=rand({o.ranks},{k},{n})", "-j", "1", "-r", "7"]
    for x in plan:
        command += ["--set", x]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return milliseconds(out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--size", type=lambda s: [int(x) for x in s.split(",")], default=[1024, 1024, 1024])
    o = p.parse_args()
    times = [[run(o, plan) for plan in PLANS] for _ in range(o.rounds)]
    for i, plan in enumerate(PLANS):
        ratio = statistics.median(t[i] / t[0] for t in times)
        print(f"{' '.join(plan):20s} {statistics.median(t[i] for t in times):9.2f} ms, "
              f"{ratio:.3f} of plan=before, round by round")


main()
