# Finds the torch of a Python environment and defines imported targets:
#   vesta::torch         headers, libtorch, libtorch_cpu, libc10
#   vesta::torch_python  adds libtorch_python (bindings only)
# torch's own CMake package is not used, because for a CUDA build of torch it requires a CUDA toolkit, which Vesta does
# not need.
#
# Input: Python_EXECUTABLE, or VESTA_TORCH_DIR (the folder with torch's include/ and lib/).

if(NOT VESTA_TORCH_DIR)
  if(NOT Python_EXECUTABLE)
    find_program(Python_EXECUTABLE NAMES python3 python REQUIRED)
  endif()
  # Again with -I, because in an isolated build pip hides the environment's packages with a PYTHONPATH of its own.
  foreach(vesta_python_mode "" "-I")
    if(NOT VESTA_TORCH_DIR)
      execute_process(
        COMMAND "${Python_EXECUTABLE}" ${vesta_python_mode} -c
                "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE VESTA_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
  endforeach()
  if(NOT VESTA_TORCH_DIR)
    message(FATAL_ERROR "torch is not installed in the Python environment of ${Python_EXECUTABLE}. "
                        "Give another interpreter with -DPython_EXECUTABLE=..., or torch's folder with -DVESTA_TORCH_DIR=...")
  endif()
endif()

set(VESTA_TORCH_LIB_DIR "${VESTA_TORCH_DIR}/lib")
if(NOT EXISTS "${VESTA_TORCH_LIB_DIR}/libtorch_cpu.so")
  message(FATAL_ERROR "no libtorch_cpu.so in ${VESTA_TORCH_LIB_DIR}: VESTA_TORCH_DIR must be the folder that holds torch's include/ and lib/")
endif()
file(STRINGS "${VESTA_TORCH_DIR}/include/torch/headeronly/version.h" vesta_torch_version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
set(VESTA_TORCH_VERSION "")
foreach(line IN LISTS vesta_torch_version_lines)
  string(REGEX REPLACE ".* ([0-9]+)$" "\\1" part "${line}")
  list(APPEND VESTA_TORCH_VERSION ${part})
endforeach()
list(JOIN VESTA_TORCH_VERSION "." VESTA_TORCH_VERSION)
# torch's result for a float that is too large for float8_e4m3fn: the largest value or, in older versions, NaN.
file(STRINGS "${VESTA_TORCH_DIR}/include/torch/headeronly/util/Float8_e4m3fn.h" vesta_saturating_lines REGEX "result = 0x7e")
if(vesta_saturating_lines)
  set(VESTA_E4M3FN_SATURATES 1)
endif()

if(NOT TARGET vesta::torch)
  add_library(vesta::torch INTERFACE IMPORTED)
  target_include_directories(vesta::torch SYSTEM INTERFACE
    "${VESTA_TORCH_DIR}/include" "${VESTA_TORCH_DIR}/include/torch/csrc/api/include")
  # Linux wheels of every supported torch are built with the C++11 ABI of libstdc++.
  target_compile_definitions(vesta::torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
  target_link_libraries(vesta::torch INTERFACE
    "${VESTA_TORCH_LIB_DIR}/libtorch.so" "${VESTA_TORCH_LIB_DIR}/libtorch_cpu.so" "${VESTA_TORCH_LIB_DIR}/libc10.so")
  # at::parallel_for is a template, so its parallel region is compiled into Vesta. It must run on the threads of torch's
  # OpenMP library.
  file(GLOB vesta_torch_openmp "${VESTA_TORCH_LIB_DIR}/libgomp*.so*")
  if(NOT vesta_torch_openmp)
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    set(vesta_torch_openmp ${OpenMP_CXX_LIBRARIES})
  endif()
  target_link_libraries(vesta::torch INTERFACE ${vesta_torch_openmp})
  # A CUDA build of libtorch.so needs CUDA libraries from other wheels. They are found when the program runs.
  target_link_options(vesta::torch INTERFACE "LINKER:--allow-shlib-undefined" "LINKER:-rpath-link,${VESTA_TORCH_LIB_DIR}")

  add_library(vesta::torch_python INTERFACE IMPORTED)
  target_link_libraries(vesta::torch_python INTERFACE "${VESTA_TORCH_LIB_DIR}/libtorch_python.so" vesta::torch)
endif()
