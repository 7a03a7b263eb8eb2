import { seededRandom } from '../bench/inputs.ts'

/** Something that was asked of a server and is executed when the loop says so. */
export type Question = {
  /** Questions of one asker are put in the order they came. */
  readonly asker: string
}

/** Puts questions, in this order, and returns what is to happen once each is answered. */
export type Server<Q extends Question> = (
  questions: readonly Q[], nowMs: number
) => Promise<readonly (() => void)[]>

export type Timer = { readonly atMs: number, readonly action: () => void, isHeld: boolean }

/** Everything that is under way waits for something that will never happen. */
export class StuckError extends Error {
  override readonly name = 'StuckError'
}

/** No moment of a run is in the past of a server's own clock, whose deadlines never come. */
const FIRST_MS = Date.UTC(2100, 0, 1)
/** What a round trip takes at most. */
const TRIP_MS = 1
/** Many times what the longest run takes. */
const MAX_STEPS = 5_000_000

/** Many times what the longest run takes of its own time; only a run that hangs does. */
const MAX_MS = 2 * 3_600_000

const stillness = globalThis.setImmediate

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
  #turns: (() => void)[] = []
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

  readonly turn = (action: () => void): void => { this.#turns.push(action) }

  readonly after = (ms: number, action: () => void): Timer => {
    const timer = { atMs: this.#nowMs + Math.max(1, ms), action, isHeld: true }
    this.#timers.add(timer)
    return timer
  }

  readonly cancel = (timer: Timer): void => { this.#timers.delete(timer) }

  readonly ask = (question: Q): void => {
    const asked = this.#questions.get(question.asker) ?? []
    this.#questions.set(question.asker, asked)
    asked.push(question)
  }

  /** Puts questions back that were asked and not answered, before all others of their askers. */
  readonly askAgain = (questions: readonly Q[]): void => {
    for (const question of questions.toReversed()) {
      const asked = this.#questions.get(question.asker) ?? []
      this.#questions.set(question.asker, asked)
      asked.unshift(question)
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
        await new Promise(resolve => stillness(resolve))
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
    this.#turns = []
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
      this.#turns.length > 0 && 'turn', this.#questions.size > 0 && 'ask', isDue && 'timer',
    ]
    const possible = kinds.filter(kind => kind !== false)
    if (possible.length === 0) return this.#wait(timer)
    const kind = this.#take(possible)
    if (kind === 'turn') return this.#take(this.#turns)()
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
    throw new StuckError('nothing moves any more, and nothing is going to')
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

  /** Some of what was asked, each asker's in its order, the askers as chance will have it. */
  async #askSome (): Promise<void> {
    const waiting = [...this.#questions.values()]
    const total = waiting.reduce((sum, { length }) => sum + length, 0)
    const some = Math.min(total, 1 + Math.floor(this.#random() * total * 1.5))
    const batch = Array.from({ length: some }, () => {
      const [asker = '', asked = []] = this.#take([...this.#questions])
      const question = asked.shift() as Q
      if (asked.length === 0) this.#questions.delete(asker)
      return question
    })
    this.#nowMs += this.#random() * TRIP_MS
    this.#answers = [...await this.#server(batch, Math.floor(this.#nowMs))]
  }
}
