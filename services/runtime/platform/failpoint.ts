import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { type Failpoint, FAILPOINTS } from './failpoint-list.ts'

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
  let plans = file === undefined ? plansOf(setting) : []
  const refresh = (path: string) => {
    let text = ''
    try {
      text = readFileSync(path, 'utf8').trim()
    } catch {
      // Without a file nothing is planned.
    }
    if (text === loaded) return
    loaded = text
    plans = plansOf(text)
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

function plansOf (text: string): readonly Plan[] {
  return text.split(',').map(part => part.trim()).filter(part => part !== '').map(planOf)
}

function planOf (text: string): Plan {
  const { name = '', blockMs, at, chunk } = PLAN.exec(text)?.groups ?? {}
  if (!FAILPOINTS.includes(name as Failpoint)) {
    throw new Error(`FAILPOINTS: "${text}" is not a valid plan: use <failpoint>:kill@<call> or ` +
      '<failpoint>:block=<ms>@<call>, with a failpoint of ' +
      'services/runtime/platform/failpoint-list.ts')
  }
  return {
    name,
    at: chunk === undefined ? Number(at) : { chunk },
    blockMs: blockMs === undefined ? undefined : Number(blockMs),
  }
}
