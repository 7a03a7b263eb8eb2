import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { CommandError } from '../../../services/client/terminal.ts'
import { openConnection, readLocalStack } from '../../../services/client/connection.ts'
import { joinResults } from '../../../services/client/join-results.ts'
import { createClientProgram } from '../../../services/client/program.ts'
import { openRun } from '../../../services/client/run.ts'
import { resolveUnanswered, runJobs } from '../../../services/client/send-jobs.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, verdictOf } from './fake-service.ts'

const folder = newFolder('run-')
afterAll(() => rmSync(folder, { recursive: true }))
const input = join(folder, 'in.csv')
const output = join(folder, 'out.csv')
const stateFile = `${output}.progress.json`
beforeEach(() => {
  writeFileSync(input, 'phone\n+12127365000\n+12127365001\n+12127365002\n')
  for (const file of [stateFile, `${output}.part`]) rmSync(file, { force: true })
})

const settings = {
  input,
  output,
  service: 'phone-validation',
  forceFresh: false,
  metadata: {},
  guarded: false,
  rowsPerJob: 1,
  parallel: 2,
  restart: false,
  yes: true,
  account: { baseUrl: 'http://there', key: 'k' },
}

async function start () {
  const service = createFakeService()
  const messages: string[] = []
  const done: number[] = []
  const deps = {
    client: service.client,
    say: (line: string) => { messages.push(line) },
    progress: (progress: { done: number }) => { done.push(progress.done) },
    pollEveryMs: 0,
  }
  return { service, messages, done, run: await openRun(settings, deps) }
}

describe('a submit run', () => {
  it('starts with a plan and an idempotency key for each job, and sends nothing', async () => {
    const { service, run: { store } } = await start()
    expect(store.state().jobs.map(({ firstRow, rows }) => [firstRow, rows]))
      .toEqual([[0, 1], [1, 1], [2, 1]])
    expect(new Set(store.state().jobs.map(one => one.idempotencyKey)).size).toBe(3)
    expect(service.requests).toEqual(['GET /services'])
  })

  it('repeats requests only for jobs that may have been created', async () => {
    const { service, run } = await start()
    await resolveUnanswered(run)
    expect(service.jobs).toEqual([])
    run.store.updateJob(1, { sentAtMs: Date.now() })
    await resolveUnanswered(run)
    expect(service.jobs.map(({ inputs }) => inputs)).toEqual([['+12127365001']])
    expect(run.store.state().jobs.map(({ id }) => id)).toEqual([undefined, 'job_1', undefined])
  })

  it('keeps the limit of concurrent jobs and counts the rows', async () => {
    const { service, done, run } = await start()
    const openBefore: number[] = []
    service.change({
      at: moment => {
        const open = service.jobs.filter(({ polls }) => polls < 2)
        if (moment === 'POST') openBefore.push(open.length)
        return undefined
      },
    })
    await runJobs(run)
    expect(openBefore).toHaveLength(3)
    expect(Math.max(...openBefore)).toBeLessThan(2)
    expect(done.at(-1)).toBe(3)
    expect(run.store.state().jobs.map(({ end }) => end?.status))
      .toEqual(['completed', 'completed', 'completed'])
  })

  it('joins job by job and stores its progress', async () => {
    const { messages, run } = await start()
    await runJobs(run)
    await joinResults(run)
    const text = readFileSync(`${output}.part`, 'utf8')
    expect(text.split('\n')[2]).toBe(`+12127365001,${verdictOf('+12127365001')},valid,,`)
    expect(run.store.state().joined).toEqual({
      jobs: 3,
      bytes: text.length,
      columns: ['e164', 'status', 'reason', 'duplicate_of'],
      byStatus: { valid: 3 },
    })
    expect(messages.at(-1)).toBe('Joined 3 of 3 jobs.')
  })
})

describe('the join of a submit run', () => {
  /** The error of the join of three jobs of one row, after a change. */
  async function joined (change: (run: Awaited<ReturnType<typeof start>>) => void) {
    const started = await start()
    await runJobs(started.run)
    change(started)
    return joinResults(started.run)
  }

  it.each([[0, 'only 0'], [2, 'more than 1']])(
    'fails when the result file of a job of one row has %i', async (rows, found) => {
      const inputs = new Array<string>(rows).fill('+12127365001')
      await expect(joined(({ service }) => Object.assign(service.jobs[1]!, { inputs }))).rejects
        .toThrow(new CommandError(
          `Job job_2 has 1 rows, but its result file has ${found}. Run the command again.`))
    })

  it('fails when the file has not the rows of a job', async () => {
    const fault = new CommandError(`${input} no longer has the 2 rows of job job_2: it has ` +
      'changed during the run. Restore it and run the command again.')
    await expect(joined(({ service, run }) => {
      run.store.updateJob(1, { rows: 2 })
      Object.assign(service.jobs[1]!, { inputs: ['+12127365001', '+12127365001'] })
    })).rejects.toThrow(fault)
  })

  it('fails when the file has no header line', async () => {
    await expect(joined(({ run: { store } }) => {
      store.update({ plan: { ...store.state().plan, header: { from: 0, to: 0 } } })
    })).rejects.toThrow(new CommandError(`${input} has lost its header line during the run. ` +
      'Restore it and run the command again.'))
  })
})

describe('a local stack', () => {
  it('is read from its folder, and is empty without a file', () => {
    writeFileSync(join(folder, 'stack.json'), '{"baseUrl":"http://a"}')
    expect(readLocalStack(folder)).toEqual({ baseUrl: 'http://a' })
    expect(readLocalStack(join(folder, 'none'))).toEqual({})
  })
})

describe('the connection to a local stack', () => {
  it('is reported', async () => {
    writeFileSync(join(folder, 'stack.json'),
      '{"baseUrl":"http://127.0.0.1:1/api/v1","keys":{"live":"k"}}')
    const messages: string[] = []
    const [one, two, three] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const context = { input: one, output: two, errors: three, env: {}, onInterrupt: () => {} }
    openConnection({ data: folder }, context, line => messages.push(line))
    expect(messages).toEqual([
      `Using the local stack of ${folder}/stack.json at http://127.0.0.1:1/api/v1.`,
    ])
    expect(createClientProgram(context).commands.map(command => command.name()))
      .toEqual([
        'submit', 'verify', 'status', 'cancel', 'erase', 'results', 'balance', 'usage',
        'transactions', 'services', 'mcp',
      ])
  })
})
