import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { textOfPartnerKey } from '../../../schemas/feeds/seal.ts'
import { createFeedProgram, type Terminal } from '../../../services/feed/send/command.ts'
import type { FeedConnection } from '../../../services/feed/send/connection.ts'
import {
  openContactFile, openResultFile, type ResultFile, sendContacts,
} from '../../../services/feed/send/send.ts'
import type { FileContact } from '../../support/feeds/partner.ts'
import { newFolder } from '../../support/folder.ts'
import { lowestCost } from '../../support/lowest-cost.ts'

const folder = newFolder('feed-')

async function * streamOf (contacts: readonly FileContact[]): AsyncIterable<FileContact> {
  yield * contacts
}
const contact = (input: string, reference?: string): FileContact =>
  ({ input, reference, countryCode: undefined })

type Result = Parameters<ResultFile['write']>[0]

type Answering = {
  /** How often each contact is answered, once the feed is flushed. */
  readonly times?: number
  readonly silenceMs?: number
  readonly confirmed?: number
  readonly sendsReferences?: boolean
  readonly output?: ResultFile
  /** What arrives before the answers to some contacts, after these others. */
  readonly before?: (answered: readonly Result[]) => readonly Result[]
}

/** Sends contacts to a feed that answers them whenever it got some, and again at its end. */
async function send (
  contacts: readonly FileContact[],
  {
    times = 1, silenceMs = 1_000, confirmed, before = () => [], sendsReferences = false, output,
  }: Answering = {}
) {
  const sent: string[] = []
  const written: Result[] = []
  const answered: Result[] = []
  let emit: Parameters<FeedConnection['listen']>[0] = () => {}
  const feed: FeedConnection = {
    send: async batch => {
      for (const result of before(answered)) emit(result)
      for (const { reference, input } of batch) {
        const resultId = `r${sent.push(reference)}`
        const result = { resultId, reference, cells: { status: 'valid', input } }
        answered.push(result)
        if (times > 0) emit(result)
      }
    },
    end: async () => {
      for (let time = 1; time < times; time++) answered.forEach(emit)
    },
    listen: async onResult => { emit = onResult },
    close: async () => {},
  }
  const summary = await sendContacts({
    feed,
    source: { contacts: streamOf(contacts), read: () => 1 },
    output: output ?? { write: result => { written.push(result) }, finish: async () => {} },
  }, {
    service: 'whatsapp',
    countryCode: 'US',
    forceFresh: false,
    silenceMs,
    sendsReferences,
    confirmed,
  })
  const named = written.map(({ reference, cells }) => [reference, cells['input']])
  return { summary, named, sent }
}

