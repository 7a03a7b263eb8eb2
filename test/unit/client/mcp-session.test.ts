import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { Command } from 'commander'
import { afterAll, describe, expect, it } from 'vitest'
import { addMcp } from '../../../services/client/mcp-command.ts'
import { createFileRuns } from '../../../services/client/mcp-files.ts'
import { createSession } from '../../../services/client/mcp-session.ts'
import { createSpending } from '../../../services/client/mcp-spending.ts'
import { newFolder } from '../../support/folder.ts'
import { createFakeService, type FakeOptions } from './fake-service.ts'

const folder = newFolder('mcp-session-')
afterAll(() => { rmSync(folder, { recursive: true }) })

function depsOf (fake: FakeOptions = {}) {
  const service = createFakeService(fake)
  const deps = {
    client: service.client,
    spending: createSpending(100),
    account: { baseUrl: 'http://there', key: 'digest' },
    folder,
    say: () => {},
    pollEveryMs: 0,
  }
  return { service, deps }
}

describe('a session', () => {
  it('counts two requests at the same time within one limit', async () => {
    const { service, deps } = depsOf({ priceMicros: 60 })
    const session = createSession(deps)
    const verify = (contact: string) =>
      session.verifyContacts({ service: 'phone-validation', contacts: [contact] })
    const outcomes = await Promise.allSettled([verify('+12127365000'), verify('+12127365001')])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect([service.jobs.length, deps.spending.figures().spentMicros]).toEqual([1, 60])
  })

  it('returns an error while it waits, and keeps the money until the end', async () => {
    const { service, deps } = depsOf({
      at: moment => moment === 'wait' ? new Error('down') : undefined,
    })
    const session = createSession(deps)
    const args = { service: 'phone-validation', contacts: ['+12127365000'] } as const
    await expect(session.verifyContacts({ ...args, contacts: [...args.contacts] }))
      .rejects.toThrow('down')
    expect(deps.spending.figures().reservedMicros).toBe(5)
    service.change({})
    await session.getJob({ job_id: 'job_1' })
    expect((await session.getJob({ job_id: 'job_1' })).spending)
      .toMatchObject({ reservedMicros: 0, spentMicros: 5 })
  })
})

describe('a file whose run fails', () => {
  it('keeps its money, is resumed by the same call, and is paid once', async () => {
    writeFileSync(join(folder, 'list.csv'), 'phone\n+12127365000\n+12127365001\n')
    const { service, deps } = depsOf({
      at: moment => moment === 'download' ? new Error('cut') : undefined,
    })
    const files = createFileRuns(deps)
    await expect(files.run({ file: 'list.csv' }, 5_000)).rejects.toThrow('cut')
    expect(deps.spending.figures()).toMatchObject({ reservedMicros: 10, spentMicros: 0 })
    service.change({})
    expect(await files.run({ file: 'list.csv' }, 5_000)).toMatchObject({ ended: true, rows: 2 })
    expect(deps.spending.figures()).toMatchObject({ reservedMicros: 0, spentMicros: 10 })
    expect(service.jobs).toHaveLength(1)
  })
})

describe('the command mcp', () => {
  const env = { VERIFICATION_JOBS_URL: 'http://localhost/api/v1', VERIFICATION_JOBS_KEY: 'vj_1' }

  async function serve (words: readonly string[], requests: readonly object[]) {
    const streams = {
      input: new PassThrough(), output: new PassThrough(), errors: new PassThrough(),
    }
    const program = new Command().option('--data <folder>', '', '.local')
    addMcp(program, { ...streams, env, onInterrupt: () => {} })
    for (const request of requests) streams.input.write(`${JSON.stringify(request)}\n`)
    const served = program.parseAsync(['mcp', ...words], { from: 'user' })
    const [answer] = await once(streams.output, 'data') as [Buffer]
    streams.input.end()
    await served
    streams.errors.end()
    return { answer: JSON.parse(String(answer)), errors: await text(streams.errors) }
  }

  it('speaks the protocol on its streams until the host ends the input', async () => {
    const { answer, errors } = await serve(['--max-spend', '2.5'], [{
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: {
        protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'host', version: '1' },
      },
    }])
    expect(answer).toMatchObject({
      id: 1,
      result: {
        serverInfo: { name: 'verification-jobs', version: expect.stringMatching(/^\d+\.\d+\./) },
        instructions: expect.stringContaining('This session may spend $2.50.'),
      },
    })
    expect(errors).toBe('Serving MCP; this session may spend $2.50.\n')
  })
})
