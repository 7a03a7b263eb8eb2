import { isIP } from 'node:net'
import Type from 'typebox'
import { commonConfig, defineConfig, messageKeys, pick } from '../lib/config.ts'
import { isNetwork } from './address.ts'
import { WAITS_MS } from './schedule.ts'

const serverAddress = Type.Refine(Type.String(),
  text => isIP(text.replace(/^\[(.*)\](:\d+)?$|^([\d.]+):\d+$/, '$1$3')) !== 0,
  () => 'must be an IP address, with or without port')

const network = Type.Refine(Type.String(), isNetwork,
  () => 'must be a network such as 203.0.113.0/24')

/** Configuration of `deliver`; defaults are the values of the public interface. */
export const deliverConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'CLICKHOUSE_URL', 'KEY_RING',
    'KEY_ACTIVE',
  ]),
  BATCH_MESSAGES: Type.Integer({
    default: 100, minimum: 1, maximum: 1_000, description: 'Events taken up at once, at most.',
  }),
  WEBHOOK_WAITS_MS: Type.Array(Type.Integer({ minimum: 0 }), {
    default: [...WAITS_MS],
    description: 'Waits after each failed try of a webhook but the last, JSON.',
  }),
  WEBHOOK_TIMEOUT_MS: Type.Integer({
    default: 15_000, minimum: 10, description: 'How long one try of a webhook may take in all.',
  }),
  WEBHOOK_LEASE_MS: Type.Integer({
    default: 60_000,
    minimum: 100,
    description: 'After so long a try of which nothing was noted is another process\'s to make.',
  }),
  WEBHOOK_SLOTS: Type.Integer({
    default: 1_000, minimum: 1, description: 'Tries under way at once for quick receivers.',
  }),
  WEBHOOK_SLOW_SLOTS: Type.Integer({
    default: 3_000, minimum: 1, description: 'Tries under way at once for slow receivers.',
  }),
  WEBHOOK_TENANT_SLOTS: Type.Integer({
    default: 2_000, minimum: 1, description: 'Tries of one tenant under way at once, of all paces.',
  }),
  WEBHOOK_SLOW_AFTER_MS: Type.Integer({
    default: 1_000, minimum: 1, description: 'A try that takes longer makes its receiver slow.',
  }),
  WEBHOOK_POLL_MS: Type.Integer({
    default: 1_000, minimum: 1, description: 'Pause between two looks for webhooks that are due.',
  }),
  WEBHOOK_DNS_SERVERS: Type.Array(serverAddress, {
    default: [],
    description: 'Resolvers asked about webhook addresses, IP addresses with or without port; ' +
      'without any those of the system.',
  }),
  WEBHOOK_DENIED_NETWORKS: Type.Array(network, {
    default: [],
    description: 'Public networks of your own that no webhook is sent to, as CIDR.',
  }),
  WEBHOOK_ALLOW_HTTP: Type.Boolean({
    default: false, description: 'Send to webhook addresses without TLS; for development.',
  }),
  WEBHOOK_ALLOW_LOOPBACK: Type.Boolean({
    default: false, description: 'Send to webhook addresses on this machine; for development.',
  }),
})
