#!/bin/busybox sh
# The first process of a Handoff guest: makes the machine usable, then carries out what the host
# asks for over the ports of the virtio console (see protocol.rs).

export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root TERM=linux
/bin/busybox mkdir -p /bin /sbin /usr/bin /usr/sbin /proc /sys /dev /tmp /run /root /etc
/bin/busybox --install -s /bin
chmod 1777 /tmp

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null || mdev -s
mkdir -p /dev/pts /dev/shm /run/handoff
mount -t devpts devpts /dev/pts 2>/dev/null
mount -t tmpfs tmpfs /dev/shm 2>/dev/null
# With these the programs find their way as on any Linux; a kernel that has none of one goes without.
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t configfs configfs /sys/kernel/config 2>/dev/null
for link in "fd /proc/self/fd" "stdin /proc/self/fd/0" "stdout /proc/self/fd/1" "stderr /proc/self/fd/2"; do
  set -- $link
  [ -e "/dev/$1" ] || ln -s "$2" "/dev/$1"
done
hostname handoff-guest
ip link set lo up 2>/dev/null

# What goes wrong here is told on the console, where the host looks for lines that begin so.
fault() { echo "handoff-guest: $*" >/dev/console; }
stop() { sync; reboot -f; }

mode=$(sed -n 's/.*handoff\.mode=\([a-z]*\).*/\1/p' /proc/cmdline)
if [ "$mode" = probe ]; then
  echo "handoff-guest: probe passed" >/dev/console
  stop
fi

if [ -f /etc/handoff/modules ]; then
  while read -r file parameters; do
    [ -n "$file" ] || continue
    reason=$(insmod "/lib/handoff/$file.ko" $parameters 2>&1) || fault "module $file: $reason"
  done </etc/handoff/modules
fi

# The driver's nodes: devices of the kernel's own where it has them, else those of binderfs.
if grep -qw binder /proc/filesystems; then
  mkdir -p /dev/binderfs
  if mount -t binder binder /dev/binderfs 2>/dev/null; then
    for node in binder hwbinder vndbinder; do
      [ -e "/dev/$node" ] || [ ! -e "/dev/binderfs/$node" ] || ln -s "binderfs/$node" "/dev/$node"
    done
  fi
fi
for node in binder hwbinder vndbinder; do
  minor=$(awk -v name="$node" '$2 == name { print $1 }' /proc/misc)
  [ -z "$minor" ] || [ -e "/dev/$node" ] || mknod "/dev/$node" c 10 "$minor"
  [ ! -e "/dev/$node" ] || chmod 666 "/dev/$node"
done

if [ "$mode" = shell ]; then
  echo "A shell in the guest, $(uname -r); leave it with: exit" >/dev/console
  setsid cttyhack sh
  stop
fi

port() {
  for found in /sys/class/virtio-ports/*/name; do
    [ -f "$found" ] && [ "$(cat "$found")" = "handoff.$1" ] || continue
    node=${found%/name}
    node=/dev/${node##*/}
    [ -e "$node" ] || mdev -s
    echo "$node"
    return
  done
}

tries=0
until [ -n "$(port warden)" ]; do
  tries=$((tries + 1))
  if [ $tries -gt 100 ]; then
    fault "no transport: this kernel shows no virtio console ports (it needs CONFIG_VIRTIO_PCI and" \
      "CONFIG_VIRTIO_CONSOLE, built in or as modules)"
    stop
  fi
  sleep 0.1
done

# Programs get a pipe, not the port: a port can be opened only once, and so /dev/stdout would fail.
mkfifo /run/handoff/out /run/handoff/err
exec 6<>/run/handoff/out 7<>/run/handoff/err
cat </run/handoff/out >"$(port out)" 6<&- 7<&- &
cat </run/handoff/err >"$(port err)" 6<&- 7<&- &

# Answers while a command runs; sleeps until it is asked.
warden() {
  while read -r verb; do
    group=$(cat /run/handoff/pid 2>/dev/null)
    case $verb in
    ping) echo pong ;;
    kill)
      [ -n "$group" ] && kill -KILL -- "-$group" 2>/dev/null
      echo killed
      ;;
    state)
      for stat in /proc/[0-9]*/stat; do
        # Fields behind the name in brackets: state, parent, process group.
        fields=$(sed 's/.*) //' "$stat" 2>/dev/null) || continue
        set -- $fields
        [ "$3" = "$group" ] || continue
        process=${stat%/stat}
        echo "$(cat "$process/comm") (pid ${process#/proc/}) is in state $1, waits in $(cat "$process/wchan" 2>/dev/null)"
      done
      echo .
      ;;
    esac
  done
}
warden_port=$(port warden)
warden <>"$warden_port" >&0 6<&- 7<&- &

exec 3<>"$(port cmd)" 5<"$(port in)"

mark() {
  printf '\036%s%s\n' "$1" "$2" >&6
  printf '\036%s%s\n' "$1" "$2" >&7
}

# A session of its own, so that the warden can end the command with all its children.
run() {
  setsid sh -c 'echo $$ >/run/handoff/pid; eval "$0"' "$1" \
    >/run/handoff/out 2>/run/handoff/err 3<&- 5<&- 6<&- 7<&-
}

echo "ready $(uname -r) $(uname -m) $(grep -c '^processor' /proc/cpuinfo)" >&3
while read -r verb nonce size script <&3; do
  case $verb in
  run)
    # It came quoted, so that it is one line.
    eval "script=$script"
    mark "$nonce" B
    if [ "$size" = 0 ]; then
      run "$script" </dev/null &
      wait $!
      status=$?
    else
      # What the command leaves of its input must not be taken for the next command's.
      head -c "$size" <&5 | {
        run "$script"
        status=$?
        cat >/dev/null
        exit $status
      }
      status=$?
    fi
    mark "$nonce" E
    echo "done $nonce $status" >&3
    ;;
  halt) stop ;;
  *) fault "unknown request $verb" ;;
  esac
done
fault "the host closed the command port"
stop
