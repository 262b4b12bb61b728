# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes kernels of ranks: ranks.py TEGULA command | faults | programs | threads.

The default plan is made slow where candidates are measured, so that another one wins. command: `tegula
tune --ranks`, and the users of its result. faults: one rank of a candidate crashes, hangs or fails.
programs, threads: ranks whose first launch searches (rank 0 searches, while the others wait longer than a
wait normally may), then ranks with stores of their own, of which rank 0's counts.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import threading

N = 4096
TUNE = ["tune", "std/comm.teg", "-k", "all_gather", "--type", "T=f32", "--dim", f"N={N}", "--set", f"BN={N}"]
SLOW = "slow@!plan"


def command(tegula, *arguments, fault=None, rank=None, cut_short=False):
    """Its output; None: cut_short, and the time did not suffice."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TG_TUNE", "TG_FAULT", "TG_FAULT_RANK")}
    if fault:
        environment["TG_FAULT"] = fault
    if rank is not None:
        environment["TG_FAULT_RANK"] = str(rank)
    done = subprocess.run([tegula, *arguments], env=environment, capture_output=True, text=True)
    if cut_short and "the time was up before the first result" in done.stderr:
        return None
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tune(tegula, *more, enough=lambda trials: True, **options):
    """The candidates by setting, of a search with enough time; a busy machine needs more."""
    lines, again = os.path.join(os.environ["TMPDIR"], "lines.json"), []
    for budget in 8, 24, 72, 216:
        words = [*TUNE, "--budget", str(budget), "--jsonl", lines, *more, *again]
        if command(tegula, *words, cut_short=budget < 216, **options) is None:
            continue
        trials = [json.loads(line) for line in open(lines)]
        assert not glob.glob(os.path.join(os.environ["TMPDIR"], "tegula-tune-*")), "a socket is left"
        trials = {t["config"]: t for t in trials if "config" in t and "verdict" in t}
        if enough(trials):
            break
        again = ["--again"]
    return trials


def won(trials):
    return next(config for config, t in trials.items() if t["verdict"] == "won")


def check_command(tegula):
    for ranks in 2, 3:
        trials = tune(tegula, "--ranks", str(ranks), fault=SLOW, enough=lambda found: "plan=" in won(found))
        winner = won(trials)
        assert "plan=" in winner, f"{ranks} ranks: the slow plan won: {winner}"
        assert f"BN={N} plan=before" in trials, "the plan that hides nothing is not a candidate"
        argument = ["std/comm.teg", "-k", "all_gather", "--set", f"BN={N}", "--arg", f"a=rand({ranks},{N})"]
        said = command(tegula, "explain", *argument)
        assert f"tuning: {winner}\n" in said and "tuned on" in said, said
        assert winner in command(tegula, "run", *argument), "`run` does not take it"
    # Results for two ranks do not apply to four, nor to ranks with other threads.
    other = argument[:-1] + [f"a=rand(4,{N})"]
    assert "plan=" not in command(tegula, "run", *other), "taken for another number of ranks"
    assert "plan=" not in command(tegula, "run", *argument, "--threads", "3"), "taken for more threads"


def check_faults(tegula):
    faults = {"crash@plan=before": "crashed", "hang@plan=pull": "hung", "launch@plan=push": "failed"}
    for fault, verdict in faults.items():
        plan = fault.split("@")[1]
        config = f"BN={N} {plan}"
        trials = tune(tegula, "--ranks", "2", "--among", config, fault=fault, rank=1,
                      enough=lambda found: found[config]["verdict"] != "not reached")
        t = trials[config]
        assert t["verdict"] == verdict, t
        assert verdict == "hung" or "rank 1" in t["why"], t
        assert won(trials) == f"BN={N}", trials
    # On GPUs, or stand-ins for them, launches happen without results.
    if "TG_CUDA_LIBRARY" in os.environ:
        trials = tune(tegula, "--target", "cuda", "--ranks", "2", "--among", f"BN={N} plan=before",
                      enough=lambda found: all(t["verdict"] != "not reached" for t in found.values()))
        assert len([t for t in trials.values() if (t["seconds"] or -1) > 0]) == 2, trials


def launch(logs, rank, ranks, engine, meet, launches=3):
    import numpy as np
    import tegula

    with tegula.Context(log=logs.append):
        comm = tegula.Comm(engine, meet=meet, rank=rank, ranks=ranks)
        a = comm.empty((N,), "f32")
        kernel = tegula.load("std/comm.teg", settings={"BN": N}).all_gather
        shard, out = np.asarray(a), np.empty((ranks, N), "f4")
        for i in range(launches):
            shard[:] = np.arange(N) * (rank + 1) + i
            out[:] = np.nan
            kernel(a, out)
            assert np.array_equal(out, np.arange(N) * np.arange(1, ranks + 1)[:, None] + i), f"rank {rank} is wrong"
        del a, shard
        comm.close()


def process(rank, ranks, meet):
    """Begins on command: other ranks may take longer to start than a wait may last."""
    import tegula  # noqa: F401
    print("ready", flush=True)
    sys.stdin.readline()
    logs = []
    launch(logs, int(rank), int(ranks), "processes", meet)
    print("\n".join(logs))


def run_processes(tegula, caches, **environment):
    """The logs of the ranks, each with a store of its own."""
    meet = os.path.join(os.environ["TMPDIR"], "meet")
    ranks = []
    for rank, cache in enumerate(caches):
        more = {"TG_CACHE": cache, "TG_SERVER": tegula, **environment}
        words = [sys.executable, __file__, tegula, "rank", str(rank), str(len(caches)), meet]
        ranks.append(subprocess.Popen(words, env={**os.environ, **more}, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True))
    for r in ranks:
        assert r.stdout.readline() == "ready\n"
    for r in ranks:
        r.stdin.write("go\n")
        r.stdin.flush()
    logs = [r.communicate()[0] for r in ranks]
    assert all(r.returncode == 0 for r in ranks), logs
    return logs


def check_programs(tegula):
    a, b = (os.path.join(os.environ["TMPDIR"], name) for name in "ab")
    search = {"TG_TUNE": "block", "TG_TUNE_BUDGET_MS": "60000", "TG_COMM_TIMEOUT_MS": "4000", "TG_FAULT": SLOW}
    logs = run_processes(tegula, [a, b], **search)
    assert "tuned all_gather" in logs[0] and "plan=" in logs[0], logs
    assert not logs[1].strip(), logs
    found = next(line for line in logs[0].splitlines() if line.startswith("tuned"))
    # Nothing is searched again: no helper could start. Stores differ: only one has the result.
    for caches in [a, b], [b, a]:
        mode = "block" if caches[0] == a else "background"
        logs = run_processes(tegula, caches, TG_TUNE=mode, TG_SERVER="/nowhere")
        assert not any(line.strip() for line in logs), (found, logs)


    # The command's ranks agree on one result, too.
    for caches in [a, b], [b, a]:
        said = run_commands(tegula, caches)
        assert ("plan=" in said[0]) == (caches[0] == a), said


def run_commands(tegula, caches):
    meet = os.path.join(os.environ["TMPDIR"], "meet")
    words = [tegula, "run", "std/comm.teg", "-k", "all_gather", "--comm", "processes", "--set", f"BN={N}"]
    words += ["--arg", f"a=rand({len(caches)},{N})"]
    ranks = []
    for rank, cache in enumerate(caches):
        more = {"TG_CACHE": cache, "TG_RANK": str(rank), "TG_RANKS": str(len(caches)), "TG_MEET": meet}
        more["TG_TUNE"] = "background"
        ranks.append(subprocess.Popen(words, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True))
    said = [r.communicate()[0] for r in ranks]
    assert all(r.returncode == 0 for r in ranks), said
    return said


def check_threads(tegula):
    os.environ.update(TG_TUNE="block", TG_TUNE_BUDGET_MS="60000", TG_FAULT=SLOW, TG_SERVER=tegula)
    logs, failed = [[], []], []

    def body(rank):
        try:
            launch(logs[rank], rank, 2, "threads", "here")
        except Exception as e:
            failed.append(e)
            raise

    threads = [threading.Thread(target=body, args=(r,)) for r in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed
    assert any("tuned all_gather" in line and "plan=" in line for line in logs[0] + logs[1]), logs


def main():
    tegula, what = sys.argv[1:3]
    if what == "rank":
        process(*sys.argv[3:])
        return
    with tempfile.TemporaryDirectory(prefix="tegula-ranks.") as folder:
        os.environ.update(TMPDIR=folder, TG_CACHE=os.path.join(folder, "cache"))
        os.environ.pop("TG_FAULT", None)
        {"command": check_command, "faults": check_faults, "programs": check_programs, "threads": check_threads}[what](tegula)


if __name__ == "__main__":
    main()
