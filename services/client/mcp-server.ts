import type { Readable, Writable } from 'node:stream'
import {
  type CallToolResult, fromJsonSchema, type JsonSchemaType, McpServer, type ServerContext,
  type ToolAnnotations,
} from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { failureMessage, money } from './terminal.ts'
import { INPUTS, OUTPUTS, type ToolInput, type ToolKey } from './mcp-schemas.ts'
import type { ReportProgress, SessionDeps } from './mcp-files.ts'
import { createSession } from './mcp-session.ts'

type Description = {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly annotations: ToolAnnotations
}

const READS: ToolAnnotations = { readOnlyHint: true, openWorldHint: false }
const SPENDS: ToolAnnotations = {
  readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true,
}

/** The tools as hosts list them. */
export const TOOLS: Readonly<Record<ToolKey, Description>> = {
  verifyContacts: {
    name: 'verify_contacts',
    title: 'Verify contacts',
    description: 'Verifies up to 100 phone numbers or e-mail addresses of one kind and returns a ' +
      'row for each. Costs money within the spending limit of the session.',
    annotations: SPENDS,
  },
  verifyFile: {
    name: 'verify_file',
    title: 'Verify a CSV file',
    description: 'Verifies a column of a CSV file and writes a copy with the results beside it, ' +
      'FILE.verified.csv. Costs money within the spending limit of the session. For long files ' +
      'call it with the same arguments until ended is true.',
    annotations: SPENDS,
  },
  getJob: {
    name: 'get_job',
    title: 'Status of a job',
    description: 'Returns the status, progress and price of a job.',
    annotations: READS,
  },
  getResults: {
    name: 'get_results',
    title: 'Results of a job',
    description: 'Returns result rows of a job that has ended, a page at a time.',
    annotations: READS,
  },
  getBalance: {
    name: 'get_balance',
    title: 'Balance',
    description: 'Returns the balance of the organization and what this session may still spend.',
    annotations: READS,
  },
}

const instructionsOf = (limitMicros: number) =>
  'Verifies phone numbers and e-mail addresses. Use verify_contacts for short lists and ' +
  `verify_file for CSV files. This session may spend ${money(limitMicros)}. Invalid, duplicate ` +
  'and cached contacts are free. Status unknown means that no verdict was possible; it is free, ' +
  'too.'

export type ServerDeps = SessionDeps & { readonly version: string }

/** Creates the MCP server with its tools. Errors become tool errors that say what to do. */
export function createMcpServer (deps: ServerDeps): McpServer {
  const { limitMicros } = deps.spending.figures()
  const server = new McpServer({ name: 'verification-jobs', version: deps.version }, {
    capabilities: { tools: {} }, instructions: instructionsOf(limitMicros),
  })
  const session = createSession(deps)
  const register = <K extends ToolKey>(key: K) => {
    const { name, ...description } = TOOLS[key]
    const inputSchema = fromJsonSchema<ToolInput<K>>(jsonOf(INPUTS[key]))
    const outputSchema = fromJsonSchema(jsonOf(OUTPUTS[key]))
    server.registerTool(name, { ...description, inputSchema, outputSchema },
      async (args, { mcpReq }) =>
        await resultOf(async () => await session[key](args, reporterOf(mcpReq))))
  }
  for (const key of Object.keys(TOOLS) as ToolKey[]) register(key)
  return server
}

/** Sends progress to a host that asked for it. The protocol allows none that does not increase. */
function reporterOf (
  { _meta, notify }: Pick<ServerContext['mcpReq'], '_meta' | 'notify'>
): ReportProgress | undefined {
  const progressToken = _meta?.progressToken
  if (progressToken === undefined) return undefined
  let last = 0
  return ({ done, rows }) => {
    if (done <= last) return
    last = done
    const params = { progressToken, progress: done, total: rows }
    // A host that is gone gets no result either.
    notify({ method: 'notifications/progress', params }).catch(() => {})
  }
}

/** A schema without the properties that are not JSON. */
const jsonOf = (schema: object) => JSON.parse(JSON.stringify(schema)) as JsonSchemaType

async function resultOf (call: () => Promise<object>): Promise<CallToolResult> {
  try {
    const output = await call()
    return { content: [textOf(JSON.stringify(output))], structuredContent: { ...output } }
  } catch (error) {
    const message = failureMessage(error)
    if (message === undefined) throw error
    return { content: [textOf(withHint(message))], isError: true }
  }
}

const textOf = (text: string) => ({ type: 'text' as const, text })

/** Messages of the command name its options. */
const withHint = (message: string) => /(^|\s)--(column|service|country|restart)\b/.test(message)
  ? `${message} Options such as --column are arguments of this tool here; --restart is replace.`
  : message

type Streams = { readonly input: Readable, readonly output: Writable }

/** Serves MCP on these streams until the input ends or `stop` resolves. */
export async function serveMcp (
  deps: ServerDeps, { input, output }: Streams, stop: Promise<void>
): Promise<void> {
  const ended = new Promise<void>(resolve => {
    input.once('end', resolve)
    input.once('close', resolve)
  })
  const transport = new StdioServerTransport(input, output)
  const handle = serveStdio(() => createMcpServer(deps), {
    transport,
    onerror: error => { deps.say(`MCP: ${error.message}`) },
  })
  await Promise.race([ended, stop])
  await handle.close()
}
