import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import Type, { type Static } from 'typebox'
import { Errors } from 'typebox/schema'
import { ConfigError } from '../runtime/platform/config.ts'
import type { ServiceContext } from '../runtime/platform/run.ts'

/** Where the lists of e-mail addresses are; `verify` and `ingest` read the same folder. */
export const listsConfig = {
  LISTS_DIR: Type.Optional(Type.String({
    description: 'Folder with lists of disposable domains, free providers and role words that ' +
      'replace or extend those of the release; npm run lists writes it.',
    examples: ['/etc/verification-jobs/lists'],
  })),
  LISTS_POLL_MS: Type.Integer({
    default: 60_000, minimum: 10, description: 'Poll interval for a renewal of LISTS_DIR.',
  }),
}

/** `replace`: instead of the list of the release. `extend`: its entries and these. */
const release = (modes: readonly ('replace' | 'extend')[]) => Type.Object({
  mode: Type.Enum([...modes]),
  version: Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$' }),
  publishedAt: Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$' }),
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
}, { additionalProperties: false })

const anyMode = release(['replace', 'extend'])

const ManifestSchema = Type.Object({
  renewedAt: Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$' }),
  lists: Type.Object({
    disposable: Type.Optional(anyMode),
    free: Type.Optional(anyMode),
    roles: Type.Optional(anyMode),
    allowed: Type.Optional(release(['extend'])),
  }, { additionalProperties: false, minProperties: 1 }),
}, { additionalProperties: false })

/**
 * `lists.json`: the day on which the folder was written, and the lists that are valid together,
 * each with its release and the digest of its file `<name>.txt`.
 */
export type ListsManifest = Static<typeof ManifestSchema>

export type ListName = keyof ListsManifest['lists']

/** A list of a manifest. */
export type ListRelease = NonNullable<ListsManifest['lists'][ListName]>

export const MANIFEST_FILE = 'lists.json'

const MAX_MANIFEST_BYTES = 65_536
const DAY_MS = 86_400_000

/**
 * The bytes of a regular file, in pieces.
 * @throws RangeError for anything else and for a file with more than `maxBytes`.
 */
export async function * readFileBytes (path: string, maxBytes: number): AsyncGenerator<Buffer> {
  // Without waiting for the writer of a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const status = await file.stat()
    if (!status.isFile()) throw new RangeError(`${path} is not a regular file`)
    if (status.size > maxBytes) {
      throw new RangeError(`${path} has ${status.size} bytes, at most ${maxBytes} are read`)
    }
    yield * file.createReadStream({ autoClose: false, end: maxBytes }) as AsyncIterable<Buffer>
  } finally {
    await file.close()
  }
}

/**
 * A manifest from its text.
 * @throws RangeError with everything that is wrong, without the text itself.
 */
export function parseManifest (text: string, nowMs = Date.now()): ListsManifest {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new RangeError(`${MANIFEST_FILE} is not valid JSON`)
  }
  const [, errors] = Errors(ManifestSchema, value)
  if (errors.length > 0) {
    const faults = errors.map(({ instancePath, message }) => `${instancePath || '/'} ${message}`)
    throw new RangeError(`${MANIFEST_FILE}: ${[...new Set(faults)].join(', ')}`)
  }
  const manifest = value as ListsManifest
  const published = Object.values(manifest.lists).map(({ publishedAt }) => publishedAt)
  for (const day of [manifest.renewedAt, ...published]) {
    const ms = Date.parse(day)
    // A day that is still to come would hide the age of a list.
    if (!(ms <= nowMs + DAY_MS)) {
      throw new RangeError(`${MANIFEST_FILE}: ${day} is not a day of the past`)
    }
  }
  return manifest
}

type Settings = { readonly LISTS_DIR?: string, readonly LISTS_POLL_MS: number }
type Context = Pick<ServiceContext, 'name' | 'log' | 'metrics' | 'onStop'>

