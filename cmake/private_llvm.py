"""Links LLVM's static libraries into one shared library that exports the functions which Tegula calls.

Usage: private_llvm.py --cc CC --nm NM --out FILE --callers FILE... --link WORD...

The callers are objects and archives. Their undefined names of LLVM, of its C interface or in C++, become the exported names.
Each has the version TEGULA_LLVM, so that another LLVM in the process cannot stand in for it. Everything else
is dropped or hidden. The words after --link are archives and options of the linker.
"""
import argparse
import pathlib
import re
import subprocess
import sys

UNDEFINED = re.compile(r"^ +U (LLVM\w+|_ZN4llvm\w+)$", re.MULTILINE)


def called_names(nm, callers):
    listing = subprocess.run([nm, "--undefined-only", *callers], check=True, capture_output=True, text=True)
    return sorted(set(UNDEFINED.findall(listing.stdout)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True)
    parser.add_argument("--nm", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--callers", nargs="+", required=True)
    parser.add_argument("--link", nargs=argparse.REMAINDER, required=True)
    options = parser.parse_args()
    names = called_names(options.nm, options.callers)
    if not names:
        sys.exit("private_llvm.py: no caller of LLVM")
    script = options.out.with_name(options.out.name + ".map")
    script.write_text(f"TEGULA_LLVM {{ global: {' '.join(name + ';' for name in names)} local: *; }};\n")
    arguments = options.out.with_name(options.out.name + ".rsp")
    arguments.write_text("".join(f"-Wl,-u,{name}\n" for name in names))
    done = subprocess.run([options.cc, "-shared", "-o", options.out, f"-Wl,-soname,{options.out.name}",
                           f"-Wl,--version-script={script}", f"@{arguments}", *options.link])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