describe('the contacts of a file sent to a feed', () => {
  it('get one result each; duplicates are ignored', async () => {
    const { summary, named } = await send([contact('1', 'A'), contact('2', 'B')], { times: 3 })
    expect(named).toEqual([['A', '1'], ['B', '2']])
    expect(summary).toEqual({ sent: 2, results: 2, repeated: 4, byStatus: { valid: 2 } })
  })

  it('are numbered without a reference', async () => {
    expect((await send([contact('1'), contact('2')])).named).toEqual([['1', '1'], ['2', '2']])
  })

  it('get the results of their own, whatever arrives under their references', async () => {
    const ofEarlierRun = { resultId: 'r0', reference: 'A', cells: { input: '0' } }
    const { named, summary } = await send([contact('1', 'A')], { before: () => [ofEarlierRun] })
    expect([named, summary.repeated]).toEqual([[['A', '1']], 1])
  })

  it('that share a reference have their own results, however far apart they are', async () => {
    const others = Array.from({ length: 1_999 }, (_, row) => contact(`${row}`, `B${row}`))
    const { named, summary } = await send([contact('1', 'A'), ...others, contact('2', 'A')], {
      // The first result is published once more when the second contact is on its way.
      before: ([first]) => first === undefined ? [] : [first],
    })
    expect(named.filter(([reference]) => reference === 'A')).toEqual([['A', '1'], ['A', '2']])
    expect(summary).toMatchObject({ results: 2_001, repeated: 1 })
  })

  it('keep their references for other readers where no results are collected', async () => {
    const { sent, summary } =
      await send([contact('1', 'A'), contact('2', 'A')], { sendsReferences: true })
    expect([sent, summary.results]).toEqual([['A', 'A'], 2])
  })

  it.each([[2_001, 'A,r1,valid,,1'], [1, 'earlier']])(
    'of %i rows whose sending fails leave the results so far', async (rows, text) => {
      const file = join(folder, 'results.csv')
      writeFileSync(file, 'earlier')
      const contacts = Array.from({ length: rows }, () => contact('1', 'A'))
      const output = openResultFile(file)
      await expect(send(contacts, {
        output,
        before: answered => {
          if (answered.length === rows - 1) throw new Error('brokers are away')
          return []
        },
      })).rejects.toThrow('brokers are away')
      expect(readFileSync(file, 'utf8')).toContain(text)
    })

  it('are missed when no result arrives', async () => {
    await expect(send([contact('1', 'A')], { times: 0, silenceMs: 20 }))
      .rejects.toThrow(/1 results are missing.+ will follow, unless the partner was revoked: /)
  })

  it('are no more than were confirmed, though the file has more by then', async () => {
    const contacts = Array.from({ length: 2_001 }, () => contact('1'))
    let written = 0
    const finish = vi.fn(async () => {})
    const output = { write: () => { written++ }, finish }
    await expect(send(contacts, { confirmed: 1_500, output })).rejects
      .toThrow('more than the 1500 contacts whose price you confirmed')
    // Confirmed ones are sent and paid, so their results are awaited and kept.
    expect([written, finish.mock.calls.length]).toEqual([1_500, 1])
    expect((await send(contacts, { confirmed: 2_001 })).summary.sent).toBe(2_001)
  })

  it('are refused with an empty reference', async () => {
    await expect(send([contact('1', '')])).rejects.toThrow('Row 1 of the file has an empty refer')
  })
})

const key = textOfPartnerKey(Buffer.alloc(32))
const ENV = {
  FEED_PARTNER: 'acme',
  FEED_KEY: key,
  KAFKA_BROKERS: '127.0.0.1:1',
  SCHEMA_REGISTRY_URL: 'http://127.0.0.1:1',
}

/** Runs `feed send` on a file; no broker listens, so it fails once it connects. */
async function run (
  content: string, words: readonly string[] = [],
  { env = ENV, ...terminal }: Partial<Terminal> & { env?: Record<string, string> } = {}
) {
  const said: string[] = []
  const file = join(folder, 'contacts.csv')
  writeFileSync(file, content)
  const program = createFeedProgram(env, {
    say: line => { said.push(line) }, confirm: undefined, readPrice: async () => 2_000, ...terminal,
  })
  const all = ['send', file, '--service', 'phone-validation', '--data', folder, ...words]
  const error = await program.parseAsync(all, { from: 'user' }).then(() => '', String)
  return { said, error }
}

const FILE = 'phone,customer\n+12127365000,a\n+12127365001,b\n'

