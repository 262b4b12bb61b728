# Compiler flags that make a memory error harder to exploit, where supported: stack protector,
# checked string functions, branch target marks (CET, BTI), tables that are read-only at run time.
# tests/install/hardened.py checks the result.
option(TEGULA_HARDEN "Build with the compiler's hardening flags" ON)
if(NOT TEGULA_HARDEN OR TEGULA_SANITIZE OR TEGULA_COVERAGE OR TEGULA_FUZZ)
    return()
endif()

include(CheckCCompilerFlag)
function(tegula_flag_if_there flag)
    string(MAKE_C_IDENTIFIER "HAVE${flag}" have)
    check_c_compiler_flag(${flag} ${have})
    if(${have})
        add_compile_options(${flag})
    endif()
endfunction()

tegula_flag_if_there(-fstack-protector-strong)
# The runtime's warm launch has some 400 instructions; the strong protector would add 33.
set(TEGULA_HARDEN_LEAN -fstack-protector)
tegula_flag_if_there(-fstack-clash-protection)
tegula_flag_if_there(-mbranch-protection=standard)
tegula_flag_if_there(-fcf-protection=full)
# Checked functions need an optimiser. A level set by the compiler or by a distribution's flags
# stays. The test runs at each configuration, since flags change.
include(CheckCSourceCompiles)
if(CMAKE_BUILD_TYPE MATCHES "Rel")
    string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" flags_of_type)
    set(CMAKE_REQUIRED_FLAGS "${${flags_of_type}}")
    set(CMAKE_REQUIRED_QUIET ON)
    unset(TEGULA_FORTIFIED CACHE)
    check_c_source_compiles("
#ifndef _FORTIFY_SOURCE
#error not set
#endif
int main(void) { return 0; }" TEGULA_FORTIFIED)
    unset(CMAKE_REQUIRED_FLAGS)
    unset(CMAKE_REQUIRED_QUIET)
    if(NOT TEGULA_FORTIFIED)
        add_compile_options(-D_FORTIFY_SOURCE=2)
    endif()
endif()
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
