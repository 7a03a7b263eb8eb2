import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client as McpClient, InMemoryTransport } from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createMcpServer } from '../../../services/client/mcp-server.ts'
import { type ToolKey, type ToolOutput, TOOLS } from '../../../services/client/mcp-tools.ts'
import { createSpending } from '../../../services/client/mcp-spending.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, refusal, verdictOf, type FakeOptions } from './fake-service.ts'

const home = newFolder('mcp-')
afterAll(() => { rmSync(home, { recursive: true }) })
const folder = join(home, 'inside')
const output = join(folder, 'in.verified.csv')
beforeEach(() => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  writeFileSync(join(folder, 'in.csv'), 'phone\n+12127365000\n+12127365001\n')
})

const connected: McpClient[] = []
afterEach(async () => { await Promise.all(connected.splice(0).map(client => client.close())) })

/** A host in a session with a limit; every contact of the service costs 5 micros. */
async function connect (limitMicros: number, fake: FakeOptions = {}) {
  const service = createFakeService(fake)
  const server = createMcpServer({
    client: service.client,
    spending: createSpending(limitMicros),
    account: { baseUrl: 'http://there', key: 'digest' },
    folder,
    say: () => {},
    pollEveryMs: 0,
    version: '1.2.3',
  })
  const [here, there] = InMemoryTransport.createLinkedPair()
  const host = new McpClient({ name: 'test', version: '1' })
  connected.push(host)
  await Promise.all([server.connect(there), host.connect(here)])
  const call = async <K extends ToolKey>(key: K, args: Record<string, unknown> = {}) => {
    const { content, structuredContent, isError = false } =
      await host.callTool({ name: TOOLS[key].name, arguments: args })
    const [first] = content as readonly { readonly text: string }[]
    return { isError, text: first?.text ?? '', output: structuredContent as ToolOutput<K> }
  }
  return { host, call, service }
}

const PHONES = { service: 'phone-validation', contacts: ['+12127365000', '+12127365001'] }

describe('the MCP server', () => {
  it('describes its tools with schemas and what they do to the world', async () => {
    const { host } = await connect(100)
    const { tools } = await host.listTools()
    expect(tools.map(({ name }) => name)).toEqual(Object.values(TOOLS).map(({ name }) => name))
    for (const { inputSchema, outputSchema, annotations, description } of tools) {
      expect([inputSchema.type, outputSchema?.['type']]).toEqual(['object', 'object'])
      expect(description).toMatch(/\.$/)
      expect(annotations?.readOnlyHint).toBeTypeOf('boolean')
    }
    const spending = tools.filter(({ annotations }) => annotations?.readOnlyHint === false)
    expect(spending.map(({ name }) => name)).toEqual(['verify_contacts', 'verify_file'])
    expect(host.getServerVersion()).toMatchObject({ name: 'verification-jobs', version: '1.2.3' })
    expect(host.getInstructions()).toContain('This session may spend $0.0001.')
  })

  it('verifies contacts, returns a row for each, and counts the charge', async () => {
    const { call } = await connect(100)
    const { output } = await call('verifyContacts', PHONES)
    expect(output).toMatchObject({
      ended: true,
      job: { id: 'job_1', status: 'completed', totalRows: 2, chargedMicros: 10 },
      spending: { limitMicros: 100, spentMicros: 10, reservedMicros: 0, remainingMicros: 90 },
    })
    expect(output.rows[1]).toEqual(
      { row: 2, input: '+12127365001', e164: verdictOf('+12127365001'), status: 'valid' })
  })

  it('returns the same as text for hosts without structured results', async () => {
    const { call } = await connect(100)
    const { text, output } = await call('getBalance')
    expect(JSON.parse(text)).toEqual(output)
    expect(output).toMatchObject({ availableMicros: 1e9, spending: { remainingMicros: 100 } })
  })

  it('passes country and freshness on', async () => {
    const { call, service } = await connect(100)
    await call('verifyContacts', { ...PHONES, country: 'DE', force_fresh: true })
    expect(service.jobs[0]?.body).toMatchObject({ countryCode: 'DE', forceFresh: true })
  })

  it.each([
    ['no contacts', { ...PHONES, contacts: [] }],
    ['101 contacts', { ...PHONES, contacts: Array.from({ length: 101 }, () => '+1') }],
    ['a number as contact', { ...PHONES, contacts: [12127365000] }],
    ['an unknown service', { ...PHONES, service: 'fax' }],
    ['an unknown argument', { ...PHONES, countryCode: 'DE' }],
    ['a country in words', { ...PHONES, country: 'Germany' }],
    ['a wait of an hour', { ...PHONES, wait_seconds: 3_600 }],
  ])('refuses %s and sends nothing', async (_, args) => {
    const { call, service } = await connect(100)
    const { isError, text } = await call('verifyContacts', args)
    expect([isError, service.requests]).toEqual([true, []])
    expect(text).toMatch(/contacts|service|countryCode|country|wait_seconds/)
  })

  it.each([
    ['a job id that is a path', 'getJob', { job_id: '../balance' }],
    ['201 rows', 'getResults', { job_id: 'job_1', limit: 201 }],
    ['an unknown status', 'getResults', { job_id: 'job_1', status: 'good' }],
  ] as const)('refuses %s', async (_, name, args) => {
    const { call, service } = await connect(100)
    expect([(await call(name, args)).isError, service.requests]).toEqual([true, []])
  })

  it('reports an error of the service as an error of the tool', async () => {
    const { call } = await connect(100)
    expect(await call('getJob', { job_id: 'job_9' }))
      .toMatchObject({ isError: true, text: '404 job_not_found: none' })
  })

  it('returns status and pages of results', async () => {
    const { call } = await connect(100)
    await call('verifyContacts', PHONES)
    expect((await call('getJob', { job_id: 'job_1' })).output)
      .toMatchObject({ ended: true, job: { id: 'job_1', status: 'completed' } })
    expect((await call('getResults', { job_id: 'job_1', limit: 2 })).output)
      .toMatchObject({ rows: [{ row: 1 }, { row: 2 }], has_more: false, next_cursor: null })
  })
})

