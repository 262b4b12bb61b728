# libtegula: compiler and runtime as one library, shared and static. Both export only the C API.
set(parts tglang tgir tgfrontend tgpasses tgbackends tgstdlib tgcache tgdriver tegula_rt)
set(objects)
foreach(part ${parts})
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
endforeach()

# Threads and their data outlive dlclose, as in the runtime's own library.
add_library(tegula_shared SHARED ${objects})
target_link_libraries(tegula_shared PRIVATE TegulaLLVM TegulaSQLite Threads::Threads
                      ${CMAKE_DL_LIBS} m)
target_link_options(tegula_shared PRIVATE LINKER:-z,nodelete
                    LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map)
set_target_properties(tegula_shared PROPERTIES OUTPUT_NAME tegula LINKER_LANGUAGE C
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
tegula_run_path(tegula_shared)

# A static library is one object with local hidden names, so that none collides with a name of the
# program.
find_program(LD_PROGRAM NAMES ld.bfd ld REQUIRED)
function(tegula_static_library target output) # parts...
    set(whole ${CMAKE_BINARY_DIR}/gen/${output}.o)
    set(objects)
    foreach(part ${ARGN})
        list(APPEND objects $<TARGET_OBJECTS:${part}>)
    endforeach()
    add_custom_command(
        OUTPUT ${whole}
        COMMAND ${LD_PROGRAM} -r -o ${whole} ${objects}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole}
        DEPENDS ${ARGN} ${objects} COMMAND_EXPAND_LISTS VERBATIM COMMENT "linking lib${output}.a")
    add_library(${target} STATIC ${whole})
    set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE C)
    target_link_libraries(${target} PUBLIC Threads::Threads)
endfunction()
tegula_static_library(tegula_rt_static tegula_rt tegula_rt)
# A program with this library also links LLVM and SQLite.
tegula_static_library(tegula_static tegula ${parts})
target_link_libraries(tegula_static PUBLIC TegulaLLVM TegulaSQLite ${CMAKE_DL_LIBS} m)
