#!/bin/bash
# Inside a root, in a fresh copy of the tree: the two commands of the README, then a line of figures.
# newcomer.sh NAME COMPILER [DP TEST ARGUMENTS]
set -uo pipefail
name=$1 compiler=$2
shift 2
source tests/platforms/figures.sh
[[ $compiler != clang ]] || export CXX=clang++
mkdir -p build

# A fresh machine is often busy with its own updates, so apt's locks are taken for the first half minute and ./dp has to
# wait. In an old root a package goes first, or there would be nothing to install.
[[ -z $(version libutf8proc-dev) ]] || dpkg --purge --force-depends libutf8proc-dev >/dev/null 2>&1
exec 7< <(exec perl tests/platforms/hold_apt_locks.pl 30)
read -r -u 7 held || { echo "$name: cannot take apt's locks" >&2; exit 1; }

start=$(clock)
./dp demo 2> >(tee build/demo.log >&2)
demo=$?
exec 7<&-
if ! grep -q "^dp: another program installs packages; waiting for it" build/demo.log; then
  echo "$name: ./dp did not wait for apt's locks" >&2
  demo=1
fi
middle=$(clock)
test=1
if ((demo == 0)); then
  ./dp test "$@"
  test=$?
fi
end=$(clock)

[[ $compiler == clang ]] && with="clang $(clang++ -dumpversion)" || with="gcc $(g++ -dumpfullversion)"
echo "$name: $with, libtorch $(version libtorch-dev), Highway $(version libhwy-dev), Python $(version python3):" \
  "demo $(result "$demo") in $(span $((middle - start))), tests $(result "$test") in $(span $((end - middle))):" \
  "$(python3 tests/summary.py --line build/release/Testing/Temporary/LastTest.log)"
((demo == 0 && test == 0))
