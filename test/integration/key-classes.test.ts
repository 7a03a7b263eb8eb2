import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  createOrganizationKeyStore, rootContextOf, type StoredKey,
} from '../../services/accounts/organization-keys.ts'
import {
  countTenantRecords, eraseTenantRecords, redisRecordCache,
} from '../../services/cache/cache.ts'
import { createRootKeys } from '../../services/runtime/crypto/root-keys.ts'
import { HOSTED } from '../../services/pipeline/config.ts'
import { rootKeys } from '../../services/runtime/platform/config.ts'
import { KEY_CLASSES, PROCESS_KEYS } from '../../services/topology.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { newOrganization } from '../support/organizations.ts'
import { cachedRecord } from '../support/stage-messages.ts'
import { startProgram } from '../support/stacks/processes.ts'

const { env, state } = connectAll()
const processes = Object.keys(PROCESS_KEYS) as (keyof typeof PROCESS_KEYS)[]

/** The environment of a process: what its configuration reads, and nothing else. */
async function environmentOf (name: keyof typeof PROCESS_KEYS) {
  const { config } = await HOSTED[name]()
  return Object.fromEntries(Object.entries(env).filter(([key]) => key in config.properties))
}

/** Whether any root key in an environment unwraps a key, under the name of any class. */
async function isOpenedBy (
  environment: Readonly<Record<string, string | undefined>>, orgId: string, key: StoredKey
): Promise<boolean> {
  for (const [keysName, activeName] of Object.values(rootKeys)) {
    const [keys, active] = [environment[keysName], environment[activeName]]
    if (keys === undefined || active === undefined) continue
    const roots = createRootKeys({ setting: keysName, keys: JSON.parse(keys), active })
    for (const purpose of KEY_CLASSES) {
      const opened = await roots.unwrap(key.wrapped, rootContextOf(orgId, purpose))
        .catch(() => undefined)
      if (opened !== undefined) return true
    }
  }
  return false
}

/** Each process with each class that it does not have. */
const foreign = processes.flatMap(name => KEY_CLASSES
  .filter(keyClass => !PROCESS_KEYS[name].includes(keyClass))
  .map(keyClass => ({ name, keyClass })))

/** How the check of the configuration ends that a process makes at its start. */
async function endOf (
  program: string, environment: Readonly<Record<string, string | undefined>>
) {
  return await startProgram(process.execPath, [program, '--validate'], {
    ...environment as Readonly<Record<string, string>>,
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '',
  }).ended()
}

describe('a process', () => {
  it.each(foreign)('$name refuses root keys of $keyClass at its start', async one => {
    const { name, keyClass } = one
    const settings = rootKeys[keyClass]
    expect(await endOf(`services/${name}/main.ts`, {
      ...await environmentOf(name),
      ...Object.fromEntries(settings.map(setting => [setting, env[setting]])),
    })).toEqual({
      code: 1,
      out: '',
      errors: [`${name}: Invalid configuration:`, ...settings.map(setting =>
        `- ${setting} is set, but ${name} needs no root keys of ${keyClass}: remove it from the ` +
        'environment of this process')].map(line => `${line}\n`).join(''),
    })
  })

  it('that hosts services may have the root keys of each, and no others', async () => {
    const { RESULTS_ROOT_KEYS } = env
    const hosting = {
      ...await environmentOf('deliver'), ...await environmentOf('feed'), STAGES: 'deliver,feed',
    }
    const program = 'services/pipeline/main.ts'
    expect(await endOf(program, hosting))
      .toMatchObject({ code: 0, out: 'pipeline: the configuration is valid\n' })
    expect(await endOf(program, { ...hosting, RESULTS_ROOT_KEYS })).toMatchObject({
      code: 1, errors: expect.stringContaining('is set, but feed and deliver need no root keys'),
    })
  })
})

describe('the environment of a process', async () => {
  const orgId = await newOrganization(env)
  const keys = await createOrganizationKeyStore(state).read(orgId)

  it.each(processes)('of %s has the root keys of its classes and opens no other', async name => {
    const environment = await environmentOf(name)
    const opened = await Promise.all(keys.map(async key =>
      await isOpenedBy(environment, orgId, key) ? [key.class] : []))
    expect(opened.flat()).toEqual(KEY_CLASSES.filter(one => PROCESS_KEYS[name].includes(one)))
  })

  it('of those that talk to others opens no result', () => {
    for (const name of ['deliver', 'feed', 'page'] as const) {
      expect(PROCESS_KEYS[name]).not.toContain('results')
    }
  })
})

it('the cached records of a tenant are deleted, and those of no other', async () => {
  const cache = redisRecordCache(state, { onFault: error => { throw error } })
  // Tokens are bytes of an HMAC: most are no text in UTF-8.
  const tokens = Buffer.concat([randomBytes(16), Buffer.alloc(16, 0xff), Buffer.alloc(16, 'a')])
  const scopes = ['org_erased.live', 'org_kept.live'].map(tenant =>
    ({ tenant, service: 'whatsapp', version: '1' } as const))
  const [own, other] = scopes as [typeof scopes[0], typeof scopes[0]]
  const records = [cachedRecord(), cachedRecord(), cachedRecord()]
  for (const scope of scopes) await cache.store(scope, tokens, records)
  expect(await countTenantRecords(state, own.tenant)).toBe(3)
  expect(await eraseTenantRecords(state, own.tenant)).toBe(3)
  expect(await countTenantRecords(state, own.tenant)).toBe(0)
  expect(await cache.find(own, tokens)).toEqual([undefined, undefined, undefined])
  expect(await cache.find(other, tokens)).toEqual(records)
  await eraseTenantRecords(state, other.tenant)
})