describe('feed send', () => {
  it('shows rows, columns and price, and sends nothing without a confirmation', async () => {
    const { said, error } = await run(FILE, ['--reference', 'customer'])
    expect(said).toEqual([
      '2 contacts from column phone, references from column customer.',
      'Price of phone-validation: $0.002 a contact by the price list, $0.004 for all. If the ' +
        'partner has agreed on another price, that one applies.',
    ])
    expect(error).toContain('needs confirmation, and there is no terminal to ask at. Add --yes')
  })

  it('asks at a terminal', async () => {
    const confirm = vi.fn(async () => false)
    expect((await run(FILE, [], { confirm })).error).toContain('You declined. Nothing was sent.')
    expect(confirm.mock.calls)
      .toEqual([['Sending 2 contacts for $0.004 by the price list? [y/N] ']])
  })

  it('names the price of the contract without a price list', async () => {
    const { said, error } = await run(FILE, [], { readPrice: async () => undefined })
    expect(said).toEqual([
      '2 contacts from column phone, the rows are numbered.',
      'Price of phone-validation: as agreed with the partner; no price list is available here.',
    ])
    expect(error).toContain('for the price of its contract needs confirmation')
  })

  it.each<[what: string, file: string, words: readonly string[], why: string]>([
    ['an empty reference', `${FILE}+12127365002,\n`, ['--reference', 'customer'],
      'Row 3 of the file has an empty reference'],
    ['no rows', 'phone,customer\n', [], 'has no contacts'],
    ['no such field', FILE, ['--reference', 'id'], 'has no field id'],
    ['no time', FILE, ['--silence', 'x'], '--silence x is not a number of seconds above 0'],
    ['a time without end', FILE, ['--silence', '2147484'], 'above 0 and at most 2147483.'],
  ])('with %s sends nothing', async (_what, file, words, why) => {
    expect((await run(file, ['--yes', ...words])).error).toContain(why)
  })

  const account = {
    KAFKA_SASL_MECHANISM: 'scram-sha-512', KAFKA_SASL_USERNAME: 'me', KAFKA_SASL_PASSWORD: 's',
  }
  const amazon = {
    KAFKA_TLS: 'true', KAFKA_SASL_MECHANISM: 'aws-msk-iam', KAFKA_AWS_REGION: 'eu-central-1',
  }
  it.each<[env: Record<string, string>, words: readonly string[], why: string]>([
    [{}, [], 'npm run up'],
    [{ ...ENV, FEED_PARTNER: '' }, [], '--partner <name>'],
    [{ ...ENV, FEED_KEY: '' }, [], 'FEED_KEY=<key>'],
    [ENV, ['--key', 'x'], 'vjf_'],
    [{ ...ENV, FEED_KEY: `${key},` }, [], 'Use one key, or several as "new,old"'],
    [{ ...ENV, FEED_KEY: `${key};${key}` }, [], 'Use one key, or several as "new,old"'],
    [{ ...ENV, KAFKA_TLS: 'yes' }, [], 'KAFKA_TLS must be true or false.'],
    [{ ...ENV, ...account, KAFKA_SASL_MECHANISM: 'x' }, [], 'KAFKA_SASL_MECHANISM must be one of'],
    [{ ...ENV, ...account, KAFKA_SASL_USERNAME: '', KAFKA_SASL_PASSWORD: '' }, [],
      'KAFKA_SASL_USERNAME is missing, which KAFKA_SASL_MECHANISM needs.'],
    // Complete: it goes on to the confirmation.
    [{ ...ENV, ...account, KAFKA_TLS: 'true' }, [], 'needs confirmation'],
    [{ ...ENV, ...amazon }, [], 'needs confirmation'],
    [{ ...ENV, FEED_KEY: `${key}, ${key}` }, [], 'needs confirmation'],
    [{ ...ENV, FEED_PARTNER: '' }, ['--partner', 'acme'], 'needs confirmation'],
  ])('with the settings %j and %j is refused', async (env, words, why) => {
    expect((await run(FILE, words, { env })).error).toContain(why)
  })
})

