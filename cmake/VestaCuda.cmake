# libvesta_cuda.so: the only library that is compiled against torch's CUDA headers. Building it needs neither a GPU nor
# a CUDA build of torch: the functions that it calls are found in torch's libc10_cuda when it is loaded. It needs CUDA's
# headers from the packages nvidia-cuda-runtime and nvidia-cuda-crt, and is left out without them.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)

# Folders that may contain CUDA's headers, first those of the Python environment: an isolated build has its own.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sys; print(';'.join(p for p in sys.path if p.endswith('-packages')))"
  OUTPUT_VARIABLE vesta_python_folders OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(vesta_beside_torch "${VESTA_TORCH_DIR}" DIRECTORY)
set(vesta_cuda_folders "")
foreach(folder IN LISTS vesta_python_folders vesta_beside_torch)
  file(GLOB found "${folder}/nvidia/*/include")
  list(APPEND vesta_cuda_folders ${found})
endforeach()
if(DEFINED ENV{CUDA_HOME})
  list(APPEND vesta_cuda_folders "$ENV{CUDA_HOME}/include")
endif()
list(APPEND vesta_cuda_folders /usr/local/cuda/include)

# The first folder that has both parts. It is not cached, because the folders of an isolated build do not last.
set(vesta_cuda_headers "")
foreach(folder IN LISTS vesta_cuda_folders)
  if(NOT vesta_cuda_headers AND EXISTS "${folder}/cuda_runtime.h" AND EXISTS "${folder}/crt/host_config.h")
    set(vesta_cuda_headers "${folder}")
  endif()
endforeach()
if(NOT vesta_cuda_headers)
  message(STATUS "Vesta: without libvesta_cuda (CUDA graphs): there are no CUDA headers in Python's packages, CUDA_HOME "
                 "or /usr/local/cuda (pip install nvidia-cuda-runtime nvidia-cuda-crt)")
  return()
endif()
message(STATUS "Vesta: CUDA headers in ${vesta_cuda_headers}")

set(vesta_cuda_generated "${CMAKE_CURRENT_BINARY_DIR}/generated/cuda_library")
# For sources that include torch's CUDA headers. Of torch's libraries it links libc10 only, which needs no CUDA library.
# A CPU build of torch has all headers except one, which a CUDA build makes.
add_library(vesta_cuda_headers INTERFACE)
target_link_libraries(vesta_cuda_headers INTERFACE "${VESTA_TORCH_LIB_DIR}/libc10.so")
target_compile_definitions(vesta_cuda_headers INTERFACE $<TARGET_PROPERTY:vesta::torch,INTERFACE_COMPILE_DEFINITIONS>)
target_include_directories(vesta_cuda_headers SYSTEM INTERFACE "${vesta_cuda_headers}"
  $<TARGET_PROPERTY:vesta::torch,INTERFACE_INCLUDE_DIRECTORIES>)
if(NOT EXISTS "${VESTA_TORCH_DIR}/include/c10/cuda/impl/cuda_cmake_macros.h")
  file(CONFIGURE OUTPUT "${vesta_cuda_generated}/macros/c10/cuda/impl/cuda_cmake_macros.h"
    CONTENT "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n")
  target_include_directories(vesta_cuda_headers SYSTEM INTERFACE "${vesta_cuda_generated}/macros")
endif()

# vesta_forwarding_allocator(<file> <names...>): makes a file that forwards each function of torch's allocator except
# those named; a name with several overloads is <name>=<number>.
function(vesta_forwarding_allocator file)
  set(classes core/Allocator.h core/CachingDeviceAllocator.h cuda/CUDACachingAllocator.h)
  list(TRANSFORM classes PREPEND "${VESTA_TORCH_DIR}/include/c10/")
  set(script "${PROJECT_SOURCE_DIR}/tools/gen_forwarding_allocator.py")
  add_custom_command(OUTPUT "${file}"
    COMMAND "${Python_EXECUTABLE}" "${script}" "${VESTA_TORCH_DIR}/include" "${file}" ${ARGN}
    DEPENDS "${script}" ${classes} COMMENT "The CUDA allocator of torch ${VESTA_TORCH_VERSION}" VERBATIM)
endfunction()
set(vesta_forwarding_file "${vesta_cuda_generated}/vesta_forwarding_allocator.inc")
vesta_forwarding_allocator("${vesta_forwarding_file}" allocate raw_alloc raw_alloc_with_stream raw_delete recordStream=2)
add_custom_target(vesta_cuda_allocator DEPENDS "${vesta_forwarding_file}")
add_dependencies(vesta_generated vesta_cuda_allocator)

add_library(vesta_cuda_sources OBJECT src/runtime/cuda/library/forwarding_allocator.cpp
  src/runtime/cuda/library/torch_cuda_library.cpp "${vesta_forwarding_file}")
target_link_libraries(vesta_cuda_sources PUBLIC vesta_flags vesta_cuda_headers)
target_include_directories(vesta_cuda_sources SYSTEM PRIVATE "${vesta_cuda_generated}")
set_target_properties(vesta_cuda_sources PROPERTIES CXX_VISIBILITY_PRESET hidden)

# An empty library with the name of torch's, to link against.
add_library(vesta_c10_cuda SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
set_target_properties(vesta_c10_cuda PROPERTIES OUTPUT_NAME c10_cuda
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/link_only")

add_library(vesta_cuda SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
target_link_libraries(vesta_cuda PRIVATE vesta_cuda_sources)
add_dependencies(vesta_cuda vesta_c10_cuda)
set(vesta_cuda_map "${CMAKE_CURRENT_SOURCE_DIR}/cmake/vesta_cuda.map")
target_link_options(vesta_cuda PRIVATE
  "LINKER:--no-as-needed" "$<TARGET_FILE:vesta_c10_cuda>" "LINKER:--unresolved-symbols=ignore-all" "LINKER:--gc-sections"
  "LINKER:--version-script=${vesta_cuda_map}")
set_target_properties(vesta_cuda PROPERTIES LINK_DEPENDS "${vesta_cuda_map}"
  LIBRARY_OUTPUT_DIRECTORY "${vesta_package}" BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${vesta_install_rpath}")
install(TARGETS vesta_cuda LIBRARY DESTINATION ${vesta_lib_destination} COMPONENT runtime)
