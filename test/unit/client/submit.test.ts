import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { CommandError, UsageError } from '../../../services/client/command-error.ts'
import { renameDurably } from '../../../services/client/private-file.ts'
import type { RunState, RunStore } from '../../../services/client/run-state.ts'
import type { SubmitParts, SubmitSettings } from '../../../services/client/submit-settings.ts'
import { interruptRun, submitFile } from '../../../services/client/submit.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, refusal, verdictOf, type Moment } from './fake-service.ts'

const folder = newFolder('submit-')
afterAll(() => rmSync(folder, { recursive: true }))

const input = join(folder, 'contacts.csv')
const output = join(folder, 'verified.csv')
const stateFile = `${output}.progress.json`
const HEADER = 'Name;Phone;Status'
const LINES = Array.from({ length: 10 }, (_, row) => `"Name; ${row}";+1212736500${row};x`)

beforeEach(() => {
  for (const file of [output, stateFile, `${output}.part`]) rmSync(file, { force: true })
  writeFileSync(input, `${[HEADER, ...LINES].join('\r\n')}\r\n`)
})

const settings: SubmitSettings = {
  input,
  output,
  service: 'phone-validation',
  forceFresh: false,
  metadata: {},
  guarded: false,
  rowsPerJob: 4,
  parallel: 2,
  restart: false,
  yes: true,
  account: { baseUrl: 'http://there', key: 'abc' },
}

type Service = ReturnType<typeof createFakeService>

function run (service: Service, more: Partial<SubmitSettings> = {}, parts = {}) {
  const said: string[] = []
  const all: SubmitParts = {
    client: service.client,
    say: line => { said.push(line) },
    pause: async () => {},
    pollEveryMs: 0,
    ...parts,
  }
  return { said, done: submitFile({ ...settings, ...more }, all) }
}

const stateNow = () => JSON.parse(readFileSync(stateFile, 'utf8')) as RunState
const expected = [
  `${HEADER};e164;verified_status;reason;duplicate_of`,
  ...LINES.map((line, row) => {
    const [first] = [0, 4, 8].filter(start => start <= row).slice(-1) as [number]
    const original = row > first ? String(first + 1) : ''
    return `${line};${verdictOf(`+1212736500${row}`)};valid;;${original}`
  }),
].map(line => `${line}\r\n`).join('')

describe('a file that is submitted', () => {
  it('comes back with its lines as they were, and the results behind them', async () => {
    const service = createFakeService()
    const { said, done } = run(service, { country: 'US', metadata: { list: 'a' } })
    expect(await done).toEqual({
      output,
      rows: 10,
      byStatus: { valid: 10 },
      chargedMicros: 50,
      releasedMicros: 0,
      jobs: [4, 4, 2].map((rows, index) => ({ id: `job_${index + 1}`, status: 'completed', rows })),
      completed: true,
    })
    expect(readFileSync(output, 'utf8')).toBe(expected)
    expect(existsSync(stateFile) || existsSync(`${output}.part`)).toBe(false)
    expect(service.jobs[0]?.body).toEqual({
      service: 'phone-validation',
      inputs: [0, 1, 2, 3].map(row => `+1212736500${row}`),
      countryCode: 'US',
      forceFresh: false,
      metadata: { list: 'a' },
    })
    expect(said).toContain('Contacts are taken from the column Phone.')
    expect(said).toContain('Maximum price: $0.00005. Balance: $1,000.00 available.')
  })

  it('has the columns that were asked for, guarded when asked to', async () => {
    writeFileSync(input, 'note,phone\n=1+1,+12127365000\n"a\nb",-1\n')
    await run(createFakeService(), { only: 'reason,status', guarded: true, column: 'PHONE' }).done
    expect(parse(readFileSync(output))).toEqual([
      ['note', 'phone', 'reason', 'status'],
      ["'=1+1", '+12127365000', '', 'valid'], ['a\nb', '-1', '', 'valid'],
    ])
  })
})

class Killed extends Error {}

const kills: readonly (readonly [Moment | 'rename', number])[] = [
  ['quote', 2], ['POST', 1], ['POST', 2], ['after POST', 1], ['after POST', 3], ['wait', 1],
  ['wait', 4], ['download', 1], ['download', 3], ['rename', 1],
]

