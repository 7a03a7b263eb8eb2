import { readFile } from 'node:fs/promises'
import type { Environment } from '../../platform/command-environment.ts'
import { ConfigError, nameKey } from '../../platform/config.ts'
import { InfrastructureError } from '../../platform/errors.ts'
import { readBody } from '../../platform/peer-guards.ts'
import { SealError } from '../seal.ts'
import {
  nameOfRootKey, type KeyContext, type RootKey, type RootKeyAction, type RootKeyEntry,
} from './root-key.ts'

/** A mount, whose path may have several segments, and the name of a key. */
const WHERE = /^vault:(\w[\w.-]*(?:\/\w[\w.-]*)*)\/(\w[\w.-]*)$/

/**
 * A key of the transit secrets engine of HashiCorp Vault or OpenBao. `env` has VAULT_ADDR,
 * VAULT_TOKEN or VAULT_TOKEN_FILE, and VAULT_NAMESPACE if need be.
 * @throws ConfigError for an invalid key, or a missing or invalid variable.
 */
export function vaultRootKey (entry: RootKeyEntry, env: Environment, timeoutMs: number): RootKey {
  const [, mount, key] = WHERE.exec(entry.where) ?? []
  if (mount === undefined || key === undefined) {
    throw new ConfigError([`${entry.setting}: ${nameKey(entry.id)} must be ` +
      'vault:<mount>/<key name>'])
  }
  const server = serverOf(env, nameOfRootKey(entry), timeoutMs)
  const send = async (action: RootKeyAction, body: object) => {
    const call = { action, path: `${mount}/${action}/${key}`, name: nameOfRootKey(entry) }
    const answer = await post(server, call, body)
    const value = answer.data?.[action === 'encrypt' ? 'ciphertext' : 'plaintext']
    if (answer.status === 200 && typeof value === 'string') return value
    throw failureOf(answer, call)
  }
  return {
    encrypt: async (plain, context) => Buffer.from(await send('encrypt', {
      plaintext: plain.toString('base64'), associated_data: associatedDataOf(context),
    })),
    decrypt: async (ciphertext, context) => Buffer.from(await send('decrypt', {
      ciphertext: ciphertext.toString('latin1'), associated_data: associatedDataOf(context),
    }), 'base64'),
  }
}

/** An unambiguous text of the context, in base64. */
function associatedDataOf ({ purpose, organization }: KeyContext): string {
  return Buffer.from(JSON.stringify([purpose, organization])).toString('base64')
}

type Server = {
  readonly address: string
  readonly namespace: string | undefined
  readonly token: string | undefined
  readonly tokenFile: string | undefined
  readonly timeoutMs: number
}

function serverOf (env: Environment, name: string, timeoutMs: number): Server {
  const { VAULT_ADDR: address = '', VAULT_NAMESPACE: namespace } = env
  const { VAULT_TOKEN: token, VAULT_TOKEN_FILE: tokenFile } = env
  if (!/^https?:$/.test(URL.parse(address)?.protocol ?? '')) {
    throw new ConfigError([
      `${name} needs VAULT_ADDR, the URL of Vault: such as https://vault:8200`,
    ])
  }
  if (tokenFile === undefined && !TOKEN.test(token ?? '')) {
    throw new ConfigError([`${name} needs VAULT_TOKEN_FILE, a file with the token, or VAULT_TOKEN`])
  }
  return { address: address.replace(/\/+$/, ''), namespace, token, tokenFile, timeoutMs }
}

/** Visible ASCII: an error of `fetch` would quote any other token. */
const TOKEN = /^[\x21-\x7e]+$/

/** A call, for errors: `name` is that of the root key. */
type Call = { readonly action: RootKeyAction, readonly path: string, readonly name: string }

type Answer = {
  readonly status: number
  readonly data?: Readonly<Record<string, unknown>>
  readonly errors?: unknown
}

/** An answer has one key; a larger one is not from Vault. */
const MAX_ANSWER_BYTES = 65_536

/** Without errors as causes: that of `fetch` may quote the token, that of a parser the key. */
async function post (server: Server, call: Call, body: object): Promise<Answer> {
  const token = await tokenOf(server, call)
  try {
    const response = await fetch(`${server.address}/v1/${call.path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-vault-request': 'true',
        'x-vault-token': token,
        ...server.namespace === undefined ? {} : { 'x-vault-namespace': server.namespace },
      },
      body: JSON.stringify(body),
      // Another host must not receive the token.
      redirect: 'manual',
      signal: AbortSignal.timeout(server.timeoutMs),
    })
    const text = await readBody(response, MAX_ANSWER_BYTES)
    return { ...jsonOf(text?.toString() ?? ''), status: response.status }
  } catch (error) {
    throw unavailableError(error, server, call)
  }
}

/** Read for each call, as Vault Agent replaces the file before the token expires. */
async function tokenOf ({ token = '', tokenFile }: Server, { name }: Call): Promise<string> {
  if (tokenFile === undefined) return token
  const text = await readFile(tokenFile, 'utf8').catch(() => '')
  if (TOKEN.test(text.trim())) return text.trim()
  throw new InfrastructureError(`${name}: VAULT_TOKEN_FILE ${tokenFile} has no token: check that ` +
    'Vault Agent writes it and that this process may read it')
}

/** Nothing for a text that is not a JSON object, such as that of a proxy. */
function jsonOf (text: string): Omit<Answer, 'status'> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

function unavailableError (error: unknown, { timeoutMs }: Server, call: Call): InfrastructureError {
  const { name = 'unknown error', cause } = error instanceof Error ? error : {}
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : name
  const what = name === 'TimeoutError' ? `no response within ${timeoutMs} ms` : code
  return new InfrastructureError(`${call.name} cannot ${call.action} (${what}): check Vault, ` +
    'VAULT_ADDR, the network, and NODE_EXTRA_CA_CERTS for a private certificate authority')
}

function failureOf ({ status, errors }: Answer, { action, path, name }: Call): Error {
  const text = Array.isArray(errors) ? errors.map(String).join(' ') : ''
  if (status === 400 && action === 'decrypt' && DAMAGED.test(text)) {
    return new SealError(`${name} cannot decrypt: wrong context or modified bytes`)
  }
  const remedy = KNOWN.find(([pattern]) => status === 400 && pattern.test(text))?.[1]
  const advice = status === 403
    ? `allow "update" on ${path} for its token, and check that token and key exist`
    : remedy ?? ADVICE.get(status) ?? 'check VAULT_ADDR and the state of Vault'
  return new InfrastructureError(`${name} cannot ${action} (status ${status}): ${advice}`)
}

/** A newer version than that of the key is no damage: Vault was restored from an old backup. */
const DAMAGED = /message authentication failed|^invalid ciphertext(?!: version is too new)/

/** What an operator does, by the text of an error with status 400. */
const KNOWN: readonly (readonly [RegExp, string])[] = [
  [/version is too new/, 'Vault lacks the version of the key: restore a newer backup of it'],
  [/disallowed by policy/, 'lower min_decryption_version of the key'],
  [/key not found/, 'create the key, or restore it from a backup of Vault'],
  [/./, 'use a key of type aes256-gcm96 that is not derived'],
]

/** What an operator does, by status. */
const ADVICE: ReadonlyMap<number, string> = new Map([
  [307, 'VAULT_ADDR is not the active node: set it to the address of the cluster'],
  [404, 'check the mount and VAULT_NAMESPACE'],
  [429, 'it is retried; if that lasts, raise the rate limit quota of Vault'],
  [503, 'Vault is sealed or has no active node: unseal it'],
])
