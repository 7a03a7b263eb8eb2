import { describe, expect, it, vi } from 'vitest'
import { rootContextOf, type StoredKey } from '../../../services/accounts/organization-keys.ts'
import type { Wrapped } from '../../../services/accounts/records.ts'
import { withKeyId } from '../../../services/runtime/crypto/key-ring.ts'
import {
  createRootKeys, rootIdOf, type RootKeyHolder,
} from '../../../services/runtime/crypto/root-keys.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { type KeyReport, rewrapAll, rotationNote } from '../../../services/admin/key-rotation.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'

const CONTEXT = rootContextOf('org_1', 'results')
const root = {
  class: 'results',
  id: '1',
  configured: true,
  isActive: false,
  wraps: 0,
  activeIn: [],
  missingIn: [],
  isFree: true,
} as const
const none = {
  jobKeys: 0,
  jobKeysInTopic: 0,
  jobKeysInClickhouse: 0,
  webhookSecrets: 0,
  people: 0,
  partnerKeys: 0,
  contactLists: 0,
}

it('the note on keys names those to remove, and those to put back', () => {
  const noteOn = (report: Partial<KeyReport>) =>
    rotationNote({ rootKeys: [], replaced: [], broken: 0, lacking: [], ...report })
  expect(noteOn({ rootKeys: [root] })).toBe('Nothing is wrapped by "1" of RESULTS_ROOT_KEYS, ' +
    'and no running process has it as active: a new key is not in use yet, a replaced one may ' +
    'be removed from the setting.')
  expect(noteOn({ rootKeys: [{ ...root, isFree: false }] })).toContain('"keys rewrap"')
  const active = { ...root, isActive: true, isFree: false, missingIn: ['ingest.a', 'settle.a'] }
  expect(noteOn({ rootKeys: [active] })).toBe('These processes lack the active key "1" of ' +
    'RESULTS_ROOT_KEYS: ingest.a, settle.a. Give it to them and restart them first: "keys ' +
    'rewrap" is refused before that.')
  const replaced = { organization: 'org_1', key: 'results.1', exists: true, wraps: none }
  expect(noteOn({ replaced: [replaced] })).toContain('replaced but not deleted yet')
  expect(noteOn({ lacking: ['key "1" of RESULTS_ROOT_KEYS'] }))
    .toContain('Missing, but still needed: key "1" of RESULTS_ROOT_KEYS')
})

