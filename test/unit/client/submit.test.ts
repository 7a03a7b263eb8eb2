import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Run, SubmitSettings } from '../../../services/client/run.ts'
import { interruptRun, submitFile } from '../../../services/client/submit.ts'
import { CommandError } from '../../../services/client/terminal.ts'
import { newFolder } from '../../support/folder.ts'
import { rowOf, workbookOf } from '../../support/workbooks.ts'
import {
  createFakeService, type FakeService, type Moment, refusal, verdictOf,
} from './fake-service.ts'

const folder = newFolder('submit-')

const input = join(folder, 'contacts.csv')
const output = join(folder, 'verified.csv')
const stateFile = `${output}.progress.json`
const HEADER = 'Name;Phone;Status'
const LINES = Array.from({ length: 10 }, (_, row) => `"Name; ${row}";+1212736500${row};x`)
const TABLE = `${[HEADER, ...LINES].join('\r\n')}\r\n`

beforeEach(() => {
  for (const file of [output, stateFile, `${output}.part`]) rmSync(file, { force: true })
  writeFileSync(input, TABLE)
})

const settings: SubmitSettings = {
  input,
  output,
  service: 'phone-validation',
  metadata: {},
  rowsPerJob: 4,
  parallel: 2,
  yes: true,
  account: { baseUrl: 'http://there', key: 'abc' },
}

type Deps = Parameters<typeof submitFile>[1]
type State = Run['store']['state']

/** Submits the file; what the command said so far is in `messages`. */
function submit (
  service: FakeService, more: Partial<SubmitSettings> = {}, deps: Partial<Deps> = {}
) {
  const messages: string[] = []
  const done = submitFile({ ...settings, ...more }, {
    client: service.client,
    say: line => { messages.push(line) },
    pause: async () => {},
    pollEveryMs: 0,
    ...deps,
  })
  return Object.assign(done, { messages })
}

class Killed extends Error {}

/** A service at which the command dies at the n-th occurrence of a moment. */
const killing = (name: Moment, number = 1) => createFakeService({
  at: (moment, times) => moment === name && times === number ? new Killed() : undefined,
})

/** A service after a run that died at this moment. */
async function interrupted (
  name: Moment, number = 1, more: Partial<SubmitSettings> = {}, deps: Partial<Deps> = {}
): Promise<FakeService> {
  const service = killing(name, number)
  await expect(submit(service, more, deps)).rejects.toThrow(Killed)
  service.change({})
  return service
}

const readState = () => JSON.parse(readFileSync(stateFile, 'utf8')) as State
const readOutput = () => readFileSync(output, 'utf8')
const expected = [
  `${HEADER};e164;verified_status;reason;duplicate_of`,
  ...LINES.map((line, row) => {
    const first = [0, 4, 8].findLast(start => start <= row) ?? 0
    return `${line};${verdictOf(`+1212736500${row}`)};valid;;${row > first ? first + 1 : ''}`
  }),
].map(line => `${line}\r\n`).join('')

