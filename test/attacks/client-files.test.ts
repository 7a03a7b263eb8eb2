import { execFileSync } from 'node:child_process'
import { createServer } from 'node:http'
import {
  linkSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync,
  unlinkSync, writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createFeedProgram } from '../../services/feed/send/command.ts'
import { openResultFile } from '../../services/feed/send/send.ts'
import { runProgram } from '../../services/client/program.ts'
import { submitFile } from '../../services/client/submit.ts'
import { newFolder } from '../support/folder.ts'
import { createFakeService, type FakeOptions } from '../unit/client/fake-service.ts'
import { connectHost } from '../unit/client/mcp-host.ts'
import { listen } from '../support/listen.ts'

const home = newFolder('client-files-')
const inside = join(home, 'inside')
const outside = join(home, 'outside')
const victim = join(outside, 'x')
const input = join(inside, 'in.csv')
const TABLE = 'phone\n+12127365000\n+12127365001\n'
const SECRET = 'phone\n+12125550100\n'

beforeEach(() => {
  for (const folder of [inside, outside]) {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder)
  }
  writeFileSync(input, TABLE)
  writeFileSync(victim, 'precious')
  writeFileSync(join(outside, 'secret.csv'), SECRET)
})
/** Nothing outside the folder has changed. */
afterEach(() => {
  expect(readdirSync(outside).sort()).toEqual(['secret.csv', 'x'])
  expect(readFileSync(victim, 'utf8')).toBe('precious')
  expect(readFileSync(join(outside, 'secret.csv'), 'utf8')).toBe(SECRET)
})

const settings = {
  input,
  output: join(inside, 'out.csv'),
  service: 'phone-validation',
  forceFresh: false,
  metadata: {},
  guarded: false,
  rowsPerJob: 1,
  parallel: 1,
  restart: false,
  yes: true,
  account: { baseUrl: 'http://there', key: 'k' },
}

function submit (service: ReturnType<typeof createFakeService>, more = {}) {
  return submitFile({ ...settings, ...more }, {
    client: service.client, say: () => {}, pause: async () => {}, pollEveryMs: 0,
  })
}

const plants: Readonly<Record<string, (path: string) => void>> = {
  'a link to a file': path => { symlinkSync('../outside/x', path) },
  'a link to nothing': path => { symlinkSync('../outside/new', path) },
  'a link to a folder': path => { symlinkSync('../outside', path) },
  'a pipe': path => { execFileSync('mkfifo', [path]) },
  'a folder': path => { mkdirSync(path) },
}
const planted = Object.keys(plants).map(kind => [kind] as const)
const NAMES = ['out.csv', 'out.csv.part', 'out.csv.progress.json']
const suffixed = Object.keys(plants).flatMap(kind => NAMES.map(name => [kind, name] as const))

describe('submit', () => {
  it.each(suffixed)('refuses %s as %s before it sends anything', async (kind, name) => {
    plants[kind]?.(join(inside, name))
    const before = lstatSync(join(inside, name)).ino
    const service = createFakeService()
    for (const restart of [false, true]) {
      await expect(submit(service, { restart })).rejects.toThrow(/Remove it, or choose another/)
    }
    expect([service.jobs, lstatSync(join(inside, name)).ino]).toEqual([[], before])
  })

  it.each(planted)('is not led by %s in place of its temporary state', async kind => {
    const plant = join(inside, 'out.csv.progress.json.new')
    plants[kind]?.(plant)
    await expect(submit(createFakeService())).rejects.toThrow(/Remove it, or choose another/)
  })

  it.each(NAMES.slice(1))('refuses a hard link as %s', async name => {
    linkSync(victim, join(inside, name))
    await expect(submit(createFakeService())).rejects.toThrow('hard links')
  })

  it('replaces an output that has other names without a change of the others', async () => {
    linkSync(victim, join(inside, 'out.csv'))
    await submit(createFakeService(), { restart: true })
    expect(readFileSync(join(inside, 'out.csv'), 'utf8')).toMatch(/^phone,/)
  })

  it('resumes after its own part was exchanged for a link, once that is removed', async () => {
    const part = join(inside, 'out.csv.part')
    const at: FakeOptions['at'] = (moment, times) =>
      moment === 'download' && times === 2 ? new Error('killed') : undefined
    const service = createFakeService({ at })
    await expect(submit(service)).rejects.toThrow('killed')
    expect(lstatSync(part).size).toBeGreaterThan(0)
    unlinkSync(part)
    symlinkSync('../outside/x', part)
    service.change({})
    await expect(submit(service)).rejects.toThrow('is a symbolic link, which is not followed')
    unlinkSync(part)
    expect(await submit(service)).toMatchObject({ rows: 2, completed: true })
    expect(service.jobs).toHaveLength(2)
  })

  it('writes to the folder it opened, also if another one takes its place', async () => {
    const moved = join(inside, 'moved')
    mkdirSync(join(inside, 'sub'))
    const at: FakeOptions['at'] = (moment, times) => {
      if (moment !== 'POST' || times !== 2) return undefined
      renameSync(join(inside, 'sub'), moved)
      symlinkSync('../outside', join(inside, 'sub'))
      return undefined
    }
    await submit(createFakeService({ at }), { output: join(inside, 'sub', 'out.csv') })
    expect(readdirSync(moved)).toEqual(['out.csv'])
  })
})

