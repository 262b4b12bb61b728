# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ranks_skip_test.py FAKE_CUDA: when ranks.py --skip runs, and its message otherwise, by a driver without
GPUs."""

import os
import pathlib
import subprocess
import sys
import tempfile

RANKS = pathlib.Path(__file__).with_name("ranks.py")


def skips(devices, ranks, **environment):
    """Status and output of ranks.py, which would check nothing, because its PyTorch is empty."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "torch.py").touch()
        command = [sys.executable, "-B", RANKS, "--skip", "--ranks", str(ranks), "--only", "none"]
        done = subprocess.run(command, capture_output=True, text=True,
                              env=os.environ | {"FAKE_CUDA_DEVICES": devices, "PYTHONPATH": folder} | environment)  # fmt: skip
        return done.returncode, done.stdout.strip()


def main():
    os.environ["TG_CUDA_LIBRARY"] = sys.argv[1]
    wrong = []
    for expected, got in [
        ((77, "skipped: 1 GPU; 2 ranks need one each"), skips("90", 2)),
        ((77, "skipped: 2 GPUs; 4 ranks need one each"), skips("90,90", 4)),
        ((77, "skipped: 0 GPUs; 2 ranks need one each"), skips("90,90", 2, TG_CUDA_LIBRARY="/nowhere.so")),
    ]:
        wrong += [f"{got} and not {expected}"] if got != expected else []
    status, said = skips("90,90", 2)  # ranks start, and fail
    if status in (0, 77) or "skipped" in said:
        wrong.append(f"with 2 GPUs: {status}, {said}")
    if wrong:
        sys.exit("\n".join(wrong))


main()
