# Completes <build>/python: links to the Python sources, facts about the build, and the package's metadata (so that
# entry points are found, too). Nothing is copied, so editing a Python file needs no build.
set(vesta_python_sources "${CMAKE_CURRENT_SOURCE_DIR}/python/vesta")
file(GLOB_RECURSE vesta_python_files RELATIVE "${vesta_python_sources}" CONFIGURE_DEPENDS
  "${vesta_python_sources}/*.py" "${vesta_python_sources}/*.pyi" "${vesta_python_sources}/py.typed")
foreach(file IN LISTS vesta_python_files)
  get_filename_component(folder "${vesta_package}/${file}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  file(CREATE_LINK "${vesta_python_sources}/${file}" "${vesta_package}/${file}" SYMBOLIC)
endforeach()

if(VESTA_LLVM)
  set(vesta_llvm_version "${LLVM_PACKAGE_VERSION}")
else()
  set(vesta_llvm_version "")
endif()
file(CONFIGURE OUTPUT "${vesta_package}/_build.py" @ONLY CONTENT
"\"\"\"What this build was made of.\"\"\"

VERSION = \"@PROJECT_VERSION@\"
TORCH_VERSION = \"@VESTA_TORCH_VERSION@\"
LLVM_VERSION = \"@vesta_llvm_version@\"
")

if(SKBUILD)
  install(FILES "${vesta_package}/_build.py" DESTINATION vesta COMPONENT python)
else()
  set(vesta_metadata "${CMAKE_CURRENT_BINARY_DIR}/python/vesta-${PROJECT_VERSION}.dist-info")
  file(WRITE "${vesta_metadata}/METADATA" "Metadata-Version: 2.1\nName: vesta\nVersion: ${PROJECT_VERSION}\n")
  file(WRITE "${vesta_metadata}/entry_points.txt" "[torch_dynamo_backends]\nvesta = vesta.backend:vesta\n")
  file(WRITE "${vesta_metadata}/INSTALLER" "cmake\n")
endif()
