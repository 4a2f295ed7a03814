# vesta_llvm: LLVM 19, linked statically and only the components that code generation needs. Its symbols stay inside
# (see cmake/vesta.map), so that it cannot meet another LLVM in the same process.
find_package(LLVM 19.1 REQUIRED CONFIG)
llvm_map_components_to_libnames(vesta_llvm_libraries core native passes)

# The system libraries that LLVM's archives need are linked statically, too. The constraint solver is never called.
find_library(VESTA_ZLIB NAMES libz.a REQUIRED)
get_target_property(vesta_llvm_system LLVMSupport INTERFACE_LINK_LIBRARIES)
list(TRANSFORM vesta_llvm_system REPLACE "^ZLIB::ZLIB$" "${VESTA_ZLIB}")
list(TRANSFORM vesta_llvm_system REPLACE "^zstd::libzstd_(shared|static)$" "${VESTA_ZSTD}")
list(FILTER vesta_llvm_system EXCLUDE REGEX "libz3|Z3|LibXml2|Terminfo|LibEdit")
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${vesta_llvm_system}")

add_library(vesta_llvm INTERFACE)
target_include_directories(vesta_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(vesta_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(vesta_llvm INTERFACE ${vesta_llvm_definitions})
target_compile_definitions(vesta_llvm INTERFACE VESTA_WITH_LLVM=1)
target_link_libraries(vesta_llvm INTERFACE ${vesta_llvm_libraries})
message(STATUS "Vesta: LLVM ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}")
