import { readFile } from 'node:fs/promises'
import { everyAddress, type FindAddresses } from '../../../lib/addresses.ts'
import { samplesAt } from '../../../lib/exposition.ts'
import { figuresOf, METRIC_NAMES, type Figures, type Snapshot } from './figures.ts'

/** The figures of the pipeline, and how many services did not answer. */
export type Flows = {
  readonly figures: Figures
  readonly targets: number
  readonly silent: number
}

type Options = {
  readonly targets: readonly string[]
  /** JSON file with further targets; '' for none. */
  readonly targetsFile: string
  /** Replaced by tests. */
  readonly fetch?: typeof globalThis.fetch
  readonly find?: FindAddresses
  readonly now?: () => number
}

/** However many look, services are asked no more often. */
const LOOK_EVERY_MS = 2_000
/** Rates are those of this time, so that what moves in steps does not flicker. */
const WINDOW_MS = 20_000
const ANSWER_WITHIN_MS = 3_000

/** Asks the services for their metrics, and remembers enough of them to tell rates. */
export function createFlows (options: Options): () => Promise<Flows> {
  const { fetch, now = () => performance.now() } = options
  // A service that is down is one of the things to be seen.
  const asking = { names: METRIC_NAMES, withinMs: ANSWER_WITHIN_MS, fetch }
  const snapshots: Snapshot[] = []
  let under: Promise<Flows> | undefined
  let latest: { readonly atMs: number, readonly flows: Flows } | undefined

  const look = async (): Promise<Flows> => {
    const atMs = now()
    const named = [...options.targets, ...await targetsIn(options.targetsFile)]
    const targets = await everyAddress(named, options.find)
    const answers = await Promise.all(targets.map(async target =>
      [target, await samplesAt(target, asking)] as const))
    const heard = answers.flatMap(([target, samples]) =>
      samples === undefined ? [] : [[target, samples] as const])
    const after = { atMs, byTarget: new Map(heard) }
    snapshots.push(after)
    while ((snapshots[0]?.atMs ?? atMs) < atMs - WINDOW_MS) snapshots.shift()
    const figures = figuresOf(snapshots[0] ?? after, after)
    const flows = { figures, targets: targets.length, silent: targets.length - heard.length }
    latest = { atMs, flows }
    return flows
  }

  return async () => {
    if (latest !== undefined && now() - latest.atMs < LOOK_EVERY_MS) return latest.flows
    under ??= look().finally(() => { under = undefined })
    return await under
  }
}

/** The addresses in a file; none while it is not there. */
async function targetsIn (file: string): Promise<readonly string[]> {
  if (file === '') return []
  try {
    return JSON.parse(await readFile(file, 'utf8')) as readonly string[]
  } catch {
    return []
  }
}
