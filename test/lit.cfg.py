import os

import lit.formats

config.name = "Poplar"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".json"]
config.excludes = ["Inputs", "CMakeLists.txt"]
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
config.substitutions.append(("%examples", os.path.join(config.poplar_src_root, "examples")))
config.substitutions.append(("%scripts", os.path.join(config.poplar_src_root, "scripts")))
# The same suite once more, with every module printed and parsed back.
if lit_config.params.get("verify_roundtrip"):
    config.substitutions.append(("poplar-opt ", "poplar-opt --verify-roundtrip "))
