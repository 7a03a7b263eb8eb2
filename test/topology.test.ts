import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { typesSource } from '../deploy/types.ts'
import { topology } from '../services/topology.ts'
import { root } from './support/sources.ts'

const topics = Object.keys(topology.topics)
const stages = Object.entries(topology.stages)
const names = stages.map(([name]) => name)
const firstIndex = (topic: string) => topics.indexOf(topic)

/** Topics that no stage follows: keys are read when one is missing, ends by what comes after. */
const unread = ['job.keys', 'jobs.settled']
/** The declared exceptions to "data flows down the page". */
const backward = ['verify to rows.later', 'ledger to wallet.journal', 'ledger to jobs.settled']

describe('the topology', () => {
  it('flows down the page, but for the declared exceptions', () => {
    const up = stages.flatMap(([stage, { reads, writes }]) => writes
      .filter(topic => reads.some(read => firstIndex(read) >= firstIndex(topic)))
      .map(topic => `${stage} to ${topic}`))
    expect(up.filter(arrow => !backward.includes(arrow))).toEqual([])
  })

  it('has a writer for every topic and one reader', () => {
    for (const topic of topics) {
      const writers = stages.filter(([, stage]) => (stage.writes as readonly string[]).includes(topic))
      const readers = stages.filter(([, stage]) => (stage.reads as readonly string[]).includes(topic))
      expect([topic, writers.length > 0]).toEqual([topic, true])
      expect([topic, readers.length]).toEqual([topic, unread.includes(topic) ? 0 : 1])
    }
  })

  it('has a folder, a main and a stage file for every stage', () => {
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

  it('has types that are made from the schemas', () => {
    expect(readFileSync(join(root, 'schemas', 'types.ts'), 'utf8')).toBe(typesSource())
  })

  it('documents every field of every schema', () => {
    for (const path of globSync('schemas/*.avsc', { cwd: root })) {
      const { fields } = JSON.parse(readFileSync(join(root, path), 'utf8'))
      const bare = fields.filter((field: { doc?: string }) => !field.doc)
      expect([path, bare]).toEqual([path, []])
    }
  })
})
