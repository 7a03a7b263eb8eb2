import type { KafkaConfig, SASLOptions } from 'kafkajs'
import { FeedError } from './feed-topics.ts'

type Env = Readonly<Record<string, string | undefined>>

const SASL_KEYS = ['KAFKA_SASL_MECHANISM', 'KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'] as const
const MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512']

/**
 * Over TLS and as whom a partner reaches the brokers, by the names that services have for it;
 * openly and as anybody when nothing is set.
 */
export function feedSecurity (env: Env): Pick<KafkaConfig, 'ssl' | 'sasl'> {
  const tls = env['KAFKA_TLS'] || 'false'
  if (!['true', 'false'].includes(tls)) throw new FeedError('KAFKA_TLS must be true or false.')
  return { ...tls === 'true' ? { ssl: true } : {}, ...saslOf(env) }
}

function saslOf (env: Env): Pick<KafkaConfig, 'sasl'> {
  const missing = SASL_KEYS.filter(key => !env[key])
  if (missing.length === SASL_KEYS.length) return {}
  if (missing.length > 0) {
    throw new FeedError(`Set ${missing.join(' and ')} too: ${SASL_KEYS.join(', ')} go together.`)
  }
  const [mechanism = '', username, password] = SASL_KEYS.map(key => env[key])
  if (!MECHANISMS.includes(mechanism)) {
    throw new FeedError(`KAFKA_SASL_MECHANISM must be one of ${MECHANISMS.join(', ')}.`)
  }
  return { sasl: { mechanism, username, password } as SASLOptions }
}
