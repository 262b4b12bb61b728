"""Several ranks. Symmetric tensors have all shards; other tensors have a copy on each rank."""
from harness import *

TARGETS = ["interp", "cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx90a", "sim:gfx942", "sim:gfx1100"]


def ranks(file, kernel, args, expect=None, n=None, targets=None, **how):
    case(file, kernel, args, expect, ranks=n, targets=targets or TARGETS, **how)


def gather(a, **_):
    return {"c": np.stack([a] * len(a))}


for w in 1, 2, 3, 4:
    ranks("comm.teg", "gather", {"a": normal((w, 37, 11), seed=w)}, gather)
ranks("comm.teg", "gather", {"a": integers((3, 5, 9), 1, -100, 100, np.int8)}, gather)
ranks("comm.teg", "gather", {"a": bf16(normal((2, 5, 9), seed=2))}, gather, out_types={"c": "bf16"})
ranks("comm.teg", "gather", {"a": sliced(normal((4, 20, 9), seed=3), "[::2, ::3, ::-1]")}, gather)


def sums(a, **_):
    return {"c": a.sum(0)}


for w in 1, 2, 3, 4:
    ranks("comm.teg", "sums", {"a": normal((w, w, 37), seed=w)}, sums, w, length=w)
ranks("comm.teg", "sums", {"a": bf16(normal((4, 4, 37), seed=5))}, sums, 4, length=4, out_types={"c": "bf16"})
ranks("comm.teg", "sums_wide", {"a": normal((4, 4, 37), seed=6)}, sums, 4, length=4, out_types={"c": "bf16"})
ranks("comm.teg", "sums_kept", {"a": normal((3, 3, 37), seed=7), "c": normal((3, 37), seed=8)},
      lambda a, c: {"c": c + a.sum(0)}, length=4)


def sums_ragged(a, c):
    return {"c": np.array([np.where(np.arange(37) < 37 - 5 * r, a[:, r].sum(0), c[r]) for r in range(len(c))])}


for plan in "direct", "before", "push":
    ranks("comm.teg", "sums_ragged", {"a": normal((3, 3, 37), seed=4), "c": normal((3, 37), seed=5)}, sums_ragged,
          length=3, flags=["--set", f"plan={plan}"])
for plan in "direct", "before", "push", "add":
    ranks("comm.teg", "sums_of_two", {"a": normal((3, 3, 37), seed=4)}, lambda a, **_: {"c": a.sum(0), "d": -a.sum(0)}, 3,
          length=3, flags=["--set", f"plan={plan}"])
# Sums in f32 in the order of ranks, exactly: 1 is lost only in the first order.
BIG = np.float32(2.0 ** 25)
ranks("comm.teg", "sums", {"a": np.array([[[1], [BIG]], [[BIG], [-BIG]], [[-BIG], [1]]], np.float32)[:, [0, 1, 1]]},
      {"c": np.array([[0.0], [1.0], [1.0]])}, 3, ulps=0, length=0)


def best(a, **_):
    return {"top": a.max(0), "who": a.argmax(0)}


ranks("comm.teg", "best", {"a": normal((4, 4, 33), seed=9)}, best, 4)


def exchange(x, **_):
    return {"y": np.swapaxes(x, 0, 1)}


for w in 1, 2, 3, 4:
    ranks("comm.teg", "exchange", {"x": normal((w, w, 21), seed=w)}, exchange, w)


def ring(x, steps, **_):
    w = len(x)
    return {"y": np.roll(x, -steps, 0) + steps * (steps + 1) / 2}


for w, steps in (1, 2), (2, 1), (3, 4), (4, 3):
    ranks("comm.teg", "ring", {"x": integers((w, 33), 1, -9, 9).astype(np.float32), "steps": steps}, ring, w)
