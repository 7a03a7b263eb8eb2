import { PassThrough } from 'node:stream'
import { createInterface } from 'node:readline'
import { Client as McpClient, type Transport } from '@modelcontextprotocol/client'
import { createSpending, serveMcp } from '../../../services/client/mcp.ts'
import { createFakeService, type FakeOptions } from './fake-service.ts'

/** The fields of the results of tools that tests read one by one. */
type Output = {
  readonly output: string
  readonly job: { readonly id: string, readonly chargedMicros: number }
  readonly jobs: readonly string[]
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly next_cursor: string | null
  readonly chargedMicros: number
  readonly spending: { readonly remainingMicros: number, readonly reservedMicros: number }
}

export type Session = {
  /** The session may spend this; each contact of the service costs 5 micros. */
  readonly limitMicros?: number
  readonly fake?: FakeOptions
}

/** Calls tools of a session. */
export const toolCaller = (host: McpClient) => async (
  name: string, args: Record<string, unknown> = {}
) => {
  const { content, structuredContent: output, isError = false } =
    await host.callTool({ name, arguments: args })
  const [first] = content as readonly { readonly text: string }[]
  return { isError, text: first?.text ?? '', output: output as Output }
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
