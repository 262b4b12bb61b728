#!/bin/sh
# Copies the licences of the static libraries in a wheel or an archive into a folder: notices.sh
# FOLDER. Each library is looked up in Debian's package that owns it.
set -eu
mkdir -p "$1"
copy() {
    file=$(realpath "$1")
    package=$(dpkg -S "$file" | head -n 1 | cut -d: -f1)
    cp -L "/usr/share/doc/$package/copyright" "$2/$package.txt"
}
for name in stdc++ gcc_eh z zstd sqlite3 png xxhash; do
    copy "$(cc -print-file-name=lib$name.a)" "$1"
done
copy "$(llvm-config-22 --libdir 2>/dev/null || echo /usr/lib/llvm-22/lib)/libLLVMCore.a" "$1"
