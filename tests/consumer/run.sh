#!/bin/bash
# run.sh BUILD_DIR [TOOLCHAIN_FILE [EMULATOR...]]: installs BUILD_DIR under a temporary prefix, then builds and runs the
# project beside this script against it.
set -euo pipefail
build=$1 toolchain=${2-}
emulator=("${@:3}")
source=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -G Ninja -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$work/prefix" \
  ${toolchain:+-DCMAKE_TOOLCHAIN_FILE="$toolchain"}
cmake --build "$work/build"
"${emulator[@]}" "$work/build/use_kernels"

# Parts without libtorch are found where there is none, and a part that does not exist is refused.
cmake -G Ninja -S "$source/core_only" -B "$work/core" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON \
  ${toolchain:+-DCMAKE_TOOLCHAIN_FILE="$toolchain"}
cmake --build "$work/core"
"${emulator[@]}" "$work/core/use_kernels"
if cmake -S "$source/core_only" -B "$work/wrong" -DCMAKE_PREFIX_PATH="$work/prefix" -DPART=kernel >/dev/null 2>&1; then
  echo "find_package accepts the component kernel, which does not exist" >&2
  exit 1
fi
[[ -s $work/prefix/share/doc/deltaproduct/LICENSE ]]
if [[ -z $toolchain ]] && command -v pkg-config >/dev/null; then
  pc=$(dirname "$(find "$work/prefix" -name deltaproduct.pc)")
  flags=$(PKG_CONFIG_PATH=$pc pkg-config --static --cflags --libs deltaproduct)
  g++ "$source/use_kernels.cpp" $flags -o "$work/by_pkg_config"
  "$work/by_pkg_config"
fi
if [[ -e $work/build/use_ops ]]; then
  "$work/build/use_ops"
  model=$source/../data/golden/model_a_gated_n2
  tokens=$("$work/build/use_model" "$model" "$work/state")
  [[ ${tokens% } == "$("$work/prefix/bin/dp" generate "$model" --ids "1 5 7" --max-tokens 10)" ]]
  "$work/prefix/bin/dp" generate "$model" --state "$work/state" --max-tokens 1
  (cd / && "$work/prefix/bin/dp" info 340m_n1 >/dev/null)
  "$work/prefix/bin/dp" --version
fi
