import Type, { type Static } from 'typebox'
import {
  clickhouseKeys, commonConfig, defineConfig, messageKeys, pick, registryKeys, rootKeys, stateKeys,
} from '../runtime/platform/config.ts'
import { serverAddress } from '../runtime/platform/networks.ts'
import { isNetwork, isProxyUrl } from './sender.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** The waits after each failed attempt but the last: ten attempts in 75 h 35 min. */
const WAITS_MS: readonly number[] = [
  5_000, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS, 10 * HOUR_MS, 14 * HOUR_MS,
  20 * HOUR_MS, 24 * HOUR_MS,
]

const network = Type.Refine(Type.String(), isNetwork,
  () => 'must be a network such as 203.0.113.0/24')

/** Configuration of `deliver`; the defaults are the values of the public interface. */
export const deliverConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...clickhouseKeys,
    ...rootKeys.webhooks,
  ]),
  DELIVER_BATCH_MESSAGES: Type.Integer({
    default: 100, minimum: 1, maximum: 1_000, description: 'Maximum number of events per batch.',
  }),
  WEBHOOK_WAITS_MS: Type.Array(Type.Integer({ minimum: 0 }), {
    default: [...WAITS_MS],
    description: 'Waits after each failed webhook attempt but the last, JSON.',
  }),
  WEBHOOK_TIMEOUT_MS: Type.Integer({
    default: 15_000, minimum: 10, description: 'Maximum duration of a webhook attempt.',
  }),
  WEBHOOK_LEASE_MS: Type.Integer({
    default: 60_000,
    minimum: 100,
    description: 'Another process repeats an attempt that has no result after this time.',
  }),
  WEBHOOK_SLOTS: Type.Integer({
    default: 1_000, minimum: 1, description: 'Maximum concurrent attempts to fast receivers.',
  }),
  WEBHOOK_SLOW_SLOTS: Type.Integer({
    default: 3_000, minimum: 1, description: 'Maximum concurrent attempts to slow receivers.',
  }),
  WEBHOOK_TENANT_SLOTS: Type.Integer({
    default: 2_000,
    minimum: 1,
    description: 'Maximum concurrent attempts of one tenant, over all processes.',
  }),
  WEBHOOK_HOST_RATE: Type.Integer({
    default: 100,
    minimum: 1,
    description: 'Maximum attempts per second to one host (name and port), in each process; ' +
      'those beyond wait.',
  }),
  WEBHOOK_SLOW_AFTER_MS: Type.Integer({
    default: 1_000, minimum: 1, description: 'A longer attempt makes its receiver a slow one.',
  }),
  WEBHOOK_POLL_MS: Type.Integer({
    default: 1_000, minimum: 1, description: 'Poll interval for webhooks that are due.',
  }),
  WEBHOOK_PROXY: Type.Optional(Type.Refine(Type.String({
    secret: true,
    description: 'HTTP proxy for all webhook attempts (CONNECT), with its user and password if ' +
      'it needs them; none when left out.',
    examples: ['http://user:password@proxy.internal:3128'],
  }), isProxyUrl, () => 'must be a URL such as http://user:password@host:port')),
  WEBHOOK_DNS_SERVERS: Type.Array(serverAddress, {
    default: [],
    description: 'Resolvers for webhook hosts, IP addresses with or without port; those of the ' +
      'system if empty.',
  }),
  WEBHOOK_DENIED_NETWORKS: Type.Array(network, {
    default: [],
    description: 'Public networks of your own that never receive a webhook, as CIDR.',
  }),
  WEBHOOK_ALLOW_HTTP: Type.Boolean({
    default: false, description: 'Send webhooks to addresses without TLS; for development.',
  }),
  WEBHOOK_ALLOW_LOOPBACK: Type.Boolean({
    default: false, description: 'Send webhooks to addresses on this machine; for development.',
  }),
})

export type DeliverConfig = Static<typeof deliverConfig>
