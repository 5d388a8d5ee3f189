#!/bin/bash
# run.sh BUILD_DIR: installs BUILD_DIR under a temporary prefix, then builds and runs the project beside this script
# against it.
set -euo pipefail
build=$1
source=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -G Ninja -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/build"
"$work/build/use_kernels"
if [[ -e $work/build/use_ops ]]; then
  "$work/build/use_ops"
  "$work/prefix/bin/dp" --version
fi