/** Reads what a process needs of the lists, all of it from the one folder. */
type Read<T> = (folder: string, manifest: ListsManifest) => Promise<T>

/** The text of the manifest shows whether it has changed. */
type Loaded<T> = {
  readonly text: string
  readonly manifest: ListsManifest
  readonly value: T
}

/**
 * The lists in LISTS_DIR as they were last valid. A renewal is noticed by its manifest, by polling:
 * mounted volumes report no changes. One that is not valid leaves the earlier lists in use.
 */
export class ListsFolder<T> {
  readonly #folder: string
  readonly #read: Read<T>
  readonly #log: Context['log']
  #current: Loaded<T>
  #fault = ''

  private constructor (folder: string, read: Read<T>, log: Context['log'], current: Loaded<T>) {
    this.#folder = folder
    this.#read = read
    this.#log = log
    this.#current = current
  }

  /**
   * Reads the folder, and watches it until the process stops. Undefined without LISTS_DIR.
   * @throws ConfigError if it is not valid.
   */
  static async open<T> (
    { LISTS_DIR: folder, LISTS_POLL_MS: pollMs }: Settings, context: Context, read: Read<T>
  ): Promise<ListsFolder<T> | undefined> {
    let lists: ListsFolder<T> | undefined
    context.metrics.watch('lists_refused', { stage: context.name },
      () => lists === undefined || lists.#fault === '' ? 0 : 1)
    if (folder === undefined) return undefined
    try {
      lists = new ListsFolder(folder, read, context.log, await load(folder, read))
    } catch (error) {
      throw new ConfigError([`LISTS_DIR has no valid lists: ${errorMessage(error)}. Write the ` +
        `folder by npm run lists -- --to ${folder}, or leave LISTS_DIR empty to use the lists ` +
        'of the release.'])
    }
    context.log.info({ lists: lists.manifest }, 'lists of LISTS_DIR read')
    const stopped = new AbortController()
    context.onStop(() => stopped.abort())
    lists.#watch(pollMs, stopped.signal)
    return lists
  }

  /** What was read of the lists in use; it never changes, a renewal has a value of its own. */
  get value (): T {
    return this.#current.value
  }

  get manifest (): ListsManifest {
    return this.#current.manifest
  }

  #watch (pollMs: number, stopped: AbortSignal): void {
    if (stopped.aborted) return
    setTimeout(() => {
      this.#check().finally(() => this.#watch(pollMs, stopped)).catch(() => {})
    }, pollMs).unref()
  }

  /** Takes the lists if they were renewed and are valid. Never rejects. */
  async #check (): Promise<void> {
    try {
      const renewed = await load(this.#folder, this.#read, this.#current)
      if (renewed !== this.#current) {
        this.#current = renewed
        this.#log.info({ lists: renewed.manifest }, 'lists of LISTS_DIR renewed')
      }
      this.#fault = ''
    } catch (error) {
      const fault = errorMessage(error)
      if (fault !== this.#fault) {
        this.#log.error({ fault }, 'renewed lists in LISTS_DIR refused, the earlier ones stay in ' +
          'use: write the folder again by npm run lists')
      }
      this.#fault = fault
    }
  }
}

/** Rejects for a folder that is not valid; the same object if the manifest has not changed. */
async function load<T> (
  folder: string, read: Read<T>, current?: Loaded<T>
): Promise<Loaded<T>> {
  // All files are read from where the manifest is: a link that is replaced meanwhile, as that of a
  // ConfigMap, must not mix two versions.
  const path = await realpath(join(folder, MANIFEST_FILE))
  const pieces: Buffer[] = []
  for await (const piece of readFileBytes(path, MAX_MANIFEST_BYTES)) pieces.push(piece)
  const text = Buffer.concat(pieces).toString()
  if (text === current?.text) return current
  const manifest = parseManifest(text)
  return { text, manifest, value: await read(dirname(path), manifest) }
}

const errorMessage = (error: unknown) => error instanceof Error ? error.message : String(error)
