import { Kafka, logLevel, type Admin, type KafkaConfig, type SASLOptions } from 'kafkajs'

/** The settings of connections to the brokers. */
export type KafkaSettings = {
  readonly KAFKA_BROKERS: readonly string[]
  readonly KAFKA_TLS?: boolean | undefined
  readonly KAFKA_SASL_MECHANISM?: 'plain' | 'scram-sha-256' | 'scram-sha-512' | undefined
  readonly KAFKA_SASL_USERNAME?: string | undefined
  readonly KAFKA_SASL_PASSWORD?: string | undefined
}

/** The brokers, with TLS and authentication if configured. */
export type KafkaConnection = {
  readonly brokers: readonly string[]
  readonly ssl?: true
  readonly sasl?: SASLOptions
}

/**
 * The connection of a configuration. Certificates are checked against the CAs of Node and of
 * NODE_EXTRA_CA_CERTS. `loadConfig` checks that a SASL mechanism has a user and a password.
 */
export function kafkaConnectionOf (settings: KafkaSettings): KafkaConnection {
  const {
    KAFKA_BROKERS: brokers, KAFKA_TLS: tls = false, KAFKA_SASL_MECHANISM: mechanism,
    KAFKA_SASL_USERNAME: username, KAFKA_SASL_PASSWORD: password,
  } = settings
  const isComplete = mechanism !== undefined && username !== undefined && password !== undefined
  return {
    brokers,
    ...tls ? { ssl: true } : {},
    ...isComplete ? { sasl: { mechanism, username, password } as SASLOptions } : {},
  }
}

/** The options of kafkajs for a connection. */
export function kafkaOptionsOf (
  { brokers, ssl, sasl }: KafkaConnection
): Pick<KafkaConfig, 'brokers' | 'ssl' | 'sasl'> {
  return {
    brokers: [...brokers],
    ...ssl === undefined ? {} : { ssl },
    ...sasl === undefined ? {} : { sasl },
  }
}

/** A lazily opened admin connection to Kafka. */
export type AdminClient = ReturnType<typeof createAdminClient>

/** Connects on first use and keeps the connection, as connecting costs more than the requests. */
export function createAdminClient (connection: KafkaConnection, clientId: string) {
  let open: Promise<Admin> | undefined
  const connect = async () => {
    const kafka = new Kafka({
      ...kafkaOptionsOf(connection),
      clientId,
      logLevel: logLevel.NOTHING,
      retry: { retries: 2 },
    })
    const admin = kafka.admin()
    await admin.connect()
    return admin
  }
  const close = async () => {
    const closing = open
    open = undefined
    await closing?.then(admin => admin.disconnect()).catch(() => {})
  }
  const use = async <T>(work: (admin: Admin) => Promise<T>): Promise<T> => {
    open ??= connect()
    try {
      return await work(await open)
    } catch (error) {
      await close()
      throw error
    }
  }
  return { use, close }
}
