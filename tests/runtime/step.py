#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Executes the PTX of the runtime's own kernel (runtime/comm/comm_cuda_step.c) instruction by instruction,
for several ranks whose warps alternate at random, and assembles it if ptxas is installed.

    step.py PROGRAM CAPABILITY [far]

PROGRAM (step_text) prints the kernel for such a device; on capability 90 it begins before programs have
ended. For far ranks, copies between the two halves of a step bring a rank's words to the others. The test
finds ranks that go on before all have come, wrong words, and failures that are not reported, or reported
without a cause. Fences are not checked: memory is ordered here.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

EPOCH, TELL, WAIT, TURN = 1, 2, 4, 8
LIMIT, GIVE_UP, FAILED, SITE, PEER, NUMBER, LAUNCH = range(1, 8)
COUNT, CAME, ODD, PLACES = 8, 16, 80, 64  # in words of 8 bytes
THREADS, LANES, STRIDE, RECORD = 128, 32, 1 << 16, 1 << 24
BITS = 16
MASK = (1 << 64) - 1
FAR = len(sys.argv) > 3
SIZES = {"8": 8, "16": 16, "32": 32, "64": 64}


def place(rank, count):
    """The word in which a rank announces its arrival at a meeting."""
    return CAME + 2 * rank + (count & 1) if FAR else (ODD if count & 1 else CAME) + rank


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Code:
    """Instructions [guard, negated, name parts, operands] and the positions of labels."""

    def __init__(self, text):
        self.list, self.labels = [], {}
        self.early = "griddepcontrol.wait" in text
        body = text[text.index("\n{") + 2 : text.rindex("}")]
        for line in body.split("\n"):
            line = line.strip()
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.list)
            elif line and not line.startswith("."):
                self.add(line.rstrip(";"))

    def add(self, line):
        guard, negated = None, False
        m = re.match(r"@(!?)(%\w+) (.*)", line)
        if m:
            negated, guard, line = m.group(1) == "!", m.group(2), m.group(3)
        name, _, rest = line.partition(" ")
        operands = [o.strip(" {}[]") for o in rest.split(",")] if rest else []
        self.list.append((guard, negated, name.split("."), operands))


class Thread:
    def __init__(self, number):
        self.number, self.at, self.state, self.regs = number, 0, "runs", {}