describe('a run that is ended', () => {
  it.each(kills)('at %s, number %i, goes on with one job a slice', async (name, number) => {
    const kill = (moment: Moment, times: number) =>
      moment === name && times === number ? new Killed() : undefined
    const service = createFakeService({ at: kill })
    const rename = (from: string, to: string) => {
      if (name === 'rename') throw new Killed()
      renameDurably(from, to)
    }
    await expect(run(service, {}, { rename }).done).rejects.toThrow(Killed)
    expect(existsSync(output)).toBe(false)
    service.change({})
    const { completed, chargedMicros } = await run(service).done
    expect([completed, chargedMicros]).toEqual([true, 50])
    expect(service.jobs.map(({ inputs }) => inputs.length)).toEqual([4, 4, 2])
    expect(readFileSync(output, 'utf8')).toBe(expected)
    expect(existsSync(stateFile)).toBe(false)
  })

  it('between its last two steps has nothing left to do but to clean up', async () => {
    const service = createFakeService()
    const rename = (from: string, to: string) => {
      renameDurably(from, to)
      throw new Killed()
    }
    await expect(run(service, {}, { rename }).done).rejects.toThrow(Killed)
    const before = service.asked.length
    expect(await run(service).done).toMatchObject({ rows: 10, byStatus: { valid: 10 } })
    expect(service.asked.length).toBe(before)
    expect(existsSync(stateFile)).toBe(false)
  })

  it('keeps the keys where nobody else reads them, before anything is sent', async () => {
    const at = (moment: Moment) => {
      if (moment !== 'POST') return undefined
      expect(stateNow().parts[0]).toMatchObject({ sentAtMs: expect.any(Number), agreedMicros: 20 })
      expect(statSync(stateFile).mode & 0o777).toBe(0o600)
      return new Killed()
    }
    const service = createFakeService({ at })
    await expect(run(service).done).rejects.toThrow(Killed)
    const key = stateNow().parts[0]?.idempotencyKey
    service.change({})
    await run(service).done
    expect(service.jobs[0]?.key).toBe(key)
  })

  it('joins anew when somebody removed what was joined', async () => {
    const at = (moment: Moment, times: number) =>
      moment === 'download' && times === 2 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service).done).rejects.toThrow(Killed)
    expect(stateNow().joined.parts).toBe(1)
    rmSync(`${output}.part`)
    service.change({})
    expect((await run(service).done).byStatus).toEqual({ valid: 10 })
    expect(readFileSync(output, 'utf8')).toBe(expected)
  })

  it('does not go on with another file, other options or a stranger\'s key', async () => {
    const at = (moment: Moment, times: number) =>
      moment === 'wait' && times === 1 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { parallel: 1 }).done).rejects.toThrow(Killed)
    service.change({})
    await expect(run(service, { service: 'email-validation', country: 'DE' }).done).rejects
      .toThrow('--service was phone-validation and is email-validation; --country was not given ' +
        'and is DE. Run the same command on the same file to go on, or begin anew with --restart')
    const stranger = createFakeService()
    const account = { baseUrl: 'http://there', key: 'other' }
    await expect(run(stranger, { account }).done).rejects
      .toThrow('job_1 does not belong to this key')
    writeFileSync(input, 'phone\n1\n')
    await expect(run(service).done).rejects.toThrow('The input is not the file')
    expect(service.jobs).toHaveLength(1)
    writeFileSync(input, `${[HEADER, ...LINES].join('\r\n')}\r\n`)
    await run(service, { account }).done
    expect(readFileSync(output, 'utf8')).toBe(expected)
  })

  it('begins anew when told to', async () => {
    const at = (moment: Moment, times: number) =>
      moment === 'wait' && times === 1 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { parallel: 1 }).done).rejects.toThrow(Killed)
    service.change({})
    const { said, done } = run(service, { restart: true, rowsPerJob: 100 })
    expect((await done).jobs.map(({ id }) => id)).toEqual(['job_2'])
    expect(said).toContain('Jobs of an earlier run go on and are paid: job_1')
  })

  it('does not send again what the service may have forgotten', async () => {
    const at = (moment: Moment) => moment === 'after POST' ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service).done).rejects.toThrow(Killed)
    service.change({})
    const now = () => Date.now() + 24 * 3_600_000
    await expect(run(service, {}, { now }).done).rejects
      .toThrow('Rows 1 to 4 were sent 24 h 0 min ago and no answer came')
    expect(service.jobs).toHaveLength(1)
    await run(service).done
    expect(service.jobs).toHaveLength(3)
  })

  it('tells what goes on without it', async () => {
    let store: RunStore | undefined
    const at = (moment: Moment) => moment === 'wait' ? new Killed() : undefined
    const parts = { onRun: (given: RunStore) => { store = given } }
    await expect(run(createFakeService({ at }), {}, parts).done).rejects.toThrow(Killed)
    expect(interruptRun(settings)).toBe('Interrupted. Nothing was sent, and nothing is paid.')
    expect(existsSync(stateFile)).toBe(true)
    expect(interruptRun(settings, store).split('\n')).toEqual([
      'Interrupted. Run the same command again to go on; nothing is paid twice.',
      `What is needed for that is in ${stateFile}.`,
      'On the service these jobs go on and are paid: job_1, job_2. "verification-jobs cancel ' +
        'JOB" ends one.',
    ])
  })
})

