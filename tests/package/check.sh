#!/bin/sh
# check.sh BUILD installed|hardened|plugin|deb|bare: what a user gets. installed: cmake --install, and a program of one's own against it. hardened: the program has
# what hardening.cmake asks for. plugin: an
# algorithm of one's own, built against what is installed, and the installed program with it. deb: cpack's
# package runs where it is unpacked. bare: it installs with its dependencies and runs on a bare Debian (root, debootstrap, a mirror).
set -eu
build=$1
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
folder=$(mktemp -d)
trap 'umount "$folder/bare/proc" 2>/dev/null || true; rm -rf "$folder"' EXIT
unset FOREDUCE_DATA || true

answers() { # program, a file to check: the version, a prediction and its format
  "$@" --version | grep -q '^foreduce [0-9]'
  "$@" compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 1MiB | grep -q 'On 2 x p4d.24xlarge at 1 MiB ring takes'
}

case $2 in
  installed)
    cmake --install "$build" --prefix "$folder/usr" >/dev/null
    answers "$folder/usr/bin/foreduce"
    test -s "$folder/usr/share/man/man1/foreduce.1"
    grep -q predict "$folder/usr/share/bash-completion/completions/foreduce"
    grep -q explain "$folder/usr/share/zsh/site-functions/_foreduce"
    grep -q explain "$folder/usr/share/fish/vendor_completions.d/foreduce.fish"
    # Every file that an installed document links to is there.
    for document in $(find "$folder/usr/share/doc/foreduce" -name '*.md'); do
      grep -o '](\([^)#:]*\.\(md\|svg\)\)' "$document" | sed 's/](//' | while read -r link; do
        test -e "$(dirname "$document")/$link" || { echo "$document links to $link" >&2; exit 1; }
      done
    done
    "$here/check_sbom.py" "$folder/usr/share/doc/foreduce/foreduce.spdx.json"
    cmake -S "$here" -B "$folder/own" -DCMAKE_PREFIX_PATH="$folder/usr" >/dev/null
    cmake --build "$folder/own" >/dev/null
    FOREDUCE_DATA="$folder/usr/share/foreduce" "$folder/own/own_program" | grep -q 'algorithms; a ring of 4 MiB takes' ;;
  hardened)
    cmake --install "$build" --prefix "$folder/usr" >/dev/null
    "$here/check_hardening.sh" "$build" "$folder/usr/bin/foreduce" "$folder"/usr/lib/foreduce/*.so ;;
  plugin)
    cmake --install "$build" --prefix "$folder/usr" >/dev/null
    cp -r "$here/plugin" "$folder/source"  # nothing of the source tree is beside it
    cmake -S "$folder/source" -B "$folder/own" -DCMAKE_PREFIX_PATH="$folder/usr" >/dev/null
    cmake --build "$folder/own" >/dev/null
    if grep -rlE '#include <(simgrid|Eigen|yaml-cpp|rdma|cuda)' "$folder/usr/include/foreduce/algorithms"; then
      echo 'a header that plug-ins see includes another library'; exit 1
    fi
    "$folder/usr/bin/foreduce" list algorithms --plugin "$folder/own/my_ring.so" | grep -q '^my-ring, all-reduce'
    "$folder/usr/bin/foreduce" run --algorithm my-ring --plugin "$folder/own/my_ring.so" --ranks 3 --sizes 1MiB --check | grep -q my-ring
    "$folder/usr/bin/foreduce" test-algorithm my-ring --plugin "$folder/own/my_ring.so" --ranks 2,3 | grep -q 'cases keep all rules' ;;
  deb)
    (cd "$build" && cpack -B "$folder" >/dev/null 2>&1)
    (cd "$folder" && sha256sum --quiet -c foreduce_*.deb.sha256)
    dpkg-deb -x "$folder"/foreduce_*.deb "$folder/root"
    dpkg-deb -f "$folder"/foreduce_*.deb Depends | grep -q libsimgrid
    answers "$folder/root/usr/bin/foreduce" ;;
  bare)
    [ "$(id -u)" = 0 ] || { echo 'skipped: only root can make a bare Debian'; exit 77; }
    command -v debootstrap >/dev/null || { echo 'skipped: debootstrap is missing'; exit 77; }
    (cd "$build" && cpack -B "$folder" >/dev/null 2>&1)
    mirror=$(sed -nE 's/^(deb|URIs:) +(\[[^]]*\] +)?([a-z]+:[^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
    debootstrap --variant=minbase bookworm "$folder/bare" "$mirror" >"$folder/log" 2>&1 ||
      { tail -5 "$folder/log"; echo "skipped: debootstrap makes no Debian from '$mirror' here"; exit 77; }
    cp "$folder"/foreduce_*.deb "$folder/bare/tmp/"
    chroot "$folder/bare" sh -c 'apt-get update -qq; apt-get install -y -qq --no-install-recommends /tmp/foreduce_*.deb' >"$folder/log" 2>&1 ||
      { tail -5 "$folder/log"; exit 1; }
    mount -t proc proc "$folder/bare/proc"
    answers chroot "$folder/bare" foreduce ;;
esac
echo "$2: fine"
