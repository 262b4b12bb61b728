"""Kernels that read other lanes of the tensor that they store: a program sees its own writes in order."""

from harness import *

M, P = 41, 15


def shifted(v, rows, columns):
    """v[i + rows, j + columns], with zeros outside."""
    wide = np.pad(v, 4)
    return wide[4 + rows : 4 + rows + M, 4 + columns : 4 + columns + M]


def planes(x, y, i, **_):
    y = y.copy()
    old = y[8].copy()
    y[0] = x + y[0].T
    y[1] = np.where(y[1] > 0, y[1].T, y[1])
    y[2] = shifted(y[2], 1, 0)
    y[3] = shifted(y[3], 0, -1)
    y[4] = y[4][::-1]
    y[5] = y[5][i]
    y[6] = y[6][:, i]
    y[7] = y[7] + np.maximum(y[7].max(1), 0)[:, None] + y[7][0]  # the pads are zeros
    y[8] = old.T
    for t in range(3):
        y[9] += shifted(y[9], -t, 1)
    y[10] = y[10] + shifted(y[10], 0, 1) + shifted(y[10], 0, 2)
    y[11] += y[11].T
    y[12] = y[12] @ y[12].T
    y[13] = np.cumsum(y[13].T, 1)
    y[14][1:] = y[14][:-1].copy()
    y[14][:, 1:] = shifted(y[14], 1, 0)[:, :-1]
    return {"y": y, "z": old + old.T}


def turns(y, **_):
    y = y.copy()
    for t in range(y.shape[2] - 1):
        left = np.pad(y[:, :-1, t], ((0, 0), (1, 0)))
        y[:, :, t + 1] = y[:, :, t] + left
    return {"y": y[:, ::-1]}


r = np.random.default_rng(11)
case(
    "in_place.teg",
    "planes",
    {"x": r.integers(-4, 5, (M, M)).astype(np.float32), "y": r.integers(-4, 5, (P, M, M)).astype(np.float32),
     "z": f"zeros({M},{M})", "i": r.permutation(M)},
    planes,
)



def together(u, y, **_):
    n = y.shape[1]
    u = np.broadcast_to(np.arange(n), u.shape)
    later = y.copy()
    later[:, 1:] = np.pad(u[:, 3:], ((0, 0), (0, 3)))[:, :-1]
    return {"u": u, "y": later, "z": np.pad(y[:, :-2], ((0, 0), (2, 0)))}


case(
    "in_place.teg",
    "together",
    {"u": r.integers(-4, 5, (3, 250)).astype(np.int32), "y": r.integers(-4, 5, (3, 250)).astype(np.float32),
     "z": "zeros(3,250)"},
    together,
)
case("in_place.teg", "turns", {"y": r.integers(-4, 5, (3, 170, 9)).astype(np.int32)}, turns)


def either(x, **_):
    return {"y": np.broadcast_to(np.arange(x.shape[1]), x.shape), "z": np.broadcast_to(x[:, 7:8], x.shape)}


def arms(x, y, z, **_):
    first = x[:, 7:8] > 0
    y, z = (x if old == "same(x)" else np.zeros_like(x) for old in (y, z))
    return {"y": np.where(first, 0.5, y), "z": np.where(first, z, x)}


# One launch in place by the first pair, one by the second, and one by neither.
X = r.integers(-4, 5, (40, 256)).astype(np.float32)
for kernel, want in (("either", either), ("arms", arms)):
    for same in ({"y": "same(x)"}, {"z": "same(x)"}, {}):
        outputs = {"y": "zeros(40,256)", "z": "zeros(40,256)"} | same
        case("in_place.teg", kernel, {"x": X} | outputs, want, name=f"in_place-{kernel}-{''.join(same) or 'none'}")
