# The tests of each architecture in lang/gpus.def:
#   ptx     the library's kernels through ptxas, in turns with other architectures
#   hsaco   the library's kernels as code objects
#   run     every case of tests/run in the simulator
#   turn    every case there, each with a different part of its settings on each architecture
#   sample  a few cases there, for an architecture that differs in features, registers or shared
#           memory from those above
function(tegula_gpu name)
    foreach(kind ${ARGN})
        set_property(GLOBAL APPEND PROPERTY GPUS_${kind} ${name})
    endforeach()
    set_property(GLOBAL APPEND PROPERTY GPUS_all ${name})
endfunction()
set(main_gpu sm_90a) # each case of tests/run runs on it each time
tegula_gpu(sm_80 ptx run)
tegula_gpu(sm_86 ptx)
tegula_gpu(sm_89 ptx sample)
tegula_gpu(sm_90a ptx run)
tegula_gpu(sm_100a ptx sample)
tegula_gpu(sm_103a ptx sample)
tegula_gpu(sm_120a ptx sample)
tegula_gpu(gfx90a hsaco turn)
tegula_gpu(gfx942 hsaco turn)
tegula_gpu(gfx950 hsaco)
tegula_gpu(gfx1100 hsaco turn)
tegula_gpu(gfx1151 hsaco)
tegula_gpu(gfx1201 hsaco)

# gpus_of(VARIABLE kind): the architectures with this kind of tests.
function(gpus_of variable kind)
    get_property(gpus GLOBAL PROPERTY GPUS_${kind})
    set(${variable} "${gpus}" PARENT_SCOPE)
endfunction()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lang/gpus.def)
file(STRINGS ${CMAKE_SOURCE_DIR}/lang/gpus.def rows REGEX "^GPU\\(\"")
list(TRANSFORM rows REPLACE "^GPU\\(\"([a-z0-9_]+)\".*" "\\1")
gpus_of(tested all)
if(NOT "${rows}" STREQUAL "${tested}")
    message(FATAL_ERROR "lang/gpus.def has GPUs ${rows}, and tests/gpus.cmake says of ${tested} "
                        "which tests they have: give each row one tegula_gpu(), in order")
endif()
