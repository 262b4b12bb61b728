# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cell magic %%tegula of IPython and Jupyter.

    %load_ext tegula

    %%tegula x=rand(1000)
    kernel double(x: f32[N], y: f32[N]) { parallel n in N by 64 { y[n] = 2 * x[n]; } }

The kernels of the cell become names of the notebook, and the cell shows each with the compiler's explanation
for the arguments in its first line. Quotes keep blanks: x='rand(4, 5)'. `%%tegula --quiet` shows nothing.
"""

from __future__ import annotations

import html
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
from typing import Any, Optional

from . import _library as c
from ._kernels import Kernel
from ._modules import Module, source


def _program() -> Optional[str]:
    """The command `tegula`, which explains: in the package, beside the library, or in PATH. A library that the
    loader found by its name has no folder, and the working directory is never one of these places."""
    places = [pathlib.Path(__file__).resolve().parent]
    if os.path.isabs(c.path):
        places.append(pathlib.Path(c.path).resolve().parent)
    for place in places:
        program = place / "bin" / "tegula"
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    found = shutil.which("tegula")
    return found if found and os.path.isabs(found) else None


def explanation(text: str, kernel: str, arguments: list[str]) -> str:
    """The text of `tegula explain` for a kernel of a source, or the reason for which there is none."""
    program = _program()
    if program is None:
        return "no explanation: the program 'tegula' is neither beside the library nor in PATH"
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cell.teg"
        file.write_text(text, "utf-8")
        given = [part for argument in arguments for part in ("--arg", argument)]
        run = subprocess.run(
            [program, "explain", str(file), "-k", kernel, *given],
            capture_output=True,
            text=True,
            timeout=60,
        )
        return (run.stdout or run.stderr).replace(f"{folder}/", "").strip()


class Shown:
    """A kernel with its explanation, for the notebook."""

    def __init__(self, kernel: Kernel, text: str) -> None:
        self.kernel, self.text = kernel, text

    def __repr__(self) -> str:
        return f"{self.kernel!r}\n{self.text}"

    def _repr_html_(self) -> str:
        return (
            f"<div>{self.kernel._repr_html_()}<details><summary>explanation</summary>"
            f"<pre>{html.escape(self.text)}</pre></details></div>"
        )


def run_cell(shell: Any, line: str, cell: str) -> Module:
    """Compiles the cell, adds its kernels to the notebook's names, and shows them."""
    words = shlex.split(line)
    quiet = "--quiet" in words
    arguments = [word for word in words if word != "--quiet"]
    for word in arguments:
        if "=" not in word:
            raise ValueError(f"%%tegula: '{word}' is not of the form NAME=VALUE, nor --quiet")
    module = source(cell, "cell.teg")
    shell.push(dict(module.kernels))
    for kernel in module if not quiet else ():
        own = [a for a in arguments if a.partition("=")[0] in kernel.params]
        _show(Shown(kernel, explanation(cell, kernel.name, own)))
    return module


def _show(shown: Shown) -> None:
    try:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        print(repr(shown))
        return
    display(shown)


def register(shell: Any) -> None:
    """Adds the magic to a shell of IPython."""

    def tegula(line: str, cell: str) -> None:
        run_cell(shell, line, cell)

    shell.register_magic_function(tegula, "cell", "tegula")
