import { mkdirSync, readdirSync } from 'node:fs'
import { javaArgs } from './java.ts'
import { installRegistry, requireJava } from './parts.ts'
import { answersOk } from './process.ts'
import type { PartOptions } from './part.ts'
import type { ProcessSpec } from './process.ts'

/** The schema registry with its data in an H2 file; speaks the Confluent API under its URL. */
export async function registryPart (
  options: PartOptions
): Promise<{ spec: ProcessSpec, url: string }> {
  await requireJava()
  const home = await installRegistry(options.say)
  const port = await options.ports.port('registry')
  const folder = `${options.dataDir}/registry`
  mkdirSync(folder, { recursive: true })
  const url = `http://127.0.0.1:${port}/apis/ccompat/v7`
  const jar = readdirSync(home).find((name) => name.endsWith('-runner.jar'))
  if (jar === undefined) throw new Error(`${home} holds no registry: delete it and start again`)
  const settings = {
    'quarkus.http.port': port,
    'quarkus.http.host': '127.0.0.1',
    'quarkus.log.level': 'WARN',
    'quarkus.datasource.jdbc.min-size': 2,
    'quarkus.datasource.jdbc.initial-size': 2,
    'quarkus.datasource.jdbc.max-size': 10,
  }
  const defines = Object.entries(settings).map(([key, value]) => `-D${key}=${value}`)
  return {
    url,
    spec: {
      name: 'registry',
      command: 'java',
      args: [...javaArgs(256), ...defines, '-jar', `${home}/${jar}`],
      // Without this variable the registry keeps its data in memory; the write delay is what a
      // killed registry may forget.
      env: { REGISTRY_DATASOURCE_URL: `jdbc:h2:file:${folder}/registry;WRITE_DELAY=0` },
      cwd: folder,
      dataDir: options.dataDir,
      ready: () => answersOk(`${url}/subjects`),
      graceMs: 10_000,
    },
  }
}
