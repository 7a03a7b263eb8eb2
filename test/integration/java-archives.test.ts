import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { archiveOf } from '../../deploy/local/java.ts'
import { installKafka, javaArgs } from '../../deploy/local/parts.ts'
import { installArchives } from '../runner/archives.ts'
import { newFolder } from '../support/folder.ts'

const folder = newFolder('java-archives-')

const jars = await installKafka(() => {})
beforeAll(async () => { await installArchives(() => {}) })

/** Where a start of Kafka with these options loads its main class from. */
function sourceOfMain (args: readonly string[]): string {
  const start = ['-Xlog:class+load', '-cp', `${jars}/*`, 'kafka.Kafka', '--version']
  const output = execFileSync('java', [...args, ...start], { maxBuffer: 2 ** 26 }).toString()
  return /kafka\.Kafka source: (.*)/.exec(output)?.[1] ?? output.slice(-2_000)
}

/** A jar, with an archive of this content and name. */
async function archived (name: string, archive: string, content: string): Promise<string> {
  const own = `${folder}/${name}`
  mkdirSync(own)
  writeFileSync(`${own}/a.jar`, 'jar')
  const of = await archiveOf(own)
  mkdirSync(of)
  writeFileSync(`${of}/${archive}`, content)
  return own
}

const isSharing = async (own: string) =>
  (await javaArgs(64, own)).some(arg => arg.startsWith('-XX:SharedArchiveFile='))

describe('the archive of Java classes', () => {
  it('is what a start loads its classes from', async () => {
    expect(sourceOfMain(await javaArgs(64, jars))).toBe('shared objects file (top)')
  })

  it('is ignored by Java if it is damaged', async () => {
    const archive = await archiveOf(jars)
    const [name = ''] = readdirSync(archive)
    const damaged = readFileSync(`${archive}/${name}`)
    damaged[damaged.length >> 1]! ^= 1
    writeFileSync(`${folder}/${name}`, damaged)
    const args = (await javaArgs(64, jars)).map(arg => arg.replace(archive, folder))
    expect(sourceOfMain(args)).toMatch(/^file:.*\.jar$/)
  })

  it('is not used if it is not complete', async () => {
    expect(await isSharing(await archived('whole', '7.jsa', 'archive'))).toBe(true)
    expect(await isSharing(await archived('short', '7.jsa', 'arch'))).toBe(false)
    expect(await isSharing(await archived('partial', 'classes', 'archive'))).toBe(false)
  })

  it('belongs to its jars alone', async () => {
    const own = await archived('own', '7.jsa', 'archive')
    utimesSync(`${own}/a.jar`, 1, 1)
    expect(await isSharing(own)).toBe(false)
  })
})
