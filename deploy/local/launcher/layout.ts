import { Option } from 'commander'
import { STAGES } from '../../../services/topology.ts'
import type { Stack } from '../stack.ts'
import type { Scale } from './scale.ts'

/** The workspace page, a service beside the stages. */
export const PAGE = 'page'

/** All that a local installation runs. */
export const SERVICES: readonly string[] = [...STAGES, PAGE]

const isFront = (service: string) => service === 'ingest' || service === PAGE
const ROWS = ['normalize', 'lookup', 'verify', 'settle']
const others = (services: readonly string[]) =>
  SERVICES.filter(name => !isFront(name) && !services.includes(name))
const FRONT = { front: SERVICES.filter(isFront) }

/** The processes that host several services, by the number of processes. */
const HOSTS = {
  1: { all: SERVICES },
  2: { ...FRONT, pipeline: others([]) },
  3: { ...FRONT, rows: ROWS, background: others(ROWS) },
  /** One process per stage, and one for the page. */
  9: {},
} as const satisfies Readonly<Record<number, Readonly<Record<string, readonly string[]>>>>

/** Into how many processes the stages are divided. */
export type Processes = keyof typeof HOSTS

const DEFAULT_PROCESSES = 2 satisfies Processes

const PROCESSES = Object.keys(HOSTS)

/** How services are divided into processes. */
export type Layout = {
  readonly processes?: Processes
  readonly scale?: Scale
  /** Services that have a process of their own in any case. */
  readonly apart?: readonly string[]
}

/** A process, and the services that it hosts. */
export type Planned = { readonly name: string, readonly services: readonly string[] }

/** The option `--processes` of commands that start services; its value is text. */
export function processesOption (): Option {
  return new Option('--processes <number>', 'into how many processes the stages are divided; 9: ' +
    'one per stage, and one for the page').choices(PROCESSES)
}

/**
 * The processes of a layout, in the order of the pipeline. A host has the first instance of each of
 * its services; further instances, and hosts of one service, are processes such as `verify-2`.
 */
export function planProcesses (
  services: readonly string[], { processes = 9, scale = {}, apart = [] }: Layout
): readonly Planned[] {
  const countInstances = (service: string) => scale[service] ?? 1
  const hosts = Object.entries<readonly string[]>(HOSTS[processes]).map(([name, all]) => ({
    name: `${name}-1`,
    services: all.filter(service =>
      services.includes(service) && !apart.includes(service) && countInstances(service) > 0),
  })).filter(host => host.services.length > 1)
  return services.flatMap(service => {
    const host = hosts.find(host => host.services.includes(service))
    const instances = Array.from({ length: countInstances(service) }, (_, index) =>
      ({ name: `${service}-${index + 1}`, services: [service] }))
    if (host === undefined) return instances
    return [...host.services[0] === service ? [host] : [], ...instances.slice(1)]
  })
}

/**
 * The layout on a stack. On a secure one each stage has a process of its own, as it has a user.
 * @throws Error for another number of processes on a secure stack.
 */
export function layoutOn (
  { envByStage }: Pick<Stack, 'envByStage'>, { processes, ...layout }: Layout
): Layout {
  const isSecure = Object.keys(envByStage).length > 0
  if (isSecure && (processes ?? 9) !== 9) {
    throw new Error(`--processes ${processes} is not possible with --secure, where each stage ` +
      'has a user of its own: leave it out')
  }
  return { ...layout, processes: isSecure ? 9 : processes ?? DEFAULT_PROCESSES }
}

/**
 * What a chunk needs is short-lived: room for one of them, or for those of several stages in one
 * process, spares copies of it. Other services need the cores on which several threads of one would
 * collect at once. `growing` is by how many percent a heap may grow before a major collection: with
 * the default of V8, about 50, a large job takes 13 % longer than with 80.
 */
const collectorOptions = ({ youngMb, growing }: Record<'youngMb' | 'growing', number>) => [
  `--min-semi-space-size=${youngMb}`, `--max-semi-space-size=${youngMb}`, '--no-parallel-scavenge',
  `--heap-growing-percent=${growing}`,
]
/**
 * Arguments of Node by the stages in a process: room for several jobs of the largest size in each
 * stage that holds rows. `ledger` has no chunks. What it knows of all tenants lasts, and as little
 * else as possible.
 */
const HEAP = {
  one: {
    limit: '--max-old-space-size=768', collection: collectorOptions({ youngMb: 8, growing: 80 }),
  },
  several: {
    limit: '--max-old-space-size=1536', collection: collectorOptions({ youngMb: 32, growing: 80 }),
  },
  ledger: {
    limit: '--max-old-space-size=768', collection: collectorOptions({ youngMb: 4, growing: 25 }),
  },
}

/**
 * Arguments of Node for a process that hosts services. A limit in NODE_OPTIONS counts; Node would
 * prefer the argument.
 */
export function heapArguments (
  env: Readonly<Record<string, string>>, services: readonly string[]
): readonly string[] {
  const isSet = env.NODE_OPTIONS?.includes('--max-old-space-size') === true
  const { limit, collection } = chooseHeap(services)
  return isSet ? collection : [limit, ...collection]
}

function chooseHeap (services: readonly string[]) {
  if (isLedger(services)) return HEAP.ledger
  return services.filter(service => service !== PAGE).length > 1 ? HEAP.several : HEAP.one
}

/** Whether a process runs `ledger` alone. */
export const isLedger = (services: readonly string[]) => services.join() === 'ledger'
