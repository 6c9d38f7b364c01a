#!/bin/sh
# inside.sh runs a command in a network of its own, and with a file of host names of its own, which it names as
# $CHAOS_HOSTS; as it is, if the system does not allow that. Whatever becomes of it, nothing of it is left in the
# network of the machine. Nothing can be downloaded from there.
#
#	integration/inside.sh COMMAND [ARGUMENT...]
set -u
own="--net --mount --kill-child=TERM"
[ "$(id -u)" = 0 ] || own="$own --map-root-user"
# shellcheck disable=SC2086 # the options are single words
unshare $own ip link set lo up 2>/dev/null || {
	echo "inside.sh: without a network of its own" >&2
	exec "$@"
}
CHAOS_HOSTS=$(mktemp)
export CHAOS_HOSTS
cat /etc/hosts >"$CHAOS_HOSTS"
trap 'rm -f "$CHAOS_HOSTS"' EXIT
trap : INT TERM # the command hears of them, and ends
# shellcheck disable=SC2016,SC2086
unshare $own sh -c 'ip link set lo up && mount --bind "$CHAOS_HOSTS" /etc/hosts && exec "$@"' sh "$@"
