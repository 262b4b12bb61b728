"""std/pool.teg: greatest and mean of windows in one to three dimensions."""

import itertools

from harness import *

FILE = "../../stdlib/pool.teg"
TYPES = ("float32", "float16", "bf16", "float64")


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def windows(x, win, s, p, d):
    """Each window of x [B, C, H, W] as its pixels inside, in order: (i, j, rows, columns)."""
    sizes = [
        (n + 2 * p[a] - d[a] * (win[a] - 1) - 1) // s[a] + 1 for a, n in enumerate(x.shape[2:])
    ]
    for out in itertools.product(*map(range, sizes)):
        taps = [
            [
                q
                for q in (o * s[a] - p[a] + k * d[a] for k in range(win[a]))
                if 0 <= q < x.shape[2 + a]
            ]
            for a, o in enumerate(out)
        ]
        yield sizes, out, taps


def max_pool(x, win, s, p, d, at):
    y = place = None
    for sizes, (i, j), (rows, columns) in windows(x, win, s, p, d):
        if y is None:
            y = np.full(x.shape[:2] + tuple(sizes), -np.inf)
            place = np.full(y.shape, -1)
        if rows and columns:
            w = x[:, :, rows][:, :, :, columns].reshape(x.shape[:2] + (-1,))
            k = np.where(
                np.isnan(w).any(-1),
                w.shape[-1] - 1 - np.isnan(w[..., ::-1]).argmax(-1),
                w.argmax(-1),
            )
            y[:, :, i, j] = np.take_along_axis(w, k[..., None], -1)[..., 0]
            flat = np.array([r * x.shape[3] + c for r in rows for c in columns])
            place[:, :, i, j] = flat[k]
    return {"y": y} | ({} if at is None else {"at": place})


def avg_pool(x, win, s, p, padded):
    y = None
    for sizes, (i, j), (rows, columns) in windows(x, win, s, p, (1, 1)):
        y = np.zeros(x.shape[:2] + tuple(sizes)) if y is None else y
        total = x[:, :, rows][:, :, :, columns].sum((2, 3))
        count = win[0] * win[1] if padded else len(rows) * len(columns)
        y[:, :, i, j] = total / np.float64(count)
    return {"y": y}


def element(t):
    return t.replace("float", "f").replace("int", "i").replace("ui", "u")


def squeeze(out):
    return {k: v[:, :, 0] for k, v in out.items()}