describe('a submitted file', () => {
  it('is copied line by line with the results appended, after the price was shown', async () => {
    const preflight = { invalidRows: 100, duplicateRows: 200, cacheHits: 300, freshChecks: 900 }
    const service = createFakeService({ preflight })
    const done = submit(service, { metadata: { list: 'a' } })
    expect(await done).toEqual({
      output,
      rows: 10,
      byStatus: { valid: 10 },
      chargedMicros: 50,
      releasedMicros: 0,
      jobs: [4, 4, 2].map((rows, index) => ({ id: `job_${index + 1}`, status: 'completed', rows })),
      completed: true,
    })
    expect(readOutput()).toBe(expected)
    expect(existsSync(stateFile) || existsSync(`${output}.part`)).toBe(false)
    const inputs = [0, 1, 2, 3].map(row => `+1212736500${row}`)
    expect(service.jobs[0]?.body).toEqual({
      service: 'phone-validation', inputs, forceFresh: false, metadata: { list: 'a' },
    })
    expect(done.messages).toEqual([
      'Column "Phone": 10 of 10 cells look like phone numbers, and it is named so.',
      ...[1, 2, 3].map(done => `Quoted ${done} of 3 jobs.`),
      '10 rows in 3 jobs:',
      '  invalid                      300  free',
      '  duplicates                   600  free',
      '  cached                       900  free while cached',
      '  to verify                  2,700  charged for a verdict',
      'Maximum price: $0.00005. Balance: $1,000.00 available.',
      'Numbers in national form (without + and country code) are invalid unless --country names ' +
        'their country, for example --country DE.',
      'Limitations: the verdict is about the range of the number, not about the number itself.',
      ...[1, 2, 3].map(joined => `Joined ${joined} of 3 jobs.`),
    ])
  })

  it('sends the deadline of its jobs, and says what waits and how to end it', async () => {
    const estimatedEndAt = '2026-08-11T10:05:00.000Z'
    const waiting = { rows: 1, reasons: { greylisted: 1 }, estimatedEndAt }
    const service = createFakeService({ waiting: { waiting, deadline: null } })
    const shown: unknown[] = []
    const done = submit(service, { deadline: 3_600, rowsPerJob: 5, country: 'US' }, {
      progress: progress => { shown.push(progress.waiting) },
    })
    await done
    expect(service.jobs.map(({ body }) => body['deadline'])).toEqual([3_600, 3_600])
    // Of the jobs that wait at that moment.
    expect(shown).toContainEqual({
      rows: expect.toBeOneOf([1, 2]), untilMs: Date.parse(estimatedEndAt),
    })
    expect(shown.at(-1)).toBeUndefined()
    expect(done.messages.filter(line => line.includes('verification-jobs cancel JOB')))
      .toHaveLength(1)
  })

  it('has at most `parallel` jobs at a time, and counts its rows', async () => {
    const done: number[] = []
    const open: number[] = []
    const service = createFakeService({
      at: moment => {
        if (moment === 'POST') open.push(service.jobs.filter(({ polls }) => polls < 2).length)
        return undefined
      },
    })
    const progress = (now: { readonly done: number }) => { done.push(now.done) }
    await submit(service, { rowsPerJob: 1, country: 'US' }, { progress })
    expect([open.length, Math.max(...open), done.at(-1)]).toEqual([10, 1, 10])
    expect(service.jobs[0]?.body).toMatchObject({ countryCode: 'US' })
  })

  it('has the columns of the options of its jobs, where they are wanted', async () => {
    const options = { rowsPerJob: 100, only: 'status,reassigned_number' }
    await expect(submit(createFakeService(), options))
      .rejects.toThrow('there is no reassigned_number')
    await submit(createFakeService(), { ...options, options: ['reassigned_number:2026-01-31'] })
    expect(readOutput()).toContain(`${HEADER};verified_status;reassigned_number\r\n`)
    expect(readOutput()).toContain(`${LINES[0]};valid;true\r\n`)
  })

  it('has the wanted lines only, and is resumed with the same filters', async () => {
    const clean = { rowsPerJob: 100, status: ['valid'], dropDuplicates: true, only: 'status' }
    const service = await interrupted('wait', 1, clean)
    await expect(submit(service, { ...clean, dropDuplicates: false })).rejects
      .toThrow('--drop-duplicates was given and is not given')
    expect((await submit(service, clean)).rows).toBe(10)
    expect(readOutput()).toBe(`${HEADER};verified_status\r\n${LINES[0]};valid\r\n`)
    await submit(createFakeService(), { ...clean, status: ['risky'], restart: true })
    expect(readOutput()).toBe(`${HEADER};verified_status\r\n`)
  })
})

describe('one line for each mailbox', () => {
  const mails = 'mail\nA@x.org\na@x.org\nb@x.org\nB@X.org\n'
  const clean = {
    service: 'email-validation', onePerMailbox: true, only: 'status', rowsPerJob: 3, restart: true,
  }

  it('is the first of its job, of those with a wanted verdict, and is resumed so', async () => {
    writeFileSync(input, mails)
    await submit(createFakeService(), clean)
    expect(readOutput()).toBe('mail,status\nA@x.org,valid\nb@x.org,valid\nB@X.org,valid\n')
    await submit(createFakeService(), { ...clean, status: ['risky'] })
    expect(readOutput()).toBe('mail,status\n')
    rmSync(output)
    const service = await interrupted('wait', 1, { ...clean, restart: false })
    await expect(submit(service, { ...clean, restart: false, onePerMailbox: false })).rejects
      .toThrow('--one-per-mailbox was given and is not given')
  })

  it('is refused before a job is sent where numbers are verified', async () => {
    const service = createFakeService()
    await expect(submit(service, { onePerMailbox: true })).rejects
      .toThrow('--one-per-mailbox is for e-mail addresses, and phone-validation checks')
    expect(service.jobs).toEqual([])
  })
})

