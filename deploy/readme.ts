import { globSync, readFileSync } from 'node:fs'
import type { TObject } from 'typebox'
import {
  COLUMNS, COMMON_COLUMNS, OPTION_COLUMNS, SERVICE_COLUMNS, STANDARD_COLUMNS,
} from '../schemas/api/columns.ts'
import { CHECKS, OUTCOME_MEANINGS } from '../schemas/api/services.ts'
import { SUPPORT, type Support } from '../services/cache/evidence.ts'
import { describeConfig } from '../services/runtime/platform/config.ts'
import { SANDBOX_REFUSALS } from '../services/ingest/routes/create-job.ts'
import { MAGIC_EMAILS, MAGIC_PHONES } from '../services/verify/providers/sandbox.ts'
import type { AdminCommand } from '../services/admin/command-line.ts'
import { createAdminProgram } from '../services/admin/program.ts'
import { listAccessRules, type AccessRule } from '../services/runtime/kafka/admin.ts'
import {
  KEY_CLASSES, PROCESS_KEYS, STAGES, topology, type StageName,
} from '../services/topology.ts'
import { pageDefinitions } from '../services/page/app.ts'
import { renderPicture } from '../services/page/pipeline/page.ts'
import { roleTable } from '../services/page/context.ts'
import { writeGenerated } from './generated.ts'

const page = (name: string) => new URL(`docs/${name}.md`, import.meta.url)
const services = new URL('../services/', import.meta.url)
const id = (name: string) => name.replaceAll('.', '_')

function renderDrawing (): string {
  const arrows = Object.entries(topology.stages).flatMap(([stage, { reads, writes }]) => [
    ...reads.map(topic => `  ${id(topic)}[("${topic}")] --> ${stage}`),
    ...writes.map(topic => `  ${stage} --> ${id(topic)}[("${topic}")]`),
  ])
  const fence = '```'
  const head = [`${fence}mermaid`, 'flowchart TD', '  client(["client"]) -->|REST| ingest']
  return [...head, ...arrows, fence].join('\n')
}

/** What each stage does, in two short lines of the picture. */
const TASKS: Readonly<Record<StageName, readonly [string, string]>> = {
  ingest: ['accepts jobs,', 'serves results'],
  feed: ['accepts contacts', 'of partners'],
  normalize: ['parses contacts,', 'rejects invalid ones'],
  lookup: ['drops duplicates, reads', 'the cache, reserves'],
  verify: ['asks providers,', 'fills the cache'],
  settle: ['charges rows, ends', 'and archives jobs'],
  deliver: ['sends webhooks', ''],
  publish: ['writes results', 'of partners'],
  ledger: ['completes what', 'others left'],
}

/** The look of the web page in its light theme, as plain colors. */
const PICTURE_STYLE = `
  svg { background: #ffffff; font: 12px sans-serif }
  text { fill: #515c65; text-anchor: middle; dominant-baseline: central }
  .name { fill: #14191d; font-size: 14px; font-weight: 650 }
  .stage rect { fill: #e2f1ee; stroke: #0b6e5f; stroke-width: 1.5 }
  .topic rect { fill: #f6f7f8; stroke: #dfe3e6 }
  .topic .name { font: 11.5px monospace }
  .arrow { fill: none; stroke: #848f98; stroke-width: 1.5 }
  marker path { fill: #848f98 }
`

/** The picture of the pipeline as a file: the drawing of the web page without its figures. */
function renderPipeline (): string {
  const label = 'The pipeline: stages, and the Kafka topics that connect them.'
  return renderPicture(TASKS, label, PICTURE_STYLE)
}

/** Escapes bars in table cells. */
const tableRow = (cells: readonly string[]) =>
  `| ${cells.map(cell => cell.replaceAll('|', '\\|')).join(' | ')} |`
const tableHead = (names: readonly string[]) => [tableRow(names), tableRow(names.map(() => '---'))]

const keptFor = (hours: number) => hours < 0 ? 'forever' : `${hours / 24} d`
const splits = {
  none: '-', lane: 'lane', 'lane:service': 'lane, service', partner: 'partner',
} as const

function renderTopics (): string {
  const rows = Object.entries(topology.topics).map(([name, topic]) => {
    const kept = `${'compact' in topic ? 'compacted, ' : ''}${keptFor(topic.keepHours)}`
    return tableRow([`\`${name}\``, topic.key, splits[topic.split], `${topic.partitions}`, kept])
  })
  return [...tableHead(['topic', 'key', 'split by', 'partitions', 'kept']), ...rows].join('\n')
}

