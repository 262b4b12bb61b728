# `cmake --build BUILD --target bundle`: tegula-VERSION-ARCH-linux.tar.zst, an archive that runs on
# machines without our libraries. It holds the install tree, linked with LLVM's static libraries in
# a build of its own, the Python package, the run tests and the benchmarks.
string(TOLOWER "${CMAKE_SYSTEM_NAME}" TEGULA_SYSTEM)
set(TEGULA_BUNDLE tegula-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR}-${TEGULA_SYSTEM})
add_custom_target(bundle
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DBINARY=${CMAKE_BINARY_DIR}/bundle
            -DNAME=${TEGULA_BUNDLE} -DOUT=${CMAKE_BINARY_DIR}/${TEGULA_BUNDLE}.tar.zst
            -DCOMPILER=${CMAKE_C_COMPILER} -P ${CMAKE_SOURCE_DIR}/cmake/bundle.cmake
    USES_TERMINAL VERBATIM)
