import { describe, expect, it } from 'vitest'
import { JobKeyLostError } from '../../../../services/jobs/job-keys.ts'
import { FatalError, InconsistencyError } from '../../../../services/runtime/platform/errors.ts'
import { createLog, createLogThrottle } from '../../../../services/runtime/platform/log.ts'

function logged (write: (log: ReturnType<typeof createLog>) => void, level = 'info') {
  const lines: string[] = []
  write(createLog('lookup', { level, destination: { write: line => lines.push(line) } }))
  return lines.map(line => JSON.parse(line) as Record<string, unknown>)
}

describe('the log', () => {
  it('redacts fields that may contain inputs or secrets', () => {
    const fields = { job: 'j', inputs: ['+1'], deep: { secret: 's', rows: 2 } }
    const [line] = logged(log => log.info(fields, 'x'))
    expect(line).toMatchObject({
      name: 'lookup',
      msg: 'x',
      job: 'j',
      inputs: '[hidden]',
      deep: { secret: '[hidden]', rows: '[hidden]' },
    })
  })

  it('writes the stack of an error without its message', () => {
    const cause = Object.assign(new Error('bad value "+12127365000"'), { code: 'E1' })
    const [line] = logged(log => log.warn({ err: new Error('+12127365000', { cause }) }, 'failed'))
    expect(JSON.stringify(line)).not.toContain('2127365000')
    expect(line).toMatchObject({ err: { type: 'Error', cause: { type: 'Error', code: 'E1' } } })
    expect(JSON.stringify(line)).toContain('log.test.ts')
  })

  it('writes the messages of errors for operators', () => {
    const [line] = logged(log => log.error({ err: new FatalError('100 dead letters in a row') }))
    expect(line).toMatchObject({ err: { message: '100 dead letters in a row' } })
    const err = new InconsistencyError('2 rows, expected 3', { cause: new JobKeyLostError('gone') })
    expect(logged(log => log.error({ err }))).toMatchObject([{
      err: { message: '2 rows, expected 3', cause: { type: 'JobKeyLostError', message: 'gone' } },
    }])
    expect(logged(log => log.info('x'), 'warn')).toEqual([])
  })
})

it('a log throttle admits each name at once and then once per interval', () => {
  let nowMs = 0
  const isDue = createLogThrottle(1_000, () => nowMs)
  expect(['a', 'a', 'b'].map(isDue)).toEqual([true, false, true])
  nowMs = 999
  expect(isDue('a')).toBe(false)
  nowMs = 1_000
  expect(['a', 'a', 'b'].map(isDue)).toEqual([true, false, true])
})
