import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createRootKeys, type RootKeys } from '../../../services/runtime/crypto/root-keys.ts'
import { FatalError, InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { newFolder } from '../../support/folder.ts'
import { blocksOf } from '../../support/guides/guide.ts'
import { whileFrozen } from '../../support/stacks/processes.ts'
import { rootKeyCalls } from '../../support/metrics.ts'
import { root } from '../../support/sources.ts'
import { installTransit, startTransit, type Tokens, type Transit } from './vault.ts'

const PAGE = 'deploy/docs/root-keys.md'
const key = randomBytes(32)
const context = { purpose: 'results', organization: 'org_1' }
const local = randomBytes(32).toString('base64')
const folder = newFolder('verification-jobs-vault-')
const tokenFile = `${folder}/token`

let program: string
let vault: Transit
beforeAll(async () => {
  program = await installTransit(line => console.log(`vault: ${line}`))
  vault = await startTransit(program)
  await vault.write('keys/results', { type: 'aes256-gcm96' })
})
beforeEach(async () => {
  writeFileSync(tokenFile, vault.admin)
  await vault.set({})
})
afterAll(async () => {
  await vault?.stop()
  rmSync(folder, { recursive: true, force: true })
})

function rootsOf (
  keys: Readonly<Record<string, string>>, active: string, timeoutMs = 30_000
): RootKeys {
  const env = { VAULT_ADDR: vault.url, VAULT_TOKEN_FILE: tokenFile }
  return createRootKeys({ keys, active, setting: 'RESULTS_ROOT_KEYS' }, { env, timeoutMs })
}
const results = (timeoutMs?: number) => rootsOf({ v: 'vault:transit/results' }, 'v', timeoutMs)

async function expectUnavailable (action: Promise<unknown>, advice: string): Promise<void> {
  await expect(action).rejects.toThrow(InfrastructureError)
  await expect(action).rejects.toThrow(advice)
}

/** What the policies of the page allow on a path. */
function policyOf (path: string): Tokens[string] {
  const policies = blocksOf(PAGE, readFileSync(join(root, PAGE), 'utf8'))
    .filter(({ language }) => language === 'hcl')
    .flatMap(({ content }) =>
      [...content.matchAll(/path "(\S+)" \{\s+capabilities = (\[.*\])\s+\}/g)])
  const [, , capabilities = ''] = policies.find(([, name]) => name === path) ?? []
  return { [path]: JSON.parse(capabilities) as readonly string[] }
}

describe('root keys in Vault', () => {
  it('authenticate the context and the bytes', async () => {
    const roots = results()
    const wrapped = await roots.wrap(key, context)
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    for (const other of [{ ...context, organization: 'org_2' }, { ...context, purpose: 'x' }]) {
      await expect(roots.unwrap(wrapped, other)).rejects.toThrow(FatalError)
    }
    const changes = [...wrapped.keys()].slice('1vvault:v1:'.length).map(index => {
      const changed = Buffer.from(wrapped)
      changed[index] = changed[index] === 65 ? 66 : 65
      return changed
    })
    const cut = wrapped.subarray(0, 20)
    const unprefixed = Buffer.concat([wrapped.subarray(0, 2), wrapped.subarray(11)])
    for (const changed of [...changes, cut, unprefixed]) {
      await expect(roots.unwrap(changed, context)).rejects.toThrow(FatalError)
    }
  })

  it('take over from a local root key, and from each other', async () => {
    await vault.write('keys/other', { type: 'chacha20-poly1305' })
    const keys = { local, a: 'vault:transit/results', b: 'vault:transit/other' }
    let wrapped = await rootsOf({ local }, 'local').wrap(key, context)
    for (const active of ['a', 'b', 'local']) {
      const roots = rootsOf(keys, active)
      wrapped = await roots.wrap(await roots.unwrap(wrapped, context), context)
      const only = { [active]: keys[active as keyof typeof keys] }
      expect(await rootsOf(only, active).unwrap(wrapped, context)).toEqual(key)
    }
  })

  it('unwrap what they wrapped before Vault has rotated them', async () => {
    const roots = results()
    const old = await roots.wrap(key, context)
    await vault.write('keys/results/rotate')
    const fresh = await roots.wrap(key, context)
    expect([old, fresh].map(bytes => bytes.toString('latin1', 2, 11)))
      .toEqual(['vault:v1:', 'vault:v2:'])
    expect(await roots.unwrap(old, context)).toEqual(key)
    expect(await roots.unwrap(fresh, context)).toEqual(key)
    await vault.write('keys/results/config', { min_decryption_version: 2 })
    await expectUnavailable(roots.unwrap(old, context), 'lower min_decryption_version')
    await vault.write('keys/results/config', { min_decryption_version: 1 })
    expect(await roots.unwrap(old, context)).toEqual(key)
    const newer = Buffer.from(old.toString('latin1').replace('vault:v1:', 'vault:v3:'), 'latin1')
    await expectUnavailable(roots.unwrap(newer, context), 'restore a newer backup')
  })

  it('need only the policies of the page, and work again once one is granted', async () => {
    const roots = results()
    const wrapped = await roots.wrap(key, context)
    const tokens = {
      writer: policyOf('transit/encrypt/results'), reader: policyOf('transit/decrypt/results'),
    }
    await vault.set({ tokens })
    writeFileSync(tokenFile, 'writer\n')
    await roots.wrap(key, context)
    await expectUnavailable(roots.unwrap(wrapped, context),
      'allow "update" on transit/decrypt/results for its token')
    writeFileSync(tokenFile, 'reader\n')
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    await expectUnavailable(roots.wrap(key, context), 'allow "update" on transit/encrypt/results')
    await vault.set({})
    await expectUnavailable(roots.unwrap(wrapped, context), '(status 403)')
    await vault.set({ tokens })
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
  })

  it('count calls, and those that Vault denies', async () => {
    const metrics = createMetrics()
    const env = { VAULT_ADDR: vault.url, VAULT_TOKEN_FILE: tokenFile }
    const keys = { v: 'vault:transit/results' }
    const roots = createRootKeys(
      { keys, active: 'v', setting: 'RESULTS_ROOT_KEYS' }, { env, metrics, timeoutMs: 30_000 })
    const wrapped = await roots.wrap(key, context)
    await expect(roots.unwrap(wrapped, { ...context, organization: 'org_2' }))
      .rejects.toThrow(FatalError)
    await vault.set({ tokens: { writer: policyOf('transit/encrypt/results') } })
    writeFileSync(tokenFile, 'writer')
    await expectUnavailable(roots.unwrap(wrapped, context), '(status 403)')
    expect(await rootKeyCalls(metrics)).toEqual({
      counted: {
        'results vault encrypt ok': 1,
        'results vault decrypt failed': 1,
        'results vault decrypt invalid': 1,
      },
      timed: { 'vault encrypt': 1, 'vault decrypt': 2 },
    })
  })

  it('never let Vault create a key by a mistyped name', async () => {
    const mistyped = rootsOf({ v: 'vault:transit/resluts' }, 'v')
    const path = 'transit/encrypt/resluts'
    await vault.set({ tokens: { writer: { [path]: ['update'] } } })
    writeFileSync(tokenFile, 'writer')
    await expectUnavailable(mistyped.wrap(key, context),
      `allow "update" on ${path} for its token, and check that token and key exist`)
    writeFileSync(tokenFile, vault.admin)
    const wrapped = Buffer.concat([Buffer.from('\u0001vvault:v1:'), Buffer.from(local)])
    await expectUnavailable(mistyped.unwrap(wrapped, context), 'create the key, or restore it')
    const elsewhere = rootsOf({ v: 'vault:elsewhere/results' }, 'v')
    await expectUnavailable(elsewhere.wrap(key, context), 'check the mount')
  })

  it('must be able to authenticate the context', async () => {
    await vault.write('keys/rsa', { type: 'rsa-2048' })
    await vault.write('keys/derived', { derived: true })
    for (const name of ['rsa', 'derived']) {
      const roots = rootsOf({ v: `vault:transit/${name}` }, 'v')
      await expectUnavailable(roots.wrap(key, context), 'use a key of type aes256-gcm96')
    }
  })

  it('report a server that is sealed, throttles or hangs, and work afterwards', async () => {
    const roots = results()
    const wrapped = await roots.wrap(key, context)
    await vault.set({ sealed: true })
    await expectUnavailable(roots.unwrap(wrapped, context), '(status 503): Vault is sealed')
    await vault.set({ throttled: true })
    await expectUnavailable(roots.unwrap(wrapped, context), 'raise the rate limit quota')
    await vault.set({})
    await whileFrozen(vault.pid, async () => {
      await expectUnavailable(results(200).unwrap(wrapped, context), 'no response within 200 ms')
    })
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    await vault.stop()
    await expectUnavailable(roots.unwrap(wrapped, context), 'cannot decrypt (ECONN')
  })
})
