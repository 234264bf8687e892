#!/bin/sh
# check_hardening.sh BUILD PROGRAM MODULE...: whether they have what hardening.cmake asks for. 77: this build is not to have it.
set -eu
build=$1
file=$2
shift 2
# Without a type a build is a release.
if ! grep -q '^FOREDUCE_HARDENED:BOOL=ON' "$build/CMakeCache.txt" ||
  ! grep -qE '^CMAKE_BUILD_TYPE:[A-Z]+=(Release|RelWithDebInfo|MinSizeRel)?$' "$build/CMakeCache.txt"; then
  echo 'this build is not hardened (FOREDUCE_HARDENED, CMAKE_BUILD_TYPE)'
  exit 77
fi
missing=
has() { # what, readelf's option, a pattern of its output
  readelf -W "$2" "$file" | grep -qE "$3" || missing="$missing; $file lacks: $1"
}
as_any_code() {
  has 'position-independent (-pie, -fPIC)' -h 'Type: +DYN'
  has 'read-only relocations (-z relro)' -l 'GNU_RELRO'
  has 'binding at the start (-z now)' -d 'BIND_NOW|FLAGS.*\<NOW\>'
  has 'a stack that is not run' -l 'GNU_STACK.* RW +0x'
  has 'stack protector' --dyn-syms '__stack_chk_fail'
}
as_any_code
has 'checked copies (_FORTIFY_SOURCE)' --dyn-syms '__[a-z]+_chk@'
has 'assertions of the standard library (_GLIBCXX_ASSERTIONS)' --dyn-syms '__glibcxx_assert_fail'
for file in "$@"; do as_any_code; done  # a small module may copy nothing, and foreduce_simulates leaves assertions out
[ -z "$missing" ] || { echo "${missing#; }"; exit 1; }
