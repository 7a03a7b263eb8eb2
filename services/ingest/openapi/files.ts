import { FileOptionsSchema } from '../../../schemas/api/file.ts'
import { mapOperations, type Content, type OpenApiDocument, type Operation } from './document.ts'

/** Operations whose body may be a file. */
const OPERATIONS: ReadonlySet<string | undefined> = new Set(['createJob', 'createQuote'])

const { metadata, ...options } = FileOptionsSchema.properties

const FILE = 'name,phone\r\nAnn,+12127365000\r\n'
const PHONES = { service: 'phone-validation', column: 'phone' }

/** The bodies of a file beside that of JSON. */
const CONTENT: Content = {
  'text/csv': {
    schema: {
      type: 'string',
      description: 'A CSV file in UTF-8, of at most 500 columns with 32 KiB of names, 64 KiB ' +
        'a line and 100,000 rows below its header. Its options are in the query.',
    },
    examples: { phones: { value: FILE } },
  },
  'multipart/form-data': {
    schema: {
      type: 'object',
      required: ['file', 'service'],
      properties: {
        file: {
          type: 'string',
          contentMediaType: 'text/csv',
          description: 'The same file, as the only part with a file name.',
        },
        ...options,
      },
      patternProperties: { '^metadata\\[.{1,40}\\]$': { type: 'string', maxLength: 500 } },
      additionalProperties: false,
    },
    examples: { phones: { value: { file: FILE, ...PHONES } } },
  },
}

/** The options of a file in the query, which `text/csv` reads. */
const PARAMETERS = [
  ...Object.entries<object>(options).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    description: 'With text/csv only, like its field in a form.',
    schema,
  })),
  {
    name: 'metadata',
    in: 'query',
    required: false,
    description: 'With text/csv only: metadata[name]=value. Labels of the client.',
    style: 'deepObject',
    explode: true,
    schema: metadata,
  },
]

/** Adds the media types of files to the operations that take them. */
export function withFiles (document: OpenApiDocument): OpenApiDocument {
  const paths = mapOperations(document.paths, operation =>
    OPERATIONS.has(operation.operationId) ? withFile(operation) : operation)
  return { ...document, paths }
}

function withFile (operation: Operation): Operation {
  const { requestBody, parameters = [], 'x-codeSamples': samples = [] } = operation
  const source = [
    `curl "$BASE/${operation.operationId === 'createJob' ? 'jobs' : 'quotes'}"`,
    '-H "Authorization: Bearer $KEY"',
    '-F file=@contacts.csv', '-F service=phone-validation', '-F column=phone',
  ].join(' \\\n  ')
  return {
    ...operation,
    parameters: [...parameters, ...PARAMETERS],
    requestBody: { ...requestBody, content: { ...requestBody?.content, ...CONTENT } },
    'x-codeSamples': [...samples, { lang: 'Shell', label: 'curl with a file', source }],
  }
}
