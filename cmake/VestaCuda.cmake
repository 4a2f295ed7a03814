# libvesta_cuda.so: the one library that is compiled against torch's CUDA headers. Nothing of CUDA is linked: what it
# calls are functions of torch's libc10_cuda, found when it is loaded. Built wherever CUDA's headers are, so that no GPU
# and no toolkit is needed: the packages nvidia-cuda-runtime and nvidia-cuda-crt have them.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)

# Folders where Python packages lie: torch's, and those of an isolated build.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sys; print(';'.join(p for p in sys.path if p.endswith('-packages')))"
  OUTPUT_VARIABLE vesta_python_folders OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(vesta_beside_torch "${VESTA_TORCH_DIR}" DIRECTORY)
set(vesta_cuda_folders "")
foreach(folder IN LISTS vesta_python_folders vesta_beside_torch)
  file(GLOB found "${folder}/nvidia/*/include")
  list(APPEND vesta_cuda_folders ${found})
endforeach()
list(APPEND vesta_cuda_folders "$ENV{CUDA_HOME}/include" /usr/local/cuda/include)
# cuda_runtime.h includes both.
find_path(VESTA_CUDA_RUNTIME_DIR cuda_runtime.h PATHS ${vesta_cuda_folders} NO_DEFAULT_PATH)
find_path(VESTA_CUDA_CRT_DIR crt/host_config.h PATHS ${vesta_cuda_folders} NO_DEFAULT_PATH)

if(NOT VESTA_CUDA_RUNTIME_DIR OR NOT VESTA_CUDA_CRT_DIR)
  message(STATUS "Vesta: no CUDA graphs, for there are no CUDA headers "
                 "(pip install nvidia-cuda-runtime nvidia-cuda-crt, or set CUDA_HOME)")
  return()
endif()

set(vesta_cuda_generated "${CMAKE_CURRENT_BINARY_DIR}/generated/cuda_library")
# A CPU build of torch has c10's CUDA headers, but not this one, which its own build makes.
if(NOT EXISTS "${VESTA_TORCH_DIR}/include/c10/cuda/impl/cuda_cmake_macros.h")
  file(CONFIGURE OUTPUT "${vesta_cuda_generated}/c10/cuda/impl/cuda_cmake_macros.h"
    CONTENT "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n")
endif()
set(vesta_forwarding_allocator "${vesta_cuda_generated}/vesta_forwarding_allocator.inc")
add_custom_command(OUTPUT "${vesta_forwarding_allocator}"
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/tools/gen_forwarding_allocator.py"
    "${VESTA_TORCH_DIR}/include" "${vesta_forwarding_allocator}"
    allocate raw_deleter raw_alloc raw_alloc_with_stream raw_delete recordStream
  DEPENDS tools/gen_forwarding_allocator.py COMMENT "The CUDA allocator of torch ${VESTA_TORCH_VERSION}" VERBATIM)
add_custom_target(vesta_forwarding_allocator DEPENDS "${vesta_forwarding_allocator}")
add_dependencies(vesta_generated vesta_forwarding_allocator)

add_library(vesta_cuda_sources OBJECT src/runtime/cuda/library/forwarding_allocator.cpp
  src/runtime/cuda/library/torch_cuda_library.cpp "${vesta_forwarding_allocator}")
target_link_libraries(vesta_cuda_sources PUBLIC vesta_flags vesta::torch)
target_include_directories(vesta_cuda_sources SYSTEM PUBLIC
  "${vesta_cuda_generated}" "${VESTA_CUDA_RUNTIME_DIR}" "${VESTA_CUDA_CRT_DIR}")
set_target_properties(vesta_cuda_sources PROPERTIES CXX_VISIBILITY_PRESET hidden)

# In the place of torch's library at link time: an empty one of the same name.
add_library(vesta_c10_cuda SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
set_target_properties(vesta_c10_cuda PROPERTIES OUTPUT_NAME c10_cuda
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/link_only")

add_library(vesta_cuda SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
target_link_libraries(vesta_cuda PRIVATE vesta_cuda_sources)
target_link_options(vesta_cuda PRIVATE "LINKER:--gc-sections" "LINKER:--unresolved-symbols=ignore-all"
  "LINKER:--push-state,--no-as-needed" "$<TARGET_FILE:vesta_c10_cuda>" "LINKER:--pop-state")
add_dependencies(vesta_cuda vesta_c10_cuda)
set_target_properties(vesta_cuda PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${vesta_package}" BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${vesta_install_rpath}")
install(TARGETS vesta_cuda LIBRARY DESTINATION ${vesta_lib_destination} COMPONENT runtime)
