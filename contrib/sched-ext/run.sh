#!/bin/sh
# Compares calls in guests with Debian's newest kernel: under its own scheduler, with both sides SCHED_FIFO, and under ours,
# told nothing and told. Build first: build.sh. What each run gave goes to target/sched-ext/, and a table to the terminal.
#
#   run.sh calls [ROUNDS]     one CPU whose clock counts instructions, 2 ns each; no hog to 8
#   run.sh cpus [ROUNDS]      two CPUs: which one serves a call; times say nothing there
#   run.sh others             hackbench and a pipe on one CPU, judged by the lab: whoever tells nothing should pay nothing
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$(cd "$here/../.." && pwd)/target}
out=$target/sched-ext
handoff=${HANDOFF:-$target/release/handoff}
rounds=${2:-6}

guest() {
	"$handoff" guest run --suite trixie-backports --timeout 7200 --put "$out/told" --put "$out/handoff.bpf.o" "$@"
}

# compare FILE OPTION SITUATION...
compare() {
	file=$out/$1.tsv clock=$2
	shift 2
	: >"$file"
	for engine in binder shm; do
		# One word each: --smp=2, --icount.
		guest "$clock" --raw --put "$out/told_calls" -- \
			/root/told_calls compare $engine 1 "$rounds" "$@" -- /root/told /root/handoff.bpf.o | tee -a "$file" >&2
	done
	"$out/told_calls" tables "$file"
}

case ${1:-} in
calls) compare calls --icount 0 1 2 4 8 2+ 2w 8w ;;
cpus) compare cpus --smp=2 0 2 4 ;;
others) guest --smp 1 --put "$here/others.toml" -- lab run --format json /root/others.toml | tee "$out/others.json" ;;
*)
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
