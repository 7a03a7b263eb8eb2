import { readPrices } from '../money/prices.ts'
import type { Config } from './config.ts'
import { fingerprintKey, firstSecret } from './fingerprint.ts'
import type { Rules } from './ports.ts'

const DAY_MS = 86_400_000

/** The configuration, and the secret of fingerprints as it is stored. */
export type Settings = Config & { readonly requestSecret?: Buffer }

/** What the configuration says about the interface. */
export function rulesOf (settings: Settings): Rules {
  const providers = Object.entries(settings.PROVIDERS).filter(([, names]) => names.length > 0)
  return {
    configuredServices: new Set(providers.map(([service]) => service)),
    prices: readPrices(settings.PRICES),
    webhooks: {
      allowHttp: settings.WEBHOOK_ALLOW_HTTP, allowLoopback: settings.WEBHOOK_ALLOW_LOOPBACK,
    },
    trustedProxies: settings.TRUSTED_PROXIES,
    fingerprintKey: fingerprintKey(settings.requestSecret ?? firstSecret(settings.KEY_RING)),
    bodyBudgetBytes: settings.BODY_BUDGET_BYTES,
    bodyPace: {
      graceMs: settings.BODY_GRACE_MS,
      bytesPerSecond: settings.BODY_BYTES_PER_SECOND,
      wholeWithinMs: settings.REQUEST_TIMEOUT_MS,
    },
    retentionMs: settings.RETENTION_DAYS * DAY_MS,
  }
}
