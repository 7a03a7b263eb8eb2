import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { ConfigError } from '../../../../../services/runtime/platform/config.ts'
import { FatalError } from '../../../../../services/runtime/platform/errors.ts'
import { createRootKeys, rootIdOf } from '../../../../../services/runtime/crypto/root-keys.ts'
import { SealError, sealPlain } from '../../../../../services/runtime/crypto/seal.ts'
import { context, failureOf, key } from './provider.ts'

const first = Buffer.alloc(32, 1).toString('base64')
const second = Buffer.alloc(32, 2).toString('base64')
const setting = 'RESULTS_ROOT_KEYS'
const rootsOf = (keys: Readonly<Record<string, string>>, active: string) =>
  createRootKeys({ keys, active, setting })

describe('local root keys', () => {
  it('unwrap keys after the active root key has changed', async () => {
    const wrapped = await rootsOf({ a: first }, 'a').wrap(key, context)
    const roots = rootsOf({ a: first, b: second }, 'b')
    const unwrapped = await roots.unwrap(wrapped, context)
    expect(unwrapped).toEqual(key)
    // A reference to it keeps nothing else in memory.
    expect(unwrapped.buffer.byteLength).toBe(32)
    expect([roots.activeId, roots.ids]).toEqual(['b', ['a', 'b']])
    expect([rootIdOf(wrapped), rootIdOf(await roots.wrap(key, context))]).toEqual(['a', 'b'])
  })

  it('authenticate the purpose and the organization', async () => {
    const roots = rootsOf({ a: first }, 'a')
    const wrapped = await roots.wrap(key, context)
    for (const other of [
      { ...context, purpose: 'webhooks' },
      { ...context, organization: 'org_2' },
      { purpose: 'resultsorg', organization: '_1' },
    ]) await expect(roots.unwrap(wrapped, other)).rejects.toThrow(FatalError)
  })

  it('authenticate every byte of a wrapped key, and the id', async () => {
    const roots = rootsOf({ a: first, b: first }, 'a')
    const wrapped = await roots.wrap(key, context)
    for (const index of wrapped.keys()) {
      const changed = Buffer.from(wrapped)
      changed[index] = (changed[index] ?? 0) ^ 3
      // The first byte is the length of the id. The bits of the id "a" change to those of "b".
      await expect(roots.unwrap(changed, context)).rejects
        .toThrow(index === 0 ? SealError : FatalError)
    }
  })

  it('throw a FatalError with the setting and the id of a missing root key', async () => {
    const wrapped = await rootsOf({ a: first }, 'a').wrap(key, context)
    await failureOf(rootsOf({ b: second }, 'b').unwrap(wrapped, context), FatalError,
      'RESULTS_ROOT_KEYS lacks key "a", which wraps a key in use (results of org_1)')
  })

  it('throw a FatalError with setting, id and organization for another value', async () => {
    const wrapped = await rootsOf({ a: first }, 'a').wrap(key, context)
    await failureOf(rootsOf({ a: second }, 'a').unwrap(wrapped, context), FatalError,
      'RESULTS_ROOT_KEYS has another value for key "a", which wraps a key in use (results of ' +
      'org_1): set it back to the value that wrapped the key, ')
  })

  it('report damaged bytes as such, not as a missing root key', async () => {
    const roots = rootsOf({ a: first }, 'a')
    const damaged = [
      Buffer.alloc(0), Buffer.of(0), Buffer.of(1, 7), Buffer.of(9, 97), Buffer.alloc(80, 1),
      Buffer.of(1, 97),
    ]
    for (const bytes of damaged) {
      await expect(roots.unwrap(bytes, context)).rejects.toThrow(SealError)
    }
  })

  it('wrap and unwrap 32 bytes only', async () => {
    const roots = rootsOf({ a: first }, 'a')
    await expect(roots.wrap(randomBytes(16), context)).rejects.toThrow('32 bytes')
    const short = sealPlain(Buffer.alloc(32, 1), ['root-key', 'a', 'results', 'org_1'],
      randomBytes(16))
    await expect(roots.unwrap(Buffer.concat([Buffer.from('\u0001a'), short]), context))
      .rejects.toThrow(SealError)
  })
})

describe('the configuration of root keys', () => {
  it('has the active key', () => {
    expect(() => rootsOf({ a: first }, 'b')).toThrow(ConfigError)
    expect(() => rootsOf({ a: first }, 'b')).toThrow('RESULTS_ROOT_KEYS has no key "b"')
    expect(() => rootsOf({}, 'toString')).toThrow('has no key "toString"')
  })

  it('has ids of visible ASCII', () => {
    for (const id of ['', 'a b', 'ä', 'x'.repeat(256)]) {
      expect(() => rootsOf({ [id]: first }, id)).toThrow('visible ASCII')
    }
    expect(rootsOf({ ['x'.repeat(255)]: first }, 'x'.repeat(255)).ids).toHaveLength(1)
  })

  it('rejects keys that are not 32 bytes of base64, without showing them', () => {
    const urlSafe = Buffer.alloc(32, 255).toString('base64url')
    for (const text of ['', 'AAAA', `${first}AAAA`, first.replace('=', ''), ` ${first}`, urlSafe]) {
      expect(() => rootsOf({ a: text }, 'a')).toThrow(
        /RESULTS_ROOT_KEYS: key "a" must be 32 bytes of base64: create one with "[a-z0-9 -]+"$/)
    }
  })

  it('rejects an unknown provider, without showing what follows', () => {
    const failing = () => rootsOf({ a: `gcp-kms:${first}` }, 'a')
    expect(failing).toThrow(ConfigError)
    expect(failing).toThrow('key "a" has an unknown provider: use aws-kms:')
    expect(failing).not.toThrow(first)
  })
})
