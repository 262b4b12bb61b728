# `cmake --build build --target coverage`: lines and branches that the tests run, by folder, in a
# build of its own. tools/dev/coverage.py can do the same for some of the tests.
set(TEGULA_COVERAGE_TESTS "" CACHE STRING "Tests of `coverage`, a regular expression; empty: all")
find_program(PYTHON3 NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(PYTHON3 AND NOT TEGULA_COVERAGE)
    add_custom_target(coverage
        COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/dev/coverage.py
                --build ${CMAKE_BINARY_DIR}/coverage --tests "${TEGULA_COVERAGE_TESTS}"
        USES_TERMINAL VERBATIM)
endif()
