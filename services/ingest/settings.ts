import type { KeyObject } from 'node:crypto'
import { checksOf, type Checks } from '../jobs/checks.ts'
import { readPrices, type Prices } from '../money/prices.ts'
import type { Config } from './config.ts'
import { fingerprintKey, firstSecret } from './fingerprint.ts'
import type { MinimumThroughput } from '../platform/minimum-throughput.ts'
import type { WebhookRules } from './webhook-url.ts'

const DAY_MS = 86_400_000

/** The settings of the REST API. */
export type Settings = {
  readonly checks: Checks
  readonly prices: Prices
  readonly webhooks: WebhookRules
  /** Addresses or networks whose X-Forwarded-Proto is trusted. */
  readonly trustedProxies: readonly string[]
  readonly fingerprintKey: KeyObject
  readonly bodyBudgetBytes: number
  readonly bodyThroughput: MinimumThroughput
  readonly retentionMs: number
}

/** The configuration, and the stored secret for request fingerprints. */
export type ConfigWithSecret = Config & { readonly requestSecret?: Buffer }

/** Derives the settings from the configuration. */
export function settingsOf (config: ConfigWithSecret): Settings {
  return {
    checks: checksOf(config),
    prices: readPrices(config.PRICES),
    webhooks: {
      allowHttp: config.WEBHOOK_ALLOW_HTTP,
      allowLoopback: config.WEBHOOK_ALLOW_LOOPBACK,
      ports: config.WEBHOOK_PORTS,
    },
    trustedProxies: config.TRUSTED_PROXIES,
    fingerprintKey: fingerprintKey(config.requestSecret ?? firstSecret(config.KEY_RING)),
    bodyBudgetBytes: config.BODY_BUDGET_BYTES,
    bodyThroughput: {
      graceMs: config.BODY_GRACE_MS,
      bytesPerSecond: config.BODY_BYTES_PER_SECOND,
      completeWithinMs: config.REQUEST_TIMEOUT_MS,
    },
    retentionMs: config.RETENTION_DAYS * DAY_MS,
  }
}
