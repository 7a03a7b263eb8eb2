import Type, { type TObject, type TProperties } from 'typebox'
import { ConfigError, defineConfig, loadConfig } from '../runtime/platform/config.ts'
import { HOSTED_NAMES, type Hosted, type HostedName } from './hosted.ts'

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
