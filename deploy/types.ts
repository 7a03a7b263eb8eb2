import { readdirSync, readFileSync } from 'node:fs'
import { writeGenerated } from './generated.ts'

type Avro = string | readonly Avro[] | {
  readonly type: Avro
  readonly logicalType?: string
  readonly items?: Avro
  readonly fields?: readonly Field[]
}
type Field = { readonly name: string, readonly type: Avro, readonly doc?: string }
type RecordSchema = {
  readonly name: string
  readonly doc: string
  readonly fields: readonly Field[]
}

const folder = new URL('../schemas/', import.meta.url)
const primitives: Readonly<Record<string, string>> = {
  string: 'string',
  int: 'number',
  long: 'number',
  boolean: 'boolean',
  bytes: 'Buffer',
  null: 'null',
}

function toType (avro: Avro): string {
  if (typeof avro === 'string') return primitives[avro] ?? avro
  if (Array.isArray(avro)) return avro.map(toType).join(' | ')
  const { type, logicalType, items, fields } = avro as Exclude<Avro, string | readonly Avro[]>
  if (logicalType === 'texts') return 'readonly string[]'
  if (items !== undefined) return `readonly ${toArrayItem(toType(items))}[]`
  if (fields !== undefined) {
    return `{ ${fields.map(field => `readonly ${field.name}: ${toType(field.type)}`).join(', ')} }`
  }
  return toType(type)
}

function toArrayItem (item: string): string {
  return item.includes('|') ? `(${item})` : item
}

/** Nullable records and lists of texts are null when read, and optional when written. */
function isOptional ({ type }: Field): boolean {
  return Array.isArray(type) && type[0] === 'null' && typeof type[1] === 'object' &&
    ('fields' in type[1] || ('items' in type[1] && type[1].items === 'string'))
}

/** Only services write the topics with rows, and name a service that there is. */
function renderDeclaration (schema: RecordSchema, hasRows: boolean): string {
  const typeOf = ({ name, type }: Field) =>
    hasRows && name === 'service' ? 'ServiceSlug' : toType(type)
  const fields = schema.fields.map(field => `  /** ${field.doc ?? ''} */\n` +
    `  readonly ${field.name}${isOptional(field) ? '?' : ''}: ${typeOf(field)}`)
  return `/** ${schema.doc} */\nexport type ${schema.name} = {\n${fields.join('\n')}\n}\n`
}

function toMapType (name: string, doc: string, entries: readonly string[]): string {
  return `/** ${doc} */\nexport type ${name} = {\n${entries.join('\n')}\n}\n`
}

function renderTypes (): string {
  const files = readdirSync(folder).filter(file => file.endsWith('.avsc')).sort()
  const schemas = files.map(file => ({
    topic: file.replace('.avsc', ''),
    schema: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as RecordSchema,
  }))
  const entry = (topic: string, { name }: RecordSchema) =>
    `  ${topic.includes('.') ? `'${topic}'` : topic}: ${name}`
  const isRows = (topic: string) => topic.endsWith('-rows')
  const values = schemas.filter(({ topic }) => !isRows(topic))
    .map(({ topic, schema }) => entry(topic, schema))
  const rows = schemas.filter(({ topic }) => isRows(topic))
    .map(({ topic, schema }) => entry(topic.replace('-rows', ''), schema))
  return [
    '// Generated from the .avsc files by `npm run types`; do not edit.\n',
    "import type { ServiceSlug } from './api/parts.ts'\n",
    ...schemas.map(({ topic, schema }) =>
      renderDeclaration(schema, files.includes(`${topic}-rows.avsc`))),
    toMapType('Values', 'The readable value of each topic.', values),
    toMapType('SealedRows', 'What is sealed in the values of each topic that carries rows.', rows),
  ].join('\n')
}

writeGenerated('types', 'Generates schemas/types.ts from all .avsc files.',
  new Map([[new URL('types.ts', folder), renderTypes()]]))
