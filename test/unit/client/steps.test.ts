import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { joinParts } from '../../../services/client/join-parts.ts'
import { readLocalStack } from '../../../services/client/local-stack.ts'
import { openRun } from '../../../services/client/open-run.ts'
import { createClientProgram } from '../../../services/client/program.ts'
import { learnUnanswered, runJobs } from '../../../services/client/send-parts.ts'
import { openConnection } from '../../../services/client/surroundings.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, verdictOf } from './fake-service.ts'

const folder = newFolder('steps-')
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

async function begin () {
  const service = createFakeService()
  const said: string[] = []
  const done: number[] = []
  const parts = {
    client: service.client,
    say: (line: string) => { said.push(line) },
    progress: (progress: { done: number }) => { done.push(progress.done) },
    pollEveryMs: 0,
  }
  const store = await openRun(settings, parts)
  return { service, said, done, run: { settings, parts, store } }
}

describe('the steps of a run', () => {
  it('begin with a plan and a key for each job, and nothing sent', async () => {
    const { service, run: { store } } = await begin()
    expect(store.state().parts.map(({ firstRow, rows }) => [firstRow, rows]))
      .toEqual([[0, 1], [1, 1], [2, 1]])
    expect(new Set(store.state().parts.map(one => one.idempotencyKey)).size).toBe(3)
    expect(service.asked).toEqual(['GET /services'])
  })

  it('ask again only for jobs that may have been made', async () => {
    const { service, run } = await begin()
    await learnUnanswered(run)
    expect(service.jobs).toEqual([])
    run.store.updatePart(1, { sentAtMs: Date.now() })
    await learnUnanswered(run)
    expect(service.jobs.map(({ inputs }) => inputs)).toEqual([['+12127365001']])
    expect(run.store.state().parts.map(({ job }) => job)).toEqual([undefined, 'job_1', undefined])
  })

  it('send no more jobs at a time than allowed, and count the rows', async () => {
    const { service, done, run } = await begin()
    const openBefore: number[] = []
    service.change({
      at: moment => {
        const open = service.jobs.filter(({ looks }) => looks < 2)
        if (moment === 'POST') openBefore.push(open.length)
        return undefined
      },
    })
    await runJobs(run)
    expect(openBefore).toHaveLength(3)
    expect(Math.max(...openBefore)).toBeLessThan(2)
    expect(done.at(-1)).toBe(3)
    expect(run.store.state().parts.map(({ end }) => end?.status))
      .toEqual(['completed', 'completed', 'completed'])
  })

  it('join job by job, and note how far that is', async () => {
    const { said, run } = await begin()
    await runJobs(run)
    await joinParts(run)
    const text = readFileSync(`${output}.part`, 'utf8')
    expect(text.split('\n')[2]).toBe(`+12127365001,${verdictOf('+12127365001')},valid,,`)
    expect(run.store.state().joined).toEqual({
      parts: 3,
      bytes: text.length,
      columns: ['e164', 'status', 'reason', 'duplicate_of'],
      byStatus: { valid: 3 },
    })
    expect(said.at(-1)).toBe('Joined 3 of 3 jobs.')
  })
})

describe('a local stack', () => {
  it('is read from its folder, or there is none', () => {
    writeFileSync(join(folder, 'stack.json'), '{"baseUrl":"http://a"}')
    expect(readLocalStack(folder)).toEqual({ baseUrl: 'http://a' })
    expect(readLocalStack(join(folder, 'none'))).toEqual({})
  })
})

describe('a connection that is found by itself', () => {
  it('is told', async () => {
    writeFileSync(join(folder, 'stack.json'), '{"baseUrl":"http://a","keys":{"live":"k"}}')
    const said: string[] = []
    const [one, two, three] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const around = { input: one, output: two, errors: three, env: {}, onInterrupt: () => {} }
    openConnection({ data: folder }, around, line => said.push(line))
    expect(said).toEqual([`Using the local stack of ${folder}/stack.json at http://a.`])
    expect(createClientProgram(around).commands.map(command => command.name()))
      .toEqual(['submit', 'status', 'cancel', 'results', 'balance', 'services'])
  })
})
