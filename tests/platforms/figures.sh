# For the line of figures at the end of a run.
clock() { date +%s; }
span() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }
version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null | sed -E 's/^[0-9]+://; s/[-+~].*//'; }
result() { (($1 == 0)) && echo passed || echo FAILED; }