describe('a rotation', () => {
  const stored = (version: number, more: Partial<StoredKey> = {}): StoredKey => ({
    class: 'results',
    version,
    wrapped: Buffer.alloc(0),
    public: Buffer.alloc(32),
    createdAtMs: 0,
    shippedAtMs: 1_000,
    ...more,
  })
  const rootsOf = (active: string) => createRootKeys({
    keys: Object.fromEntries([1, 2].map(id => [id, Buffer.alloc(32, id).toString('base64')])),
    active,
    setting: 'RESULTS_ROOT_KEYS',
  })
  const wrappedBy = (id: string, organization = 'org_1') =>
    rootsOf(id).wrap(Buffer.alloc(32, 9), rootContextOf(organization, 'results'))
  const nameOf = (org: string, { version }: Pick<StoredKey, 'version'>) =>
    org === 'org_1' ? String(version) : `${version} of ${org}`

  /** Rewraps one organization with these keys, and what they wrap; returns the steps in order. */
  async function rewrap (
    keys: readonly StoredKey[],
    { wraps = [], nowMs = 61_001, holders = [], other = [], erased = [] }: {
      readonly erased?: readonly string[]
      /** Keys of another organization. */
      readonly other?: readonly StoredKey[]
      readonly wraps?: readonly Wrapped[]
      readonly nowMs?: number
      readonly holders?: readonly RootKeyHolder[]
    } = {}
  ) {
    const steps: string[] = []
    const step = async (text: string) => { steps.push(text) }
    const roots = rootsOf('2')
    const own = { ...organizationKeysOf(1), unwrap: async () => Buffer.alloc(32) }
    const none = async function * () {}
    const report = await rewrapAll({
      readKeys: async () => new Map([['org_1', keys], ['org_2', other]]),
      readHolders: async () => holders,
      roots: { results: roots, webhooks: roots, partners: roots },
      keys: { results: own, webhooks: own, partners: own },
      store: {
        read: async () => keys,
        replace: async (org, key, wrapped) => {
          await step(`Redis has ${nameOf(org, key)} under root ${rootIdOf(wrapped)}`)
          return true
        },
        remove: async (org, key) => await step(`Redis lacks ${nameOf(org, key)}`),
      },
      sendKeys: async (org, [key]) =>
        await step(`topic has ${nameOf(org, key!)} under root ${rootIdOf(key!.wrapped)}`),
      sendTombstone: async (org, key) => await step(`topic lacks ${nameOf(org, key)}`),
      sourcesOf: () => ({
        jobKeys: async function * () { yield * wraps },
        jobKeysInTopic: none,
        jobKeysInClickhouse: none,
        webhookSecrets: none,
        people: none,
        partnerKeys: none,
        contactLists: none,
      }),
      isErased: async orgId => erased.includes(orgId),
      now: () => nowMs,
    })
    return { steps, report }
  }

  it('is refused while a process lacks the active key; one without the class may', async () => {
    const keys = [stored(1, { wrapped: await wrappedBy('1') })]
    const lacking = { process: 'ingest.b', keys: { results: { ids: ['1'], active: '1' } } }
    const holders = [
      lacking, { ...lacking, process: 'ingest.a' },
      { process: 'deliver.a', keys: { webhooks: { ids: ['1', '2'], active: '1' } } },
    ]
    const refused = rewrap(keys, { holders })
    await expect(refused).rejects.toThrow(UsageError)
    await expect(refused).rejects.toThrow('RESULTS_ROOT_KEY_ACTIVE of this command is "2", but ' +
      'RESULTS_ROOT_KEYS of these processes lacks that key: ingest.a, ingest.b.\n')
    const both = { process: 'ingest.a', keys: { results: { ids: ['1', '2'], active: '1' } } }
    const { report } = await rewrap([], { holders: [both, ...holders.slice(2)] })
    expect(report.rootKeys.map(({ class: keyClass, id, activeIn, missingIn, isFree }) =>
      [keyClass, id, activeIn, missingIn, isFree])).toEqual([
      ['results', '1', ['ingest.a'], [], false], ['results', '2', [], [], false],
      ['webhooks', '1', ['deliver.a'], [], false], ['webhooks', '2', [], [], false],
      ['partners', '1', [], [], true], ['partners', '2', [], [], false],
    ])
  })

  it('is refused while a root key opens nothing of what it wraps', async () => {
    const other = createRootKeys({
      keys: { 2: Buffer.alloc(32, 7).toString('base64') }, active: '2', setting: 'ROOT_KEYS',
    })
    const foreign = await other.wrap(Buffer.alloc(32, 9), CONTEXT)
    const [old, wrong] = [
      stored(1, { wrapped: await wrappedBy('1') }), stored(2, { wrapped: foreign }),
    ]
    await expect(rewrap([old, wrong])).rejects.toThrow(
      /^RESULTS_ROOT_KEYS has another value for key "2": .* Nothing was changed.$/)
    const good = stored(1, { wrapped: await wrappedBy('2', 'org_2') })
    expect((await rewrap([old, wrong], { other: [good] })).report.damaged)
      .toEqual(['key results.2 of org_1'])
  })

  it('leaves out damaged keys with all that they wrap; others go to the topic first', async () => {
    const intact = await wrappedBy('1')
    const flipped = Buffer.from(intact)
    flipped[flipped.length - 1]! ^= 1
    const bytes = withKeyId('results.1', Buffer.alloc(32))
    const replace = vi.fn<Wrapped['replace']>()
    const wraps: Wrapped[] = [
      { orgId: 'org_1', pieces: [{ class: 'results', bytes, binding: [] }], replace },
    ]
    for (const wrapped of [flipped, Buffer.of(0), withKeyId('1', Buffer.alloc(0))]) {
      const { steps, report } = await rewrap(
        [stored(1, { wrapped }), stored(2, { wrapped: intact })],
        { wraps, other: [stored(1, { wrapped: await wrappedBy('1', 'org_2') })] })
      expect(report.damaged).toEqual(['key results.1 of org_1'])
      expect(steps)
        .toEqual(['topic has 1 of org_2 under root 2', 'Redis has 1 of org_2 under root 2'])
    }
    expect(replace).not.toHaveBeenCalled()
  })

  it('names organizations without keys, except erased ones', async () => {
    const keys = [stored(1, { wrapped: await wrappedBy('2') })]
    expect((await rewrap(keys)).report.lacking).toEqual(['keys of org_1', 'keys of org_2'])
    expect((await rewrap(keys, { erased: ['org_2'] })).report.lacking).toEqual(['keys of org_1'])
  })

  it('deletes a replaced key from the topic, then from Redis', async () => {
    const wrapped = await wrappedBy('2')
    const { steps, report } = await rewrap([stored(1, { wrapped }), stored(2, { wrapped })])
    expect(steps).toEqual(['topic lacks 1', 'Redis lacks 1'])
    expect(report.deleted).toEqual(['results.1 of org_1'])
  })

  it('keeps a replaced key that wraps something, or that a process may still use', async () => {
    const wrapped = await wrappedBy('2')
    const keys = [stored(1, { wrapped }), stored(2, { wrapped })]
    const bytes = withKeyId('results.1', Buffer.alloc(32))
    // Another process has changed it meanwhile.
    const used: Wrapped = {
      orgId: 'org_1',
      pieces: [{ class: 'results', bytes, binding: [] }],
      replace: async () => false,
    }
    expect((await rewrap(keys, { nowMs: 61_000 })).steps).toEqual([])
    const unshipped = [stored(1, { wrapped }), stored(2, { wrapped, shippedAtMs: 0 })]
    expect((await rewrap(unshipped)).steps).toEqual([])
    expect((await rewrap(keys, { wraps: [used] })).steps).toEqual([])
  })
})
