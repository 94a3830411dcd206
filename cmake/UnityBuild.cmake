# Sources of a library are compiled several at a time, so that headers are read and
# templates instantiated once for all of them. Each source compiles by itself all
# the same: the presets for development turn this off, and build again only what
# was edited.
option(POPLAR_UNITY_BUILD "Compile several sources of a library at a time" OFF)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