class Block:
    """A launch of the kernel by one rank."""

    def __init__(self, machine, code, params):
        self.machine, self.code, self.params = machine, code, params
        self.number = int.from_bytes(params[32:36], "little")
        self.waits, self.frees = params[40] & WAIT, False
        self.threads = [Thread(i) for i in range(THREADS)]

    def done(self):
        return all(t.state == "ended" for t in self.threads)

    def run(self, warp, steps):
        """Runs a warp: the lanes at its first instruction continue together as far as they can."""
        for _ in range(steps):
            lanes = [t for t in self.threads[warp * LANES : (warp + 1) * LANES] if t.state == "runs"]
            if not lanes:
                break
            at = random.choice(lanes).at
            for t in lanes:
                if t.at == at:
                    self.step(t)
        self.pass_barrier()

    def pass_barrier(self):
        if not all(t.state == "waits" for t in self.threads):
            return
        any_bad = any(t.told for t in self.threads)
        for t in self.threads:
            if t.result:
                t.regs[t.result] = any_bad
            t.state = "runs"

    def value(self, t, what, size=64):
        if what == "%tid.x":
            return t.number
        if what == "%globaltimer":
            self.machine.time += 10
            return self.machine.time
        if what.startswith("%"):
            return t.regs[what]
        return 0 if what == "step" else int(what) & ((1 << size) - 1)

    def address(self, t, what):
        base, _, offset = what.partition(" + ")
        return self.value(t, base) + int(offset or 0)

    def step(self, t):
        guard, negated, name, o = self.code.list[t.at]
        t.at += 1
        if guard and t.regs[guard] == negated:
            return
        kind = name[0]
        if kind == "bra":
            t.at = self.code.labels[o[0]]
        elif kind == "ret":
            t.state = "ended"
        elif kind == "griddepcontrol":
            self.wait(t, name[1])
        elif kind == "bar":
            t.state = "waits"
            t.result, t.told = (o[0], t.regs[o[2]]) if name[1] == "red" else (None, False)
        elif kind in ("ld", "st", "atom"):
            self.memory(t, name, o)
        else:
            self.compute(t, name, o)

    def wait(self, t, what):
        """Called for programs, which fail only now; a dependent kernel begins when all blocks are here."""
        if what == "wait":
            self.machine.words.update(self.machine.late.pop(self.number, {}))
            return
        self.frees = True
        m, count = self.machine, t.regs["%count"]
        failed = m.get(self.number, GIVE_UP) or m.get(self.number, FAILED)
        for q in range(m.ranks if self.waits and not failed else 0):
            word = m.get(self.number, place(q, count))
            check(signed(word - count, BITS) >= 0, f"rank {q} has not come when others begin")

    def memory(self, t, name, o):
        words = self.machine.words
        if name[1] == "param":
            size = int(name[2][1:]) // 8
            at = self.address(t, o[1])
            t.regs[o[0]] = int.from_bytes(self.params[at : at + size], "little")
        elif name[0] == "ld" and "v2" in name:
            at = self.address(t, o[2])
            t.regs[o[0]], t.regs[o[1]] = words.get(at, 0), words.get(at + 8, 0)
        elif name[0] == "ld":
            t.regs[o[0]] = words.get(self.address(t, o[1]), 0)
        elif name[0] == "st":
            words[self.address(t, o[0])] = self.value(t, o[1])
        else:
            at = self.address(t, o[1])
            t.regs[o[0]] = words.get(at, 0)
            if t.regs[o[0]] == self.value(t, o[2]):
                words[at] = self.value(t, o[3])

    def compute(self, t, name, o):
        kind, bits = name[0], int(name[-1][1:])
        v = [self.value(t, x) for x in o[1:]]
        if kind == "setp":
            a, b = ((signed if name[-1][0] == "s" else lambda x, n: x & ((1 << n) - 1))(x, bits) for x in v[:2])
            out = {"eq": a == b, "ne": a != b, "lt": a < b, "ge": a >= b, "gt": a > b}[name[1]]
            t.regs[o[0]] = out and v[2] if "and" in name else out
            return
        if kind == "mad":
            wide = name[1] == "wide"
            t.regs[o[0]] = (v[0] * v[1] + v[2]) & MASK
            assert wide or bits == 64
            return
        out = {
            "mov": lambda: v[0],
            "cvt": lambda: v[0],
            "and": lambda: v[0] & v[1],
            "or": lambda: v[0] | v[1],
            "add": lambda: v[0] + v[1],
            "sub": lambda: v[0] - v[1],
            "shr": lambda: v[0] >> v[1],
            "shl": lambda: v[0] << v[1],
            "selp": lambda: v[0] if v[2] else v[1],
        }[kind]()
        t.regs[o[0]] = out & ((1 << bits) - 1)


