# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests run/turns.py: successive turns take everything once, and the summary names what a turn leaves out."""
import contextlib
import io
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).parent / "run"), str(pathlib.Path(__file__).parents[1] / "tools/dev")]
import run_ctest  # noqa: E402
import turns  # noqa: E402


def share(wanted, *arguments):
    """The share of turn `wanted`, and the text that it prints."""
    os.environ["TG_TESTS"] = str(wanted)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return turns.share(*arguments), said.getvalue()


items = list(range(11))
assert sorted(x for turn in (20001, 20002, 20003) for x in share(turn, items, 3)[0]) == items
assert sorted(x for first in (0, 1, 2) for x in share(7, items, 3, first)[0]) == items
assert share("all", items, 3) == (items, "")
assert share(7, items, 1) == (items, "")
assert share(7, ["one"], 2) == (["one"], "")

taken, said = share(7, items, 2)
assert len(taken) == 5 and "left out: 6 of 11 in turn 7" in said, said
outputs = {"run-sm_80-a": said, "run-sm_80-b": said, "ptx-1": said, "lint": "clean"}
lines = run_ctest.left_out(outputs)
assert lines[0] == "Left out in turn 7 (TG_TESTS=all runs everything, TG_TESTS=7 this turn):", lines
assert lines[1:] == ["    ptx: 6 of 11", "    run-sm_80: 12 of 22"], lines
assert run_ctest.left_out({"lint": "clean"}) == []
os.environ["TG_TESTS"] = ""
assert isinstance(turns.today(), int)
