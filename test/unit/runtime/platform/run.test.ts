import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import { createInterface } from 'node:readline'
import { describe, expect, it, onTestFinished } from 'vitest'
import { MESSAGE_KEY_ENV } from '../../../support/keys/signed.ts'

const lib = new URL('../../../../services/runtime/platform/', import.meta.url).href
const service = `
  import { commonConfig, defineConfig, pick } from '${lib}config.ts'
  import { run } from '${lib}run.ts'
  const schema = defineConfig(pick(commonConfig, ['KAFKA_BROKERS', 'REDIS_STATE_URL']))
  await run('sample', schema, async (config, life) => {
    life.onStop(() => console.log('closed first part'))
    life.onStop(() => { throw new Error('does not close') })
    life.onStop(() => console.log('closed last part'))
    if (process.env.FAULT === 'start') throw new TypeError('cannot start')
    if (process.env.FAULT === 'later') Promise.reject(new TypeError('unhandled'))
    console.log('up with ' + config.KAFKA_BROKERS)
    return { ready: () => true, stop: async () => { console.log('stopped') } }
  })
`
const env = {
  ...MESSAGE_KEY_ENV,
  KAFKA_BROKERS: 'a:1',
  REDIS_STATE_URL: 'redis://a',
  LOG_LEVEL: 'silent',
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
}

async function outcomeOf (
  more: Record<string, string>, args: readonly string[] = [],
  { signal, program = service }: { signal?: NodeJS.Signals, program?: string } = {}
) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, '--', ...args], {
    env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [output, errors] = ['', '']
  child.stderr.on('data', data => { errors += String(data) })
  child.stdout.on('data', data => {
    output += String(data)
    if (output.includes('up with') && signal !== undefined) child.kill(signal)
  })
  const [exitCode] = await once(child, 'close') as [number]
  return { exitCode, output: output.split('\n').filter(line => line !== ''), errors }
}

const host = `
  import { defineConfig } from '${lib}config.ts'
  import { runServices } from '${lib}run.ts'
  const start = name => async (config, life) => {
    const store = await life.share('store', async process => {
      console.log('opened by ' + process.name)
      process.onStop(() => console.log('closed store'))
      return {}
    })
    console.log('started ' + life.name)
    life.onStop(() => console.log('closed ' + name))
    life.log.info('a line')
    if (process.env.FAULT === name) throw new TypeError('cannot start')
    if (process.env.FATAL === name) life.fatal(new TypeError('failed'))
    return {
      ready: () => process.env.UNREADY !== name,
      stop: async () => { console.log('stopped ' + name) },
    }
  }
  await runServices('host', defineConfig({}), [
    { reads: start('reads'), writes: start('writes') }, { front: start('front') },
  ])
  console.log('up with all')
`

/** The host, once it is up, and the port of its health server. */
async function started (more: Record<string, string>) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', host], {
    env: { ...env, LOG_LEVEL: 'info', ...more }, stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => { child.kill('SIGKILL') })
  const exited = once(child, 'exit')
  let [port, isUp] = [0, false]
  // The log is written by another thread than the program's own lines: in either order.
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes('"port"')) ({ port } = JSON.parse(line) as { readonly port: number })
    isUp ||= line.startsWith('up with')
    if (isUp && port > 0) break
  }
  child.stdout.resume()
  const end = async () => {
    child.kill('SIGTERM')
    return await exited
  }
  return { port, end }
}

describe('the health server', () => {
  // All of 127/8 is this machine, and only 127.0.0.1 is the default.
  const addresses = ['127.0.0.1', '127.0.0.2', ...Object.values(networkInterfaces()).flat()
    .flatMap(one => one?.family === 'IPv4' && !one.internal ? [one.address] : [])]

  it.each([
    ['loopback alone by default', {}, (address: string) => address === '127.0.0.1'],
    ['all addresses at 0.0.0.0', { HOST_METRICS: '0.0.0.0' }, () => true],
  ])('listens on %s', async (_, more, isAnswered) => {
    const { port, end } = await started(more)
    const answers = await Promise.all(addresses.map(address =>
      fetch(`http://${address}:${port}/healthz`).then(({ status }) => status === 200, () => false)))
    await end()
    expect(answers).toEqual(addresses.map(isAnswered))
  })
})

