# Settings of every target: language standard, warnings, sanitizers, ccache.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3 -DTG_DEBUG")

option(TEGULA_WERROR "Treat warnings as errors" ON)
set(TEGULA_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined | thread")
option(TEGULA_COVERAGE "Count what runs, for gcov (gcc only): see tools/dev/coverage.py" OFF)
option(TEGULA_FUZZ "Build tests/fuzz with libFuzzer (clang only)" OFF)

# _GNU_SOURCE: strict C17 hides POSIX (clock_gettime, mmap, dlopen), which the runtime needs.
add_compile_definitions(_GNU_SOURCE=)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
                    -Wpointer-arith -Wwrite-strings -Werror=enum-conversion -ffp-contract=off
                    -fno-strict-aliasing -fno-omit-frame-pointer)
if(TEGULA_WERROR)
    add_compile_options(-Werror)
endif()

if(TEGULA_SANITIZE)
    add_compile_options(-fsanitize=${TEGULA_SANITIZE})
    add_link_options(-fsanitize=${TEGULA_SANITIZE})
    if(TEGULA_SANITIZE MATCHES "address")
        add_compile_definitions(TEGULA_HOSTILE) # lang/base.c: each block gets a chunk of its own
        add_compile_options(-g1) # reports only need lines; compiling and linking take less
    endif()
    if(TEGULA_SANITIZE MATCHES "thread")
        # -O1 -g1 halves the build time, and reports only need lines. -O1 causes false warnings.
        add_compile_options(-O1 -g1 -Wno-error=maybe-uninitialized)
    endif()
    if(TEGULA_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
endif()
include(TegulaHarden)
if(TEGULA_COVERAGE)
    add_compile_options(--coverage -fprofile-update=atomic -O1 -include
                        ${CMAKE_SOURCE_DIR}/tools/dev/coverage_exit.h)
    add_link_options(--coverage)
endif()
if(TEGULA_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "TEGULA_FUZZ needs clang: use the preset 'fuzz'")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Each unit test links everything, and gold is several times faster than ld.
find_program(GOLD_PROGRAM ld.gold)
if(GOLD_PROGRAM AND NOT TEGULA_SANITIZE AND NOT TEGULA_FUZZ)
    add_link_options(-fuse-ld=gold)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT DEFINED CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
