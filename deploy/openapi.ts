import { readFileSync } from 'node:fs'
import { API_VERSION } from '../schemas/api/parts.ts'
import type { OpenApiDocument } from '../services/ingest/openapi.ts'
import { openapiSource } from '../services/ingest/routes.ts'
import { writeGenerated } from './generated.ts'

const [DOCUMENT, CHANGELOG] = ['openapi.json', 'CHANGELOG.md']
  .map(name => new URL(`../schemas/api/${name}`, import.meta.url)) as [URL, URL]

const read = (file: URL) => readFileSync(file, 'utf8')

/** The operations of a document, with their summaries. */
function readOperations (text: string): ReadonlyMap<string, string> {
  const { paths } = JSON.parse(text) as OpenApiDocument
  return new Map(Object.entries(paths).flatMap(([path, item]) => Object.entries(item)
    .map(([method, { summary = '' }]) => [`${method.toUpperCase()} ${path}`, summary])))
}

const source = openapiSource()
const before = readOperations(read(DOCUMENT))
const today = new Date().toISOString().slice(0, 10)
// An entry may be reworded: it is written once, when its operation is new in the document.
const entries = [...readOperations(source)].filter(([name]) => !before.has(name))
  .map(([name, summary]) => `- ${today}: \`${name}\`: ${summary}.\n`)
const heading = `## Within ${API_VERSION}\n\n`
const changelog = read(CHANGELOG).replace(heading, () => heading + entries.join(''))

writeGenerated('openapi', 'Generates the OpenAPI document from the routes and their schemas, and ' +
  'an entry of the changelog for each operation that is new in it.',
new Map([[DOCUMENT, source], [CHANGELOG, changelog]]))
