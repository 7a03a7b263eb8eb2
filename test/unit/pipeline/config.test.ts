import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { hostConfig, hostedBy, HOSTED, HOSTED_NAMES } from '../../../services/pipeline/config.ts'
import { ConfigError, loadConfig } from '../../../services/runtime/platform/config.ts'
import { STAGES } from '../../../services/topology.ts'

/** The faults of STAGES alone, as a process reports them that does not start. */
async function faultsOf (text: string | undefined): Promise<readonly string[]> {
  const hosted = await Promise.all(hostedBy({ STAGES: text }).map(name => HOSTED[name]()))
  try {
    loadConfig(hostConfig(hosted), { STAGES: text })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.filter(fault => /^(STAGES|PORT_PAGE) /.test(fault))
  }
}

describe('STAGES', () => {
  it('names what a process hosts, in any order and with spaces', async () => {
    expect(hostedBy({ STAGES: 'settle, normalize' })).toEqual(['normalize', 'settle'])
    expect(hostedBy({ STAGES: HOSTED_NAMES.toReversed().join() })).toEqual(HOSTED_NAMES)
    expect(await faultsOf('normalize,lookup')).toEqual([])
  })

  it.each([
    ['an unknown name', 'normalize,check', 'at "1" must be one of ingest, feed, '],
    ['a name twice', 'verify,lookup,verify', 'must not have duplicate items'],
    ['no name', ',', 'must not have fewer than 1 items'],
    ['an empty value', '', 'is missing'],
    ['nothing', undefined, 'is missing'],
  ])('with %s is refused, with the names that are possible', async (_, text, fault) => {
    expect(hostedBy({ STAGES: text })).toEqual([])
    const faults = await faultsOf(text)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(`STAGES ${fault}`)
    expect(faults[0]).toContain(`each at most once: ${HOSTED_NAMES.join(', ')})`)
  })

  it('needs a port for the page beside that of ingest', async () => {
    expect((await faultsOf('ingest,page'))[0])
      .toMatch(/^PORT_PAGE is missing, which STAGES needs\. .*also hosts ingest/)
    expect(await faultsOf('ingest,lookup')).toEqual([])
    expect(await faultsOf('page')).toEqual([])
  })
})

describe('the services of a process', () => {
  it('are all stages and the page', () => {
    expect(HOSTED_NAMES).toEqual([...STAGES, 'page'])
  })

  it('share settings only with the same meaning, but for two ports', async () => {
    const definitionsOf = new Map<string, Set<string>>()
    for (const name of HOSTED_NAMES) {
      const { config } = await HOSTED[name]()
      for (const [key, field] of Object.entries(config.properties)) {
        const { description, ...definition } = field as { readonly description?: string }
        const isOptional = '~optional' in field
        const known = definitionsOf.get(key) ?? new Set()
        definitionsOf.set(key, known.add(JSON.stringify({ ...definition, isOptional })))
      }
    }
    const different = [...definitionsOf].filter(([, { size }]) => size > 1).map(([key]) => key)
    expect(different).toEqual(['PORT_HTTP'])
  })

  it.each(HOSTED_NAMES)('have one wiring: main.ts of %s starts what the host loads', async name => {
    const { start } = await HOSTED[name]()
    const main = readFileSync(new URL(`../../../services/${name}/main.ts`, import.meta.url), 'utf8')
    expect(main)
      .toContain(`if (import.meta.main) await run('${name}', ${name}Config, ${start.name})`)
    expect(main)
      .toContain(`${name}Service = { config: ${name}Config, start: ${start.name} }`)
  })
})