type ConfigLine = {
  readonly key: string
  readonly services: string[]
  readonly description: string
  readonly fallback: string
}

async function readConfigLines (): Promise<ReadonlyMap<string, ConfigLine>> {
  const lines = new Map<string, ConfigLine>()
  const paths = globSync('*/config.ts', { cwd: services }).sort()
  for (const path of paths) {
    const service = path.split('/').at(-2) ?? ''
    const exported = await import(new URL(path, services).href) as Readonly<Record<string, TObject>>
    const schema = exported[`${service}Config`]
    if (schema === undefined) throw new Error(`${path} exports no configuration`)
    for (const { key, description, fallback, required } of describeConfig(schema)) {
      const shown = fallback ?? (required ? 'required' : 'none')
      // Another program may have the same key with another meaning or default.
      const id = [key, description, shown].join(' ')
      const line = lines.get(id) ?? { key, services: [], description, fallback: shown }
      line.services.push(service)
      lines.set(id, line)
    }
  }
  return lines
}

async function renderConfiguration (): Promise<string> {
  const rows = [...await readConfigLines()].sort(([a], [b]) => a < b ? -1 : 1)
    .map(([, { key, services, description, fallback }]) =>
      tableRow([`\`${key}\``, description, fallback, services.join(', ')]))
  return [...tableHead(['key', 'meaning', 'default', 'read by']), ...rows].join('\n')
}

/** The outcomes of inputs with test keys. */
function renderSandbox (): string {
  const phones = MAGIC_PHONES.map(({ magic, means }) => [`phone ending in \`${magic}\``, means])
  const emails = MAGIC_EMAILS.map(({ magic, means }) => [`e-mail \`${magic}@...\``, means])
  const { phone, email } = SANDBOX_REFUSALS
  const rows = [
    ...phones,
    ...emails,
    ['any other valid contact', '`valid`'],
    [`phone \`${phone.input}\``, phone.means],
    [`e-mail \`${email.input}...\``, email.means],
  ]
  return [...tableHead(['input with a test key', 'outcome']), ...rows.map(tableRow)].join('\n')
}

/** Claims that are not the reason of a verdict, in words. */
const CLAIMS: Readonly<Record<string, string>> = {
  carrier: 'the carrier, of `carrier-single` and `carrier-lookup`',
  mailbox_not_found_by_words: '`mailbox_not_found`, by the words of the reply alone',
  no_mail_service_by_words: '`no_mail_service`, by the words of the reply alone',
  mailbox_full_by_words: '`mailbox_full`, by the words of the reply alone',
  accepted_by_host: '`deliverable`, accepted by a large free host, where no other name is tried',
}

/** What supports each verdict, and how strongly. */
function renderConfidence (): string {
  const rows = Object.entries(SUPPORT).map(([claim, support]) => {
    const checks = Object.entries(support as Support).map(([check, outcomes]) =>
      `\`${check}\` ${Object.entries(outcomes).map(([outcome, weight]) =>
        `${outcome} ${weight}`).join(', ')}`)
    return tableRow([CLAIMS[claim] ?? `\`${claim}\``, checks.join('; ')])
  })
  return [...tableHead(['verdict', 'supported by']), ...rows].join('\n')
}

/** The columns that every job has. */
function renderColumns (): string {
  const names = [...STANDARD_COLUMNS, ...COMMON_COLUMNS]
  return [
    ...tableHead(['column', 'has']),
    ...names.map(name => tableRow([`\`${name}\``, COLUMNS[name].about])),
  ].join('\n')
}

/** The columns that services or options add, each with those that have it. */
function renderFurtherColumns (
  by: string, further: Readonly<Record<string, readonly (keyof typeof COLUMNS)[]>>
): string {
  const names = new Set(Object.values(further).flat())
  const rows = [...names].map((name) => {
    const having = Object.keys(further).filter(key => further[key]?.includes(name))
    return tableRow([
      `\`${name}\``, having.map(key => `\`${key}\``).join(', '), COLUMNS[name].about,
    ])
  })
  return [...tableHead(['column', by, 'has']), ...rows].join('\n')
}

