#!/bin/sh
# again.sh runs the tests of each package many times, as `make test` runs them once, and goes on after a
# failure: what fails once in twenty runs on a busy machine is a fault of a test, or of the product.
#
#	integration/again.sh [package ...]    packages as `go list` takes them; all of them by default
#
#	RUNS=20      runs of each package
#	LOAD=0       processes beside it that keep a processor busy
#	TIMEOUT=20m  of one run
#	OUT=         a directory for the test binaries, the list of runs and the output of each run that failed;
#	             one of an earlier call is added to. By default a new directory under /tmp
#
# The end is a table, after an interrupt as well. The exit status is 1 if a run failed.
set -u
GO=${GO:-go} RUNS=${RUNS:-20} LOAD=${LOAD:-0} TIMEOUT=${TIMEOUT:-20m}
OUT=${OUT:-$(mktemp -d "${TMPDIR:-/tmp}/again.XXXXXX")}
runs=$OUT/runs # a line each run: package, seconds, ok or failed, names of the failed tests

# busy keeps a processor busy until the script has ended, in whatever way.
busy() { while kill -0 $$ 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done; }

# failed FILE prints the names of the tests that the output tells of: failed ones, and those under way when
# the program ended before its tests did.
failed() { sed -n -e 's/^ *--- FAIL: \([^ ]*\).*/\1/p' -e 's/^	*\(Test[^ ]*\) ([0-9hms.]*)$/\1/p' "$1" | sort -u | tr '\n' ' '; }

# binary DIR prints where the compiled tests of a package are.
binary() { echo "$OUT/$(echo "${1#"$PWD"/}" | tr / -).test"; }

# run DIR runs the tests of one package once, in their directory.
run() {
	name=.${1#"$PWD"} bin=$(binary "$1")
	log=$bin.$(date +%Y%m%d-%H%M%S).log began=$(date +%s) verdict=ok names=
	(cd "$1" && exec "$bin" -test.paniconexit0 -test.timeout "$TIMEOUT") >"$log" 2>&1 </dev/null || verdict=failed
	if [ $verdict = ok ]; then rm "$log"; else names=$(failed "$log"); fi
	echo "$name $(($(date +%s) - began)) $verdict $names" | tee -a "$runs"
}

# table sums up the list of runs.
table() {
	[ -s "$runs" ] || return
	echo
	sort -k1,1 -k2,2n "$runs" | awk '
		function line() { if (n) printf "%-22s %4d %6d %8ds %8ds  %s\n", name, n, bad, took[int((n+1)/2)], took[n], tests }
		BEGIN { printf "%-22s %4s %6s %9s %9s  %s\n", "package", "runs", "failed", "median", "longest", "failed tests" }
		$1 != name { line(); name = $1; n = bad = 0; tests = ""; split("", seen) }
		{ took[++n] = $2; bad += $3 == "failed" }
		{ for (i = 4; i <= NF; i++) if (!seen[$i]++) tests = tests $i " " }
		END { line() }'
	! grep -q ' failed ' "$runs" || echo "the output of the runs that failed: $OUT"
}

mkdir -p "$OUT" || exit
"$GO" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' "${@:-./...}" >"$OUT/packages" || exit
for dir in $(cat "$OUT/packages"); do "$GO" test -race -c -o "$(binary "$dir")" "$dir" || exit; done

trap 'exit 130' INT TERM
trap table EXIT
i=0; while [ $i -lt "$LOAD" ]; do busy & i=$((i + 1)); done
i=0
while [ $i -lt "$RUNS" ]; do
	i=$((i + 1))
	for dir in $(cat "$OUT/packages"); do run "$dir"; done
done
! grep -q ' failed ' "$runs"
