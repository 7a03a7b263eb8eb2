import type { TObject } from 'typebox'
import type { Running, ServiceContext } from '../runtime/platform/run.ts'

/** The settings and the wiring of a service, which its own `main.ts` uses too. */
export type Hosted = {
  readonly config: TObject
  readonly start: (config: never, context: ServiceContext) => Promise<Running>
}

/** The services that a process may host, in the order of the pipeline. Each is loaded on demand. */
export const HOSTED = {
  ingest: async () => (await import('../ingest/main.ts')).ingestService,
  feed: async () => (await import('../feed/main.ts')).feedService,
  normalize: async () => (await import('../normalize/main.ts')).normalizeService,
  lookup: async () => (await import('../lookup/main.ts')).lookupService,
  verify: async () => (await import('../verify/main.ts')).verifyService,
  settle: async () => (await import('../settle/main.ts')).settleService,
  deliver: async () => (await import('../deliver/main.ts')).deliverService,
  publish: async () => (await import('../publish/main.ts')).publishService,
  ledger: async () => (await import('../ledger/main.ts')).ledgerService,
  page: async () => (await import('../page/main.ts')).pageService,
} as const satisfies Readonly<Record<string, () => Promise<Hosted>>>

export type HostedName = keyof typeof HOSTED

export const HOSTED_NAMES = Object.keys(HOSTED) as readonly HostedName[]
