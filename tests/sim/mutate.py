"""The mutation test: the simulator runs kernels without one barrier, fence, wait or signal at a time.

Usage: mutate.py --tegula PROGRAM [--target sim:sm_90a] [-k TEXT] [--daily] [--known] [--least PERCENT |
--ranks] Runs the cases of stdlib_cases.py. A barrier, fence, wait or signal is noticed if its absence
leads to a failure or to other results. Prints the unnoticed ones, and the share of the noticed ones. An
unmutated kernel that fails, or that has other results with another seed, counts as failed.
--ranks: kernels of several ranks. Each mutation has its own launches, in which each rank is late in turn.
All mutations must be noticed, except the places in SPARE, which must stay unnoticed.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import zlib

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).parent.parent / "run"))
import stdlib_cases  # noqa: E402
import turns  # noqa: E402

TURNS = 3  # days that together have all kernels


def turn_of(kernel):
    """The turn of a kernel, 0 to TURNS - 1, which other kernels do not shift."""
    return zlib.crc32(kernel.encode()) % TURNS


def has_turn(o, kernel):
    """Whether the kernel runs today."""
    return not o.daily or turns.today() is None or turn_of(kernel) == turns.today() % TURNS


# Unnoticed places by target: (function, name) to their number. docs/inside/simulator.md gives the reasons.
COUNTS = ("bincount_1", "histogram_bins_1", "sort_last_1", "sort_last_2", "sort_last_4")
TOPK = {("topk_last", "tg.barrier"): 3}
SORTS = {(f, "tg.barrier"): 1 for f in (*COUNTS, "topk_last_1")} | TOPK
SHARED = (*COUNTS, "topk_last_1", "conv_transpose1d", "linear")
KNOWN = {
    # A barrier before a ring's memory is reused, after a wait for all of its copies. Also a barrier before
    # the next program writes memory that this one reads, with products of the only warpgroup in between.
    "sim:sm_90a": SORTS | {(f, "tg.barrier"): 1 for f in ("attention", "batch_matmul", "linear_glu", "attention_varlen")}
    | {("attention_varlen", "tg.barrier.1.128"): 1},
    # A barrier before the next program's copies. Another barrier follows these copies.
    "sim:sm_80": SORTS | {("attention_varlen", "tg.barrier"): 2},
    "sim:gfx942": {(f, "tg.barrier"): 1 for f in ("concat_last", "concat_middle", "conv_transpose2d",
                                                "conv_transpose3d")}
    | {(f, "tg.barrier.shared"): 1 for f in SHARED} | TOPK,
}


def cases(o):
    """All cases of the kernels whose turn it is. A place counts as noticed if one case of its version notices
    it, and KNOWN counts by kernel."""
    return [case for case in stdlib_cases.CASES if case[5] in o.target and has_turn(o, case[1])]


def lines(o, share):
    """The lines for `tegula run --batch` on this share of a GPU."""
    for file, kernel, args, sets, wanted, _ in cases(o):
        if wanted != share:
            continue
        words = [str(stdlib_cases.STDLIB / (file + ".teg")), "--kernel", kernel, "--target", o.target,
                 "--quiet"]
        for arg in args:
            words += ["--arg", arg]
        for one in sets:
            words += ["--set", one]
        if o.k in kernel:
            yield shlex.join(words)


def run_batch(o, folder, share):
    """Runs the lines of one share of a GPU. Returns whether a launch failed, and prints it."""
    batch = folder / "batch"
    batch.write_text("\n".join(lines(o, share)) + "\n")
    env = dict(os.environ, TG_SIM_CHECK="1", TG_SIM_MUTATE=str(folder / "log"))
    if share > 1:
        env["TG_SIM_SHARE"] = str(share)
    done = subprocess.run([o.tegula, "run", "--batch", str(batch)], capture_output=True, text=True,
                          env=env)
    text, failed = [], done.returncode < 0
    for line in done.stdout.splitlines():
        text.append(line)
        if not line.startswith("@@ "):
            continue
        if line.split()[2] != "0":
            failed = True
            print("\n".join(text))
        text = []
    return failed


def run(o, folder):
    """The simulator appends a line to the log for each barrier, fence and wait of each launch."""
    failed = [run_batch(o, folder, share) for share in dict.fromkeys(case[4] for case in cases(o))]
    log = folder / "log"
    return any(failed), log.read_text().splitlines() if log.exists() else []


# Synchronisation that kernels of several ranks do not need, by architecture, version of a kernel and
# function: the number of places, and the reason.
ONE_TENSOR = "stands between c[r] and c[rank], one tensor to the compiler; the kernel keeps r and rank apart"
ONE_ORDER = "the fence of a single thread: memory of the simulator has one order"
OWN_ACCESSES = "they order accesses of this program alone, which do not meet"
SPARE = {
    ("sm_90a", "gemm_rs", "tg.nv.tma.wait.read.0"):
        (1, "the wait of the last signal, for what is copied out to be there, is more than that"),
    ("sm_90a", "gemm_ar", "tg.barrier"): (1, "behind a signal, which counts as an access to all memory there is"),
    ("sm_90a", "gemm_ar_2", "tg.barrier"): (1, ONE_TENSOR),
    ("gfx942", "gemm_ar_2", "tg.barrier"): (1, ONE_TENSOR),
    ("sm_90a", "flags", "tg.fence.acq_rel.sys"): (2, ONE_ORDER),
    ("gfx942", "flags", "tg.fence.acq_rel.sys"): (2, ONE_ORDER),
    ("sm_90a", "flags", "tg.barrier"): (3, OWN_ACCESSES),
    ("gfx942", "flags", "tg.barrier"): (3, OWN_ACCESSES),
}

RANKS, SECONDS, SEEDS = 2, 2, 3  # number of ranks, seconds that they wait, tries of a mutation


def try_ranks(o, case, folder, skip="", seed=1):
    """A launch of one case: (whether it failed, its results, the log)."""
    file, kernel, args, sets, outs = case
    log = folder / "log"
    log.unlink(missing_ok=True)
    words = [o.tegula, "run", str(file), "--kernel", kernel, "--target", o.target, "--ranks", str(RANKS),
             "--quiet"]
    for option, values in (("--arg", args), ("--set", sets), ("--out", [f"{x}={folder / x}.npy" for x in outs])):
        for x in values:
            words += [option, x]
    env = dict(os.environ, TG_SIM_CHECK="1", TG_SIM_MUTATE=str(log), TG_SIM_SKIP=skip, TG_SIM_SEED=str(seed),
               TG_SIM_LATE=str(seed % RANKS) if skip else "",
               TG_COMM_TIMEOUT_MS=str(SECONDS * 1000))
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    results = b"" if done.returncode else b"".join((folder / f"{x}.npy").read_bytes() for x in outs)
    return done, results, log.read_text().splitlines() if log.exists() else []


def mutate_ranks(o, case, folder):
    """The lines that a launch of one rank logs."""
    folder.mkdir()
    done, right, log = try_ranks(o, case, folder)
    if done.returncode:
        return [f"failed {case[1]}: {done.stderr}"]
    lines = []
    for site in dict.fromkeys(x for x in log if x.startswith("site ")):
        _, function, number, *rest = site.split(" ")
        what = "not reached"
        for seed in range(1, SEEDS + 1):  # the next rank is late
            skip = f"{function.rpartition('.')[0]}:{number}"
            done, results, log = try_ranks(o, case, folder, skip, seed)
            if done.returncode or results != right:
                what = "noticed"
                break
            if "reached" in log:
                what = "unnoticed"
        lines.append(" ".join([what, function, number, *rest]))
    return lines


def run_ranks(o, folder):
    cases = [c for c in stdlib_cases.RANKS if o.k in c[1] and has_turn(o, c[1])]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        all_ = pool.map(lambda i: mutate_ranks(o, cases[i], folder / str(i)), range(len(cases)))
        log = [line for lines_ in all_ for line in lines_]
    failed = [x for x in log if x.startswith("failed ")]
    print("\n".join(failed), end="\n" if failed else "")
    return bool(failed), log


def kernel_of(version):
    """The kernel of a version such as `gemm_ar_2`."""
    return re.sub(r"_\d+$", "", version)


def outcomes(log):
    """The outcome of each place: (version of a function, number) to outcomes, and its description."""
    places, names = collections.defaultdict(set), {}
    for line in log:
        for what in ("noticed", "unnoticed", "not reached"):
            if line.startswith(what + " "):
                function, number, position, name = line[len(what) + 1:].split(" ")[:4]
                places[function, int(number)].add(what)
                names[function, int(number)] = f"{pathlib.Path(position).name} {name}"
    return places, names


def judge_ranks(o, unnoticed, names):
    """Prints places that are unnoticed without being spare, and noticed spare ones. Returns whether there is
    any."""
    arch = o.target.partition(":")[2]
    found = collections.Counter()
    for function, number in unnoticed:
        found[arch, function.rpartition(".")[0], names[function, number].split(" ")[1]] += 1
    wanted = {key: n for key, (n, _) in SPARE.items() if key[0] == arch and o.k in key[1] and has_turn(o, kernel_of(key[1]))}
    wrong = [key for key in found | wanted if found[key] != wanted.get(key, 0)]
    for key in wrong:
        print(f"{' '.join(key)}: {found[key]} can be done without, not {wanted.get(key, 0)}")
    return bool(wrong)


def differs_from_known(o, unnoticed, names):
    """Whether the unnoticed places differ from KNOWN. Prints the difference."""
    found = collections.Counter((k[0].rpartition(".")[0], names[k].split(" ")[1]) for k in unnoticed)
    kernels = {case[1] for case in cases(o) if o.k in case[1]}
    known = {k: n for k, n in KNOWN[o.target].items() if {k[0], kernel_of(k[0])} & kernels}
    wrong = sorted(k for k in {*found, *known} if found[k] != known.get(k, 0))
    for k in wrong:
        print(f"unnoticed {' '.join(k)}: {found[k]} places, KNOWN has {known.get(k, 0)}")
    return bool(wrong)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--target", default="sim:sm_90a")
    p.add_argument("-k", default="", help="only kernels whose name holds this text")
    p.add_argument("--daily", action="store_true", help="only a third of the kernels, in turns of a day")
    p.add_argument("--ranks", action="store_true", help="kernels of several ranks")
    p.add_argument("--known", action="store_true", help="fail where not just KNOWN goes unnoticed")
    p.add_argument("--unreached", metavar="A,B,C", help="fail where more places of a turn are not reached")
    p.add_argument("--least", type=float, default=0.0, help="fail below this share, in percent")
    o = p.parse_args()
    kernels = {c[1] for c in (stdlib_cases.RANKS if o.ranks else stdlib_cases.CASES) if o.k in c[1]}
    turns.say_left_out(sum(not has_turn(o, k) for k in kernels), len(kernels))
    with tempfile.TemporaryDirectory() as folder:
        failed, log = (run_ranks if o.ranks else run)(o, pathlib.Path(folder))
    for file, kernel in stdlib_cases.missing():
        failed = True
        print(f"no case of {file}.{kernel}")
    places, names = outcomes(log)
    tried = {k for k, v in places.items() if v != {"not reached"}}
    noticed = {k for k in tried if "noticed" in places[k]}
    for k in sorted(tried - noticed):
        print("unnoticed:", *k, names[k])
    for k in sorted(places.keys() - tried):
        print("not reached:", *k, names[k])
    share = 100 * len(noticed) / max(len(tried), 1)
    print(f"{len(noticed)} of {len(tried)} barriers, fences, waits and signals are noticed: {share:.1f} %")
    missed = [sum(turn_of(kernel_of(k[0].rpartition(".")[0])) == t for k in places.keys() - tried) for t in range(TURNS)]
    print(f"{','.join(map(str, missed))} are not reached, by turns")
    if o.known:
        failed |= differs_from_known(o, tried - noticed, names)
    if o.ranks:
        failed |= judge_ranks(o, tried - noticed, names)
    few = o.unreached and any(found > int(most) for found, most in zip(missed, o.unreached.split(",")))
    return failed or share < o.least or few


if __name__ == "__main__":
    sys.exit(main())
