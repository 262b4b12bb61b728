"""Tests the draw of goals: no reached cell is drawn again before all were drawn, and missing ones come first
afterwards."""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gen import draw  # noqa: E402

CELLS = [("op %d" % i, c, e) for i in range(50) for c in ("loop", "then") for e in ("f32", "i8")]


def first_turn_passes_over_the_reached():
    d, reached, drawn = draw.Draw(CELLS, 1), set(), []
    n = 0
    while len(reached) < len(CELLS):
        goals = d.goals(n, reached)
        assert len(goals) == (draw.MANY if n % 8 == 7 else draw.GOALS)
        assert not reached & set(goals), "a cell is drawn that every target has reached"
        drawn += goals
        reached |= set(goals) | {c for c in CELLS if c[0] == goals[0][0]}  # other cells of the op, reached in passing
        n += 1
    assert len(drawn) < len(CELLS)


def missing_ones_come_first_afterwards():
    d = draw.Draw(CELLS, 2)
    every = [c for n in range(100) for c in d.goals(8 * n, set())]
    assert sorted(every) == sorted(CELLS), "a cell comes twice before another came once"
    missing = set(CELLS[7:16])
    again = [c for _ in range(5) for c in d.goals(0, set(CELLS) - missing)]
    assert missing <= set(again), "what a target lacks waits for cells that all have reached"


def goals_are_read_as_they_are_spelt():
    goals = [("as u16", "loop", "f32"), ("combine or", "then", "bool")]
    assert draw.read(draw.spelt(goals)) == goals


def everything_reached_goes_on():
    d = draw.Draw(CELLS, 3)
    assert len(d.goals(7, set(CELLS))) == draw.MANY


for test in (first_turn_passes_over_the_reached, missing_ones_come_first_afterwards, goals_are_read_as_they_are_spelt,
             everything_reached_goes_on):  # fmt: skip
    test()
