import { describe, expect, it } from 'vitest'
import {
  OrganizationKeyStore, toRootContext, type StoredKey,
} from '../../services/accounts/organization-keys.ts'
import { createRootKeys } from '../../services/runtime/crypto/root-keys.ts'
import { HOSTED } from '../../services/pipeline/config.ts'
import { rootKeys } from '../../services/runtime/platform/config.ts'
import { KEY_CLASSES, PROCESS_KEYS } from '../../services/topology.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { newOrganization } from '../support/organizations.ts'

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
      const opened = await roots.unwrap(key.wrapped, toRootContext(orgId, purpose))
        .catch(() => undefined)
      if (opened !== undefined) return true
    }
  }
  return false
}

describe('the environment of a process', async () => {
  const orgId = await newOrganization(env)
  const keys = await new OrganizationKeyStore(state).read(orgId)

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