/** The checks of a row and their outcomes. */
function renderChecks (): string {
  const rows = (meanings: Readonly<Record<string, string>>) =>
    Object.entries(meanings).map(([code, means]) => tableRow([`\`${code}\``, means]))
  return [
    ...tableHead(['check', 'examines']), ...rows(CHECKS), '',
    ...tableHead(['outcome', 'means']), ...rows(OUTCOME_MEANINGS),
  ].join('\n')
}

/** The ACLs of the user of each stage, by operation. */
function renderAccess (): string {
  const rows = STAGES.map(stage => {
    const rules = listAccessRules(stage)
    const named = (kind: AccessRule['kind'], operation: AccessRule['operation']) => rules
      .filter(rule => rule.kind === kind && rule.operation === operation)
      .map(({ name, prefix }) => `\`${name}${prefix ? '*' : ''}\``).join(', ') || '-'
    return tableRow([
      `\`${stage}\``, named('topic', 'read'), named('topic', 'write'), named('group', 'read'),
    ])
  })
  const head = tableHead(['user', 'READ on topics', 'WRITE on topics', 'READ, DELETE on groups'])
  return [...head, ...rows].join('\n')
}

/** The classes of root keys of each process. */
function renderKeyClasses (): string {
  const rows = Object.entries(PROCESS_KEYS).map(([name, classes]) => tableRow([
    `\`${name}\``, ...KEY_CLASSES.map(keyClass => classes.includes(keyClass) ? 'yes' : '-'),
  ]))
  return [...tableHead(['process', ...KEY_CLASSES]), ...rows].join('\n')
}

/** The commands of operators by group: their words, what they do, and what is recorded of them. */
function renderCommands (): string {
  const describe = (command: AdminCommand): readonly string[] => {
    const commands = command.commands as readonly AdminCommand[]
    if (commands.length > 0) return commands.flatMap(describe)
    const recorded = command.recording === null ? '-' : 'yes'
    return [tableRow([`\`${command.words}\``, command.description(), recorded])]
  }
  const commands = createAdminProgram().commands as readonly AdminCommand[]
  const groups = Map.groupBy(commands, command => command.helpGroup())
  return [...groups].map(([group, some]) => [
    ...tableHead([group.replace(':', ''), 'does', 'in the access log']), ...some.flatMap(describe),
  ].join('\n')).join('\n\n')
}

/** All pages with generated sections and the picture of the pipeline, up to date. */
async function renderDocuments (): Promise<ReadonlyMap<URL, string>> {
  const [head = [], ...permissions] = roleTable()
  const parts = {
    architecture: { drawing: renderDrawing(), topics: renderTopics() },
    commands: { operators: renderCommands() },
    configuration: { configuration: await renderConfiguration() },
    people: {
      roles: [...tableHead(head), ...permissions.map(tableRow)].join('\n'),
      routes: [...tableHead(['route', 'access', 'recorded as']), ...pageDefinitions().map(
        ({ name, access, records }) => tableRow([
          `\`${name}\``, `\`${access}\``, records ? `\`${records}\`` : '-',
        ]))].join('\n'),
    },
    results: {
      columns: renderColumns(),
      services: renderFurtherColumns('services', SERVICE_COLUMNS),
      options: renderFurtherColumns('option', OPTION_COLUMNS),
      checks: renderChecks(),
      confidence: renderConfidence(),
    },
    sandbox: { sandbox: renderSandbox() },
    keys: { keys: renderKeyClasses() },
    security: { access: renderAccess() },
  }
  const pages = Object.entries(parts).map(([name, made]) => {
    const file = page(name)
    return [file, fillParts(file, made)] as const
  })
  const picture = new URL('docs/images/pipeline.svg', import.meta.url)
  return new Map([...pages, [picture, renderPipeline()]])
}

function fillParts (file: URL, parts: Readonly<Record<string, string>>): string {
  let text = readFileSync(file, 'utf8')
  for (const [name, section] of Object.entries(parts)) {
    const [begin, end] = [`<!-- ${name} -->\n`, `\n<!-- /${name} -->`]
    const [before = '', rest] = text.split(begin)
    const after = rest?.split(end)[1]
    if (after === undefined) {
      throw new Error(`${file.pathname} has no part "${name}". ` +
        `Write <!-- ${name} --> and <!-- /${name} --> around it.`)
    }
    text = before + begin + section + end + after
  }
  return text
}

writeGenerated('readme', 'Generates what pages of the documentation repeat from the code.',
  await renderDocuments())
