# Makes a property of each variable, as the official image does (KAFKA_LOG_DIRS is log.dirs),
# formats the folder of a new broker, and becomes the broker.
set -e
umask 077
env | grep '^KAFKA_' | grep -v '^KAFKA_HEAP_OPTS=' | while IFS= read -r line; do
  name=${line%%=*}
  printf '%s=%s\n' "$(printf %s "${name#KAFKA_}" | tr 'A-Z_' 'a-z.')" "${line#*=}"
done > /tmp/server.properties
classes='/opt/kafka/libs/*'
java -cp "$classes" kafka.tools.StorageTool format --ignore-formatted \
  -t 5L6g3nShT-eMCtK--X86sw -c /tmp/server.properties
exec java $KAFKA_HEAP_OPTS -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.xml \
  -cp "$classes" kafka.Kafka /tmp/server.properties
