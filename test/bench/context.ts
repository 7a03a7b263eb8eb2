import type { Scale } from '../../deploy/local/launcher/scale.ts'
import type { Client } from '../../services/client/client.ts'

export type Process = { readonly name: string, readonly pid: number | undefined }

/** The base URL of the API and the key of an organization. */
export type ApiAccess = { readonly baseUrl: string, readonly apiKey: string }

/** What every scenario gets: running services, clients of them, and the size of the load. */
export type BenchContext = {
  readonly client: Client
  /** Access of the organization of `client`, for a client on another thread. */
  readonly access: ApiAccess
  /** A client of another organization. */
  readonly otherClient: Client
  /** A client of the first organization that does not retry. */
  readonly clientWithoutRetries: Client
  readonly services: {
    readonly list: () => readonly Process[]
    /** Resolves when all instances are ready. */
    readonly setScale: (scale: Scale) => Promise<void>
  }
  /** Brokers and stores; empty when they are external. */
  readonly infrastructure: readonly Process[]
  /** Instances of the stages that have more than one. */
  readonly scale: Scale
  /** Rows of a large job. */
  readonly rows: number
  /** Runs the bare loop over the same number of rows. */
  readonly bareLoopMs: () => number
  readonly log: (line: string) => void
}