# A tensor given once is the same on each rank.
ranks("comm.teg", "ring", {"x": np.arange(33, dtype=np.float32), "steps": 1},
      lambda x, steps: {"y": np.stack([x + 1] * 2)}, 2)


def through_scratch(x, like):
    return {"y": 2 * np.stack([x] * len(x)) + like[:, None, :1]}


ranks("comm.teg", "through_scratch", {"x": normal((3, 20), seed=1), "like": normal((3, 2), seed=2)},
      through_scratch)
ranks("comm.teg", "calls", {"x": normal((3, 20), seed=1)}, lambda x: {"y": np.stack([x] * 3)}, 3)


def totals(t):
    w = len(t)
    return {"y": np.where(np.eye(w) == 1, -1, t.sum(1)[None, :])}


ranks("comm.teg", "totals", {"t": normal((4, 50), seed=3)}, totals, length=50)


def votes(choice, **_):
    return {"counts": np.bincount(choice.ravel(), minlength=len(choice)).reshape(-1, 1)}


ranks("comm.teg", "votes", {"choice": integers((4, 30), 1, 0, 4, np.int64)}, votes, 4)
ranks("comm.teg", "votes", {"choice": integers((2, 30), 1, -3, 2, np.int64)},
      lambda choice: {"counts": [[(choice == r).sum()] for r in (0, 1)]}, 2)


def flags(x, **_):
    return {"y": np.swapaxes(x, 0, 1)[..., ::-1]}


def many_flags(x, **_):
    return {"y": np.roll(x, 1, 0), "s": np.zeros(x.shape[:2])}


def arrivals(x, **_):
    return {"y": np.concatenate([x.sum(0)[None, ::-1], np.zeros_like(x[1:])])}




def folds(x, sum, least, most, all, any, odd):
    join = {"sum": (sum, np.add), "least": (least, np.minimum), "most": (most, np.maximum),
            "all": (all, np.bitwise_and), "any": (any, np.bitwise_or), "odd": (odd, np.bitwise_xor)}
    return {name: f(first, f.reduce(x, 0)[None]) for name, (first, f) in join.items()}


for w, t in (2, np.int32), (3, np.int64), (4, np.uint32), (1, np.uint64):
    low = 0 if np.dtype(t).kind == "u" else -99
    args = {n: integers((w, 37), i, low, 99, t)
            for i, n in enumerate(("x", "sum", "least", "most", "all", "any", "odd"))}
    ranks("comm.teg", "folds", args, folds, w)


def swaps(x, key, t, u, old, found):
    mine, theirs = np.swapaxes(t, 0, 1), np.swapaxes(u, 0, 1)
    return {"old": mine, "found": theirs, "t": np.swapaxes(x, 0, 1),
            "u": np.swapaxes(np.where(theirs == key, x, theirs), 0, 1)}


for w, t in (2, np.int32), (3, np.int64), (4, np.float32), (1, np.uint32), (2, np.float64), (2, np.float16), (3, "bf16"):
    args = {n: integers((w, w, 37), i, 1, 4, np.int64) for i, n in enumerate(("x", "key", "t", "u"))}
    args |= {n: np.zeros((w, w, 37)) for n in ("old", "found")}
    args = {n: bf16(a) if t == "bf16" else a.astype(t) for n, a in args.items()}
    ranks("comm.teg", "swaps", args, swaps, w, ulps=0, length=0,
          out_types={n: "bf16" for n in ("old", "found", "t", "u") if t == "bf16"})


def shmem_names(x, **_):
    d = x + 12
    e = np.where(d == x + 12, 77, d)
    f, g, h = e & 13, e & 13 | 34, (e & 13 | 34) ^ 3
    return {"y": np.stack([x + 1, x + 1, x + 2, d, e, f, g, h], 1), "t": np.ones_like(x)}


for w in 1, 3:
    ranks("comm.teg", "shmem_names", {"x": integers((w, w, 21), w, -50, 50, np.int64)}, shmem_names, w)


