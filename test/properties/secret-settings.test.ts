import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import fc from 'fast-check'
import type { TObject } from 'typebox'
import { describe, expect, it } from 'vitest'
import { createMac } from '../../services/runtime/crypto/mac.ts'
import { createRootKeys } from '../../services/runtime/crypto/root-keys.ts'
import { HOSTED, HOSTED_NAMES } from '../../services/pipeline/config.ts'
import { describeConfig, loadConfig } from '../../services/runtime/platform/config.ts'
import { root } from '../support/sources.ts'

const configs = new Map<string, TObject>()
for (const name of HOSTED_NAMES) configs.set(name, (await HOSTED[name]()).config)
/** Settings whose values are or contain secrets, also those that the documentation may show. */
const CONFIDENTIAL = /SECRET|PASSWORD|TOKEN|_KEYS$|_URL$|_KEY_ACTIVE$|PROXY/
const fields = [...configs].flatMap(([service, config]) => describeConfig(config)
  .filter(({ key, secret }) => secret || CONFIDENTIAL.test(key))
  .map(({ key }) => [service, key] as const))
const byKey = [...new Map(fields.map(([service, key]) => [key, service]))]

const secret = fc.oneof(
  fc.uint8Array({ minLength: 32, maxLength: 32 }).map(bytes =>
    Buffer.from(bytes).toString('base64')),
  fc.uint8Array({ minLength: 12, maxLength: 40 }).map(bytes => Buffer.from(bytes).toString('hex')),
  fc.string({ minLength: 12, maxLength: 60, unit: fc.constantFrom(...'aZ09-_./+=:@~ü€{}") ') })
    .map(text => `s3cret${text}`))

/** Texts in which a secret can reach a setting by mistake. */
const shapes: readonly ((text: string) => string)[] = [
  text => text,
  text => JSON.stringify(text),
  text => `{"1":"${text}`,
  text => `{${text}:1}`,
  text => `[${text}`,
  text => JSON.stringify({ 1: text }),
  text => JSON.stringify({ [text]: '1' }),
  text => JSON.stringify({ [text]: text }),
  text => JSON.stringify({ [text]: { [text]: [text] } }),
  text => JSON.stringify({ a: { b: text }, [text]: null }),
  text => JSON.stringify([text, { [text]: text }]),
  text => JSON.stringify([{ id: 1, auth: { kind: 'bearer', [text]: text }, [text]: text }]),
  text => JSON.stringify([{ id: text, url: `https://me:${text}@vendor`, request: { body: text } }]),
  text => JSON.stringify([{ id: 1, errors: { statuses: { [text]: text } }, services: [text] }]),
  text => `redis://me:${text}@host:port`,
  text => `http://${text}@@:host`,
  text => `name=${text},${text}`,
]

function messagesOf (action: () => unknown): string {
  try {
    action()
    return ''
  } catch (error) {
    const { message, cause } = error as Error
    return `${message} ${String(cause ?? '')}`
  }
}

/** A part of a secret is as good as the secret: an excerpt of JSON.parse has ten characters. */
const partsOf = (text: string) =>
  Array.from({ length: Math.max(1, text.length - 9) }, (_, at) => text.slice(at, at + 10))

describe('a secret setting', () => {
  it.each(byKey)('%s is in no error, whatever its shape', (key, service) => {
    const config = configs.get(service) as TObject
    fc.assert(fc.property(secret, fc.constantFrom(...shapes), (text, shape) => {
      const message = messagesOf(() => loadConfig(config, { [key]: shape(text) }))
      expect(partsOf(text).filter(part => message.includes(part))).toEqual([])
    }))
  })

  it('is in no error of the keys that it should contain', () => {
    fc.assert(fc.property(secret, secret, (one, other) => {
      const rings = [
        { keys: { [one]: other }, active: '1' }, { keys: { 1: other }, active: one },
        { keys: { [one]: `aws-kms:${other} ` }, active: one },
        { keys: { [one]: `${other}:x` }, active: one }, { keys: { [one]: 'vault:x' }, active: one },
      ]
      for (const { keys, active } of rings) {
        const message = messagesOf(() => createRootKeys({ keys, active, setting: 'S' })) +
          messagesOf(() => createMac({ MESSAGE_KEYS: keys, MESSAGE_KEY_ACTIVE: `${active}x` }))
        expect([...partsOf(one), ...partsOf(other)].filter(part => message.includes(part)))
          .toEqual([])
      }
    }))
  })

  it('is not in the output of --validate if id and secret are swapped', () => {
    const text = 'qQ7mE0b6mVw3c1T2o1l2N0o5mQb9dX8sJr4vHk2uYzA='
    const { status, stderr, stdout } = spawnSync(process.execPath,
      ['services/normalize/main.ts', '--validate'], {
        cwd: root,
        encoding: 'utf8',
        env: {
          PATH: join('/usr/bin'),
          CACHE_SECRETS: JSON.stringify({ [text]: '1' }),
          MESSAGE_KEYS: `{"1":"${text}`,
          RESULTS_ROOT_KEYS: JSON.stringify({ [text]: text.slice(1) }),
          CACHE_SECRET_ACTIVE: text,
        },
      })
    expect(status).toBe(1)
    expect(stderr).toContain('CACHE_SECRETS at "entry 1" must match pattern')
    expect(stderr).toContain('MESSAGE_KEYS is not valid JSON.')
    expect(partsOf(text).filter(part => (stderr + stdout).includes(part))).toEqual([])
  })
})
