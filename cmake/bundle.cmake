# See TegulaBundle.cmake. cmake -DSOURCE=... -DBINARY=... -DNAME=... -DOUT=FILE -P bundle.cmake
set(glibc 2.28) # that of RHEL 8: the oldest supported one
set(build ${BINARY}/build)
set(root ${BINARY}/${NAME})

macro(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endmacro()

run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE} -B ${build} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_C_COMPILER=${COMPILER} -DTEGULA_STATIC_LLVM=ON -DTEGULA_GLIBC=${glibc}
    -DCMAKE_INSTALL_LIBDIR=lib)
run(${CMAKE_COMMAND} --build ${build} --target tegula tegula-opt tegula_shared tegula_static
    tegula_rt_shared tegula_rt_static tegula_pages gpu_real comm_gpu launch-bench)
file(REMOVE_RECURSE ${root})
run(${CMAKE_COMMAND} --install ${build} --prefix ${root} --strip)
file(REMOVE ${root}/bin/tegula-opt) # a tool for work on the compiler
file(GLOB archives ${root}/lib/*.a) # `--install --strip` does not strip them
foreach(archive ${archives})
    run(objcopy --strip-debug ${archive})
endforeach()

# Tests and benchmarks find their files relative to themselves.
foreach(tree stdlib python tests/run tests/gpu tests/kernels bench/gpu bench/kernelbench bench/comm
             examples)
    if(EXISTS ${SOURCE}/${tree})
        get_filename_component(above ${root}/${tree} DIRECTORY)
        file(COPY ${SOURCE}/${tree} DESTINATION ${above} PATTERN "__pycache__" EXCLUDE)
    endif()
endforeach()
file(COPY ${SOURCE}/bench/tune.py DESTINATION ${root}/bench)
# Tests read cases from the rows of these tables.
file(COPY ${SOURCE}/lang/elementwise.def ${SOURCE}/lang/ops.def DESTINATION ${root}/lang)
file(COPY ${build}/tests/runtime/gpu_real ${build}/tests/runtime/comm_gpu
     DESTINATION ${root}/tests/gpu)
file(COPY ${build}/bin/launch-bench DESTINATION ${root}/bin)
file(COPY ${SOURCE}/LICENSE ${SOURCE}/README.md DESTINATION ${root})

# The only dependency is the C library, in this version or an older one; before 2.34 libpthread was
# separate.
file(GLOB libraries ${root}/lib/*.so)
set(tests ${root}/tests/gpu/gpu_real ${root}/tests/gpu/comm_gpu)
foreach(binary ${root}/bin/tegula ${tests} ${libraries})
    file(REAL_PATH ${binary} file)
    execute_process(COMMAND objdump -p ${file} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "NEEDED +[^\n]+" needed "${headers}")
    if(NOT needed MATCHES "libpthread\\.so")
        message(FATAL_ERROR "${file} does not ask for libpthread")
    endif()
    foreach(entry ${needed})
        if(NOT entry MATCHES "NEEDED +(libc|libm|libdl|libpthread|librt|ld-linux[^ ]*)\\.so")
            message(FATAL_ERROR "${file} asks for another library: ${entry}")
        endif()
    endforeach()
    string(REGEX MATCHALL "GLIBC_[0-9.]+" versions "${headers}")
    foreach(version ${versions})
        string(REPLACE "GLIBC_" "" version ${version})
        if(version VERSION_GREATER glibc)
            message(FATAL_ERROR "${file} asks for glibc ${version}")
        endif()
    endforeach()
endforeach()

run(tar -C ${BINARY} --sort=name --owner=0 --group=0 --numeric-owner
    -I "zstd -12 --long=27 -T0 -q" -cf ${OUT} ${NAME})
file(SIZE ${OUT} bytes)
math(EXPR mib "${bytes} / 1048576")
message(STATUS "${OUT}: ${mib} MiB, runs with glibc ${glibc} and later")
if(bytes GREATER 40000000)
    message(FATAL_ERROR "the bundle is larger than 40 MB")
endif()