class Machine:
    """Ranks with their words, and the steps that each has to launch in order."""

    def __init__(self, code, ranks):
        self.code, self.ranks, self.words, self.time = code, ranks, {}, 0
        self.late = {}  # words that a rank's programs have yet to write
        self.blocks = [None] * ranks
        self.queue = [[] for _ in range(ranks)]
        self.done = [0] * ranks
        self.ended = [[] for _ in range(ranks)]  # number of complete meetings when this rank ended its own
        for r in range(ranks):
            self.set(r, LIMIT, 1 << 40)

    def get(self, rank, word):
        return self.words.get(rank * STRIDE + 8 * word, 0)

    def set(self, rank, word, value):
        self.words[rank * STRIDE + 8 * word] = value

    def record(self, rank, word):
        return self.words.get(RECORD + rank * STRIDE + 8 * word, 0)

    def add(self, rank, flags, what=0, launch=0, fills=()):
        """For far ranks: a step's writes, copies and waits."""
        if not FAR:
            self.queue[rank].append([self.step(rank, flags, what, launch, fills)])
            return
        late = flags & (WAIT | TURN)
        steps = [self.step(rank, flags & ~late, what, launch, fills)]
        if flags & TELL:
            steps.append("copies")
        if late:
            steps.append(self.step(rank, late, what, launch, ()))
        self.queue[rank].append(steps)

    def step(self, rank, flags, what, launch, fills):
        fills = list(fills) + [(0, 0, 0)] * (4 - len(fills))
        own = rank * STRIDE
        params = b"".join(
            x.to_bytes(8, "little")
            for x in (own, own if FAR else 0, 0 if FAR else STRIDE, RECORD + own)
        )
        params += b"".join(x.to_bytes(4, "little") for x in (rank, self.ranks, flags, launch))
        params += (what << BITS & MASK).to_bytes(8, "little")
        for at, words, epoch in fills:
            params += at.to_bytes(8, "little") + words.to_bytes(4, "little") + epoch.to_bytes(4, "little")
        assert len(params) == 120
        return params

    def copy(self, rank):
        for r in range(self.ranks):
            for count in (0, 1):
                self.set(r, place(rank, count), self.get(rank, place(rank, count)))

    def next(self, rank):
        """The next block of a rank; None: the step was copies."""
        steps = self.queue[rank][0]
        step = steps.pop(0)
        if not steps:
            self.queue[rank].pop(0)
        if step == "copies":
            self.copy(rank)
            return None
        return Block(self, self.code, step)

    def run(self, favoured=None):
        """Ranks alternate; `favoured` gets most turns."""
        for _ in range(1000000):
            left = [r for r in range(self.ranks) if self.blocks[r] or self.queue[r]]
            if not left:
                return
            rank = random.choice(left)
            if favoured in left and random.random() < 0.9:
                rank = favoured
            if not self.blocks[rank]:
                self.blocks[rank] = self.next(rank)
            block = self.blocks[rank]
            if not block:
                continue
            block.run(random.randrange(THREADS // LANES), random.randrange(1, 30))
            if block.done():
                check(block.frees == self.code.early, "who depends on a step begins when it has ended")
                self.blocks[rank] = None
                if block.waits:
                    self.ended[rank].append([self.get(r, COUNT) for r in range(self.ranks)])
        raise AssertionError("the ranks do not end")


failures = 0


def check(what, text):
    global failures
    if what:
        return
    failures += 1
    print("FAIL:", text)


def no_failure(m, test):
    for r in range(m.ranks):
        check(not m.get(r, FAILED) and not m.get(r, GIVE_UP) and not m.record(r, GIVE_UP), f"{test}: rank {r} failed")


def meetings(code, ranks, favoured, first):
    """Some launches with a barrier in the middle of each. `first` meetings came before."""
    m, launches = Machine(code, ranks), 3
    for r in range(ranks):
        m.set(r, COUNT, first)
        for q in range(ranks):
            for count in (first - 1, first):
                if count > 0:
                    m.set(r, place(q, count), count & 0xFFFF | 7 << BITS)
        for n in range(launches):
            m.add(r, EPOCH | TELL | WAIT, 100 + n, n)
            m.add(r, TELL | WAIT | TURN, 100 + n)
            m.add(r, TELL | WAIT, 100 + n)
    m.run(favoured)
    name = f"{ranks} ranks, {first} meetings before"
    no_failure(m, name)
    for r in range(ranks):
        check(m.get(r, 0) == (launches << 31) + 1, f"{name}: epoch {m.get(r, 0):x}")
        check(m.get(r, COUNT) == first + 3 * launches, f"{name}: count {m.get(r, COUNT)}")
        check(m.get(r, LAUNCH) == launches - 1, f"{name}: launch {m.get(r, LAUNCH)}")
        for i, counts in enumerate(m.ended[r]):
            # Others see a rank's word before it writes its own count, so only a lower bound holds.
            check(min(counts) >= first + i, f"{name}: rank {r} ended meeting {i} of {counts}")


def unlike(code, ranks, before):
    """The last rank launches another kernel, after `before` meetings."""
    m, odd = Machine(code, ranks), ranks - 1
    for r in range(ranks):
        for _ in range(before):
            m.add(r, EPOCH | TELL | WAIT, 1)
        m.add(r, EPOCH | TELL | WAIT, 3 if r == odd else 2, 5)
    m.run()
    for r in range(ranks):
        name = f"{ranks} ranks, unlike after {before}, rank {r}"
        got = [m.record(r, w) for w in (GIVE_UP, FAILED, PEER, NUMBER, LAUNCH)]
        peers = [odd] if r != odd else range(odd)
        check(got[0] in range(1, ranks + 1) and got[4] == 5, f"{name}: {got}")
        check(m.get(r, GIVE_UP) or m.get(r, FAILED), f"{name}: not told")
        if got[1]:
            check(signed(m.record(r, SITE), 64) == -2, f"{name}: site")
            check(got[2] in peers and got[3] == before + 1, f"{name}: {got}")
    check(any(m.record(r, FAILED) for r in range(ranks)), f"{ranks} ranks, unlike: not found")


def late(code, before):
    """The last of three ranks does not come. The others report it and continue to the end of a graph."""
    m = Machine(code, 3)
    for r in range(3):
        m.set(r, LIMIT, 2000)
        for i in range(before):
            m.add(r, EPOCH | TELL | WAIT, i)
        for i in range(0 if r == 2 else 4):
            m.add(r, EPOCH | TELL | WAIT, 50 + i)
    for r in range(3):
        m.set(r, LIMIT, 1 << 40 if before else 2000)
    if before:  # they remain for good
        queues = [q[before:] for q in m.queue]
        m.queue = [q[:before] for q in m.queue]
        m.run()
        no_failure(m, "late: before")
        m.queue = queues
        for r in range(3):
            m.set(r, LIMIT, 2000)
    m.run()
    for r in range(2):
        check(m.record(r, GIVE_UP) in (1, 2), f"late: rank {r} does not say who failed")
        if m.record(r, FAILED):
            got = (signed(m.record(r, SITE), 64), m.record(r, PEER), m.record(r, NUMBER))
            check(got == (-1, 2, before + 1), f"late: rank {r} says {got}")
    check(FAR or m.get(2, GIVE_UP) in (1, 2), "late: the last rank is not told")


def ahead(code, before):
    """A rank that gave up continues. Its later meetings are not reported as unlike."""
    m = Machine(code, 2)
    for r in range(2):
        m.set(r, COUNT, before)
    word = before + 3
    m.set(0, place(1, word), word & 0xFFFF | 9 << BITS)
    m.add(0, EPOCH | TELL | WAIT, 8)
    m.run()
    check(not m.get(0, FAILED), "ahead: taken for unlike")


def told(code):
    """A failure of a program, and one of another rank, reach the host by any step."""
    for flags in (EPOCH, 0, TELL | WAIT):
        m = Machine(code, 2)
        words = {FAILED: 1, SITE: 40, PEER: 41, NUMBER: 42}
        if code.early:
            m.late[0] = {8 * word: value for word, value in words.items()}
        else:
            for word, value in words.items():
                m.set(0, word, value)
        m.add(0, flags, 1, 3)
        m.run()
        if FAR:  # their hosts report it
            m.set(1, GIVE_UP, 1)
        m.add(1, flags, 1, 3)
        m.run()
        check(m.record(0, GIVE_UP) == 1 and m.record(0, FAILED) == 1, f"told {flags}: the host")
        check([m.record(0, w) for w in (SITE, PEER, NUMBER)] == [40, 41, 42], f"told {flags}: what")
        check(m.get(1, GIVE_UP) == 1, f"told {flags}: the other")
        check(not m.late, f"told {flags}: programs have not ended")
        check(m.record(1, GIVE_UP) == 1 and not m.record(1, FAILED), f"told {flags}: its host")


def fills(code):
    at, sizes = 1 << 15, (1, 128, 129, 700)
    for n in range(5):
        m = Machine(code, 2)
        places = [at + 8192 * i for i in range(4)]
        for i in range(4):
            for w in range(-1, sizes[i] + 1):
                m.words[places[i] + 8 * w] = 77
        m.add(0, EPOCH, 0, 0, [(places[i], sizes[i], i & 1) for i in range(n)])
        m.run()
        for i in range(4):
            want = (1 << 31 if i & 1 else 0) if i < n else 77
            got = [m.words[places[i] + 8 * w] for w in range(-1, sizes[i] + 1)]
            check(got == [77] + [want] * sizes[i] + [77], f"{n} fills: number {i}")


def assemble(text):
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.path.exists(ptxas):
        print("ptxas: not found")
        return
    target = re.search(r"\.target (\w+)", text).group(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.ptx")
        open(path, "w").write(text)
        for arch in sorted({target, "sm_90", "sm_100"}):
            run = subprocess.run(
                [ptxas, "-arch=" + arch, "-v", path, "-o", os.devnull], capture_output=True, text=True
            )
            check(run.returncode == 0 and " 0 bytes spill stores" in run.stderr, run.stderr)


def main():
    random.seed(int(os.environ.get("TG_SEED", "1")))
    text = subprocess.run([sys.argv[1]] + sys.argv[2:], capture_output=True, text=True, check=True).stdout
    code = Code(text)
    for ranks in (2, 3):
        for favoured in (None, 0):
            for first in (0, 1, 65533):
                meetings(code, ranks, favoured, first)
        for before in (0, 1, 2):
            unlike(code, ranks, before)
    for before in (0, 1):
        late(code, before)
        ahead(code, before)
    told(code)
    fills(code)
    assemble(text)
    print(f"{failures} failures")
    return 1 if failures else 0


sys.exit(main())
