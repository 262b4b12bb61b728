# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs lines of `tegula run --batch`. Each line has a limit of time of its own, which only a hang exceeds."""
import subprocess
import threading

LIMIT = 300  # seconds for a line: many, since machines are busy


def run_process(program, batch, limit, env):
    """Yields (exit code, text) for each completed line, and (signal or -1, text) for a line during which the
    process died, or was killed after `limit` seconds."""
    p = subprocess.Popen([program, "run", "--batch", str(batch)], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, env=env)
    text, late = [], []

    def stop():
        late.append(True)
        p.kill()

    timer = threading.Timer(limit, stop)
    timer.start()
    try:
        for raw in p.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            if not line.startswith("@@ "):
                text.append(line)
                continue
            timer.cancel()
            yield int(line.split()[2]), "\n".join(text)
            text = []
            timer = threading.Timer(limit, stop)
            timer.start()
    except GeneratorExit:
        p.kill()
        raise
    finally:
        timer.cancel()
    code = p.wait()
    why = f"took more than {limit} s" if late else "the process died"
    yield code if code else -1, "\n".join(text[-40:] + [why])


def run_lines(program, lines, folder, limit=LIMIT, env=None):
    """(exit code, text) of each line. A new process continues after a line that did not complete, or that
    left the process's GPU in error."""
    results = []
    while len(results) < len(lines):
        batch = folder / "batch.txt"
        batch.write_text("\n".join(lines[len(results):]) + "\n")
        for result in run_process(program, batch, limit, env):
            results.append(result)
            if "CUDA_ERROR" in result[1]:
                break
    return results[:len(lines)]
