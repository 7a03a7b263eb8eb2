import { appendFileSync, readFileSync } from 'node:fs'
import { type RunnerTestCase, TestRunner } from 'vitest'

/** What the runner of one file is given, as JSON in the file that `MUTATE_PLAN` names. */
export type Plan = {
  /** The file to which it appends a `PlanLine` each. */
  readonly log: string
  /** What a process before has done, as `<test> <mutant>`. */
  readonly done: readonly string[]
  /** No other mutants are run. */
  readonly only: readonly string[]
  /** Whether each is run until a test finds it. */
  readonly isUntilFound: boolean
  /** If given, no other tests are run. */
  readonly tests?: readonly string[]
  /** The most that a test may take with all its mutants. */
  readonly maxMs: number
}

/** A test, the beginning or the end of its run with a mutant, or its last run without one. */
export type PlanLine =
  | {
    readonly test: string
    readonly name: string
    readonly ms: number
    readonly reached: readonly string[]
    readonly fixed: readonly string[]
    readonly isSlow: boolean
    readonly isBroken: boolean
  }
  | { readonly test: string, readonly begins: string }
  | { readonly test: string, readonly ends: string, readonly isFound: boolean }
  | { readonly test: string, readonly isDisturbed: boolean }

type Counts = Readonly<Record<string, number>>

/** What instrumented code reads and writes. */
type MutantSwitch = {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  hitCount?: number
  hitLimit?: number
  readonly mutantCoverage?: {
    readonly static: Counts, readonly perTest: Readonly<Record<string, Counts>>
  }
}

/** A mutant may take so much longer than none: more, and it hangs. */
const HANGS = { hits: 2_000, hitFactor: 100, ms: 1_500, msFactor: 5 }
/** More runs than any test needs: vitest reads the number before they are known. */
const UNLIMITED = 1e9

const state = (globalThis as { __stryker__?: MutantSwitch }).__stryker__ ??= {}
const plan = JSON.parse(readFileSync(process.env.MUTATE_PLAN ?? '', 'utf8')) as Plan
const done = new Set(plan.done)
const only = new Set(plan.only)
const write = (line: PlanLine) => appendFileSync(plan.log, `${JSON.stringify(line)}\n`)

/**
 * Runs each test once as it is, which shows the mutants that it reaches, then with each of them,
 * and once more as it is. Modules stay loaded, so that a mutant takes only as long as the test.
 */
export default class RepeatRunner extends TestRunner {
  #round: 'first' | 'mutants' | 'last' = 'first'
  #left: string[] = []
  #reached: Counts = {}
  #firstMs = 0
  #startedMs = 0
  #hasFailed = false

  override async onBeforeRunTask (test: RunnerTestCase): Promise<void> {
    await super.onBeforeRunTask(test)
    if (plan.tests?.includes(test.id) === false) test.mode = 'skip'
    test.repeats = UNLIMITED
    this.#round = 'first'
  }

  override onBeforeTryTask (
    test: RunnerTestCase, options: Parameters<TestRunner['onBeforeTryTask']>[1]
  ): void {
    this.#hasFailed = false
    this.#startedMs = performance.now()
    if (this.#round === 'first') state.currentTestId = test.id
    const mutant = this.#round === 'mutants' ? this.#left[0] : undefined
    if (mutant !== undefined) {
      write({ test: test.id, begins: mutant })
      state.activeMutant = mutant
      state.hitCount = 0
      state.hitLimit = HANGS.hits + HANGS.hitFactor * (this.#reached[mutant] ?? 0)
    }
    super.onBeforeTryTask(test, options)
  }

  /** Notes that a test fails, without its error, which takes long to describe. */
  async runTask (test: RunnerTestCase): Promise<void> {
    const limit = Promise.withResolvers<never>()
    const timer = this.#round === 'first'
      ? undefined
      : setTimeout(() => limit.reject(new Error('hangs')),
        HANGS.ms + HANGS.msFactor * this.#firstMs)
    try {
      await Promise.race([TestRunner.getTestFn(test)(), limit.promise])
    } catch {
      this.#hasFailed = true
    } finally {
      clearTimeout(timer)
    }
  }

  override async onAfterRetryTask (
    test: RunnerTestCase, options: Parameters<TestRunner['onAfterRetryTask']>[1]
  ): Promise<void> {
    await super.onAfterRetryTask(test, options)
    state.activeMutant = undefined
    state.currentTestId = undefined
    const hasFailed = this.#hasFailed || test.result?.state === 'fail'
    if (this.#round === 'first') this.#plan(test, hasFailed)
    else if (this.#round === 'last') write({ test: test.id, isDisturbed: hasFailed })
    else this.#note(test, hasFailed)
    const isOver = this.#left.length === 0 && this.#round !== 'mutants'
    if (this.#round === 'first') this.#round = 'mutants'
    else if (this.#left.length === 0) this.#round = 'last'
    if (test.result === undefined) return
    Object.assign(test.result, { state: 'pass', attempts: [], errors: [], pending: isOver })
  }

  #plan (test: RunnerTestCase, isBroken: boolean): void {
    this.#firstMs = performance.now() - this.#startedMs
    this.#reached = state.mutantCoverage?.perTest[test.id] ?? {}
    const reached = Object.keys(this.#reached)
    const asked = reached.filter(mutant =>
      !done.has(`${test.id} ${mutant}`) && only.has(mutant))
    const isSlow = this.#firstMs * asked.length > plan.maxMs
    this.#left = isSlow || isBroken ? [] : asked
    write({
      test: test.id,
      name: nameOf(test),
      ms: Math.round(this.#firstMs),
      reached,
      fixed: Object.keys(state.mutantCoverage?.static ?? {}),
      isSlow,
      isBroken,
    })
  }

  #note (test: RunnerTestCase, isFound: boolean): void {
    const mutant = this.#left.shift() ?? ''
    write({ test: test.id, ends: mutant, isFound })
    if (isFound && plan.isUntilFound) only.delete(mutant)
  }
}

const nameOf = ({ name, suite }: RunnerTestCase | NonNullable<RunnerTestCase['suite']>): string =>
  suite === undefined ? name : `${nameOf(suite)} › ${name}`
