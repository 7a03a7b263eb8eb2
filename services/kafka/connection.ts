import type { KafkaConfig, SASLOptions } from 'kafkajs'

/** What tells how brokers are reached, as the configuration has it. */
export type KafkaSettings = {
  readonly KAFKA_BROKERS: readonly string[]
  readonly KAFKA_TLS?: boolean | undefined
  readonly KAFKA_SASL_MECHANISM?: 'plain' | 'scram-sha-256' | 'scram-sha-512' | undefined
  readonly KAFKA_SASL_USERNAME?: string | undefined
  readonly KAFKA_SASL_PASSWORD?: string | undefined
}

/** The brokers, and as whom and how they are reached: by anybody and openly when left out. */
export type KafkaConnection = {
  readonly brokers: readonly string[]
  readonly ssl?: true
  readonly sasl?: SASLOptions
}

/**
 * How brokers are reached. Certificates are checked against the authorities Node knows, which
 * NODE_EXTRA_CA_CERTS adds to. That a mechanism has its user and password is checked by
 * `loadConfig`.
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

/** The part of the client's own options that every client of these brokers needs. */
export function kafkaOptionsOf (
  { brokers, ssl, sasl }: KafkaConnection
): Pick<KafkaConfig, 'brokers' | 'ssl' | 'sasl'> {
  return {
    brokers: [...brokers],
    ...ssl === undefined ? {} : { ssl },
    ...sasl === undefined ? {} : { sasl },
  }
}
