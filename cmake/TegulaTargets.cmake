# Makes a static library for each folder. Its include directory holds links to the allowed folders
# only, so an #include of "ir/ir.h" in a file of lang/ does not compile.

# A folder may still be empty, and CMake wants at least one source.
set(TEGULA_EMPTY_C ${CMAKE_BINARY_DIR}/gen/empty.c)
file(CONFIGURE OUTPUT ${TEGULA_EMPTY_C} CONTENT "typedef int tg_empty_unit;\n" @ONLY)

function(tegula_include_dir target)
    set(dir ${CMAKE_BINARY_DIR}/include/${target})
    file(MAKE_DIRECTORY ${dir})
    foreach(entry ${ARGN})
        if(NOT IS_SYMLINK ${dir}/${entry})
            get_filename_component(above ${dir}/${entry} DIRECTORY)
            if(IS_SYMLINK ${above}) # else a link would be made in the source tree
                file(REMOVE ${above})
            endif()
            file(MAKE_DIRECTORY ${above})
            file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${entry} ${dir}/${entry} SYMBOLIC)
        endif()
    endforeach()
    target_include_directories(${target} PRIVATE ${dir})
    # Messages and debug information hold paths relative to the repository.
    target_compile_options(${target} PRIVATE -ffile-prefix-map=${dir}/=
                                             -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
endfunction()

# With TEGULA_MUTANTS, copies of the sources with faults are compiled, and TG_MUTANT chooses one
# (docs/inside/testing.md).
option(TEGULA_MUTANTS "Build faults in, for trying the tests" OFF)
set(TEGULA_MUTANT_SEED 1 CACHE STRING "Where drawn faults stand")
set(TEGULA_MUTANT_DIR ${CMAKE_BINARY_DIR}/mutants)
if(TEGULA_MUTANTS)
    find_program(PYTHON3 NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
    find_program(PYTHON3 NAMES python3 REQUIRED)
    execute_process(COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/mutants/instrument.py
                            --source ${CMAKE_SOURCE_DIR} --out ${TEGULA_MUTANT_DIR}
                            --seed ${TEGULA_MUTANT_SEED}
                    COMMAND_ERROR_IS_FATAL ANY)
endif()
function(tegula_with_mutants list)
    set(out "")
    foreach(source ${${list}})
        file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
        if(EXISTS ${TEGULA_MUTANT_DIR}/${path})
            set(source ${TEGULA_MUTANT_DIR}/${path})
            set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
                                        "-w;-include;${TEGULA_MUTANT_DIR}/mutant.h")
        endif()
        list(APPEND out ${source})
    endforeach()
    set(${list} ${out} PARENT_SCOPE)
endfunction()

# tegula_library(NAME FOLDER f [USES folders and single headers...])
function(tegula_library target)
    cmake_parse_arguments(ARG "" "FOLDER" "USES" ${ARGN})
    set(root ${CMAKE_SOURCE_DIR}/${ARG_FOLDER})
    if(ARG_FOLDER STREQUAL "tools") # its subfolders are programs
        file(GLOB sources CONFIGURE_DEPENDS ${root}/*.c)
    else()
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*.c)
    endif()
    if(NOT sources)
        set(sources ${TEGULA_EMPTY_C})
    endif()
    if(TEGULA_MUTANTS)
        tegula_with_mutants(sources)
    endif()
    add_library(${target} STATIC ${sources})
    tegula_include_dir(${target} ${ARG_FOLDER} ${ARG_USES})
endfunction()

# Makes a program from the files of tools/NAME, if any. All except main.c is a library NAME-lib that
# tests can link.
function(tegula_program target)
    set(folder ${CMAKE_SOURCE_DIR}/tools/${target})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.c)
    if(NOT ${folder}/main.c IN_LIST sources)
        return()
    endif()
    list(REMOVE_ITEM sources ${folder}/main.c)
    tegula_select_lsp(sources)
    if(NOT sources)
        set(sources ${TEGULA_EMPTY_C})
    endif()
    add_library(${target}-lib STATIC ${sources})
    add_executable(${target} ${folder}/main.c)
    foreach(part ${target}-lib ${target})
        tegula_include_dir(${part} tools driver frontend backends passes ir lang runtime cache)
        target_compile_definitions(${part} PRIVATE TEGULA_VERSION="${PROJECT_VERSION}")
    endforeach()
    target_link_libraries(${target}-lib PUBLIC tgtools)
    target_link_libraries(${target} PRIVATE ${target}-lib)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
    tegula_run_path(${target})
    set(component internal)
    if(target STREQUAL "tegula")
        set(component tools)
    endif()
    install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
endfunction()
