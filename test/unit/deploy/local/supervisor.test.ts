import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Prepare } from '../../../../deploy/local/launcher/prepare.ts'
import { loadSecrets } from '../../../../deploy/local/launcher/secrets.ts'
import { readJson, writePrivately } from '../../../../deploy/local/json-file.ts'
import { demoFile, type StackState } from '../../../../deploy/local/launcher/state.ts'
import { createSupervisor } from '../../../../deploy/local/launcher/supervisor.ts'
import type { Source } from '../../../../deploy/local/source.ts'
import type { Stack } from '../../../../deploy/local/stack.ts'
import { newFolder } from '../../../support/folder.ts'

const folder = newFolder('supervisor-unit-')
const demo = { orgId: 'org_1', keys: { live: 'l', test: 't' }, webhookSecret: 'w' }
beforeEach(() => { vi.stubEnv('DNS_SERVERS', '') })
afterEach(() => { vi.unstubAllEnvs() })

const stackOf = (source: Source['kind']): Stack => ({
  source,
  addresses: {
    KAFKA_BROKERS: 'k',
    SCHEMA_REGISTRY_URL: 'r',
    REDIS_STATE_URL: 's',
    REDIS_CACHE_URL: 'c',
    CLICKHOUSE_URL: 'h',
  },
  trust: {},
  envByStage: {},
  parts: [],
  untilReady: async () => undefined,
  stop: async () => undefined,
})

const startedIn = (dataDir: string, source: Source['kind'], prepare: Prepare) => createSupervisor({
  dataDir, stages: [], start: async () => stackOf(source), prepare,
})

/** Whether each of two starts in one folder finds the organization of an earlier one. */
async function demosFound (source: Source['kind']): Promise<readonly boolean[]> {
  const found: boolean[] = []
  const supervisor = startedIn(`${folder}/${source}`, source, async (_, dataDir) => {
    found.push(existsSync(demoFile(dataDir)))
    writePrivately(demoFile(dataDir), demo)
    return demo
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

it('a stack that runs gets the organization that replaces an erased one', async () => {
  const dataDir = `${folder}/erased`
  const orgIds = ['org_1', 'org_2']
  const supervisor = startedIn(dataDir, 'embedded', async () =>
    ({ ...demo, orgId: orgIds.shift() ?? '' }))
  const orgIdAfterUp = async () => {
    await supervisor.up({}, () => undefined)
    return readJson<StackState>(`${dataDir}/stack.json`)?.orgId
  }
  expect([await orgIdAfterUp(), await orgIdAfterUp()]).toEqual(['org_1', 'org_2'])
  await supervisor.down()
})

it('a stack whose secrets were edited is not brought up further before it ended', async () => {
  const dataDir = `${folder}/edited`
  const prepared: string[] = []
  const supervisor = startedIn(dataDir, 'embedded', async env => {
    prepared.push(env['RESULTS_ROOT_KEY_ACTIVE'] ?? '')
    return demo
  })
  const say = () => undefined
  await supervisor.up({}, say)
  writePrivately(`${dataDir}/secrets.json`, {
    ...loadSecrets(dataDir), RESULTS_ROOT_KEY_ACTIVE: '2',
  })
  await expect(supervisor.up({}, say)).rejects.toThrow('secrets.json has changed')
  await supervisor.down()
  await supervisor.up({}, say)
  await supervisor.up({}, say)
  expect(prepared).toEqual(['1', '2', '2'])
  await supervisor.down()
})
