import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

export type TraceReceiver = {
  /** The value of OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly endpoint: string
  /** Everything that came, byte by byte: texts stand in clear in what services send. */
  readonly text: () => string
  readonly stop: () => Promise<void>
}

/** Takes spans over OTLP as a collector does, and keeps them as they came. */
export async function startTraceReceiver (): Promise<TraceReceiver> {
  const bodies: Buffer[] = []
  const server = createServer((request, response) => {
    buffer(request).then(body => {
      if (request.url === '/v1/traces') bodies.push(body)
      // An empty message confirms that all of it was accepted.
      response.setHeader('content-type', 'application/x-protobuf').end()
    }, () => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    text: () => Buffer.concat(bodies).toString('latin1'),
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>(resolve => { server.close(() => resolve()) })
    },
  }
}
