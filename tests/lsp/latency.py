#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the time until the messages after a keystroke, and the memory after many edits.

    tests/lsp/latency.py --tegula build/bin/tegula [--edits 200] [FILE]

Types letters into comments, names and numbers of a file of 500 lines (by default of the library's files), and
measures from the notification to the diagnostics of that version. Prints the median, the 99th percentile, and the
memory of the server before and after. It asserts no time.
"""
import argparse
import pathlib
import random
import time

from client import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]


def text_of_500_lines():
    """Kernels of the library, as one file."""
    names = ("attention", "matmul", "softmax", "pool")
    imports, lines = set(), []
    for name in names:
        for line in (ROOT / f"stdlib/{name}.teg").read_text(encoding="utf-8").split("\n"):
            taken = any(f"std/{other}.teg" in line for other in names)
            if not line.startswith("import"):
                lines.append(line)
            elif not taken:
                imports.add(line)
    text = "\n".join([*sorted(imports), *lines][:500])
    return text[:text.rindex("\n}\n") + 3]


def processor_ms(client, uri, version, text):
    """The processor time from a new text to its diagnostics, in ms. Work of earlier texts has ended before."""
    before, now = -1, client.run_ns()
    while now != before:
        time.sleep(0.01)
        before, now = now, client.run_ns()
    client.change(uri, version, {"text": text})
    client.diagnostics(uri, version)
    return (client.run_ns() - now) / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", required=True)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("file", nargs="?")
    args = parser.parse_args()
    text = pathlib.Path(args.file).read_text(encoding="utf-8") if args.file else text_of_500_lines()
    client = Client([args.tegula, "lsp"], limit_s=3600)
    uri = client.open("/nowhere/file.teg", text)
    first = client.diagnostics(uri, 1)
    lines = text.split("\n")
    begin, cpu, times, rng = client.memory_kib(), client.cpu_s(), [], random.Random(1)
    for version in range(2, args.edits + 2):
        line = rng.randrange(len(lines))
        place = {"line": line, "character": rng.randrange(len(lines[line]) + 1)}
        after = dict(place, character=place["character"] + 1)
        erase = version % 2
        change = {"range": {"start": last[0], "end": last[1]}, "text": ""} if erase else \
            {"range": {"start": place, "end": place}, "text": rng.choice("abx1 ")}
        last = (place, after)
        start = time.perf_counter()
        client.change(uri, version, change)
        client.diagnostics(uri, version)
        times.append(time.perf_counter() - start)
    times.sort()
    print(f"{len(lines)} lines, {len(first)} messages, {args.edits} keystrokes: median "
          f"{times[len(times) // 2] * 1e3:.1f} ms, 99th percentile {times[len(times) * 99 // 100] * 1e3:.1f} ms, "
          f"largest {times[-1] * 1e3:.1f} ms; {(client.cpu_s() - cpu) / args.edits * 1e3:.1f} ms of processor time "
          f"each; memory {begin} KiB, then {client.memory_kib()} KiB")
    for kind, added in (("a correct text", "// {}\n"), ("an incomplete text", "fn f{}(x) {{ return x +")):
        times = sorted(processor_ms(client, uri, 1000000 + n, text + added.format(n)) for n in range(20))
        print(f"{kind}: {times[10]:.1f} ms of processor time until its messages, at most {times[-1]:.1f} ms")
    client.close()


if __name__ == "__main__":
    main()
