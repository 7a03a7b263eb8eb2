#!/bin/sh
# Runs the kubelet of a node in namespaces. It would change settings of the kernel that are the
# machine's own, so it finds the values that it wants in their place.
set -e
mkdir -p /run/kernel
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=/run/kernel/$(echo "${setting%=*}" | tr / .)
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
# All containers are in these groups, which the engine removes. Together they have the share of
# processors that the kubelet gives to them.
for controller in /sys/fs/cgroup/*/; do
  mkdir -p "$controller/verification-jobs-engine-node"
done
echo $((1024 * $(nproc))) > /sys/fs/cgroup/cpu/verification-jobs-engine-node/cpu.shares
exec "$@"