async function run (words: readonly string[], more: object = {}) {
  const streams = { input: new PassThrough(), output: new PassThrough(), errors: new PassThrough() }
  streams.input.end()
  const code = await runProgram(words, { ...streams, env: {}, onInterrupt: () => {}, ...more })
  return { code, errors: String(streams.errors.read() ?? '') }
}

describe('the download of results', () => {
  const file = join(inside, 'out.csv')
  const download = async () => await run(['results', 'job_1', '-o', file], {
    env: { VERIFICATION_JOBS_URL: 'http://localhost', VERIFICATION_JOBS_KEY: 'k' },
    clientOptions: {
      fetch: async () => new Response('row,input\n1,+12127365000\n'), retries: 0,
    },
  })
  const names = Object.keys(plants).flatMap(kind =>
    ['out.csv', 'out.csv.part'].map(name => [kind, name] as const))

  it.each(names)('refuses %s as %s', async (kind, name) => {
    plants[kind]?.(join(inside, name))
    expect(await download()).toEqual({ code: 1, errors: expect.stringContaining('Remove it, or') })
  })

  it('refuses a device, and leaves it what it is', async () => {
    // Of its own where it can: who is root could replace that of the machine.
    const isRoot = process.getuid?.() === 0
    const device = isRoot ? join(inside, 'device') : '/dev/null'
    if (isRoot) execFileSync('mknod', [device, 'c', '1', '3'])
    expect(await run(['results', 'job_1', '-o', device], {
      env: { VERIFICATION_JOBS_URL: 'http://localhost', VERIFICATION_JOBS_KEY: 'k' },
      clientOptions: { fetch: async () => new Response('row\n'), retries: 0 },
    })).toEqual({ code: 1, errors: expect.stringContaining('is not a regular file') })
    expect(lstatSync(device).isCharacterDevice()).toBe(true)
  })

  it('replaces a file, and what an interrupted download left', async () => {
    writeFileSync(file, 'old')
    writeFileSync(`${file}.part`, 'old and longer than the new one, which replaces it as a whole')
    expect(await download()).toEqual({ code: 0, errors: '' })
    expect(readdirSync(inside)).toEqual(['in.csv', 'out.csv'])
    expect(readFileSync(file, 'utf8')).toBe('row,input\n1,+12127365000\n')
  })
})

describe('the results of a feed', () => {
  const files = ['out.csv', 'out.csv.part', 'out.ndjson', 'out.ndjson.part']
  it.each(Object.keys(plants).flatMap(kind => files.map(name => [kind, name] as const)))(
    'are not written to %s as %s', (kind, name) => {
      plants[kind]?.(join(inside, name))
      expect(() => openResultFile(join(inside, name.replace('.part', '')))).toThrow('Remove it, or')
    })

  it('as CSV are not led by a link in place of their last step', async () => {
    const output = openResultFile(join(inside, 'out.csv'))
    output.write({ reference: 'a', resultId: 'r', cells: { status: 'valid' } })
    symlinkSync('../outside/x', join(inside, 'out.csv.new'))
    await expect(output.finish()).rejects.toThrow('is a symbolic link')
    expect(readFileSync(join(inside, 'out.csv.part'), 'utf8')).toContain('"valid"')
  })
})

const sessions: Awaited<ReturnType<typeof connectHost>>[] = []
afterEach(async () => { await Promise.all(sessions.splice(0).map(({ host }) => host.close())) })

