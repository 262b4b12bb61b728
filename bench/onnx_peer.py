"""Tegula beside ONNX Runtime in one process: rms norm, which oneDNN lacks, and whole attention.

Usage: onnx_peer.py --library BUILD/libtegula.so [--seconds S] [--threads N] [--json FILE] Needs numpy,
onnx and onnxruntime (pip). Results are compared before anything is timed.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))


def session(nodes, inputs, outputs, opsets, threads):
    def info(name, a):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, a.shape)

    graph = helper.make_graph(
        nodes,
        "peer",
        [info(n, a) for n, a in inputs.items()],
        [info(n, a) for n, a in outputs.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets])
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # The peer's idle threads must sleep, or ours wait for a core.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    # Bound once, so that a run copies no array.
    binding = made.io_binding()
    for name, a in {**inputs, **outputs}.items():
        bind = binding.bind_input if name in inputs else binding.bind_output
        bind(name, "cpu", 0, np.float32, a.shape, a.ctypes.data)
    return lambda: made.run_with_iobinding(binding)


def aligned(array):
    """A copy at a multiple of 64, as most libraries allocate."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    out = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def random(*shape):
    return aligned(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def zeros(*shape):
    return aligned(np.zeros(shape, np.float32))


def softmax(tegula, threads, rows, n):
    x, y, e = random(rows, n), zeros(rows, n), zeros(rows, n)
    node = helper.make_node("Softmax", ["x"], ["e"], axis=-1)
    kernel = tegula.load(str(ROOT / "stdlib/softmax.teg")).softmax
    peer = session([node], {"x": x}, {"e": e}, [("", 17)], threads)
    return lambda: kernel(x, y), peer, y, e, 2 * x.nbytes


def rms_norm(tegula, threads, rows, n):
    x, g = random(rows, n), random(n)
    y, e = zeros(rows, n), zeros(rows, n)
    node = helper.make_node(
        "SimplifiedLayerNormalization", ["x", "g"], ["e"], axis=-1, epsilon=1e-5
    )
    kernel = tegula.load(str(ROOT / "stdlib/norm.teg")).rms_norm
    peer = session([node], {"x": x, "g": g}, {"e": e}, [("", 17)], threads)
    return lambda: kernel(x, g, y, None, 1e-5), peer, y, e, 2 * x.nbytes


def layer_norm(tegula, threads, rows, n):
    x, g, h = random(rows, n), random(n), random(n)
    y, e = zeros(rows, n), zeros(rows, n)
    node = helper.make_node("LayerNormalization", ["x", "g", "h"], ["e"], axis=-1, epsilon=1e-5)
    kernel = tegula.load(str(ROOT / "stdlib/norm.teg")).layer_norm
    peer = session([node], {"x": x, "g": g, "h": h}, {"e": e}, [("", 17)], threads)
    return lambda: kernel(x, g, h, y, None, None, 1e-5), peer, y, e, 2 * x.nbytes


def attention(tegula, threads, b, h, s, d):
    """The contributed MultiHeadAttention takes B, S, H D; ours takes that layout as a view."""
    q, k, v = (aligned(random(b, s, h * d) * c) for c in (1, 1.01, 0.99))
    y, e = zeros(b, s, h * d), zeros(b, s, h * d)
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["e"], num_heads=h, domain="com.microsoft"
    )
    inputs = {"q": q, "k": k, "v": v}
    peer = session([node], inputs, {"e": e}, [("", 17), ("com.microsoft", 1)], threads)
    kernel = tegula.load(str(ROOT / "stdlib/attention.teg")).attention
    qv, kv, vv, ov = (a.reshape(b, s, h, d).transpose(0, 2, 1, 3) for a in (q, k, v, y))
    run = lambda: kernel(qv, kv, vv, None, ov, None, d**-0.5, False)
    return run, peer, y, e, 4 * q.nbytes


CASES = [
    (softmax, (8192, 1024)),
    (softmax, (1024, 8192)),
    (softmax, (333, 1000)),
    (layer_norm, (8192, 1024)),
    (layer_norm, (1024, 8192)),
    (layer_norm, (333, 1000)),
    (rms_norm, (8192, 1024)),
    (rms_norm, (1024, 8192)),
    (rms_norm, (333, 1000)),
    (attention, (1, 8, 1024, 64)),
]


def alternate(ours, peer, seconds):
    """Medians of both. Batches alternate, with a pause in which idle threads go to sleep."""
    times = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < 12 or time.perf_counter() < end:
        for run, out in zip((ours, peer), times):
            time.sleep(0.003)
            run()
            for _ in range(4):
                start = time.perf_counter()
                run()
                out.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json")
    o = parser.parse_args()
    if o.library:
        os.environ["TEGULA_LIBRARY"] = os.path.abspath(o.library)
    import tegula  # imported once the library is known

    counts = [o.threads] if o.threads else sorted({1, len(os.sched_getaffinity(0))})
    print(f"{'case':12} {'shape':16} {'threads':>7} {'ours us':>10} {'peer us':>10} {'ratio':>6}")
    rows, failed = [], 0
    for threads in counts:
        with tegula.Context(threads=threads):
            for make, shape in CASES:
                ours, peer, y, e, size = make(tegula, threads, *shape)
                ours()
                peer()
                error = float(np.abs(y - e).max() / np.abs(e).max())
                label = f"{make.__name__:12} {'x'.join(map(str, shape)):16} {threads:7}"
                if not error < 1e-5:
                    print(f"{label} results differ by {error:g}")
                    failed += 1
                    continue
                a, b = alternate(ours, peer, o.seconds)
                print(f"{label} {a * 1e6:10.1f} {b * 1e6:10.1f} {b / a:6.2f}", flush=True)
                rows.append(
                    {
                        "case": make.__name__,
                        "shape": shape,
                        "threads": threads,
                        "ours": a,
                        "peer": b,
                        "ratio": b / a,
                        "bytes": size,
                        "peer_name": f"ONNX Runtime {onnxruntime.__version__}",
                    }
                )
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
