"""The reached cells of a run: a table of contexts and targets, and the missing cells."""

import collections
import json
import pathlib

from gen.generate import VALUE_CONTEXTS
from gen.ops import LEFT_OUT


class Tally:
    def __init__(self, o):
        self.o = o
        self.file = pathlib.Path(o.reached) if o.reached else None
        self.earlier = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}
        self.reached = {t: set(map(tuple, self.earlier.get(t, []))) for t in o.targets}
        self.failed = self.programs = self.kernels = 0
        self.kinds = collections.Counter()

    def add(self, reached, failures, counts):
        for t, cells in reached.items():
            self.reached[t] |= cells
        self.programs += counts[0]
        self.kernels += counts[1]
        for target, kind, text in failures:
            self.failed += 1
            self.kinds[f"{target}: {kind}"] += 1
            print(text, flush=True)

    def everywhere(self):
        """The cells that every target has reached."""
        return set.intersection(*self.reached.values())

    def save(self):
        """Saves the state for later runs. Entries of other targets stay."""
        if self.file:
            self.file.write_text(json.dumps({**self.earlier, **{t: sorted(c) for t, c in self.reached.items()}}))

    def close(self, cells, seconds):
        """Prints the tables; the exit code."""
        print(f"{self.programs} programs ({self.kernels} kernels) in {seconds:.1f} s, {self.programs / seconds:.1f} a second, "
              f"{self.failed} failures, seed {self.o.seed}")  # fmt: skip
        for kind, n in self.kinds.most_common():
            print(f"  {n} x {kind}")
        whole = self.shares(cells)
        if self.o.table:
            self.list_missing(cells)
        low = [t for t, share in whole.items() if share < self.o.least]
        if low:
            print(f"less than {self.o.least} % of the cells were reached on {', '.join(low)}")
        return 1 if self.failed or low else 0

    def shares(self, cells):
        by = collections.defaultdict(list)
        for c in cells:
            by[c[1]].append(c)
        width = max(map(len, self.o.targets), default=0) + 2
        print(f"{len(cells)} cells (op, context, element) on each target; reached, per cent:")
        print("".ljust(12) + "".join(t.rjust(width) for t in self.o.targets))
        for context in VALUE_CONTEXTS:
            print(context.ljust(12) + "".join(f"{self.share(t, by[context]):{width}.1f}" for t in self.o.targets))
        whole = {t: self.share(t, cells) for t in self.o.targets}
        print("all".ljust(12) + "".join(f"{whole[t]:{width}.1f}" for t in self.o.targets))
        return whole

    def share(self, target, cells):
        return 100 * sum(c in self.reached[target] for c in cells) / max(1, len(cells))

    def list_missing(self, cells):
        for t in self.o.targets:
            missing = collections.Counter(c[0] for c in cells if c not in self.reached[t])
            print(f"not everywhere on {t}: " + ", ".join(f"{op} {n}" for op, n in missing.most_common(40)))
        reasons = collections.defaultdict(list)
        for name, reason in LEFT_OUT.items():
            reasons[reason].append(name)
        for reason, names in reasons.items():
            print(f"left out ({reason}): {' '.join(names)}")