describe('ids of a column', () => {
  const file = 'Id;phone\nk-1;+12127365000\n;+12127365001\nä;x\n'
  const own = { idColumn: 'id', column: 'phone', restart: true }

  it.each([
    ['CSV', 'k-1;+12127365000;valid', file],
    ['a workbook', 'k-1,+12127365000,valid', workbookOf({
      rows: `${rowOf(1, 'Id', 'phone')}${rowOf(2, 'k-1', '+12127365000')}` +
        `${rowOf(3, '', '+12127365001')}${rowOf(4, 'ä', 'x')}`,
    })],
  ])('of %s go with their contacts', async (_kind, line, bytes) => {
    writeFileSync(input, bytes)
    const service = createFakeService()
    await submit(service, { ...own, rowsPerJob: 2, only: 'status' })
    expect(readOutput()).toContain(line)
    expect(service.jobs.map(({ body }) => body['inputs'])).toEqual([
      [{ input: '+12127365000', id: 'k-1' }, { input: '+12127365001', id: '' }],
      [{ input: 'x', id: 'ä' }],
    ])
  })

  it.each([
    ['k'.repeat(129), 'The id of row 2 has 129 characters. An id has at most 128'],
    ['"a\nb"', 'The id of row 2 contains a line break'],
  ])('are checked before anything is sent: %j', async (id, why) => {
    writeFileSync(input, `id;phone\n${'\u{1f600}'.repeat(128)};+12127365000\n${id};+12127365001\n`)
    const service = createFakeService()
    await expect(submit(service, own)).rejects.toThrow(why)
    await expect(submit(service, { ...own, idColumn: 'key' })).rejects
      .toThrow('The file has no column key.')
    expect(service.jobs).toEqual([])
  })
})

