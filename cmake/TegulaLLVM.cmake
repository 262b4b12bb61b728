# Interface target TegulaLLVM: the shared library of LLVM 22, found by llvm-config (an LLVM config
# package takes seconds to load; this takes milliseconds).
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
target_link_libraries(TegulaLLVM INTERFACE ${LLVM_LIBRARY})
