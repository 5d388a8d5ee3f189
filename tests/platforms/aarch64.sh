#!/bin/bash
# Inside a root: everything that needs no libtorch, cross-compiled for aarch64 and tested in qemu-user, then a line of figures.
# aarch64.sh COMPILER [CTEST ARGUMENTS]
set -uo pipefail
compiler=$1
shift
source tests/platforms/figures.sh

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  local tools=(cmake ninja-build ccache python3 nlohmann-json3-dev libcli11-dev libboost-dev gap-core g++-aarch64-linux-gnu qemu-user)
  [[ $compiler != clang ]] || tools+=(clang)
  dpkg --add-architecture arm64 && apt-get update -q &&
    apt-get install -qy --no-install-recommends "${tools[@]}" \
      {libhwy,libgtest,libsentencepiece,libpcre2,libutf8proc,libxxhash,libzstd,zlib1g}-dev:arm64
}

start=$(clock)
mkdir -p build
if ! install_packages >build/packages.log 2>&1; then
  tail -n 20 build/packages.log >&2
  exit 1
fi
cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/tests/platforms/aarch64.cmake" \
  -DDP_CROSS_COMPILER="$compiler" -DDP_TORCH=OFF -DCMAKE_BUILD_TYPE=Release >build/cmake.log || { cat build/cmake.log >&2; exit 1; }
ninja -C build/aarch64 || exit 1
# Programs that the tests start are run by the kernel, which knows nothing of qemu.
trainer=build/aarch64/src/core/text/dp-train-sentencepiece
if [[ $(head -c 2 "$trainer") != '#!' ]]; then
  mv "$trainer" "$trainer.aarch64"
  printf '#!/bin/sh\nexec qemu-aarch64 -cpu max %q "$@"\n' "$PWD/$trainer.aarch64" >"$trainer"
  chmod +x "$trainer"
fi
middle=$(clock)
# Emulated tests take many times as long as others.
ctest --test-dir build/aarch64 --output-on-failure --no-tests=error --timeout 7200 --parallel "$(nproc)" "$@"
test=$?
end=$(clock)

targets=$(qemu-aarch64 -cpu max build/aarch64/src/core/kernels/kernels_test --gtest_list_tests |
  grep -oE '/(NEON|SVE|EMU128|SCALAR)[A-Z0-9_]*' | sort -u | tr -d / | tr '\n' ' ')
[[ $compiler == clang ]] && with="clang $(clang++ -dumpversion)" || with="gcc $(aarch64-linux-gnu-g++ -dumpfullversion)"
echo "aarch64: $with, Highway $(version libhwy-dev:arm64) with ${targets% }, no libtorch:" \
  "built in $(span $((middle - start))), tests $(result "$test") in $(span $((end - middle))):" \
  "$(python3 tests/summary.py --line build/aarch64/Testing/Temporary/LastTest.log)"
exit "$test"
