import type { TObject } from 'typebox'
import { deliverConfig } from '../deliver/config.ts'
import { feedConfig } from '../feed/config.ts'
import { ingestConfig } from '../ingest/config.ts'
import { ledgerConfig } from '../ledger/config.ts'
import { lookupConfig } from '../lookup/config.ts'
import { normalizeConfig } from '../normalize/config.ts'
import type { Running, ServiceContext } from '../platform/run.ts'
import { publishConfig } from '../publish/config.ts'
import { settleConfig } from '../settle/config.ts'
import { verifyConfig } from '../verify/config.ts'
import { pageConfig } from '../workspace/page/config.ts'

/** The wiring of a service that its own `main.ts` uses too. Its code is loaded if it is hosted. */
type Hosted = {
  readonly config: TObject
  readonly load: () => Promise<(config: never, context: ServiceContext) => Promise<Running>>
}

/** The services that one process may host, in the order of the pipeline. */
export const HOSTED = {
  ingest: {
    config: ingestConfig,
    load: async () => (await import('../ingest/service.ts')).startIngest,
  },
  feed: { config: feedConfig, load: async () => (await import('../feed/main.ts')).startFeed },
  normalize: {
    config: normalizeConfig,
    load: async () => (await import('../normalize/main.ts')).startNormalize,
  },
  lookup: {
    config: lookupConfig, load: async () => (await import('../lookup/main.ts')).startLookup,
  },
  verify: {
    config: verifyConfig, load: async () => (await import('../verify/main.ts')).startVerify,
  },
  settle: {
    config: settleConfig, load: async () => (await import('../settle/main.ts')).startSettle,
  },
  deliver: {
    config: deliverConfig, load: async () => (await import('../deliver/main.ts')).startDeliver,
  },
  publish: {
    config: publishConfig, load: async () => (await import('../publish/main.ts')).startPublish,
  },
  ledger: {
    config: ledgerConfig, load: async () => (await import('../ledger/main.ts')).startLedger,
  },
  page: {
    config: pageConfig,
    load: async () => (await import('../workspace/page/service.ts')).startPage,
  },
} as const satisfies Readonly<Record<string, Hosted>>

export type HostedName = keyof typeof HOSTED

export const HOSTED_NAMES = Object.keys(HOSTED) as readonly HostedName[]
