"""Chooses the goals of the next programs among the cells."""

import random

GOALS = 2  # goals of a program
MANY = 5  # goals of every eighth program, whose code has more to mix up


class Draw:
    """Draws all cells in a random order, then all in another. The first order skips cells that a program has
    reached in passing on every target. Each further order begins with the cells that some target lacks."""

    def __init__(self, cells, seed):
        self.cells, self.seed = cells, seed
        self.turn, self.order = 0, []

    def goals(self, number, reached):
        """Goals of the program with this number; reached: the cells that every target has reached so far."""
        goals = []
        while len(goals) < (MANY if number % 8 == 7 else GOALS):
            if not self.order:
                self.shuffle(reached)
            cell = self.order.pop()
            if self.turn > 1 or cell not in reached:
                goals.append(cell)
        return goals

    def shuffle(self, reached):
        order = list(self.cells)
        random.Random(f"{self.seed}/{self.turn}").shuffle(order)
        order.sort(key=lambda cell: cell not in reached)  # cells at the end come first
        self.turn += 1
        self.order = order


def spelt(goals):
    """In the form of `--goals`."""
    return ",".join("/".join(g) for g in goals)


def read(text):
    return [tuple(g.split("/")) for g in text.split(",")]
