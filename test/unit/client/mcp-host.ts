import { PassThrough } from 'node:stream'
import { createInterface } from 'node:readline'
import { Client as McpClient, type Transport } from '@modelcontextprotocol/client'
import { serveMcp } from '../../../services/client/mcp-server.ts'
import {
  createSpending, type ToolKey, type ToolOutput, TOOLS,
} from '../../../services/client/mcp-tools.ts'
import { createFakeService, type FakeOptions } from './fake-service.ts'

export type Session = {
  /** The session may spend this; each contact of the service costs 5 micros. */
  readonly limitMicros?: number
  readonly fake?: FakeOptions
}

/** Calls tools of a session by their names in code. */
export const toolCaller = (host: McpClient) => async <K extends ToolKey>(
  key: K, args: Record<string, unknown> = {}
) => {
  const { content, structuredContent, isError = false } =
    await host.callTool({ name: TOOLS[key].name, arguments: args })
  const [first] = content as readonly { readonly text: string }[]
  return { isError, text: first?.text ?? '', output: structuredContent as ToolOutput<K> }
}

/** A host in a session on streams, which verifies files below a folder. */
export async function connectHost (
  folder: string, { limitMicros = 1_000, fake = {} }: Session = {}
) {
  const service = createFakeService(fake)
  const [input, output] = [new PassThrough(), new PassThrough()]
  const served = serveMcp({
    client: service.client,
    spending: createSpending(limitMicros),
    account: { baseUrl: 'http://there', key: 'digest' },
    folder,
    say: () => {},
    pollEveryMs: 0,
    version: '1.2.3',
  }, { input, output }, new Promise(() => {}))
  const transport: Transport = {
    start: async () => {
      createInterface({ input: output }).on('line', line => {
        transport.onmessage?.(JSON.parse(line))
      })
    },
    send: async message => { input.write(`${JSON.stringify(message)}\n`) },
    close: async () => {
      input.end()
      await served
    },
  }
  const host = new McpClient({ name: 'test', version: '1' })
  await host.connect(transport)
  return { host, call: toolCaller(host), service }
}
