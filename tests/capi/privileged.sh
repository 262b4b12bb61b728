#!/bin/sh
# A program with more rights than its user loads no library, program or folder from the user's
# environment. Arguments: PROGRAM, and a LIBRARY that reports when it is loaded. Needs root; else
# 77.
set -u
program=$1 library=$2
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "needs root, and setpriv"; exit 77; }
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
mkdir -m 700 "$folder/cache" && chown 65534 "$folder/cache"
cp "$program" "$folder/plain" && cp "$program" "$folder/raised" && cp "$library" "$folder/evil.so"
printf '#!/bin/sh\n: >"%s"\nexit 1\n' "$folder/cache/started" >"$folder/tegula"
chmod 755 "$folder/tegula" "$folder/plain" "$folder/evil.so"
chown 0 "$folder/raised" && chmod 4755 "$folder/raised"

as_user() {
    evil=$folder/evil.so
    env -i PATH="$folder:$PATH" HOME="$folder/cache" TG_COMPILE=process \
        TG_SERVER="$folder/tegula" TG_CUDA_LIBRARY="$evil" TG_HIP_LIBRARY="$evil" \
        TG_OPENSHMEM_LIBRARY="$evil" OMPI_COMM_WORLD_SIZE=1 TG_NVSHMEM_LIBRARY="$evil" \
        TG_COMGR="$evil" TG_NVJITLINK="$evil" TG_PTXAS="$folder/tegula" \
        TG_LLD="$folder/tegula" setpriv --reuid=65534 --regid=65534 --clear-groups "$1" 2>&1
}

plain=$(as_user "$folder/plain")
case $plain in
*LOADED*) ;;
*) echo "the control loads nothing: $plain"; exit 1 ;;
esac
[ -e "$folder/cache/started" ] || { echo "the control starts nothing: $plain"; exit 1; }
rm -rf "$folder/cache/"* "$folder/cache/".[a-z]*
raised=$(as_user "$folder/raised")
echo "$plain"; echo "with raised privileges:"; echo "$raised"
case $raised in
*"effective user 0"*) ;;
*) echo "set-user-ID has no effect here"; exit 77 ;;
esac
case $raised in
*LOADED*) echo "taken from the environment"; exit 1 ;;
esac
case $raised in
*launched*) ;;
*) echo "it does not launch"; exit 1 ;;
esac
[ -z "$(ls -A "$folder/cache")" ] || { echo "the user's folder was written to"; exit 1; }
