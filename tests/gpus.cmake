# The tests of each architecture: the kinds in its row of lang/gpus.def, which explains them.
set(main_gpu sm_90a) # each case of tests/run runs on it each time
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lang/gpus.def)
file(STRINGS ${CMAKE_SOURCE_DIR}/lang/gpus.def rows REGEX "^GPU\\(\"|^ .*TESTS\\(")
foreach(row ${rows})
    if(row MATCHES "^GPU\\(\"([a-z0-9_]+)\"")
        set(gpu ${CMAKE_MATCH_1})
    elseif(row MATCHES "TESTS\\(([a-z ]+)\\)")
        string(REPLACE " " ";" kinds "${CMAKE_MATCH_1}")
        foreach(kind ${kinds})
            if(NOT kind MATCHES "^(ptx|hsaco|run|turn|sample)$")
                message(FATAL_ERROR "lang/gpus.def: ${gpu} has tests of the unknown kind '${kind}'")
            endif()
            set_property(GLOBAL APPEND PROPERTY GPUS_${kind} ${gpu})
        endforeach()
    endif()
endforeach()

# gpus_of(VARIABLE kind): the architectures with this kind of tests.
function(gpus_of variable kind)
    get_property(gpus GLOBAL PROPERTY GPUS_${kind})
    set(${variable} "${gpus}" PARENT_SCOPE)
endfunction()
