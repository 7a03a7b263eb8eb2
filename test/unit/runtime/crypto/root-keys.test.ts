import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { inspect } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createRootKeys, readRootId, type RootKeyOptions,
} from '../../../../services/runtime/crypto/root-keys.ts'
import { openSealed, SealError, sealPlain } from '../../../../services/runtime/crypto/seal.ts'
import type { Environment } from '../../../../services/runtime/platform/command-environment.ts'
import { ConfigError } from '../../../../services/runtime/platform/config.ts'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { eventually } from '../../../support/eventually.ts'
import { newFolder } from '../../../support/folder.ts'
import { rootKeyCalls } from '../../../support/metrics.ts'
import { startReceiver, type Receiver } from '../../../support/webhooks/receiver.ts'

/** A key to wrap, and what it belongs to. */
const key = randomBytes(32)
const context = { purpose: 'results', organization: 'org_1' }

const first = Buffer.alloc(32, 1).toString('base64')
const second = Buffer.alloc(32, 2).toString('base64')
const rootsOf = (
  keys: Readonly<Record<string, string>>, active: string, options?: RootKeyOptions
) => createRootKeys({ keys, active, setting: 'RESULTS_ROOT_KEYS' }, options)

/** Checks the error of a failed action, and returns all that a log could show of it. */
async function failureOf (
  action: Promise<unknown>, kind: new (...args: never[]) => Error, ...texts: readonly string[]
): Promise<string> {
  const error: unknown = await action.then(() => 'no failure', (thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(kind)
  for (const text of texts) expect((error as Error).message).toContain(text)
  return inspect(error, { depth: Infinity, showHidden: true })
}

describe('local root keys', () => {
  it('unwrap keys after the active root key has changed', async () => {
    const wrapped = await rootsOf({ a: first }, 'a').wrap(key, context)
    const roots = rootsOf({ a: first, b: second }, 'b')
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    expect([roots.activeId, roots.ids]).toEqual(['b', ['a', 'b']])
    expect([readRootId(wrapped), readRootId(await roots.wrap(key, context))]).toEqual(['a', 'b'])
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

  it('throw a FatalError for a key that is missing, or has another value', async () => {
    const wrapped = await rootsOf({ a: first }, 'a').wrap(key, context)
    await failureOf(rootsOf({ b: second }, 'b').unwrap(wrapped, context), FatalError,
      'RESULTS_ROOT_KEYS lacks key "a", which wraps a key in use (results of org_1)')
    await failureOf(rootsOf({ a: second }, 'a').unwrap(wrapped, context), FatalError,
      'RESULTS_ROOT_KEYS has another value for key "a", which wraps a key in use (results of ' +
      'org_1): set it back to the value that wrapped the key, ')
  })

  it('report damaged bytes as such, not as a missing root key', async () => {
    const roots = rootsOf({ a: first }, 'a')
    const short = sealPlain(Buffer.alloc(32, 1), ['root-key', 'a', 'results', 'org_1'],
      randomBytes(16))
    const damaged = [
      Buffer.alloc(0), Buffer.of(0), Buffer.of(1, 7), Buffer.of(9, 97), Buffer.alloc(80, 1),
      Buffer.of(1, 97), Buffer.of(1, 97, ...Buffer.alloc(6_145)), Buffer.of(1, 97, ...short),
    ]
    for (const bytes of damaged) {
      await expect(roots.unwrap(bytes, context)).rejects.toThrow(SealError)
    }
    await expect(roots.wrap(randomBytes(16), context)).rejects.toThrow('32 bytes')
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

  it.each([
    ['must be aws-kms:', ['aws-kms:', 'aws-kms:a b', 'aws-kms:arn:aws:s3:::bucket?', 'aws-kms:a=']],
    ['must be vault:<mount>/<key name>',
      ['vault:results', 'vault:/results', 'vault:a/../b', 'vault:a/b?c']],
    ['has an unknown provider: use aws-kms:', [`gcp-kms:${first}`]],
  ])('%s', (fault, all) => {
    for (const where of all) {
      const create = () => rootsOf({ a: where }, 'a')
      expect(create).toThrow(ConfigError)
      expect(create).toThrow(`RESULTS_ROOT_KEYS: key "a" ${fault}`)
      expect(create).not.toThrow(first)
    }
  })
})

const TOKEN = 'hvs.a-secret-token'
const backingKey = randomBytes(32)

type Respond = (response: ServerResponse, body: string, path: string) => void

/** A provider with a single key. */
type Provider = {
  readonly where: string
  readonly answer: Respond
  readonly fail: (response: ServerResponse, status: number, error: string) => void
}

/** What a provider does with its key; undefined for other bytes or another binding. */
function sealOrOpen (
  plain: string | undefined, sealed: string | undefined, binding: readonly string[]
): string | undefined {
  try {
    return (plain === undefined
      ? openSealed(backingKey, binding, Buffer.from(sealed ?? '', 'base64'))
      : sealPlain(backingKey, binding, Buffer.from(plain, 'base64'))).toString('base64')
  } catch {
    return undefined
  }
}

const kms: Provider = {
  where: 'aws-kms:alias/results',
  answer: (response, body) => {
    const { EncryptionContext, Plaintext, CiphertextBlob } = JSON.parse(body)
    const binding = Object.entries<string>(EncryptionContext).sort().flat()
    const bytes = sealOrOpen(Plaintext, CiphertextBlob, binding)
    if (bytes === undefined) return kms.fail(response, 400, 'InvalidCiphertextException')
    response.end(JSON.stringify({ [Plaintext ? 'CiphertextBlob' : 'Plaintext']: bytes }))
  },
  fail: (response, status, type) => {
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' })
    response.end(JSON.stringify({ __type: type, message: 'a text of AWS' }))
  },
}

const vault: Provider = {
  where: 'vault:kv/transit/results',
  answer: (response, body) => {
    const { associated_data: binding, plaintext, ciphertext } = JSON.parse(body)
    const bytes = sealOrOpen(plaintext, ciphertext?.replace('vault:v1:', ''), [binding])
    if (bytes === undefined) return vault.fail(response, 400, 'message authentication failed')
    const data = plaintext ? { ciphertext: `vault:v1:${bytes}` } : { plaintext: bytes }
    response.end(JSON.stringify({ data }))
  },
  fail: (response, status, error) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ errors: [error, TOKEN] }))
  },
}

const nameOf = ({ where }: Provider) => `RESULTS_ROOT_KEYS: key "k" (${where})`
const rootsAt = ({ where }: Provider, options: RootKeyOptions = {}) =>
  rootsOf({ k: where }, 'k', { env, timeoutMs: 5_000, ...options })

let respond: Respond
let receiver: Receiver
let env: Environment
beforeAll(async () => {
  receiver = await startReceiver((response, { body, path }) => respond(response, body, path))
})
beforeEach(() => {
  env = { VAULT_ADDR: `http://127.0.0.1:${receiver.port}/`, VAULT_TOKEN: TOKEN }
  vi.unstubAllEnvs()
  for (const [name, value] of Object.entries({
    AWS_ENDPOINT_URL_KMS: `http://127.0.0.1:${receiver.port}`,
    AWS_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'AKIAIOSFODNN7EXAMPLE',
    AWS_SECRET_ACCESS_KEY: 'a-secret-access-key',
    AWS_MAX_ATTEMPTS: '1',
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_CONFIG_FILE: '/nonexistent',
    AWS_SHARED_CREDENTIALS_FILE: '/nonexistent',
  })) vi.stubEnv(name, value)
})
afterAll(() => vi.unstubAllEnvs())

const lastCalls = () => receiver.received.slice(-2)

describe.each([['AWS KMS', kms], ['Vault', vault]])('a root key of %s', (_, provider) => {
  beforeEach(() => { respond = provider.answer })

  it('unwraps what it wrapped, in the same context', async () => {
    const roots = rootsAt(provider)
    const wrapped = await roots.wrap(key, context)
    const unwrapped = await roots.unwrap(wrapped, context)
    expect(unwrapped).toEqual(key)
    // A reference to it keeps nothing else in memory.
    expect(unwrapped.buffer.byteLength).toBe(32)
    for (const other of [{ ...context, purpose: 'x' }, { ...context, organization: 'org_2' }]) {
      await failureOf(roots.unwrap(wrapped, other), FatalError)
    }
  })

  it('reports a server that is down, and works once it is up', async () => {
    const roots = rootsAt(provider)
    respond = response => response.destroy()
    await failureOf(roots.wrap(key, context), InfrastructureError,
      `${nameOf(provider)} cannot encrypt (`)
    respond = provider.answer
    expect(await roots.unwrap(await roots.wrap(key, context), context)).toEqual(key)
  })

  it('reports a server that does not respond, or not to the end', async () => {
    const silences: readonly Respond[] = [() => {}, response => response.write('{"data":')]
    for (const silence of silences) {
      respond = silence
      await failureOf(rootsAt(provider, { timeoutMs: 50 }).wrap(key, context), InfrastructureError,
        'no response within 50 ms')
    }
  })

  it.each([
    '', 'null', '[]', '{}', '{"data":{}}', '{"data":{"ciphertext":7}}', '<html>',
    '{"errors":"text"}', `<${first}>`, `{"Plaintext":"${first}"`,
  ])('reports a response that is not from its provider, without what it holds: %s', async body => {
    respond = response => response.end(body)
    const shown =
      await failureOf(rootsAt(provider).wrap(key, context), InfrastructureError, nameOf(provider))
    expect(shown).not.toContain(first)
  })

  it('shows neither keys nor credentials in errors', async () => {
    const echoes: readonly Respond[] = [
      (response, body) => response.end(body),
      (response, body) => provider.fail(response, 400, body),
      (response, body) => response.end(`${body}${TOKEN}`),
      (response, body) => {
        const type = 'ValidationException'
        response.writeHead(400).end(JSON.stringify({ __type: type, message: body }))
      },
    ]
    for (const echo of echoes) {
      respond = echo
      const shown = await failureOf(rootsAt(provider).wrap(key, context), InfrastructureError)
      for (const secret of [key.toString('base64'), TOKEN, 'a-secret-access-key']) {
        expect(shown).not.toContain(secret)
      }
    }
  })
})

const SIGNED_OUT = 'check the AWS credentials'

it.each<[status: number, error: string, advice: string, provider: Provider]>([
  [400, 'AccessDeniedException', 'allow kms:Decrypt on the key', kms],
  [400, 'NotFoundException', 'check the key, the account and AWS_REGION', kms],
  [400, 'DisabledException', 'enable the key', kms],
  [400, 'KMSInvalidStateException', 'enable the key in AWS KMS, or cancel its deletion', kms],
  [400, 'InvalidKeyUsageException', 'use a symmetric key', kms],
  [400, 'UnrecognizedClientException', SIGNED_OUT, kms],
  [400, 'ExpiredTokenException', SIGNED_OUT, kms],
  [400, 'ThrottlingException', 'request a higher quota', kms],
  [429, 'ThrottlingException', 'request a higher quota', kms],
  [503, 'ServiceUnavailable', 'the status of AWS KMS', kms],
  [500, 'KMSInternalException', 'the status of AWS KMS', kms],
  [400, 'AnErrorOfTheFuture', 'the status of AWS KMS', kms],
  [403, 'permission denied', 'allow "update" on kv/transit/decrypt/results for its token', vault],
  [404, 'no handler for route', 'check the mount and VAULT_NAMESPACE', vault],
  [429, 'request path "...": rate limit quota exceeded', 'raise the rate limit quota', vault],
  [503, 'Vault is sealed', 'unseal it', vault],
  [500, 'internal error', 'the state of Vault', vault],
  [307, '', 'set it to the address of the cluster', vault],
  [400, 'encryption key not found', 'create the key, or restore it', vault],
  [400, 'invalid ciphertext: version is too new', 'restore a newer backup', vault],
  [400, 'ciphertext or signature version is disallowed by policy (too old)',
    'lower min_decryption_version', vault],
  [400, "'[0].associated_data' provided for non-AEAD cipher suite rsa-2048",
    'use a key of type aes256-gcm96', vault],
  [400, 'missing \'context\' for key derivation', 'that is not derived', vault],
])('status %d, "%s", is reported with what to do: %s', async (status, error, advice, provider) => {
  respond = provider.answer
  const roots = rootsAt(provider)
  const wrapped = await roots.wrap(key, context)
  respond = response => provider.fail(response, status, error)
  const details = provider === kms ? `${error}, status ${status}` : `status ${status}`
  await failureOf(roots.unwrap(wrapped, context), InfrastructureError,
    `${nameOf(provider)} cannot decrypt (${details}): `, advice)
})

it.each([
  ['IncorrectKeyException', kms], ['invalid ciphertext: no prefix', vault],
  ['invalid ciphertext: could not decode base64', vault], ['invalid ciphertext length', vault],
  ['chacha20poly1305: message authentication failed', vault],
])('"%s" means modified bytes or a wrong key', async (error, provider) => {
  respond = provider.answer
  const roots = rootsAt(provider)
  const wrapped = await roots.wrap(key, context)
  respond = response => provider.fail(response, 400, error)
  await failureOf(roots.unwrap(wrapped, context), FatalError)
  if (provider === vault) await failureOf(roots.wrap(key, context), InfrastructureError)
})

describe('AWS KMS', () => {
  beforeEach(() => { respond = kms.answer })

  it('gets the key and the context, in the region of an ARN', async () => {
    const roots = rootsAt(kms)
    await roots.unwrap(await roots.wrap(key, context), context)
    for (const { body, headers } of lastCalls()) {
      expect(JSON.parse(body)).toMatchObject({ KeyId: 'alias/results', EncryptionContext: context })
      expect(headers.authorization).toContain('/eu-central-1/kms/')
    }
    expect(lastCalls().map(({ headers }) => headers['x-amz-target']))
      .toEqual(['TrentService.Encrypt', 'TrentService.Decrypt'])
    const arn = 'arn:aws:kms:eu-west-3:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab'
    await rootsAt({ ...kms, where: `aws-kms:${arn}` }).wrap(key, context)
    expect(receiver.received.at(-1)?.headers.authorization).toContain('/eu-west-3/kms/')
  })

  it('denies by status 403, whatever the body', async () => {
    respond = response => response.writeHead(403).end('<Error>denied by a policy</Error>')
    await failureOf(
      rootsAt(kms).wrap(key, context), InfrastructureError, 'allow kms:Encrypt on the key')
  })

  it('has calls that are counted and timed, and which of them failed or do not match', async () => {
    const metrics = createMetrics()
    const roots = rootsAt(kms, { metrics })
    const wrapped = await roots.wrap(key, context)
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    await failureOf(roots.unwrap(wrapped, { ...context, purpose: 'webhooks' }), FatalError)
    for (const [status, type] of [[400, 'IncorrectKeyException'], [500, 'Any']] as const) {
      respond = response => kms.fail(response, status, type)
      await expect(roots.unwrap(wrapped, context)).rejects.toThrow()
    }
    expect(await rootKeyCalls(metrics)).toEqual({
      counted: {
        'results aws-kms encrypt ok': 1,
        'results aws-kms decrypt ok': 1,
        'webhooks aws-kms decrypt invalid': 1,
        'results aws-kms decrypt invalid': 1,
        'results aws-kms decrypt failed': 1,
      },
      timed: { 'aws-kms encrypt': 1, 'aws-kms decrypt': 4 },
    })
  })

  it('is used again once a source of credentials that hung responds', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', undefined)
    vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', `http://127.0.0.1:${receiver.port}/role`)
    const role = JSON.stringify({
      AccessKeyId: 'AKIAI44QH8DHBEXAMPLE',
      SecretAccessKey: 'another-secret',
      Token: 'session',
      Expiration: new Date(Date.now() + 3_600_000).toISOString(),
    })
    respond = () => {}
    const roots = rootsAt(kms, { timeoutMs: 500 })
    await expect(roots.wrap(key, context)).rejects.toThrow('no response within 500 ms')
    respond = (response, body, path) =>
      path === '/role' ? response.end(role) : kms.answer(response, body, path)
    await eventually(async () => await roots.wrap(key, context))
    expect(receiver.received.at(-1)?.headers.authorization).toContain('AKIAI44QH8DHBEXAMPLE')
  })

  it('needs credentials and a region', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', undefined)
    await expect(rootsAt(kms).wrap(key, context)).rejects.toThrow(SIGNED_OUT)
    vi.stubEnv('AWS_REGION', undefined)
    await expect(rootsAt(kms).wrap(key, context)).rejects.toThrow('check the network, AWS_REGION')
  })
})

