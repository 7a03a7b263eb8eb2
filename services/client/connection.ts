import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { UsageError } from './command-error.ts'
import { readLocalStack } from './local-stack.ts'
import type { Account } from './run-state.ts'

type Env = Readonly<Record<string, string | undefined>>

export type ConnectionFlags = {
  readonly baseUrl?: string
  /** A file with nothing but the key. */
  readonly keyFile?: string
  /** Folder of a local stack. */
  readonly data: string
}

export type Connection = {
  readonly baseUrl: string
  readonly apiKey: string
  /** True when both come from a local stack. */
  readonly isLocalStack: boolean
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/
const WAYS = 'give the address with --base-url or VERIFICATION_JOBS_URL, and the key as ' +
  'VERIFICATION_JOBS_KEY or in a file with --key-file.'

/**
 * Where the service is and by which key. Options win over the environment; when neither names an
 * address nor a key, a local stack is taken. A key is never an option: command lines are seen by
 * others and kept. Throws UsageError with what is missing.
 */
export function connectionOf (flags: ConnectionFlags, env: Env): Connection {
  const address = flags.baseUrl ?? (env['VERIFICATION_JOBS_URL'] || undefined)
  const key = flags.keyFile === undefined
    ? env['VERIFICATION_JOBS_KEY'] || undefined
    : keyIn(flags.keyFile)
  if (address === undefined && key === undefined) return ofLocalStack(flags.data)
  if (address === undefined) throw new UsageError(`There is a key, but no address: ${WAYS}`)
  if (key === undefined) throw new UsageError(`There is an address, but no key: ${WAYS}`)
  return { baseUrl: baseUrlOf(address), apiKey: checkedKey(key), isLocalStack: false }
}

function ofLocalStack (folder: string): Connection {
  const { baseUrl, keys } = readLocalStack(folder)
  const live = (keys as Env | undefined)?.['live']
  if (typeof baseUrl !== 'string' || live === undefined) {
    throw new UsageError(`No stack runs in ${folder}. Start one with "npm start", wait until it ` +
      `says that it serves, and run this again. For a service elsewhere: ${WAYS}`)
  }
  return { baseUrl, apiKey: live, isLocalStack: true }
}

function baseUrlOf (address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !['https:', 'http:'].includes(url.protocol)) {
    throw new UsageError(`${address} is no address like https://api.example.com/api/v1.`)
  }
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname)) {
    throw new UsageError(`${address} would send the key unencrypted. Use https://.`)
  }
  const path = url.pathname.replace(/\/+$/, '')
  return `${url.origin}${path === '' ? '/api/v1' : path}`
}

function keyIn (file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    throw new UsageError(`--key-file ${file} can't be read.`, { cause })
  }
}

function checkedKey (key: string): string {
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new UsageError('The key is not one: it has blanks or letters that no key has.')
}

/** What a run keeps of a connection: enough to tell another key, too little to use it. */
export function accountIn ({ baseUrl, apiKey }: Connection): Account {
  return { baseUrl, key: createHash('sha256').update(apiKey).digest('hex').slice(0, 16) }
}
