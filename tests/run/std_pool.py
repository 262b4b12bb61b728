"""std/pool.teg: greatest and mean of windows in one and two dimensions."""

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
