#!/bin/sh
# install.sh installs what the integration tests need and is missing here:
# redis-server with sentinel and tools, one Redis client library for each of Python,
# Ruby, PHP, Perl and C, a compiler of Java, what Redis's own test suite wants, PostgreSQL, haproxy, Chromium, shells and
# readers of manual pages, jq, and what judges the files of docs/deploy: Prometheus with promtool, systemd-analyze. It
# says what it does, does nothing when all is there, and starts no system service.
#
#	integration/install.sh           install what is missing
#	integration/install.sh --check   only say what is missing; exit 1 if anything is
set -eu

# have_client INTERPRETER ARGS...: the interpreter of the system finds its library.
have_client() { [ -x "$1" ] && "$@" >/dev/null 2>&1; }

# have_postgres: a server of PostgreSQL, which Debian does not put into PATH.
have_postgres() {
	for initdb in "$(command -v initdb)" /usr/lib/postgresql/*/bin/initdb /opt/homebrew/opt/postgresql@*/bin/initdb \
		/usr/local/opt/postgresql@*/bin/initdb; do
		[ ! -x "$initdb" ] || return 0
	done
	return 1
}

# interpreter NAME: the one the system's packages belong to, where there is one.
interpreter() { if [ -x "/usr/bin/$1" ]; then echo "/usr/bin/$1"; else command -v "$1" || true; fi; }

# missing prints what is not there, one word each.
missing() {
	for tool in redis-server redis-sentinel redis-cli redis-benchmark; do
		command -v "$tool" >/dev/null || echo "$tool"
	done
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
		command -v google-chrome >/dev/null || echo chromium
	for tool in zsh fish groff mandoc haproxy jq; do command -v "$tool" >/dev/null || echo "$tool"; done
	have_postgres || echo postgresql
	command -v tclsh8.6 >/dev/null || command -v tclsh8.5 >/dev/null || echo tcl
	have_client "$(interpreter python3)" -c 'import redis' || echo python-client
	have_client "$(interpreter ruby)" -e 'require "redis"' || echo ruby-client
	have_client "$(interpreter php)" -r 'exit(extension_loaded("redis") ? 0 : 1);' || echo php-client
	have_client "$(interpreter perl)" -MRedis -e 1 || echo perl-client
	echo '#include <hiredis/hiredis.h>' | cc -E -I/opt/homebrew/include -I/usr/local/include - >/dev/null 2>&1 || echo c-client
	command -v javac >/dev/null && javac -version >/dev/null 2>&1 || echo javac
	judges
}

# judges prints which tools that judge docs/deploy are not there.
judges() {
	for tool in prometheus promtool; do command -v "$tool" >/dev/null || echo "$tool"; done
	[ "$(uname)" != Linux ] || command -v systemd-analyze >/dev/null || echo systemd-analyze
}

# root runs a command as root.
root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# apt_install installs packages on Debian and Ubuntu. policy-rc.d keeps their
# services from being started; one that stands there already is respected.
apt_install() {
	echo "install.sh: apt-get install $*"
	policy=/usr/sbin/policy-rc.d ours=no
	if [ ! -e "$policy" ]; then
		ours=yes
		printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
		root chmod +x "$policy"
	fi
	status=0
	root apt-get update -qq &&
		root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
		status=$?
	[ "$ours" = no ] || root rm -f "$policy"
	return "$status"
}

# take_prometheus takes the programs out of its package, whose server would run on from then on if it were installed.
take_prometheus() {
	echo "install.sh: prometheus and promtool from the package prometheus, into /usr/local/bin"
	dir=$(mktemp -d)
	status=0
	(cd "$dir" && root apt-get update -qq && apt-get download -qq prometheus 2>/dev/null &&
		dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/prometheus ./usr/bin/promtool &&
		root install -m 755 usr/bin/prometheus usr/bin/promtool /usr/local/bin) || status=$?
	rm -rf "$dir"
	return "$status"
}

# apt_packages turns what is missing into the names of packages.
apt_packages() {
	for name; do
		case $name in
		redis-server) echo redis-server ;;
		redis-sentinel) echo redis-sentinel ;;
		redis-cli | redis-benchmark) echo redis-tools ;;
		chromium) echo chromium fonts-dejavu-core ;;
		postgresql) echo postgresql ;;
		tcl) echo tcl8.6 ;;
		zsh | fish | mandoc | haproxy | jq) echo "$name" ;;
		groff) echo groff-base ;;
		python-client) echo python3-redis ;;
		ruby-client) echo ruby-redis ;;
		php-client) echo php-cli php-redis ;;
		perl-client) echo libredis-perl ;;
		c-client) echo gcc libc6-dev libhiredis-dev ;;
		javac) echo default-jdk-headless ;;
		systemd-analyze) echo systemd ;;
		esac
	done | tr ' ' '\n' | sort -u
}

# brew_install does the same on macOS, where the libraries come from each
# language's own installer.
brew_install() {
	for name; do
		case $name in
		redis-*) command -v redis-server >/dev/null || { echo "install.sh: brew install redis"; brew install redis; } ;;
		chromium) echo "install.sh: brew install chromium"; brew install --cask chromium ;;
		postgresql) echo "install.sh: brew install postgresql@17"; brew install postgresql@17 ;;
		tcl) echo "install.sh: brew install tcl-tk@8"; brew install tcl-tk@8 ;;
		zsh | fish | mandoc | groff | haproxy | jq) echo "install.sh: brew install $name"; brew install "$name" ;;
		python-client) echo "install.sh: pip3 install --user redis"; pip3 install --user --break-system-packages redis ;;
		ruby-client) echo "install.sh: gem install redis"; gem install --user-install redis ;;
		php-client) echo "install.sh: brew install php, pecl install redis"; command -v php >/dev/null || brew install php; yes '' | pecl install redis ;;
		perl-client) echo "install.sh: cpan Redis"; PERL_MM_USE_DEFAULT=1 cpan -T Redis ;;
		c-client) echo "install.sh: brew install hiredis"; brew install hiredis ;;
		javac) echo "install.sh: brew install --cask temurin"; brew install --cask temurin ;;
		prometheus) echo "install.sh: brew install prometheus"; brew install prometheus ;;
		esac
	done
}

# shellcheck disable=SC2046 # the names are single words
set -- "${1:-}" $(missing)
mode=$1
shift
if [ $# = 0 ]; then
	echo "install.sh: everything the integration tests need is installed"
	exit 0
fi
echo "install.sh: missing: $*"
[ "$mode" != --check ] || exit 1
if command -v apt-get >/dev/null; then
	# shellcheck disable=SC2046
	packages=$(apt_packages "$@")
	# shellcheck disable=SC2086
	[ -z "$packages" ] || apt_install $packages
	command -v prometheus >/dev/null && command -v promtool >/dev/null || take_prometheus
elif command -v brew >/dev/null; then
	brew_install "$@"
else
	echo "install.sh: neither apt-get nor brew is here: please install these yourself" >&2
	exit 1
fi

left=$(missing)
if [ -n "$left" ]; then
	echo "install.sh: still missing:" $left >&2
	exit 1
fi
echo "install.sh: done"
