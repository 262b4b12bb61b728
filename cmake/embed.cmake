# cmake -DFILES=a.teg;b.teg -DOUT=embedded.c -P embed.cmake: file texts as C arrays of bytes.
set(arrays "")
set(rows "")
set(n 0)
string(REPEAT "....." 20 twenty_bytes) # "0x12," each
foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    file(READ ${file} hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR len "${digits} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(${twenty_bytes})" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${n}[] = {\n${bytes}0};\n")
    string(APPEND rows "    {\"std/${name}\", (const char *)text_${n}, ${len}},\n")
    math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "#include \"stdlib/embedded.h\"\n\n${arrays}\n"
     "const struct tg_embedded tg_embedded_files[] = {\n${rows}    {NULL, NULL, 0},\n};\n")
