#!/bin/bash
# run.sh BUILD_DIR [TOOLCHAIN_FILE [EMULATOR...]]: installs BUILD_DIR under a temporary prefix, then builds and runs the
# project beside this script, and the examples, against it. run.sh shared [...]: the same with shared libraries, which it builds
# first, without libtorch.
set -euo pipefail
build=$1 toolchain=${2-}
emulator=("${@:3}")
source=$(dirname "$(readlink -f "$0")")
model=$source/../data/golden/model_a_gated_n2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
  echo "run.sh: $*" >&2
  exit 1
}

if [[ $build == shared ]]; then
  build=$work/shared
  cmake -G Ninja -S "$source/../.." -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DDP_TORCH=OFF -DDP_TESTS=OFF \
    ${toolchain:+-DCMAKE_TOOLCHAIN_FILE="$toolchain"} >"$work/configure.log"
  cmake --build "$build" --target dp_core dp_tokenizer
fi
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
[[ -s $work/prefix/share/doc/deltaproduct/LICENSE ]]
library=$(find "$work/prefix" -name 'libdeltaproduct.so' -o -name 'libdeltaproduct.a')
[[ $1 != shared || $library == *.so ]] || die "BUILD_SHARED_LIBS gives $library"
[[ $1 != shared || -z $(find "$work/prefix" -name '*.a') ]] || die "static libraries are installed beside shared ones"

# Public headers and what they include are installed, and nothing else.
include=$work/prefix/include
(cd "$include" && find . -name '*.h' -o -name '*.def' | sort) >"$work/installed"
(cd "$source/../../include" && find . -name '*.h' | sort) >"$work/public"
if [[ -d $include/deltaproduct/ops ]]; then
  for kind in 'test_*' '*-inl.h' '*_kernels.h'; do
    [[ -z $(find "$include" -name "$kind") ]] || die "internal headers are installed: $(find "$include" -name "$kind")"
  done
  while IFS=: read -r file line; do
    name=${line#*\"}
    [[ -e $include/deltaproduct/${name%%\"*} ]] || die "$file includes ${name%%\"*}, which is not installed"
  done < <(grep -rH '^#include "' "$include")
else
  diff "$work/public" "$work/installed" || die "other headers are installed than those of include/"
fi

# What needs no libtorch is found where there is none, nor JSON for C++, zlib or zstd; a part that does not exist is refused.
without=()
for package in Torch nlohmann_json ZLIB zstd; do without+=(-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON); done
cmake -G Ninja -S "$source/core_only" -B "$work/core" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  "${without[@]}" ${toolchain:+-DCMAKE_TOOLCHAIN_FILE="$toolchain"}
cmake --build "$work/core"
"${emulator[@]}" "$work/core/use_recurrence"
tokens=$("${emulator[@]}" "$work/core/generate" "$model" 1 5 7)
[[ $tokens == "$("${emulator[@]}" "$work/core/embed" "$model" "$work/state")" ]] || die "C and C++ continue differently"
if "${emulator[@]}" "$work/core/generate" "$work/none" 1 2>"$work/error"; then die "a model that is not there was opened"; fi
grep -q "^generate: .*none" "$work/error"
if cmake -S "$source/core_only" -B "$work/wrong" -DCMAKE_PREFIX_PATH="$work/prefix" -DPART=kernel >/dev/null 2>&1; then
  die "find_package accepts the component kernel, which does not exist"
fi
lines=$(wc -l <"$source/../../examples/generate.cpp")
((lines <= 30)) || die "examples/generate.cpp has $lines lines, expected at most 30"
if [[ -z $toolchain ]]; then
  strip -o "$work/stripped" "$work/core/generate"
  size=$(stat -c %s "$work/stripped") libraries=$(ldd "$work/core/generate" | wc -l)
  echo "generate: $size bytes, $libraries lines of ldd"
  ((size <= 6000000)) || die "the program of examples/generate.cpp has $size bytes, expected at most 6 MB"
  ((libraries <= 10)) || die "it loads $libraries libraries, expected at most 10: $(ldd "$work/core/generate")"
  if command -v pkg-config >/dev/null; then
    pc=$(dirname "$(find "$work/prefix" -name deltaproduct.pc)")
    [[ $library == *.so ]] || static=--static
    flags=$(PKG_CONFIG_PATH=$pc pkg-config ${static-} --cflags --libs deltaproduct)
    g++ "$source/use_recurrence.cpp" $flags -o "$work/by_pkg_config"
    LD_LIBRARY_PATH=$(dirname "$library") "$work/by_pkg_config"
  fi
fi

# Everything that was built, with its dependencies.
cmake -G Ninja -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$work/prefix" \
  ${toolchain:+-DCMAKE_TOOLCHAIN_FILE="$toolchain"}
cmake --build "$work/build"
"${emulator[@]}" "$work/build/use_recurrence"
"${emulator[@]}" "$work/build/use_tokenizer"
if [[ -e $work/build/use_ops ]]; then
  "$work/build/use_ops"
  "$work/build/use_train"
  [[ $tokens == "$("$work/prefix/bin/dp" generate "$model" --ids "1 5 7" --max-tokens 10)" ]]
  "$work/prefix/bin/dp" generate "$model" --state "$work/state" --max-tokens 1
  (cd / && "$work/prefix/bin/dp" info 340m_n1 >/dev/null)
  "$work/prefix/bin/dp" --version
fi
