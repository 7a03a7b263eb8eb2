# The steps of the official entrypoint that need rights: owning the folder, a first server that
# makes the database and is ended by a signal, and the server as the user 101.
set -e
data=/var/lib/clickhouse
chown 101 $data
as_user='setpriv --reuid 101 --clear-groups --no-new-privs'
server='node /app/test/containers/stand-ins/clickhouse.ts'
if [ ! -d $data/engine ]; then
  HOST=127.0.0.1 $as_user $server &
  until wget --quiet --spider http://127.0.0.1:8123/ping; do sleep 0.1; done
  kill -TERM $!
  wait $! || true
fi
exec $as_user $server
