import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client as McpClient } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEnvironment, type Environment } from '../../support/stacks/environment.ts'
import { newFolder } from '../../support/folder.ts'
import { root } from '../../support/sources.ts'

const run = promisify(execFile)
/** The oldest version that the package supports. */
const OLDEST_NODE = 'node@20'
const SECRET = 'whsec_c2VjcmV0'

const folder = newFolder('package-')
const home = join(folder, 'home')
const bin = join(home, 'node_modules/.bin')
let environment: Environment
let tarball: string
beforeAll(async () => {
  environment = await startEnvironment()
  const built = await run(process.execPath, ['deploy/package.ts', join(folder, 'package')])
  tarball = built.stdout.trim()
  await run('mkdir', [home])
  writeFileSync(join(home, 'package.json'), '{ "type": "module" }')
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund',
    '--ignore-scripts=false', tarball, OLDEST_NODE], { cwd: home })
})
afterAll(async () => {
  await environment?.stop()
  rmSync(folder, { recursive: true })
})

/** A program in the folder where the package is installed, with Node 20 alone. */
const inHome = (program: string, ...words: readonly string[]) => run(program, words, {
  cwd: home, env: environmentOf(),
})

const environmentOf = () => ({
  PATH: `${bin}:/usr/bin:/bin`,
  VERIFICATION_JOBS_URL: environment.baseUrl,
  VERIFICATION_JOBS_KEY: environment.keys.live,
})

const PROGRAM = `
import { ApiError, createClient, verifyWebhook, type JobRequest } from 'verification-jobs'

const { VERIFICATION_JOBS_URL: baseUrl = '', VERIFICATION_JOBS_KEY: apiKey = '' } = process.env
const client = createClient({ baseUrl, apiKey })
const request: JobRequest = { service: 'phone-validation', inputs: ['+12127360009', 'call me'] }
const { id, preflight } = await client.createJob(request)
const price: number = preflight.maxQuoteMicros
const job = await client.waitForEnd(id)
const rows: unknown[] = []
for await (const row of client.resultRows(id)) rows.push([row.row, row.status])
const [signature = '', body = ''] = process.argv.slice(2)
const event = verifyWebhook({
  headers: { 'X-Service-Signature': signature }, body, secret: '${SECRET}',
})
const refused = await client.job('job_unknown').catch((error: unknown) =>
  error instanceof ApiError ? error.code : String(error))
console.log(JSON.stringify({ price, status: job.status, rows, event, refused }))
`

describe('the package of the client, installed into an empty folder with Node 20', () => {
  it('has types with which a program compiles, and mistakes do not', async () => {
    writeFileSync(join(home, 'node.d.ts'),
      'declare const process: { env: Record<string, string | undefined>, argv: string[] }')
    writeFileSync(join(home, 'program.ts'), PROGRAM)
    writeFileSync(join(home, 'mistake.ts'), `import { createClient } from 'verification-jobs'
      createClient({ baseUrl: '', apiKey: '' }).createJob({ inputs: [] })`)
    const tsc = (file: string) => run(process.execPath, [
      join(root, 'node_modules/typescript/bin/tsc'), '--strict', '--module', 'nodenext',
      '--target', 'es2022', '--lib', 'es2022,dom', 'node.d.ts', file,
    ], { cwd: home })
    expect(await tsc('program.ts')).toEqual({ stdout: '', stderr: '' })
    await expect(tsc('mistake.ts')).rejects
      .toMatchObject({ stdout: expect.stringContaining("Property 'service' is missing") })
  })

  it('runs that program, whose webhook verifier is ours', async () => {
    const [seconds, body] = [Math.floor(Date.now() / 1_000), '{"id":"evt_1"}']
    const digest = createHmac('sha256', SECRET).update(`${seconds}.${body}`).digest('hex')
    const { stdout } = await inHome('node', 'program.js', `t=${seconds},v1=${digest}`, body)
    expect(JSON.parse(stdout)).toEqual({
      price: 2_000,
      status: 'completed',
      rows: [[1, 'valid'], [2, 'invalid']],
      event: { ok: true, event: { id: 'evt_1' } },
      refused: 'job_not_found',
    })
  })

  it('has the command submit', async () => {
    expect((await inHome('node', '--version')).stdout).toMatch(/^v20\./)
    writeFileSync(join(home, 'contacts.csv'), 'name,phone\nA,+12127360011\nB,+12127360012\n')
    const { stdout } = await inHome('npx', '--no', 'verification-jobs', 'submit', 'contacts.csv',
      '--service', 'phone-validation', '--column', 'phone', '--only', 'status', '--yes')
    expect(stdout).toContain('2 rows: 2 valid')
    expect(readFileSync(join(home, 'contacts.verified.csv'), 'utf8'))
      .toBe('name,phone,status\nA,+12127360011,valid\nB,+12127360012,valid\n')
  })

  it('has the MCP server', async () => {
    const host = new McpClient({ name: 'host', version: '1' })
    await host.connect(new StdioClientTransport({
      command: join(bin, 'verification-jobs'),
      args: ['mcp'],
      env: environmentOf(),
      stderr: 'ignore',
    }))
    const { tools } = await host.listTools()
    await host.close()
    expect(tools.map(({ name }) => name)).toContain('verify_contacts')
  })

  it('takes 2 MB without dependencies, with the licences of what it contains', async () => {
    const { stdout } = await run('tar', ['-tzf', tarball])
    const files = stdout.trim().split('\n').map(file => file.replace('package/', ''))
    const foreign = files.filter(file => !/^services\/client\/[\w-]+(\.js|\.d\.ts)$/.test(file))
    expect(foreign.toSorted())
      .toEqual(['LICENSE', 'README.md', 'THIRD-PARTY-LICENSES', 'package.json'])
    const folder = join(home, 'node_modules/verification-jobs')
    const sizes = files.map(file => statSync(join(folder, file)).size)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(2_000_000)
    const notices = readFileSync(join(folder, 'THIRD-PARTY-LICENSES'), 'utf8')
    for (const name of ['commander', 'csv-parse', 'libphonenumber-js', 'typebox', 'zod']) {
      expect(notices).toMatch(new RegExp(`^${name} [\\d.]+ \\(MIT\\)$`, 'm'))
    }
    const manifest = JSON.parse(readFileSync(
      join(home, 'node_modules/verification-jobs/package.json'), 'utf8')) as Record<string, object>
    expect(manifest['dependencies']).toBeUndefined()
    expect(manifest).toMatchObject({
      name: 'verification-jobs', license: 'MIT', type: 'module', engines: { node: '>=20' },
    })
  })
})