async function connect (fake: FakeOptions = {}, folder = inside) {
  const session = await connectHost(folder, { fake })
  sessions.push(session)
  const { call, service } = session
  const verifyFile = (file: string, more = {}) => call('verify_file', { file, ...more })
  return { service, verifyFile }
}

describe('verify_file', () => {
  const suffixes = ['', '.part', '.progress.json', '.progress.json.new']
  it.each(Object.keys(plants).flatMap(kind => suffixes.map(name => [kind, name] as const)))(
    'does not write to %s as in.verified.csv%s', async (kind, suffix) => {
      plants[kind]?.(join(inside, `in.verified.csv${suffix}`))
      const { verifyFile, service } = await connect()
      const { isError, text } = await verifyFile('in.csv', { replace: true })
      expect([isError, text, service.jobs])
        .toEqual([true, expect.stringContaining('Remove it, or choose another output.'), []])
      expect(text).not.toContain(home)
    })

  it('says the same about every path outside its folder', async () => {
    symlinkSync('../outside', join(inside, 'folder'))
    symlinkSync('../outside/secret.csv', join(inside, 'file.csv'))
    symlinkSync('../outside/none.csv', join(inside, 'nothing.csv'))
    symlinkSync('file.csv', join(inside, 'twice.csv'))
    symlinkSync(join(outside, 'x', 'below-a-file.csv'), join(inside, 'below.csv'))
    symlinkSync('..', join(inside, 'up'))
    const { verifyFile, service } = await connect()
    const paths = [
      join(outside, 'secret.csv'), join(outside, 'none.csv'), join(outside, 'x', 'y.csv'),
      outside, home, '/', '/none/at/all.csv', '/etc/passwd', `/${'long'.repeat(1_000)}`,
      '../outside/secret.csv', '../outside/none.csv', '../none/none.csv', '..', '../..',
      'none/../../outside/secret.csv', `${inside}x/secret.csv`,
      'folder', 'folder/secret.csv', 'folder/none.csv', 'folder/x/y.csv', 'file.csv',
      'file.csv/y', 'nothing.csv', 'twice.csv', 'below.csv', 'up/outside/secret.csv', 'up/none.csv',
      '../outside/\0',
    ]
    const answers = await Promise.all(paths.map(async path => {
      const { isError, text } = await verifyFile(path)
      return { isError, text: text.replace(path, 'PATH') }
    }))
    const text = 'PATH is not below the folder of this server. Only files there can be verified. ' +
      'Copy the file, or ask the user to restart the server with another --folder.'
    expect(answers).toEqual(paths.map(() => ({ isError: true, text })))
    expect(service.requests).toEqual([])
  })

  it('says no absolute path of what is missing below its folder', async () => {
    symlinkSync('loop', join(inside, 'loop'))
    const { verifyFile } = await connect()
    for (const path of ['none.csv', 'in.csv/none', '.', 'a\0b', 'loop', `${'x'.repeat(300)}`]) {
      const { isError, text } = await verifyFile(path)
      expect([isError, text]).toEqual([true, expect.not.stringContaining(home)])
      expect(text).toMatch(/ (does not exist|is a cycle of links|is not a regular file)\./)
    }
  })

  it('reads files through links that stay below its folder', async () => {
    mkdirSync(join(inside, 'sub'))
    renameSync(input, join(inside, 'sub', 'in.csv'))
    symlinkSync('sub', join(inside, 'alias'))
    symlinkSync(join(inside, 'alias', '..', 'sub', 'in.csv'), join(inside, 'list.csv'))
    symlinkSync(inside, join(home, 'entry'))
    const { verifyFile } = await connect({}, join(home, 'entry'))
    for (const path of ['list.csv', 'alias/in.csv', join(home, 'entry', 'sub', 'in.csv')]) {
      const { isError, text } = await verifyFile(path)
      expect([isError, text]).toEqual([false, expect.stringContaining('"ended":true')])
    }
    expect(readdirSync(join(inside, 'sub'))).toEqual(['in.csv', 'in.verified.csv'])
    rmSync(join(home, 'entry'))
  })

  it('reads no file that has names elsewhere', async () => {
    linkSync(join(outside, 'secret.csv'), join(inside, 'hard.csv'))
    const { verifyFile, service } = await connect()
    expect((await verifyFile('hard.csv')).text).toContain('hard links')
    expect(service.requests).toEqual([])
  })

  it('sends what it checked, also if a link replaces the file or its folder', async () => {
    const at: FakeOptions['at'] = (moment, times) => {
      if (moment !== 'quote' || times !== 1) return undefined
      unlinkSync(input)
      symlinkSync('../outside/secret.csv', input)
      renameSync(join(inside, 'sub'), join(inside, 'moved'))
      symlinkSync('../outside', join(inside, 'sub'))
      return undefined
    }
    for (const path of ['in.csv', 'sub/secret.csv']) {
      rmSync(inside, { recursive: true })
      mkdirSync(join(inside, 'sub'), { recursive: true })
      writeFileSync(input, TABLE)
      writeFileSync(join(inside, 'sub', 'secret.csv'), TABLE)
      const { verifyFile, service } = await connect({ at })
      await verifyFile(path)
      expect(service.jobs.map(({ inputs }) => inputs)).toEqual([['+12127365000', '+12127365001']])
    }
  })
})

