import type { NumberedEntry } from '../../services/accounts/access-log/access-log.ts'

/** An entry of the access log: the download of a job's results by a key. */
export function accessEntry (more: Partial<NumberedEntry> = {}): NumberedEntry {
  const { seq = 1 } = more
  return {
    seq,
    entryId: `00000000-0000-4000-8000-${String(seq).padStart(12, '0')}`,
    at: 1_786_442_402_500 + seq,
    organization: 'org_1',
    actorKind: 'key',
    actor: 'key_1',
    action: 'results.downloaded',
    target: 'job_1',
    address: '192.0.2.7',
    outcome: 'done',
    details: '',
    ...more,
  }
}
