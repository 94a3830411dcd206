import json
import os
import shutil
import subprocess
import sys

import lit.formats

config.name = "Poplar"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".json"]
config.excludes = ["Inputs", "goldens", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.poplar_obj_root, "test")
config.environment["FILECHECK_OPTS"] = "--enable-var-scope"
config.environment["PATH"] = os.pathsep.join(
    [
        os.path.join(config.poplar_obj_root, "bin"),
        config.llvm_tools_dir,
        os.environ["PATH"],
    ]
)
# Tests run side by side: threads that wait for others must leave them the cores.
config.environment["OMP_WAIT_POLICY"] = "passive"
# What several tests compile is compiled once: code that poplar build generates,
# and kernels of emulated GPUs. Both are found by their contents.
config.environment["POPLAR_CACHE"] = os.path.join(config.poplar_obj_root, "cache")
config.environment["POPLAR_EMULATED_CACHE"] = os.path.join(
    config.poplar_obj_root, "emulated-cache"
)
for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "POPLAR_TEST_ALL_WIDTHS",
                 "POPLAR_TEST_DOWNLOADS", "POPLAR_TEST_PLANS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
config.substitutions.append(("%examples", os.path.join(config.poplar_src_root, "examples")))
config.substitutions.append(("%scripts", os.path.join(config.poplar_src_root, "scripts")))
integration = os.path.join(config.test_source_root, "Integration")
config.substitutions.append(("%goldens", os.path.join(integration, "goldens")))
config.substitutions.append(("%inputs", os.path.join(integration, "Inputs")))
config.substitutions.append(("%python", sys.executable))

# Examples are compiled without the sanitizers' flags.
if not config.sanitized:
    config.available_features.add("unsanitized")
# What a sanitized build runs of the long tests: a part of every kind.
config.substitutions.append(("%subset", "--part 12/37" if config.sanitized else ""))
# Sanitized code takes several times as long as it may elsewhere.
config.substitutions.append(("%seconds", "60" if config.sanitized else "5"))

# The same suite once more, with every module printed and parsed back. Tests that
# do not call poplar-opt themselves are not repeated.
if lit_config.params.get("verify_roundtrip"):
    config.substitutions.append(("poplar-opt ", "poplar-opt --verify-roundtrip "))
    config.test_exec_root = os.path.join(config.poplar_obj_root, "test-roundtrip")
    config.excludes += ["Docs", "Integration", "Tools"]


# The same suite, or a part of it, on a lesser processor than the one at hand.
max_isa = lit_config.params.get("max_isa", os.environ.get("POPLAR_MAX_ISA", ""))
if max_isa:
    config.environment["POPLAR_MAX_ISA"] = os.environ["POPLAR_MAX_ISA"] = max_isa
    config.test_exec_root = os.path.join(config.poplar_obj_root, f"test-{max_isa}")


def lacks(feature, reason):
    """Says why tests that need a feature will be unsupported."""
    lit_config.note(f"feature '{feature}' is missing: {reason}")


def run_tool(*arguments):
    """The output of the driver of this build. It must not fail: half the tests
    would be unsupported instead of red."""
    command = [os.path.join(config.poplar_obj_root, "bin", "poplar"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        lit_config.fatal(
            f"{' '.join(command)}: exit status {result.returncode}\n{result.stderr}"
        )
    return result.stdout


def has_pipeline():
    """Whether the driver of this build goes all the way to an executable."""
    if not os.path.exists(os.path.join(config.poplar_obj_root, "bin", "poplar")):
        lacks("pipeline", "bin/poplar was not built")
        return False
    run_tool("build", "--help")
    return True


def find_host_types():
    """What this processor has, less what POPLAR_MAX_ISA hides."""
    return json.loads(run_tool("cluster", "detect", "-o", "-"))["device_types"]


docs = os.path.join(config.poplar_obj_root, "docs")
if os.path.exists(os.path.join(docs, "docs.stamp")):
    config.available_features.add("docs")
    config.substitutions.append(("%docs", docs))
else:
    lacks("docs", "docs was not built (the target poplar-doc)")
if os.path.exists(os.path.join(docs, "index.html")):
    config.available_features.add("site")
else:
    lacks("site", "docs/index.html was not built (Python lacks the module markdown)")
# Not there in sanitized builds, which replace malloc themselves.
counter = os.path.join(config.poplar_obj_root, "lib", "poplar_allocation_counter.so")
if os.path.exists(counter):
    config.available_features.add("allocation-counter")
    config.substitutions.append(("%allocation_counter", counter))
else:
    lacks("allocation-counter", "lib/poplar_allocation_counter.so was not built")
if shutil.which("ptxas"):
    config.available_features.add("ptxas")
else:
    lacks("ptxas", "no ptxas in PATH")
# A driver of GPUs that runs on a CPU, and one that counts launches; see
# unittests/GPU/emulated/ and bench/counting/.
for driver in ("emulated-cuda", "counting-cuda"):
    folder = os.path.join(config.poplar_obj_root, "lib", driver)
    if os.path.exists(os.path.join(folder, "libcuda.so.1")):
        config.available_features.add(driver)
        config.substitutions.append(("%" + driver.replace("-", "_"), folder))
    else:
        lacks(driver, f"lib/{driver}/libcuda.so.1 was not built")
if has_pipeline():
    config.available_features.add("pipeline")
    # oneDNN multiplies bf16 from AVX-512 on.
    if "avx512-f32" in find_host_types():
        config.available_features.add("bf16")
    else:
        lacks("bf16", "products of bf16 need AVX-512, which this processor lacks"
              + (f" (POPLAR_MAX_ISA={max_isa})" if max_isa else ""))
    # The plug-in was built, so MPI's headers are here; is its launcher?
    if not os.path.exists(os.path.join(config.poplar_obj_root, "lib", "libpoplar_mpi.so")):
        lacks("mpi", "lib/libpoplar_mpi.so was not built")
    elif not shutil.which("mpirun"):
        lacks("mpi", "no mpirun in PATH")
    else:
        config.available_features.add("mpi")
    if os.path.exists(os.path.join(config.poplar_obj_root, "lib", "libpoplar_tcp.so")):
        config.available_features.add("ucx")
    else:
        lacks("ucx", "lib/libpoplar_tcp.so was not built")
# PyTorch's launcher, which needs nothing of Poplar to know of it.
if shutil.which("torchrun"):
    config.available_features.add("torchrun")
else:
    lacks("torchrun", "no torchrun in PATH")
# Debian keeps daemons out of the PATH of users.
if shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin"):
    config.available_features.add("slurm")
else:
    lacks("slurm", "there is no slurmctld (on Debian: slurm-wlm)")
