# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# For tests in a fresh Debian root. Needs root, debootstrap and a network; exits 77 without them.
# make_root SUITE PACKAGES: makes $work/root. $work is removed when the script ends.
make_root() {
    if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
        echo "left out: this test needs root and debootstrap"
        exit 77
    fi
    mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list* 2>/dev/null |
        head -n 1)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    debootstrap --variant=minbase --include="$2" "$1" "$work/root" \
        "${mirror:-http://deb.debian.org/debian}" >"$work/log" 2>&1 || {
        echo "left out: debootstrap failed: $(tail -n 1 "$work/log")"
        exit 77
    }
    if chroot "$work/root" sh -c 'ldconfig -p | grep -q LLVM'; then
        echo "this root has LLVM"
        exit 1
    fi
}
