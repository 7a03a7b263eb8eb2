import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client as McpClient } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { describe, expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { newFolder } from '../support/folder.ts'
import { balanceOf } from '../support/organizations.ts'
import { root } from '../support/sources.ts'
import { toolCaller } from '../unit/client/mcp-host.ts'

const folder = newFolder('mcp-e2e-')
const environment = closeAfterAll(await startEnvironment())
const host = closeAfterAll(new McpClient({ name: 'host', version: '1' }))
await host.connect(new StdioClientTransport({
  command: join(root, 'services/client/verification-jobs'),
  args: ['mcp', '--max-spend', '0.10', '--folder', folder],
  env: {
    PATH: String(process.env['PATH']),
    VERIFICATION_JOBS_URL: environment.baseUrl,
    VERIFICATION_JOBS_KEY: environment.keys.live,
  },
  stderr: 'ignore',
}))

const call = toolCaller(host)

describe('an agent with the MCP server', () => {
  it('verifies contacts and a file, and spends what the organization pays', async () => {
    const before = await balanceOf(environment.env, environment.orgId)
    const { output: contacts } = await call('verify_contacts', {
      service: 'phone-validation',
      contacts: ['+12127365000', '(212) 736-5000', 'call me'],
      country: 'US',
    })
    expect(contacts).toMatchObject({
      ended: true,
      job: { status: 'completed', totalRows: 3 },
      rows: [
        { row: 1, e164: '+12127365000', status: 'valid', source: 'live' },
        { row: 2, duplicate_of: 1 },
        { row: 3, status: 'invalid', source: 'preflight' },
      ],
    })
    writeFileSync(join(folder, 'list.csv'), 'name,phone\nA,+12127360001\nB,+12127360002\n')
    const { output: file } = await call('verify_file', { file: 'list.csv', column: 'phone' })
    expect(file).toMatchObject({ ended: true, rows: 2, byStatus: { valid: 2 } })
    expect(readFileSync(file.output, 'utf8')).toMatch(/^name,phone,verified_phone,e164,country,/)

    const { output: results } = await call('get_results', { job_id: file.jobs[0], limit: 1 })
    const rest = await call('get_results', { job_id: file.jobs[0], cursor: results.next_cursor })
    expect([...results.rows, ...rest.output.rows].map(({ input }) => input))
      .toEqual(['+12127360001', '+12127360002'])
    const { output: balance } = await call('get_balance', {})
    const charged = contacts.job.chargedMicros + file.chargedMicros
    expect(charged).toBeGreaterThan(0)
    expect(balance).toMatchObject({
      availableMicros: before.availableMicros - charged, spending: { spentMicros: charged },
    })
  })

  it('may not exceed its limit, and creates no job for what it may not spend', async () => {
    const jobs = async () => (await environment.live.jobsPage({ limit: 100 })).data.length
    const before = await jobs()
    const phones = Array.from({ length: 100 }, (_, index) => `+1212737${1_000 + index}`)
    let refused = ''
    let accepted = 0
    while (refused === '') {
      const { isError, text, output } = await call('verify_contacts', {
        service: 'carrier-lookup', contacts: phones, force_fresh: true,
      })
      if (isError) refused = text
      else accepted += 1
      expect(isError ? 0 : output.spending.remainingMicros).toBeGreaterThanOrEqual(0)
    }
    expect(refused).toMatch(/^spending_limit: this may cost up to .+ --max-spend\.$/)
    expect(await jobs()).toBe(before + accepted)
  })
})
