import type { KafkaError } from './proxy-answers.ts'
import type { KafkaApi, KafkaRequest } from './proxy-frames.ts'

/** What the proxy does to a request or to its answer. */
export type What =
  /** The broker never receives it, and the connection stays. */
  | 'lose request'
  /** The broker executes it, and the answer is dropped; the connection stays. */
  | 'lose answer'
  /** Half of the request arrives, then both connections are reset. */
  | 'cut in request'
  /** The broker executes it, and the connection is reset instead of answered. */
  | 'cut before answer'
  /** The answer, and whatever follows it on the connection, comes later. */
  | 'delay answer'
  /** The broker never receives it, and an error is the answer. */
  | 'refuse'

export type ProxyFault = {
  readonly api: KafkaApi
  readonly what: What
  /** It begins with the nth matching request from now on; 1 is the next. */
  readonly nth?: number
  /** The number of matching requests, one after another; default 1, Infinity until `end`. */
  readonly times?: number
  readonly delayMs?: number
  readonly error?: KafkaError
  /** Which clients are meant, by the beginning of their names; all when left out. */
  readonly client?: string
  /** Only answers at least so large are lost, cut or delayed: a fetch that brings messages. */
  readonly answerBytes?: number
}

export type Injected = {
  /** Resolves when the fault has happened as often as it was to. */
  readonly done: Promise<void>
  /** How often it happened so far. */
  readonly count: () => number
  /** It happens no more. */
  readonly end: () => void
}

/** A fault that waits for the frames it is meant for. */
export type Trap = Injected & {
  readonly fault: ProxyFault
  readonly takes: (request: KafkaRequest) => boolean
  /** True if the fault happens now, which counts. */
  readonly springs: (frame: Buffer) => boolean
}

/** Makes a trap: `takes` matches a request, `springs` the frame of the fault. */
export function createTrap (fault: ProxyFault, onSprung: () => void): Trap {
  const { api, nth = 1, times = 1, client = '', answerBytes = 0 } = fault
  const { promise: done, resolve } = Promise.withResolvers<void>()
  let fitting = 0
  let count = 0
  let ended = false
  return {
    fault,
    done,
    count: () => count,
    end: () => { ended = true },
    takes: request => {
      if (ended || request.api !== api || !request.clientId.startsWith(client)) return false
      fitting += 1
      return fitting >= nth
    },
    springs: frame => {
      if (ended || frame.length < answerBytes) return false
      count += 1
      ended = count >= times
      onSprung()
      if (ended) resolve()
      return true
    },
  }
}
