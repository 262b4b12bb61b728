# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests the decisions of searches in simulated worlds (replay.c). A setting's time is the model's estimate,
times unknown factors, one for each of its values. Launches are noisy, and compilations take a twentieth of
a second.

- Searches of 10 s find a setting as good as the best, whatever the noise; those of 2 s nearly so. None is worse than the
  default.
- A search does not repeat the measurements of an earlier one, be it with more time or for a kernel with one more value.
- Background searches find as much, and their worker works for a fiftieth of the time.

    replay.py TUNE_REPLAY

With a folder of recordings, it also replays times of products and other kernels on an EPYC of two threads
with AVX-512 (bench/tune.py --record). Each search must meet the same bars, whatever the noise, beside the
best recorded setting. Times of two products on an H200 with 16 helpers must be decided long before the
budget ends. The result for one shape must be near that of a search for another one in its bucket, and no
worse than the default:

    replay.py TUNE_REPLAY FOLDER FAKE_CUDA
"""

import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

KERNEL = """
kernel mm(a: f32[M, K], b: f32[K, N], c: f32[M, N])
tune BM = 16 | 32 | 64 | 128, BN = 32 | 64 | 128, BK = 32 | 64 | 128 where BM * BN <= 8192
{
    parallel m in M by BM, n in N by BN {
        var s: f32<BM, BN> = 0;
        for k in K by BK { s += dot(a[m, k], b[k, n]); }
        c[m, n] = s;
    }
}
"""
WORLDS, SEEDS = 4, 5
OTHERS = {  # arguments of recorded kernels that are not single products
    "softmax": "x=zeros({}):f32",
    "layer_norm": "x=zeros({}):f32 g=none h=none mean=none rstd=none eps=0.00001",
    "attention": "q=zeros({0}):f32 k=zeros({0}):f32 v=zeros({0}):f32 scale=0.125",
    "conv2d": "x=zeros({0}):f32 w=zeros(64,64,3,3):f32 y=zeros({0}):f32 sy=1 sx=1 py=1 px=1",
}


def search(program, folder, budget, *more, file="k.teg", shape="512x512x512", spent=None, said=None,
           **world):
    """The trials of a search. Its seconds are appended to `spent`, its errors to `said`. shape: of a product,
    "512x512x512", or of another kernel, "softmax_333x1000"."""
    out = os.path.join(folder, "trials")
    *other, dims = shape.rsplit("_", 1)
    what = [x for name, n in zip("MNK", dims.split("x")) for x in ("-d", f"{name}={n}")]
    if other:
        arguments = OTHERS[other[0]].format(dims.replace("x", ",")).split()
        what = ["-k", other[0], *(x for a in arguments for x in ("-a", a))]
    if other == ["layer_norm"]:
        what += ["-t", "S=f32"]
    run = subprocess.run([program, "tune", file, *what, *(more or ["--again"]), "--budget", str(budget),
                          "--jsonl", out],
                         cwd=folder, env=os.environ | {"TG_CACHE": "off"} | world, check=True,
                         stdout=subprocess.PIPE, stderr=None if said is None else subprocess.PIPE, text=True)
    if said is not None:
        said.append(run.stderr)
    if spent is not None:
        seconds, unit = re.search(r"settings in ([0-9.]+) (m?s) of", run.stdout).groups()
        spent.append(float(seconds) * (1 if unit == "s" else 1e-3))
    with open(out, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def make_world(trials, number, factors=None):
    """Seconds of each candidate. The model's error is a tenth for most values, or the given factors of another
    world."""
    draw = random.Random(number)
    factors = {} if factors is None else factors
    seconds = {}
    for t in trials:
        if t["verdict"] == "pruned":
            continue
        s = t["predicted"]
        for value in t["config"].split():
            if value not in factors:
                factors[value] = math.exp(draw.gauss(0, 0.1))
            s *= factors[value]
        seconds[t["config"]] = s
    return seconds


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def measured(trials):
    """Settings that this search measured, and those of an earlier one."""
    own = {t["config"] for t in trials if t["seconds"] and not t["earlier"]}
    return own, {t["config"] for t in trials if t["seconds"] and t["earlier"]}


def goes_on(program, folder):
    """Searches with a store."""
    kernel, times = os.path.join(folder, "k.teg"), os.path.join(folder, "times")
    larger = KERNEL.replace("BK = 32 | 64 | 128", "BK = 32 | 64 | 128 | 256")
    write(kernel, larger)
    seconds = make_world(search(program, folder, 4), 7)
    write(times, "".join(f"{s} 0.05 {config}\n" for config, s in seconds.items()))
    store = {"TG_CACHE": os.path.join(folder, "store"), "TG_REPLAY": times}

    def losers(trials):
        return {t["config"] for t in trials if t["verdict"] == "slower" and not t["default"]}

    def next_search(budget, trials):
        """Settings that were slower are not measured again."""
        slower = losers(trials)
        found = search(program, folder, budget, "--mode", "block", **store)
        own, earlier = measured(found)
        assert not own & slower, own & slower
        return found, own, earlier

    write(kernel, KERNEL)
    first, own, earlier = next_search(1, [])
    assert own and not earlier
    second, own, earlier = next_search(6, first)
    assert own and earlier, "nothing was taken, or nothing was added"
    known = search(program, folder, 6, "--mode", "block", **store)
    assert known == second, "what is known is searched for again"
    won = {t["config"] for t in second if t["verdict"] in ("won", "tie")}
    slower = losers(second)
    for text in (larger, KERNEL):
        write(kernel, text)
        edited, own, earlier = next_search(6, second)
        assert slower & earlier, "nothing was taken of the kernel before"
        new = {c for c in own if "BK=256" in c}
        assert bool(new) == (text == larger), new
        print(f"{len(earlier)} settings known, {len(new)} new, {len(own & won)} raced again")


def in_one_process(program, times, seconds, default):
    """The default is the best setting, but slow in the first process that measures it."""
    write(times, "".join(f"{min(seconds.values()) * (1 if c == default else 1.05)} 0.05 {c}\n" for c in seconds))
    for seed in range(1, SEEDS + 1):
        trials = search(program, os.path.dirname(times), 10, TG_REPLAY=times, TG_REPLAY_SEED=str(seed),
                        TG_REPLAY_FIRST="1.2")
        winner = next(t["config"] for t in trials if t["verdict"] == "won")
        assert winner == default, winner


def slows_down(program, times, seconds):
    """Short timings on a fast machine are reported beside tournaments on a slower one, scaled to the latter."""
    write(times, "".join(f"{s} 0.05 {c}\n" for c, s in seconds.items()))
    trials = search(program, os.path.dirname(times), 6, TG_REPLAY=times, TG_REPLAY_LATER="3")
    won = next(t for t in trials if t["verdict"] == "won")
    glances = [t for t in trials if t["verdict"] == "slower" and t["low"] == t["high"]]
    assert len(glances) > 3, "nothing was glanced at alone"
    for t in glances:
        assert t["seconds"] > won["seconds"], f"{t} is slower than {won}"
        factor = seconds[t["config"]] / seconds[won["config"]]
        assert t["seconds"] / won["seconds"] > 0.7 * factor, f"{t}: {factor} times {won}"


def in_the_background(program, times, seconds):
    """Each action of the worker is short, and all together take a small part of the time."""
    write(times, "".join(f"{s} 0.05 {c}\n" for c, s in seconds.items()))
    for seed in range(1, SEEDS + 1):
        said = []
        percent = 1 if seed % 2 else 5
        share = {} if percent == 1 else {"TG_TUNE_SHARE": str(percent)}
        trials = search(program, os.path.dirname(times), 10, said=said, TG_REPLAY=times, TG_REPLAY_SEED=str(seed),
                        TG_REPLAY_BACKGROUND="1", **share)
        busy, of, longest = (float(x) for x in re.findall(r"[0-9.]+", said[-1].splitlines()[-1]))
        winner = next(t["config"] for t in trials if t["verdict"] == "won")
        quality = min(seconds.values()) / seconds[winner]
        print(f"in the background: {busy} s of {of}, {longest} at most, {quality:.3f}", flush=True)
        assert 0 < busy <= 0.0101 * percent * of + longest and longest < 0.1, said[-1]
        assert busy >= 0.5 * percent / 100 * of, said[-1]
        assert quality >= 0.97, quality


def rests(shape, config):
    """A setting of a product that leaves one of two threads idle. Some of these seem fast in recordings made
    while a neighbour used the other core (docs/lab/tuning-cpu.md), so they are no reference."""
    value = dict(v.split("=") for v in config.split())
    if "_" in shape or "grain" not in value:
        return False
    programs = math.prod(-(-int(n) // int(value[b])) for n, b in zip(shape.split("x"), ("BM", "BN")))
    return 1 < programs <= int(value["grain"])


def bare(config):
    return " ".join(v for v in config.split() if v != "cluster=1")


def read_times(path, shape):
    """Seconds of each setting. The best one is the reference, whether or not searches still list it."""
    with open(path, encoding="utf-8") as f:
        seconds = {config.strip(): float(s) for s, _, config in (line.split(" ", 2) for line in f)}
    return {c: s for c, s in seconds.items() if not rests(shape, c)}


def agreement(seconds, trials):
    """Spearman's correlation of recorded times and the model's estimates."""
    both = [(seconds[bare(t["config"])], t["predicted"]) for t in trials if bare(t["config"]) in seconds and t["predicted"]]
    ranks = [sorted(range(len(both)), key=lambda i, k=k: both[i][k]) for k in (0, 1)]
    places = [{i: place for place, i in enumerate(order)} for order in ranks]
    n = len(both)
    return 1 - 6 * sum((places[0][i] - places[1][i]) ** 2 for i in range(n)) / (n * (n * n - 1))


def neighbours(program, file, one, other, times, known, *more, real, **world):
    """Predicts a shape from the results of another shape in its bucket. The fastest setting there may be four
    times as slow as the default here. Returns the quality of the prediction, and of the default."""
    (m, n, k), found = other.split("x"), []
    command = [program, "explain", file, *more, "-a", f"a=zeros({m},{k}):{real}", "-a", f"b=zeros({k},{n}):{real}"]
    for seed in range(1, SEEDS + 1):
        with tempfile.TemporaryDirectory() as scratch:
            env = {"TG_CACHE": os.path.join(scratch, "store"), "TG_TUNE": "", "TG_REPLAY_SEED": str(seed),
                   "TG_REPLAY": times} | world

            def choice():
                run = subprocess.run(command, env=os.environ | env, check=True, stdout=subprocess.PIPE, text=True)
                return min(known.values()) / known[bare(re.search(r"^tuning: (.*)$", run.stdout, re.M)[1])]

            default = choice()
            search(program, scratch, 10, "--mode", "block", *more, file=file, shape=one, **env)
            found.append(choice())
    print(f"{one} says of {other}: {min(found):.3f} to {max(found):.3f}, default {default:.3f}", flush=True)
    assert min(found) >= 0.95 * default, found
    return min(found)


def neighbours_recorded(program, folder, one, other, *more, **world):
    def path(name):
        return os.path.join(folder, name + ".times")

    quality = neighbours(program, os.path.join(folder, "product.teg"), os.path.basename(one), os.path.basename(other), path(one),
                         read_times(path(other), os.path.basename(other)), *more, **world)
    assert quality >= 0.85, quality


def neighbours_made_up(program, folder):
    """With equal errors of the model for both shapes, the best setting of one is taken for the other even if
    it is far better than the default."""
    kernel, times = os.path.join(folder, "k.teg"), os.path.join(folder, "times")
    one, other = "512x512x512", "400x600x512"
    quality = []
    for number in range(WORLDS):
        factors = {}
        there, here = (make_world(search(program, folder, 4, shape=s), number, factors) for s in (one, other))
        write(times, "".join(f"{s} 0.05 {config}\n" for config, s in there.items()))
        quality.append(neighbours(program, kernel, one, other, times, here, real="f32"))
    assert sum(q >= 0.97 for q in quality) >= WORLDS / 2, quality


def recorded(program, recordings, folder, seeds, *more, share=1, agree=-1, untuned=0, **world):
    """For each recording of a folder: the least quality of searches, the largest part of a budget of 10 s,
    the correlation of the model's order with the recording, and the quality of its first setting."""
    file = os.path.join(recordings, "others.teg" if folder == "others" else "product.teg")
    bad = []
    for name in sorted(f for f in os.listdir(os.path.join(recordings, folder)) if f.endswith(".times")):
        times = os.path.join(recordings, folder, name)
        shape = name.removesuffix(".times")
        seconds = read_times(times, shape)
        best = min(seconds.values())
        text = f"{name}:"
        for budget, bar in ((2, 0.93), (10, 0.97)):
            found, spent = [], []
            for seed in range(1, seeds + 1):
                with tempfile.TemporaryDirectory() as scratch:
                    trials = search(program, scratch, budget, "--again", *more, file=file,
                                    shape=shape, spent=spent, TG_REPLAY=times,
                                    TG_REPLAY_SEED=str(seed), **world)
                winner = next(t["config"] for t in trials if t["verdict"] == "won")
                default = next(t["config"] for t in trials if t["default"])
                found.append(best / seconds[bare(winner)])
            text += f" {budget} s: {min(found):.3f} to {max(found):.3f} in {max(spent)} s,"
            if min(found) < bar or max(spent) > (share if budget == 10 else 1.05) * budget:
                bad.append(f"{name}, {budget} s: {min(found):.3f} in {max(spent)} s")
        default = best / seconds[bare(default)]
        if default < untuned:
            bad.append(f"{name}, without a search: {default:.3f}")
        alike = agreement(seconds, trials)
        if alike < agree:
            bad.append(f"{name}: the model's order, {alike:.3f}")
        print(f"{text} model {alike:.3f}, default {default:.3f}", flush=True)
    assert not bad, bad


