#!/bin/sh
# After each task, as root on the node, also when it was killed: what it had changed is put back. A node
# that cannot be put back is drained by Slurm (the exit status), and takes no further task.
user_home=$(getent passwd "${SLURM_JOB_USER:-root}" | cut -d: -f6)
folder=/var/log/handoff
mkdir -p "$folder"
handoff doctor --format json >"$folder/after-${SLURM_JOB_ID:-0}.json" 2>/dev/null
HOME=$user_home exec handoff lab restore >>"$folder/restore.log" 2>&1