describe('a service', () => {
  it('exits with 1 and closes everything if it cannot start', async () => {
    const { exitCode, output } = await outcomeOf({ FAULT: 'start' })
    expect([exitCode, output]).toEqual([1, ['closed last part', 'closed first part']])
  })

  it('exits with 1 after an unhandled rejection', async () => {
    expect((await outcomeOf({ FAULT: 'later' })).exitCode).toBe(1)
  })

  it('does not start with an invalid configuration, and reports all faults', async () => {
    const faulty = { KAFKA_BROKERS: '', REDIS_STATE_URL: 'x' }
    const { exitCode, output, errors } = await outcomeOf(faulty)
    expect({ exitCode, output }).toEqual({ exitCode: 1, output: [] })
    expect(errors).toMatch(/^sample: Invalid configuration:\n- KAFKA_BROKERS /)
    expect(errors).toMatch(/\n- REDIS_STATE_URL /)
  })

  const named = (...names: readonly string[]) => `
    import { defineConfig } from '${lib}config.ts'
    import { runServices } from '${lib}run.ts'
    await runServices('x', defineConfig({}), [
      { ${names.map(name => `${name}: async () => ({ ready: () => true })`).join()} },
    ])`
  const KEYS = { RESULTS_ROOT_KEYS: '{"1":"secret"}', RESULTS_ROOT_KEY_ACTIVE: '1' }

  it.each([
    [['deliver'], KEYS, ['RESULTS_ROOT_KEYS', 'RESULTS_ROOT_KEY_ACTIVE'], 'deliver needs'],
    [['deliver', 'page'], { RESULTS_ROOT_KEYS: '{}' }, ['RESULTS_ROOT_KEYS'],
      'deliver and page need'],
    [['deliver', 'publish'], KEYS, [], ''],
    [['deliver'], { RESULTS_ROOT_KEYS: ' ', RESULTS_ROOT_KEY_ACTIVE: '' }, [], ''],
  ])('of %j with %j is refused for %j, as no service needs them', async (...given) => {
    const [names, keys, refused, need] = given
    const faults = refused.map(setting => `- ${setting} is set, but ${need} no root keys of ` +
      'results: remove it from the environment of this process\n')
    const { exitCode, errors } =
      await outcomeOf(keys, ['--validate'], { program: named(...names) })
    expect([exitCode, errors]).toEqual(
      faults.length === 0 ? [0, ''] : [1, `x: Invalid configuration:\n${faults.join('')}`])
  })

  it('only checks the configuration with --validate', async () => {
    expect(await outcomeOf({}, ['--validate']))
      .toEqual({ exitCode: 0, output: ['sample: the configuration is valid'], errors: '' })
  })
})

describe('a host of several services', () => {
  const hostOf = (more: Record<string, string>, signal?: NodeJS.Signals) =>
    outcomeOf(more, [], { ...signal && { signal }, program: host })
  const stopped = ['stopped reads', 'stopped writes', 'closed writes', 'closed reads']

  it('opens what they share once, and stops groups in reverse order', async () => {
    expect(await hostOf({}, 'SIGTERM')).toEqual({
      exitCode: 0,
      output: [
        'opened by host', 'started reads', 'started writes', 'started front', 'up with all',
        'stopped front', 'closed front', ...stopped, 'closed store',
      ],
      errors: '',
    })
  })

  it('ends with the service that cannot start, and stops the others', async () => {
    const { exitCode, output } = await hostOf({ FAULT: 'writes' })
    expect([exitCode, output.filter(line => /^(stopped|closed)/.test(line))])
      .toEqual([1, ['stopped reads', 'closed writes', 'closed reads', 'closed store']])
  })

  it('ends with a service that fails later', async () => {
    const { exitCode, output } = await hostOf({ FATAL: 'reads' })
    expect([exitCode, output.includes('closed store')]).toEqual([1, true])
  })

  it('names the service in its log lines', async () => {
    const { output } = await hostOf({ LOG_LEVEL: 'info' }, 'SIGTERM')
    const lines = output.filter(line => line.startsWith('{'))
      .map(line => JSON.parse(line) as { readonly name: string, readonly msg: string })
    expect(lines.filter(({ msg }) => msg === 'a line').map(({ name }) => name).toSorted())
      .toEqual(['front', 'reads', 'writes'])
    expect(lines.find(({ msg }) => msg === 'started')?.name).toBe('host')
  })

  it('is ready when all services are, and reports each', async () => {
    const { port, end } = await started({ UNREADY: 'reads' })
    const ask = async (path: string) => await fetch(`http://127.0.0.1:${port}${path}`)
    const statuses = ['/healthz', '/readyz?x', '/other'].map(async path => (await ask(path)).status)
    expect(await Promise.all(statuses)).toEqual([200, 503, 404])
    const answer = await ask('/metrics')
    expect(answer.headers.get('content-type')).toContain('version=0.0.4')
    expect((await answer.text()).split('\n').filter(line => line.startsWith('service_ready{')))
      .toEqual(['reads"} 0', 'writes"} 1', 'front"} 1'].map(it => `service_ready{stage="${it}`))
    expect(await end()).toEqual([0, null])
  })
})