def in_parts(x, **_):
    return {"y": np.roll(x, 1, 0), "z": np.roll(x, -1, 0)}


for w in 1, 2, 3:
    ranks("comm.teg", "in_parts", {"x": normal((w, 37), seed=w)}, in_parts, w)
for w in 1, 2, 3, 4:
    ranks("comm.teg", "signals", {"x": normal((w, w, 21), seed=w), "epoch": 1},
          lambda x, epoch: exchange(x), w)
    for m, bm in (21, 16), (300, 256):
        x = normal((w, w, m), seed=w)
        for order in 1, 2:
            ranks("comm.teg", "flags", {"x": x, "epoch": 1, "order": order}, flags, w, tune=[{"BM": bm}])
        ranks("comm.teg", "many_flags", {"x": normal((w, 11, m), seed=w)}, many_flags, w, tune=[{"BM": bm}])
        ranks("comm.teg", "arrivals", {"x": x[:, 0], "order": 0, "y": 0 * x[:, 0]}, arrivals, w, length=w, tune=[{"BM": bm}])
ranks("comm.teg", "token", {}, {"y": [[106], [100], [101], [103]]}, 4)
ranks("comm.teg", "token", {}, {"y": [[101], [100]]}, 2)
ranks("comm.teg", "stuck", {"n": 1}, n=2, flags=["--check"], targets=["interp"],
      fails="no rank can go on: rank 0 waits for rank 1 to raise signal 0 of 's', rank 1 waits for rank 0")
ranks("comm.teg", "chosen", {"to": np.array([[2], [0], [1]])}, {"t": [[1], [2], [0]]}, 3, flags=["--check"])
ranks("comm.teg", "chosen", {"to": np.array([[2], [0], [2]])}, n=3, flags=["--check"], targets=["interp"],
      fails="rank 0: rank 2 has written the same element of `t`")
ranks("comm.teg", "hosts", {}, {"y": [[3], [2], [1]]}, 3)

# Two ranks access one element without an order. It must be found in any order of execution.
checked = {"flags": ["--check"], "targets": ["interp"]}
x, t = normal((3, 20), seed=41), normal((3, 20), seed=42)
ranks("comm.teg", "unlike_places", {"a": t, "step": 3}, n=3, **checked,
      fails="rank 0: rank 2 has written the same element of `a`, and nothing orders the two")
ranks("comm.teg", "reads_then_writes", {"a": t, "step": 4}, n=3, **checked,
      fails="rank 0: rank 2 has read the same element of `a`, and nothing orders the two")
ranks("comm.teg", "writes_then_reads", {"t": t, "x": x, "step": 1}, n=3, **checked,
      fails="has written the same element of `t`, and nothing orders the two")
ranks("comm.teg", "sends", {"s": np.zeros((3, 1), np.int64), "t": t, "x": x, "early": 1}, n=3, **checked,
      fails="has written the same element of `t`, and nothing orders the two")
ranks("comm.teg", "sends", {"s": np.zeros((3, 1), np.int64), "t": t, "x": x, "early": 0},
      lambda x, **_: {"y": np.roll(x, 1, 0)}, 3, flags=["--check"])
ranks("comm.teg", "phases", {"t": t, "x": x}, lambda x, **_: {"y": np.roll(x, 1, 0), "t": 3 * x}, 3, flags=["--check"])
for w in 2, 3, 4:
    ranks("comm.teg", "signals", {"x": normal((w, w, 21), seed=w), "epoch": 1},
          lambda x, epoch: exchange(x), w, **checked)
    x = normal((w, w, 21), seed=w)
    for order in 1, 2:
        ranks("comm.teg", "flags", {"x": x, "epoch": 1, "order": order}, flags, w, **checked)
    ranks("comm.teg", "flags", {"x": x, "epoch": 1, "order": 0}, n=w, **checked,
          fails="has written the same element of `t`, and nothing orders the two")
    ranks("comm.teg", "many_flags", {"x": normal((w, 11, 21), seed=w)}, many_flags, w, **checked)
    ranks("comm.teg", "arrivals", {"x": x[:, 0], "order": 0, "y": 0 * x[:, 0]}, arrivals, w, length=w, **checked)
    for order in 1, 2:
        ranks("comm.teg", "arrivals", {"x": x[:, 0], "order": order}, n=w, **checked,
              fails="has written the same element of `t`, and nothing orders the two")
