#!/bin/sh
# Builds the scheduler, its loader and the program of the calls into target/sched-ext. Nothing is installed: what is not on
# this machine (clang 19, libbpf, libelf, zlib) is fetched with apt-get and unpacked there. Debian 12 or 13, amd64.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${CARGO_TARGET_DIR:-$root/target}/sched-ext
tools=$out/tools
mkdir -p "$tools/debs" "$tools/lists/partial" "$tools/cache/archives/partial"

# libbpf 1.5 knows the link to a scheduler (.struct_ops.link); Debian 12 has 1.1. So it comes from trixie's lists, which are
# kept apart from the system's. The server is the one that the system's own sources name.
if ! [ -e "$tools/complete" ]; then
	server=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
		sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\(http[^ ]*\) .*/\2/p' | grep -v security | head -n 1)
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $server trixie main" >"$tools/sources.list"
	: >"$tools/status"
	trixie() {
		apt-get -qq -o Dir::State::lists="$tools/lists" -o Dir::State::status="$tools/status" \
			-o Dir::Cache="$tools/cache" -o Dir::Etc::sourcelist="$tools/sources.list" -o Dir::Etc::sourceparts=- \
			-o APT::Sandbox::User=root "$@"
	}
	trixie update
	cd "$tools/debs"
	trixie download libbpf-dev
	apt-get -qq -o APT::Sandbox::User=root download clang-19 libclang-cpp19 libllvm19 libclang-common-19-dev libelf-dev zlib1g-dev
	for deb in *.deb; do dpkg -x "$deb" "$tools"; done
	: >"$tools/complete"
fi

lib=$tools/usr/lib/$(gcc -dumpmachine)
LD_LIBRARY_PATH=$lib "$tools/usr/lib/llvm-19/bin/clang" -g -O2 -Wall -Werror -target bpf -D__TARGET_ARCH_x86 -mcpu=v3 \
	-I"$tools/usr/include" -c "$here/handoff.bpf.c" -o "$out/handoff.bpf.o"

# trixie's library calls C23's names of these, which the C library of Debian 12 does not have.
names=
for name in sscanf fscanf strtol strtoll strtoul strtoull; do names="$names,--defsym=__isoc23_$name=$name"; done
gcc -O2 -Wall -Werror -static -I"$tools/usr/include" -L"$lib" "$here/told.c" -o "$out/told" -lbpf -lelf -lz "-Wl$names"

cd "$root"
triple=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release --package handoff-ipc --example told_calls \
	--target "$triple" --target-dir "${CARGO_TARGET_DIR:-$root/target}"
cp "${CARGO_TARGET_DIR:-$root/target}/$triple/release/examples/told_calls" "$out/"
echo "built $out: told, handoff.bpf.o, told_calls"
