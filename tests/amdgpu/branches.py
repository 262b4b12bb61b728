#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks AMD's machine code for the pattern that LLVM 22 miscompiles (llvm-project #215745): an instruction
that makes a branch's mask and also sets the condition of a nearby select. LLVM drops this instruction.
Loops of products in the library have this form, because the clipped address of the next block depends on
the condition of the loop's end.

    branches.py --tegula PATH [--targets gfx90a,gfx942] [--types f16] [--kernels REGEX] [--table]
"""

import argparse
import os
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / d) for d in ("nvidia", "amdgpu")]
from assemble import GPUS, instances, report  # noqa: E402
from emitted import emitted, words  # noqa: E402

# Scalar instructions that keep the condition; the others set it.
KEEPS = re.compile(r"s_(mov|cmov|cselect|load|buffer|store|wait|barrier|nop|cbranch|branch|mul|pack|sext|brev|ff1|flbit|"
                   r"ctz|clz|bfm|mem|getreg|setreg|bitset|delay|sleep|set|clause|endpgm|trap|sendmsg|getpc|swap|"
                   r"(add|sub)_nc)")
MASK = re.compile(r"s_and_b(32|64) (vcc(_lo)?), .*\bexec")


def shared(assembly):
    """The lines of branches whose mask also provides the condition of a select."""
    found, condition, selects = [], False, False
    for number, line in enumerate(assembly.splitlines(), 1):
        text = line.split(";")[0].strip()
        if line and not line[0].isspace():
            condition = selects = False
        elif MASK.match(text):
            condition, selects = True, False
        elif text.startswith("s_cselect"):
            selects |= condition
        elif text.startswith("s_cbranch_vcc"):
            if selects:
                found.append(number)
        elif re.match(r"\w+ vcc", text):
            condition = selects = False
        elif text.startswith("s_") and not KEEPS.match(text):
            condition = False
    return found


TEXT = """f:
\tv_cmp_lt_i64_e32 vcc, s[4:5], v[2:3]
\ts_and_b64 {mask}, vcc, exec
\ts_cselect_b32 s1, s5, s3
\t{between}
\ts_cbranch_vccnz .LBB0_1
"""
assert shared(TEXT.format(mask="vcc", between="s_add_u32 s4, s4, 64")) == [6]
assert shared(TEXT.format(mask="s[0:1]", between="s_and_b64 vcc, exec, s[0:1]")) == []
assert shared(TEXT.format(mask="vcc", between="v_cmp_lt_i64_e32 vcc, s[4:5], v[0:1]")) == []


def check(jobs):
    commands = [words(target, "asm", *instance) for _, target, instance in jobs]
    for (_, target, (_, kernel, options)), (assembly, problem) in zip(jobs, emitted(jobs[0][0].tegula, commands)):
        lines = shared(assembly.decode()) if assembly else []
        if lines:
            problem = f"branches of lines {lines} share masks with selects"
        yield " ".join([target, kernel] + [o for o in options if o != "-t"]), problem, ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", required=True)
    parser.add_argument("--targets", default=",".join(g for g in GPUS if g.startswith("gfx")))
    parser.add_argument("--types", default="f16")
    parser.add_argument("--kernels", default="matmul|linear|conv1d|attention_backward")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", action="store_true", help="print all, not the bad ones alone")
    args = parser.parse_args()
    kernels = list(instances(args.kernels, args.types.split(",")))
    return report(check, [(args, t, i) for t in args.targets.split(",") for i in kernels], args, "kernels")


if __name__ == "__main__":
    sys.exit(main())
