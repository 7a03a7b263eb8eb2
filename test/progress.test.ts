import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { TestCase, TestModule } from 'vitest/node'
import { Progress } from './runner/progress.ts'

const MINUTE_MS = 60_000
const project = { name: 'unit' }
const moduleOf = (id: string) =>
  ({ id, moduleId: `/${id}.test.ts`, project }) as unknown as TestModule
const testOf = (module: TestModule, name: string) => ({
  id: name, module, project, fullName: name, result: () => ({ state: 'passed' }),
}) as unknown as TestCase

describe('a run of tests', () => {
  let progress: Progress
  const stalled = vi.fn<(report: string) => void>()
  beforeEach(() => {
    vi.useFakeTimers()
    stalled.mockReset()
    progress = new Progress()
    progress.onStall(stalled)
  })
  afterEach(() => {
    progress.stop()
    vi.useRealTimers()
  })

  it('has not stalled while a test ends every nine minutes, however long it takes', () => {
    const module = moduleOf('slow')
    progress.onTestModuleQueued(module)
    for (let test = 0; test < 20; test++) {
      vi.advanceTimersByTime(9 * MINUTE_MS)
      progress.onTestCaseResult(testOf(module, `test ${test}`))
    }
    expect(stalled).not.toHaveBeenCalled()
    expect(progress.tallies.get('unit')).toMatchObject({ passed: 20, failed: 0 })
  })

  it('has stalled once no test ended for ten minutes, and names what it waits for', () => {
    const module = moduleOf('hanging')
    progress.onTestModuleQueued(module)
    progress.onTestCaseReady(testOf(module, 'ended'))
    progress.onTestCaseResult(testOf(module, 'ended'))
    progress.onTestCaseReady(testOf(module, 'waits for a message'))
    vi.advanceTimersByTime(30 * MINUTE_MS)
    expect(stalled).toHaveBeenCalledOnce()
    const [report = ''] = stalled.mock.calls[0] ?? []
    expect(report).toContain('test /hanging.test.ts > waits for a message (for 600 s)')
    expect(report).toContain(String(process.pid))
    expect(report).not.toContain('ended (for')
  })
})
