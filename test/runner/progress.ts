import { execFileSync } from 'node:child_process'
import type { ReportedHookContext, Reporter, TestCase, TestModule } from 'vitest/node'

/** No test is silent for so long; a run in which none ends in this time hangs. */
const STALLED_AFTER_MS = 600_000
const LOOKS_EVERY_MS = 5_000

export type Tally = {
  passed: number
  failed: number
  skipped: number
  /** Wall-clock times of the first test that began and of the last one that ended. */
  startedAtMs: number
  endedAtMs: number
}

/** Follows a run of Vitest: counts by suite, and what is under way. */
export class Progress implements Reporter {
  readonly tallies = new Map<string, Tally>()
  #underWay = new Map<string, { readonly what: string, readonly sinceMs: number }>()
  #lastEndMs = Date.now()
  #timer: NodeJS.Timeout | undefined

  /** Calls back, once, when no test ended for several minutes. */
  onStall (stalled: (report: string) => void): void {
    this.#lastEndMs = Date.now()
    this.#timer = setInterval(() => {
      if (Date.now() - this.#lastEndMs < STALLED_AFTER_MS) return
      this.stop()
      stalled(this.#report())
    }, LOOKS_EVERY_MS)
  }

  stop (): void { clearInterval(this.#timer) }

  onTestModuleQueued ({ id, moduleId, project }: TestModule): void {
    this.#begin(id, `file ${moduleId}`)
    const now = Date.now()
    const tally = this.tallies.get(project.name) ??
      { passed: 0, failed: 0, skipped: 0, startedAtMs: now, endedAtMs: now }
    this.tallies.set(project.name, tally)
  }

  onTestModuleEnd (module: TestModule): void {
    this.#end(module.id)
    const tally = this.tallies.get(module.project.name)
    if (tally === undefined) return
    tally.endedAtMs = Date.now()
    // A file that cannot be loaded, or whose hook fails, has failed even where no test of it did.
    const hasFailedTest = [...module.children.allTests('failed')].length > 0
    if (module.state() === 'failed' && !hasFailedTest) tally.failed += 1
  }

  onTestCaseReady (test: TestCase): void {
    this.#begin(test.id, `test ${test.module.moduleId} > ${test.fullName}`)
  }

  onTestCaseResult (test: TestCase): void {
    this.#end(test.id)
    this.#lastEndMs = Date.now()
    const tally = this.tallies.get(test.project.name)
    const { state } = test.result()
    if (tally !== undefined && state !== 'pending') tally[state] += 1
  }

  onHookStart ({ name, entity }: ReportedHookContext): void {
    const of = entity.type === 'module' ? entity.moduleId : entity.fullName
    this.#begin(`${entity.id} ${name}`, `hook ${name} of ${of}`)
  }

  onHookEnd ({ name, entity }: ReportedHookContext): void { this.#end(`${entity.id} ${name}`) }

  #begin (id: string, what: string): void {
    this.#underWay.set(id, { what, sinceMs: Date.now() })
  }

  #end (id: string): void { this.#underWay.delete(id) }

  /** What the run waits for: files, hooks and tests under way, and the processes it started. */
  #report (): string {
    const lines = [...this.#underWay.values()].map(({ what, sinceMs }) =>
      `  ${what} (for ${Math.round((Date.now() - sinceMs) / 1_000)} s)`)
    const columns = ['-e', '-o', 'pid,ppid,stat,wchan:20,etimes,args', '-ww']
    const processes = execFileSync('ps', columns).toString()
      .split('\n').map(line => line.slice(0, 160)).join('\n')
    return [
      `no test ended for ${STALLED_AFTER_MS / 60_000} minutes; under way:`, ...lines,
      'processes:', processes,
    ].join('\n')
  }
}
