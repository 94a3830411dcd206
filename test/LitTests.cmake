# Entries of CTest that run tests of lit, each in one process. durations.txt has
# the processor seconds of each, as scripts/measure-tests.py found them: the
# longest start first, and the limit of each follows from its own.

set(POPLAR_TEST_DURATIONS ${CMAKE_CURRENT_SOURCE_DIR}/durations.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${POPLAR_TEST_DURATIONS})

# Sets `result` to the processor seconds of an entry; of one that was not measured
# yet, to 60.
function(poplar_find_duration result name)
  string(REPLACE "." "\\." pattern ${name})
  file(STRINGS ${POPLAR_TEST_DURATIONS} line REGEX "^${pattern} ")
  set(seconds 60)
  if(line MATCHES " ([0-9]+)$")
    set(seconds ${CMAKE_MATCH_1})
  endif()
  set(${result} ${seconds} PARENT_SCOPE)
endfunction()

# Adds the tests in `place`, a folder or a file of this directory, with further
# options of lit, as KIND.PLACE.
function(poplar_add_lit_test kind place)
  string(REGEX REPLACE "\\.[a-z]+$" "" name "${kind}/${place}")
  string(REGEX REPLACE "/$" "" name "${name}")
  string(REPLACE "/" "." name "${name}")
  add_test(NAME ${name}
    COMMAND ${POPLAR_LIT} -j1 --skip-test-time-recording ${ARGN}
      ${CMAKE_CURRENT_BINARY_DIR}/${place})
  poplar_find_duration(seconds ${name})
  # A slow processor takes twice as long, and shares its cores with another test.
  math(EXPR limit "120 + 6 * ${seconds}")
  if(POPLAR_SANITIZE)
    math(EXPR limit "3 * ${limit}")
  endif()
  set_tests_properties(${name} PROPERTIES COST ${seconds} TIMEOUT ${limit})
endfunction()
