# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Work that tests take in turns, because all of it would take too long each time.

TG_TESTS=all runs all of it, TG_TESTS=N the Nth turn. By default the day is the turn: the days since 1970 in
UTC. A test prints what it leaves out; tools/dev/run_ctest.py sums these lines up.
"""
import os
import time


def today():
    """The number of the turn; None: everything runs."""
    wanted = os.environ.get("TG_TESTS", "")
    if wanted == "all":
        return None
    return int(wanted) if wanted else int(time.time() // 86400)


def say_left_out(few, all_):
    """Prints the line that tools/dev/run_ctest.py sums up."""
    if few and today() is not None:
        print(f"left out: {few} of {all_} in turn {today()} of TG_TESTS", flush=True)


def share(items, turns, first=0):
    """Every `turns`th item, from that of the turn on. `first` shifts the turns of one test against those of
    another, so that several together leave less out. A list that is no longer than `turns` is taken whole."""
    items, turn = list(items), today()
    if turn is None or turns <= 1 or len(items) <= turns:
        return items
    taken = items[(turn + first) % turns::turns]
    say_left_out(len(items) - len(taken), len(items))
    return taken
