import { seededRandom } from '../support/random.ts'

/** A request to a server, executed when the loop decides. */
export type Question = {
  /** Questions of one client are sent in the order they came. */
  readonly client: string
}

/** Sends questions, in this order, and returns what is to happen once each is answered. */
export type Server<Q extends Question> = (
  questions: readonly Q[], nowMs: number
) => Promise<readonly (() => void)[]>

export type Timer = { readonly atMs: number, readonly action: () => void, isHeld: boolean }

/** Everything that is under way waits for something that will never happen. */
class StuckError extends Error {
  override readonly name = 'StuckError'
}

/** Later than the servers' own clocks, so that deadlines by those never expire in a run. */
const FIRST_MS = Date.UTC(2100, 0, 1)
/** The longest round trip. */
const TRIP_MS = 1
/** Many times what the longest run takes. */
const MAX_STEPS = 5_000_000

/** Many times the simulated time of the longest run; only a hanging run reaches it. */
const MAX_MS = 2 * 3_600_000

const realSetImmediate = globalThis.setImmediate

/**
 * In place of Node's: one thing happens at a time, the next only when nothing moves any more, and
 * the seed alone decides which. Time passes with what happens, and jumps when all wait for it.
 */
export class Loop<Q extends Question> {
  readonly #server: Server<Q>
  #random = seededRandom(0)
  #chance = seededRandom(0)
  #nowMs = FIRST_MS
  #isRunning = false
  #immediates: (() => void)[] = []
  #answers: (() => void)[] = []
  #timers = new Set<Timer>()
  #questions = new Map<string, Q[]>()

  constructor (server: Server<Q>) {
    this.#server = server
  }

  readonly isRunning = (): boolean => this.#isRunning

  readonly nowMs = (): number => Math.floor(this.#nowMs)

  /** For secrets and names: not the chance that decides what happens. */
  readonly chance = (): number => this.#chance()

  readonly turn = (action: () => void): void => { this.#immediates.push(action) }

  readonly after = (ms: number, action: () => void): Timer => {
    const timer = { atMs: this.#nowMs + Math.max(1, ms), action, isHeld: true }
    this.#timers.add(timer)
    return timer
  }

  readonly cancel = (timer: Timer): void => { this.#timers.delete(timer) }

  readonly ask = (question: Q): void => {
    const pending = this.#questions.get(question.client) ?? []
    this.#questions.set(question.client, pending)
    pending.push(question)
  }

  /** Puts unanswered questions back, before all others of their clients. */
  readonly askAgain = (questions: readonly Q[]): void => {
    for (const question of questions.toReversed()) {
      const pending = this.#questions.get(question.client) ?? []
      this.#questions.set(question.client, pending)
      pending.unshift(question)
    }
  }

  /** Runs an action and all it starts, until it has its result; what is left over is dropped. */
  async run<T> (seed: number, action: () => Promise<T>): Promise<T> {
    this.#begin(seed)
    let isOver = false
    const result = action().finally(() => { isOver = true })
    result.catch(() => {})
    try {
      for (let steps = 0; ; steps++) {
        await new Promise(resolve => realSetImmediate(resolve))
        if (isOver) return await result
        if (steps > MAX_STEPS) throw new StuckError(`no end after ${MAX_STEPS} steps`)
        await this.#step()
      }
    } finally {
      this.#isRunning = false
    }
  }

  #begin (seed: number): void {
    this.#random = seededRandom(seed ^ 0x5eed)
    this.#chance = seededRandom(~seed)
    this.#nowMs = FIRST_MS
    this.#immediates = []
    this.#answers = []
    this.#timers = new Set()
    this.#questions = new Map()
    this.#isRunning = true
  }

  #step (): Promise<void> | void {
    const answer = this.#answers.shift()
    if (answer !== undefined) return answer()
    const timer = this.#nextTimer()
    const isDue = timer !== undefined && timer.atMs <= this.#nowMs
    const kinds = [
      this.#immediates.length > 0 && 'turn', this.#questions.size > 0 && 'ask', isDue && 'timer',
    ]
    const possible = kinds.filter(kind => kind !== false)
    if (possible.length === 0) return this.#wait(timer)
    const kind = this.#take(possible)
    if (kind === 'turn') return this.#take(this.#immediates)()
    if (kind === 'ask') return this.#askSome()
    if (timer !== undefined) this.#fire(timer)
  }

  #nextTimer (): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.#timers) {
      if (first === undefined || timer.atMs < first.atMs) first = timer
    }
    return first
  }

  #wait (timer: Timer | undefined): void {
    if (timer !== undefined && [...this.#timers].some(({ isHeld }) => isHeld)) {
      return this.#fire(timer)
    }
    throw new StuckError('deadlock: no immediate, question or timer is pending')
  }

  #fire (timer: Timer): void {
    this.#timers.delete(timer)
    this.#nowMs = Math.max(this.#nowMs, timer.atMs)
    if (this.#nowMs > FIRST_MS + MAX_MS) throw new StuckError(`no end after ${MAX_MS} ms`)
    timer.action()
  }

  #take<T> (from: T[]): T {
    return from.splice(Math.floor(this.#random() * from.length), 1)[0] as T
  }

  /** Sends some questions, each client's in its order, the clients in random order. */
  async #askSome (): Promise<void> {
    const waiting = [...this.#questions.values()]
    const total = waiting.reduce((sum, { length }) => sum + length, 0)
    const some = Math.min(total, 1 + Math.floor(this.#random() * total * 1.5))
    const batch = Array.from({ length: some }, () => {
      const [client = '', pending = []] = this.#take([...this.#questions])
      const question = pending.shift() as Q
      if (pending.length === 0) this.#questions.delete(client)
      return question
    })
    this.#nowMs += this.#random() * TRIP_MS
    this.#answers = [...await this.#server(batch, Math.floor(this.#nowMs))]
  }
}