describe('a line of the output', () => {
  /** The output for a file, as bytes; the reason of each row needs quotes. */
  async function join (file: string | Buffer, more: Partial<SubmitSettings> = {}) {
    writeFileSync(input, file)
    await submit(createFakeService({ reason: 'völlig; "gut"' }), {
      column: '#1', only: 'duplicate_of,reason', restart: true, rowsPerJob: 100, ...more,
    })
    return readFileSync(output)
  }

  const cell = fc.string({ unit: fc.constantFrom(...'ab1 ,;\t"\r\n=+-@ü€') })
  const table = fc.record({
    rows: fc.array(fc.array(cell, { minLength: 2, maxLength: 4 }), { minLength: 2, maxLength: 8 }),
    delimiter: fc.constantFrom(',', ';', '\t', '|'),
    end: fc.constantFrom('\r\n', '\n'),
    mark: fc.constantFrom('', '\ufeff'),
    isLastEnded: fc.boolean(),
  })

  it('has the contact of a column without a name', async () => {
    expect((await join(',note\n+12127365000,a\n', { only: 'reason' })).toString())
      .toBe(',note,reason\n+12127365000,a,"völlig; ""gut"""\n')
  })

  it('keeps every cell of any table, and its own bytes', async () => {
    await fc.assert(fc.asyncProperty(table, async ({ rows, delimiter, end, mark, isLastEnded }) => {
      const all = [['n', 'm', 'o', 'p'], ...rows]
      const quoted = (cell: string) => `"${cell.replaceAll('"', '""')}"`
      const lines = all.map((cells, row) => cells.map(row === 0 ? String : quoted).join(delimiter))
      const joined = (await join(mark + lines.join(end) + (isLastEnded ? end : ''), {
        rowsPerJob: 3,
      })).toString()
      expect(joined.startsWith(mark)).toBe(true)
      const [header, ...records] = parse(joined, { delimiter, bom: true })
      expect(header).toEqual(['n', 'm', 'o', 'p', 'duplicate_of', 'reason'])
      expect(records).toEqual(rows.map((cells, row) => [
        ...cells, ...Array(4 - cells.length).fill(''),
        row % 3 === 0 ? '' : String(row - row % 3 + 1), 'völlig; "gut"',
      ]))
      let at = 0
      for (const line of lines) {
        at = joined.indexOf(line, at) + line.length
        expect(at).toBeGreaterThanOrEqual(line.length)
      }
    }), { numRuns: 60 })
  })

  const N = '"völlig; ""gut"""'
  it.each<[what: string, file: string, output: string]>([
    ['sep= first', '\ufeffsep=;\r\nn;m\r\n1;2\r\n',
      `\ufeffsep=;\r\nn;m;duplicate_of;reason\r\n1;2;;${N}\r\n`],
    ['a quoted sep= first', '"sep=|"\nn|m\n1|2', `"sep=|"\nn|m|duplicate_of|reason\n1|2||${N}\n`],
    ['CR of a file without LF', 'n;m\r1;2\r', `n;m;duplicate_of;reason\r1;2;;${N}\r`],
    ['no lone CR beside LF', 'n;m\r1;2\r3;4\n', `n;m;duplicate_of;reason\n1;2;;${N}\n3;4;1;${N}\n`],
    ['no CR CR LF', 'sep=;\r\r\nn;m\r\r\n1;2\r\r\n\r\r\n3;4\r\r\n',
      `sep=;\r\nn;m;duplicate_of;reason\r\n1;2;;${N}\r\n;;1;${N}\r\n3;4;1;${N}\r\n`],
    ['blank lines between rows only', '\n""\nn;m\n\n1;2\n""\n3;4\n\n""',
      `n;m;duplicate_of;reason\n;;;${N}\n1;2;1;${N}\n"";;1;${N}\n3;4;1;${N}\n`],
    ['inch marks', 'n;m\n13";2\n', `n;m;duplicate_of;reason\n13";2;;${N}\n`],
  ])('has %s', async (_what, file, joined) => {
    expect((await join(file)).toString()).toBe(joined)
  })

  it('keeps the bytes of a file that is not UTF-8', async () => {
    expect((await join(Buffer.from('n;m\nM\xfcller;\x80\n', 'latin1'))).toString('latin1'))
      .toBe('n;m;duplicate_of;reason\nM\xfcller;\x80;;"v\xf6llig; ""gut"""\n')
  })

  it('has its formulas escaped on request', async () => {
    const file = 'n,m\n=1,"+a,b"\n+1 2,"ü\nb"\n'
    expect((await join(file, { safe: 'spreadsheet', only: 'status' })).toString())
      .toBe('n,m,status\n\'=1,"\'+a,b",valid\n+1 2,"ü\nb",valid\n')
    expect(readFileSync(input, 'utf8')).toBe(file)
  })
})

const kills: readonly (readonly [Moment, number])[] = [
  ['quote', 2], ['POST', 1], ['POST', 2], ['after POST', 1], ['after POST', 3], ['wait', 1],
  ['wait', 4], ['download', 1], ['download', 3],
]

