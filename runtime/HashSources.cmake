# Writes a hash of the files in SOURCES, separated by commas, to the header
# OUTPUT, as POPLAR_RUNTIME_SOURCES.
string(REPLACE "," ";" SOURCES "${SOURCES}")
foreach(source ${SOURCES})
  file(SHA256 ${source} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 12 hash)
file(WRITE ${OUTPUT} "#define POPLAR_RUNTIME_SOURCES \"${hash}\"\n")
