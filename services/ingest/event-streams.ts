import { FairPool } from '../runtime/platform/limits.ts'

/** The media type of server-sent events. */
export const EVENT_STREAM = 'text/event-stream'

type Limits = {
  readonly capacity: number
  /** Maximum of one organization. */
  readonly maxPerName: number
}

type EventStream = {
  /** Aborted when the stream must end: the service stops, or an organization takes its place. */
  readonly signal: AbortSignal
  readonly release: () => void
}

/** The open event streams of this process, a bounded number that organizations share fairly. */
export class EventStreams {
  readonly #pool: FairPool
  readonly #stopped = new AbortController()

  constructor (limits: Limits) {
    this.#pool = new FairPool(limits)
  }

  /** The number of open streams. */
  get total (): number {
    return this.#pool.total
  }

  /** A place for a stream; undefined if the organization has its share. */
  open (organization: string): EventStream | undefined {
    const evicted = new AbortController()
    const place = this.#pool.open(organization, () => evicted.abort())
    if (!place.grow(1)) return undefined
    return {
      signal: AbortSignal.any([this.#stopped.signal, evicted.signal]),
      release: () => place.release(),
    }
  }

  /** Ends all streams. */
  stop (): void {
    this.#stopped.abort()
  }
}
