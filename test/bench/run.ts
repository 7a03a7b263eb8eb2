import { measure } from './measure.ts'
import type { BenchOptions, Part } from './options.ts'
import { measureCrowd } from './parts/crowd.ts'
import { measureEmail } from './parts/email.ts'
import { measureFairness } from './parts/fairness.ts'
import { measureGrowth } from './parts/growth.ts'
import { measurePeers } from './parts/peers.ts'
import { measureRecovery } from './parts/recovery.ts'
import { measureScaling } from './parts/scaling.ts'
import { measureSoak } from './parts/soak.ts'
import { measureWebhooks } from './parts/webhooks.ts'
import type { Report } from './report.ts'
import { CUSTOMER_LIMITS, withServices, type BenchStack } from './services.ts'
import type { Setting } from './setting.ts'

type Asked = Pick<BenchOptions, 'rows' | 'scale' | 'parts' | 'soakMinutes' | 'recoveryEntries'>

export type RunOptions = Asked &
  Pick<Setting, 'bareLoopMs' | 'show'> & {
    /** More environment for every service. */
    readonly overrides: Readonly<Record<string, string>>
  }

type Work = { readonly part: Part, readonly work: () => Promise<unknown> }

/**
 * The figures of every run, then the parts that were asked for. The soak has services of its own,
 * that begin with the memory of a start; the hops are last, as their rows lead nowhere.
 */
export async function measureReport (stack: BenchStack, options: RunOptions): Promise<Report> {
  const { rows, soakMinutes, bareLoopMs, show, overrides } = options
  const scale = { normalize: options.scale, verify: options.scale }
  const own = { rows, bareLoopMs, show }
  const start = <T>(work: (setting: Setting) => Promise<T>): Promise<T> =>
    withServices(stack, { scale, overrides }, running => work({ ...running, ...own }))
  const report = await start(async setting => ({
    ...await measure(setting), ...await attemptAll(options, partsOf(setting)),
  }))
  const apart = await attemptAll(options, [
    {
      part: 'fairness',
      work: () => withServices(stack, { scale, overrides: { ...overrides, ...CUSTOMER_LIMITS } },
        running => measureFairness({ ...running, ...own, env: stack.env })),
    },
    {
      part: 'recovery',
      work: () => measureRecovery(stack, { overrides, show, entries: options.recoveryEntries }),
    },
    { part: 'soak', work: () => start(setting => measureSoak(setting, soakMinutes)) },
    { part: 'peers', work: () => measurePeers({ env: stack.env, overrides, ...own }) },
  ])
  return { ...report, ...apart }
}

function partsOf (setting: Setting): readonly Work[] {
  return [
    { part: 'growth', work: () => measureGrowth(setting) },
    { part: 'crowd', work: () => measureCrowd(setting) },
    { part: 'scaling', work: () => measureScaling(setting) },
    { part: 'webhooks', work: () => measureWebhooks(setting) },
    { part: 'email', work: () => measureEmail(setting) },
  ]
}

/** Reports a part that can't be measured; the figures of the others are kept. */
async function attemptAll (
  { parts, show }: RunOptions, all: readonly Work[]
): Promise<Partial<Pick<Report, Part>>> {
  const measured: Partial<Record<Part, unknown>> = {}
  for (const { part, work } of all) {
    if (!parts.has(part)) continue
    try {
      measured[part] = await work()
    } catch (error) {
      show(`!! ${part} could not be measured: ${String(error)}`)
      process.exitCode = 1
    }
  }
  return measured as Partial<Pick<Report, Part>>
}