describe('an interrupted submit run', () => {
  it.each(kills)('at %s number %i resumes with one job per range of rows', async (...moment) => {
    const service = await interrupted(...moment)
    expect(existsSync(output)).toBe(false)
    const { completed, chargedMicros } = await submit(service)
    expect([completed, chargedMicros]).toEqual([true, 50])
    expect(service.jobs.map(({ inputs }) => inputs.length)).toEqual([4, 4, 2])
    expect([readOutput(), existsSync(stateFile)]).toEqual([expected, false])
  })

  it.each([true, false])('at the rename (done: %s) sends nothing more', async isDone => {
    const service = createFakeService()
    let state = ''
    const run = submit(service, {}, {
      say: line => {
        if (line !== 'Joined 3 of 3 jobs.') return
        state = readFileSync(stateFile, 'utf8')
        if (!isDone) throw new Killed()
      },
    })
    if (!isDone) await expect(run).rejects.toThrow(Killed)
    await run.catch(() => {})
    // A run that died behind the rename has left its state.
    writeFileSync(stateFile, state)
    const sent = service.requests.length
    expect(await submit(service)).toMatchObject({ rows: 10, byStatus: { valid: 10 } })
    expect([service.requests.length, readOutput(), existsSync(stateFile)])
      .toEqual([sent, expected, false])
  })

  it('has stored its keys privately before it sent anything', async () => {
    const service = createFakeService({
      at: moment => {
        if (moment !== 'POST') return undefined
        expect(readState().jobs[0])
          .toMatchObject({ sentAtMs: expect.any(Number), confirmedMicros: 20 })
        expect(statSync(stateFile).mode & 0o777).toBe(0o600)
        return new Killed()
      },
    })
    await expect(submit(service)).rejects.toThrow(Killed)
    const { jobs } = readState()
    expect(new Set(jobs.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(3)
    service.change({})
    await submit(service)
    expect(service.jobs[0]?.key).toBe(jobs[0]?.idempotencyKey)
  })

  it('joins all jobs again when the unfinished output was removed', async () => {
    const service = await interrupted('download', 2)
    expect(readState().joined.jobs).toBe(1)
    rmSync(`${output}.part`)
    expect((await submit(service)).byStatus).toEqual({ valid: 10 })
    expect(readOutput()).toBe(expected)
  })

  it('does not resume with another file, other options or the key of another tenant', async () => {
    const service = await interrupted('wait', 1, { parallel: 1 })
    await expect(submit(service, { service: 'email-validation', country: 'DE' })).rejects
      .toThrow('--service was phone-validation and is email-validation; --country was not given ' +
        'and is DE. To resume, run the original command on the original file; or start over with ' +
        '--restart')
    const account = { baseUrl: 'http://there', key: 'other' }
    await expect(submit(createFakeService(), { account })).rejects
      .toThrow('this key cannot read its job job_1')
    writeFileSync(input, 'phone\n1\n')
    await expect(submit(service)).rejects.toThrow('is not the file of the unfinished run')
    expect(service.jobs).toHaveLength(1)
    writeFileSync(input, TABLE)
    await submit(service, { account })
    expect(readOutput()).toBe(expected)
  })

  it('does not resume with another key before it is known whether a job was created', async () => {
    const service = await interrupted('after POST')
    await expect(submit(service, { account: { baseUrl: 'http://here', key: 'abc' } })).rejects
      .toThrow('it is unknown whether a job was created')
  })

  it('starts over with --restart', async () => {
    const service = await interrupted('wait', 1, { parallel: 1 })
    const done = submit(service, { restart: true, rowsPerJob: 100 })
    expect((await done).jobs.map(({ id }) => id)).toEqual(['job_2'])
    expect(done.messages).toContain('Jobs of the earlier run continue and will be charged: job_1')
  })

  it('says with --restart that a request without a response may have created a job', async () => {
    const done = submit(await interrupted('after POST'), { restart: true })
    await done
    expect(done.messages).toContain('A request of the earlier run has no response: if the ' +
      'service created its job, which GET /api/v1/jobs lists, that continues and will be charged.')
  })

  it.each(['{"version":2}', '{"ver'])('does not resume from the state %s', async text => {
    writeFileSync(stateFile, text)
    const service = createFakeService()
    await expect(submit(service)).rejects.toThrow('or start over with --restart')
    expect((await submit(service, { restart: true })).completed).toBe(true)
  })

  it('does not repeat a request whose key the service may have expired', async () => {
    const service = await interrupted('after POST')
    const laterBy = (hours: number) => ({ now: () => Date.now() + hours * 3_600_000 })
    service.change({ at: moment => moment === 'after POST' ? new Killed() : undefined })
    // The age of the key counts from the first request.
    await expect(submit(service, {}, laterBy(12))).rejects.toThrow(Killed)
    service.change({})
    await expect(submit(service, {}, laterBy(24))).rejects
      .toThrow('rows 1 to 4 was sent 24 h 0 min ago and its response was lost')
    expect(service.jobs).toHaveLength(1)
    await submit(service)
    expect(service.jobs).toHaveLength(3)
  })

  it.each([
    [401, 'revoked_key'], [403, 'address_not_allowed'], [429, 'rate_limited'], [400, 'unknown'],
  ])('sends the same request after an answer %i %s, which does not concern it', async (
    status, code
  ) => {
    const service = await interrupted('after POST')
    service.change({
      at: moment => moment === 'POST' ? refusal(status, { code, message: 'm' }) : undefined,
    })
    let hours = 0
    const now = () => Date.now() + hours++ * 3_600_000
    await expect(submit(service, {}, { now })).rejects.toThrow(code)
    service.change({})
    await submit(service)
    expect(service.jobs.map(({ inputs }) => inputs.length)).toEqual([4, 4, 2])
  })

  it('is not resumed while another process works on it', async () => {
    const service = await interrupted('wait')
    const other = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000); console.log(1)'])
    await once(other.stdout, 'data')
    const pid = other.pid ?? 0
    const started = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)]).toString().trim()
    const lockAs = (lock: object) =>
      writeFileSync(stateFile, JSON.stringify({ ...readState(), lock }))
    lockAs({ pid, started })
    for (const restart of [false, true]) {
      await expect(submit(service, { restart })).rejects
        .toThrow(`Process ${pid} already works on this output (${stateFile})`)
    }
    // Its id belonged to another process before the machine was restarted.
    lockAs({ pid, started: 'before' })
    service.change({ at: moment => moment === 'wait' ? new Killed() : undefined })
    await expect(submit(service)).rejects.toThrow(Killed)
    expect(readState().lock.pid).toBe(process.pid)
    lockAs({ pid, started })
    other.kill('SIGKILL')
    await once(other, 'exit')
    service.change({})
    expect((await submit(service)).completed).toBe(true)
  })

  it('is started by one of two processes, which alone sends jobs', async () => {
    const service = createFakeService()
    const runs = await Promise.allSettled([submit(service), submit(service)])
    expect(runs.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect(service.jobs).toHaveLength(3)
    expect(runs.find(run => run.status === 'rejected')?.reason)
      .toMatchObject({ message: expect.stringContaining('Another process has just created') })
    expect(readOutput()).toBe(expected)
    rmSync(output)
    const services = async () => {
      // The other process has ended before this one begins.
      await submit(service)
      return await service.client.services()
    }
    await expect(submit(service, {}, { client: { ...service.client, services } })).rejects
      .toThrow('already exists')
    expect(service.jobs).toHaveLength(6)
  })

  it('reports the jobs that continue', async () => {
    let store: Run['store'] | undefined
    const at = (moment: Moment) => moment === 'wait' ? new Killed() : undefined
    const service = createFakeService({ at })
    await expect(submit(service, {}, { onRun: opened => { store = opened } })).rejects
      .toThrow(Killed)
    expect(interruptRun(settings)).toBe('Interrupted. No job was sent, nothing will be charged.')
    expect(existsSync(stateFile)).toBe(true)
    expect(interruptRun(settings, store).split('\n')).toEqual([
      'Interrupted. Run the same command again to resume; nothing is paid twice.',
      `The state of the run is in ${stateFile}.`,
      'These jobs continue and will be charged: job_1, job_2. "verification-jobs cancel JOB" ' +
        'cancels one.',
    ])
  })
})

