import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import type { StageName } from '../topology.ts'

/** The engine's steps, by the names they have in metrics too. */
const STEPS = [
  'decode', 'open', 'decide', 'seal', 'produce', 'dead', 'after', 'commit',
] as const

/** The stages that run on the engine. */
const ENGINE_STAGES = [
  'normalize', 'lookup', 'verify', 'settle', 'deliver', 'publish', 'ledger',
] as const satisfies readonly StageName[]

/** Points with a call of their own, and where each stands: the effect before it has happened. */
export const PLACES = {
  'submit.begun': 'before the idempotency key is claimed',
  'submit.claimed': 'the key is claimed, nothing is sent',
  'submit.keyed': 'the data key is stored, no chunk is sent',
  'submit.sealed': 'some chunks are on their way, not all',
  'submit.sent': 'all chunks are acknowledged, the outcome is not known',
  'submit.decided': 'the outcome is known, nobody was told',
  'ingest.answering': 'the answer is remembered and not sent',
  'feed.asking': 'contacts are collected, nothing was asked for them',
  'feed.taken': 'contacts are rows of an accepted request, offsets not committed',
  'feed.committing': 'before offsets of contacts are committed',
  'lookup.accepted': 'money is reserved, nothing was produced',
  'lookup.announced': 'the request may be answered, the outbox still has the entry',
  'verify.begun': 'a part is begun, nothing was checked',
  'verify.offering': 'verdicts that cost nothing are made and not in the cache',
  'verify.offered': 'what stands of them is in the cache, nothing was produced',
  'verify.claimed': 'the cache was asked and leases are held, nobody was asked',
  'verify.checked': 'verdicts are bought and not in the cache',
  'verify.kept': 'verdicts are in the cache, nothing was produced',
  'settle.stored': 'blocks are in ClickHouse and not counted',
  'settle.tallied': 'blocks are counted, what ended is not stored',
  'finish.archived': 'the final record is stored, its event not produced',
  'deliver.put': 'a delivery is due, its event not committed',
  'deliver.claimed': 'an attempt is claimed and not made',
  'deliver.sent': 'the receiver has it, nothing was noted',
  'deliver.noted': 'the attempt is noted, the history does not have it',
  'deliver.shipped': 'the history has it, the note is not forgotten',
  'ledger.appended': 'the copy has the entries, their offsets are not committed',
  'sweep.shipping': 'left-over entries are found and not shipped',
  'sweep.shipped': 'left-over entries are shipped and not removed',
  'publish.sending': 'results are read and not sent',
  'publish.sent': 'some results are acknowledged, offsets not committed',
} as const

type Step = typeof STEPS[number]

/** A named place in a service where the process can be made to die or to stand still. */
export type Failpoint = keyof typeof PLACES | `${StageName}.${Step}`

/** Every failpoint there is: one before each step of each stage on the engine, and others. */
export const FAILPOINTS: readonly Failpoint[] = [
  ...ENGINE_STAGES.flatMap(stage => STEPS.map(step => `${stage}.${step}` as const)),
  ...Object.keys(PLACES) as (keyof typeof PLACES)[],
]

/** What happens at a failpoint; replaced by tests of this file. */
export type Acts = {
  readonly kill: () => void
  readonly block: (ms: number) => void
}

type Plan = {
  readonly name: string
  readonly at: number
  /** Blocks the event loop for so long; kills when it is undefined. */
  readonly blockMs: number | undefined
}

const acts: Acts = {
  kill: () => { process.kill(process.pid, 'SIGKILL') },
  block: ms => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms) },
}

const { FAILPOINTS: asked, ALLOW_FAILPOINTS: allowed } = process.env
const check = create(permitted(asked, allowed))

/**
 * What FAILPOINTS asks for, where ALLOW_FAILPOINTS is `true`. A process that finds the one without
 * the other does not start: whoever can set a variable must not stop a production service by it.
 * @throws Error that says what to do.
 */
export function permitted (
  setting: string | undefined, allow: string | undefined
): string | undefined {
  if (setting === undefined || setting === '' || allow === 'true') return setting
  throw new Error('FAILPOINTS kills processes and is for development alone. Leave it out, or set ' +
    'ALLOW_FAILPOINTS=true where nothing is lost by it.')
}

/** Marks a place where a process may die. Does nothing unless FAILPOINTS is set. */
export function failpoint (name: Failpoint): void {
  check?.(name)
}

/**
 * What FAILPOINTS asks for: plans such as `verify.kept:kill@3` (SIGKILL at the third passing) or
 * `settle.decide:block=8000@1` (stand still for 8 s), joined by commas; or `@<file>` with such
 * plans, which is read at every passing, so that a running process can be armed. A plan is done
 * once; what a file asked for is then written to `<file>.fired`, a line of JSON each.
 * @throws when a plan can't be read, or names no failpoint.
 */
export function create (
  setting: string | undefined, does: Acts = acts
): ((name: Failpoint) => void) | undefined {
  if (setting === undefined || setting === '') return undefined
  const file = setting.startsWith('@') ? setting.slice(1) : undefined
  const passed = new Map<string, number>()
  let known = ''
  let plans = file === undefined ? plansOf(setting) : []
  const refresh = (path: string) => {
    const text = textOf(path)
    if (text === known) return
    known = text
    plans = plansOf(text)
    passed.clear()
  }
  return name => {
    if (file !== undefined) refresh(file)
    const count = (passed.get(name) ?? 0) + 1
    passed.set(name, count)
    const plan = plans.find(one => one.name === name && one.at === count)
    if (plan === undefined) return
    if (file !== undefined) report(file, name)
    if (plan.blockMs === undefined) does.kill()
    else does.block(plan.blockMs)
  }
}

/** The file is emptied first: a process that starts again must not die of the same plan. */
function report (file: string, name: string): void {
  writeFileSync(file, '')
  const line = JSON.stringify({ name, pid: process.pid, atMs: Date.now() })
  appendFileSync(`${file}.fired`, `${line}\n`)
}

function textOf (file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    return ''
  }
}

function plansOf (text: string): readonly Plan[] {
  return text.split(',').map(part => part.trim()).filter(part => part !== '').map(planOf)
}

const PLAN = /^(?<name>[a-z.]+):(?:kill|block=(?<blockMs>\d+))@(?<at>\d+)$/

function planOf (text: string): Plan {
  const { name = '', blockMs, at } = PLAN.exec(text)?.groups ?? {}
  if (!FAILPOINTS.includes(name as Failpoint)) {
    throw new Error(`FAILPOINTS: "${text}" is no plan; write <failpoint>:kill@<passing> or ` +
      '<failpoint>:block=<ms>@<passing>, with a failpoint of services/platform/failpoint.ts')
  }
  return { name, at: Number(at), blockMs: blockMs === undefined ? undefined : Number(blockMs) }
}
