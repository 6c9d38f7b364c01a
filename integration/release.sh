#!/bin/sh
# release.sh makes what is published of a version, from the sources in the current directory:
#
#	lockproxy_0.1.0_linux_amd64.tar.gz    the static binary, licences, manual page and completions;
#	                                      likewise linux_arm64, darwin_amd64 and darwin_arm64
#	lockproxy_0.1.0_linux_amd64.cdx.json  what is linked into it (CycloneDX); likewise the others
#	lockproxy_0.1.0_image.tar.gz          a context from which an image is made without a compiler
#	SHA256SUMS                            of all of them
#
# The same sources, commit, Go and gzip make the same bytes, wherever and whenever they are made. It takes GNU tar,
# jq and sha256sum.
#
#	integration/release.sh VERSION [OS/ARCH ...]    platforms; all of them by default
#
#	OUT=dist             the directory to make
#	COMMIT=              that the binaries name; by default that of the sources
#	SOURCE_DATE_EPOCH=   of all files; by default when the commit was made
#	LEVEL=9              of gzip
set -eu
GO=${GO:-go}
die() {
	echo "release.sh: $*" >&2
	exit 1
}

all="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"
[ -n "${1-}" ] || die "usage: release.sh VERSION [OS/ARCH ...]"
version=$1
shift
# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $all
for platform; do
	case " $all " in *" $platform "*) ;; *) die "$platform: the platforms are $all" ;; esac
done
commit=${COMMIT:-$(git rev-parse --short=12 HEAD)} && time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} ||
	die "without a repository: COMMIT and SOURCE_DATE_EPOCH"
out=${OUT:-dist} name=lockproxy_$version
tar=$(command -v gtar || echo tar)
for tool in "$tar" gzip jq sha256sum; do
	command -v "$tool" >/dev/null || die "please install $tool"
done

mkdir -p "$(dirname "$out")"
# In the same folder as the old directory, so that the new one is renamed and not copied.
work=$(mktemp -d "$(cd "$(dirname "$out")" && pwd)/.release-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/dist"

# build OS ARCH compiles the program as the Dockerfile and `make build` do, into $work/OS-ARCH. What the Go command
# would note of the repository is left out: it would differ in a copy of the sources. Without cgo the binary is
# static, and needs no C library of its machine.
build() {
	[ -e "$work/$1-$2" ] || CGO_ENABLED=0 GOOS=$1 GOARCH=$2 GOFLAGS=-mod=readonly "$GO" build -trimpath \
		-buildvcs=false -ldflags "-s -w -X main.version=$version -X main.commit=$commit" -o "$work/$1-$2" ./cmd/lockproxy
}

# archive FOLDER packs a folder of $work: all of root, and all as old as the commit. Neither users nor times of this
# machine get into it.
archive() {
	(cd "$work" && find "$1" -type f | LC_ALL=C sort | "$tar" -c --format=ustar --numeric-owner --owner=0 --group=0 \
		--mode=u=rwX,go=rX --mtime="@$time" -T - >"$1.tar" && gzip -n "-${LEVEL:-9}" <"$1.tar" >"dist/$1.tar.gz")
}

# bill OS ARCH says what is linked into a binary, as the binary itself does: nothing is taken from go.mod, which may
# name more than is linked. What was replaced is named as what it was replaced by: that is what has or has not a hole.
# It has those parts of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json) that stand below.
bill() {
	sum=$(sha256sum <"$work/$1-$2" | cut -d ' ' -f 1)
	"$GO" version -m -json "$work/$1-$2" >"$work/built"
	jq -S --arg os "$1" --arg arch "$2" --arg version "$version" \
		--arg commit "$commit" --argjson time "$time" --arg sum "$sum" '
		def library(properties): "pkg:golang/\(.Path)@\(.Version)" as $ref |
			{type: "library", "bom-ref": $ref, purl: $ref, name: .Path, version: .Version} +
			if properties == {} then {} else {properties: properties | to_entries | map({name: .key, value})} end;
		# A UUID of version 8, which is for whatever its maker likes (RFC 9562): the same binary has the same bill.
		def uuid: ("89ab" * 4 | .[("0123456789abcdef" | index($sum[16:17])):][:1]) as $variant |
			"urn:uuid:\(.[:8])-\(.[8:12])-8\(.[13:16])-\($variant)\(.[17:20])-\(.[20:32])";
		[({Path: "std", Version: .GoVersion[2:]} | library({})), (.Deps[] | .Path as $path |
			if .Replace then .Replace | library({"go.sum": .Sum, replaces: $path})
			else library({"go.sum": .Sum}) end)] as $all |
		{bomFormat: "CycloneDX", specVersion: "1.6", version: 1, serialNumber: $sum | uuid,
			metadata: {timestamp: $time | todate, component: {
				type: "application", "bom-ref": "lockproxy", name: "lockproxy", version: $version,
				purl: "pkg:generic/lockproxy@\($version)?arch=\($arch)&os=\($os)",
				hashes: [{alg: "SHA-256", content: $sum}], licenses: [{license: {id: "Apache-2.0"}}],
				properties: [{name: "commit", value: $commit}]}},
			components: $all, dependencies: [
				{ref: "lockproxy", dependsOn: $all | map(."bom-ref")}, ($all[] | {ref: ."bom-ref"})]}' "$work/built"
}

# The manual page and the completions are what the program prints of itself.
os=$("$GO" env GOHOSTOS) arch=$("$GO" env GOHOSTARCH)
build "$os" "$arch"
here=$work/$os-$arch common=$work/common image=$work/${name}_image
mkdir -p "$common/completions" "$image"
cp LICENSE NOTICE CHANGELOG.md "$common"
"$here" man >"$common/lockproxy.1"
"$here" completion bash >"$common/completions/lockproxy.bash"
"$here" completion zsh >"$common/completions/_lockproxy"
"$here" completion fish >"$common/completions/lockproxy.fish"
[ -z "$(find "$common" -size 0)" ] || die "the program says nothing of itself: $(find "$common" -size 0)"

# The image's Dockerfile is that of the sources, whose first stage compiles nothing, and only lends the certificates of
# public authorities. Better no release than an image whose Dockerfile was changed blindly.
[ "$(grep -cx -e 'FROM golang:[^ ]* AS build' -e 'FROM scratch' \
	-e 'COPY --from=build /out/lockproxy /lockproxy' Dockerfile)" = 3 ] ||
	die "Dockerfile: its stages are not as they were"
cp LICENSE NOTICE "$image"
{
	printf '%s\n' "# From released binaries; BuildKit knows TARGETARCH." "#" \
		"#	docker buildx build --platform linux/amd64,linux/arm64 -t lockproxy:$version ." ""
	awk '
		/^FROM golang/ { print $0 "\n" }
		/^FROM scratch/ { last = 1 }
		/\/out\/lockproxy/ { $0 = "ARG TARGETARCH\nCOPY lockproxy-linux-${TARGETARCH} /lockproxy" }
		last' Dockerfile
} >"$image/Dockerfile"

for platform; do
	os=${platform%/*} arch=${platform#*/}
	build "$os" "$arch"
	folder=${name}_${os}_$arch
	cp -R "$common" "$work/$folder"
	cp "$work/$os-$arch" "$work/$folder/lockproxy"
	archive "$folder"
	bill "$os" "$arch" >"$work/dist/$folder.cdx.json"
	[ "$os" != linux ] || cp "$work/$os-$arch" "$image/lockproxy-linux-$arch"
done
archive "${name}_image"
(cd "$work/dist" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
# Everything is there and right: only now the old release goes.
rm -rf "$out"
mv "$work/dist" "$out"
