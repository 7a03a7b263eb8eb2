import { randomBytes } from 'node:crypto'
import { CommandError } from './terminal.ts'
import type { ContactResult, FeedConnection } from './feed-connection.ts'
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
  /** Sends the references of the file, for others who read the results, instead of its own. */
  readonly sendsReferences?: boolean
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
 * CommandError when results are missing after `silenceMs`. Whatever fails, the results so far are
 * written.
 */
export async function sendContacts (
  { feed, source, output }: SendDeps, options: SendOptions
): Promise<Summary> {
  const tally = new Tally(options)
  const byStatus: Record<string, number> = {}
  await feed.listen(result => {
    const reference = tally.answer(result)
    if (reference === undefined) return
    const status = textIn(result.cells, 'status')
    byStatus[status] = (byStatus[status] ?? 0) + 1
    output.write({ ...result, reference })
    report()
  }, error => { tally.fail(error) })
  const report = () => options.onProgress?.({ ...tally.counts, fileRead: source.read() })
  const { service, countryCode, forceFresh } = options
  try {
    for await (const batch of batchContacts(source.contacts)) {
      await tally.untilMissing(MAX_UNANSWERED)
      await feed.send(batch.map(contact => ({
        reference: tally.expect(contact.reference),
        service,
        forceFresh,
        countryCode: contact.countryCode ?? countryCode,
        input: contact.input,
      })))
      report()
    }
    await feed.end()
    await tally.untilMissing(0)
  } catch (error) {
    // They were paid. Without any, the file of an earlier run stays.
    if (tally.counts.results > 0) await output.finish()
    throw error
  }
  await output.finish()
  return { ...tally.counts, repeated: tally.repeated, byStatus }
}

async function * batchContacts (
  contacts: AsyncIterable<FileContact>
): AsyncIterable<readonly FileContact[]> {
  let batch: FileContact[] = []
  let bytes = 0
  let row = 0
  for await (const contact of contacts) {
    row++
    if (contact.reference === '') throw emptyReference(row)
    batch.push(contact)
    bytes += contact.input.length + (contact.reference?.length ?? 0) + 100
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
 * Matches results to contacts. Each contact is sent with a reference that no other one has, in this
 * run or another: the references of a file may repeat, and results of an earlier run, or the same
 * result once more, may arrive at any time. References that are sent as they are may repeat too:
 * their results are only counted.
 */
class Tally {
  readonly #silenceMs: number
  readonly #sendsReferences: boolean
  readonly #run = randomBytes(4).toString('hex')
  /** Contacts without a result, and their reference in the file, or row, by that which was sent. */
  readonly #missing = new Map<string, { readonly reference: string, readonly contacts: number }>()
  #wait: Wait | undefined
  #sent = 0
  #results = 0
  #repeated = 0
  #failure: unknown

  /** A wait fails after `silenceMs` without a result. */
  constructor ({ silenceMs, sendsReferences = false }: SendOptions) {
    this.#silenceMs = silenceMs
    this.#sendsReferences = sendsReferences
  }

  get counts (): { readonly sent: number, readonly results: number } {
    return { sent: this.#sent, results: this.#results }
  }

  get repeated (): number {
    return this.#repeated
  }

  /** Registers the contact of the next row before it is sent; returns the reference to send. */
  expect (reference: string | undefined): string {
    const row = String(++this.#sent)
    const sent = this.#sendsReferences && reference !== undefined
      ? reference
      : `${this.#run}:${row}`
    const contacts = (this.#missing.get(sent)?.contacts ?? 0) + 1
    this.#missing.set(sent, { reference: reference ?? row, contacts })
    return sent
  }

  /**
   * The reference of the contact in its file, or its row; undefined for a duplicate result and for
   * one of another sender.
   */
  answer (result: ContactResult): string | undefined {
    const missing = this.#missing.get(result.reference)
    if (missing === undefined) {
      this.#repeated++
      return undefined
    }
    const { reference, contacts } = missing
    if (contacts === 1) this.#missing.delete(result.reference)
    else this.#missing.set(result.reference, { reference, contacts: contacts - 1 })
    this.#results++
    this.#settle()
    return reference
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
