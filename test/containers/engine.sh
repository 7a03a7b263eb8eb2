#!/bin/sh
# Runs a container engine in namespaces of its own, until the standard input ends: its network, its
# processes and its mounts end with it. Started by `unshare --mount --pid --fork`.
#   engine.sh ROOT DATA PORTS FOLDER...
# ROOT is a Debian with the engine, DATA keeps its images, PORTS of 127.0.0.1 are passed into its
# network, and FOLDERs are seen inside under the same paths.
set -e
root=$1 data=$2 ports=$3
shift 3

mkdir -p "$data"
exec 9> "$data/lock"
flock -n 9 || { echo "another run uses $data" >&2; exit 1; }

mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
cp /etc/resolv.conf /etc/hosts etc/
# A proxy on the way out may have an authority of its own.
authorities=etc/ssl/certs/ca-certificates.crt
[ ! -e /$authorities ] || cp /$authorities $authorities
for folder in "$data" "$@"; do
  mkdir -p ".$folder"
  mount --bind "$folder" ".$folder"
done
mkdir -p .outside
pivot_root . .outside
umount -l .outside
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Control groups of a run that was killed.
remove_groups () {
  find /sys/fs/cgroup -depth -type d -path '*/verification-jobs-engine*' \
    -exec rmdir {} + 2> /dev/null || true
}
remove_groups

# Root of a container may not set limits of processes: runc is not asked to.
cat > /run/runc-without-limits <<'RUNC'
#!/bin/sh
for word; do
  case $previous in
    --bundle) sed -i 's/"rlimits":\[[^]]*\],\{0,1\}//' "$word/config.json" ;;
    --process) sed -i 's/"rlimits":\[[^]]*\],\{0,1\}//' "$word" ;;
  esac
  previous=$word
done
exec runc "$@"
RUNC
chmod +x /run/runc-without-limits

# Ends the engine when the input ends; a line never comes.
cat > /run/engine <<'ENGINE'
# That of pasta has no name in the list of mounts, which not every program can read.
umount /proc
mount -t proc proc /proc
trap 'exit 1' TERM
(dockerd "$@" < /dev/null; kill -TERM $$) &
read -r _ || true
trap '' TERM
kill -TERM "$(cat /run/docker.pid)" 2> /dev/null || true
for _ in 1 2 3 4 5 6 7 8 9 10; do
  [ -e /run/docker.pid ] || break
  sleep 0.5
done
ENGINE

# pasta gives it a network, and processes, that end with it and leave those of this machine alone.
pasta --runas 0 --netns-only --config-net --host-lo-to-ns-lo --foreground --quiet \
  --tcp-ports "127.0.0.1/$ports" --udp-ports none --tcp-ns none --udp-ns none -- \
  tini -- sh /run/engine \
  --data-root "$data/docker" --exec-root /run/docker --pidfile /run/docker.pid \
  --host unix:///run/docker.sock --cgroup-parent /verification-jobs-engine \
  --add-runtime without-limits=/run/runc-without-limits --default-runtime without-limits || true
remove_groups
