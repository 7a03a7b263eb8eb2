import { writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createRootKeys } from '../../../../../services/runtime/crypto/root-keys.ts'
import type { Environment } from '../../../../../services/runtime/platform/command-environment.ts'
import { ConfigError } from '../../../../../services/runtime/platform/config.ts'
import { FatalError, InfrastructureError } from '../../../../../services/runtime/platform/errors.ts'
import { newFolder } from '../../../../support/folder.ts'
import { startReceiver, type Receiver } from '../../../../support/webhooks/receiver.ts'
import { context, failureOf, key, provider } from './provider.ts'

const TOKEN = 'hvs.a-secret-token'
const folder = newFolder('verification-jobs-vault-')

type Input = {
  readonly associated_data: string
  readonly plaintext?: string
  readonly ciphertext?: string
}

/** What the transit engine does, with one version of one key. */
function answer (response: ServerResponse, body: string): void {
  const { associated_data: data, plaintext, ciphertext = '' } = JSON.parse(body) as Input
  try {
    response.end(JSON.stringify({
      data: plaintext === undefined
        ? { plaintext: provider.decrypt(ciphertext.replace('vault:v1:', ''), [data]) }
        : { ciphertext: `vault:v1:${provider.encrypt(plaintext, [data])}` },
    }))
  } catch {
    fail(response, 400, 'cipher: message authentication failed')
  }
}

function fail (response: ServerResponse, status: number, ...errors: readonly string[]): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ errors }))
}

let respond: typeof answer
let receiver: Receiver
let env: Environment
beforeAll(async () => {
  receiver = await startReceiver((response, { body }) => respond(response, body))
})
beforeEach(() => {
  respond = answer
  env = { VAULT_ADDR: `http://127.0.0.1:${receiver.port}/`, VAULT_TOKEN: TOKEN }
})

const NAME = 'RESULTS_ROOT_KEYS: key "v" (vault:kv/transit/results)'
const entry = { id: 'v', where: 'vault:kv/transit/results', setting: 'RESULTS_ROOT_KEYS' }
const rootsOf = (timeoutMs = 5_000, where = entry.where) => createRootKeys(
  { keys: { v: where }, active: 'v', setting: entry.setting }, { env, timeoutMs })

