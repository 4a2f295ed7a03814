# libvesta.so (every stage, without Python), the Python extension vesta._C, and the files that `cmake --install`
# installs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The Python package in the build folder: `PYTHONPATH=<build>/python` imports this build.
set(vesta_package "${CMAKE_CURRENT_BINARY_DIR}/python/vesta")

if(SKBUILD)
  # A wheel has everything inside the package's folder, next to torch's.
  set(vesta_lib_destination vesta)
  set(vesta_include_destination vesta/include)
  set(vesta_cmake_destination vesta/share/cmake/Vesta)
  set(vesta_install_rpath "$ORIGIN;$ORIGIN/../torch/lib")
else()
  set(vesta_lib_destination ${CMAKE_INSTALL_LIBDIR})
  set(vesta_include_destination ${CMAKE_INSTALL_INCLUDEDIR})
  set(vesta_cmake_destination ${CMAKE_INSTALL_LIBDIR}/cmake/Vesta)
  set(vesta_install_rpath "$ORIGIN;${VESTA_TORCH_LIB_DIR}")
endif()

# vesta_library(<name> <exported name> <stages...>): a shared library of those stages, in the package's folder.
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp" CONTENT "")
function(vesta_library name exported)
  add_library(${name} SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
  foreach(stage IN LISTS ARGN)
    target_link_libraries(${name} PRIVATE vesta_${stage})
  endforeach()
  target_include_directories(${name} INTERFACE
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${vesta_include_destination}>")
  target_compile_features(${name} INTERFACE cxx_std_20)
  target_link_libraries(${name} INTERFACE vesta::torch)
  target_link_options(${name} PRIVATE
    "LINKER:--exclude-libs,ALL" "LINKER:--gc-sections" "LINKER:--no-undefined"
    "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/vesta.map")
  set_target_properties(${name} PROPERTIES
    EXPORT_NAME ${exported}
    LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/vesta.map"
    LIBRARY_OUTPUT_DIRECTORY "${vesta_package}"
    INSTALL_RPATH "${vesta_install_rpath}")
  install(TARGETS ${name} EXPORT VestaTargets LIBRARY DESTINATION ${vesta_lib_destination} COMPONENT runtime)
endfunction()

vesta_library(vesta vesta ${vesta_stages})
# The stages that vesta::load needs, without compiler, tracer and LLVM. The interpreter of loops runs kernels of builds
# without LLVM.
vesta_library(vesta_runtime_library runtime base graph loops machine artifact program interop runtime no_compiler)
set_target_properties(vesta_runtime_library PROPERTIES OUTPUT_NAME vesta_runtime)
add_library(Vesta::runtime ALIAS vesta_runtime_library)

# Compiles the kernels that are too large for the memory of a process that compiles (src/codegen/llvm/kernel_compiler.h). A sanitizer
# takes more address space than it may have.
if(VESTA_LLVM AND NOT VESTA_SANITIZE)
  add_executable(vesta_kernel_compiler src/codegen/llvm/kernel_compiler/main.cpp)
  foreach(stage IN ITEMS base graph loops machine store codegen)
    target_link_libraries(vesta_kernel_compiler PRIVATE vesta_${stage})
  endforeach()
  # It starts without an environment, so nothing can tell it where other libraries are.
  target_link_options(vesta_kernel_compiler PRIVATE -no-pie -static-libstdc++ -static-libgcc "LINKER:--gc-sections")
  set_target_properties(vesta_kernel_compiler PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${vesta_package}")
  add_dependencies(vesta vesta_kernel_compiler)  # they must be of one version
  install(TARGETS vesta_kernel_compiler RUNTIME DESTINATION ${vesta_lib_destination} COMPONENT runtime)
endif()

install(DIRECTORY include/vesta DESTINATION ${vesta_include_destination} COMPONENT development)
install(EXPORT VestaTargets NAMESPACE Vesta:: DESTINATION ${vesta_cmake_destination} COMPONENT development)
configure_package_config_file(cmake/VestaConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/VestaConfig.cmake"
  INSTALL_DESTINATION ${vesta_cmake_destination} NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/VestaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/VestaConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/VestaConfigVersion.cmake"
  cmake/VestaTorch.cmake DESTINATION ${vesta_cmake_destination} COMPONENT development)

include(VestaCuda)

if(VESTA_PYTHON)
  file(GLOB vesta_binding_sources CONFIGURE_DEPENDS python/bindings/*.cpp)
  if(vesta_binding_sources)
    include(VestaCapture)
    Python_add_library(_C MODULE WITH_SOABI ${vesta_binding_sources})
    target_link_libraries(_C PRIVATE vesta_flags vesta ${vesta_capture_libraries} vesta::torch_python)
    target_compile_definitions(_C PRIVATE TORCH_EXTENSION_NAME=_C)
    set_target_properties(_C PROPERTIES
      CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${vesta_package}" INSTALL_RPATH "${vesta_install_rpath}")
    if(SKBUILD)
      install(TARGETS _C LIBRARY DESTINATION vesta COMPONENT python)
    endif()
  endif()
  include(VestaPythonPackage)
  # What a program in Python needs, without the tests.
  add_custom_target(vesta_python DEPENDS _C vesta vesta_runtime_library $<TARGET_NAME_IF_EXISTS:vesta_cuda>)
endif()
