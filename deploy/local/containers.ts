import type { StartedTestContainer } from 'testcontainers'
import { freePort } from './ports.ts'
import { readVersion, type Say } from './parts.ts'
import type { Addresses } from './source.ts'

type Running = { readonly addresses: Addresses, readonly stop: () => Promise<void> }

/** As compose.yaml names them. */
const KAFKA_IMAGE = 'apache/kafka:4.3.1' +
  '@sha256:77e3df9054047a88b520d0cc46e16696d3b22022e1d580aeccd2632df6532837'
const REDIS_IMAGE = 'redis:7.4-alpine' +
  '@sha256:ff02b58f971e7d7d156a1267e283fcbbeee91773b6aa36c49dac28ecfe28eadf'
const CLICKHOUSE_IMAGE = 'clickhouse/clickhouse-server:25.8' +
  '@sha256:0152dd511befe6a2c2ef53e930726179669b08116da78500b37c51c96ff5ee77'
const LOOPBACK = '127.0.0.1'

/** The same infrastructure in containers; they end with this process (testcontainers' reaper). */
export async function startContainers (say: Say): Promise<Running> {
  say('starting the stack in containers (images are pulled the first time)')
  const started: StartedTestContainer[] = []
  const stop = async () => {
    await Promise.allSettled(started.splice(0).map((container) => container.stop()))
  }
  const note = async (container: Promise<StartedTestContainer>) => {
    const running = await container
    started.push(running)
    return running
  }
  const starting = await Promise.allSettled([
    startKafka(note), startRegistry(note), startRedis(note, 'state'), startRedis(note, 'cache'),
    startClickhouse(note),
  ])
  const failed = starting.find((outcome) => outcome.status === 'rejected')
  if (failed) {
    await stop()
    const reason = failed.reason instanceof Error ? failed.reason.message : String(failed.reason)
    throw new Error(`the stack could not be started in containers: ${reason}. Check that a ` +
      'container engine answers (docker info) and can pull images (docker pull ' +
      'redis:7.4-alpine), or unset STACK_SOURCE to use the embedded stack',
    { cause: failed.reason })
  }
  const [kafka, registry, state, cache, clickhouse] = starting
    .map((outcome) => outcome.status === 'fulfilled' ? outcome.value : '')
  return {
    addresses: {
      KAFKA_BROKERS: kafka!,
      SCHEMA_REGISTRY_URL: registry!,
      REDIS_STATE_URL: state!,
      REDIS_CACHE_URL: cache!,
      CLICKHOUSE_URL: clickhouse!,
    },
    stop,
  }
}

/** Publishes its ports on 127.0.0.1 only: the servers in the containers ask for no password. */
async function createContainer (image: string) {
  const { GenericContainer } = await import('testcontainers')
  class LoopbackContainer extends GenericContainer {
    protected override async beforeContainerCreated (): Promise<void> {
      for (const bindings of Object.values(this.hostConfig.PortBindings ?? {})) {
        for (const binding of bindings as { HostIp?: string }[]) binding.HostIp = LOOPBACK
      }
    }
  }
  return new LoopbackContainer(image)
}

type Note = (container: Promise<StartedTestContainer>) => Promise<StartedTestContainer>

/** Kafka advertises its own address, so the outer port must be known before it starts. */
async function startKafka (note: Note): Promise<string> {
  const { Wait } = await import('testcontainers')
  const port = await freePort()
  const container = (await createContainer(KAFKA_IMAGE))
    .withExposedPorts({ container: 9092, host: port })
    .withEnvironment({
      KAFKA_NODE_ID: '1',
      KAFKA_PROCESS_ROLES: 'broker,controller',
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
      KAFKA_LISTENERS: 'PLAINTEXT://:9092,CONTROLLER://:9093',
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${port}`,
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
      KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT',
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
      KAFKA_MESSAGE_MAX_BYTES: '2097152',
    })
    .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
  await note(container.start())
  return `127.0.0.1:${port}`
}

async function startRegistry (note: Note): Promise<string> {
  const { Wait } = await import('testcontainers')
  const image = `apicurio/apicurio-registry-mem:${readVersion('registry')}`
  const running = await note((await createContainer(image))
    .withExposedPorts(8080)
    .withWaitStrategy(Wait.forHttp('/apis/ccompat/v7/subjects', 8080))
    .start())
  return `http://${LOOPBACK}:${running.getMappedPort(8080)}/apis/ccompat/v7`
}

async function startRedis (note: Note, role: 'state' | 'cache'): Promise<string> {
  const { Wait } = await import('testcontainers')
  const settings = {
    state: [
      '--appendonly', 'yes', '--appendfsync', 'always', '--lazyfree-lazy-expire', 'yes',
      '--maxmemory-policy', 'noeviction',
    ],
    cache: ['--save', '', '--maxmemory', '512mb', '--maxmemory-policy', 'allkeys-lru'],
  }
  const running = await note((await createContainer(REDIS_IMAGE))
    .withExposedPorts(6379)
    .withCommand(['redis-server', ...settings[role]])
    .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
    .start())
  return `redis://${LOOPBACK}:${running.getMappedPort(6379)}`
}

async function startClickhouse (note: Note): Promise<string> {
  const { Wait } = await import('testcontainers')
  const running = await note((await createContainer(CLICKHOUSE_IMAGE))
    .withExposedPorts(8123)
    // Without a password the image lets the default user in from inside the container only.
    .withEnvironment({ CLICKHOUSE_SKIP_USER_SETUP: '1' })
    .withWaitStrategy(Wait.forHttp('/ping', 8123))
    .start())
  return `http://${LOOPBACK}:${running.getMappedPort(8123)}`
}