ranks("comm.teg", "token", {}, {"y": [[106], [100], [101], [103]]}, 4, **checked)
ranks("comm.teg", "votes", {"choice": integers((4, 30), 1, 0, 4, np.int64)}, votes, 4, **checked)
ranks("comm.teg", "totals", {"t": normal((4, 50), seed=3)}, totals, length=50, **checked)
ranks("comm.teg", "through_scratch", {"x": normal((3, 20), seed=1), "like": normal((3, 2), seed=2)},
      through_scratch, **checked)
def retiled(x, **_):
    w, m = len(x), x.shape[1]
    y = 2 * np.stack([x] * w)
    for r in range(w):
        y[r, r, 3:m, 0] = 2 * x[(r + 1) % w, 3:, -1]
    return {"y": y}


def looped(x, **_):
    return {"y": np.stack([x.sum((0, 2)) - len(x)] * len(x))}


def shares(x, **_):
    y = np.zeros_like(x)
    for r in range(len(x)):
        y[:, r * r * 9:(r + 1) * (r + 1) * 9] = x[r, r * r * 9:(r + 1) * (r + 1) * 9] + r
    return {"y": y}


def relays(x, **_):
    return {"y": np.roll(x, -2, 0) + 2}


for w in 1, 2, 3, 4:
    for how in {}, checked:
        ranks("comm.teg", "retiled", {"x": normal((w, 61, 19), seed=w)}, retiled, w, **how)
        ranks("comm.teg", "looped", {"x": normal((w, 37, 19), seed=w)}, looped, w, length=19 * w, **how)
        ranks("comm.teg", "shares", {"x": normal((w, 9 * w * w), seed=w)}, shares, w, **how)
        ranks("comm.teg", "relays", {"x": normal((w, 37), seed=w)}, relays, w, **how)
# Errors that only runs find.
ranks("comm.teg", "gather", {"a": normal((2, 5, 9), seed=1)}, n=3, fails="'a' has shards of 2 ranks, there are 3")


def same(a, **_):
    return {"x": np.stack([a] * len(a)), "y": np.stack([a] * len(a))}


for plan in "before", "pull", "push", "put":
    ranks("comm.teg", "heights", {"a": normal((2, 96, 3), seed=31)}, same,
          flags=["--set", f"plan={plan}", "--set", "chunks=4"])


def turned(x, steps, **_):
    y = x
    for i in range(steps):
        c = np.stack([(y + i % 3).sum(0)] * len(x))
        y = c / len(x)
    return {"c": c, "y": y}


def grown(x, steps, **_):
    y, c = x.copy(), np.zeros_like(x)
    for i in range(steps):
        n = 16 * (i + 1)
        c[:, :n] = (y[:, :n] + i % 3).sum(0)
        y[:, :n] = c[:, :n] / len(x)
    return {"c": c, "y": y}


for plan in "direct", "before", "push":
    ranks("comm.teg", "turns", {"x": normal((2, 40), seed=32), "steps": 70}, turned, 2, length=8,
          flags=["--set", f"plan={plan}"])
    ranks("comm.teg", "grows", {"x": normal((3, 90), seed=33), "steps": 6}, grown, 3, length=8,
          flags=["--set", f"plan={plan}"])
    ranks("comm.teg", "best", {"a": normal((4, 4, 33), seed=9)}, best, 4, flags=["--set", f"plan={plan}"])
