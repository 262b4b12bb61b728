# cmake -DLIST=identity.txt -DOUT=identity.c -P identity.cmake: hashes the inputs of a compiler.
# identity.txt has the settings of the build, FILES, then ROOT and a file a line. Names are hashed
# relative to ROOT, so that equal sources give equal hashes in any folder.
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
    if(name MATCHES "^\\.\\./") # a file of the system
        get_filename_component(name ${file} NAME)
    endif()
    string(APPEND all "${hash} ${name}\n")
endforeach()
string(SHA256 hash "${all}")
file(WRITE ${OUT} "#include \"backends/backend.h\"\n\n"
     "const char *backend_compiler(void) {\n    return \"${hash}\";\n}\n")
