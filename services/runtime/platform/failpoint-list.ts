import { ENGINE_STAGES, ENGINE_STEPS, type EngineStep, type StageName } from '../../topology.ts'

/** Failpoints outside the engine's steps, with the state of the system at each of them. */
const NAMED_FAILPOINTS = {
  'submit.begun': 'before the idempotency key is claimed',
  'submit.claimed': 'idempotency key and data key are stored, nothing is sent',
  'submit.sealed': 'some chunks are sent, not all',
  'submit.sent': 'all chunks are acknowledged, the outcome is not known',
  'submit.decided': 'the outcome is known, no response is sent',
  'ingest.answering': 'the response is stored and not sent',
  'verification.accepted': 'the job is accepted, its rows are not awaited yet',
  'verification.answering': 'the job has ended and its rows are read, no response is sent',
  'feed.asking': 'contacts are collected, no job is submitted',
  'feed.taken': 'contacts are rows of an accepted job, offsets are not committed',
  'feed.committing': 'before offsets of contacts are committed',
  'lookup.accepted': 'money is reserved, nothing is produced',
  'lookup.announced': 'the job is announced, the offsets of its chunks are not committed',
  'verify.begun': 'a verification batch is started, nothing is checked',
  'verify.offering': 'free verdicts are computed and not in the cache',
  'verify.offered': 'free verdicts are in the cache, nothing is produced',
  'verify.claimed': 'the cache is read and leases are held, no provider is called',
  'verify.intended': 'the intention to submit rows to a vendor is recorded, nothing is submitted',
  'verify.submitted': 'a vendor has accepted rows, its task is not recorded',
  'verify.recorded': 'the task of a vendor is recorded, nothing is produced',
  'verify.checked': 'providers have returned verdicts, which are not in the cache',
  'verify.kept': 'verdicts are in the cache, nothing is produced',
  'settle.tallied': 'blocks are tallied, they and the final records of ended jobs are not stored',
  'settle.stored': 'blocks and final records are in ClickHouse, nothing is produced',
  'finish.archived': 'the final record is stored, its event is not produced',
  'deliver.put': 'a delivery is due, the offset of its event is not committed',
  'deliver.claimed': 'an attempt is claimed and not made',
  'deliver.sent': 'the receiver has the event, the attempt is not recorded',
  'deliver.noted': 'the attempt is recorded in Redis, the history does not have it',
  'deliver.shipped': 'the history has the attempt, its record is still in Redis',
  'ledger.appended': 'the copy has the entries, their offsets are not committed',
  'erase.queued': 'an erasure is queued, the job is not marked',
  'erase.recorded': 'an erasure is in the topic of keys, the key is still in Redis',
  'erasing.destroyed': 'keys of erased jobs are deleted from Redis, its file still has them',
  'erasing.removed': 'copies of keys are deleted, the erasures are still queued',
  'access.shipped': 'entries of the access log are shipped and not removed from their outbox',
  'lists.shipped': 'changes of contact lists are in the topic and not removed from their outbox',
  'outbox.shipping': 'outbox entries that no stage ships are found and not shipped',
  'outbox.shipped': 'outbox entries that no stage ships are shipped and not removed',
  'publish.sending': 'results are read and not sent',
  'publish.sent': 'some results are acknowledged, offsets are not committed',
} as const

/** A point in the code where a test can kill or block the process. */
export type Failpoint = keyof typeof NAMED_FAILPOINTS | `${StageName}.${EngineStep}`

/** All failpoints: one before each step of each stage on the engine, and the named ones. */
export const FAILPOINTS: readonly Failpoint[] = [
  ...ENGINE_STAGES.flatMap(stage => ENGINE_STEPS.map(step => `${stage}.${step}` as const)),
  ...Object.keys(NAMED_FAILPOINTS) as (keyof typeof NAMED_FAILPOINTS)[],
]
