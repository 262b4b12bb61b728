# With TEGULA_GLIBC, all programs and shared libraries run with that glibc and later ones: see
# glibc/old.py.
set(TEGULA_GLIBC "" CACHE STRING "The oldest glibc that programs are to run with, such as 2.28")
if(TEGULA_GLIBC)
    set(identity "${TEGULA_GLIBC}") # links everything again with other libraries
    foreach(name old.py start.c newer_functions.c)
        set(file ${CMAKE_SOURCE_DIR}/cmake/glibc/${name})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        file(SHA256 ${file} hash)
        string(SHA256 identity "${identity} ${hash}")
    endforeach()
    string(SUBSTRING ${identity} 0 12 identity)
    execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/cmake/glibc/old.py
                            --cc ${CMAKE_C_COMPILER} --version ${TEGULA_GLIBC}
                            --out ${CMAKE_BINARY_DIR}/gen/glibc-${identity}
                    OUTPUT_VARIABLE options OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" options "${options}")
    add_link_options(${options})
endif()
