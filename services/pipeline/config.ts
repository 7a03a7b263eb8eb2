import Type, { type TObject, type TProperties } from 'typebox'
import { ConfigError, defineConfig, loadConfig } from '../runtime/platform/config.ts'
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

/** The own setting of a process that hosts several services. */
export const pipelineConfig = defineConfig({
  STAGES: Type.Array(Type.Enum([...HOSTED_NAMES]), {
    minItems: 1,
    uniqueItems: true,
    needs: (text: string) =>
      ['ingest', 'page'].every(name => text.includes(name)) ? ['PORT_PAGE'] : [],
    description: `What this process hosts, each at most once: ${HOSTED_NAMES.join(', ')}.`,
    examples: ['normalize,lookup,verify,settle'],
  }),
})

/**
 * The services that STAGES names, in the order of the pipeline. None if it is invalid, which
 * `loadConfig` reports when it reads `hostConfig([])`.
 */
export function hostedBy (
  env: Readonly<Record<string, string | undefined>>
): readonly HostedName[] {
  try {
    const { STAGES } = loadConfig(Type.Object({ STAGES: pipelineConfig.properties.STAGES }), env)
    return HOSTED_NAMES.filter(name => STAGES.includes(name))
  } catch (error) {
    if (error instanceof ConfigError) return []
    throw error
  }
}

/**
 * The settings of a process that hosts these services: all of theirs, each once. They have the same
 * meaning everywhere; PORT_HTTP is that of `ingest` if the process hosts `ingest` and the page.
 */
export function hostConfig (
  hosted: readonly Pick<Hosted, 'config'>[]
): TObject<typeof pipelineConfig.properties> {
  const fields = hosted.reduce<TProperties>(
    (merged, { config }) => ({ ...config.properties, ...merged }), {})
  return Type.Object({ ...fields, ...pipelineConfig.properties })
}
