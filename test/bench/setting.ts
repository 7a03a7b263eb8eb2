import type { Scale } from '../../deploy/local/launcher/scale.ts'
import type { Client } from '../../services/client/client.ts'

export type Process = { readonly name: string, readonly pid: number | undefined }

/** Where the services are, and the key of an organization. */
export type Address = { readonly baseUrl: string, readonly apiKey: string }

/** What every part of the benchmark works with: running services and how much to ask of them. */
export type Setting = {
  readonly client: Client
  /** Of the first organization, for a client on a thread of its own. */
  readonly address: Address
  /** Of another organization. */
  readonly neighbour: Client
  /** Of the first organization; it takes the first answer as it comes. */
  readonly impatient: Client
  readonly services: {
    readonly list: () => readonly Process[]
    /** Resolves when all are ready. */
    readonly setScale: (scale: Scale) => Promise<void>
  }
  /** Brokers and stores; empty when they were given from outside. */
  readonly infrastructure: readonly Process[]
  /** Instances of the stages that run more than once. */
  readonly scale: Scale
  /** Rows of a big job. */
  readonly rows: number
  /** Runs the bare loop over as many rows. */
  readonly bareLoopMs: () => number
  readonly show: (line: string) => void
}
