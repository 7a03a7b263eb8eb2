import { randomBytes } from 'node:crypto'
import { CommandError } from './terminal.ts'
import type { ContactResult, ContactToSend, FeedConnection } from './feed-connection.ts'
import {
  type ContactFile, emptyReference, type FileContact, type ResultFile, textIn,
} from './feed-files.ts'

export type SendOptions = {
  readonly service: string
  /** The country of contacts without one of their own. */
  readonly countryCode: string
  readonly forceFresh: boolean
  /** Fails after this time without any result while results are missing. */
  readonly silenceMs: number
  readonly onProgress?: (progress: Progress) => void
}

export type Progress = {
  readonly sent: number
  readonly results: number
  /** The share of the file that was sent, from 0 to 1. */
  readonly fileRead: number
}

export type Summary = {
  readonly sent: number
  readonly results: number
  /** Ignored results: duplicates and results of other senders. */
  readonly repeated: number
  readonly byStatus: Readonly<Record<string, number>>
}

type SendDeps = {
  readonly feed: FeedConnection
  readonly source: ContactFile
  readonly output: ResultFile
}

/** Bounds memory, and the backlog of the service. */
const MAX_UNANSWERED = 300_000
const BATCH_CONTACTS = 2_000
/** Four partitions or one: below the maximum message size of a broker. */
const BATCH_BYTES = 400 * 1_024

/**
 * Streams the contacts of a file into the feed and writes one result for each. Rejects with
 * CommandError when results are missing after `silenceMs`; the results so far are written.
 */
export async function sendContacts (
  { feed, source, output }: SendDeps, options: SendOptions
): Promise<Summary> {
  const tally = new Tally(options.silenceMs)
  const run = randomBytes(4).toString('hex')
  const byStatus: Record<string, number> = {}
  await feed.listen(result => {
    if (!tally.answer(result)) return
    const status = textIn(result.cells, 'status')
    byStatus[status] = (byStatus[status] ?? 0) + 1
    const { reference } = result
    output.write({
      ...result,
      reference: reference.startsWith(`${run}:`) ? reference.slice(run.length + 1) : reference,
    })
    report()
  }, error => { tally.fail(error) })
  const report = () => options.onProgress?.({ ...tally.counts, fileRead: source.read() })
  for await (const batch of batchContacts(source.contacts, options, run)) {
    await tally.untilMissing(MAX_UNANSWERED)
    tally.expect(batch)
    await feed.send(batch)
    report()
  }
  await feed.end()
  try {
    await tally.untilMissing(0)
  } finally {
    await output.finish()
  }
  return { ...tally.counts, repeated: tally.repeated, byStatus }
}

/** Rows without a reference get their number, with a prefix that is unique to this run. */
async function * batchContacts (
  contacts: AsyncIterable<FileContact>,
  { service, countryCode, forceFresh }: SendOptions, run: string
): AsyncIterable<readonly ContactToSend[]> {
  let batch: ContactToSend[] = []
  let bytes = 0
  let row = 0
  for await (const contact of contacts) {
    row++
    const { input, reference = `${run}:${row}` } = contact
    if (reference === '') throw emptyReference(row)
    batch.push({
      reference, service, forceFresh, countryCode: contact.countryCode ?? countryCode, input,
    })
    bytes += input.length + reference.length + 100
    if (batch.length < BATCH_CONTACTS && bytes < BATCH_BYTES) continue
    yield batch
    batch = []
    bytes = 0
  }
  if (batch.length > 0) yield batch
}

type Wait = {
  readonly maxMissing: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Matches results to contacts by reference. A reference that was sent several times expects as many
 * results with different ids.
 */
class Tally {
  readonly #silenceMs: number
  /** The missing results by reference. */
  readonly #missing = new Map<string, number>()
  /** The ids of results, only for references with several results. */
  readonly #seenIds = new Map<string, Set<string>>()
  #wait: Wait | undefined
  #sent = 0
  #results = 0
  #repeated = 0
  #failure: unknown

  /** A wait fails after `silenceMs` without a result. */
  constructor (silenceMs: number) {
    this.#silenceMs = silenceMs
  }

  get counts (): { readonly sent: number, readonly results: number } {
    return { sent: this.#sent, results: this.#results }
  }

  get repeated (): number {
    return this.#repeated
  }

  /** Registers contacts before they are sent. */
  expect (contacts: readonly ContactToSend[]): void {
    for (const { reference } of contacts) {
      this.#missing.set(reference, (this.#missing.get(reference) ?? 0) + 1)
    }
    this.#sent += contacts.length
  }

  /** Returns false for a duplicate result and for one of another sender. */
  answer ({ reference, resultId }: ContactResult): boolean {
    const left = this.#missing.get(reference) ?? 0
    const ids = this.#seenIds.get(reference)
    if (left === 0 || ids?.has(resultId) === true) {
      this.#repeated++
      return false
    }
    if (left > 1 || ids !== undefined) {
      this.#seenIds.set(reference, (ids ?? new Set()).add(resultId))
    }
    if (left > 1) this.#missing.set(reference, left - 1)
    else this.#missing.delete(reference)
    this.#results++
    this.#settle()
    return true
  }

  /** Resolves when at most so many contacts have no result. */
  async untilMissing (maxMissing: number): Promise<void> {
    let before = this.#results
    const timer = setInterval(() => {
      if (this.#results === before) {
        this.fail(new CommandError(`No result arrived for ${Math.round(this.#silenceMs / 1_000)} ` +
          `s; ${this.#sent - this.#results} results are missing. A feed waits while its ` +
          'organization has too little balance or ten running jobs: check "npm run admin -- ' +
          'balance". The contacts are stored, and their results will follow, unless the partner ' +
          'was revoked: check "npm run admin -- partner list".'))
      }
      before = this.#results
    }, this.#silenceMs)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#wait = { maxMissing, resolve, reject }
    this.#settle()
    await promise.finally(() => clearInterval(timer))
  }

  /** Rejects the wait, and later ones. */
  fail (error: unknown): void {
    this.#failure ??= error
    this.#settle()
  }

  #settle (): void {
    if (this.#wait === undefined) return
    const { maxMissing, resolve, reject } = this.#wait
    if (this.#failure !== undefined) reject(this.#failure)
    else if (this.#sent - this.#results <= maxMissing) resolve()
  }
}
