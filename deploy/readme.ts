import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import type { TObject } from 'typebox'
import { describeConfig } from '../services/lib/config.ts'
import { topology } from '../services/topology.ts'

const readme = new URL('../README.md', import.meta.url)
const services = new URL('../services/', import.meta.url)
const id = (name: string) => name.replaceAll('.', '_')

function drawing (): string {
  const arrows = Object.entries(topology.stages).flatMap(([stage, { reads, writes }]) => [
    ...reads.map(topic => `  ${id(topic)}[("${topic}")] --> ${stage}`),
    ...writes.map(topic => `  ${stage} --> ${id(topic)}[("${topic}")]`),
  ])
  return ['```mermaid', 'flowchart TD', '  client(["client"]) -->|REST| ingest', ...arrows, '```'].join('\n')
}

const keptFor = (hours: number) => hours < 0 ? 'for ever' : `${hours / 24} d`
const splits = { none: '-', lane: 'lane', service: 'lane, service' } as const

function topics (): string {
  const rows = Object.entries(topology.topics).map(([name, topic]) => {
    const kept = 'compact' in topic ? `compacted, ${keptFor(topic.keepHours)}` : keptFor(topic.keepHours)
    return `| \`${name}\` | ${topic.key} | ${splits[topic.split]} | ${topic.partitions} | ${kept} |`
  })
  return ['| topic | key | split by | partitions | kept |', '|---|---|---|---|---|', ...rows].join('\n')
}

/** A cell of a table may hold no bar. */
const cell = (text: string) => text.replaceAll('|', '\\|')

async function configuration (): Promise<string> {
  const rows = new Map<string, { services: string[], description: string, fallback: string }>()
  for (const path of globSync('*/config.ts', { cwd: services }).sort()) {
    const service = path.split('/')[0] ?? ''
    const { config } = await import(new URL(path, services).href) as { config: TObject }
    for (const { key, description, fallback } of describeConfig(config)) {
      const row = rows.get(key) ?? { services: [], description, fallback: fallback ?? 'none, required' }
      row.services.push(service)
      rows.set(key, row)
    }
  }
  const lines = [...rows].sort(([a], [b]) => a < b ? -1 : 1).map(([key, row]) =>
    `| \`${key}\` | ${cell(row.description)} | ${cell(row.fallback)} | ${row.services.join(', ')} |`)
  return ['| key | meaning | default | read by |', '|---|---|---|---|', ...lines].join('\n')
}

/** The README with its generated parts made anew; a test compares it with the file. */
export async function readmeSource (): Promise<string> {
  const parts = { drawing: drawing(), topics: topics(), configuration: await configuration() }
  let text = readFileSync(readme, 'utf8')
  for (const [name, part] of Object.entries(parts)) {
    const [begin, end] = [`<!-- ${name} -->\n`, `\n<!-- /${name} -->`]
    const [before = '', rest] = text.split(begin)
    const after = rest?.split(end)[1]
    if (after === undefined) throw new Error(`README.md has no part "${name}" between its markers`)
    text = before + begin + part + end + after
  }
  return text
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync(readme, await readmeSource())
}
