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
for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
config.substitutions.append(("%examples", os.path.join(config.poplar_src_root, "examples")))
config.substitutions.append(("%scripts", os.path.join(config.poplar_src_root, "scripts")))
config.substitutions.append(("%goldens", os.path.join(config.test_source_root, "Integration", "goldens")))
config.substitutions.append(("%python", sys.executable))

# What a sanitized build runs of the long tests: a part of every kind.
config.substitutions.append(("%subset", "--part 12/37" if config.sanitized else ""))
# Sanitized code takes several times as long as it may elsewhere.
config.substitutions.append(("%seconds", "60" if config.sanitized else "5"))

# The same suite once more, with every module printed and parsed back. The
# integration tests do not call poplar-opt, so they are not repeated.
if lit_config.params.get("verify_roundtrip"):
    config.substitutions.append(("poplar-opt ", "poplar-opt --verify-roundtrip "))
    config.test_exec_root = os.path.join(config.poplar_obj_root, "test-roundtrip")
    config.excludes.append("Integration")


def has_pipeline():
    """Whether the driver of this build goes all the way to an executable."""
    poplar = os.path.join(config.poplar_obj_root, "bin", "poplar")
    if not os.path.exists(poplar):
        return False
    result = subprocess.run([poplar, "build", "--help"], capture_output=True)
    return result.returncode == 0


def has_bf16():
    """Whether oneDNN multiplies bf16 on this CPU: it needs AVX-512."""
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            return "avx512bw" in cpuinfo.read()
    except OSError:
        return False


# Not there in sanitized builds, which replace malloc themselves.
counter = os.path.join(config.poplar_obj_root, "lib", "poplar_allocation_counter.so")
if os.path.exists(counter):
    config.available_features.add("allocation-counter")
    config.substitutions.append(("%allocation_counter", counter))
if shutil.which("ptxas"):
    config.available_features.add("ptxas")
# A driver of GPUs that runs on a CPU; see unittests/GPU/emulated/.
emulated_cuda = os.path.join(config.poplar_obj_root, "lib", "emulated-cuda")
if os.path.exists(os.path.join(emulated_cuda, "libcuda.so.1")):
    config.available_features.add("emulated-cuda")
    config.substitutions.append(("%emulated_cuda", emulated_cuda))
if has_bf16():
    config.available_features.add("bf16")
if has_pipeline():
    config.available_features.add("pipeline")
    # The plug-in was built, so MPI's headers are here; is its launcher?
    if shutil.which("mpirun") and os.path.exists(
            os.path.join(config.poplar_obj_root, "lib", "libpoplar_mpi.so")):
        config.available_features.add("mpi")
    if os.path.exists(
            os.path.join(config.poplar_obj_root, "lib", "libpoplar_tcp.so")):
        config.available_features.add("ucx")
# PyTorch's launcher, which needs nothing of Poplar to know of it.
if shutil.which("torchrun"):
    config.available_features.add("torchrun")
