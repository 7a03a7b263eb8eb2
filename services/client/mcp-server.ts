import type { Readable, Writable } from 'node:stream'
import {
  type CallToolResult, fromJsonSchema, type JsonSchemaType, McpServer, type ServerContext,
} from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { failureMessage, money } from './terminal.ts'
import { type ToolInput, type ToolKey, TOOLS } from './mcp-tools.ts'
import type { ReportProgress, SessionDeps } from './mcp-files.ts'
import { createSession } from './mcp-session.ts'

const writeInstructions = (limitMicros: number) =>
  'Verifies phone numbers and e-mail addresses. Use verify_contacts for short lists and ' +
  `verify_file for CSV files. This session may spend ${money(limitMicros)}. Invalid, duplicate ` +
  'and cached contacts are free. Status unknown means that no verdict was possible; it is free, ' +
  'too.'

export type ServerDeps = SessionDeps & { readonly version: string }

/** Creates the MCP server with its tools. Errors become tool errors that say what to do. */
export function createMcpServer (deps: ServerDeps): McpServer {
  const { limitMicros } = deps.spending.figures()
  const server = new McpServer({ name: 'verification-jobs', version: deps.version }, {
    capabilities: { tools: {} }, instructions: writeInstructions(limitMicros),
  })
  const session = createSession(deps)
  const register = <K extends ToolKey>(key: K) => {
    const { name, input, output, ...description } = TOOLS[key]
    const inputSchema = fromJsonSchema<ToolInput<K>>(jsonOf(input))
    const outputSchema = fromJsonSchema(jsonOf(output))
    server.registerTool(name, { ...description, inputSchema, outputSchema },
      async (args, { mcpReq }) =>
        await toResult(async () => await session[key](args, createReporter(mcpReq))))
  }
  for (const key of Object.keys(TOOLS) as ToolKey[]) register(key)
  return server
}

/** Sends progress to a host that asked for it. The protocol allows none that does not increase. */
function createReporter (
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

async function toResult (call: () => Promise<object>): Promise<CallToolResult> {
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
