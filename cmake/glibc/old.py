"""Makes libraries to link with instead of glibc's, so that the result also runs with older glibcs.

Usage: old.py --cc CC --version 2.28 --out DIR. Then link with -LDIR and the options of OPTIONS, which are
printed, one a line.

A library of glibc has each function in every version that programs were ever linked with, and a linker
takes the newest. The libraries made here have the same names without code, each in its newest version up
to the requested one. A function that exists only in later versions is missing, unless newer_functions.c
has it. Functions for threads and dlopen were in separate libraries before glibc 2.34. Those libraries are
linked as well; the loader does not care which of them holds a symbol.
"""
import argparse
import pathlib
import re
import subprocess

LIBRARIES = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libc.so.6")
# libgcc's own library needs a later glibc. start.c starts programs. The libraries are named even if no symbol
# of them is used. A shared library with a missing symbol is not made.
OPTIONS = ("-static-libgcc", "-Wl,--wrap=__libc_start_main", "-Wl,--no-as-needed", "-Wl,-z,defs")
SYMBOL = re.compile(
    r"^ *\d+: (?P<at>[0-9a-f]+) +(?P<size>\w+) (?P<type>\w+) +(?P<bind>\w+) +DEFAULT +(?P<section>\d+) "
    r"(?P<name>\w+)@@?GLIBC_(?P<version>[0-9.]+)", re.MULTILINE)


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def number(version):
    return tuple(int(part) for part in version.split("."))


def symbols(library, latest):
    """For each name the newest version up to the requested one: {name: match of SYMBOL}."""
    found = {}
    for s in SYMBOL.finditer(output("readelf", "-W", "--dyn-syms", library)):
        version = number(s["version"])
        before = found.get(s["name"])
        if version <= latest and (not before or number(before["version"]) < version):
            found[s["name"]] = s
    return found


def assembly(found):
    """Data at one address keep one address under all their names, since programs copy them (`environ`)."""
    places = {}
    for s in found.values():
        function = s["type"] in ("FUNC", "IFUNC", "NOTYPE")
        places.setdefault("function" if function else (s["type"], s["at"]), []).append(s)
    for place, names in places.items():
        size = 0 if place == "function" else max(int(s["size"], 0) for s in names)
        kind = "function" if place == "function" else {"OBJECT": "object", "TLS": "tls_object"}[place[0]]
        yield {"function": ".text", "object": ".bss", "tls_object": '.section .tbss,"awT",%nobits'}[kind]
        yield ".balign 32"
        for s in names:
            yield f".{'weak' if s['bind'] == 'WEAK' else 'globl'} {s['name']}"
            yield f".type {s['name']}, %{kind}"
            yield f".size {s['name']}, {int(s['size'], 0)}"
            yield f"{s['name']}:"
        yield f".zero {max(size, 1)}"
    yield '.section .note.GNU-stack,"",%progbits'


def versions(found):
    nodes = {}
    for s in found.values():
        nodes.setdefault(s["version"], []).append(s["name"])
    for version in sorted(nodes, key=number):
        yield f"GLIBC_{version} {{ {' '.join(name + ';' for name in nodes[version])} }};"


def make_library(cc, library, latest, out):
    """Makes a library with the same soname and name."""
    found = symbols(library, latest)
    name = library.name
    source, script = out / f"{name}.s", out / f"{name}.map"
    source.write_text("\n".join(assembly(found)) + "\n")
    script.write_text("\n".join(versions(found)) + "\n")
    output(*cc, "-shared", "-nostdlib", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}",
           "-o", out / name, source)


def make_archive(cc, out):
    objects = []
    for source in sorted(pathlib.Path(__file__).parent.glob("*.c")):
        objects.append(out / f"{source.stem}.o")
        output(*cc, "-std=c17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden",
               "-ffunction-sections", "-Wall", "-Wextra", "-Werror", "-c", source, "-o", objects[-1])
    archive = out / "libglibc.a"
    archive.unlink(missing_ok=True)
    output("ar", "rcs", archive, *objects)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True)
    parser.add_argument("--version", type=number, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    cc, out = options.cc.split(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    def path(name):
        return pathlib.Path(output(*cc, f"-print-file-name={name}").strip())

    loader = re.search(r"NEEDED +(ld-\S+)", output("objdump", "-p", path("libc.so.6")))[1]
    for name in (*LIBRARIES, loader):
        make_library(cc, path(name), options.version, out)
    make_archive(cc, out)
    # The compiler links with -lc, -lm and so on. libc comes last, with the missing functions.
    for name in LIBRARIES[:-1]:
        (out / re.sub(r"\.so\.\d+$", ".so", name)).write_text(f"INPUT({out / name})\n")
    parts = (*(out / name for name in LIBRARIES if name != "libm.so.6"), out / "libglibc.a",
             path("libc_nonshared.a"))
    (out / "libc.so").write_text(f"GROUP({' '.join(map(str, parts))} AS_NEEDED({out / loader}))\n")
    print("\n".join((f"-L{out}", *OPTIONS)))


if __name__ == "__main__":
    main()
