# Generated sources: the lexer and parser, the library written in Tegula as C arrays, and the hash
# that identifies a compiler.
set(TEGULA_GEN ${CMAKE_BINARY_DIR}/gen)

# Adds gen/FOLDER/{lexer,parser}.{c,h} to TARGET. Include them as "FOLDER/parser.h".
function(tegula_flex_bison target folder lexer parser)
    set(src ${CMAKE_SOURCE_DIR}/${folder})
    set(dir ${TEGULA_GEN}/${folder})
    file(MAKE_DIRECTORY ${dir})
    target_include_directories(${target} PRIVATE ${TEGULA_GEN})
    find_program(BISON_PROGRAM bison REQUIRED)
    find_program(FLEX_PROGRAM flex REQUIRED)
    get_filename_component(p ${parser} NAME_WE)
    get_filename_component(l ${lexer} NAME_WE)
    # GLOB, so that CMake runs again when a grammar file appears.
    file(GLOB found CONFIGURE_DEPENDS ${src}/${parser} ${src}/${lexer})
    if(${src}/${parser} IN_LIST found)
        add_custom_command(
            OUTPUT ${dir}/${p}.c ${dir}/${p}.h
            COMMAND ${BISON_PROGRAM} -Wall -Werror -Wno-error=other --defines=${dir}/${p}.h
                    -o ${dir}/${p}.c ${src}/${parser}
            DEPENDS ${src}/${parser} COMMENT "bison ${folder}/${parser}" VERBATIM)
        target_sources(${target} PRIVATE ${dir}/${p}.c ${dir}/${p}.h)
    endif()
    if(${src}/${lexer} IN_LIST found)
        add_custom_command(
            OUTPUT ${dir}/${l}.c ${dir}/${l}.h
            COMMAND ${FLEX_PROGRAM} --header-file=${dir}/${l}.h -o ${dir}/${l}.c ${src}/${lexer}
            DEPENDS ${src}/${lexer} COMMENT "flex ${folder}/${lexer}" VERBATIM)
        target_sources(${target} PRIVATE ${dir}/${l}.c ${dir}/${l}.h)
    endif()
    # Generated code is not held to the house rules.
    set_source_files_properties(${dir}/${p}.c ${dir}/${l}.c PROPERTIES COMPILE_OPTIONS
        "-Wno-sign-compare;-Wno-shadow;-Wno-missing-prototypes;-Wno-unused-but-set-variable")
endfunction()

# Library TARGET with every *.teg of DIR as text: struct tg_embedded tg_embedded_files[], declared
# in "stdlib/embedded.h"; a path reads "std/NAME.teg".
function(tegula_embed target dir)
    set(out ${TEGULA_GEN}/embed/stdlib)
    file(MAKE_DIRECTORY ${out})
    file(GLOB files CONFIGURE_DEPENDS ${dir}/*.teg)
    configure_file(${CMAKE_SOURCE_DIR}/cmake/embedded.h.in ${out}/embedded.h COPYONLY)
    add_custom_command(
        OUTPUT ${out}/embedded.c
        COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUT=${out}/embedded.c
                -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        COMMENT "embedding stdlib" VERBATIM)
    add_library(${target} STATIC ${out}/embedded.c)
    target_include_directories(${target} PUBLIC ${TEGULA_GEN}/embed)
endfunction()

# Checks the library in DIR during the build, before a user's kernel meets a mistake in it.
function(tegula_check_library dir)
    if(CMAKE_CROSSCOMPILING OR NOT TARGET tegula-opt)
        return()
    endif()
    set(stamp ${TEGULA_GEN}/library-checked)
    file(GLOB files CONFIGURE_DEPENDS ${dir}/*.teg)
    add_custom_command(
        OUTPUT ${stamp}
        COMMAND tegula-opt --library ${dir}
        COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
        DEPENDS tegula-opt ${files} COMMENT "checking stdlib" VERBATIM)
    add_custom_target(check-library ALL DEPENDS ${stamp})
endfunction()

# Adds the compiler's identity to TARGET: a hash of the sources in FOLDERS and of all other inputs
# that determine its output. Equal builds have equal hashes, in each program and library.
function(tegula_identity target) # folders...
    set(list ${TEGULA_GEN}/identity.txt)
    set(out ${TEGULA_GEN}/identity.c)
    set(files)
    foreach(folder ${ARGN})
        set(root ${CMAKE_SOURCE_DIR}/${folder})
        file(GLOB_RECURSE found CONFIGURE_DEPENDS ${root}/*.c ${root}/*.h ${root}/*.def ${root}/*.l
             ${root}/*.y ${root}/*.teg)
        list(APPEND files ${found})
    endforeach()
    # A shared library of LLVM gives its own hash when it is loaded.
    list(APPEND files ${LLVM_ARCHIVES})
    string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
    string(REPLACE ";" "\n" lines "${files}")
    file(CONFIGURE OUTPUT ${list} @ONLY CONTENT
"@PROJECT_VERSION@ @CMAKE_SYSTEM_PROCESSOR@ LLVM @LLVM_VERSION@
@CMAKE_C_COMPILER_ID@ @CMAKE_C_COMPILER_VERSION@ @CMAKE_C_FLAGS@ @CMAKE_C_FLAGS_${type}@
sanitizers @TEGULA_SANITIZE@, fuzzing @TEGULA_FUZZ@
FILES
@CMAKE_SOURCE_DIR@
@lines@
")
    add_custom_command(
        OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DLIST=${list} -DOUT=${out}
                -P ${CMAKE_SOURCE_DIR}/cmake/identity.cmake
        DEPENDS ${files} ${list} ${CMAKE_SOURCE_DIR}/cmake/identity.cmake
        COMMENT "hashing the compiler's sources" VERBATIM)
    target_sources(${target} PRIVATE ${out})
endfunction()
