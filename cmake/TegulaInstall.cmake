# Install rules: programs, libraries, headers, the library of kernels, and the files for pkg-config
# and CMake. Components: runtime (shared libraries), dev (to build programs with them), tools (the
# command), doc, and internal (tegula-opt, for work on the compiler). TegulaPackage.cmake makes
# packages of them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(TEGULA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tegula)
file(RELATIVE_PATH TEGULA_CONFIG_TO_ROOT /${TEGULA_CMAKE_DIR} /)
file(RELATIVE_PATH TEGULA_PC_TO_ROOT /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)

install(FILES ${CMAKE_SOURCE_DIR}/runtime/tegula.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev)
install(FILES ${CMAKE_SOURCE_DIR}/runtime/tegula/dlpack.h ${CMAKE_SOURCE_DIR}/runtime/abi.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tegula COMPONENT dev)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/stdlib/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tegula/std
        COMPONENT tools FILES_MATCHING PATTERN "*.teg")
install(FILES ${CMAKE_SOURCE_DIR}/tools/gdb/tegula_gdb.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/tegula/gdb COMPONENT tools)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/editors DESTINATION ${CMAKE_INSTALL_DATADIR}/tegula
        COMPONENT tools PATTERN node_modules EXCLUDE)
# Pages link each other by relative paths, so they keep their relative places.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT doc FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(FILES ${CMAKE_SOURCE_DIR}/lang/grammar.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/lang
        COMPONENT doc)
foreach(page python/README.md tools/amdsim/README.md stdlib/math.teg stdlib/prelude.teg)
    get_filename_component(folder ${page} DIRECTORY)
    install(FILES ${CMAKE_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder}
            COMPONENT doc)
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc
        FILES_MATCHING REGEX "/(Makefile|CMakeLists\\.txt|[^/]+\\.(teg|c|cpp|h|py|md|sh|png))$")
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE
              ${CMAKE_SOURCE_DIR}/SECURITY.md
              ${CMAKE_SOURCE_DIR}/CONTRIBUTING.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md
              ${CMAKE_SOURCE_DIR}/RELEASING.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
set(libraries tegula_rt_static tegula_rt_shared tegula_shared)
if(NOT TEGULA_ONE_LLVM) # programs with the static library would need LLVM's
    list(APPEND libraries tegula_static)
endif()
if(TEGULA_STATIC_LLVM) # licences: tools/release/notices.sh
    install(DIRECTORY ${CMAKE_BINARY_DIR}/gen/third-party DESTINATION ${CMAKE_INSTALL_DOCDIR}
            COMPONENT runtime OPTIONAL)
endif()
foreach(library ${libraries})
    if(TARGET ${library})
        install(TARGETS ${library} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
                LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
                NAMELINK_COMPONENT dev)
    endif()
endforeach()

function(tegula_pkgconfig name description)
    set(TEGULA_PC_NAME ${name})
    set(TEGULA_PC_DESCRIPTION ${description})
    set(TEGULA_PC_PRIVATE "${ARGN}") # other libraries that the static library needs
    configure_file(${CMAKE_SOURCE_DIR}/cmake/tegula.pc.in ${CMAKE_BINARY_DIR}/gen/${name}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/gen/${name}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()
tegula_pkgconfig(tegula_rt "Runs tensor kernels that were compiled ahead of time")
get_filename_component(TEGULA_LLVM_NAME ${LLVM_LIBRARY} NAME_WE)
string(REGEX REPLACE "^lib" "" TEGULA_LLVM_NAME ${TEGULA_LLVM_NAME})
set(private " -L${LLVM_LIB_DIR} -l${TEGULA_LLVM_NAME} -lsqlite3")
if(TEGULA_ONE_LLVM)
    set(private "")
endif()
tegula_pkgconfig(tegula "Compiles and runs tensor kernels" "${private}")

configure_file(${CMAKE_SOURCE_DIR}/cmake/tegula-config.cmake.in
               ${CMAKE_BINARY_DIR}/gen/tegula-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gen/tegula-config-version.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gen/tegula-config.cmake
              ${CMAKE_BINARY_DIR}/gen/tegula-config-version.cmake
        DESTINATION ${TEGULA_CMAKE_DIR} COMPONENT dev)
