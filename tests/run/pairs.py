"""Products in pairs of programs, and products that must not be paired: an odd number of tiles has one too
many."""

from harness import *

FILE = "pairs.teg"
TUNE = [{"cluster": 1}, {"cluster": 2}, {"cluster": 2, "persistent": 1}]


def halves(shape, seed):
    return bf16(normal(shape, seed, np.float64))


def check(kernel, args, reference, m, k, flags=(), **outs):
    case(FILE, kernel, args, reference, out_types={n: "bf16" for n in ("c", *outs)}, length=k, scale={"c": 4.0, **outs},
         tune=TUNE, flags=flags, name=f"{kernel}-{m}{''.join(flags)}")


for m in (192, 130, 250, 256):
    a, b = halves((m, 136), 1), halves((136, 200), 2)
    full = m // 64 * 64
    check("last", {"a": a, "b": b}, lambda a, b, m=m: {"c": a @ b, "l": (a @ b)[(m - 1) // 64 * 64 :].sum(0)}, m, 136, l=64.0)
    e = np.array([2 ** (i + 1) for i in range(-(-m // 64))], np.int32)
    check("halvings", {"a": a, "b": b, "e": e}, lambda a, b, e, m=m: {"c": a @ b + np.repeat(np.log2(e), 64)[:m, None]}, m, 136)
    check("triangle", {"a": a, "b": b},
          lambda a, b, m=m: {"c": (a * (np.arange(136)[None, :] < np.arange(m)[:, None] // 64 * 64 + 64)) @ b}, m, 136)
    for flags in ((), ("--check",)):
        check("both", {"a": a, "b": b, "d": halves((m, 136, 200), 3)},
              lambda a, b, d, m=m: {"c": a @ b + np.concatenate([a[i : i + 64] @ d[i] for i in range(0, m, 64)])}, m, 272, flags)

a, b = halves((250, 64), 1), halves((64, 128), 2)
check("whole", {"a": a, "b": b, "c": bf16(np.full((250, 128), 5.0))},
      lambda a, b, c: {"c": np.concatenate([(a @ b + 1)[:192], c[192:]])}, 250, 64)
a, b = halves((130, 64), 1), halves((3, 64, 128), 2)
check("heads", {"a": a, "b": b, "c": bf16(np.full((130, 512), 5.0))},
      lambda a, b, c: {"c": np.concatenate([*(a @ x for x in b), c[:, 384:]], 1)}, 130, 64)
a, p = halves((320, 64), 1), np.array([128, 256, 64], np.int32)
check("tiles", {"a": a, "b": halves((64, 128), 2), "p": p, "c": bf16(np.full((320, 128), 5.0))},
      lambda a, b, p, c: {"c": np.where(np.isin(np.arange(320) // 64 * 64, p)[:, None], a @ b, c)}, 320, 64)
a, b = halves((1, 64), 1), halves((64, 192), 2)
check("planes", {"a": a, "b": b, "c": bf16(np.full((6, 1, 192), 7.0))},
      lambda a, b, c: {"c": np.concatenate([(a @ b)[None], c[1:]])}, 1, 64)
a, b, w = halves((192, 64), 1), halves((64, 192), 2), halves((192, 192), 3)
for s in (192, 70, 0):
    check("behind", {"a": a, "b": b, "w": w, "s": s},
          lambda a, b, w, s: {"c": a @ b + np.where(np.arange(192)[:, None] // 64 * 64 >= s, w[min(int(s), 191)], 0)},
          192 + s, 64)
