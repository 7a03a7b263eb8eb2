import { randomBytes } from 'node:crypto'
import type { ContactFile, FileContact } from './feed-file.ts'
import type { ResultFile } from './feed-output.ts'
import {
  FeedError, type ContactResult, type ContactToSend, type FeedConnection,
} from './feed-topics.ts'
import { createTally } from './feed-tally.ts'

export type SendOptions = {
  readonly service: string
  /** For contacts that name none themselves. */
  readonly countryCode: string
  readonly forceFresh: boolean
  /** Without any result for so long, while some are missing, it is given up. */
  readonly silenceMs: number
  readonly onProgress?: (progress: Progress) => void
}

export type Progress = {
  readonly sent: number
  readonly results: number
  /** The part of the file that has been sent, from 0 to 1. */
  readonly fileRead: number
}

export type Summary = {
  readonly sent: number
  readonly results: number
  /** Results that came again and were left out. */
  readonly repeated: number
  readonly byStatus: Readonly<Record<string, number>>
}

export type SendParts = {
  readonly feed: FeedConnection
  readonly source: ContactFile
  readonly output: ResultFile
}

/** Contacts sent and not yet answered; bounds memory, and what waits for the service. */
const MOST_UNANSWERED = 300_000
const BATCH_CONTACTS = 2_000
/** Four partitions or one: within what brokers take at once. */
const BATCH_BYTES = 400 * 1_024

/**
 * Streams a file of contacts in and collects one result each. Rejects with FeedError when results
 * stay away, having written those that came.
 */
export async function sendContacts (
  { feed, source, output }: SendParts, options: SendOptions
): Promise<Summary> {
  const tally = createTally({ mostUnanswered: MOST_UNANSWERED, silenceMs: options.silenceMs })
  const run = randomBytes(4).toString('hex')
  const byStatus: Record<string, number> = {}
  await feed.listen(result => {
    if (!tally.answer(result)) return
    const status = result.cells['status'] ?? ''
    byStatus[status] = (byStatus[status] ?? 0) + 1
    output.write({ ...result, reference: shownReference(result, run) })
    report()
  }, tally.fail)
  const report = () => options.onProgress?.({ ...tally.counts(), fileRead: source.read() })
  for await (const batch of batchesOf(source.contacts, options, run)) {
    await tally.room()
    tally.expect(batch)
    await feed.send(batch)
    report()
  }
  await feed.end()
  try {
    await tally.complete()
  } finally {
    await output.finish()
  }
  return { ...tally.counts(), repeated: tally.repeated(), byStatus }
}

/** Rows without a reference are numbered, under a name that no other run has. */
function referenceOf ({ reference }: FileContact, row: number, run: string): string {
  if (reference === undefined) return `${run}:${row}`
  if (reference === '') throw new FeedError(`Row ${row} of the file has no reference.`)
  return reference
}

function shownReference ({ reference }: ContactResult, run: string): string {
  return reference.startsWith(`${run}:`) ? reference.slice(run.length + 1) : reference
}

async function * batchesOf (
  contacts: AsyncIterable<FileContact>,
  { service, countryCode, forceFresh }: SendOptions, run: string
): AsyncIterable<readonly ContactToSend[]> {
  let batch: ContactToSend[] = []
  let bytes = 0
  let row = 0
  for await (const contact of contacts) {
    row++
    const reference = referenceOf(contact, row, run)
    const own = { countryCode: contact.countryCode ?? countryCode, input: contact.input }
    batch.push({ reference, service, forceFresh, ...own })
    bytes += contact.input.length + reference.length + 100
    if (batch.length < BATCH_CONTACTS && bytes < BATCH_BYTES) continue
    yield batch
    batch = []
    bytes = 0
  }
  if (batch.length > 0) yield batch
}
