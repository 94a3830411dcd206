# What `cmake --install` and CPack install. Component `runtime` is what
# `poplar` needs, `development` what other CMake projects need.
# poplar finds its libraries in ../lib, so that the directory has this name.
set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "Directory of libraries")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set_target_properties(poplar poplar-opt PROPERTIES
  INSTALL_RPATH "$ORIGIN/../lib;${LLVM_LIBRARY_DIR}")

install(TARGETS poplar RUNTIME DESTINATION bin COMPONENT runtime)
install(TARGETS poplar-opt RUNTIME DESTINATION bin COMPONENT development)
install(TARGETS poplar_host poplar_cuda
  RUNTIME DESTINATION lib/poplar COMPONENT runtime)
foreach(plugin poplar_mpi poplar_tcp poplar_guard)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION lib COMPONENT runtime)
  endif()
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/lib/poplar DESTINATION lib
  COMPONENT runtime FILES_MATCHING PATTERN "*.bc")
install(DIRECTORY examples/models examples/clusters examples/networks examples/data
  examples/chat
  DESTINATION share/poplar/examples COMPONENT runtime)
install(PROGRAMS scripts/start-ranks.py DESTINATION share/poplar/scripts
  COMPONENT runtime)
install(FILES README.md LICENSE DESTINATION share/doc/poplar COMPONENT runtime)

install(TARGETS PoplarPlanner PoplarJSON PoplarHostCPU PoplarSupport
    PoplarCluster PoplarNN PoplarZero PoplarExec PoplarImport PoplarTransforms
    PoplarConversion PoplarTarget PoplarSimulation PoplarAllocation PoplarReport
    PoplarOptMain
    poplar_gemm
  EXPORT PoplarTargets ARCHIVE DESTINATION lib COMPONENT development
  INCLUDES DESTINATION include)
install(EXPORT PoplarTargets NAMESPACE Poplar:: DESTINATION lib/cmake/Poplar
  COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/Poplar
    ${PROJECT_BINARY_DIR}/include/Poplar
  DESTINATION include COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc" PATTERN "*.def"
  PATTERN CMakeFiles EXCLUDE)
set(POPLAR_INSTALL_INCLUDE include)
configure_package_config_file(cmake/PoplarConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/PoplarConfig.cmake
  INSTALL_DESTINATION lib/cmake/Poplar PATH_VARS POPLAR_INSTALL_INCLUDE)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/cmake/PoplarConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/PoplarConfig.cmake
    ${PROJECT_BINARY_DIR}/cmake/PoplarConfigVersion.cmake
  DESTINATION lib/cmake/Poplar COMPONENT development)

set(CPACK_PACKAGE_NAME poplar)
set(CPACK_PACKAGE_VENDOR "The Poplar project")
set(CPACK_PACKAGE_CONTACT "The Poplar project <poplar@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler that trains transformers on unlike devices")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME poplar)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME poplar-dev)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "openmpi-bin, python3")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "poplar (= ${PROJECT_VERSION}), llvm-22-dev, libmlir-22-dev, mlir-22-tools, liblld-22-dev, libdnnl-dev")
include(CPack)