describe('a stack file of a stranger', () => {
  const data = join(home, 'stack')
  const keyFile = join(home, 'key')
  const COMMANDS = [
    ['submit', input, '--yes', '--service', 'phone-validation'], ['verify', '+12127365000'],
    ['status', 'job_1'], ['cancel', 'job_1'], ['erase', 'job_1'], ['results', 'job_1'],
    ['balance'], ['usage'], ['transactions'], ['services'], ['mcp'],
  ]

  /** Runs a command in a folder whose stack file names a server, and returns what that received. */
  async function attack (words: readonly string[], env: object, address?: string) {
    const received: (string | undefined)[] = []
    const server = createServer((request, response) => {
      received.push(request.headers.authorization)
      response.writeHead(404).end('{}')
    })
    const port = await listen(server)
    const baseUrl = address ?? `http://127.0.0.1:${port}/api/v1`
    mkdirSync(data, { recursive: true })
    writeFileSync(join(data, 'stack.json'), JSON.stringify({
      baseUrl,
      keys: { live: 'of-the-file' },
      kafkaBrokers: 'evil.example:9092',
      schemaRegistryUrl: 'http://evil.example',
      feed: { partner: 'demo', key: `vjf_${Buffer.alloc(32, 1).toString('base64url')}` },
    }))
    const result = await run([...words, '--data', data], { env, clientOptions: { retries: 0 } })
    await new Promise(resolve => { server.close(resolve) })
    return { ...result, received }
  }

  it.each(COMMANDS)('gets no key of the environment or of a file from %s', async (...words) => {
    writeFileSync(keyFile, 'precious-key')
    for (const [env, more] of [
      [{ VERIFICATION_JOBS_KEY: 'precious-key' }, []], [{}, ['--key-file', keyFile]],
    ] as const) {
      expect(await attack([...words, ...more], env)).toEqual({
        code: 2, errors: expect.stringMatching(/address is missing.+--base-url/), received: [],
      })
    }
  })

  it('gets no contacts either, unless it is on this machine', async () => {
    for (const address of ['http://evil.example/api/v1', 'https://127.0.0.1.evil.example']) {
      expect(await attack(['balance'], {}, address))
        .toMatchObject({ code: 2, received: [] })
    }
    const { received } = await attack(['balance'], {})
    expect(received).toEqual(['Bearer of-the-file'])
  })

  it('gets no key, password or contact of a feed', async () => {
    await attack(['balance'], {})
    const key = `vjf_${Buffer.alloc(32, 2).toString('base64url')}`
    const send = (env: Record<string, string>, ...words: readonly string[]) =>
      createFeedProgram(env, { say: () => {}, confirm: undefined, readPrice: async () => 1 })
        .parseAsync(['send', input, '--service', 'whatsapp', '--data', data, ...words], {
          from: 'user',
        })
    const needed = /KAFKA_BROKERS or SCHEMA_REGISTRY_URL is missing/
    await expect(send({}, '--key', key, '--partner', 'a')).rejects.toThrow(needed)
    const names = [
      'FEED_KEY', 'KAFKA_SASL_PASSWORD', 'KAFKA_SASL_PASSWORD_FILE', 'KAFKA_OAUTH_CLIENT_SECRET',
      'KAFKA_AWS_REGION', 'KAFKA_TLS_CERT_FILE', 'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL',
      'SCHEMA_REGISTRY_PASSWORD_FILE',
    ]
    for (const name of names) {
      await expect(send({ [name]: key }, '--partner', 'a')).rejects.toThrow(needed)
    }
    await expect(send({})).rejects.toThrow('is not on this machine')
  })
})