describe('the price', () => {
  const asking = (answer: boolean) => {
    const questions: string[] = []
    const ask = async (question: string) => {
      questions.push(question)
      return answer
    }
    return { questions, ask }
  }

  it('is asked for once, before anything is sent', async () => {
    const { questions, ask } = asking(true)
    const at = (moment: Moment, times: number) =>
      moment === 'POST' && times === 2 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { yes: false }, { ask }).done).rejects.toThrow(Killed)
    expect(questions).toEqual(['Verify for at most $0.00005? [y/N] '])
    service.change({})
    await run(service, { yes: false }, { ask }).done
    expect(questions).toHaveLength(1)
  })

  it('is asked for again when it has risen', async () => {
    const { questions, ask } = asking(true)
    const at = (moment: Moment, times: number) =>
      moment === 'POST' && times === 2 ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(run(service, { yes: false, parallel: 1 }, { ask }).done).rejects.toThrow(Killed)
    service.change({ priceMicros: 7 })
    await run(service, { yes: false }, { ask }).done
    expect(questions[1]).toBe('Verify for at most $0.000014? [y/N] ')
  })

  it('that is declined leaves nothing behind', async () => {
    const service = createFakeService()
    await expect(run(service, { yes: false }, { ask: asking(false).ask }).done).rejects
      .toThrow(new CommandError('Nothing more was sent, and nothing paid for it.'))
    expect([service.jobs, existsSync(stateFile)]).toEqual([[], false])
  })

  it('cannot be agreed to where nobody is asked', async () => {
    await expect(run(createFakeService(), { yes: false }).done).rejects.toThrow(UsageError)
  })

  it('above the balance is told with what is missing', async () => {
    const service = createFakeService({ availableMicros: 20 })
    await expect(run(service).done).rejects.toThrow('402 insufficient_balance: the maximum price ' +
      'is $0.00005 and $0.00002 is available; $0.00003 is missing')
    const later = createFakeService({
      at: (moment, times) => moment === 'POST' && times === 2
        ? refusal(402, {
          code: 'insufficient_balance', message: 'm', requiredMicros: 20, availableMicros: 1,
        })
        : undefined,
    })
    await expect(run(later).done).rejects.toThrow('$0.000019 is missing')
    later.change({})
    await run(later, {}, { now: () => Date.now() + 48 * 3_600_000 }).done
    expect(later.jobs).toHaveLength(3)
  })
})

describe('what goes wrong', () => {
  it('for a while is tried again', async () => {
    const refused = refusal(429, { code: 'concurrent_jobs_limit', message: 'm' })
    const service = createFakeService({
      at: (moment, times) => {
        if (moment === 'POST' && times < 3) return refused.clone()
        if (moment === 'after POST' && times === 1) return new TypeError('fetch failed')
        if (moment === 'wait' && times === 2) return refusal(503, { code: 'c', message: 'm' })
        return moment === 'download' && times === 2 ? new TypeError('terminated') : undefined
      },
    })
    const { said, done } = run(service)
    expect((await done).completed).toBe(true)
    expect(service.jobs).toHaveLength(3)
    expect(readFileSync(output, 'utf8')).toBe(expected)
    expect(said.filter(line => line.includes('waiting for one to end'))).toHaveLength(1)
  })

  it('with a job is told by the summary', async () => {
    const summary = await run(createFakeService({ endAs: 'cancelled' })).done
    expect([summary.completed, summary.jobs[0]?.status]).toEqual([false, 'cancelled'])
    expect(readFileSync(output, 'utf8')).toBe(expected)
  })

  it.each<[string, Partial<SubmitSettings>, string]>([
    ['an output that is there', { output: input.replace('contacts', 'other') }, 'is there already'],
    ['the input as output', { output: input }, 'would replace the input'],
    ['a service that is not for the key', { service: 'whatsapp' }, 'may not use whatsapp'],
    ['a column that is not there', { column: 'Tel' }, 'There are: Name, Phone, Status.'],
    ['a column that no result has', { only: 'status,colour' }, 'there is no colour'],
    ['no file', { input: join(folder, 'none.csv') }, 'There is no file'],
    ['a folder', { input: folder }, 'is no file'],
  ])('%s is refused before anything is sent', async (...[, more, why]) => {
    writeFileSync(join(folder, 'other.csv'), 'here')
    const service = createFakeService()
    await expect(run(service, more).done).rejects.toThrow(why)
    expect(service.jobs).toEqual([])
  })

  it('a file that changes while it is verified is noticed', async () => {
    const at = (moment: Moment, times: number) => {
      if (moment !== 'download' || times > 1) return undefined
      writeFileSync(input, readFileSync(input, 'utf8').replaceAll('65', '66'))
      return undefined
    }
    await expect(run(createFakeService({ at })).done).rejects.toThrow('changed meanwhile')
  })
})
