# The capture of Python frames (src/capture/python): object libraries for the Python extension, never for libvesta.
# vesta_frame and vesta_interpreter need Python's headers only; the other folders, in vesta_capture_python, include
# torch as well.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

set(vesta_opcodes "${CMAKE_CURRENT_BINARY_DIR}/generated/vesta_opcodes.h")
add_custom_command(OUTPUT "${vesta_opcodes}"
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/tools/gen_opcodes.py" "${vesta_opcodes}"
  COMMAND "${CMAKE_COMMAND}" -E touch "${vesta_opcodes}"
  DEPENDS tools/gen_opcodes.py
  COMMENT "The opcodes of Python ${Python_VERSION}" VERBATIM)

file(GLOB vesta_frame_sources CONFIGURE_DEPENDS src/capture/python/frame/*.cpp)
add_library(vesta_frame OBJECT ${vesta_frame_sources} "${vesta_opcodes}")
target_link_libraries(vesta_frame PUBLIC vesta_flags Python::Module)
target_include_directories(vesta_frame SYSTEM PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")

file(GLOB vesta_interpreter_sources CONFIGURE_DEPENDS src/capture/python/interpreter/*.cpp)
add_library(vesta_interpreter OBJECT ${vesta_interpreter_sources} "${vesta_opcodes}")
target_link_libraries(vesta_interpreter PUBLIC vesta_flags Python::Module)
target_include_directories(vesta_interpreter SYSTEM PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
add_dependencies(vesta_interpreter vesta_frame)

file(GLOB_RECURSE vesta_capture_python_sources CONFIGURE_DEPENDS src/capture/python/*.cpp)
list(FILTER vesta_capture_python_sources EXCLUDE REGEX "/src/capture/python/(frame|interpreter)/")
set(vesta_capture_libraries vesta_frame vesta_interpreter)
if(vesta_capture_python_sources)
  add_library(vesta_capture_python OBJECT ${vesta_capture_python_sources})
  target_link_libraries(vesta_capture_python PUBLIC vesta_flags Python::Module vesta::torch_python)
  list(APPEND vesta_capture_libraries vesta_capture_python)
endif()
foreach(library IN LISTS vesta_capture_libraries)
  set_target_properties(${library} PROPERTIES CXX_VISIBILITY_PRESET hidden LINKER_LANGUAGE CXX)
endforeach()
