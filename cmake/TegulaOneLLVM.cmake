# The rule of libtegula_llvm.so: see TegulaLLVM.cmake and private_llvm.py.
if(NOT TEGULA_STATIC_LLVM OR NOT TEGULA_ONE_LLVM)
    return()
endif()
get_property(link_options DIRECTORY PROPERTY LINK_OPTIONS)
list(TRANSFORM link_options REPLACE "^LINKER:" "-Wl,")
set(callers tgbackends tgdriver tgtools tegula-lib tegula-opt-lib)
list(TRANSFORM callers REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE caller_files)
add_custom_command(
    OUTPUT ${TEGULA_LLVM_FILE}
    COMMAND python3 ${CMAKE_SOURCE_DIR}/cmake/private_llvm.py --cc ${CMAKE_C_COMPILER}
            --nm ${CMAKE_NM} --out ${TEGULA_LLVM_FILE} --callers ${caller_files}
            --link ${link_options} -static-libgcc -Wl,--gc-sections -Wl,--build-id=sha1 -Wl,-s
            -Wl,--start-group ${parts_of_llvm} -Wl,--end-group -ldl -lpthread -lm
    DEPENDS ${callers} ${CMAKE_SOURCE_DIR}/cmake/private_llvm.py VERBATIM
    COMMENT "Linking libtegula_llvm.so")
add_custom_target(tegula_llvm DEPENDS ${TEGULA_LLVM_FILE})
foreach(target tegula tegula-opt tegula_shared)
    add_dependencies(${target} tegula_llvm)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${TEGULA_LLVM_FILE})
endforeach()
install(FILES ${TEGULA_LLVM_FILE} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                    WORLD_EXECUTE)
