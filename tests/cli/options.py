#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each option of each command changes what the command does, or is refused.

    tests/cli/options.py --tegula build/bin/tegula --folder FOLDER [COMMAND...]

A row of CASES is for one option of one command: words of a run without it, the words that it adds,
and a pattern. The pattern is found with the option and not without it, in the output, the messages,
the exit code ("exit 1") and the names of new files ("file y.npy"). A pattern after a `-`
is found without the option and not with it. The test fails for an option of `tegula COMMAND --help` without a
row, and for an unknown name in --set, --given, --type or --dim that is not refused.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FILES = {
    "one.teg": """kernel scale(x: f32[M, N], y: f32[M, N], s: f32) tune BM = 8 | 16 {
    parallel m in M by BM, n in N by 16 { y[m, n] = x[m, n] * s; }
}
""",
    "two.teg": """kernel first(x: f32[N]) { parallel n in N { x[n] = 1; } }
kernel second(x: f32[N]) { parallel n in N { x[n] = 2; } }
""",
    "inner.teg": """kernel k<T: float>(x: i64[N], y: f64[N]) {
    parallel n in N by 8 { y[n] = (x[n] as T) as f64; }
}
""",
    "constant.teg": """kernel k(x: f32[N], y: f32[N], const C) {
    parallel n in N by 8 { y[n] = x[n] * C; }
}
""",
    "row.teg": """kernel row(x: f32[M, D], y: f32[M, D]) {
    parallel m in M, d in D by D { y[m, d] = x[m, d] * 2; }
}
""",
    "says.teg": """kernel says(x: f32[N]) {
    parallel n in N { print("hello"); assert(N > 100, "many"); }
}
""",
    "ranks.teg": """kernel gather(a: sym f32[W][M, K], c: f32[W, M, K]) {
    parallel r in W, m in M by 16, k in K by 32 { c[r, m, k] = a[r][m, k]; }
}
""",
    "warns.teg": "kernel k(x: f32[N]) { parallel n in N { let unused = 1; x[n] = 010; } }\n",
    "odd.teg": "kernel k(x:f32[N]){parallel n in N{x[n]=1;}}\n",
    "user.teg": "import \"part.teg\";\nkernel k(x: f32[N]) { parallel n in N { x[n] = three(); } }\n",
    "parts/part.teg": "fn three() { return 3.0; }\n",
    "open.txt": "one.teg -a 'x=iota(4,4)\n",
    "runs.txt": "one.teg -a x=iota(4,4) -a s=2\n",
    "shapes.txt": "M=32 N=48\n",
    "tuned.json": None,  # made by the first row of `tune`
}
ONE = "one.teg -a x=iota(4,4) -a s=2"
SMALL = "one.teg --dim M=64 --dim N=64"
OTHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tune", "other.sh")
TUNE = SMALL + " --budget 300"
RANKS = "ranks.teg --ranks 2 -r 1 -a a=rand(2,32,32)"
GPU = "one.teg --target sm_90a"

# Options whose effect no output shows, with the reason.
UNSEEN = {
    ("lsp", "path"): "tests/lsp/server.py tries it",
    ("run", "threads"): "results do not depend on it; lit/cli/usage.teg sees too many",
    ("explain", "threads"): "only kernels that the cost model splits show it",
    ("tune", "threads"): "the kernel is timed with them",
    ("profile", "threads"): "each rank runs with them",
    ("run", "guard"): "only a wrong access would show it: tests/run uses it throughout",
    ("run", "debug"): "a debugger shows it: lit/debug",
    ("build", "debug"): "a debugger shows it: lit/debug",
    ("tune", "seed"): "it draws another sample of settings",
    ("profile", "repeat"): "the median of more launches",
    ("tune", "codegen"): "it needs a GPU of NVIDIA; 'refused' below sees the others",
    ("profile", "codegen"): "it needs a GPU of NVIDIA; 'refused' below sees the others",
    ("bench", "codegen"): "it needs a GPU of NVIDIA; 'refused' below sees the others",
    ("run", "codegen"): "it needs a GPU of NVIDIA; 'refused' below sees the others",
}
for command in ("run", "emit", "explain", "bench", "profile"):
    UNSEEN[command, "verify-each"] = "it finds mistakes of passes"

