import type { KeyObject } from 'node:crypto'
import { checksOf, type Checks } from '../jobs/checks.ts'
import { readPrices, type Prices } from '../money/prices.ts'
import type { Config } from './config.ts'
import { fingerprintKey, firstSecret } from './fingerprint.ts'
import type { MinimumThroughput } from '../platform/minimum-throughput.ts'
import type { WebhookRules } from './webhook-url.ts'

const DAY_MS = 86_400_000

/** The settings of the interface. */
export type Rules = {
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

/** The configuration, and the stored secret of fingerprints. */
export type Settings = Config & { readonly requestSecret?: Buffer }

/** The settings of the interface, from the configuration. */
export function rulesOf (settings: Settings): Rules {
  return {
    checks: checksOf(settings),
    prices: readPrices(settings.PRICES),
    webhooks: {
      allowHttp: settings.WEBHOOK_ALLOW_HTTP,
      allowLoopback: settings.WEBHOOK_ALLOW_LOOPBACK,
      ports: settings.WEBHOOK_PORTS,
    },
    trustedProxies: settings.TRUSTED_PROXIES,
    fingerprintKey: fingerprintKey(settings.requestSecret ?? firstSecret(settings.KEY_RING)),
    bodyBudgetBytes: settings.BODY_BUDGET_BYTES,
    bodyThroughput: {
      graceMs: settings.BODY_GRACE_MS,
      bytesPerSecond: settings.BODY_BYTES_PER_SECOND,
      completeWithinMs: settings.REQUEST_TIMEOUT_MS,
    },
    retentionMs: settings.RETENTION_DAYS * DAY_MS,
  }
}
