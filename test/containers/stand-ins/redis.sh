#!/bin/sh
# Starts Redis as the official image does: options alone are those of the server, which runs as its
# own user, and takes connections of others without a password if it has none.
set -e
case $1 in -*) set -- redis-server "$@" ;; esac
[ "$1" != redis-server ] || set -- "$@" --protected-mode no
if [ "$1" = redis-server ] && [ "$(id -u)" = 0 ]; then
  chown -R 999:1000 .
  set -- setpriv --reuid=999 --regid=1000 --clear-groups "$@"
fi
exec "$@"