describe('the maximum price of a submission', () => {
  const prompt = (answer: boolean) => {
    const questions: string[] = []
    const confirm = async (question: string) => {
      questions.push(question)
      return answer
    }
    return { questions, confirm }
  }

  it.each([[5, undefined], [7, 'Verify for at most $0.000014? [y/N] ']])(
    'is confirmed before anything is sent, again only when it rises: %i', async (...row) => {
      const [priceMicros, again] = row
      const { questions, confirm } = prompt(true)
      const run = { yes: false, parallel: 1 }
      const service = await interrupted('POST', 2, run, { confirm })
      expect(questions).toEqual(['Verify for at most $0.00005? [y/N] '])
      service.change({ priceMicros })
      await submit(service, run, { confirm })
      expect(questions[1]).toBe(again)
    })

  it('leaves no state behind when the user declines it', async () => {
    const service = createFakeService()
    await expect(submit(service, { yes: false }, prompt(false))).rejects
      .toThrow(new CommandError('You declined the price. No further job was sent or charged.'))
    expect([service.jobs, existsSync(stateFile)]).toEqual([[], false])
  })

  it('is shown with the verdicts to expect, by the sample of one job', async () => {
    const of = { contacts: 4, sampledContacts: 20, checkedContacts: 9 }
    const share = { share: 0.5, low: 0.3, high: 0.7 }
    const shares = { valid: share, risky: share, invalid: share, unknown: share }
    for (const [estimate, text] of [
      [{ status: 'completed', reason: null, shares, ...of },
        'Expected of 4 contacts of the first job to verify, by a free sample of 20 (95 % ' +
        'confidence):'],
      [{ status: 'running', reason: null, shares: null, ...of },
        'No estimate yet: 9 of 20 contacts of the sample have an answer. Run the command again ' +
        'for it; none is verified twice.'],
      [{ status: 'unavailable', reason: 'daily_limit', shares: null, ...of },
        'No estimate: The free samples of these 24 hours are used up. Lists that were estimated ' +
        'in them can be estimated again.'],
    ] as const) {
      const run = submit(createFakeService({ estimate }), { estimate: true, restart: true })
      await run
      expect(run.messages.filter(message => message === text)).toHaveLength(1)
    }
    const plain = submit(createFakeService({ estimate: {} }), { restart: true })
    await plain
    expect(plain.messages.join()).not.toMatch(/estimate|Expected/)
  })

  it('above the balance is an error with the missing amount', async () => {
    await expect(submit(createFakeService({ availableMicros: 49 }))).rejects
      .toThrow('402 insufficient_balance: the maximum price is $0.00005, the available balance ' +
        '$0.000049. Top up at least $0.000001 and run the same command again.')
    const error = {
      code: 'insufficient_balance', message: 'm', requiredMicros: 20, availableMicros: 1,
    }
    const later = createFakeService({
      at: (moment, times) => moment === 'POST' && times === 2 ? refusal(402, error) : undefined,
    })
    await expect(submit(later)).rejects.toThrow('Top up at least $0.000019')
    later.change({})
    // The refused request has created no job, so its age is of no account.
    await submit(later, {}, { now: () => Date.now() + 48 * 3_600_000 })
    expect(later.jobs).toHaveLength(3)
  })

  it('is reported when it rises after the confirmation', async () => {
    const service = createFakeService({
      at: moment => {
        if (moment === 'POST') service.change({ priceMicros: 7 })
        return undefined
      },
    })
    const done = submit(service, { rowsPerJob: 100 })
    await done
    expect(done.messages).toContain('The maximum price of job_1 rose from $0.00005 to $0.00007 ' +
      'after you confirmed it. "verification-jobs cancel job_1" cancels it.')
  })
})