CASES = {
    ("run", "kernel"): ("two.teg -a x=zeros(3)", "-k second", r"second N=3"),
    ("run", "arg"): ("one.teg -a x=iota(4,4)", "-a s=2", r"y: f32\[4, 4\] = 0 2 4"),
    ("run", "out"): (ONE, "-o y=y.npy", r"file y.npy"),
    ("run", "set"): (ONE, "--set BM=16", r"BM=16"),
    ("run", "type"): ("inner.teg -a x=iota(3):i64", "-t T=f16", r"k<f16>"),
    ("run", "given"): (ONE, "-g M=3", r"and 3 in"),
    ("run", "target"): (ONE, "--target interp", r"on interp"),
    ("run", "repeat"): ("says.teg -a x=zeros(1) -q", "-r 2", r"hello\nhello\nhello"),
    ("run", "ranks"): ("ranks.teg -a a=rand(2,4,4)", "--ranks 3", r"there are 3"),
    ("run", "comm"): ("ranks.teg -a a=rand(2,4,4)", "--comm nosuch", r"nosuch"),
    ("run", "flops"): (ONE, "--flops 2*M", r"FLOP/s"),
    ("run", "check"): ("says.teg -a x=zeros(1)", "--check", r"error: .*many"),
    ("run", "quiet"): (ONE, "-q", r"-y: f32"),
    ("run", "batch"): ("", "--batch runs.txt", r"@@ 1 0"),
    ("run", "emit"): (ONE, "--emit tile", r"(?m)^module"),
    ("run", "locs"): (ONE + " --emit tile", "--locs", r" @ \d+:\d+\n"),
    ("run", "dump-after"): (ONE, "--dump-after bounds", r"// after bounds"),
    ("run", "time-passes"): (ONE, "--time-passes", r"ms  front end"),
    ("run", "path"): ("user.teg -a x=zeros(3)", "-I parts", r"= 3 3 3"),
    ("check", "target"): ("says.teg", "--target nosuch", r"unknown target 'nosuch'"),
    ("check", "codegen"): ("one.teg --target sm_90a", "--codegen nosuch", r"no code generator 'nosuch'"),
    ("check", "path"): ("user.teg", "-I parts", r"exit 0"),
    ("check", "json"): ("warns.teg", "--json", r'"code": "unused"'),
    ("check", "werror"): ("warns.teg", "--werror", r"exit 1"),
    ("fmt", "in-place"): ("odd.teg", "-i", r"file odd.teg"),
    ("fmt", "check"): ("odd.teg", "--check", r"(?m)^odd.teg$"),
    ("emit", "kernel"): ("two.teg", "-k second", r'name="second"'),
    ("emit", "arg"): ("one.teg", "-a x=iota(4,8)[:,::2]", None),
    ("emit", "set"): ("one.teg", "--set BM=16", r"BM=16"),
    ("emit", "type"): ("inner.teg", "-t T=f16", r"f16"),
    ("emit", "given"): ("row.teg", "-g D=48", r"48"),
    ("emit", "target"): ("one.teg -l gpu", "--target sm_90a", r"module"),
    ("emit", "codegen"): (GPU + " -l ptx", "--codegen nvvm", r"NVVM Compiler|libnvvm"),
    ("emit", "threads"): ("one.teg -l grid -a x=zeros(9999,64) -a y=zeros(9999,64)", "-j 1", None),
    ("emit", "check"): ("says.teg", "--check", r"assert"),
    ("emit", "marks"): (GPU + " -l ptx", "--marks", r"%globaltimer"),
    ("emit", "debug"): ("one.teg -l llvm", "--debug", r"DICompileUnit"),
    ("emit", "level"): ("one.teg", "-l grid", r"launch"),
    ("emit", "locs"): ("one.teg", "--locs", None),
    ("emit", "dump-after"): ("one.teg -l grid", "--dump-after bounds", r"// after bounds"),
    ("emit", "time-passes"): ("one.teg -l grid", "--time-passes", r"ms  front end"),
    ("emit", "path"): ("user.teg", "-I parts", r"module"),
    ("explain", "kernel"): ("two.teg", "-k second", r"second N"),
    ("explain", "arg"): ("one.teg", "-a x=zeros(7,9)", r"M=7"),
    ("explain", "set"): ("one.teg", "--set BM=16", r"tuning: BM=16"),
    ("explain", "type"): ("inner.teg", "-t T=f16", r"k<f16>"),
    ("explain", "given"): ("row.teg", "-g D=48", r"constants: D=48"),
    ("explain", "target"): ("one.teg", "--target sm_90a", r"code for sm_90a"),
    ("explain", "codegen"): (GPU, "--codegen nosuch", r"no code generator 'nosuch'"),
    ("explain", "dump-after"): ("one.teg", "--dump-after bounds", r"// after bounds"),
    ("explain", "time-passes"): ("one.teg", "--time-passes", r"ms  front end"),
    ("explain", "picture"): (GPU, "--picture", r"0\.0:0 +0\.0:1"),
    ("explain", "path"): ("user.teg", "-I parts", r"parameters"),
    ("bench", "kernel"): ("two.teg --seconds 0.01", "-k second", r"second N"),
    ("bench", "arg"): ("one.teg --seconds 0.01", "-a x=zeros(7,9)", r"M=7"),
    ("bench", "set"): (SMALL + " --seconds 0.01", "--set BM=8", r"scale.* BM=8"),
    ("bench", "type"): ("inner.teg --seconds 0.01 -d N=64", "-t T=f16", r"k<f16>"),
    ("bench", "given"): (SMALL + " --seconds 0.01", "-g M=32", r"M is already 32"),
    ("bench", "target"): (SMALL + " --seconds 0.01", "--target nosuch", r"unknown target"),
    ("bench", "threads"): (SMALL + " --seconds 0.01", "-j 3", r"3 threads"),
    ("bench", "dim"): ("one.teg --seconds 0.01", "-d M=7", r"M=7"),
    ("bench", "seconds"): (SMALL, "--seconds many", r"expected seconds"),
    ("bench", "json"): (SMALL + " --seconds 0.01", "--json b.json", r"file b.json"),
    ("bench", "flops"): (SMALL + " --seconds 0.01", "--flops 2*M", r"FLOP/s"),
    ("bench", "dump-after"): (SMALL + " --seconds 0.01", "--dump-after bounds", r"// after bounds"),
    ("bench", "time-passes"): (SMALL + " --seconds 0.01", "--time-passes", r"ms  front end"),
    ("bench", "path"): ("user.teg --seconds 0.01", "-I parts", r"1 thread"),
    ("profile", "kernel"): (RANKS, "-k nosuch", r"no kernel 'nosuch'"),
    ("profile", "arg"): ("one.teg -r 1", "-a x=zeros(7,9)", r"M=7"),
    ("profile", "dim"): ("one.teg -r 1", "-d M=7", r"M=7"),
    ("profile", "flops"): ("one.teg -r 1 -d M=64", "--flops 2*M", r"FLOP/s"),
    ("profile", "set"): (RANKS, "--set plan=nosuch", r"plans are"),
    ("profile", "type"): (RANKS, "-t T=f32", r"no type parameter"),
    ("profile", "given"): (RANKS, "-g M=3", r"M is already 32|3 in"),
    ("profile", "target"): (RANKS, "--target interp", r"does not run on several ranks"),
    ("profile", "ranks"): ("ranks.teg -r 1 -a a=rand(2,32,32)", "--ranks 3", r"there are 3"),
    ("profile", "comm"): (RANKS, "--comm nosuch", r"nosuch"),
    ("profile", "dump-after"): (RANKS, "--dump-after bounds", r"// after bounds"),
    ("profile", "time-passes"): (RANKS, "--time-passes", r"ms  front end"),
    ("profile", "path"): ("user.teg -r 1 -a x=zeros(3)", "-I parts", r"a launch"),
    ("profile", "roofline"): ("one.teg -r 1 -d M=64 --flops M", "--roofline r.svg", r"file r.svg"),
    ("profile", "counters"): ("one.teg -r 1 -d M=64", "--counters", r"hardware counters"),
    ("profile", "html"): ("one.teg -r 1 -d M=64", "--html p.html", r"file p.html"),
    ("profile", "output"): (RANKS, "-o t.json", r"file t.json"),
    ("build", "codegen"): ("one.teg -o o.o --gpus sm_90a", "--codegen nosuch", r"no code generator"),
    ("build", "output"): ("one.teg --header h.h", "-o o.o", r"file o.o"),
    ("build", "header"): ("one.teg -o o.o", "--header h.h", r"file h.h"),
    ("build", "target"): ("one.teg -o o.o -v", "--target x86-64,sm_90a", r"sm_90a"),
    ("build", "levels"): ("one.teg -o o.o -v", "--levels base", r"-  v3 "),
    ("build", "gpus"): ("one.teg -o o.o -v", "--gpus sm_90a", r"sm_90a"),
    ("build", "export"): ("two.teg -o o.o -v", "--export second", r"-first:"),
    ("build", "prefix"): ("one.teg -o o.o -v", "--prefix my_", r"my_scale:"),
    ("build", "set"): ("one.teg -o o.o -v --levels base", "--set BM=16", None),
    ("build", "given"): ("one.teg -o o.o -v --levels base", "-g N=48", r"N=48"),
    ("build", "variants"): ("one.teg -o o.o -v --levels base -g M=64 -g N=48", "--variants 2", r"BM=8.*BM=16|BM=16.*BM=8"),
    ("build", "tuned"): ("one.teg -o o.o --levels base", "--tuned nosuch.json", r"nosuch.json"),
    ("build", "check"): ("says.teg -o o.ll --levels base", "--check", r"file o.ll .*many"),
    ("build", "path"): ("user.teg -o o.o", "-I parts", r"file o.o"),
    ("build", "depfile"): ("one.teg -o o.o", "--depfile o.d", r"file o.d"),
    ("build", "jit"): ("one.teg --header h.h", "--jit", r"file h.h .*tg_kernel \*kernel"),
    ("build", "verbose"): ("one.teg -o o.o", "-v", r"variants"),
    ("tune", "kernel"): ("two.teg --budget 300 -d N=64", "-k second", r"second N"),
    ("tune", "arg"): ("one.teg --budget 300", "-a x=zeros(7,9)", r"M=7"),
    ("tune", "set"): (TUNE, "--set BM=16", r"scale.* BM=16 on"),
    ("tune", "type"): ("inner.teg --budget 300 -d N=64 -o r.json", "-t T=f16", r"file r.json .*k<f16>"),
    ("tune", "given"): (TUNE, "-g M=32", r"M is already 32"),
    ("tune", "target"): (TUNE, "--target nosuch", r"unknown target"),
    ("tune", "dim"): ("one.teg --budget 300", "-d M=7", r"M=7"),
    ("tune", "shapes"): ("one.teg --budget 300", "--shapes shapes.txt", r"M=32 N=48"),
    ("tune", "mode"): (TUNE, "--mode nosuch", r"there are block"),
    ("tune", "budget"): (SMALL + " --set BM=16", "--budget 299", r"of 299 s"),
    ("tune", "output"): (TUNE, "-o r.json", r"file r.json"),
    ("tune", "report"): (TUNE, "--report r.html", r"file r.html"),
    ("tune", "jsonl"): (TUNE, "--jsonl r.jsonl", r"file r.jsonl"),
    ("tune", "again"): (TUNE, "--again", r"-found before"),
    ("tune", "among"): (TUNE, "--among nosuch=1", r"is not a candidate|nosuch"),
    ("tune", "merge"): ("tuned.json -o m.json", "--merge", r"file m.json"),
    ("tune", "ranks"): (TUNE, "--ranks 2", r"no symmetric tensor"),
    ("tune", "path"): ("user.teg --budget 300 -d N=64", "-I parts", r"k N=64"),
    ("cache", "size"): ("prune", "--size 1M", r"\d+ removed"),
    ("cache", "days"): ("prune", "--days 9", r"\d+ removed"),
    ("cache", "all"): ("prune", "--all", r"\d+ removed"),
    ("doctor", "json"): ("", "--json", r'"section": "devices"'),
    ("targets", "names"): ("", "--names", r"-reference interpreter"),
}

