# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads machine code of AMD GPUs as text (an assembler's, or llvm-objdump -d) and counts the instructions of
one turn of its inner loop with matrix instructions."""

import re

# Bytes that an access with this suffix moves for each lane.
WIDTHS = {"u8": 1, "i8": 1, "b8": 1, "byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2}
WIDTHS |= {"u16": 2, "i16": 2, "b16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16, "dword": 4}
WIDTHS |= {f"dwordx{n}": 4 * n for n in (2, 3, 4)}
CALLS_NOTHING = {"ds_bpermute", "ds_permute", "ds_swizzle"}  # these use the crossbar, not the memory
MATRIX = re.compile(r"v_(?:s?mfmac?|wmma)\w*?_(\d+)x(\d+)x(\d+)_?(bf16|f16|bf8|fp8|xf32|f32|f64|i8|iu8)")
TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
BRANCH = re.compile(r"s_c?branch")
COMMENT = re.compile(r"/\*.*?\*/|(?://|;).*")
LABEL = re.compile(r"^([\w.$]+):")
LISTED = re.compile(r"^[0-9a-f]+ <([\w.$]+)>:")
ADDRESS = re.compile(r"// ([0-9A-F]{6,}): ")
DUAL = re.compile(r"\s*::\s*")  # RDNA: two instructions in one


class Code:
    """Instructions of one kernel, and the positions of its labels."""

    def __init__(self, name):
        self.name, self.instructions, self.labels, self.at = name, [], {}, {}

    def add(self, line):
        where = ADDRESS.search(line)
        if where:
            self.at[int(where[1], 16)] = len(self.instructions)
        text = COMMENT.sub("", line).strip()
        for part in DUAL.split(text) if text else []:
            op, _, rest = part.partition(" ") if " " in part else part.partition("\t")
            self.instructions.append((op.strip(), rest.strip(), int(where[1], 16) if where else None))

    def target(self, i):
        """The target index of the branch at index i, or None."""
        _, rest, address = self.instructions[i]
        name = rest.split()[0] if rest else ""
        if name in self.labels:
            return self.labels[name]
        if address is not None and re.fullmatch(r"-?\d+", name):
            n = int(name)
            return self.at.get(address + 4 + 4 * (n - 65536 if n > 32767 else n))
        return None

    def loops(self):
        """(first, last) of each backward branch."""
        for i, (op, _, _) in enumerate(self.instructions):
            first = self.target(i) if BRANCH.match(op) else None
            if first is not None and first <= i:
                yield first, i

    def inner_loop(self):
        """Of the innermost loops with matrix instructions, the one with the most of them. On ties the
        shortest, which has no masks."""

        def matrices(loop):
            return sum(bool(MATRIX.match(op)) for op, _, _ in self.instructions[loop[0] : loop[1] + 1])

        found = [l for l in self.loops() if matrices(l)]
        inner = [l for l in found if not any(m != l and l[0] <= m[0] and m[1] <= l[1] for m in found)]
        if not inner:
            return None
        return max(inner, key=lambda l: (matrices(l), l[0] - l[1]))


def read(text):
    """Name -> Code, for each function of a text that has instructions."""
    out, code = {}, Code("")
    for line in text.splitlines():
        listed = LISTED.match(line)
        label = None if listed else LABEL.match(line.strip())
        name = listed[1] if listed else label and label[1]
        if name and not re.match(r"\.?L\w|label_", name):
            code = out.setdefault(name, Code(name))
        elif name:
            code.labels[name] = len(code.instructions)
        elif line[:1].isspace() or re.match(r"(s|v|ds|global|buffer|flat|scratch)_", line):
            if not line.strip().startswith("."):
                code.add(line)
    return {n: c for n, c in out.items() if any(MATRIX.match(op) for op, _, _ in c.instructions)}


def width(op):
    """Bytes that an access moves for each lane, from its name."""
    last = op.rsplit("_", 1)[-1]
    twice = 2 if re.match(r"ds_(read|load|write|store)2", op) or "_2addr_" in op else 1
    if last in ("d16", "hi"):
        last = op.split("_")[-2 if last == "d16" else -3]
    if last not in WIDTHS:
        raise ValueError(f"no width is known of {op}")
    return twice * WIDTHS[last]


def kind(op):
    if MATRIX.match(op):
        return "matrix"
    if op.startswith("ds_"):
        if any(op.startswith(c) for c in CALLS_NOTHING):
            return "crossbar"
        return "lds_read" if "read" in op or "load" in op else "lds_write"
    if re.match(r"(global|buffer|flat)_", op):
        return "global_read" if "load" in op else "global_write" if "store" in op else "other"
    if op.startswith("scratch_"):
        return "scratch"
    if op.startswith("v_"):
        return "transcendental" if TRANSCENDENTAL.match(op) else "vector"
    if op.startswith("s_barrier"):
        return "barrier"
    if op.startswith("s_waitcnt") or op.startswith("s_wait_"):
        return "wait"
    return "scalar"


def bare(op):
    return re.sub(r"_(e32|e64|dpp|sdwa|vi|gfx\d+)$", "", op)


def awaited(op, rest):
    """The number of memory accesses that may be in flight after the instruction; None if it waits for none."""
    found = re.search(r"vmcnt\((\d+)\)", rest)
    if op == "s_waitcnt":
        return int(found[1]) if found else 0 if rest == "0" else None
    if op.startswith("s_wait_loadcnt"):
        n = int(rest, 0)
        return n >> 8 if op.endswith("_dscnt") else n
    return None


def ahead(instructions):
    """The least number of matrix instructions between a load and the wait for it; None without loads."""
    started, products, least, known = [], 0, None, 0
    for op, rest, _ in 3 * instructions:  # a turn may wait for loads of the previous one
        products += kind(op) == "matrix"
        if kind(op) in ("global_read", "global_write"):
            started.append((products, kind(op)))
        n = awaited(op, rest) if kind(op) == "wait" else None
        for then, what in started[known : len(started) - n] if n is not None else []:
            if what == "global_read":
                least = min(products - then, products if least is None else least)
            known += 1
    return least


def count(code):
    """Counts of one turn of the inner loop; None without such a loop."""
    loop = code.inner_loop()
    if loop is None:
        return None
    out = {"matrix_ops": {}, "macs": 0, "instructions": 0, "shared_bytes": 0}
    turn = [(bare(op), rest, at) for op, rest, at in code.instructions[loop[0] : loop[1] + 1]]
    out["ahead"] = ahead(turn)
    for op, rest, _ in turn:
        what = kind(op)
        out[what] = out.get(what, 0) + 1
        out["instructions"] += 1
        if what == "matrix":
            m, n, k, type_ = MATRIX.match(op).groups()
            out["macs"] += int(m) * int(n) * int(k)
            out["matrix_ops"][op] = out["matrix_ops"].get(op, 0) + 1
            out["type"] = type_
        elif what in ("lds_read", "lds_write", "global_read", "global_write"):
            out[what + "_bytes"] = out.get(what + "_bytes", 0) + width(op)
            if what.startswith("lds"):  # a bank delivers 4 bytes a cycle, even for a smaller access
                out["shared_bytes"] += max(width(op), 4)
            direct = what == "global_read" and re.search(r"\blds\b", rest)
            out["direct"] = out.get("direct", 0) + bool(direct)
            out["shared_bytes"] += width(op) if direct else 0
    return out


def resources(text, name):
    """The kernel descriptor's registers, shared memory and scratch, and the number of threads."""
    start = text.find(f".amdhsa_kernel {name}")
    body = text[start : text.find(".end_amdhsa_kernel", start)] if start >= 0 else ""
    found = {k: int(v) for k, v in re.findall(r"\.amdhsa_(\w+)\s+(\d+)", body)}
    threads = re.search(r"\.max_flat_workgroup_size:\s+(\d+)", text)
    offset = found.get("accum_offset", found["next_free_vgpr"])
    scalars = re.search(r"\.sgpr_count:\s+(\d+)", text)
    vectors = re.search(r"\.vgpr_count:\s+(\d+)", text)
    accumulators = re.search(r"\.agpr_count:\s+(\d+)", text)
    return {
        "vector": int(vectors[1]) if accumulators else found["next_free_vgpr"],
        "accumulators": int(accumulators[1]) if accumulators else found["next_free_vgpr"] - offset,
        "scalar": int(scalars[1]) if scalars else found["next_free_sgpr"],
        "shared": found["group_segment_fixed_size"],
        "scratch": found["private_segment_fixed_size"],
        "threads": int(threads[1]) if threads else 0,
    }