CONFIGS = [  # extents, window, stride, padding, dilation
    ((13, 40), (3, 2), (2, 2), (0, 0), (1, 1)),
    ((9, 70), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((8, 11), (2, 3), (3, 1), (1, 2), (2, 3)),
    ((1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((5, 300), (2, 2), (2, 3), (0, 0), (1, 1)),
]
for n, (size, win, s, p, d) in enumerate(CONFIGS):
    for k, t in enumerate(TYPES + ("int32", "uint8")):
        if (n + k) % 2 and n:
            continue
        whole = "int" in t
        x = (
            integers((2, 3) + size, 1, 0, 50, np.float64)
            if k % 2
            else normal((2, 3) + size, 1, np.float64)
        )
        x = integers((2, 3) + size, 1, 0, 100, t) if whole else typed(x, t)
        sizes = [(size[a] + 2 * p[a] - d[a] * (win[a] - 1) - 1) // s[a] + 1 for a in (0, 1)]
        at = np.zeros([2, 3] + sizes, np.int64) if (n + k) % 4 < 2 else None
        text = ",".join(map(str, [2, 3] + sizes))
        args = {"x": x, "y": f"zeros({text}):{element(t)}"}
        two = dict(zip(("R", "S", "sy", "sx", "py", "px"), win + s + p))
        one = {"S": win[1], "sx": s[1], "px": p[1]}
        out = {"out_types": {"y": "bf16"}} if t == "bf16" else {}
        title = f"{size}-{win}-{t}"
        if not (t == "uint8" and max(p)):
            case(
                FILE,
                "max_pool2d",
                args | two | {"at": at, "dy": d[0], "dx": d[1]},
                lambda x, at, win=win, s=s, p=p, d=d, **_: max_pool(x, win, s, p, d, at),
                ulps=0,
                tune=[{"BI": 1, "BJ": 64}, {"BI": 4, "BJ": 16}] if n < 2 else [{}],
                name=f"max_pool2d-{title}",
                **out,
            )
        if not whole:
            for padded in (True, False):
                if d == (1, 1):
                    case(
                        FILE,
                        "avg_pool2d",
                        args | two | {"padded": padded},
                        lambda x, win=win, s=s, p=p, padded=padded, **_: avg_pool(
                            x, win, s, p, padded
                        ),
                        length=9,
                        scale={"y": 60.0},
                        name=f"avg_pool2d-{title}-{padded}",
                        **out,
                    )
        # one dimension: the first row of each plane, a strided view
        row = sliced(x, "[:,:,0]")
        text = f"2,3,{sizes[1]}"
        args = {"x": row, "y": f"zeros({text}):{element(t)}"}
        if not (t == "uint8" and max(p)):
            case(
                FILE,
                "max_pool1d",
                args
                | one
                | {"dx": d[1], "at": None if at is None else np.zeros((2, 3, sizes[1]), np.int64)},
                lambda x, at, win=win, s=s, p=p, d=d, **_: squeeze(
                    max_pool(x[:, :, None], (1, win[1]), (1, s[1]), (0, p[1]), (1, d[1]), at)
                ),
                ulps=0,
                name=f"max_pool1d-{title}",
                **out,
            )
        if not whole and d == (1, 1):
            case(
                FILE,
                "avg_pool1d",
                args | one | {"padded": k % 2 == 0},
                lambda x, win=win, s=s, p=p, k=k, **_: squeeze(
                    avg_pool(x[:, :, None], (1, win[1]), (1, s[1]), (0, p[1]), k % 2 == 0)
                ),
                length=3,
                scale={"y": 60.0},
                name=f"avg_pool1d-{title}",
                **out,
            )
x = normal((1, 2, 9, 40), 3)
x[0, 0, 3:6, 4:9] = np.nan
x[0, 1] = -np.inf
case(
    FILE,
    "max_pool2d",
    {"x": x, "y": "zeros(1,2,9,40):f32", "at": np.zeros((1, 2, 9, 40), np.int64), "R": 3, "S": 3}
    | {"sy": 1, "sx": 1, "py": 1, "px": 1, "dy": 1, "dx": 1},
    lambda x, at, **_: max_pool(x, (3, 3), (1, 1), (1, 1), (1, 1), at),
    ulps=0,
)


# ---- any rank, and last windows that end beyond the padding

AXES = {1: "x", 2: "yx", 3: "zyx"}
WINDOWS = {1: "S", 2: "RS", 3: "QRS"}


def extents(size, win, s, p, d, ceil):
    """torch's rule: with ceil, the last window begins inside of x or of the padding before it."""
    out = []
    for a, n in enumerate(size):
        span = n + 2 * p[a] - d[a] * (win[a] - 1) - 1
        k = (-(-span // s[a]) if ceil else span // s[a]) + 1
        out.append(k - (ceil and (k - 1) * s[a] >= n + p[a]))
    return out


def places(n, win, s, p, d, out):
    """For each window along an axis: its positions inside of x, and the number inside of the padding."""
    for i in range(out):
        all_ = [i * s - p + k * d for k in range(win)]
        yield [q for q in all_ if 0 <= q < n], sum(-p <= q < n + p for q in all_)


def each_window(x, win, s, p, d, out):
    """(position in the result, elements [B, C, K] of a window, their flat positions, count with padding)."""
    flat = np.arange(np.prod(x.shape[2:])).reshape(x.shape[2:])
    axes = [list(places(n, *v)) for n, v in zip(x.shape[2:], zip(win, s, p, d, out))]
    for at in itertools.product(*map(range, out)):
        taps = [axes[a][i][0] for a, i in enumerate(at)]
        grid = np.ix_(*taps)
        v = x[(slice(None), slice(None)) + grid].reshape(x.shape[:2] + (-1,))
        yield at, v, flat[grid].ravel(), int(np.prod([axes[a][i][1] for a, i in enumerate(at)]))


def greatest(x, at, *rule):
    y = np.full(x.shape[:2] + tuple(rule[-1]), -np.inf)
    place = np.full(y.shape, -1)
    for where, v, flat, _ in each_window(x, *rule):
        if v.shape[2]:
            k = v.argmax(-1)
            y[(Ellipsis,) + where] = v.max(-1)
            place[(Ellipsis,) + where] = flat[k]
    return {"y": y} | ({} if at is None else {"at": place})


def mean(x, padded, *rule):
    y = np.zeros(x.shape[:2] + tuple(rule[-1]))
    for where, v, _, count in each_window(x, *rule):
        with np.errstate(invalid="ignore"):
            y[(Ellipsis,) + where] = v.sum(-1) / np.float64(count if padded else v.shape[2])
    return {"y": y}


def options(win, s, p, d=None):
    names = AXES[len(win)]
    out = dict(zip(WINDOWS[len(win)], win))
    for k, values in (("s", s), ("p", p), ("d", d or ())):
        out |= {k + a: v for a, v in zip(names, values)}
    return out


RULES = [  # extents, windows, strides, padding, dilation: of three axes
    ((5, 7, 40), (2, 3, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1)),
    ((4, 9, 33), (3, 3, 3), (1, 2, 3), (1, 1, 1), (1, 2, 1)),
    ((6, 5, 70), (1, 2, 5), (3, 2, 4), (0, 1, 2), (2, 3, 2)),
    ((3, 3, 3), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    ((7, 8, 9), (2, 3, 4), (2, 3, 4), (1, 1, 2), (1, 1, 1)),  # the rule of torch drops a last window
]
for n, rule in enumerate(RULES):
    for rank in (1, 2, 3):
        size, win, s, p, d = (v[3 - rank :] for v in rule)
        for ceil in (False, True) if rank == 1 else ((n + rank) % 2 == 0,):
            t = TYPES[(n + rank + ceil) % 4]
            x = typed(normal((2, 3) + size, 1, np.float64), t)
            narrow = {"out_types": {"y": "bf16"}} if t == "bf16" else {}
            out = extents(size, win, s, p, d, ceil)
            text = ",".join(map(str, [2, 3] + out))
            args = {"x": x, "y": f"zeros({text}):{element(t)}"}
            at = np.zeros([2, 3] + out, np.int64) if (n + rank) % 2 else None
            case(
                FILE,
                f"max_pool{rank}d",
                args | {"at": at} | options(win, s, p, d),
                lambda x, at, rule=(win, s, p, d, out), **_: greatest(x, at, *rule),
                ulps=0,
                tune=[{"BI": 1, "BJ": 64}, {"BI": 4, "BJ": 16}] if n == 1 and rank > 1 else [{}],
                name=f"max_pool{rank}d-{n}-{ceil}-{t}",
                **narrow,
            )
            out = extents(size, win, s, p, (1,) * rank, ceil)
            text = ",".join(map(str, [2, 3] + out))
            padded = n in (0, 1, 4)  # with and without a last window beyond the padding
            case(
                FILE,
                f"avg_pool{rank}d",
                {"x": x, "y": f"zeros({text}):{element(t)}", "padded": padded} | options(win, s, p),
                lambda x, padded, rule=(win, s, p, (1,) * rank, out), **_: mean(x, padded, *rule),
                length=int(np.prod(win)),
                scale={"y": 8.0},
                name=f"avg_pool{rank}d-{n}-{ceil}-{padded}-{t}",
                **narrow,
            )
for kernel, more in (("max_pool1d", {"at": None, "dx": 1}), ("avg_pool1d", {"padded": True})):
    # Two windows too many, and one whose last window would begin in the padding after x.
    for size, wanted, rule in ((20, 12, (2, 2, 0)), (9, 6, (2, 2, 1))):
        args = {"x": normal((1, 1, size), 1), "y": f"zeros(1,1,{wanted}):f32"}
        args |= options(*((v,) for v in rule)) | more
        case(FILE, kernel, args, fails="fits", name=f"{kernel}-{wanted}-of-{size}")
