import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { topology } from '../services/topology.ts'
import { root } from './support/sources.ts'

const topics = Object.keys(topology.topics)
const stages = Object.entries(topology.stages)
const names = stages.map(([name]) => name)
const firstIndex = (topic: string) => topics.indexOf(topic)

/** Topics that no stage follows: a recovery reads snapshots and accounts, partners read results. */
const unread = [
  'wallet.snapshots', 'accounts', 'organization.keys', 'contact.lists', 'feeds.finished',
]
/** Topics that no stage writes: partners do. */
const unwritten = ['feeds.submitted']
/** What two stages follow, each for its own ends. */
const readTwice = ['jobs.settled']
/** The declared exceptions to "data flows down the page". */
const backward = [
  'verify to rows.retry', 'ledger to wallet.journal', 'ledger to job.keys',
  'ledger to access.log', 'ledger to jobs.settled', 'ledger to jobs.events',
]

describe('the topology', () => {
  it('flows down the page, but for the declared exceptions', () => {
    const up = stages.flatMap(([stage, { reads, writes }]) => writes
      .filter(topic => reads.some(read => firstIndex(read) >= firstIndex(topic)))
      .map(topic => `${stage} to ${topic}`))
    expect(up.filter(arrow => !backward.includes(arrow))).toEqual([])
  })

  it('has a writer for every topic and one reader', () => {
    for (const topic of topics) {
      const lists = (list: readonly string[]) => list.includes(topic)
      const writers = stages.filter(([, stage]) => lists(stage.writes))
      const readers = stages.filter(([, stage]) => lists(stage.reads))
      expect([topic, writers.length > 0]).toEqual([topic, !unwritten.includes(topic)])
      const wanted = readTwice.includes(topic) ? 2 : 1
      expect([topic, readers.length]).toEqual([topic, unread.includes(topic) ? 0 : wanted])
    }
  })

  it('has a folder with a main for every stage', () => {
    for (const name of names) {
      expect([name, existsSync(join(root, 'services', name, 'main.ts'))]).toEqual([name, true])
    }
  })

  it('has a schema and an example for every topic, and none for others', () => {
    const schemas = globSync('schemas/*.avsc', { cwd: root })
      .map(path => path.replace('schemas/', '').replace('.avsc', ''))
      .filter(name => !name.endsWith('-rows'))
    expect(schemas.toSorted()).toEqual(topics.toSorted())
    for (const topic of topics) {
      const examples = globSync(`schemas/examples/${topic}/*.json`, { cwd: root })
      expect([topic, examples.length > 0]).toEqual([topic, true])
    }
  })

  it('documents every field of every schema', () => {
    for (const path of globSync('schemas/*.avsc', { cwd: root })) {
      const { fields } = JSON.parse(readFileSync(join(root, path), 'utf8'))
      const bare = fields.filter((field: { doc?: string }) => !field.doc)
      expect([path, bare]).toEqual([path, []])
    }
  })
})

describe('the configuration of the services', () => {
  const paths = globSync('services/*/config.ts', { cwd: root }).sort()

  it.each(paths)('%s exports one schema, named after its service', async path => {
    const exported = await import(join(root, path)) as Readonly<Record<string, unknown>>
    const schemas = Object.keys(exported).filter(name => 'properties' in Object(exported[name]))
    expect(schemas).toEqual([`${path.split('/')[1]}Config`])
  })

  it('is there for every stage', () => {
    const missing = names.filter(name => !paths.includes(`services/${name}/config.ts`))
    expect(missing).toEqual([])
  })
})
