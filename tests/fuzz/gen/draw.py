"""Which cells the next programs have as their goals."""

import random

GOALS = 2  # of a program
MANY = 5  # of every eighth, whose code has more to mix up


class Draw:
    """All cells in a drawn order, then all in another. In the first order a cell is passed over that a program has
    reached on every target, by the way; each further order begins with the cells that some target still lacks.
    """

    def __init__(self, cells, seed):
        self.cells, self.seed = cells, seed
        self.turn, self.order = 0, []

    def goals(self, number, reached):
        """Of the program of this number; reached: the cells that every target has reached so far."""
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
        order.sort(key=lambda cell: cell not in reached)  # those at the end come first
        self.turn += 1
        self.order = order


def spelt(goals):
    """As `--goals` has them."""
    return ",".join("/".join(g) for g in goals)


def read(text):
    return [tuple(g.split("/")) for g in text.split(",")]