describe('the spending limit of a session', () => {
  it('refuses a job that may exceed it before the job is created', async () => {
    const { call, service } = await connect(19)
    await call('verifyContacts', PHONES)
    const { isError, text } = await call('verifyContacts', PHONES)
    expect([isError, service.jobs.length]).toEqual([true, 1])
    expect(text).toMatch(/^spending_limit: this may cost up to \$0\.00001, but only \$0\.000009 /)
    expect((await call('getBalance')).output.spending)
      .toMatchObject({ spentMicros: 10, reservedMicros: 0 })
  })

  it('counts the maximum price of a job that has not ended, then its charge', async () => {
    const { call, service } = await connect(15, { endAs: 'verifying' })
    const first = await call('verifyContacts', { ...PHONES, wait_seconds: 0 })
    expect(first.output).toMatchObject({ ended: false, rows: [], spending: { reservedMicros: 10 } })
    expect((await call('verifyContacts', PHONES)).isError).toBe(true)
    service.change({ priceMicros: 2 })
    const last = await call('verifyContacts', PHONES)
    expect(last.output.spending).toMatchObject({ spentMicros: 8, reservedMicros: 0 })
  })

  it('cancels a job whose price rose above the limit after the quote', async () => {
    const { call, service } = await connect(12, {
      at: moment => {
        if (moment === 'quote') service.change({ priceMicros: 9 })
        return undefined
      },
    })
    expect(await call('verifyContacts', PHONES))
      .toMatchObject({ isError: true, text: expect.stringContaining('spending_limit') })
    expect(service.requests).toContain('POST /jobs/job_1/cancel')
  })

  it('keeps the money of a request without a response, and repeats it as one job', async () => {
    const { call, service } = await connect(15, {
      at: (moment, times) =>
        moment === 'after POST' && times === 1 ? new TypeError('fetch failed') : undefined,
    })
    expect(await call('verifyContacts', PHONES))
      .toMatchObject({ isError: true, text: expect.stringContaining('unreachable') })
    expect((await call('getBalance')).output.spending).toMatchObject({ reservedMicros: 10 })
    expect((await call('verifyContacts', PHONES)).output)
      .toMatchObject({ ended: true, spending: { spentMicros: 10, reservedMicros: 0 } })
    expect(service.jobs).toHaveLength(1)
  })

  it('frees the money of a request that the service refused', async () => {
    const { call } = await connect(15, {
      at: moment => moment === 'POST'
        ? refusal(402, { code: 'insufficient_balance', message: 'too little' })
        : undefined,
    })
    expect((await call('verifyContacts', PHONES)).text).toContain('insufficient_balance')
    expect((await call('getBalance')).output.spending).toMatchObject({ reservedMicros: 0 })
  })
})

