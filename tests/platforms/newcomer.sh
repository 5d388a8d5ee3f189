#!/bin/bash
# Inside a root, in a fresh copy of the tree: the two commands of the README, then a line of figures.
# newcomer.sh NAME COMPILER [DP TEST ARGUMENTS]
set -uo pipefail
name=$1 compiler=$2
shift 2
[[ $compiler != clang ]] || export CXX=clang++

clock() { date +%s; }
span() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }
version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null | sed -E 's/^[0-9]+://; s/[-+~].*//'; }

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

python3 tests/platforms/summary.py build/release/Testing/Temporary/LastTest.log >/tmp/tests
[[ $compiler == clang ]] && with="clang $(clang++ -dumpversion)" || with="gcc $(g++ -dumpfullversion)"
result() { (($1 == 0)) && echo passed || echo FAILED; }
echo "$name: $with, libtorch $(version libtorch-dev), Highway $(version libhwy-dev), Python $(version python3):" \
  "demo $(result "$demo") in $(span $((middle - start))), tests $(result "$test") in $(span $((end - middle))): $(cat /tmp/tests)"
((demo == 0 && test == 0))