describe('a root key of Vault', () => {
  it('wraps and unwraps with the context as associated data', async () => {
    env = { ...env, VAULT_NAMESPACE: 'team' }
    const roots = rootsOf()
    const wrapped = await roots.wrap(key, context)
    expect(wrapped.toString('latin1', 1, 11)).toBe('vvault:v1:')
    expect(await roots.unwrap(wrapped, context)).toEqual(key)
    const calls = receiver.received.slice(-2)
    expect(calls.map(({ path }) => path))
      .toEqual(['/v1/kv/transit/encrypt/results', '/v1/kv/transit/decrypt/results'])
    for (const { headers, body } of calls) {
      expect(headers).toMatchObject({ 'x-vault-token': TOKEN, 'x-vault-namespace': 'team' })
      const data = Buffer.from((JSON.parse(body) as Input).associated_data, 'base64')
      expect(data.toString()).toBe('["results","org_1"]')
    }
  })

  it('reads its token again when Vault Agent has replaced it', async () => {
    const file = `${folder}/token`
    env = { ...env, VAULT_TOKEN: undefined, VAULT_TOKEN_FILE: file }
    const roots = rootsOf()
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

  it('needs a mount, a key name, an address and a token', () => {
    for (const where of ['vault:results', 'vault:/results', 'vault:a/../b', 'vault:a/b?c']) {
      const create = () => rootsOf(5_000, where)
      expect(create).toThrow(ConfigError)
      expect(create).toThrow('RESULTS_ROOT_KEYS: key "v" must be vault:<mount>/<key name>')
    }
    const configured = env
    for (const address of [undefined, 'vault:8200', 'ftp://vault']) {
      env = { ...configured, VAULT_ADDR: address }
      expect(() => rootsOf()).toThrow(ConfigError)
      expect(() => rootsOf()).toThrow(`${NAME} needs VAULT_ADDR`)
    }
    for (const token of [undefined, '', 'two\nlines']) {
      env = { ...configured, VAULT_TOKEN: token }
      expect(() => rootsOf()).toThrow('needs VAULT_TOKEN_FILE, a file with the token, or ')
    }
  })
})

describe('a root key of Vault that cannot be used', () => {
  it.each([
    [403, 'permission denied', 'allow "update" on kv/transit/decrypt/results for its token'],
    [404, 'no handler for route', 'check the mount and VAULT_NAMESPACE'],
    [429, 'request path "...": rate limit quota exceeded', 'raise the rate limit quota'],
    [503, 'Vault is sealed', 'unseal it'],
    [500, 'internal error', 'the state of Vault'],
    [307, '', 'set it to the address of the cluster'],
    [400, 'encryption key not found', 'create the key, or restore it'],
    [400, 'invalid ciphertext: version is too new', 'restore a newer backup'],
    [400, 'ciphertext or signature version is disallowed by policy (too old)',
      'lower min_decryption_version'],
    [400, "'[0].associated_data' provided for non-AEAD cipher suite rsa-2048",
      'use a key of type aes256-gcm96'],
    [400, 'missing \'context\' for key derivation', 'that is not derived'],
  ])('reports status %d, "%s"', async (status, error, advice) => {
    const roots = rootsOf()
    const wrapped = await roots.wrap(key, context)
    respond = response => fail(response, status, error)
    await failureOf(roots.unwrap(wrapped, context), InfrastructureError,
      `${NAME} cannot decrypt (status ${status}): `, advice)
  })

  it.each([
    'invalid ciphertext: no prefix', 'invalid ciphertext: could not decode base64',
    'invalid ciphertext length', 'cipher: message authentication failed',
    'chacha20poly1305: message authentication failed',
  ])('takes "%s" for modified bytes or a wrong key', async error => {
    const roots = rootsOf()
    const wrapped = await roots.wrap(key, context)
    respond = response => fail(response, 400, error)
    await failureOf(roots.unwrap(wrapped, context), FatalError)
    await failureOf(roots.wrap(key, context), InfrastructureError)
  })

  it('sends its token to no other host', async () => {
    const other = await startReceiver()
    respond = response =>
      response.writeHead(307, { location: `http://127.0.0.1:${other.port}/` }).end()
    await expect(rootsOf().wrap(key, context)).rejects.toThrow('(status 307)')
    expect(other.received).toEqual([])
  })

  it('reports a server that is down, and works once it is up', async () => {
    const roots = rootsOf()
    respond = response => response.destroy()
    await failureOf(roots.wrap(key, context), InfrastructureError,
      'cannot encrypt (UND_ERR_SOCKET): check Vault')
    respond = answer
    expect(await roots.unwrap(await roots.wrap(key, context), context)).toEqual(key)
  })

  it('reports a server that does not respond, or not to the end', async () => {
    const silences: readonly (typeof answer)[] = [() => {}, response => response.write('{"data":')]
    for (const silence of silences) {
      respond = silence
      await failureOf(
        rootsOf(50).wrap(key, context), InfrastructureError, 'no response within 50 ms')
    }
  })

  it('reports a response that is not from Vault, without what it holds', async () => {
    const bodies = [
      '', 'null', '[]', '{"data":{}}', '{"data":{"ciphertext":7}}', '<html>', '{"errors":"text"}',
    ]
    for (const body of bodies) {
      respond = response => response.end(body)
      await failureOf(
        rootsOf().wrap(key, context), InfrastructureError, '(status 200): check VAULT_ADDR')
    }
  })

  it('shows neither keys nor tokens in errors', async () => {
    const echoes: readonly (typeof answer)[] = [
      (response, body) => response.end(body),
      (response, body) => fail(response, 400, body, TOKEN),
      (response, body) => response.end(`${body}${TOKEN}`),
    ]
    for (const echo of echoes) {
      respond = echo
      const shown = await failureOf(rootsOf().wrap(key, context), InfrastructureError)
      for (const secret of [key.toString('base64'), TOKEN]) expect(shown).not.toContain(secret)
    }
  })
})
