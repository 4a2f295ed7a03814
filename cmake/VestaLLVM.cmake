# vesta_llvm: LLVM 19, linked statically and only the components that code generation needs. Its symbols stay inside
# (see cmake/vesta.map), so that it cannot meet another LLVM in the same process.
find_package(LLVM 19.1 REQUIRED CONFIG)
llvm_map_components_to_libnames(vesta_llvm_libraries core orcjit native passes)
add_library(vesta_llvm INTERFACE)
target_include_directories(vesta_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(vesta_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(vesta_llvm INTERFACE ${vesta_llvm_definitions})
target_compile_definitions(vesta_llvm INTERFACE VESTA_WITH_LLVM=1)
target_link_libraries(vesta_llvm INTERFACE ${vesta_llvm_libraries})
message(STATUS "Vesta: LLVM ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}")
