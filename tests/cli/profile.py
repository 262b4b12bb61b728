#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Profiles of kernels on one device: their tables and traces agree, and spans are in order.

    tests/cli/profile.py --tegula build/bin/tegula --folder FOLDER

Times are compared only with other times of the same launch.
"""
import argparse
import json
import os
import re
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

SOURCE = """import "lib.teg"; kernel rows(x: f32[M, N], y: f32[M, N]) tune BM = 4 {
    parallel m in M by BM {
        let v = x[m, cover(N)];
        y[m, cover(N)] = v / sum(v, axis = 1)[:, None];
    }
    parallel m in M by BM { y[m, cover(N)] = y[m, cover(N)] + 1; }
}
kernel product(a: f16[M, K], b: f16[K, N], c: f16[M, N]) {
    parallel m in M by 128, n in N by 128 {
        var s: f32<128, 128> = 0;
        for k in K by 64 { s += dot(a[m, k], b[k, n]); }
        c[m, n] = s as f16;
    }
}
kernel turns(a: sym f32[W][N], c: f32[W, N], n: i32) {
    for i in n {
        parallel k in N by 16 { a[rank][k] = a[rank][k] + 1; }
        parallel w in W, k in N by 16 { c[w, k] = a[w][k]; }
    }
}
kernel steps(y: f32[N]) {
    for i in 300 { parallel n in N by 8 { y[n] = shared(y[n]); } }
}
kernel order(x: f32[M, N], y: f32[M, N], z: f32[M, N]) {
    parallel m in M by 2 {
        let v = x[m, cover(N), pad = inf] * 2;
        y[m, cover(N)] = sort(v, axis = 1);
        z[m, cover(N)] = cumsum(v + 1, axis = 1);
    }
}
kernel doubles(a: f64[M, K], b: f64[K, N], c: f64[M, N]) {
    parallel m in M by 32, n in N by 32 {
        var s: f64<32, 32> = 0;
        for k in K by 32 { s += dot(a[m, k], b[k, n]); }
        c[m, n] = s;
    }
}
"""


LIBRARY = """fn shared(x: f32<8>): f32<8> {
    return sort(x * 2);
}
"""


def profile(tegula, folder, words, says=""):
    run = subprocess.run([tegula, "profile", "k.teg", "-r", "1", "-o", "t.json", *words], cwd=folder,
                         capture_output=True, text=True)
    assert run.returncode == 0 and says in run.stderr, run.stderr
    with open(os.path.join(folder, "t.json")) as f:
        return run.stdout, json.load(f)["traceEvents"]


def seconds(text):
    number, unit = text.split()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def spans_of(events, pid):
    return [e for e in events if e["ph"] == "X" and e["pid"] == pid]


def check_cpu(tegula, folder):
    text, events = profile(tegula, folder, ["-k", "rows", "-d", "M=64", "-d", "N=100", "-j", "2"])
    spans = spans_of(events, 0)
    phases = [e for e in spans if e["tid"] == 0]
    assert [e["name"] for e in phases] == ["programs m (line 2)", "programs m (line 6)"], phases
    tasks = [e for e in spans if e["name"] == "task"]
    assert len(tasks) == sum(e["args"]["tasks"] for e in phases), "each task has one span"
    slack = 0.002  # times are rounded to ns
    for phase, end in zip(phases, [p["ts"] for p in phases[1:]] + [float("inf")]):
        assert phase["ts"] + phase["dur"] <= end + slack, "phases follow each other"
    parts = [e for e in spans if "code" in e["args"]]
    for part in parts:
        around = [t for t in tasks if t["tid"] == part["tid"] and t["ts"] <= part["ts"] + slack and
                  part["ts"] + part["dur"] <= t["ts"] + t["dur"] + slack]
        assert len(around) == 1 and around[0]["args"]["task"] == part["args"]["task"], part
    for line, where in ((4, "sum"), (4, "stores 'y'"), (6, "stores 'y'")):
        assert any(p["name"].startswith(f"{line}:") for p in parts), (line, where)
    table = re.findall(r"^ +([\d.]+) % .* x ", text, re.M)
    assert 98 < sum(map(float, table)) < 102, "shares of parts add up to all"
    assert re.search(r"tasks? on \d+ thread", text) and "outside of phases" in text, text


def check_lines(tegula, folder):
    """An op that keeps its operands first is charged to its own line, and not to theirs."""
    _, events = profile(tegula, folder, ["-k", "order", "-d", "M=4", "-d", "N=1000", "-j", "1"])
    parts = [e for e in spans_of(events, 0) if e["args"].get("task") == 0 and "code" in e["args"]]
    names = [e["args"]["code"] for e in parts]
    stores = [i for i, n in enumerate(names) if "stores" in n]
    assert len(stores) == 2, names
    assert names[stores[0] - 1] == "sort" and "keeps" in names[stores[0] - 2], names
    assert names[stores[1] - 1] == "scan", names


def check_device(tegula, folder, target, roles):
    dims = ["-d", "M=256", "-d", "N=128", "-d", "K=128", "--target", target]
    sets = ["-s", "roles=1", "-s", "persistent=1"] if roles else []
    text, events = profile(tegula, folder, ["-k", "product", *dims, *sets])
    spans = spans_of(events, 1)
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    for program in range(2):
        for role in ("products 0", "copies 1", "") if roles else ("",):
            row = f"program {program}" + (f", {role}" if role else "")
            assert row in names, (row, names)
    for tid in {e["tid"] for e in spans}:
        own = [e for e in spans if e["tid"] == tid]
        assert all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in zip(own, own[1:])), own
        assert all(e["dur"] > 0 for e in own), "the clock goes on between two marks"
    assert any(re.match(r"\d+:\d+ (program|role)", e["name"]) for e in spans)
    assert any(re.match(r"11:13 loop", e["name"]) for e in spans), {e["name"] for e in spans}
    assert "time by part of the device code" in text, text


def check_pages(tegula, folder):
    """The page and the chart are well-formed, refer to nothing else, and say what limits the kernel."""
    dims = ["-d", "M=256", "-d", "N=256", "-d", "K=256", "-j", "1"]
    text, _ = profile(tegula, folder, ["-k", "product", *dims, "--roofline", "r.svg", "--html", "p.html"])
    limit = re.search(r"(memory|arithmetic) limits the kernel|no roof is near|the kernel reaches", text).group()
    chart = ElementTree.parse(os.path.join(folder, "r.svg")).getroot()
    circles = [e for e in chart.iter() if e.tag.endswith("circle")]
    assert len(circles) == 1 and 0 < float(circles[0].get("cx")) < 640, "one point, inside the chart"
    with open(os.path.join(folder, "p.html")) as f:
        page = f.read()
    HTMLParser().feed(page)
    links = re.findall(r"(?:src|href|url\()[^>]*|https?://[^\"]*", page)
    assert set(links) <= {"http://www.w3.org/2000/svg"}, links
    assert limit in page and "dot(a[m, k], b[k, n])" in page, "the limit and the source"
    run = subprocess.run([tegula, "profile", "k.teg", "-k", "rows", "-r", "1", "-o", "t.json", "-j", "1",
                          "-d", "M=64", "--roofline", "s.svg"], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run
    texts = [e.text for e in ElementTree.parse(os.path.join(folder, "s.svg")).iter() if e.tag.endswith("text")]
    assert [t.split(":")[0].split(",")[0] for t in texts] == ["a launch", "least time of memory"], texts
    text, _ = profile(tegula, folder, ["-k", "doubles", "-d", "M=64", "-d", "N=64", "-d", "K=64", "-j", "1",
                                       "--roofline", "s.svg"])
    assert "no roof of products of f64 is known" in text and "arithmetic:" not in text, text
    text, _ = profile(tegula, folder, ["-k", "rows", "-d", "M=64", "-d", "N=64", "-j", "1"])
    moved = re.search(r": ([\d.]+ \w+) a launch .*, ([\d.]+) GB/s", text).groups()
    bytes_moved = seconds(moved[0]) * float(moved[1]) * 1e9
    assert abs(bytes_moved / (3 * 4 * 64 * 64) - 1) < 0.05, "'y' is written, and read: " + text
    run = subprocess.run([tegula, "profile", "k.teg", "-k", "rows", "-r", "1", "-o", "t.json", "-d", "M=64",
                          "--html", "t.json"], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 1 and "two outputs of a profile cannot be one file" in run.stderr, run
    assert "a launch" not in run.stdout, "refused before the launches"
    run = subprocess.run([tegula, "profile", "k.teg", "-k", "rows", "-r", "1", "-o", "t.json", "-d", "M=64",
                          "--target", "sim:sm_80", "--roofline", "s.svg"], cwd=folder, capture_output=True,
                         text=True)
    assert run.returncode == 1 and "times of a simulator have no roof" in run.stderr, run
    assert "a launch" not in run.stdout, "refused before the launches"


def check_limits(tegula, folder):
    """A record that does not fit is cut, and a hint says so."""
    many = ["-k", "rows", "-d", "N=8", "-j", "1"]
    run = subprocess.run([tegula, "profile", "k.teg", "-r", "5", "-o", "t.json", *many, "-d", "M=140000",
                          "--html", "many.html"], cwd=folder, capture_output=True, text=True)
    with open(os.path.join(folder, "many.html")) as f:
        page = f.read()
    assert 100 < page.count("<rect") < 4000, "bars shorter than a pixel are merged"
    assert "the later ones of threads with many tasks are missing" in page
    assert "later events of threads with many tasks" in run.stderr, run
    assert "the recorded launch is much longer than others" in run.stderr, run
    assert "35000 x" in run.stdout, "sums are of all tasks" + run.stdout
    busy = sum(seconds(t) * float(b) / 100 for t, b in
               re.findall(r"% +([\d.]+ \w+) .*, busy (\d+) % of the time", run.stdout))
    parts = sum(seconds(t) for t in re.findall(r"% +([\d.]+ \w+) +\d+ x ", run.stdout))
    assert 0 < parts <= 1.02 * busy, f"parts run within tasks, of which none is lost: {parts}, {busy}\n{run.stdout}"
    run = subprocess.run([tegula, "profile", "k.teg", "-r", "1", "-o", "t.json", *many, "-d", "M=12000",
                          "--target", "sim:sm_80"], cwd=folder, capture_output=True, text=True)
    assert "the device's buffer was full: later programs are missing" in run.stderr, run
    run = subprocess.run([tegula, "profile", "k.teg", *many, "--target", "interp"], cwd=folder,
                         capture_output=True, text=True)
    assert run.returncode == 1 and "the interpreter has no profile" in run.stderr, run
    assert "cpu, a GPU and sim:sm_90a have one" in run.stderr, run
    text, events = profile(tegula, folder, ["-k", "turns", "-a", "a=rand(1,16)", "-a", "n=20000", "-j", "1",
                                            "--ranks", "1"], "hint: rank 0 did 80001 things, of which 65536 are in the trace")
    assert "one launch of 1 ranks" in text and len(spans_of(events, 0)) == 65536, text


def check_others(tegula, folder):
    """Phases without room of their own are summed, and parts name the file of a library."""
    run = subprocess.run([tegula, "profile", "k.teg", "-k", "steps", "-r", "1", "-o", "t.json", "-d", "N=8"],
                         cwd=folder, capture_output=True, text=True)
    phases = re.findall(r"^ .* (\d+) times: (\d+) tasks", run.stdout, re.M)
    assert sum(int(n) for n, _ in phases) == sum(int(n) for _, n in phases) == 300, run
    assert re.search(r"others, 45 times: 45 tasks", run.stdout), run
    assert "`others` are later phases or parts" in run.stderr, run
    assert re.search(r" 300 x .* lib.teg:2:\d+ +sort", run.stdout), run


def check_outputs(tegula, folder):
    """Files that cannot be written are refused before the launches."""
    for option in ("-o", "--html", "--roofline"):
        run = subprocess.run([tegula, "profile", "k.teg", "-k", "steps", "-r", "1", option, "absent/x"],
                             cwd=folder, capture_output=True, text=True)
        assert run.returncode == 1 and "absent/x" in run.stderr and not run.stdout, run


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--folder", required=True)
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    for name, text in (("k.teg", SOURCE), ("lib.teg", LIBRARY)):
        with open(os.path.join(a.folder, name), "w") as f:
            f.write(text)
    tegula = os.path.abspath(a.tegula)
    check_cpu(tegula, a.folder)
    check_lines(tegula, a.folder)
    check_device(tegula, a.folder, "sim:sm_90a", True)
    check_device(tegula, a.folder, "sim:sm_80", False)
    check_device(tegula, a.folder, "sim:gfx942", False)
    check_pages(tegula, a.folder)
    check_limits(tegula, a.folder)
    check_others(tegula, a.folder)
    check_outputs(tegula, a.folder)
    print("ok")


main()
