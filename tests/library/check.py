"""Checks that the build finds mistakes in the standard library. Each mistake is made in a copy, and its
message expected.

Usage: check.py --opt tegula-opt STDLIB
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import tempfile


def replaced(file, old, new):
    def change(folder):
        path = folder / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new, 1))

    return change


def appended(file, text):
    def change(folder):
        with open(folder / file, "a") as out:
            out.write(text)

    return change


def removed(file):
    return lambda folder: (folder / file).unlink()


# (the mistake, the function that makes it, patterns that the output has in this order)
CASES = [
    ("nothing", lambda folder: None, None),
    ("a fn of two files that do not import each other",
     appended("pool.teg", "\nfn exp2_normal(x) { return x; }\n"),
     [r"std/pool\.teg:\d+:4: error: 'exp2_normal' is defined twice", r"std/loss\.teg:\d+:4: note: the other"]),
    ("a fn of one file twice", appended("sort.teg", "\nfn twice(x) { return x; }\nfn twice(x) { return x; }\n"),
     [r"std/sort\.teg:\d+:4: error: 'twice' is defined twice"]),
    ("a fn of the prelude in another file", appended("scan.teg", "\nfn relu(x) { return x; }\n"),
     [r"std/scan\.teg:\d+:\d+: error: 'relu' is defined twice", r"std/prelude\.teg:\d+:\d+: note: the other"]),
    ("the fn of a row is not there", replaced("math_f64.teg", "fn sinh_f64(", "fn sine_f64("),
     [r"lang/elementwise\.def:\d+:1: error: unknown name 'sinh_f64'", r"FUNCTIONS\(SINH, sinh",
      r"compute the op 'sinh' of f64"]),
    ("too few operands", replaced("math_f64.teg", "fn fdim_f64(x: f64, y: f64): f64 {",
                                  "fn fdim_f64(x: f64): f64 {\n    let y = x;"),
     [r"std/math_f64\.teg:\d+:4: error: fdim_f64: expected fn \(f64, f64\): f64, found fn \(f64\): f64",
      r"lang/elementwise\.def:\d+:1: note: it computes the op 'fdim' of f64"]),
    ("another type", replaced("math_f32.teg", "fn erfc_f32(x: f32): f32", "fn erfc_f32(x: f64): f32"),
     [r"std/math_f32\.teg:\d+:4: error: erfc_f32: expected fn \(f32\): f32, found fn \(f64\): f32"]),
    ("no result type", replaced("math_f32.teg", "fn tan_f32(x: f32): f32", "fn tan_f32(x: f32)"),
     [r"std/math_f32\.teg:\d+:4: error: tan_f32: expected fn \(f32\): f32, found fn \(f32\): \?"]),
    ("a body that does not fit its result", replaced("math_f64.teg", "fn exp_f64(x: f64): f64 { return ",
                                                     "fn exp_f64(x: f64): f64 { return true + "),
     [r"std/math_f64\.teg:\d+:\d+: error: true is not a value of f64"]),
    ("a helper without an argument", replaced("math.teg", "fn two_product(a, b) {\n    let p = fma(a, b, 0.0);",
                                              "fn two_product(a, b, c) {\n    let p = fma(a, b, c);"),
     [r"std/math\.teg:\d+:\d+: error: .*absent"]),
    ("a kernel that does not check", appended("layout.teg", "\nkernel bad(x: f32[N], y: f32[N]) {\n"
     "    parallel n in N by 64 { y[n] = x[n] + true; }\n}\n"), [r"std/layout\.teg:\d+:\d+: error: "]),
    ("a kernel with a warning", appended("layout.teg", "\nkernel odd(x: f32[N], y: f32[N]) {\n"
     "    parallel n in N by 64 { let unused = 1; y[n] = x[n]; }\n}\n"),
     [r"std/layout\.teg:\d+:\d+: warning: unused"]),
    ("syntax", appended("softmax.teg", "\nfn {\n"), [r"std/softmax\.teg:\d+:\d+: error: expected"]),
    ("an imported file that is not there", removed("math_f32.teg"),
     [r"std/math\.teg:\d+:\d+: error: cannot find the file \"std/math_f32\.teg\""]),
]  # fmt: skip


def failure(opt, stdlib, change, patterns):
    """The fault in the outcome, or None."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "stdlib"
        shutil.copytree(stdlib, folder)
        change(folder)
        done = subprocess.run([opt, "--library", folder], capture_output=True, text=True)
    out = (done.stdout + done.stderr)[:2000]
    if patterns is None:
        return None if done.returncode == 0 and not out else f"exit code {done.returncode}:\n{out}"
    if done.returncode != 1:
        return f"exit code {done.returncode}, not 1:\n{out}"
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(out, at)
        if not found:
            return f"no {pattern!r} in\n{out}"
        at = found.end()
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt", required=True)
    parser.add_argument("stdlib", type=pathlib.Path)
    args = parser.parse_args()
    failures = [f"{name}: {text}" for name, change, patterns in CASES
                if (text := failure(args.opt, args.stdlib, change, patterns))]
    empty = subprocess.run([args.opt, "--library", "/nonexistent"], capture_output=True, text=True)
    if empty.returncode != 1 or "no files of the library" not in empty.stderr:
        failures.append(f"a folder that is not there: {empty.stderr}")
    print("\n".join(failures) or f"library: {len(CASES) - 1} mistakes are found")
    return 1 if failures else 0


raise SystemExit(main())
