#!/bin/bash
# Inside a root whose packages ./dp has installed: cmake alone, as a stranger with a libtorch from elsewhere and a python3 of
# their own would use it. The package files of Debian's libtorch are moved to where no search finds them, so that
# only CMAKE_PREFIX_PATH leads there; and the first python3 of PATH cannot import torch.
set -euo pipefail
source tests/platforms/figures.sh

die() {
  echo "cmake alone: error: $*" >&2
  exit 1
}

cmake_folder=$(dirname "$(dirname "$(dpkg -L libtorch-dev | grep '/TorchConfig.cmake$')")")
elsewhere=/opt/libtorch${cmake_folder#/usr}
python=/opt/python
parts=()
for part in Torch Caffe2 ATen; do
  if [[ -d $cmake_folder/$part ]]; then parts+=("$part"); fi
done
restore() {
  for part in "${parts[@]}"; do
    if [[ -d $elsewhere/$part ]]; then mv "$elsewhere/$part" "$cmake_folder/"; fi
  done
  rm -rf /opt/libtorch "$python"
}
trap restore EXIT
mkdir -p "$elsewhere"
for part in "${parts[@]}"; do mv "$cmake_folder/$part" "$elsewhere/"; done
# They name libraries and headers by the way from where they are themselves.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libtorch*' | awk '$1 == "installed" {print $2}')
dpkg -L $installed | grep -E '^/usr/(lib/.*\.so[.0-9]*|include/[^/]+)$' | sort -u |
  while IFS= read -r path; do
    mkdir -p "/opt/libtorch$(dirname "${path#/usr}")"
    ln -sfn "$path" "/opt/libtorch${path#/usr}"
  done
/usr/bin/python3 -m venv --without-pip "$python"
export PATH=$python/bin:$PATH
! python3 -c "import torch" 2>/dev/null || die "the other python3 has torch too; nothing would be shown"

build=build/alone-with-cmake
rm -rf "$build"
start=$(clock)
if cmake -S . -B "$build" -G Ninja >build/without.log 2>&1; then die "libtorch was found without CMAKE_PREFIX_PATH"; fi
grep -q 'Could not find a package configuration file provided by "Torch"' build/without.log ||
  die "cmake failed for another reason: $(tail -n 20 build/without.log)"
rm -rf "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_PREFIX_PATH="$elsewhere" >build/with.log
grep -q "^Torch_DIR:PATH=$elsewhere/Torch$" "$build/CMakeCache.txt" || die "$(grep Torch_DIR "$build/CMakeCache.txt")"
found=$(sed -n 's/^DP_PYTHON:FILEPATH=//p' "$build/CMakeCache.txt")
[[ $found == /usr/bin/python3* ]] || die "python3-torch's Python was not found, but '$found'"
ninja -C "$build" dp-lab ops_test
ctest --test-dir "$build" --output-on-failure --no-tests=error -R '^ops_test$'
"$build/src/tools/dp" selfcheck --fixtures tests/data/golden
echo "cmake alone: libtorch $(version libtorch-dev) found in $elsewhere by CMAKE_PREFIX_PATH alone, Python $found with" \
  "$(command -v python3) first in PATH: built, ops_test and selfcheck passed in $(span $(($(clock) - start)))"
