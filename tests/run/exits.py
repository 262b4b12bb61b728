"""Programs that end early: section 16 of the specification."""
from harness import *


def ended(a):
    if a > 0:
        if a % 2 == 0:
            return 2
        a += 1
    elif a < -5:
        return -5
    if a > 10:
        if a % 3 == 0:
            return 3
        if a % 5 == 0:
            return 5
        a = 100
    return a if a > 50 else a * 2


case("exits.teg", "exits", {"x": np.arange(-10, 60, dtype=np.int32)},
     lambda x: {"y": np.array([ended(int(v)) for v in x])})