describe('a file of contacts', () => {
  type Options = Omit<Parameters<typeof openContactFile>[0], 'file'>

  async function read (name: string, text: string | Buffer, options: Options = {}) {
    const file = join(folder, name)
    writeFileSync(file, text)
    const opened = openContactFile({ file, ...options })
    const contacts: FileContact[] = []
    for await (const contact of opened.contacts) contacts.push(contact)
    return { contacts, read: opened.read() }
  }

  it.each<[string, string, Options, readonly FileContact[]]>([
    ['a.csv', 'id,phone,countryCode\r\nA,"(212) 736-5000",US\r\nB,+442071838750,\r\n', {},
      [{ ...contact('(212) 736-5000', 'A'), countryCode: 'US' }, contact('+442071838750', 'B')]],
    ['b.csv', '\ufefffirma;phone\r\n"A; B";030 1\r\n', {}, [contact('030 1')]],
    ['c.ndjson', '{"email":"a@example.com","reference":17}\n\n{"email":"b@example.com"}\n',
      { referenceColumn: 'reference' },
      [contact('a@example.com', '17'), contact('b@example.com', '')]],
    ['d.csv', 'Telefon\n1\n', {}, [contact('1')]],
    ['e.csv', 'a,b\n1,2\n', { column: 'b', referenceColumn: 'a' }, [contact('2', '1')]],
    ['f.csv', 'Tel,id,Tel\n1,A,3\n', { column: '#1' }, [contact('1', 'A')]],
    ['g.ndjson', '{"phone":12127365000.0,"id":1.70E2}\n{"phone":2.02e3,"id":-0.0}\n', {},
      [contact('12127365000', '170'), contact('2020', '0')]],
  ])('%s with the text %j is read', async (name, text, options, contacts) => {
    expect(await read(name, text, options)).toEqual({ contacts, read: 1 })
  })

  it('is read in its own encoding, as a file of submit is', async () => {
    const text = 'Größe;phone\r\nMüller €;1\r\n'
    const windows = Buffer.from(text.replace('€', '\u0080'), 'latin1')
    for (const bytes of [Buffer.from(text), Buffer.from(`\ufeff${text}`), windows]) {
      const { contacts } = await read('w.csv', bytes, { referenceColumn: 'größe' })
      expect(contacts).toEqual([contact('1', 'Müller €')])
    }
  })

  it.each<[string, string, Options, string]>([
    ['a.csv', 'a,b\n1,2\n', {}, 'Name it with --column. The fields are: a, b'],
    ['b.csv', 'a,b\n1,2\n', { column: 'c' }, 'has no field c. The fields are: a, b'],
    ['a.csv', 'phone,phone\n1,2\n', {}, 'Name it with --column. The fields are: #1, #2'],
    ['c.csv', 'a,b\n1\n', {}, 'Cannot parse'],
    ['d.csv', '\ufffe\u0000a', {}, 'binary file'],
    ['e.ndjson', '{"input":"1"}\n[1]\n', {}, 'line 2 is not a JSON object'],
    ['f.txt', '', {}, 'Use .csv, .ndjson or .jsonl'],
    ['g.ndjson', '{"input":"1","id":"a"}\n{"input":"1","id":9007199254740993}\n', {},
      'Row 2 of the file has a number as id that is not exact in JSON. Write it in quotes.'],
    ['h.ndjson', '{"input":"1","id":1.5}\n', {}, 'not exact in JSON'],
    ['j.ndjson', '{"input":"1","id":9007199254740991.25}\n', {}, 'not exact in JSON'],
    ['k.ndjson', '{"input":"1","id":1e-400}\n', {}, 'not exact in JSON'],
    ['i.csv', 'phone,countryCode,countryCode\n1,US,CA\n', {}, 'has several columns countryCode'],
  ])('%s with %j is rejected with the reason', async (name, text, options, why) => {
    await expect(read(name, text, options)).rejects.toThrow(why)
  })

  it('costs what its columns cost', async () => {
    const costOf = async (columns: number) => {
      const names = Array.from({ length: columns }, (_, at) => `c${at}`).join()
      const before = process.threadCpuUsage()
      await read('wide.csv', `phone,${names}\n1${','.repeat(columns)}\n`)
      const { user, system } = process.threadCpuUsage(before)
      return user + system
    }
    const most = 5 * 16 * await lowestCost(() => costOf(3_000), 0, 3)
    expect(await lowestCost(() => costOf(48_000), most, 3)).toBeLessThanOrEqual(most)
  })

  it('must exist, and be one', () => {
    expect(() => openContactFile({ file: join(folder, 'none.csv') })).toThrow('does not exist')
    mkdirSync(join(folder, 'a-folder.ndjson'))
    expect(() => openContactFile({ file: join(folder, 'a-folder.ndjson') }))
      .toThrow('is not a regular file')
  })
})

describe('a file of results', () => {
  const results: readonly Result[] = [
    {
      reference: 'A',
      resultId: 'r1',
      cells: { status: 'valid', e164: '+1', checks: { syntax: 'passed' } },
    },
    { reference: 'B', resultId: 'r2', cells: { status: 'invalid', reason: 'say "no", please' } },
  ]

  it.each([
    ['out.csv', 'reference,resultId,status,reason,input,e164\r\nA,r1,valid,,,+1\r\n' +
      'B,r2,invalid,"say ""no"", please",,\r\n'],
    ['out.ndjson',
      '{"reference":"A","resultId":"r1","status":"valid","e164":"+1","checks":' +
      '{"syntax":"passed"}}\n{"reference":"B","resultId":"r2","status":"invalid","reason":' +
      '"say \\"no\\", please"}\n'],
  ])('%s appears when it is complete', async (name, text) => {
    const file = join(folder, name)
    const output = openResultFile(file)
    for (const result of results) output.write(result)
    expect(existsSync(file)).toBe(false)
    await output.finish()
    expect([readFileSync(file, 'utf8'), existsSync(`${file}.part`)]).toEqual([text, false])
  })
})
