import type { Admin } from 'kafkajs'
import type { AccessCopy } from '../accounts/access-log/copy.ts'
import type { NumberedEntry } from '../accounts/access-log/entry.ts'
import { CommandFailure } from '../runtime/platform/run-command.ts'
import { topicName } from '../runtime/platform/topics.ts'

export type AccessRestoreDeps = {
  readonly admin: Pick<Admin, 'fetchTopicOffsets'>
  readonly accessCopy: Pick<AccessCopy, 'pages'>
  /** Resolves when the brokers have acknowledged all entries, in this order. */
  readonly sendAccess: (entries: readonly NumberedEntry[]) => Promise<void>
}

const TOPIC = topicName('access.log')

/**
 * Writes a new topic of the access log from its copy in ClickHouse, so that each entry gets its
 * number again. Returns the number of entries; 0 if the topic is not new.
 * @throws UsageError if the copy has a gap, before anything is written, or if the topic got other
 * messages meanwhile.
 */
export async function restoreAccessLog (
  { admin, accessCopy, sendAccess }: AccessRestoreDeps
): Promise<number> {
  const written = async () => (await admin.fetchTopicOffsets(TOPIC))
    .reduce((sum, { high }) => sum + Number(high), 0)
  if (await written() > 0) return 0
  let last = 0
  for await (const { entries } of accessCopy.pages(0)) {
    for (const { seq } of entries) {
      if (seq !== last + 1) throw gapAfter(last, seq)
      last = seq
    }
  }
  for await (const { entries } of accessCopy.pages(0)) await sendAccess(entries)
  const end = await written()
  if (end === last) return last
  throw new CommandFailure(`The topic ${TOPIC} has ${end} messages, but the copy has ${last} ` +
    'entries. Delete the topic, create it again with "npm run provision", and restart the restore.')
}

function gapAfter (last: number, next: number): CommandFailure {
  const problem = next === last
    ? `two entries with the number ${last}`
    : `no entry ${last + 1} behind entry ${last}`
  return new CommandFailure(`The copy of the access log in ClickHouse has ${problem}, so later ` +
    `entries would get other numbers. Nothing was written to ${TOPIC}.`)
}
