"""Rows that do not fit the registers of a CTA, without clusters: split into strips, or not."""

from harness import *

FILE = "strips.teg"
N = 100003


def centred(x, d, **_):
    h = x.astype(np.float64) + d
    y = h - h.mean(1, keepdims=True)
    return {"h": h, "y": y, "top": y.max(1)}


def weighed(x, **_):
    i = np.arange(x.shape[1])
    return {
        "s": ((x > 3) * i).sum(1).astype(np.int32),
        "y": np.where(i % 7 == 0, x, 0) - x.min(1, keepdims=True),
    }


def shifted(x, **_):
    y = x.copy()
    y[:, 1:] = (x - x.max(1, keepdims=True))[:, :-1]
    return {"y": y}


def mirrored(x, **_):
    return {"y": x[:, ::-1] - x.max(1, keepdims=True)}


x, d = normal((2, N), 1), normal((2, N), 2)
close = {"length": N, "ulps": 32, "scale": {"y": 8.0, "top": 8.0}}
case(FILE, "centred", {"x": x, "d": d}, centred, name="centred", **close)
case(FILE, "centred", {"x": x, "d": d, "h": "same(x)"}, centred, name="centred-h", **close)
case(FILE, "centred", {"x": x, "d": d, "y": "same(d)"}, centred, name="centred-y", **close)
case(FILE, "centred", {"x": bf16(x), "d": bf16(d)}, centred, name="centred-bf16",
     out_types={"h": "bf16", "y": "bf16"}, **close)
whole = integers((2, N), 3, -9, 10).astype(np.float32)
case(FILE, "weighed", {"x": whole}, weighed, name="weighed")
case(FILE, "weighed", {"x": whole, "y": "same(x)"}, weighed, name="weighed-inplace")
case(FILE, "shifted", {"x": whole, "y": "same(x)"}, shifted, name="shifted-inplace")
case(FILE, "mirrored", {"x": whole}, mirrored, name="mirrored")


def read_back(x, **_):
    z = x - x.max(1, keepdims=True)
    return {"z": z, "w": z.min(1)}


case(FILE, "read_back", {"x": whole, "z": f"full(2,{N},value=-50):f32"}, read_back, name="read_back")


def gradients(x, d, **_):
    x, d = x.astype(np.float64), d.astype(np.float64)
    e = x - x.mean(1, keepdims=True)
    return {"h": e * (e * e).mean(1, keepdims=True) + d, "s": (e * d).sum(0), "t": d.sum(0)}


def peaks(x, **_):
    m = x.max(2, keepdims=True)
    return {"y": x - m, "top": (x * 2 - m).max((0, 1))}


# Sums over rows for each column: a CTA cannot hold a row and these sums together. BR = 4 leaves a tile with
# fewer rows.
x, d = normal((6, 20011), 4), normal((6, 20011), 5)
close = {"length": 20011, "ulps": 32, "scale": {"h": 16.0, "s": 32.0, "t": 16.0}}
sets = ({"BR": 1}, {"BR": 4})
case(FILE, "gradients", {"x": x, "d": d}, gradients, name="gradients", tune=sets, **close)
case(FILE, "gradients", {"x": x, "d": d, "h": "same(x)"}, gradients, name="gradients-h", tune=sets,
     **close)
case(FILE, "gradients", {"x": bf16(x), "d": bf16(d)}, gradients, name="gradients-bf16",
     out_types={"h": "bf16", "s": "f32", "t": "f32"}, **close)
whole = integers((2, 3, 70001), 6, -9, 10).astype(np.float32)
case(FILE, "peaks", {"x": whole}, peaks, name="peaks")