def shrunken(program, recordings):
    """Checks that a search is rated badly if the kernel does not offer the best tiles of the recording."""
    name = "300x300x300"
    times = os.path.join(recordings, f"{name}.times")
    seconds = read_times(times, name)
    with open(os.path.join(recordings, "product.teg"), encoding="utf-8") as f:
        text = f.read().replace("BM = 64 | 128 | 256 | 16 | 8", "BM = 128 | 256")
    with tempfile.TemporaryDirectory() as scratch:
        write(os.path.join(scratch, "k.teg"), text)
        trials = search(program, scratch, 10, "--again", "--threads", "2", "-t", "T=f32", shape=name,
                        TG_REPLAY=times)
    winner = next(t["config"] for t in trials if t["verdict"] == "won")
    quality = min(seconds.values()) / seconds[winner]
    print(f"{name} by BM=128 and 256 alone: {quality:.3f}")
    assert quality < 0.95, "a space without its best settings looks as good as one with them"


def main():
    program, *recordings = sys.argv[1:]
    os.environ["TG_REPLAY_HOST"] = "v4"  # the processor of the recordings
    if recordings:
        folder, cuda = recordings
        cpu = ["--threads", "2", "-t", "T=f32"]
        gpu = ["--target", "cuda", "-t", "T=f16", "-s", "cluster=1"]  # pairs of programs were not recorded
        driver = {"TG_CUDA_LIBRARY": cuda, "FAKE_CUDA_DEVICES": "90", "TG_REPLAY_HELPERS": "16"}
        for pair in (("256x256x256", "300x300x300"), ("300x300x300", "256x256x256")):
            neighbours_recorded(program, folder, *pair, *cpu, real="f32")
        for pair in (("sm_90a/4096x4096x4096", "sm_90a/3000x3000x3000"),
                     ("sm_90a/3000x3000x3000", "sm_90a/4096x4096x4096")):
            neighbours_recorded(program, folder, *pair, *gpu, real="f16", **driver)
        recorded(program, folder, ".", SEEDS, *cpu, untuned=0.9)
        recorded(program, folder, "others", 3, *cpu)
        shrunken(program, folder)
        recorded(program, folder, "sm_90a", 2, *gpu, share=0.45, agree=0.8, **driver)
        return
    quality = {2: [], 10: []}
    with tempfile.TemporaryDirectory() as folder:
        goes_on(program, folder)
        write(os.path.join(folder, "k.teg"), KERNEL)
        listed = search(program, folder, 4)
        default = next(t["config"] for t in listed if t["default"])
        in_one_process(program, os.path.join(folder, "times"), make_world(listed, 0), default)
        slows_down(program, os.path.join(folder, "times"), make_world(listed, 1))
        in_the_background(program, os.path.join(folder, "times"), make_world(listed, 0))
        neighbours_made_up(program, folder)
        for number in range(WORLDS):
            seconds = make_world(listed, number)
            times = os.path.join(folder, "times")
            write(times, "".join(f"{s} 0.05 {config}\n" for config, s in seconds.items()))
            best = min(seconds.values())
            for budget, all_found in quality.items():
                found = []
                for seed in range(1, SEEDS + 1):
                    trials = search(program, folder, budget, TG_REPLAY=times, TG_REPLAY_SEED=str(seed))
                    winner = next(t["config"] for t in trials if t["verdict"] == "won")
                    assert seconds[winner] <= 1.003 * seconds[default], f"{winner} is slower than {default}"
                    found.append(best / seconds[winner])
                print(f"world {number}, {budget} s: {min(found):.3f} to {max(found):.3f}, "
                      f"default {best / seconds[default]:.3f}", flush=True)
                all_found.extend(found)
                if budget == 10:
                    assert max(found) <= 1.02 * min(found), "searches do not agree"
    assert min(quality[10]) >= 0.97, quality[10]
    assert statistics.geometric_mean(quality[2]) >= 0.93, quality[2]


main()
