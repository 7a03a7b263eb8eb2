import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename } from 'node:path'
import { archiveName, archiveOf } from '../../deploy/local/java.ts'
import { installOnce } from '../../deploy/local/install.ts'
import {
  installKafka, installRegistry, type PartOptions, type Say,
} from '../../deploy/local/parts.ts'
import { openPortBook } from '../../deploy/local/ports.ts'
import { registryPart } from '../../deploy/local/registry.ts'
import { supervise } from '../../deploy/local/supervise.ts'
import type { ProcessSpec } from '../../deploy/local/process.ts'
import { kafkaPart } from '../support/kafka/own-broker.ts'

/** Java writes the archive when it ends. */
const GRACE_MS = 120_000

/**
 * Installs Kafka and the schema registry, and archives the classes that they load, from one start
 * of each, for `javaArgs` of all later ones. Without an archive they start more slowly, so only the
 * failure of an installation is thrown.
 */
export async function installArchives (say: Say): Promise<void> {
  const [kafka, registry] = [await installKafka(say), await installRegistry(say)]
  await Promise.all([
    installArchive(kafka, kafkaPart, say), installArchive(registry, registryPart, say),
  ]).catch((error: Error) => { say(`no archive of Java classes: ${error.message}`) })
}

type Part = (options: PartOptions) => Promise<{ readonly spec: ProcessSpec }>

async function installArchive (jars: string, part: Part, say: Say): Promise<void> {
  await installOnce(basename(await archiveOf(jars)), async folder => {
    say(`archiving the Java classes of ${basename(jars)} (once)`)
    const dataDir = mkdtempSync(`${tmpdir()}/verification-jobs-archive-`)
    const archive = `${folder}/classes`
    try {
      const { spec } = await part({ dataDir, ports: openPortBook(dataDir), say })
      const args = [`-XX:ArchiveClassesAtExit=${archive}`, ...spec.args]
      const running = supervise({ ...spec, args, graceMs: GRACE_MS })
      await running.untilReady().finally(() => running.stop())
      renameSync(archive, `${folder}/${archiveName(archive)}`)
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  })
}
