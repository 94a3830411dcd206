# Writes the commit of the source tree to a header, if it has changed. Run at
# every build: cmake -DSOURCE=... -DOUTPUT=... -P WriteCommit.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define POPLAR_COMMIT \"@commit@\"\n" @ONLY)
