import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { demoFile, writePrivately } from '../../../../deploy/local/launcher/state.ts'
import { createSupervisor } from '../../../../deploy/local/launcher/supervisor.ts'
import { ADDRESS_NAMES, type Addresses, type Source } from '../../../../deploy/local/source.ts'
import type { Stack } from '../../../../deploy/local/stack.ts'

const folder = mkdtempSync(`${tmpdir()}/supervisor-unit-`)
const demo = { orgId: 'org_1', keys: { live: 'l', test: 't' }, webhookSecret: 'w' }
beforeEach(() => { vi.stubEnv('DNS_SERVERS', '') })
afterEach(() => { vi.unstubAllEnvs() })
afterAll(() => rmSync(folder, { recursive: true }))

const stackOf = (source: Source['kind']): Stack => ({
  source,
  addresses: Object.fromEntries(ADDRESS_NAMES.map(name => [name, name])) as Addresses,
  trust: {},
  envOf: {},
  parts: [],
  untilReady: async () => undefined,
  stop: async () => undefined,
})

/** Whether each of two starts in one folder finds the organization of an earlier one. */
async function demosFound (source: Source['kind']): Promise<readonly boolean[]> {
  const found: boolean[] = []
  const supervisor = createSupervisor({
    dataDir: `${folder}/${source}`,
    stages: [],
    start: async () => stackOf(source),
    prepare: async (_, dataDir) => {
      found.push(existsSync(demoFile(dataDir)))
      writePrivately(demoFile(dataDir), demo)
      return demo
    },
  })
  for (let times = 0; times < 2; times++) {
    await supervisor.up({}, () => undefined)
    await supervisor.down()
  }
  return found
}

describe('a stack that is started, stopped and started again', () => {
  it('keeps its organization where the data stays', async () => {
    expect(await demosFound('embedded')).toEqual([false, true])
    expect(await demosFound('given')).toEqual([false, true])
  })

  it('gets a new organization in containers, which keep no data', async () => {
    expect(await demosFound('containers')).toEqual([false, false])
  })
})
