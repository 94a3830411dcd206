# Sources of a library are compiled several at a time, so that headers are read and
# templates instantiated once for all of them. Each source compiles by itself all
# the same: the presets for development turn this off, and build again only what
# was edited.
option(POPLAR_UNITY_BUILD "Compile several sources of a library at a time" OFF)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

# Where tools for developers find the command of each source.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/sources/compile_commands.json
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/list-sources.py
    ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/sources/compile_commands.json
  DEPENDS ${PROJECT_SOURCE_DIR}/scripts/list-sources.py
    ${PROJECT_BINARY_DIR}/build.ninja)
add_custom_target(poplar_sources ALL
  DEPENDS ${PROJECT_BINARY_DIR}/sources/compile_commands.json)
