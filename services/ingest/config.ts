import Type, { type Static } from 'typebox'
import { checksConfig, listChecks } from '../jobs/checks.ts'
import { listsConfig } from '../jobs/lists-folder.ts'
import { optionPricesConfig } from '../jobs/options.ts'
import { readPrices, unitPricesConfig } from '../money/prices.ts'
import {
  cacheKeys, clickhouseKeys, commonConfig, defineConfig, messageKeys, pick, registryKeys, rootKeys,
  stateKeys,
} from '../runtime/platform/config.ts'
import { connectionFields } from '../runtime/platform/http-server.ts'
import { deriveSubkey } from '../runtime/crypto/mac.ts'
import { limitFields } from './limits/limiter.ts'
import { tlsFields } from './tls.ts'

/** The configuration of `ingest`; defaults are the values of the public interface. */
export const ingestConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...cacheKeys, ...clickhouseKeys,
    ...rootKeys.results, ...rootKeys.webhooks, 'CACHE_SECRET_ACTIVE',
  ]),
  HOST: Type.String({ default: '127.0.0.1', minLength: 1, description: 'Listen address.' }),
  PORT_HTTP: Type.Integer({
    default: 8080,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of the interface; 0 uses a free one.',
  }),
  TRUSTED_PROXIES: Type.Array(Type.String(), {
    default: [],
    description: 'Addresses or networks whose X-Forwarded-Proto and ' +
      'X-Forwarded-For are trusted.',
  }),
  ...checksConfig,
  ...listsConfig,
  ...unitPricesConfig,
  ...optionPricesConfig,
  WEBHOOK_ALLOW_HTTP: Type.Boolean({
    default: false, description: 'Accept webhook addresses without TLS; for development.',
  }),
  WEBHOOK_ALLOW_LOOPBACK: Type.Boolean({
    default: false, description: 'Accept webhook addresses on this machine; for development.',
  }),
  WEBHOOK_PORTS: Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), {
    default: [],
    description: 'Ports of webhook addresses that are also accepted, below 1024 or of databases ' +
      'and brokers; 80, 443 and other ports from 1024 on are always accepted.',
    examples: ['[444]'],
  }),
  // Enough for 100,000 rows through a busy pipeline, and less than clients commonly wait.
  ACCEPT_WITHIN_MS: Type.Integer({
    default: 25_000, minimum: 100, description: 'How long a request waits for its preflight.',
  }),
  SHED_LOAD_AFTER_MS: Type.Integer({
    default: 10_000,
    minimum: 1,
    description: 'When a preflight waits this long, new requests for jobs of its lane are ' +
      'rejected at once.',
  }),
  MAX_WAITS: Type.Integer({
    default: 1_000,
    minimum: 0,
    description: 'Maximum number of requests that wait for a job to change or end, shared ' +
      'fairly by organizations; others are answered at once.',
  }),
  MAX_WAITS_PER_TENANT: Type.Integer({
    default: 200, minimum: 0, description: 'Maximum number of these for one organization.',
  }),
  MAX_EVENT_STREAMS: Type.Integer({
    default: 1_000,
    minimum: 0,
    description: 'Maximum number of open event streams of jobs, shared fairly by organizations: ' +
      'the newest one of the organization with most is closed for another.',
  }),
  MAX_EVENT_STREAMS_PER_TENANT: Type.Integer({
    default: 50, minimum: 0, description: 'Maximum number of these for one organization.',
  }),
  BODY_BUDGET_BYTES: Type.Integer({
    default: 41_943_040,
    minimum: 1,
    description: 'Memory for all bodies in flight, in bytes, shared fairly by organizations: an ' +
      'eighth of it is guaranteed to each, until all have twice as much.',
  }),
  SAMPLE_ROWS_PER_DAY: Type.Integer({
    default: 300,
    minimum: 0,
    description: 'Rows of samples that an organization may have verified in 24 hours, free, to ' +
      'estimate lists, per mode; 0 for none. Providers may charge you for them.',
  }),
  MAX_WEBHOOK_ENDPOINTS: Type.Integer({
    default: 20,
    minimum: 1,
    maximum: 100,
    description: 'Maximum number of webhook endpoints of an organization, per mode.',
  }),
  ...limitFields,
  ...connectionFields,
  ...tlsFields,
  RETENTION_DAYS: Type.Integer({
    default: 90, minimum: 1, description: 'How long results can be read.',
  }),
})

export type Config = Static<typeof ingestConfig>

const DAY_MS = 86_400_000

export type Settings = ReturnType<typeof toSettings>

/** Derives the settings of the REST API from the configuration. */
export function toSettings (config: Config) {
  const { MESSAGE_KEYS: messageKeys, MESSAGE_KEY_ACTIVE: active } = config
  return {
    checks: listChecks(config),
    prices: readPrices(config.PRICES),
    optionPrices: config.OPTION_PRICES,
    /** Of live keys, by service: they decide which options a service has. */
    providers: config.PROVIDERS,
    webhooks: {
      allowHttp: config.WEBHOOK_ALLOW_HTTP,
      allowLoopback: config.WEBHOOK_ALLOW_LOOPBACK,
      ports: config.WEBHOOK_PORTS,
    },
    maxWebhookEndpoints: config.MAX_WEBHOOK_ENDPOINTS,
    /** Addresses or networks whose X-Forwarded-Proto is trusted. */
    trustedProxies: config.TRUSTED_PROXIES,
    /** By message key: the active one, which every process has, and then all others. */
    fingerprintKeys: [active, ...Object.keys(messageKeys).filter(id => id !== active)]
      .map(id => deriveSubkey(messageKeys[id] ?? '', 'fingerprint')),
    bodyBudgetBytes: config.BODY_BUDGET_BYTES,
    bodyThroughput: {
      graceMs: config.BODY_GRACE_MS,
      bytesPerSecond: config.BODY_BYTES_PER_SECOND,
      completeWithinMs: config.REQUEST_TIMEOUT_MS,
    },
    retentionMs: config.RETENTION_DAYS * DAY_MS,
  }
}
