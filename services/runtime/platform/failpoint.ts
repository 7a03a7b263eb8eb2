import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
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

/**
 * All failpoints: one before each step of each stage on the engine, and the named ones.
 * @public Fault tests kill processes at each.
 */
export const FAILPOINTS: readonly Failpoint[] = [
  ...ENGINE_STAGES.flatMap(stage => ENGINE_STEPS.map(step => `${stage}.${step}` as const)),
  ...Object.keys(NAMED_FAILPOINTS) as (keyof typeof NAMED_FAILPOINTS)[],
]

type Plan = {
  readonly name: string
  /** Triggers at this call of the failpoint, counted from 1; or at each with this chunk. */
  readonly at: number | { readonly chunk: string }
  /** Blocks the event loop for this time; undefined kills the process. */
  readonly blockMs: number | undefined
}

const PLAN = /^(?<name>[a-z.]+):(?:kill|block=(?<blockMs>\d+))@(?:(?<at>\d+)|chunk=(?<chunk>\d+))$/

const { FAILPOINTS: configured = '', ALLOW_FAILPOINTS: allowed } = process.env
// One wrong variable must not kill a production service.
if (configured !== '' && allowed !== 'true') {
  throw new Error('FAILPOINTS is set without ALLOW_FAILPOINTS=true. It kills processes: unset ' +
    'FAILPOINTS, or set ALLOW_FAILPOINTS=true in development.')
}
const check = configured === '' ? undefined : createCheck(configured)

/** The messages at a failpoint. */
type Messages = readonly { readonly headers: Readonly<Record<string, string>> }[]

/** Marks a point where tests can kill the process. Does nothing unless FAILPOINTS is set. */
export function failpoint (name: Failpoint, messages: Messages = []): void {
  check?.(name, messages)
}

/**
 * Creates the function that triggers failpoints from the value of FAILPOINTS: plans such as
 * `verify.kept:kill@3` (SIGKILL at the third call) or `settle.decide:block=8000@1` (block for 8 s),
 * joined by commas; or `@<file>` with such plans, which is read at every call, so that a test can
 * arm a running process. A plan triggers once, and one of a file is then logged in
 * `<file>.fired`, one line of JSON each. A plan such as `verify.decode:kill@chunk=1` is for a
 * message that always kills its process: it triggers whenever a message of this chunk is there.
 * @throws Error for a plan with invalid syntax or an unknown failpoint.
 */
function createCheck (setting: string): (name: Failpoint, messages?: Messages) => void {
  const file = setting.startsWith('@') ? setting.slice(1) : undefined
  const calls = new Map<string, number>()
  let loaded = ''
  let plans = file === undefined ? parsePlans(setting) : []
  const refresh = (path: string) => {
    let text = ''
    try {
      text = readFileSync(path, 'utf8').trim()
    } catch {
      // Without a file nothing is planned.
    }
    if (text === loaded) return
    loaded = text
    plans = parsePlans(text)
    calls.clear()
  }
  return (name, messages = []) => {
    if (file !== undefined) refresh(file)
    const count = (calls.get(name) ?? 0) + 1
    calls.set(name, count)
    const plan = plans.find(({ name: planned, at }) => planned === name && (typeof at === 'number'
      ? at === count
      : messages.some(({ headers }) => headers['chunk'] === at.chunk)))
    if (plan === undefined) return
    if (file !== undefined && typeof plan.at === 'number') {
      // Emptied first, so that the plan does not kill the restarted process too.
      writeFileSync(file, '')
      const fired = JSON.stringify({ name, pid: process.pid, atMs: Date.now() })
      appendFileSync(`${file}.fired`, `${fired}\n`)
    }
    if (plan.blockMs === undefined) process.kill(process.pid, 'SIGKILL')
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, plan.blockMs)
  }
}

function parsePlans (text: string): readonly Plan[] {
  return text.split(',').map(part => part.trim()).filter(part => part !== '').map(parsePlan)
}

function parsePlan (text: string): Plan {
  const { name = '', blockMs, at, chunk } = PLAN.exec(text)?.groups ?? {}
  if (!FAILPOINTS.includes(name as Failpoint)) {
    throw new Error(`FAILPOINTS: "${text}" is not a valid plan: use <failpoint>:kill@<call> or ` +
      '<failpoint>:block=<ms>@<call>, with a failpoint of ' +
      'services/runtime/platform/failpoint.ts')
  }
  return {
    name,
    at: chunk === undefined ? Number(at) : { chunk },
    blockMs: blockMs === undefined ? undefined : Number(blockMs),
  }
}
