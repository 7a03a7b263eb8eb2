import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type Streams, UsageError } from './terminal.ts'
import type { TransportOptions } from './transport.ts'

type Env = Readonly<Record<string, string | undefined>>

/** The process around a command. Tests replace it. */
export type CliContext = Streams & {
  readonly env: Env
  /** Registers the handler of Ctrl-C. */
  readonly onInterrupt: (action: () => void) => void
  readonly clientOptions?: Partial<TransportOptions>
  /** Interval between two requests for the status of a job. */
  readonly pollEveryMs?: number
}

/** Options of every command. */
export type CommonFlags = {
  readonly baseUrl?: string
  /** A file that contains only the key. */
  readonly keyFile?: string
  /** Folder of a local stack. */
  readonly data: string
  readonly json?: true
}

type Connection = {
  readonly baseUrl: string
  readonly apiKey: string
  /** True when the address comes from a local stack. */
  readonly isLocalStack: boolean
}

/** Identifies a connection in the state of a run, without the key itself. */
export type Account = {
  readonly baseUrl: string
  /** First 16 hex digits of the SHA-256 of the key. */
  readonly key: string
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/
const HOW_TO_CONNECT = 'Set the address with --base-url or VERIFICATION_JOBS_URL, and the key ' +
  'with VERIFICATION_JOBS_KEY or --key-file.'

/** Resolves the connection of a command, and reports the use of a local stack. */
export function openConnection (
  flags: CommonFlags, { env }: CliContext, say: (line: string) => void
): Connection & { readonly account: Account } {
  const connection = resolveConnection(flags, env)
  if (connection.isLocalStack) {
    say(`Using the local stack of ${flags.data}/stack.json at ${connection.baseUrl}.`)
  }
  const { baseUrl, apiKey } = connection
  const key = createHash('sha256').update(apiKey).digest('hex').slice(0, 16)
  return { ...connection, account: { baseUrl, key } }
}

/**
 * Resolves address and key: options first, then the environment. Without either, both come from a
 * local stack: its file may be anybody's, so no other key is sent to its address. There is no
 * option for the key, because other users can read command lines.
 * Throws UsageError with the missing setting.
 */
export function resolveConnection (flags: CommonFlags, env: Env): Connection {
  const address = flags.baseUrl ?? (env['VERIFICATION_JOBS_URL'] || undefined)
  const key = flags.keyFile === undefined
    ? env['VERIFICATION_JOBS_KEY'] || undefined
    : readKey(flags.keyFile)
  if (address !== undefined && key !== undefined) {
    return { baseUrl: parseBaseUrl(address), apiKey: checkKey(key), isLocalStack: false }
  }
  if (address !== undefined) throw new UsageError(`The API key is missing. ${HOW_TO_CONNECT}`)
  if (key === undefined) return localConnection(flags.data)
  const [source, action] = flags.keyFile === undefined
    ? ['VERIFICATION_JOBS_KEY', 'unset VERIFICATION_JOBS_KEY']
    : ['--key-file', 'leave --key-file out']
  throw new UsageError(`The address is missing for the API key of ${source}. Set it with ` +
    `--base-url or VERIFICATION_JOBS_URL. To use the local stack of ${flags.data}/stack.json ` +
    `with its own key, ${action}; "npm start" starts one.`)
}

/** A local stack with its own live key. */
function localConnection (folder: string): Connection {
  const { baseUrl, keys } = readLocalStack(folder)
  const apiKey = (keys as Readonly<Record<string, unknown>> | undefined)?.['live']
  if (typeof baseUrl !== 'string' || typeof apiKey !== 'string') {
    throw new UsageError(`${folder}/stack.json describes no running stack. Start one with "npm ` +
      'start", wait for "serving at", and run this command again. To use another service: ' +
      HOW_TO_CONNECT)
  }
  const address = parseBaseUrl(baseUrl)
  checkLocal(folder, new URL(address))
  return { baseUrl: address, apiKey: checkKey(apiKey), isLocalStack: true }
}

/**
 * Throws UsageError unless an address of a stack file is on this machine: a file of a stranger
 * would get the contacts otherwise.
 */
export function checkLocal (folder: string, { hostname, host }: URL): void {
  if (LOOPBACK.test(hostname)) return
  throw new UsageError(`${folder}/stack.json names the address ${host}, which is not on this ` +
    `machine. Remove the file, or name another folder with --data. ${HOW_TO_CONNECT}`)
}

/**
 * Reads `<folder>/stack.json`, which "npm run up" writes; empty when the file does not exist.
 * Throws UsageError for a file without a JSON object.
 */
export function readLocalStack (folder: string): Readonly<Record<string, unknown>> {
  const file = `${folder}/stack.json`
  try {
    const state: unknown = JSON.parse(readFileSync(file, 'utf8'))
    if (typeof state === 'object' && state !== null) return state as Record<string, unknown>
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    // Reported below. The text of the file has keys, and the error may quote it.
  }
  throw new UsageError(`${file} cannot be read as JSON. Remove it, and run "npm run up" to write ` +
    'it again, or name another folder with --data.')
}

function parseBaseUrl (address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !['https:', 'http:'].includes(url.protocol)) {
    throw new UsageError(`The address ${withoutUser(address)} is not a URL like ` +
      'https://api.example.com/api/v1.')
  }
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname)) {
    throw new UsageError(`${withoutUser(address)} would send the key unencrypted. Use https://.`)
  }
  const path = url.pathname.replace(/\/+$/, '')
  return `${url.origin}${path === '' ? '/api/v1' : path}`
}

/** Leaves name and password out of an address for messages. */
const withoutUser = (address: string) => address.replace(/^([^/]*\/\/)?.*@/s, '$1')

function readKey (file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    throw new UsageError(`Cannot read --key-file ${file}: ${(cause as Error).message}`, { cause })
  }
}

/** The message leaves the key out: it may be a mistyped but real secret. */
function checkKey (key: string): string {
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new UsageError('The API key is invalid: it contains whitespace or non-ASCII characters.')
}