# Commands that must fail, and their messages.
REFUSED = [
    (f"{command} {words}", says)
    for command, base in (("run", ONE), ("emit", "one.teg"), ("explain", "one.teg"),
                          ("bench", SMALL), ("tune", TUNE), ("profile", RANKS))
    for words, says in (
        (base + " --set BN=8", "has no tune value 'BN'"),
        (base + " --given Q=8", "no dim or constant parameter 'Q'"),
        (base + " --type U=f32", "no type parameter"),
        (base + " --codegen nvptx", "'--codegen' has no effect with"),
        (base + " --arg z=3", "has no parameter 'z'"),
    )
] + [
    (f"build one.teg {out} {words}", says)
    for out in ("-o o.o", "--header h.h")
    for words, says in (("--set BN=8", "BN"), ("--given Q=8", "Q"), ("--set M=8", "M"),
                        ("--given 'Q<=8'", "Q"), ("--codegen nvptx", "codegen"))
] + [
    ("run " + ONE + " --set BX=8", "did you mean 'BM'?"),
    ("build one.teg -o o.o --set BX=8", "did you mean 'BM'?"),
    ("build one.teg -o o.o --given X=8", "M, N"),
    ("run " + ONE + " --given s=3", "there are M, N"),
    ("bench one.teg --dim Q=8", "its dims are M, N"),
    ("tune one.teg --dim Q=8", "its dims are M, N"),
    ("run --batch runs.txt -q", "'--quiet' has no effect with --batch"),
    ("run " + ONE + " --emit tile -o y=y.npy", "'--out' has no effect with --emit"),
    ("run " + ONE + " --locs", "'--locs' has no effect without --emit"),
    ("run " + ONE + " --target interp --time-passes", "'--time-passes' has no effect with --target interp"),
    ("emit one.teg -l ast --set BM=8", "'--set' has no effect with --level ast"),
    ("emit one.teg --time-passes", "'--time-passes' has no effect with --level tile"),
    ("check one.teg --codegen nvptx", "'--codegen' has no effect without --target"),
    ("fmt one.teg -i --check", "'--in-place' has no effect with --check"),
    ("build one.teg --jit --header h.h --levels base", "'--levels' has no effect with --jit"),
    ("build one.teg --jit --header h.h --set BN=8", "'--set' has no effect with --jit"),
    ("tune tuned.json --merge -o m.json --budget 3", "'--budget' has no effect with --merge"),
    ("tune " + TUNE + " --time-passes", "unknown option '--time-passes'"),
    ("cache list --all", "--all is an option of 'cache prune'"),
    ("bench " + SMALL + " --seconds x", "expected seconds"),
    ("run " + ONE + " --codegen nvtpx --target sm_90a", "did you mean 'nvptx'?"),
    # The other messages of the command line.
    ("build inner.teg -o o.o --export k<nosuch>", "write a kernel and its types: --export 'softmax<f32>'"),
    (f"TG_TUNE=strict run {ONE}", "hint: 'tegula tune' finds it"),
    (f"TG_COMPILE=process TG_SERVER={OTHER} run {ONE}",
     "TG_COMPILE=process: the other process has another compiler"),
    ("run one.teg --arg", "'--arg' needs a value: --arg NAME=SPEC"),
    ("run", "'tegula run --help' describes it"),
    ("run --nothing-like-it one.teg", "'tegula run --help' lists the options"),
    ("fmt", "'tegula fmt' needs FILE..."),
    ("nothing-like-it", "'tegula --help' lists the commands"),
    ("targets one.teg", "'tegula targets' takes no file; 'one.teg' is too much"),
    ("run one.teg -a x", "'tegula help arguments' lists the forms"),
    ("run one.teg -a x=zeros(2,2):nothing", "'tegula help arguments' lists the views"),
    ("run one.teg -a x=nothing(2,2)", "'tegula help arguments' lists them"),
    ("run odd.teg -a x=zeros(2) -a x=zeros(3)", "two --arg for 'x'"),
    ("run two.teg -a x=zeros(2)", "two.teg holds 2 kernels: first, second"),
    ("run two.teg -a x=zeros(2)", "choose one: --kernel first"),
    ("run two.teg -k third", "two.teg has no kernel 'third'"),
    ("run parts/part.teg", "parts/part.teg holds no kernel"),
    ("build parts/part.teg -o o.o", "the file holds no kernel"),
    ("run one.teg -a x=iota(4,4) -s BM=many", "--set BM=many: 'many' is not an integer"),
    ("run one.teg -a x=iota(4,4)", "give it: --arg s=1"),
    ("run one.teg -a s=1", "give it: --arg 'x=zeros(...)', or @file.npy, or rand(...)"),
    ("run " + ONE + " -o s=s.npy", "--out s=s.npy: 's' is not a tensor here"),
    ("run " + ONE + " --flops 2*Q", "--flops: Q is not known"),
    ("run --batch open.txt", "a quote is not closed"),
    ("run " + ONE + " --dump-after nothing-like-it", "--time-passes lists those that run"),
    ("emit one.teg -l nothing-like-it", "the levels are ast, tile, grid, gpu, llvm, asm, ptx, sass, hsaco and obj"),
    ("emit one.teg -l nothing-like-it", "unknown level 'nothing-like-it'"),
    ("emit one.teg -l hsaco --target sm_90a", "--level hsaco does not exist for sm_90a"),
    ("emit one.teg -l hsaco --target sm_90a", "it exists for AMD's GPUs: gfx90a, gfx942, ..."),
    ("emit one.teg -l ptx --target gfx942", "it exists for NVIDIA's GPUs: sm_80, sm_90a, ..."),
    ("build one.teg -o o.o --levels=", "--levels names no level"),
    ("build one.teg -o o.o --target nothing-like-it", "objects are made for cpu, x86-64 or aarch64"),
    ("build two.teg -o o.o --export first;second", "write kernels with commas between"),
    ("bench " + SMALL + " --seconds 0.01 --json /nowhere/b.json", "cannot write /nowhere/b.json"),
    ("bench one.teg --dim M=64 -a x=zeros(32,32)", "--dim M=64: M is already 32"),
    ("profile " + RANKS + " -o /nowhere/t.json", "cannot write '/nowhere/t.json'"),
    ("profile ranks.teg --ranks 65", "at most 64 ranks"),
    ("tune tuned.json --merge", "'tegula tune --merge' needs -o FILE.json"),
    ("tune one.teg " + "--dim M=1|2|3|4|5|6|7|8|9|10 " * 5, "--dim: more than 10000 shapes"),
    ("cache nothing-like-it", "there are path, list, show, export, import, diff, prune and verify"),
    ("cache prune", "--size 512M, --days 30, or --all"),
    ("cache prune", "prune: what?"),
    ("cache prune --size many", "--size many: not a size like 512M"),
    ("cache show", "cache show: of what?"),
    ("cache show nothing", "'tegula cache list' lists them"),
    ("cache list list", "cache list: too many operands"),
    ("cache export one.teg", "one.teg exists already"),
    ("completion tcsh", "no completion for the shell 'tcsh'"),
    ("completion tcsh", "there are bash, zsh and fish"),
    ("doctor one.teg", "'tegula doctor' takes no file"),
]


