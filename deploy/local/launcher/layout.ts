import { Option } from 'commander'
import { STAGES } from '../../../services/topology.ts'
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

export const DEFAULT_PROCESSES = 2 satisfies Processes

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
export function planOf (
  services: readonly string[], { processes = 9, scale = {}, apart = [] }: Layout
): readonly Planned[] {
  const countOf = (service: string) => scale[service] ?? 1
  const hosts = Object.entries<readonly string[]>(HOSTS[processes]).map(([name, all]) => ({
    name: `${name}-1`,
    services: all.filter(service =>
      services.includes(service) && !apart.includes(service) && countOf(service) > 0),
  })).filter(host => host.services.length > 1)
  return services.flatMap(service => {
    const host = hosts.find(one => one.services.includes(service))
    const own = Array.from({ length: countOf(service) }, (_, index) =>
      ({ name: `${service}-${index + 1}`, services: [service] }))
    if (host === undefined) return own
    return [...host.services[0] === service ? [host] : [], ...own.slice(1)]
  })
}
