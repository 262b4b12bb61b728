"""Windows: convolutions, pooling, stencils."""

from harness import *


def conv2d(x, w, bias=None, sy=1, sx=1, py=0, px=0, dy=1, dx=1, **_):
    b, c, h, wd = x.shape
    f, cg, r, s = w.shape
    groups = c // cg
    xp = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    p = (h + 2 * py - dy * (r - 1) - 1) // sy + 1
    q = (wd + 2 * px - dx * (s - 1) - 1) // sx + 1
    y = np.zeros((b, f, p, q))
    fg = f // groups
    for g in range(groups):
        for i in range(r):
            for j in range(s):
                win = xp[
                    :,
                    g * cg : (g + 1) * cg,
                    i * dy : i * dy + sy * (p - 1) + 1 : sy,
                    j * dx : j * dx + sx * (q - 1) + 1 : sx,
                ]
                y[:, g * fg : (g + 1) * fg] += np.einsum(
                    "bcpq,fc->bfpq", win, w[g * fg : (g + 1) * fg, :, i, j]
                )
    return {"y": y + (0 if bias is None else bias[None, :, None, None])}


def out_shape(h, r, s, p, d):
    return (h + 2 * p - d * (r - 1) - 1) // s + 1


for c, f, groups, h, w, r, s, sy, sx, py, px, dy, dx in [
    (3, 5, 1, 13, 17, 3, 3, 1, 1, 1, 1, 1, 1),
    (4, 6, 2, 12, 9, 3, 2, 2, 1, 0, 2, 1, 2),
    (8, 8, 1, 7, 7, 1, 1, 1, 1, 0, 0, 1, 1),
]:
    for with_bias in (True, False):
        a = {
            "x": normal((2, c, h, w), 1),
            "w": normal((f, c // groups, r, s), 2),
            "bias": normal((f,), 3) if with_bias else None,
            "y": f"zeros(2,{f},{out_shape(h, r, sy, py, dy)},{out_shape(w, s, sx, px, dx)}):f32",
            "sy": sy,
            "sx": sx,
            "py": py,
            "px": px,
            "dy": dy,
            "dx": dx,
        }
        case(
            "conv2d.teg",
            "conv2d",
            a,
            conv2d,
            length=c * r * s,
            scale={"y": 6.0},
            tune=[{"BM": 64, "BN": 64, "BK": 8}],
            name=f"conv2d-{c}-{f}-{groups}-{r}x{s}-bias-{with_bias}",
        )
case(
    "conv2d.teg",
    "conv2d_stem",
    {
        "x": normal((2, 3, 15, 14), 1),
        "w": normal((10, 3, 5, 5), 2),
        "y": "zeros(2,10,8,7):f32",
        "st": 2,
        "pd": 2,
    },
    lambda x, w, st, pd, **_: conv2d(x, w, None, st, st, pd, pd),
    length=75,
    scale={"y": 6.0},
    tune=[{"BM": 64, "BN": 64, "BK": 32}],
)


def depthwise(x, w, **_):
    return conv2d(x, w[:, None])


case(
    "conv2d.teg",
    "depthwise",
    {"x": normal((2, 3, 11, 150), 1), "w": normal((3, 3, 2), 2), "y": "zeros(2,3,9,149):f32"},
    depthwise,
    length=6,
    scale={"y": 4.0},
    tune=[{"BP": 4, "BQ": 64}, {"BP": 8, "BQ": 128}],
)


def convt1d(x, w, y, st, pd, dl, **_):
    b, c, l = x.shape
    f, k = w.shape[1:]
    full = np.zeros((b, f, (l - 1) * st + dl * (k - 1) + 1))
    for i in range(l):
        for j in range(k):
            full[:, :, i * st + j * dl] += np.einsum("bc,cf->bf", x[:, :, i], w[:, :, j])
    return {"y": full[:, :, pd : full.shape[2] - pd]}


for l, k, st, pd, dl in [(11, 3, 2, 1, 1), (7, 4, 3, 0, 2), (5, 1, 1, 0, 1)]:
    o = (l - 1) * st + dl * (k - 1) + 1 - 2 * pd
    case(
        "convt1d.teg",
        "conv_transpose1d",
        {
            "x": normal((2, 20, l), 1),
            "w": normal((20, 6, k), 2),
            "y": np.zeros((2, 6, o), np.float32),
            "st": st,
            "pd": pd,
            "dl": dl,
        },
        convt1d,
        length=20 * k,
        scale={"y": 6.0},
        tune=[{"BM": 64, "BN": 64, "BK": 16}],
    )


def max_pool(x, R, S, st, pd, dl, at=None, **_):
    b, c, h, w = x.shape
    p, q = out_shape(h, R, st, pd, dl), out_shape(w, S, st, pd, dl)
    y, pos = np.full((b, c, p, q), -np.inf), np.zeros((b, c, p, q), np.int64)
    for i in range(p):
        for j in range(q):
            for r in range(R):
                for s in range(S):
                    u, v = i * st - pd + r * dl, j * st - pd + s * dl
                    if 0 <= u < h and 0 <= v < w:
                        take = x[:, :, u, v] > y[:, :, i, j]
                        pos[:, :, i, j] = np.where(take, u * w + v, pos[:, :, i, j])
                        y[:, :, i, j] = np.where(take, x[:, :, u, v], y[:, :, i, j])
    return {"y": y} | ({} if at is None else {"at": pos})


for dtype, t in ((np.float32, "f32"), (np.int32, "i32"), (np.uint8, "u8")):
    x = (
        integers((2, 2, 13, 40), 1, 0, 100, dtype)
        if dtype != np.float32
        else normal((2, 2, 13, 40), 1)
    )
    for at in (None, np.zeros((2, 2, 6, 20), np.int64)):
        case(
            "maxpool2d.teg",
            "max_pool2d",
            {
                "x": x,
                "y": f"zeros(2,2,6,20):{t}",
                "at": at,
                "R": 3,
                "S": 2,
                "st": 2,
                "pd": 0,
                "dl": 1,
            },
            max_pool,
            ulps=0,
            tune=[{"BP": 4, "BQ": 32}],
        )

for h, w in [(20, 150), (3, 3), (2, 9)]:

    def jacobi(x, y, **_):
        out = y.copy()
        out[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        return {"y": out}

    case(
        "misc.teg",
        "jacobi",
        {"x": normal((h, w), 1), "y": normal((h, w), 2)},
        jacobi,
        tune=[{"BH": 8, "BW": 64}],
    )
