#!/bin/sh
# matrix.sh runs the tests that matter for a server with each of the servers that people run, in each form in
# which they run it, and prints a table. It fails if a cell does.
#
#	integration/matrix.sh                       all of it
#	integration/matrix.sh valkey9 redis8        these servers
#	integration/matrix.sh valkey9/cluster       one cell
#
# The servers are those of servers.sh, and redis7, which is what PATH finds. The logs of cells that fail are
# kept in $LOGS (a new directory).
set -u
cd "$(dirname "$0")/.." || exit 2
dir=${LOCKPROXY_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/lockproxy-servers}
logs=${LOGS:-$(mktemp -d)}
servers="redis6 redis7 redis8 valkey8 valkey9"
forms="single cluster sentinel redlock"

# tests SERVER FORM prints lines of a package and the tests in it: transcripts of the verbs and of what Redis
# says, sessions, fail-over, traces, rights, clients in default and in cluster mode. Redis 6 answers CLUSTER in other
# words than the proxy, which TestFrontends compares. Its nodes have no host names, its users no channels and no
# DRYRUN, and its Sentinels no users.
tests() {
	case $1 in
	redis6)
		tests_of "$2" | sed -e 's/|TestFrontends[^|]*//' -e 's/|TestAnnouncedEndpoints|[^|]*Name//' \
			-e 's/|TestUserOfTheProxyItself//' -e 's/|TestSentinelPasswords.*//' -e '/^compare /d'
		;;
	valkey*) tests_of "$2" && tests_of_valkey "$2" ;;
	*) tests_of "$2" ;;
	esac
}

# tests_of_valkey are of what Redis has not.
tests_of_valkey() {
	case $1 in
	single) echo faults TestValkeyThatSaysItIsRedis/single ;;
	cluster) echo faults 'TestCommandsOfValkey|TestValkeyThatSaysItIsRedis/cluster' ;;
	esac
}

tests_of() {
	case $1 in
	single)
		echo transcripts 'TestTranscripts/(redis|single)|TestRecipes/single|TestForeignKeys/single|TestFrontends/one'
		echo transcripts '(TestLockEvents|TestWhoHoldsThroughAnotherProxy|TestStatsOfAllProxies)/single'
		echo faults 'TestRestartedRedis|TestCutReplies|TestStartBeforeEvictingServers/single|TestEvictionWhileRunning/single'
		echo faults 'TestFullRedis/single|TestSyncAtFullRedis|TestUserOfTheProxyItself|TestPasswordsThatExpire/single'
		echo compare 'TestRights(|InGuard|InTransactions)$/single'
		echo clients 'TestGoRedis$|TestRueidis|TestRedigo|TestClientLibraries'
		;;
	cluster)
		echo transcripts 'TestTranscripts/cluster|TestRecipes/cluster|TestForeignKeys/cluster|TestFrontends/cluster'
		echo transcripts 'TestNodesStayUnknown|TestPubSubCluster'
		echo transcripts '(TestLockEvents|TestWhoHoldsThroughAnotherProxy|TestStatsOfAllProxies)/cluster'
		echo faults 'TestKilledMaster|TestManualFailover|TestSlotMigration|TestTwoProxies$|TestTraces$|TestMovingSlotsTraces'
		echo faults 'TestCutReplyOfWrite|TestHalfMovedSlot|TestSetInAHalfMovedSlot|TestPermitsAndRestsInAHalfMovedSlot'
		echo faults 'TestCompatInAHalfMovedSlot|TestLingeringInAMovingSlot|TestAnnouncedEndpoints|TestRedirectToANodeWithoutAName'
		echo faults 'TestStartBeforeEvictingServers/cluster|TestEvictionWhileRunning/cluster|TestFullRedis/cluster'
		echo faults 'TestFullSourceOfAMovingSlot|TestSetAtFullRedis|TestPasswordsThatExpire/cluster'
		echo compare 'TestRights(|InGuard|InTransactions)$/cluster'
		echo clients 'TestClusterClients'
		;;
	sentinel) echo faults 'TestSentinelFailover|TestSentinelPasswordsThatExpire' ;;
	redlock)
		echo transcripts TestRedlockTranscripts
		echo faults 'TestRedlockRestartedMaster|TestRedlockTwoProxies|TestRedlockTraces|TestEvictingMasters|TestFullMasters'
		;;
	esac
}

# cell SERVER FORM runs one cell and prints what came of it.
cell() {
	path=$PATH
	[ "$1" = redis7 ] || path=$dir/$1:$PATH
	log=$logs/$1-$2.log
	: >"$log"
	began=$(date +%s)
	# shellcheck disable=SC2086 # a flag and its value are words
	tests "$1" "$2" | while read -r package run; do
		more=
		case $package/$1 in
		transcripts/* | compare/*) more=-long ;; # over each kind of upstream, which is not in make test
		faults/valkey*) more="-valkey $1" ;;
		esac
		PATH=$path ${GO:-go} test -count=1 -timeout 20m "./integration/$package" -run "$run" $more >>"$log" 2>&1 </dev/null ||
			echo "$package"
	done >"$logs/failed"
	took=$(($(date +%s) - began))
	if [ -s "$logs/failed" ]; then
		echo "FAIL in $(paste -sd, - <"$logs/failed"), ${took} s"
	elif grep -q 'no tests to run' "$log" || [ "$(grep -c '^ok' "$log")" -ne "$(tests "$1" "$2" | wc -l)" ]; then
		echo "FAIL: a test of it is gone"
	else
		rm "$log"
		echo "passes, ${took} s"
	fi
}

# version SERVER is the name by which people know it.
version() {
	program=redis-server
	[ "$1" = redis7 ] || program=$dir/$1/redis-server
	"$program" --version | sed 's/^\([A-Za-z]*\).* v=\([^ ]*\).*/\1 \2/'
}

mkdir -p "$logs" || exit 2
wanted=${*:-$servers}
for server in $servers; do
	case " $wanted" in *" $server"*) ;; *) continue ;; esac
	if [ "$server" != redis7 ] && [ ! -x "$dir/$server/redis-server" ]; then
		echo "matrix.sh: $server is not installed: run integration/servers.sh get" >&2
		exit 1
	fi
done
echo "| $(date -u +%F) | one server | cluster, 3 + 3 | Sentinel | RedLock masters |"
echo "|---|---|---|---|---|"
status=0
for server in $servers; do
	case " $wanted" in *" $server"*) ;; *) continue ;; esac
	row="| $(version "$server")"
	for form in $forms; do
		case " $wanted " in
		*" $server "* | *" $server/$form "*) result=$(cell "$server" "$form") ;;
		*) result="-" ;;
		esac
		case $result in FAIL*) status=1 ;; esac
		row="$row | $result"
		echo "$server $form: $result" >&2
	done
	echo "$row |"
done
[ $status = 0 ] || echo "matrix.sh: the logs are in $logs" >&2
exit $status
