import { randomBytes } from 'node:crypto'
import { CommandError } from './terminal.ts'
import type { ContactToSend, FeedConnection } from './feed-connection.ts'
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
  const tally = createTally({ maxUnanswered: MAX_UNANSWERED, silenceMs: options.silenceMs })
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
  }, tally.fail)
  const report = () => options.onProgress?.({ ...tally.counts(), fileRead: source.read() })
  for await (const batch of batchContacts(source.contacts, options, run)) {
    await tally.untilBelowLimit()
    tally.expect(batch)
    await feed.send(batch)
    report()
  }
  await feed.end()
  try {
    await tally.untilComplete()
  } finally {
    await output.finish()
  }
  return { ...tally.counts(), repeated: tally.repeated(), byStatus }
}

/** Rows without a reference get their number, with a prefix that is unique to this run. */
function chooseReference ({ reference }: FileContact, row: number, run: string): string {
  if (reference === undefined) return `${run}:${row}`
  if (reference === '') throw emptyReference(row)
  return reference
}

async function * batchContacts (
  contacts: AsyncIterable<FileContact>,
  { service, countryCode, forceFresh }: SendOptions, run: string
): AsyncIterable<readonly ContactToSend[]> {
  let batch: ContactToSend[] = []
  let bytes = 0
  let row = 0
  for await (const contact of contacts) {
    row++
    const reference = chooseReference(contact, row, run)
    const { input } = contact
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

type WithReference = { readonly reference: string }
type Answer = WithReference & { readonly resultId: string }
type Counts = { readonly sent: number, readonly results: number }

type Tally = {
  /** Registers contacts before they are sent. */
  readonly expect: (contacts: readonly WithReference[]) => void
  /** Returns false for a duplicate result and for one of another sender. */
  readonly answer: (result: Answer) => boolean
  readonly counts: () => Counts
  readonly repeated: () => number
  /** Resolves when at most `maxUnanswered` contacts have no result. */
  readonly untilBelowLimit: () => Promise<void>
  /** Resolves when every contact has its result. */
  readonly untilComplete: () => Promise<void>
  /** Rejects all waits. */
  readonly fail: (error: unknown) => void
}

/**
 * Matches results to contacts by reference. A reference that was sent several times expects as many
 * results with different ids.
 */
export function createTally (
  { maxUnanswered, silenceMs }: { readonly maxUnanswered: number, readonly silenceMs: number }
): Tally {
  const expected = createExpectations()
  const counts = { sent: 0, results: 0, repeated: 0 }
  const waits = createWaits(silenceMs, () => counts)
  return {
    expect: contacts => {
      for (const { reference } of contacts) expected.add(reference)
      counts.sent += contacts.length
    },
    answer: result => {
      const isNew = expected.take(result)
      counts[isNew ? 'results' : 'repeated']++
      waits.settle()
      return isNew
    },
    counts: () => ({ sent: counts.sent, results: counts.results }),
    repeated: () => counts.repeated,
    untilBelowLimit: () => waits.until(maxUnanswered),
    untilComplete: () => waits.until(0),
    fail: waits.fail,
  }
}

/** The missing results by reference. Keeps result ids only for references with several results. */
function createExpectations () {
  const missing = new Map<string, number>()
  const seenIds = new Map<string, Set<string>>()
  return {
    add: (reference: string) => { missing.set(reference, (missing.get(reference) ?? 0) + 1) },
    take: ({ reference, resultId }: Answer): boolean => {
      const left = missing.get(reference) ?? 0
      const ids = seenIds.get(reference)
      if (left === 0 || ids?.has(resultId) === true) return false
      if (left > 1 || ids !== undefined) seenIds.set(reference, (ids ?? new Set()).add(resultId))
      if (left > 1) missing.set(reference, left - 1)
      else missing.delete(reference)
      return true
    },
  }
}

type Wait = {
  readonly maxMissing: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Waits until few results are missing. All waits fail after `silenceMs` without a result. */
function createWaits (silenceMs: number, counts: () => Counts) {
  const waits = new Set<Wait>()
  let failure: unknown
  const missing = () => counts().sent - counts().results
  const settle = () => {
    for (const wait of waits) {
      if (failure === undefined && missing() > wait.maxMissing) continue
      waits.delete(wait)
      if (failure === undefined) wait.resolve()
      else wait.reject(failure)
    }
  }
  const fail = (error: unknown) => {
    failure ??= error
    settle()
  }
  const until = async (maxMissing: number) => {
    let before = counts().results
    const timer = setInterval(() => {
      if (counts().results === before) fail(silenceError(missing(), silenceMs))
      before = counts().results
    }, silenceMs)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waits.add({ maxMissing, resolve, reject })
    settle()
    await promise.finally(() => clearInterval(timer))
  }
  return { settle, fail, until }
}

function silenceError (missing: number, silenceMs: number): CommandError {
  return new CommandError(`No result arrived for ${Math.round(silenceMs / 1_000)} s; ${missing} ` +
    'results are missing. A feed waits while its organization has too little balance or ten ' +
    'running jobs: check "npm run admin -- balance". The contacts are stored, and their ' +
    'results will follow, unless the partner was revoked: check "npm run admin -- partner ' +
    'list".')
}
