import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { freePort } from '../../../deploy/local/ports.ts'
import { MissingKeyError } from '../../../services/runtime/crypto/key-ring.ts'
import { createRootKeys, type RootKeys } from '../../../services/runtime/crypto/root-keys.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { blocksOf } from '../../support/guides/guide.ts'
import { whileFrozen } from '../../support/stacks/processes.ts'
import { rootKeyCalls } from '../../support/metrics.ts'
import { root } from '../../support/sources.ts'
import { installMoto, startMoto, type Moto } from './moto.ts'

const PAGE = 'deploy/docs/root-keys.md'
const ALIAS = 'alias/results'
const key = randomBytes(32)
const context = { purpose: 'results', organization: 'org_1' }
const local = randomBytes(32).toString('base64')

const rootsOf = (
  keys: Readonly<Record<string, string>>, active: string, timeoutMs = 30_000
): RootKeys => createRootKeys({ keys, active, setting: 'RESULTS_ROOT_KEYS' }, { timeoutMs })

let moto: Moto
/** Two keys of KMS; the first one has the alias. */
let arns: readonly [string, string]
/** That of connections before the server was there. */
let early: unknown
beforeAll(async () => {
  const python = await installMoto(line => console.log(`moto: ${line}`))
  const port = await freePort()
  vi.stubEnv('AWS_ENDPOINT_URL_KMS', `http://127.0.0.1:${port}`)
  for (const name of ['AWS_REGION', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) {
    vi.stubEnv(name, 'nobody')
  }
  early = await rootsOf({ k: `aws-kms:${ALIAS}` }, 'k').wrap(key, context)
    .catch((error: unknown) => error)
  moto = await startMoto(python, port)
  for (const [name, value] of Object.entries(moto.env)) vi.stubEnv(name, value)
  const [first, second] = await Promise.all([createKey(), createKey()])
  await moto.kms.createAlias({ AliasName: ALIAS, TargetKeyId: first })
  arns = [first, second]
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await moto?.stop()
})

async function createKey (): Promise<string> {
  const { KeyMetadata } = await moto.kms.createKey({})
  return KeyMetadata?.Arn ?? ''
}

/** The policy of the page that has this statement; moto knows no resources in policies. */
function policyOf (sid: string): object {
  const block = blocksOf(PAGE, readFileSync(join(root, PAGE), 'utf8'))
    .find(({ content }) => content.includes(`"Sid": "${sid}"`))
  return JSON.parse(block?.content ?? '', (name, value: unknown) =>
    name === 'Resource' ? '*' : value) as object
}

describe('root keys in AWS KMS', () => {
  it('are found by ARN, id and alias', async () => {
    const [arn] = arns
    const keys = {
      arn: `aws-kms:${arn}`, id: `aws-kms:${arn.split('/').at(-1)}`, alias: `aws-kms:${ALIAS}`,
    }
    for (const active of Object.keys(keys)) {
      const roots = rootsOf(keys, active)
      const wrapped = await roots.wrap(key, context)
      expect(wrapped.includes(key)).toBe(false)
      expect(await roots.unwrap(wrapped, context)).toEqual(key)
    }
  })

  it('authenticate the context and every byte', async () => {
    const roots = rootsOf({ k: `aws-kms:${ALIAS}` }, 'k')
    const wrapped = await roots.wrap(key, context)
    for (const other of [{ ...context, organization: 'org_2' }, { ...context, purpose: 'x' }]) {
      await expect(roots.unwrap(wrapped, other)).rejects.toThrow(MissingKeyError)
    }
    for (let index = 2; index < wrapped.length; index += 1) {
      const changed = Buffer.from(wrapped)
      changed[index] = (changed[index] ?? 0) ^ 1
      const failure: unknown = await roots.unwrap(changed, context).catch((error: unknown) => error)
      // The first bytes name the key, and access to another key is denied.
      expect([MissingKeyError, InfrastructureError]).toContain(failure?.constructor)
    }
  })

  it('take over from a local root key, and from each other', async () => {
    const keys = { local, a: `aws-kms:${ALIAS}`, b: `aws-kms:${arns[1]}` }
    let wrapped = await rootsOf({ local }, 'local').wrap(key, context)
    for (const active of ['a', 'b', 'local']) {
      const roots = rootsOf(keys, active)
      wrapped = await roots.wrap(await roots.unwrap(wrapped, context), context)
      const only = { [active]: keys[active as keyof typeof keys] }
      expect(await rootsOf(only, active).unwrap(wrapped, context)).toEqual(key)
    }
  })

  it('unwrap what they wrapped before KMS has rotated them', async () => {
    const roots = rootsOf({ k: `aws-kms:${ALIAS}` }, 'k')
    const wrapped = await roots.wrap(key, context)
    await moto.kms.rotateKeyOnDemand({ KeyId: arns[0] })
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    expect(await roots.unwrap(await roots.wrap(key, context), context)).toEqual(key)
  })

  it('need only the permissions of the page, and work again once one is granted', async () => {
    const roots = rootsOf({ k: `aws-kms:${ALIAS}` }, 'k')
    const wrapped = await roots.wrap(key, context)
    await moto.permit(policyOf('WrapResultsKeys'))
    await moto.authorize(true)
    await roots.wrap(key, context)
    const denied = roots.unwrap(wrapped, context)
    await expect(denied).rejects.toThrow(InfrastructureError)
    await expect(denied).rejects.toThrow('allow kms:Decrypt on the key')
    await moto.authorize(false)
    await moto.permit(policyOf('UnwrapResultsKeys'))
    await moto.authorize(true)
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    await expect(roots.wrap(key, context)).rejects.toThrow('allow kms:Encrypt on the key')
    await moto.authorize(false)
  })

  it('count calls, and those that AWS denies', async () => {
    const metrics = createMetrics()
    const keys = { k: `aws-kms:${ALIAS}` }
    const roots = createRootKeys(
      { keys, active: 'k', setting: 'RESULTS_ROOT_KEYS' }, { metrics, timeoutMs: 30_000 })
    const wrapped = await roots.wrap(key, context)
    await moto.permit(policyOf('WrapResultsKeys'))
    await moto.authorize(true)
    await expect(roots.unwrap(wrapped, context)).rejects.toThrow('allow kms:Decrypt on the key')
    await moto.authorize(false)
    await expect(roots.unwrap(wrapped, { ...context, organization: 'org_2' })).rejects.toThrow()
    expect(await rootKeyCalls(metrics)).toEqual({
      counted: {
        'results aws-kms encrypt ok': 1,
        'results aws-kms decrypt failed': 1,
        'results aws-kms decrypt invalid': 1,
      },
      timed: { 'aws-kms encrypt': 1, 'aws-kms decrypt': 2 },
    })
  })

  it('report a key that does not exist', async () => {
    const failure = rootsOf({ k: 'aws-kms:alias/missing' }, 'k').wrap(key, context)
    await expect(failure).rejects.toThrow(InfrastructureError)
    await expect(failure).rejects.toThrow('check the key, the account and AWS_REGION')
  })

  it('report a server that is down, and work once it is up', async () => {
    expect(early).toBeInstanceOf(InfrastructureError)
    expect((early as Error).message).toContain('ECONNREFUSED')
    const keys = { k: `aws-kms:${ALIAS}` }
    const wrapped = await rootsOf(keys, 'k').wrap(key, context)
    const impatient = rootsOf(keys, 'k', 200)
    await whileFrozen(moto.pid, async () => {
      await expect(impatient.unwrap(wrapped, context)).rejects.toThrow(InfrastructureError)
      await expect(impatient.wrap(key, context)).rejects.toThrow('no response within 200 ms')
    })
    expect(await rootsOf(keys, 'k').unwrap(wrapped, context)).toEqual(key)
  })
})
