import { globSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readChartPrograms } from '../support/deploy/deployed.ts'
import { heapArguments } from '../../deploy/local/launcher/layout.ts'
import { STAGES } from '../../services/topology.ts'
import { runTool } from '../support/deploy/tools.ts'
import { buildIn, buildStages, dockerfile, lint } from '../support/deploy/dockerfile.ts'
import { root } from '../support/sources.ts'
import { ROOT_KEY_SETTINGS, withoutForeignRootKeys } from '../support/keys/organization-keys.ts'
import { newFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const stages = buildStages()

const last = (keyword: string) =>
  stages.at(-1)?.steps.findLast(step => step.keyword === keyword)

describe('the Dockerfile', () => {
  it('passes the linter, which finds what is wrong', () => {
    const text = readFileSync(dockerfile, 'utf8')
    expect(lint(text)).toEqual([])
    expect(lint(text.replace('WORKDIR', 'WORKDIRECTORY'))).not.toEqual([])
  })

  it('needs no other image to be built, such as a frontend', () => {
    expect(read('deploy/Dockerfile')).not.toMatch(/^# *syntax=/m)
  })

  it('begins with the small image of the Node that is tested here', () => {
    const { dependencies } = JSON.parse(read('package.json')) as {
      readonly dependencies: { readonly node: string }
    }
    expect(stages.map(({ name }) => name)).toEqual(['packages', 'service'])
    const [[version, digest] = [], ...others] = [...new Set(stages.map(({ image }) => image))]
      .map(image => image.split('@'))
    expect([version, others]).toEqual([`node:${dependencies.node}-bookworm-slim`, []])
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/)
  })

  it('ends as a numbered user that is not root, with Node as the first process', () => {
    expect(last('USER')?.text).toBe('1000:1000')
    expect(JSON.parse(last('ENTRYPOINT')?.text ?? '')).toEqual(expect.arrayContaining(['node']))
    expect(JSON.parse(last('CMD')?.text ?? '')).toEqual(['services/ingest/main.ts'])
  })

  it('starts Node as the local stack does', () => {
    const [, ...collection] = JSON.parse(last('ENTRYPOINT')?.text ?? '') as string[]
    const limit = /NODE_OPTIONS=(\S+)/.exec(last('ENV')?.text ?? '')?.[1]
    expect([limit, ...collection]).toEqual(heapArguments({}, ['verify']))
  })

  it('takes along the changelog that ingest reads when it starts', () => {
    const ignored = read('deploy/Dockerfile.dockerignore').split('\n')
    expect(ignored).toContain('!schemas')
    expect(ignored.filter(line => !line.startsWith('!') && line.includes('md'))).toEqual([])
  })

  it('takes along nothing but what it names', () => {
    const ignored = read('deploy/Dockerfile.dockerignore').split('\n')
    expect(ignored.find(line => !line.startsWith('#'))).toBe('*')
    const taken = stages.flatMap(({ steps }) => steps)
      .filter(({ keyword, words }) => keyword === 'COPY' && !words[0]?.startsWith('--from'))
      .flatMap(({ words }) => words.slice(0, -1))
    const allowed = ignored.filter(line => line.startsWith('!')).map(line => line.slice(1))
    expect([...new Set(allowed)].toSorted()).toEqual([...new Set(taken)].toSorted())
  })
})

it.each([
  [200, 0], [503, 1], ['none', 1],
] as const)('the health check of a service that answers %s ends with %i', async (status, code) => {
  const requests: unknown[] = []
  const server = createServer((request, response) => {
    requests.push(request.url)
    response.writeHead(Number(status)).end()
  })
  const port = await listen(server)
  if (status === 'none') await new Promise(resolve => { server.close(resolve) })
  const command = /CMD (\[.*\])$/.exec(last('HEALTHCHECK')?.text ?? '')?.[1] ?? ''
  const [, ...args] = JSON.parse(command) as string[]
  const ran = await runTool(process.execPath, args, { PORT_METRICS: String(port) })
  expect(ran.code).toBe(code)
  expect(requests).toEqual(status === 'none' ? [] : ['/healthz'])
  server.close()
})

describe('what the Dockerfile builds', async () => {
  const folder = newFolder('verification-jobs-image-')
  await buildIn(folder)

  const env = {
    KAFKA_BROKERS: 'kafka:9092',
    SCHEMA_REGISTRY_URL: 'http://registry:8080',
    REDIS_STATE_URL: 'redis://redis-state:6379',
    REDIS_CACHE_URL: 'redis://redis-cache:6379',
    CLICKHOUSE_URL: 'http://clickhouse:8123',
    ...ROOT_KEY_SETTINGS,
    CACHE_SECRETS: JSON.stringify({ 1: Buffer.alloc(32).toString('base64') }),
    CACHE_SECRET_ACTIVE: '1',
    MESSAGE_KEYS: JSON.stringify({ 1: Buffer.alloc(32).toString('base64') }),
    MESSAGE_KEY_ACTIVE: '1',
    NODE_OPTIONS: '',
  }
  /** The program of a service, by the path that ends in its folder and main.ts. */
  const start = async (program: string, ...args: readonly string[]) => {
    const service = program.split('/').at(-2) ?? ''
    const [, ...flags] = JSON.parse(last('ENTRYPOINT')?.text ?? '') as string[]
    const app = join(folder, 'service')
    return await runTool('env', ['-C', app, process.execPath, ...flags, program, ...args], {
      ...env, ...withoutForeignRootKeys([service]), NODE_COMPILE_CACHE: join(folder, 'compiled'),
    })
  }

  it.each(STAGES)('starts %s with nothing else', async stage => {
    expect(await start(`services/${stage}/main.ts`, '--validate'))
      .toEqual({ code: 0, output: `${stage}: the configuration is valid\n` })
  })

  it('starts the page', async () => {
    const { page } = readChartPrograms()
    expect((await start(page?.program ?? '', '--validate')).output).toContain('is valid')
  })

  const tasks = Object.values(readChartPrograms()).map(({ program }) => program)
    .filter(program => !/^services\/(?!admin\/)/.test(program))

  it.each([...new Set(tasks)])('starts %s, a task of the chart', async task => {
    const [program = '', ...words] = task.split(' ')
    expect(await start(program, ...words, '--help'))
      .toEqual({ code: 0, output: expect.stringContaining('Usage: ') })
  })

  it('holds the patched packages, and none for development', async () => {
    const patched = join(folder, 'service/node_modules/kafkajs/src/consumer/consumerGroup.js')
    expect(readFileSync(patched, 'utf8'))
      .toBe(read('node_modules/kafkajs/src/consumer/consumerGroup.js'))
    const { code } = await runTool('ls', [join(folder, 'service/node_modules/vitest')])
    expect(code).not.toBe(0)
  })

  it('names every package that it holds in its software bill of materials', () => {
    const app = join(folder, 'service')
    const { components } = JSON.parse(readFileSync(join(app, 'sbom.json'), 'utf8')) as {
      readonly components: readonly Record<'name' | 'version' | 'purl', string>[]
    }
    const named = new Set(components.map(({ name, version }) => `${name} ${version}`))
    const held = globSync('node_modules/{*,@*/*}/package.json', { cwd: app })
      .map(path => JSON.parse(readFileSync(join(app, path), 'utf8')) as Record<string, string>)
      .map(({ name, version }) => `${name} ${version}`)
    expect(held.length).toBeGreaterThan(50)
    expect(held.filter(one => !named.has(one))).toEqual([])
    expect(components.some(({ purl }) => purl.startsWith('pkg:deb/debian/libc6@'))).toBe(true)
  })
})