describe('a file of a session', () => {
  it('is verified beside itself, once', async () => {
    const { call, service } = await connect(100)
    const { output: result } = await call('verifyFile', { file: 'in.csv', column: 'phone' })
    expect(result).toMatchObject({
      ended: true,
      output,
      rows: 2,
      doneRows: 2,
      byStatus: { valid: 2 },
      jobs: ['job_1'],
      chargedMicros: 10,
      spending: { spentMicros: 10, reservedMicros: 0 },
    })
    expect(readFileSync(output, 'utf8').split('\n')[0])
      .toBe('phone,e164,status,reason,duplicate_of')
    expect((await call('verifyFile', { file: 'in.csv', column: 'phone' })).output)
      .toMatchObject({ ended: true, chargedMicros: 10, spending: { spentMicros: 10 } })
    expect(service.jobs).toHaveLength(1)
  })

  it('is reported to a host that asks for progress, ever higher', async () => {
    const { host } = await connect(100)
    const progress: object[] = []
    await host.callTool({ name: TOOLS.verifyFile.name, arguments: { file: 'in.csv' } }, {
      onprogress: one => { progress.push(one) },
    })
    expect(progress).toEqual([{ progress: 1, total: 2 }, { progress: 2, total: 2 }])
  })

  it('goes on after the call has waited long enough', async () => {
    const { call, service } = await connect(100, { endAs: 'verifying' })
    const args = { file: 'in.csv', service: 'phone-validation' }
    const first = await call('verifyFile', { ...args, wait_seconds: 0 })
    expect(first.output).toMatchObject({ ended: false, output, jobs: [] })
    expect((await call('verifyFile', { ...args, column: 'phone', wait_seconds: 0 })).text)
      .toContain('other arguments')
    service.change({})
    expect((await call('verifyFile', args)).output).toMatchObject({ ended: true, rows: 2 })
  })

  it('is refused as a whole when it may exceed the limit', async () => {
    const { call, service } = await connect(9)
    const { isError, text } = await call('verifyFile', { file: 'in.csv' })
    expect([isError, service.jobs, existsSync(`${output}.progress.json`)])
      .toEqual([true, [], false])
    expect(text).toContain('spending_limit')
    expect((await call('getBalance')).output.spending).toMatchObject({ reservedMicros: 0 })
  })

  it('has its job cancelled if the price rose above the limit after the quote', async () => {
    const { call, service } = await connect(12, {
      at: moment => {
        if (moment === 'quote') service.change({ priceMicros: 9 })
        return undefined
      },
    })
    expect(await call('verifyFile', { file: 'in.csv' }))
      .toMatchObject({ isError: true, text: expect.stringContaining('spending_limit') })
    expect(service.requests).toContain('POST /jobs/job_1/cancel')
  })

  it('is replaced only on demand', async () => {
    writeFileSync(output, 'precious')
    const { call } = await connect(100)
    const refused = await call('verifyFile', { file: 'in.csv' })
    expect([refused.isError, readFileSync(output, 'utf8')]).toEqual([true, 'precious'])
    expect(refused.text).toContain('set replace to true')
    expect((await call('verifyFile', { file: 'in.csv', replace: true })).isError).toBe(false)
    expect(readFileSync(output, 'utf8')).toMatch(/^phone,/)
  })

  it('must be below the folder, links included', async () => {
    const secret = join(home, 'secret.csv')
    writeFileSync(secret, 'phone\n+12127365000\n')
    symlinkSync(secret, join(folder, 'link.csv'))
    const { call, service } = await connect(100)
    for (const file of [secret, '../secret.csv', 'link.csv']) {
      expect(await call('verifyFile', { file }))
        .toMatchObject({ isError: true, text: expect.stringContaining('is not below') })
    }
    expect(service.requests).toEqual([])
  })

  it('has errors that name the arguments of the tool', async () => {
    const { call } = await connect(100)
    expect((await call('verifyFile', { file: 'none.csv' })).text).toContain('does not exist')
    const { text } = await call('verifyFile', { file: 'in.csv', column: 'mobile' })
    expect(text).toMatch(/no column mobile\. The columns are: phone\./)
    writeFileSync(join(folder, 'two.csv'), 'a,b\n+12127365000,+12127365001\n')
    expect((await call('verifyFile', { file: 'two.csv' })).text)
      .toMatch(/Name it with --column.+arguments of this tool/)
  })
})
