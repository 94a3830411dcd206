"""Lays out, installs and asks CUDA's libraries in Python's wheels; see
GPU/cuda-libraries.test."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

# Directory of site-packages: libraries.
WHEELS = {
    "nvidia/cu13/lib": ["libcublasLt.so.13"],
    "nvidia/cublas/lib": ["libcublasLt.so.12"],
    "nvidia/nccl/lib": ["libnccl.so.2"],
}
PACKAGES = ["nvidia-cublas", "nvidia-nccl-cu13", "nvidia-cudnn-cu13"]


def layout(environment, emulated):
    library = os.path.join(emulated, "libpoplar_emulated_cuda.so")
    for directory, names in WHEELS.items():
        place = os.path.join(environment, "lib", "python3.99", "site-packages", directory)
        os.makedirs(place)
        for name in names:
            shutil.copy(library, os.path.join(place, name))


def ask(path):
    environment = {**os.environ, "POPLAR_CUDA_PATH": path}
    return subprocess.run(
        ["measure-gpu", "--libraries"], env=environment, check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip


def libraries(file):
    with open(file) as text:
        print(ask(text.read().strip()))


def reason(program, damaged):
    """A damaged library is named, unless the system has a driver elsewhere."""
    result = subprocess.run([program, "--gpus"], capture_output=True, text=True)
    if result.returncode and "does not start" not in result.stderr:
        assert damaged in result.stderr, result.stderr
    os.remove(damaged)
    environment = {k: v for k, v in os.environ.items() if k != "POPLAR_CUDA_PATH"}
    text = subprocess.run(
        [program, "--libraries"], env=environment, capture_output=True, text=True
    ).stdout
    driver = json.loads(text)["libraries"][0]
    if "missing" in driver:
        for place in ("POPLAR_CUDA_PATH (not set)", os.path.dirname(program),
                      "the system's loader", "/usr/local/cuda/lib64"):  # fmt: skip
            assert place in driver["missing"], (place, driver)


def real(environment, script):
    python = sys.executable
    if not importlib.util.find_spec("nvidia"):
        if os.environ.get("POPLAR_TEST_DOWNLOADS") != "1":
            print("skipped: this python has no CUDA wheels; "
                  "POPLAR_TEST_DOWNLOADS=1 installs them for the test")  # fmt: skip
            return
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        python = os.path.join(environment, "bin", "python")
        pip = [python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES]
        result = subprocess.run(pip, capture_output=True, text=True)
        if result.returncode:
            print("skipped: pip cannot install them:", result.stderr.splitlines()[-1:])
            return
    path = subprocess.run(
        [python, script], check=True, capture_output=True, text=True,
        env={k: v for k, v in os.environ.items() if k != "POPLAR_CUDA_PATH"},
    ).stdout.strip()  # fmt: skip
    found = {entry["name"]: entry for entry in json.loads(ask(path))["libraries"]}
    for name in ("cublaslt", "nccl", "cudnn"):
        assert "site-packages" in found[name].get("path", ""), found[name]
    versions = tuple(found[n]["version"] for n in ("cublaslt", "nccl", "cudnn"))
    print("cuBLASLt %d, NCCL %d, cuDNN %d from wheels" % versions)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
