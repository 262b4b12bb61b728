#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ranks_trace.py FILE RANKS [CHUNKS]: checks the trace of `tegula profile` for one launch of ranks.

All times are on one clock. Each rank has programs, meets the others, and copies CHUNKS chunks from or to
every other one. No rank ends before all have begun to meet at the end, up to the difference between clocks
of GPUs.
"""
import json
import sys

SLACK = 50  # microseconds


def check(events, ranks, chunks, together=True):
    """A list of faults. together: whether ranks wait for each other; ranks on a stand-in for GPUs do not."""
    wrong, ends = [], []
    if min(e["ts"] for e in events) != 0 or max(e["ts"] + e["dur"] for e in events) > 60e6:
        wrong.append("the clocks are apart")
    for rank in range(ranks):
        own = {name: [e for e in events if e["pid"] == rank and e["name"] == name] for name in ("program", "copy", "meet")}
        copied = sorted((e["args"]["peer"], e["args"]["number"]) for e in own["copy"])
        wanted = [(peer, chunk) for peer in range(ranks) if peer != rank for chunk in range(chunks)]
        if copied != wanted:
            wrong.append(f"rank {rank} copied {copied}")
        if not own["program"] or not own["meet"]:
            wrong.append(f"rank {rank} ran {len(own['program'])} programs, met {len(own['meet'])} times")
            continue
        ends.append(own["meet"][-1])
        if max(e["ts"] for e in own["program"] + own["copy"]) > ends[-1]["ts"] + SLACK:
            wrong.append(f"rank {rank} did something behind its end")
    if together and ends and max(e["ts"] for e in ends) > min(e["ts"] + e["dur"] for e in ends) + SLACK:
        wrong.append("a rank ended before all had come")
    return wrong


def main():
    with open(sys.argv[1]) as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    wrong = check(events, int(sys.argv[2]), int(sys.argv[3]), "--apart" not in sys.argv)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
