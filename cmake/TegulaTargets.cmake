# One static library a folder, with an include directory that holds links to the allowed folders
# alone: "ir/ir.h" written in a file of lang/ does not compile.

# A folder may still be empty: CMake wants at least one source.
set(TEGULA_EMPTY_C ${CMAKE_BINARY_DIR}/gen/empty.c)
file(CONFIGURE OUTPUT ${TEGULA_EMPTY_C} CONTENT "typedef int tg_empty_unit;\n" @ONLY)

function(tegula_include_dir target)
    set(dir ${CMAKE_BINARY_DIR}/include/${target})
    file(MAKE_DIRECTORY ${dir})
    foreach(folder ${ARGN})
        if(NOT IS_SYMLINK ${dir}/${folder})
            file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${dir}/${folder} SYMBOLIC)
        endif()
    endforeach()
    target_include_directories(${target} PRIVATE ${dir})
    # Paths in messages and debug information are those of the repository.
    target_compile_options(${target} PRIVATE -ffile-prefix-map=${dir}/=
                                             -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
endfunction()

# tegula_library(NAME FOLDER f [USES folders...])
function(tegula_library target)
    cmake_parse_arguments(ARG "" "FOLDER" "USES" ${ARGN})
    set(root ${CMAKE_SOURCE_DIR}/${ARG_FOLDER})
    file(GLOB sources CONFIGURE_DEPENDS ${root}/*.c)
    if(NOT ARG_FOLDER STREQUAL "tools")
        file(GLOB nested CONFIGURE_DEPENDS ${root}/*/*.c)
        list(APPEND sources ${nested})
    endif()
    if(NOT sources)
        set(sources ${TEGULA_EMPTY_C})
    endif()
    add_library(${target} STATIC ${sources})
    tegula_include_dir(${target} ${ARG_FOLDER} ${ARG_USES})
endfunction()

# A program from tools/NAME/*.c, once there is one.
function(tegula_program target)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/${target}/*.c)
    if(NOT sources)
        return()
    endif()
    add_executable(${target} ${sources})
    tegula_include_dir(${target} tools frontend backends passes ir lang runtime)
    target_compile_definitions(${target} PRIVATE TEGULA_VERSION="${PROJECT_VERSION}")
    target_link_libraries(${target} PRIVATE tgtools)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
    install(TARGETS ${target} RUNTIME DESTINATION bin)
endfunction()
