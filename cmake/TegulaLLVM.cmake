# Interface target TegulaLLVM: the shared library of LLVM 22, found by llvm-config in milliseconds
# (an LLVM config package takes seconds to load). TEGULA_STATIC_LLVM links LLVM and everything else
# except libc statically, so that the result runs on other machines (TegulaGlibc.cmake chooses the
# glibc). With TEGULA_ONE_LLVM, libtegula_llvm.so beside libtegula.so holds LLVM for the library and
# for the programs.
option(TEGULA_STATIC_LLVM "Link LLVM's static libraries" OFF)
option(TEGULA_ONE_LLVM "Put static LLVM into libtegula_llvm.so, for library and programs" OFF)
find_program(LLVM_CONFIG NAMES llvm-config-22 llvm-config PATHS /usr/lib/llvm-22/bin REQUIRED)
execute_process(COMMAND ${LLVM_CONFIG} --version --includedir --libdir --bindir
                OUTPUT_VARIABLE llvm_out OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" llvm_out "${llvm_out}")
list(GET llvm_out 0 LLVM_VERSION)
list(GET llvm_out 1 LLVM_INCLUDE_DIR)
list(GET llvm_out 2 LLVM_LIB_DIR)
list(GET llvm_out 3 LLVM_BIN_DIR)
if(LLVM_VERSION VERSION_LESS 22)
    message(FATAL_ERROR "LLVM 22 is needed, ${LLVM_CONFIG} is of ${LLVM_VERSION}")
endif()
find_library(LLVM_LIBRARY NAMES LLVM-22 LLVM PATHS ${LLVM_LIB_DIR} NO_DEFAULT_PATH REQUIRED)
add_library(TegulaLLVM INTERFACE)
target_include_directories(TegulaLLVM SYSTEM INTERFACE ${LLVM_INCLUDE_DIR})

# The path of a static library of the compiler or the system.
function(tegula_static name out)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=lib${name}.a
                    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT IS_ABSOLUTE "${path}")
        message(FATAL_ERROR "TEGULA_STATIC_LLVM needs lib${name}.a, which was not found: "
                            "tools/dev/setup.sh --dev installs it")
    endif()
    set(${out} ${path} PARENT_SCOPE)
endfunction()

if(TEGULA_STATIC_LLVM)
    execute_process(COMMAND ${LLVM_CONFIG} --link-static --libfiles x86 aarch64 nvptx amdgpu orcjit
                            orcdebugging passes
                    OUTPUT_VARIABLE LLVM_ARCHIVES OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(LLVM_ARCHIVES)
    tegula_static(stdc++ STDCXX_ARCHIVE)
    tegula_static(z Z_ARCHIVE)
    tegula_static(zstd ZSTD_ARCHIVE)
    tegula_static(png PNG_ARCHIVE) # needed by the tools
    set(PNG_LIBRARY ${PNG_ARCHIVE} CACHE FILEPATH "" FORCE)
    set(ZLIB_LIBRARY ${Z_ARCHIVE} CACHE FILEPATH "" FORCE)
    set(parts_of_llvm ${LLVM_ARCHIVES} ${ZSTD_ARCHIVE} ${Z_ARCHIVE} ${STDCXX_ARCHIVE})
    if(TEGULA_ONE_LLVM)
        # The file is passed as an argument of the linker, not as a target: the rule that makes it
        # reads the objects of the libraries that link it (TegulaOneLLVM.cmake).
        set(TEGULA_LLVM_FILE ${CMAKE_BINARY_DIR}/lib/libtegula_llvm.so.${PROJECT_VERSION_MAJOR})
        target_link_libraries(TegulaLLVM INTERFACE -Wl,${TEGULA_LLVM_FILE} ${CMAKE_DL_LIBS}
                              Threads::Threads m)
    else()
        target_link_libraries(TegulaLLVM INTERFACE ${parts_of_llvm} ${CMAKE_DL_LIBS}
                              Threads::Threads m)
    endif()
    target_link_options(TegulaLLVM INTERFACE -static-libgcc LINKER:--gc-sections
                        LINKER:--exclude-libs,ALL)
else()
    target_link_libraries(TegulaLLVM INTERFACE ${LLVM_LIBRARY})
endif()

# The run path of installed programs and libraries: CMAKE_INSTALL_RPATH, then LLVM's folder if the
# loader would not look there. Programs in the build tree have it already. If an installation
# replaced the path, CMake would leave an empty entry, which the loader takes as the current folder.
get_filename_component(llvm_real ${LLVM_LIBRARY} REALPATH)
get_filename_component(llvm_real ${llvm_real} DIRECTORY)
set(TEGULA_RUN_PATH ${CMAKE_INSTALL_RPATH})
if(NOT TEGULA_STATIC_LLVM AND NOT llvm_real IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND TEGULA_RUN_PATH ${LLVM_LIB_DIR})
endif()
if(TEGULA_ONE_LLVM)
    list(APPEND TEGULA_RUN_PATH $ORIGIN $ORIGIN/../lib)
endif()
function(tegula_run_path target)
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                                               INSTALL_RPATH "${TEGULA_RUN_PATH}")
endfunction()
