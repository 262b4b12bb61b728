# cmake -DLIST=identity.txt -DOUT=identity.c -P identity.cmake: a hash of what a compiler is made
# of.
# identity.txt has the settings of the build, FILES, then ROOT and a file a line. Names count
# as they are below ROOT, so that the same sources are the same compiler wherever they lie.
file(STRINGS ${LIST} files)
file(READ ${LIST} all)
string(FIND "${all}" "\nFILES\n" settings)
string(SUBSTRING "${all}" 0 ${settings} all)
list(FIND files FILES first)
math(EXPR first "${first} + 1")
list(SUBLIST files ${first} -1 files)
list(POP_FRONT files root)
foreach(file ${files})
    file(SHA256 ${file} hash)
    file(RELATIVE_PATH name ${root} ${file})
    if(name MATCHES "^\\.\\./") # of the system
        get_filename_component(name ${file} NAME)
    endif()
    string(APPEND all "${hash} ${name}\n")
endforeach()
string(SHA256 hash "${all}")
file(WRITE ${OUT} "#include \"backends/backend.h\"\n\n"
     "const char *backend_compiler(void) {\n    return \"${hash}\";\n}\n")
