# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hooks of MkDocs: Pygments learns Tegula's lexer."""
import pathlib
import sys

from pygments.lexers import LEXERS, get_lexer_by_name

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "editors/pygments"


def on_config(config):
    # MkDocs restores the path after a hook's file was read.
    sys.path.insert(0, str(FOLDER))
    LEXERS["TegulaLexer"] = ("tegula_lexer", "Tegula", ("teg", "tegula"), ("*.teg",), ("text/x-tegula",))
    get_lexer_by_name("teg")  # raises if Pygments does not find it; MkDocs would show plain text
    return config
