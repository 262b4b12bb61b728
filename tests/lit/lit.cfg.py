# lit configuration of tests/lit/*: text in, text out. ctest passes the parameters `bin` (the
# programs), `llvm` (FileCheck), `out` (scratch) and `python`.
import os
import shutil
import lit.formats

params = lit_config.params
here = os.path.dirname(os.path.abspath(__file__))
tegula = os.path.join(params["bin"], "tegula")

config.name = "tegula"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".teg", ".tir"]
config.excludes = ["Inputs"]
config.test_source_root = here
config.test_exec_root = params["out"]
config.environment["NO_COLOR"] = "1"
config.environment["PATH"] = os.pathsep.join([params["llvm"], config.environment["PATH"]])
for name in ("ASAN_OPTIONS", "TG_MUTANT"):  # lit passes only named variables to the programs
    if name in os.environ:
        config.environment[name] = os.environ[name]

# lit substitutes in this order, so longer names come first.
config.substitutions += [
    ("%tegula-opt", tegula + "-opt"),
    ("%tegula", tegula),
    ("%check-diag", "%s %s --tegula %s" % (
        params["python"], os.path.join(here, "..", "diag", "check.py"), tegula)),
    ("%kernels", os.path.join(here, "..", "kernels")),
]

if shutil.which("gdb"):
    config.available_features.add("gdb")
else:
    lit_config.note("there is no gdb: tests of debug information are skipped")