describe('a failed submission', () => {
  it('is retried after temporary errors', async () => {
    const full = refusal(429, { code: 'concurrent_jobs_limit', message: 'm' })
    const service = createFakeService({
      at: (moment, times) => {
        if (moment === 'POST' && times < 3) return full.clone()
        if (moment === 'after POST' && times === 1) return new TypeError('fetch failed')
        if (moment === 'wait' && times === 2) return refusal(503, { code: 'c', message: 'm' })
        return moment === 'download' && times === 2 ? new TypeError('terminated') : undefined
      },
    })
    const done = submit(service)
    expect([(await done).completed, service.jobs.length, readOutput()]).toEqual([true, 3, expected])
    expect(done.messages.filter(line => line.includes('waiting for one to end'))).toHaveLength(1)
  })

  it.each<[string, Partial<SubmitSettings>, string]>([
    ['an existing output', { output: join(folder, 'other.csv') }, 'already exists'],
    ['the input as output', { output: input }, 'is the input file'],
    ['a forbidden service', { service: 'whatsapp' }, 'may not use the service whatsapp'],
    ['an unknown contact column', { column: 'Tel' }, 'The columns are: Name, Phone, Status.'],
    ['an unknown result column', { only: 'status,color' }, 'there is no color'],
    ['a missing file', { input: join(folder, 'none.csv') }, 'does not exist'],
    ['an empty file', { input: join(folder, 'empty.csv') }, 'is empty'],
    ['a file without rows', { input: join(folder, 'header.csv') }, 'has no rows'],
    ['a folder', { input: folder }, 'is not a regular file'],
  ])('because of %s sends nothing', async (...[, more, why]) => {
    writeFileSync(join(folder, 'other.csv'), 'here')
    writeFileSync(join(folder, 'empty.csv'), '')
    writeFileSync(join(folder, 'header.csv'), 'a,phone\n')
    const service = createFakeService()
    await expect(submit(service, more)).rejects.toThrow(why)
    expect(service.jobs).toEqual([])
  })

  const COUNT = 'no longer has the 2 rows of job job_2: it has changed during the run'
  it.each<[what: string, change: (text: string, service: FakeService) => string, why: string]>([
    ['another contact', text => text.replaceAll('65', '66'), 'Row 1 of the file is not'],
    ['a row less', text => text.replace('x\n+12127365003', 'x +12127365003'), COUNT],
    ['a row more', text => text.replace(/x\n$/, '\nx'), COUNT],
    ['fewer bytes', text => text.slice(0, -1), 'bytes where '],
    ['fewer results', (text, { jobs: [, job] }) => {
      Object.assign(job!, { inputs: job!.inputs.slice(1) })
      return text
    }, 'Row 3 of the file is not the contact'],
    ['too few results', (text, { jobs: [, job] }) => {
      Object.assign(job!, { inputs: job!.inputs.slice(0, 1) })
      return text
    }, 'Job job_2 has 2 rows, but its result file has only 1. Run the command again.'],
    ['too many results', (text, { jobs: [, job] }) => {
      Object.assign(job!, { inputs: [...job!.inputs, '+1'] })
      return text
    }, 'Job job_2 has 2 rows, but its result file has more than 2. Run the command again.'],
  ])('reports %s than at its start', async (_what, change, why) => {
    writeFileSync(input, `phone,a\n${[0, 1, 2, 3].map(row => `+1212736500${row},x\n`).join('')}`)
    const service = createFakeService({
      at: (moment, times) => {
        if (moment === 'wait' && times === 4) {
          writeFileSync(input, change(readFileSync(input, 'utf8'), service))
        }
        return undefined
      },
    })
    await expect(submit(service, { rowsPerJob: 2, parallel: 1 })).rejects.toThrow(why)
    expect(existsSync(output)).toBe(false)
  })
})

