#!/bin/bash
# Inside a root, in a fresh copy of the tree: the two commands of the README, then a line of figures.
# newcomer.sh NAME COMPILER [DP TEST ARGUMENTS]
set -uo pipefail
name=$1 compiler=$2
shift 2
source tests/platforms/figures.sh
[[ $compiler != clang ]] || export CXX=clang++

start=$(clock)
./dp demo
demo=$?
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
