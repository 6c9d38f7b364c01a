#!/bin/sh
# servers.sh fetches servers of other versions than the one that is installed, for tests: from packages of
# Debian, side by side. Nothing is installed, and no service is started: each server runs with the libraries
# of its own release.
#
#	integration/servers.sh get [NAME...]    fetch those that are missing, all if none is named
#	integration/servers.sh list             the servers that are there: name, version, path
#	integration/servers.sh path NAME        what PATH begins with for one, with its own redis-cli or valkey-cli
#	integration/servers.sh source NAME      fetch the source of one, for its own test suite; prints where it is;
#	                                        redis7 is Redis 7.0 of bookworm, which is not among the servers
#
# The names:
#
#	redis6     Redis 6.0     bullseye
#	redis8     Redis 8.0     trixie
#	valkey8    Valkey 8.1    trixie
#	valkey9    Valkey 9      sid
#
# They are kept in $LOCKPROXY_SERVERS, or else in the user's cache. Whoever has no mirror of Debian puts them
# there by hand: an executable NAME/redis-server that takes the arguments of redis-server. The mirror is
# $DEBIAN_MIRROR, or else what this system's own sources name, or else deb.debian.org.
set -eu

dir=${LOCKPROXY_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/lockproxy-servers}
names="redis6 redis8 valkey8 valkey9"

# The libraries that a server of trixie or sid is linked with, and those that these need.
libraries="libc6 libssl3t64 libstdc++6 libgcc-s1 libatomic1 libsystemd0 libjemalloc2 liblzf1 libcap2 libzstd1
	zlib1g liblzma5 liblz4-1 libgcrypt20 libgpg-error0"
# Those of bullseye that later releases do not have; the others serve as they are.
old_libraries="libssl1.1 liblua5.1-0 lua-cjson lua-bitop libjemalloc2 liblzf1"

die() {
	echo "servers.sh: $*" >&2
	exit 1
}

# mirror is where packages of Debian come from.
mirror() {
	[ -z "${DEBIAN_MIRROR:-}" ] || { echo "$DEBIAN_MIRROR"; return; }
	{
		cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
			sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p'
		sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null
		echo http://deb.debian.org/debian
	} | grep -E '/debian/?$' | head -n 1
}

# apt RELEASE COMMAND ARGUMENT... runs apt with lists of its own, of that release alone.
apt() {
	release=$1
	own=$dir/.apt/$release
	shift
	mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
	for kind in deb deb-src; do
		echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $release main"
	done >"$own/sources.list"
	apt-get -qq -o Dir::Etc::sourcelist="$own/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::Lists="$own/lists" -o Dir::Cache="$own/cache" -o APT::Sandbox::User= "$@"
}

# unpack RELEASE FOLDER PACKAGE... downloads packages and unpacks them into a folder.
unpack() {
	release=$1 to=$2
	shift 2
	mkdir -p "$to"
	for package; do set -- "$@" "$package/$release"; shift; done
	(cd "$to" && apt "$release" download "$@" 2>/dev/null) ||
		die "$(mirror) has not all of these packages of $release: $*"
	for package in "$to"/*.deb; do
		dpkg -x "$package" "$to"
		rm "$package"
	done
}

# start FILE PROGRAM AS LIBRARIES writes the executable FILE: PROGRAM, called AS, with the C library that is
# among LIBRARIES, or else that of the system.
start() {
	path=$(find "$4" -name '*.so*' -exec dirname {} + | sort -u | paste -sd: -)
	loader=$(find "$4" -name 'ld-linux*.so*' | head -n 1)
	mkdir -p "$(dirname "$1")"
	{
		echo '#!/bin/bash'
		if [ -n "$loader" ]; then
			echo "exec $loader --argv0 $3 --library-path $path $2 \"\$@\""
		else
			echo "export LD_LIBRARY_PATH=$path"
			echo "exec -a $3 $2 \"\$@\""
		fi
	} >"$1"
	chmod +x "$1"
}

# fetch NAME RELEASE PRODUCT LIBRARY...: the package of tools holds the server too, under the name of the tool
# that checks files.
fetch() {
	name=$1 from=$2 product=$3
	shift 3
	command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
		die "no apt-get here: please put the server at $dir/$name/redis-server yourself"
	echo "servers.sh: fetching $name"
	apt "$from" update || die "$(mirror) does not serve $from: name another mirror as DEBIAN_MIRROR"
	unpack "$from" "$dir/.$from/$product" "$product-tools"
	[ -d "$dir/.$from/lib" ] || unpack "$from" "$dir/.$from/lib" "$@"
	programs=$dir/.$from/$product/usr/bin
	start "$dir/$name/redis-server" "$programs/$product-check-rdb" "$product-server" "$dir/.$from/lib"
	for tool in cli benchmark; do # for the server's own test suite alone
		start "$dir/$name/tools/$product-$tool" "$programs/$product-$tool" "$product-$tool" "$dir/.$from/lib"
	done
	"$dir/$name/redis-server" --version >/dev/null || {
		rm "$dir/$name/redis-server"
		die "$name does not run here"
	}
}

# source NAME prints the directory that holds the source of a server, as its authors have published it.
source() {
	case $1 in
	redis6) from=bullseye package=redis ;;
	redis7) from=bookworm package=redis ;; # the one that most systems have
	redis8) from=trixie package=redis ;;
	valkey8) from=trixie package=valkey ;;
	valkey9) from=sid package=valkey ;;
	*) die "no server is called $1: the names are $names" ;;
	esac
	to=$dir/.source/$1
	[ -d "$to" ] || {
		apt "$from" update || die "$(mirror) does not serve $from: name another mirror as DEBIAN_MIRROR"
		rm -rf "$to.part"
		mkdir -p "$to.part"
		(cd "$to.part" && apt "$from" source --tar-only "$package" >/dev/null && tar -xf ./*.orig.tar.*) ||
			die "$(mirror) has not the source of $package of $from"
		mv "$to.part" "$to"
	}
	find "$to" -mindepth 2 -maxdepth 2 -name runtest -exec dirname {} +
}

get() {
	for wanted; do
		[ ! -x "$dir/$wanted/redis-server" ] || continue
		# shellcheck disable=SC2086 # the libraries are single words
		case $wanted in
		redis6) fetch redis6 bullseye redis $old_libraries ;;
		redis8) fetch redis8 trixie redis $libraries ;;
		valkey8) fetch valkey8 trixie valkey $libraries ;;
		valkey9) fetch valkey9 sid valkey $libraries ;;
		*) die "no server is called $wanted: the names are $names" ;;
		esac
	done
}

list() {
	for name in $names; do
		server=$dir/$name/redis-server
		[ ! -x "$server" ] || echo "$name $("$server" --version | sed 's/.*v=\([^ ]*\).*/\1/') $server"
	done
}

case "${1:-}" in
get)
	shift
	# shellcheck disable=SC2086
	[ $# -gt 0 ] || set -- $names
	get "$@"
	;;
list) list ;;
source) source "${2:?which server}" ;;
path) echo "$dir/${2:?which server}/tools:$dir/$2" ;;
*)
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
	exit 2
	;;
esac