describe('a workbook', () => {
  const workbook = join(folder, 'contacts.xlsx')
  const rows = rowOf(1, 'Name', 'Phone') + rowOf(2, 'A, &quot;B&quot;', '+12127365000') +
    '<row r="4"><c r="B4"><v>1.2127365001E10</v></c></row>'

  beforeEach(() => writeFileSync(workbook, workbookOf({ rows, sheets: ['List', 'Other'] })))

  it('is verified like the CSV of its sheet, also when it is resumed', async () => {
    const service = killing('download')
    const more = { input: workbook, sheet: 'list', rowsPerJob: 2 }
    await expect(submit(service, more)).rejects.toThrow(Killed)
    expect(await submit(service, more)).toMatchObject({ rows: 3 })
    const text = readFileSync(output, 'utf8')
    expect(text.startsWith('\ufeffName,Phone,')).toBe(true)
    const records = parse(text, { bom: true }) as string[][]
    expect(records.map(([name, phone]) => [name, phone])).toEqual([
      ['Name', 'Phone'], ['A, "B"', '+12127365000'], ['', ''], ['', '12127365001'],
    ])
  })

  it.each([
    ['another sheet', { input: workbook, sheet: 'Z' }, /no sheet "Z".*List, Other.*Then run/],
    ['a sheet of text', { sheet: 'List' }, /no workbook \(\.xlsx\).*Leave --sheet out/],
  ])('is refused for %s, before anything is sent', async (_what, more, why) => {
    await expect(submit(createFakeService(), more)).rejects.toThrow(why)
  })
})
