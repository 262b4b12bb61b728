# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules: the kernels of a file or a text. Loading a file again returns the module that is loaded, unless
the file, an import of it, or the context has changed."""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import threading
import weakref
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from . import _contexts, _warnings
from . import _library as c
from ._kernels import Kernel

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Sequence[Path], None]
Settings = Union[str, Mapping[str, Union[int, str]], None]

_KEPT = 256  # modules that a context keeps for tegula.load
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"((?:[^"\\\n]|\\[^\n])*)"|[A-Za-z_][A-Za-z_0-9]*|\S', re.DOTALL
)
_loading = threading.Lock()


class _Handle:
    """A module of the library, kept alive by its kernels. Its context must outlive it."""

    def __init__(self, value: int, context: _contexts.Context) -> None:
        self.value = value
        weakref.finalize(self, _destroy, value, context)


def _destroy(module: int, _context: Any) -> None:
    c.module_destroy(module)


class Module:
    """The kernels of a source, as attributes and by name: module.softmax, module["softmax"]."""

    def __init__(self, owner: _Handle, name: str, origin: Any) -> None:
        self.name = name
        self.kernels: dict[str, Kernel] = {}
        for i in range(c.module_kernels(owner.value)):
            kernel = Kernel(owner, c.module_kernel_at(owner.value, i), origin)
            self.kernels[kernel.name] = kernel
        self._origin = origin

    def __getitem__(self, name: str) -> Kernel:
        if name in self.kernels:
            return self.kernels[name]
        raise KeyError(
            f"{self.name} has no kernel '{name}'; it has {', '.join(self.kernels) or 'none'}"
        )

    def __getattr__(self, name: str) -> Kernel:
        kernels: dict[str, Kernel] = self.__dict__.get("kernels", {})
        if name in kernels:
            return kernels[name]
        has = ", ".join(kernels) or "none"
        raise AttributeError(
            f"{self.__dict__.get('name')} has no kernel '{name}'; it has {has}"
        ) from None

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.kernels.values())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernels]

    def __repr__(self) -> str:
        return f"<tegula module {self.name}: {', '.join(self.kernels)}>"

    def _repr_html_(self) -> str:
        return "".join(kernel._repr_html_() for kernel in self)

    def __reduce__(self) -> Any:
        load, args = self._origin
        return load, args


# ---- options ---------------------------------------------------------------------------------------


def _settings_text(settings: Settings) -> Optional[str]:
    if settings is None or isinstance(settings, str):
        return settings
    values = {name: v if isinstance(v, str) else int(v) for name, v in settings.items()}
    return " ".join(f"{name}={value}" for name, value in values.items())


def _folders(paths: Paths) -> tuple[str, ...]:
    if paths is None:
        return ()
    return tuple(
        os.fspath(p) for p in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    )


class _Options:
    """The options of tegula.load, in a form that compares, and that a pickle holds."""

    def __init__(
        self,
        paths: Paths,
        settings: Settings,
        check: bool,
        debug: bool,
        target: Optional[str],
        codegen: Optional[str],
        tune: Optional[str],
        budget_ms: int,
    ) -> None:
        self.folders = _folders(paths)
        self.key = (
            self.folders,
            _settings_text(settings),
            bool(check),
            bool(debug),
            target,
            codegen,
            tune,
            int(budget_ms),
        )

    def structure(self) -> Any:
        def data(text: Optional[str]) -> Optional[bytes]:
            return text.encode() if text else None

        _, settings, check, debug, target, codegen, tune, budget = self.key
        joined = ":".join(self.folders)
        return c.ModuleOptions(
            ctypes.sizeof(c.ModuleOptions),
            os.fsencode(joined) if joined else None,
            data(settings),
            check,
            debug,
            data(target),
            data(codegen),
            data(tune),
            budget,
        )


def _open(
    make: Callable[[Any, Any], int], options: _Options, context: _contexts.Context
) -> _Handle:
    """Makes a module on the context, which receives its warnings from now on."""
    handle = ctypes.c_void_p()
    before = c.context_use(context._handle)
    try:
        c.check(make(ctypes.byref(options.structure()), ctypes.byref(handle)))
    finally:
        c.context_use(before)
    return _Handle(handle.value or 0, context)


# ---- files -----------------------------------------------------------------------------------------


def _imported(text: str) -> list[str]:
    """The names after the word `import`, which is no part of a comment or of a string."""
    names: list[str] = []
    after = False
    for token in _TOKEN.finditer(text):
        if token[0].startswith(("//", "/*")):
            continue
        if after and token[1] is not None:
            names.append(re.sub(r"\\(.)", r"\1", token[1]))
        after = token[0] == "import"
    return names


def _imports(path: str, folders: tuple[str, ...], found: dict[str, Any]) -> None:
    """Adds the file and the files that it imports, each with the state that a change of it changes. Imports
    are looked up as the library does: beside the file, then in the folders; "std/..." never changes."""
    try:
        state = os.stat(path)
        text = pathlib.Path(path).read_text("utf-8", "replace")
    except OSError:
        found[path] = None
        return
    found[path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    for name in _imported(text):
        if name.startswith("std/"):
            continue
        for folder in (os.path.dirname(path), *folders):
            place = os.path.join(folder, name)
            if place in found:
                break
            if os.path.isfile(place):
                _imports(place, folders, found)
                break
            found[place] = None  # a file that appears here would come first


def _is_fresh(files: dict[str, Any]) -> bool:
    for path, before in files.items():
        try:
            state = os.stat(path)
        except OSError:
            if before is not None:
                return False
            continue
        if before != (state.st_mtime_ns, state.st_size, state.st_ino):
            return False
    return True


def load(
    path: Path,
    paths: Paths = None,
    settings: Settings = None,
    check: bool = False,
    debug: bool = False,
    target: Optional[str] = None,
    codegen: Optional[str] = None,
    tune: Optional[str] = None,
    budget_ms: int = 0,
) -> Module:
    """Loads the module of a file. "std/NAME.teg" is a file of the library. The second time it takes
    microseconds: the module is kept until the file or an import of it changes.

    paths: folders for imports, after the file's own. settings: tune values to pin, {"BM": 64, "plan":
    "pull"}. check: each launch checks indices, asserts and divisions. target: "sim:sm_90a" simulates a
    GPU; by default code is compiled for the device of the arrays. codegen: for NVIDIA code, "nvvm",
    "nvptx" or "auto". tune: "off", "strict", "block", "background" or "exhaustive", by default what TG_TUNE
    says; budget_ms: the milliseconds of one search.
    """
    name = os.fspath(path)
    options = _Options(paths, settings, check, debug, target, codegen, tune, budget_ms)
    context = _contexts.current() or _contexts.shared()
    key = name, os.getcwd() if not os.path.isabs(name) else "", options.key
    kept = context.loaded.get(key)
    if kept is not None and _is_fresh(kept[1]):
        module: Module = kept[0]
        return module
    with _loading:
        module, files = _load_file(name, options, context)
        if len(context.loaded) >= _KEPT:
            context.loaded.clear()
        context.loaded[key] = module, files
    if _warnings.pending():
        _warnings.emit(2)
    return module


def _load_file(
    name: str, options: _Options, context: _contexts.Context
) -> tuple[Module, dict[str, Any]]:
    """The files are looked at before they are read, so that a change meanwhile is noticed later."""
    files: dict[str, Any] = {}
    library = name.startswith("std/")
    if not library:
        _imports(name, options.folders, files)
    handle = _open(
        lambda how, out: int(c.module_from_file(os.fsencode(name), how, out)), options, context
    )
    place = name if library else os.path.abspath(name)
    return Module(handle, name, (load, (place, *options.key))), files


def source(
    text: Union[str, bytes],
    name: str = "<source>",
    paths: Paths = None,
    settings: Settings = None,
    check: bool = False,
    debug: bool = False,
    target: Optional[str] = None,
    codegen: Optional[str] = None,
    tune: Optional[str] = None,
    budget_ms: int = 0,
) -> Module:
    """Makes the module of a source text; name appears in messages. The options are those of load."""
    options = _Options(paths, settings, check, debug, target, codegen, tune, budget_ms)
    data = text.encode() if isinstance(text, str) else bytes(text)
    handle = _open(
        lambda how, out: int(
            c.module_from_source(data, len(data), os.fsencode(name), how, out)
        ),
        options,
        _contexts.current() or _contexts.shared(),
    )
    module = Module(handle, name, (source, (text, name, *options.key)))
    if _warnings.pending():
        _warnings.emit(2)
    return module