describe('Vault', () => {
  beforeEach(() => { respond = vault.answer })

  it('gets the context as associated data, and the namespace', async () => {
    env = { ...env, VAULT_NAMESPACE: 'team' }
    const roots = rootsAt(vault)
    const wrapped = await roots.wrap(key, context)
    await roots.unwrap(wrapped, context)
    expect(wrapped.toString('latin1', 1, 11)).toBe('kvault:v1:')
    expect(lastCalls().map(({ path }) => path))
      .toEqual(['/v1/kv/transit/encrypt/results', '/v1/kv/transit/decrypt/results'])
    for (const { headers, body } of lastCalls()) {
      expect(headers).toMatchObject({ 'x-vault-token': TOKEN, 'x-vault-namespace': 'team' })
      expect(Buffer.from(JSON.parse(body).associated_data, 'base64').toString())
        .toBe('["results","org_1"]')
    }
  })

  it('gets the token that Vault Agent has written by then', async () => {
    const file = `${newFolder('verification-jobs-vault-')}/token`
    env = { ...env, VAULT_TOKEN: undefined, VAULT_TOKEN_FILE: file }
    const roots = rootsAt(vault)
    await failureOf(
      roots.wrap(key, context), InfrastructureError, `VAULT_TOKEN_FILE ${file} has no token`)
    for (const token of ['hvs.first', 'hvs.second']) {
      writeFileSync(file, `${token}\n`)
      await roots.wrap(key, context)
      expect(receiver.received.at(-1)?.headers['x-vault-token']).toBe(token)
    }
    writeFileSync(file, 'two\nlines')
    expect(await failureOf(roots.wrap(key, context), InfrastructureError)).not.toContain('two')
  })

  it('needs an address and a token', () => {
    const configured = env
    for (const address of [undefined, 'vault:8200', 'ftp://vault']) {
      env = { ...configured, VAULT_ADDR: address }
      expect(() => rootsAt(vault)).toThrow(ConfigError)
      expect(() => rootsAt(vault)).toThrow(`${nameOf(vault)} needs VAULT_ADDR`)
    }
    for (const token of [undefined, '', 'two\nlines']) {
      env = { ...configured, VAULT_TOKEN: token }
      expect(() => rootsAt(vault)).toThrow('needs VAULT_TOKEN_FILE, a file with the token, or ')
    }
  })

  it('gets no token at another host', async () => {
    const other = await startReceiver()
    respond = response =>
      response.writeHead(307, { location: `http://127.0.0.1:${other.port}/` }).end()
    await expect(rootsAt(vault).wrap(key, context)).rejects.toThrow('(status 307)')
    expect(other.received).toEqual([])
  })
})