class Place:
    """A folder for one run, with the files and an empty cache."""

    def __init__(self, tegula, folder, name):
        self.tegula, self.at = tegula, os.path.join(folder, name)
        shutil.rmtree(self.at, ignore_errors=True)
        os.makedirs(os.path.join(self.at, "parts"))
        for path, text in FILES.items():
            with open(os.path.join(self.at, path), "w") as f:
                f.write(text or "")

    def run(self, words):
        """The output of the run, with its exit code and the files that it made or changed. Words NAME=VALUE
        before the command are variables of its environment."""
        before = {name: self.read(name) for name in os.listdir(self.at)}
        env = dict(os.environ, TG_CACHE=os.path.join(self.at, ".cache"), NO_COLOR="1", TG_TUNE="off",
                   TEGULA=self.tegula)
        words = [w.strip("'") for w in words.split()]
        while re.match(r"TG_\w+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        r = subprocess.run([self.tegula] + words, cwd=self.at, capture_output=True, env=env, timeout=900)
        text = (r.stdout + r.stderr).decode("latin-1") + f"\nexit {r.returncode}\n"
        for name in sorted(os.listdir(self.at)):
            now = self.read(name)
            if name[0] != "." and before.get(name) != now:
                text += f"file {name} " + now.decode("latin-1").replace("\n", " ") + "\n"
        return text, r.returncode

    def read(self, name):
        path = os.path.join(self.at, name)
        if os.path.isdir(path):
            return b""
        with open(path, "rb") as f:
            return f.read()


def options_of(tegula, command):
    """The names in the lines of options of `tegula COMMAND --help`."""
    text = subprocess.run([tegula, command, "--help"], capture_output=True, text=True).stdout
    return re.findall(r"(?m)^  (?:    |-\w, )--([a-z-]+) ", text)


def commands_of(tegula):
    text = subprocess.run([tegula, "help"], capture_output=True, text=True).stdout
    return re.findall(r"(?m)^  ([a-z]+)  +\w", text)


def check_case(o, key):
    base, added, pattern = CASES[key]
    command, option = key
    texts = []
    for i, words in enumerate((base, f"{base} {added}")):
        place = Place(o.tegula, o.folder, f"{command}-{option}-{i}")
        if key == ("tune", "again"):
            place.run(f"tune {base}")
        if key == ("tune", "merge"):
            FILES_TUNED(place)
        texts.append(place.run(f"{command} {words}")[0])
    without, beside = texts
    if pattern is None:
        return None if without != beside else "no difference"
    if pattern[0] == "-":
        without, beside, pattern = beside, without, pattern[1:]
    if not re.search(pattern, beside, re.S):
        return f"/{pattern}/ is not in: {beside[:400]}"
    if re.search(pattern, without, re.S):
        return f"/{pattern}/ is in the other output, too: {without[:400]}"
    return None


def FILES_TUNED(place):
    with open(os.path.join(place.at, "tuned.json"), "w") as f:
        f.write('{"tegula_tuned": 1, "entries": []}\n')


def check_refused(o, i):
    words, says = REFUSED[i]
    text, code = Place(o.tegula, o.folder, f"refused-{i}").run(words)
    if code in (1, 2) and says in text:
        return None
    return f"exit {code}, without '{says}': {text[:400]}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tegula", required=True)
    ap.add_argument("--folder", required=True)
    ap.add_argument("commands", nargs="*")
    o = ap.parse_args()
    o.tegula, o.folder = os.path.abspath(o.tegula), os.path.abspath(o.folder)
    bad, jobs, known = [], [], set()
    for command in commands_of(o.tegula):
        for option in options_of(o.tegula, command):
            known.add((command, option))
            if (command, option) not in CASES and (command, option) not in UNSEEN:
                bad.append(f"{command} --{option}: no row in tests/cli/options.py")
    bad += [f"{c} --{x}: there is no such option" for c, x in set(CASES) | set(UNSEEN) if (c, x) not in known]
    wanted = lambda command: not o.commands or command in o.commands
    with ThreadPoolExecutor(2) as pool:
        for key in CASES:
            if wanted(key[0]):
                jobs.append((f"{key[0]} --{key[1]}", pool.submit(check_case, o, key)))
        for i, (words, _) in enumerate(REFUSED):
            if wanted(re.sub(r"TG_\S+ ", "", words).split()[0]):
                jobs.append((words, pool.submit(check_refused, o, i)))
        for name, job in jobs:
            problem = job.result()
            if problem:
                bad.append(f"{name}: {problem}")
    print("\n".join(bad))
    print(f"{len(jobs)} checks, {len(bad)} with problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
