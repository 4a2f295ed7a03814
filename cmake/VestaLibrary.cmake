# libvesta.so (every stage; no Python in it) and the Python extension vesta._C.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp.in" "")
configure_file("${CMAKE_CURRENT_BINARY_DIR}/empty.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp" COPYONLY)
add_library(vesta SHARED "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
foreach(stage IN LISTS vesta_stages)
  target_link_libraries(vesta PRIVATE vesta_${stage})
endforeach()
target_link_options(vesta PRIVATE
  "LINKER:--exclude-libs,ALL" "LINKER:--gc-sections" "LINKER:--no-undefined"
  "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/vesta.map")
set_target_properties(vesta PROPERTIES LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/vesta.map"
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/python/vesta")

if(VESTA_PYTHON)
  file(GLOB vesta_binding_sources CONFIGURE_DEPENDS python/bindings/*.cpp)
  if(vesta_binding_sources)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
    Python_add_library(_C MODULE WITH_SOABI ${vesta_binding_sources})
    target_link_libraries(_C PRIVATE vesta_flags vesta vesta::torch_python)
    target_compile_definitions(_C PRIVATE TORCH_EXTENSION_NAME=_C TORCH_API_INCLUDE_EXTENSION_H)
    set_target_properties(_C PROPERTIES CXX_VISIBILITY_PRESET hidden
      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/python/vesta")
  endif()
endif()
