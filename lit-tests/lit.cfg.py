"""Settings of the lit tests. `cargo xtask test` gives the parameters; by hand, `lit lit-tests` guesses them.

RUN lines call the tools by name (strata-opt, strata-run, FileCheck, not, split-file, ptxas): their folders are
first on the search path. `%python` is the tests' interpreter.
"""

import os
import pathlib

import lit.formats

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def param(name, default):
    """A parameter of the command line (`--param NAME=VALUE`), or a guess."""
    return lit_config.params.get(name) or str(default)


config.name = "strata"
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = str(HERE)
config.test_exec_root = param("exec_root", TARGET / "lit")
# `.test` is for command lines whose input is not MLIR.
config.suffixes = [".mlir", ".test"]
config.excludes = ["inputs", "lit.cfg.py"]

python = param("python", ROOT / ".strata-env/bin/python")
ptxas = param("ptxas", "")
prefix = os.environ.get("MLIR_SYS_220_PREFIX", "/usr/lib/llvm-22")
folders = [param("strata_links", TARGET / "strata-links"), param("llvm_bin", pathlib.Path(prefix) / "bin")]
if ptxas:
    config.available_features.add("ptxas")
    folders.append(os.path.dirname(ptxas))

# A developer's own settings must not decide whether a test passes.
for name in [name for name in config.environment if name.startswith("STRATA_")]:
    del config.environment[name]
if ptxas:
    config.environment["STRATA_PTXAS"] = ptxas
config.environment["PATH"] = os.pathsep.join(folders + [os.environ.get("PATH", "")])
config.substitutions.append(("%python", python))
config.substitutions.append(("%root", str(ROOT)))
